// CheckpointWriter writes checkpoints of the variables that the domains of a program hold, while the program runs on.
//
//   CheckpointWriterOptions options{.dir = "runs/a", .domain = 0, .num_domains = 2, .job = "5f3a"};
//   MESHWORK_ASSIGN_OR_RETURN(auto writer, CheckpointWriter::Open(options));       // in each domain
//   MESHWORK_RETURN_IF_ERROR(writer->Begin({.step = 100}, session.State()));       // copies, and returns
//   …
//   MESHWORK_RETURN_IF_ERROR(writer->Wait());                                      // how the write ended
//
// Each domain writes its parts of the variables (storage/checkpoint_parts.h) into one file, and reports this in a
// small file beside it. Domain 0 waits for all reports, writes the index, and gives the checkpoint its name. So
// domains communicate only through the folder, which all of them must see, and do not use the program's transport.
// Files that a killed writer leaves behind are never taken for a checkpoint.
//
// If a write fails, older checkpoints stay as they are, and the next write is tried as if nothing had happened.
//
// In the child of a fork, the parent's writer writes nothing, and Begin and Wait fail. The parent keeps the lock.
//
// Thread safety: one thread at a time.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/base/fork.h"
#include "meshwork/runtime/exec/dtensor.h"
#include "meshwork/storage/checkpoint_folder.h"
#include "meshwork/storage/checkpoint_index.h"
#include "meshwork/storage/checkpoint_parts.h"

namespace meshwork {

struct CheckpointWriterOptions {
  std::string dir = {};
  int64_t domain = 0, num_domains = 1;
  // A name that all domains share, and that is new each time the domains open a writer: letters, digits, '-'.
  std::string job = {};
  int64_t keep = 5;  // this many of the newest checkpoints stay, >= 1
  // The checkpoint with the best value of this metric stays, too; "": none does.
  std::string best_metric = {};
  bool lowest_is_best = true;
  // The longest that domain 0 waits for the other domains.
  std::chrono::milliseconds deadline = std::chrono::minutes(10);
};

class CheckpointWriter {
 public:
  // Domain 0 locks the folder, made where it is missing, and clears away what killed writers left. Errors: an option
  // is wrong; those of CheckpointLock::Take.
  static absl::StatusOr<std::unique_ptr<CheckpointWriter>> Open(const CheckpointWriterOptions& options);
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;
  // Waits.
  ~CheckpointWriter();

  // Copies this domain's parts, and begins to write them in a thread of its own. All domains call it alike. First
  // waits for the write before; if that failed, returns its status and begins nothing. If one domain begins nothing,
  // the write of the others fails soon. A checkpoint of the same step is replaced. Further errors: those of the
  // memory of the variables; there is no memory, or no thread.
  // REQUIRES: the variables are valid, and all on the mesh of one placement of num_domains domains.
  absl::Status Begin(const CheckpointNote& note, const std::map<std::string, DTensor>& variables);
  // Waits for the write under way, and returns its status, or that of the last write if Begin has not returned it; OK
  // if there is none. In domain 0 the status is that of the whole checkpoint, in others that of this domain's shard.
  absl::Status Wait();
  bool is_writing() const { return is_writing_; }
  // Some domains may be gone: domain 0 waits no longer than kGrace for the others, and the write under way then fails.
  void Abandon() { is_abandoned_ = true; }
  static constexpr std::chrono::milliseconds kGrace = std::chrono::seconds(2);

 private:
  using Tensors = std::vector<std::pair<std::string, Tensor>>;

  explicit CheckpointWriter(const CheckpointWriterOptions& options) : options_(options) {}

  // Plans which domain writes which parts, unless the plan of the last checkpoint still holds.
  void Plan(const std::map<std::string, DTensor>& variables);
  absl::Status Copy(const std::map<std::string, DTensor>& variables);
  absl::Status BeginOwn(const CheckpointNote& note, const std::map<std::string, DTensor>& variables);

  // ---- By the thread that writes.

  absl::Status Write();
  absl::StatusOr<CheckpointShard> WriteShard();
  absl::StatusOr<std::vector<CheckpointShard>> AwaitShards(CheckpointShard own);
  // Takes the folder's lock again if somebody has removed it.
  absl::Status KeepLock();
  // Writes everything, but does not give the checkpoint its name.
  absl::Status Complete();
  void RemoveOld() const;

  const CheckpointWriterOptions options_;
  const ForkMark made_;
  std::optional<CheckpointLock> lock_;  // of domain 0
  int64_t begun_ = 0;                   // checkpoints

  Placement placement_;
  std::map<std::string, VariablePlace> places_;
  std::map<std::string, std::vector<WrittenPart>> plan_;

  // The write under way.
  std::string partial_;  // its folder
  CheckpointIndex index_;
  Tensors tensors_;
  std::thread thread_;
  std::atomic<bool> is_writing_{false}, is_abandoned_{false};
  absl::Status status_;
};

}  // namespace meshwork
