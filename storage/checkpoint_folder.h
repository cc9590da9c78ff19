// A folder of checkpoints.
//
//   runs/a/step-000000000100/index.json                            // storage/checkpoint_index.h
//   runs/a/step-000000000100/shard-00000-of-00002.safetensors
//   runs/a/step-000000000200/…
//   runs/a/partial-5f3a-7/…                                        // one that is being written
//   runs/a/lock                                                    // of the job that writes here
//
// A checkpoint is written under another name and renamed when it is complete. One that is removed is renamed first. So a
// folder that is called step-… is complete, unless something else has damaged it.
//
// Thread safety: functions may be called from any thread; CheckpointLock belongs to one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/base/fork.h"
#include "meshwork/storage/checkpoint_index.h"

namespace meshwork {

// Of the folder of a checkpoint: "step-000000000100".
std::string CheckpointName(int64_t step);
// "shard-00000-of-00002.safetensors".
std::string ShardName(int64_t shard, int64_t num_shards);

struct FoundCheckpoint {
  std::string path;
  int64_t step = 0;
  absl::StatusOr<CheckpointIndex> index;  // or why it cannot be used
};

// The index of the checkpoint in this folder. Errors: it cannot be read; those of CheckpointIndexFromJson; a shard is
// missing or has another size.
absl::StatusOr<CheckpointIndex> ReadCheckpointIndex(const std::string& path);

// The newest first, by step; those that are damaged, too. Error: the folder cannot be read.
absl::StatusOr<std::vector<FoundCheckpoint>> ListCheckpoints(const std::string& dir);

// `path` itself if it is a checkpoint, else the newest checkpoint in it that can be used. Error: there is none, with
// what is wrong with those that are there.
absl::StatusOr<std::string> FindCheckpoint(const std::string& path);

// Removes a checkpoint: first its name, so that it is never half there. Errors: those of the system.
absl::Status RemoveCheckpoint(const std::string& path);

// Removes what killed writers and RemoveCheckpoint left in the folder, as far as the system lets it.
// REQUIRES: nobody else writes there (CheckpointLock).
void RemoveLeftovers(const std::string& dir);

// While it lives, no other job writes into the folder. The system ends it with the process; children of a fork do not
// have it.
class CheckpointLock {
 public:
  // Makes the folder where it is missing. Errors: another process has it, with its host and number; those of the system.
  static absl::StatusOr<CheckpointLock> Take(const std::string& dir);

 private:
  explicit CheckpointLock(int fd) : fd_(fd) {}
  UninheritedFd fd_;
};

}  // namespace meshwork
