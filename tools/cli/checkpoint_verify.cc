// meshwork checkpoint verify.
#include <cstdio>
#include <string>
#include <vector>

#include "meshwork/base/quote.h"
#include "meshwork/base/status.h"
#include "meshwork/storage/checkpoint_folder.h"
#include "tools/cli/checkpoint_commands.h"
#include "tools/cli/progress_line.h"

namespace meshwork::tools {
namespace {

// Checks all files, also behind one that is damaged. Returns a line for the user, and counts what is wrong.
std::string Check(const std::string& path, int64_t& wrong) {
  const absl::StatusOr<Checkpoint> checkpoint = Checkpoint::Open(path);
  if (!checkpoint.ok()) {
    ++wrong;
    return fmt::format("{}: cannot be used: {}\n", path, PrintableLines(MessageOf(checkpoint.status())));
  }
  const CheckpointIndex& index = checkpoint->index();
  int64_t bytes = 0;
  for (const CheckpointShard& shard : index.shards) bytes += shard.bytes;
  std::string lines;
  {
    ProgressLine progress(path, bytes);
    for (int64_t s = 0; s < std::ssize(index.shards); ++s) {
      const absl::Status status =
          checkpoint->Verify(s, std::ssize(index.shards), [&](int64_t more) { progress.Add(more); });
      if (!status.ok())
        lines += fmt::format("{}: cannot be used: {}\n", path, PrintableLines(MessageOf(status)));
    }
  }
  wrong += !lines.empty();
  if (!lines.empty()) return lines;
  return fmt::format("{}: complete: {}, {} in {}\n", path, Count(std::ssize(index.variables), "variable"),
                     BytesToString(bytes), Count(std::ssize(index.shards), "shard"));
}

}  // namespace

absl::Status VerifyCheckpoints(Arguments args) {
  std::string path;
  FlagTable flags(
      "meshwork checkpoint verify",
      "Checks each checkpoint of a folder, or one: its index has the right form, its files are there and\n"
      "have the pieces that the index says, and the SHA-256 of each is what its writer noted. Exit code 1\n"
      "if one is damaged, or cannot be used for another reason.");
  flags.Positional("PATH", "a folder of checkpoints, or a checkpoint", &path);
  if (const auto done = Parse(flags, args)) return *done;
  std::vector<std::string> paths = {path};
  if (!IsCheckpoint(path)) {
    MESHWORK_ASSIGN_OR_RETURN(const std::vector<FoundCheckpoint> found, CheckpointsIn(path));
    paths.clear();
    for (const FoundCheckpoint& checkpoint : found) paths.push_back(checkpoint.path);
    if (paths.empty()) return NoCheckpoint(path);
  }
  int64_t wrong = 0;
  for (const std::string& checkpoint : paths) {
    fmt::print("{}", Check(checkpoint, wrong));
    std::fflush(stdout);
  }
  if (wrong == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("{}: {} of {} cannot be used.", path, wrong, Count(std::ssize(paths), "checkpoint")));
}

}  // namespace meshwork::tools
