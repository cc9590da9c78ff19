// meshwork checkpoint.
#include <algorithm>
#include <filesystem>
#include <system_error>

#include "meshwork/base/status.h"
#include "tools/cli/checkpoint_commands.h"
#include "tools/cli/program_file.h"
#include "tools/cli/progress_line.h"

namespace meshwork::tools {
namespace {

constexpr Command kCommands[] = {
    {"ls", "list the checkpoints of a folder, or the variables of a checkpoint", ListFolder},
    {"verify", "check that checkpoints are what was written", VerifyCheckpoints},
    {"diff", "compare the variables of two checkpoints", DiffCheckpoints},
    {"convert", "make a safetensors file of a checkpoint, or a checkpoint of a safetensors file",
     ConvertCheckpoint},
    {"reshard", "write a checkpoint anew, in other pieces", ReshardCheckpoint},
};

constexpr CommandTable kTable = {
    .program = "meshwork checkpoint",
    .about = "Lists, checks, compares, converts and cuts anew the checkpoints that trainings have saved.",
    .commands = kCommands,
    .end = "meshwork checkpoint COMMAND --help says more.\n"};

// Columns on a terminal, if every character takes one.
size_t WidthOf(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

}  // namespace

absl::Status Checkpoints(Arguments args) { return RunOneOf(kTable, args); }

bool IsCheckpoint(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path + "/index.json", ignored);
}

absl::StatusOr<std::vector<FoundCheckpoint>> CheckpointsIn(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored) && !std::filesystem::is_directory(path, ignored))
    return InvalidArgument("{}: is a file; give a folder of checkpoints, or the folder of a checkpoint.",
                           path);
  absl::StatusOr<std::vector<FoundCheckpoint>> found = ListCheckpoints(path);
  if (!found.ok()) return BadInput(found.status());
  return found;
}

absl::StatusOr<Checkpoint> OpenVerified(const std::string& path) {
  MESHWORK_ASSIGN_OR_RETURN(Checkpoint checkpoint, Checkpoint::Open(path));
  int64_t bytes = 0;
  for (const CheckpointShard& shard : checkpoint.index().shards) bytes += shard.bytes;
  ProgressLine progress("verifying", bytes);
  MESHWORK_RETURN_IF_ERROR(checkpoint.Verify(0, 1, [&](int64_t more) { progress.Add(more); }));
  return checkpoint;
}

absl::Status CheckNotThere(const std::string& dir, int64_t step) {
  const std::string path = fmt::format("{}/{}", dir, CheckpointName(step));
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return absl::OkStatus();
  return InvalidArgument("{}: is there already; --force replaces it.", path);
}

std::string BytesToString(int64_t bytes) {
  constexpr int64_t kWhole = 10000;  // below, all digits are shown
  if (bytes < kWhole) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024;
  const char* unit = "KiB";
  for (const char* larger : {"MiB", "GiB", "TiB", "PiB"}) {
    if (value < 999.5) break;
    value /= 1024;
    unit = larger;
  }
  return fmt::format("{:.{}f} {}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0, unit);
}

std::string Table(const std::vector<std::vector<std::string>>& rows, const std::vector<size_t>& numbers) {
  std::vector<size_t> widths(rows[0].size());
  for (const auto& row : rows)
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], WidthOf(row[c]));
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string padding(widths[c] - WidthOf(row[c]), ' ');
      const bool is_number = std::find(numbers.begin(), numbers.end(), c) != numbers.end();
      line += (c == 0 ? "" : "  ") + (is_number ? padding + row[c] : row[c] + padding);
    }
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return out;
}

}  // namespace meshwork::tools
