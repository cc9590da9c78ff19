// How a store is saved, and how it continues from a checkpoint.
#include <filesystem>
#include <string_view>
#include <system_error>

#include "meshwork/base/io/file.h"
#include "meshwork/base/random_name.h"
#include "meshwork/base/status.h"
#include "meshwork/session/save_restore.h"
#include "meshwork/storage/checkpoint_writer.h"
#include "meshwork/train/parameter_server/shard_store.h"

namespace meshwork {
namespace {

constexpr std::string_view kTaken = "taken from ";

// "server-0-of-2".
constexpr std::string_view kOf = "-of-";

}  // namespace

std::string ShardStore::Folder() const {
  return fmt::format("{}/server-{}{}{}", options_.folder, options_.server, kOf, num_servers_);
}

absl::StatusOr<int64_t> ShardStore::Save() {
  if (options_.folder.empty())
    return absl::FailedPreconditionError(fmt::format(
        "ShardStore {}: it has no folder to save in; give ShardStoreOptions::folder (ParameterServerOptions::folder) where "
        "the server is started.",
        options_.server));
  const std::lock_guard one_at_a_time(saving_);
  const std::string dir = Folder();
  MESHWORK_RETURN_IF_ERROR(MakeFolders(dir));
  MESHWORK_ASSIGN_OR_RETURN(const std::unique_ptr<CheckpointWriter> writer,
                            CheckpointWriter::Open({.dir = dir, .job = RandomName(), .keep = options_.keep}));
  CheckpointNote note;
  {
    // The writer copies the values; pushes go on while it writes them.
    const std::lock_guard lock(mutex_);
    note.step = version_;
    for (const auto& [pusher, taken] : taken_)
      note.facts[fmt::format("{}{}", kTaken, pusher)] = taken.ToString();
    MESHWORK_RETURN_IF_ERROR(writer->Begin(note, session_.State()));
  }
  MESHWORK_RETURN_IF_ERROR(writer->Wait());
  return note.step;
}

absl::Status ShardStore::Restore() {
  MESHWORK_RETURN_IF_ERROR(MakeFolders(options_.folder));
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(options_.folder, ignored)) {
    const std::string name = entry.path().filename().string();
    const std::string ending = fmt::format("{}{}", kOf, num_servers_);
    if (name.starts_with("server-") && name.find(kOf) != std::string::npos && !name.ends_with(ending))
      return InvalidArgument(
          "ShardStore {}: the folder \"{}\" has \"{}\", of another number of servers, and there {} {} now; give as many as "
          "then, or another folder.",
          options_.server, options_.folder, name, num_servers_ == 1 ? "is" : "are", num_servers_);
  }
  const std::string dir = Folder();
  MESHWORK_RETURN_IF_ERROR(MakeFolders(dir));
  MESHWORK_ASSIGN_OR_RETURN(const std::optional<CheckpointNote> note, RestoreState(session_.Here(), dir, {}));
  if (!note.has_value()) return absl::OkStatus();
  version_ = note->step;
  for (const auto& [name, value] : note->facts) {
    if (!name.starts_with(kTaken)) continue;
    MESHWORK_ASSIGN_OR_RETURN(taken_[name.substr(kTaken.size())], SequenceSet::Parse(value));
  }
  return absl::OkStatus();
}

}  // namespace meshwork
