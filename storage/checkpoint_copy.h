// Writes a checkpoint whose elements do not come from a program, but from another checkpoint or a file.
//
//   CheckpointIndex index = saved.index();                  // with its variables in other pieces, in 2 shards
//   WriteCheckpoint("runs/b", index, /*num_shards=*/2,      // runs/b/step-000000000100
//                   [&](const CheckpointVariable& variable, const Block& box) { return saved.Read(variable.name, box); });
//
// Only one piece lies in memory at a time. The checkpoint gets its name when it is complete, has been read back and
// verified, as in storage/checkpoint_folder.h.
//
// Thread safety: that of files (base/io/file.h).
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/runtime/tensor/tensor.h"
#include "meshwork/storage/checkpoint.h"
#include "meshwork/storage/checkpoint_index.h"

namespace meshwork {

// The elements of a piece, as a tensor of the variable's dtype and the box's shape.
using ReadPiece = std::function<absl::StatusOr<Tensor>(const CheckpointVariable& variable, const Block& box)>;

struct WriteCheckpointOptions {
  bool replace = false;  // a checkpoint of the same step, which otherwise is an error
  // Looks at the checkpoint before it gets its name. Its error ends the write.
  std::function<absl::Status(const Checkpoint& written)> check = {};
};

// Returns the path of the new checkpoint in the folder `dir`, which is made where it is missing. The shards, the
// version and the time in `index` are set anew. Nobody else may write into the folder meanwhile. Errors, after which
// the folder has the checkpoints that it had: there is a checkpoint of this step; those of CheckpointLock::Take,
// StreamSafetensors and ToJson; those of `read` and of the check; the written checkpoint reads back differently.
// REQUIRES: num_shards >= 1; the pieces of each variable cover it once, in shards below num_shards; the variables are
// sorted by name.
absl::StatusOr<std::string> WriteCheckpoint(const std::string& dir, CheckpointIndex index, int64_t num_shards,
                                            const ReadPiece& read,
                                            const WriteCheckpointOptions& options = {});

}  // namespace meshwork
