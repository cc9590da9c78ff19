// A folder of checkpoints.
//
//   runs/a/step-000000000100/index.json                            // storage/checkpoint_index.h
//   runs/a/step-000000000100/shard-00000-of-00002.safetensors
//   runs/a/step-000000000200/…
//   runs/a/partial-5f3a-7/…                                        // one that is being written
//   runs/a/lock                                                    // of the job that writes here
//
// A checkpoint is written under another name and renamed when it is complete. To remove a checkpoint, it is first
// renamed to removed-…. So a folder that is called step-… is complete, unless something else has damaged it. Where a
// file system cannot exchange two folders (NFS), there is a moment in which a checkpoint that is being replaced is
// called replaced-step-…; it is complete, and is found like others.
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

// The name of a checkpoint's folder: "step-000000000100".
std::string CheckpointName(int64_t step);
// The folder's name while the job writes its checkpoint `number`: "partial-5f3a-7".
std::string PartialName(const std::string& job, int64_t number);
// "shard-00000-of-00002.safetensors".
std::string ShardName(int64_t shard, int64_t num_shards);

struct FoundCheckpoint {
  std::string path;
  int64_t step = 0;
  absl::StatusOr<CheckpointIndex> index;  // or why it cannot be used
};

// The index of the checkpoint in this folder. Errors: it cannot be read or is no regular file; it has more than 256
// MiB; those of CheckpointIndexFromJson; a shard is missing or has another size.
absl::StatusOr<CheckpointIndex> ReadCheckpointIndex(const std::string& path);

// The names of all that is in a folder, in no order. Error: it cannot be read.
absl::StatusOr<std::vector<std::string>> NamesInFolder(const std::string& dir);

// All checkpoints, also damaged ones; the newest first, by step. Error: the folder cannot be read.
absl::StatusOr<std::vector<FoundCheckpoint>> ListCheckpoints(const std::string& dir);

// The step of the newest checkpoint that is not damaged; -1: there is none, or the folder cannot be read.
int64_t NewestStep(const std::string& dir);

// The names of the checkpoints in the folder that are being written, or were left half-written by a killed writer.
// None where the folder cannot be read.
std::vector<std::string> UnfinishedIn(const std::string& dir);

// The error NOT_FOUND: the folder has no checkpoint.
absl::Status NoCheckpoint(const std::string& path);
// `path` itself if it is a checkpoint, else the newest checkpoint in it that can be used. Error: there is none; says
// what is wrong with the newest.
absl::StatusOr<std::string> FindCheckpoint(const std::string& path);

// Gives a complete checkpoint, the folder `partial` in `dir`, its name. A checkpoint of the same step is replaced: at
// every moment one of the two is found. Errors: those of RenameFolder.
absl::Status PublishCheckpoint(const std::string& partial, const std::string& dir, int64_t step);

// Removes a checkpoint. It is renamed first, so that no checkpoint is ever there in part. Errors: those of the system.
absl::Status RemoveCheckpoint(const std::string& path);

// Removes what killed writers, writers of other jobs and RemoveCheckpoint left in the folder, as far as the system
// permits, and ends interrupted replacements. The job's own partial checkpoints from number `first` on stay: other
// domains may be writing them already.
// REQUIRES: no other job writes there (CheckpointLock).
void RemoveLeftovers(const std::string& dir, const std::string& job = "", int64_t first = 0);

// While it lives, no other job writes into the folder. The file system must support flock, as Linux's NFS does. The
// lock ends with the process; children of a fork do not hold it.
class CheckpointLock {
 public:
  // Makes the folder where it is missing. Errors: another process, or another lock of this process, holds it (says
  // the host and the process); those of the system.
  static absl::StatusOr<CheckpointLock> Take(const std::string& dir);
  // False if somebody has removed the lock's file, alone or with the folder: another job may take the lock then.
  bool IsHeld() const;

  // The host and the process that hold the lock, or held it last, as the lock's file says. "": it does not say.
  static std::string HolderOf(const std::string& dir);
  // Takes the lock away from its holder: IsHeld returns false there, and another job may take the lock. Only for a
  // holder that is stopped or cut off, and is known to be replaced.
  static void TakeAway(const std::string& dir);

 private:
  CheckpointLock(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  std::string path_;
  UninheritedFd fd_;
};

}  // namespace meshwork
