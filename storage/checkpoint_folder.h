// A folder of checkpoints.
//
//   runs/a/step-000000000100/index.json                            // storage/checkpoint_index.h
//   runs/a/step-000000000100/shard-00000-of-00002.safetensors
//   runs/a/step-000000000200/…
//   runs/a/partial-5f3a-7/…                                        // one that is being written
//   runs/a/lock                                                    // of the job that writes here
//
// A checkpoint is written under another name and renamed when it is complete. One that is removed is renamed first,
// removed-…. So a folder that is called step-… is complete, unless something else has damaged it. A file system that cannot
// exchange two folders (NFS) needs a moment between two checkpoints of the same step: then the older one is called
// replaced-step-…, is complete, and found like others.
//
// Thread safety: functions may be called from any thread; CheckpointLock belongs to one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/base/fork.h"
#include "meshwork/storage/checkpoint_index.h"

namespace meshwork {

// Of the folder of a checkpoint: "step-000000000100".
std::string CheckpointName(int64_t step);
// Of one that is being written, the job's so many-th: "partial-5f3a-7".
std::string PartialName(const std::string& job, int64_t number);
// "shard-00000-of-00002.safetensors".
std::string ShardName(int64_t shard, int64_t num_shards);

struct FoundCheckpoint {
  std::string path;
  int64_t step = 0;
  absl::StatusOr<CheckpointIndex> index;  // or why it cannot be used
};

// The index of the checkpoint in this folder. Errors: it cannot be read or is no regular file; it has more than 256 MiB;
// those of CheckpointIndexFromJson; a shard is missing or has another size.
absl::StatusOr<CheckpointIndex> ReadCheckpointIndex(const std::string& path);

// The newest first, by step; those that are damaged, too. Error: the folder cannot be read.
absl::StatusOr<std::vector<FoundCheckpoint>> ListCheckpoints(const std::string& dir);

// Of the newest one that is not damaged; -1: there is none, or the folder cannot be read.
int64_t NewestStep(const std::string& dir);

// The names of the checkpoints in the folder that are being written, or were left half-written by a killed writer.
// None where the folder cannot be read.
std::vector<std::string> UnfinishedIn(const std::string& dir);

// The error NotFound that a folder has no checkpoint.
absl::Status NoCheckpoint(const std::string& path);
// `path` itself if it is a checkpoint, else the newest checkpoint in it that can be used. Error: there is none, with
// what is wrong with those that are there.
absl::StatusOr<std::string> FindCheckpoint(const std::string& path);

// Gives a checkpoint that is complete, the folder `partial` in `dir`, its name. If there is one of this step, it is replaced:
// at every moment one of the two is found. Errors: those of RenameFolder.
absl::Status PublishCheckpoint(const std::string& partial, const std::string& dir, int64_t step);

// Removes a checkpoint: first its name, so that it is never half there. Errors: those of the system.
absl::Status RemoveCheckpoint(const std::string& path);

// Removes what killed writers, writers of other jobs and RemoveCheckpoint left in the folder, as far as the system lets it,
// and ends a replacement that was interrupted. The job's own partial checkpoints stay from the number `first` on: other
// domains may write them already.
// REQUIRES: no other job writes there (CheckpointLock).
void RemoveLeftovers(const std::string& dir, const std::string& job = "", int64_t first = 0);

// While it lives, no other job writes into the folder, if that is on a file system with flock, which Linux's NFS is. The
// system ends it with the process; children of a fork do not have it.
class CheckpointLock {
 public:
  // Makes the folder where it is missing. Errors: another process, or another lock of this one, has it, with its host and
  // number; those of the system.
  static absl::StatusOr<CheckpointLock> Take(const std::string& dir);
  // False where somebody has removed the lock's file, alone or with the folder: then another job may take it.
  bool IsHeld() const;

  // Who has the folder, or had it last, as its lock's file says: a host and a process. "": it does not say.
  static std::string HolderOf(const std::string& dir);
  // Takes the folder away from its holder, whom IsHeld tells so: another job may take it now. For a holder that is stopped,
  // or cut off, and is known to have no say any more.
  static void TakeAway(const std::string& dir);

 private:
  CheckpointLock(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  std::string path_;
  UninheritedFd fd_;
};

}  // namespace meshwork
