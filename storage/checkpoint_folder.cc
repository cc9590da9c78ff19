#include "meshwork/storage/checkpoint_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <system_error>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/storage/file.h"

namespace meshwork {
namespace {

constexpr std::string_view kStepPrefix = "step-", kPartialPrefix = "partial-", kRemovedPrefix = "removed-";

absl::Status FolderError(const std::string& path, std::string_view what, int error) {
  return absl::Status(absl::ErrnoToStatusCode(error),
                      fmt::format("{}: {}: {}.", path, what, std::generic_category().message(error)));
}

// The step of a checkpoint's folder; -1 if the name is another one.
int64_t StepOf(const std::string& name) {
  if (!name.starts_with(kStepPrefix)) return -1;
  int64_t step = -1;
  const char* const begin = name.data() + kStepPrefix.size();
  const char* const end = name.data() + name.size();
  const auto [last, error] = std::from_chars(begin, end, step);
  return error == std::errc() && last == end && step >= 0 ? step : -1;
}

absl::StatusOr<std::vector<std::string>> NamesIn(const std::string& dir) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator it(dir, error), end; !error && it != end; it.increment(error))
    names.push_back(it->path().filename().string());
  if (error) return FolderError(dir, "cannot be read", error.value());
  return names;
}

std::string HostAndProcess() {
  char host[256] = {};
  if (gethostname(host, sizeof(host) - 1) != 0) host[0] = '\0';
  return fmt::format("process {} on {}", getpid(), host);
}

}  // namespace

std::string CheckpointName(int64_t step) { return fmt::format("{}{:012}", kStepPrefix, step); }

std::string ShardName(int64_t shard, int64_t num_shards) {
  return fmt::format("shard-{:05}-of-{:05}.safetensors", shard, num_shards);
}

absl::StatusOr<CheckpointIndex> ReadCheckpointIndex(const std::string& path) {
  const std::string file = path + "/index.json";
  MESHWORK_ASSIGN_OR_RETURN(const std::string text, ReadFile(file));
  MESHWORK_ASSIGN_OR_RETURN(CheckpointIndex index, CheckpointIndexFromJson(text, file));
  for (const CheckpointShard& shard : index.shards) {
    const std::string shard_path = fmt::format("{}/{}", path, shard.file);
    MESHWORK_ASSIGN_OR_RETURN(const InputFile opened, InputFile::Open(shard_path));
    if (opened.size() != shard.bytes)
      return InvalidArgument("{}: has {} and not the {} that the index says; the checkpoint is damaged.",
                             shard_path, Count(opened.size(), "byte"), shard.bytes);
  }
  return index;
}

absl::StatusOr<std::vector<FoundCheckpoint>> ListCheckpoints(const std::string& dir) {
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(dir));
  std::vector<FoundCheckpoint> found;
  for (const std::string& name : names) {
    const int64_t step = StepOf(name);
    if (step < 0) continue;
    const std::string path = fmt::format("{}/{}", dir, name);
    found.push_back({path, step, ReadCheckpointIndex(path)});
  }
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return std::tie(b.step, b.path) < std::tie(a.step, a.path); });
  return found;
}

absl::StatusOr<std::string> FindCheckpoint(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::exists(path + "/index.json", ignored)) return path;
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<FoundCheckpoint> found, ListCheckpoints(path));
  for (const FoundCheckpoint& checkpoint : found)
    if (checkpoint.index.ok()) return checkpoint.path;
  if (found.empty()) return absl::NotFoundError(fmt::format("{}: there is no checkpoint.", path));
  return Annotate(found[0].index.status(), fmt::format("{}: none of {} can be used; the newest: ", path,
                                                       Count(std::ssize(found), "checkpoint")));
}

absl::Status RemoveCheckpoint(const std::string& path) {
  const std::filesystem::path whole(path);
  const std::string removed =
      (whole.parent_path() / fmt::format("{}{}", kRemovedPrefix, whole.filename().string())).string();
  std::error_code error;
  std::filesystem::remove_all(removed, error);
  MESHWORK_RETURN_IF_ERROR(RenameFolder(path, removed));
  std::filesystem::remove_all(removed, error);
  return error ? FolderError(removed, "cannot be removed", error.value()) : absl::OkStatus();
}

void RemoveLeftovers(const std::string& dir) {
  const absl::StatusOr<std::vector<std::string>> names = NamesIn(dir);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    if (!name.starts_with(kPartialPrefix) && !name.starts_with(kRemovedPrefix)) continue;
    std::error_code ignored;
    std::filesystem::remove_all(fmt::format("{}/{}", dir, name), ignored);
  }
}

absl::StatusOr<CheckpointLock> CheckpointLock::Take(const std::string& dir) {
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  if (error) return FolderError(dir, "cannot be made", error.value());
  const std::string path = dir + "/lock";
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) return FolderError(path, "cannot be written", errno);
  CheckpointLock lock(fd);
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return FolderError(path, "cannot be locked", errno);
    const absl::StatusOr<std::string> holder = ReadFile(path);
    return absl::AlreadyExistsError(
        fmt::format("{}: another job writes its checkpoints there: {}. Give each job a folder of its own.",
                    dir, holder.ok() && !holder->empty() ? *holder : "it has not said which"));
  }
  const std::string self = HostAndProcess();
  if (ftruncate(fd, 0) != 0 || pwrite(fd, self.data(), self.size(), 0) != std::ssize(self))
    return FolderError(path, "cannot be written", errno);
  return lock;
}

}  // namespace meshwork
