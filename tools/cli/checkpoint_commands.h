// The commands of meshwork checkpoint, one file each: tools/checkpoint_<name>.cc; and functions that they share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/storage/checkpoint.h"
#include "meshwork/storage/checkpoint_folder.h"
#include "tools/cli/commands.h"

namespace meshwork::tools {

absl::Status ListFolder(Arguments args);
absl::Status VerifyCheckpoints(Arguments args);
absl::Status DiffCheckpoints(Arguments args);
absl::Status ConvertCheckpoint(Arguments args);
absl::Status ReshardCheckpoint(Arguments args);

// The description of CHECKPOINT in each command's help.
inline constexpr const char* kCheckpointHelp =
    "a checkpoint, or a folder of checkpoints, of which the newest is taken";

// Whether this is the folder of one checkpoint, and not of several.
bool IsCheckpoint(const std::string& path);

// The checkpoints in a folder, the newest first. Error: it is no folder, or cannot be read.
absl::StatusOr<std::vector<FoundCheckpoint>> CheckpointsIn(const std::string& path);

// Opens a checkpoint and checks that its bytes are those that were written. A command that makes new files of it
// needs this, as their new hashes would hide damage.
absl::StatusOr<Checkpoint> OpenVerified(const std::string& path);

// Error: `dir` has a checkpoint of this step; --force replaces it.
absl::Status CheckNotThere(const std::string& dir, int64_t step);

// ---- Texts.

std::string BytesToString(int64_t bytes);  // "123 B", "1.21 MiB"
// Rows of equally many cells, the first one the titles, in columns. `numbers`: which columns are aligned to the right.
std::string Table(const std::vector<std::vector<std::string>>& rows, const std::vector<size_t>& numbers);

}  // namespace meshwork::tools
