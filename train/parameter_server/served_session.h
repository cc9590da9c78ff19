// ServedSession: the session of one worker of a training with parameter servers.
//
//   MESHWORK_ASSIGN_OR_RETURN(const TrainingSplit split, SplitTraining(graph, {.num_servers = 2}));
//   MESHWORK_ASSIGN_OR_RETURN(ServedSession session, ServedSession::Create(split, stores, {.pusher = "worker 0"}));
//   for (const Batch& batch : batches) {
//     MESHWORK_ASSIGN_OR_RETURN(const StepResult result, session.Run({{"x", batch.x}, {"y", batch.y}}));
//     …
//   }
//
// A step pulls the values that the worker's program reads, computes the gradients of its batch, and pushes them. If a
// server finds the gradients too old, they are computed anew and pushed again, but not to servers that took the first
// ones. Short batches are as those of Session::Run.
//
// Of a sparse table (split.h), only the rows that the batch names are sent, with their numbers.
//
// Thread safety: one call at a time. Many sessions, in many threads or processes, share the stores.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/session/session.h"
#include "meshwork/train/parameter_server/split.h"
#include "meshwork/train/parameter_server/store.h"

namespace meshwork {

struct ServedSessionOptions {
  // PushRequest::pusher: it names this worker, and this run of it; "": a name that no other session of this machine
  // has.
  std::string pusher = {};
  // The number of times that gradients which are too old are computed anew in one step, >= 0.
  int64_t retries = 10;
  // For synchronous stores (ShardStoreOptions::gather): a step first waits until the last step's push is part of an
  // update, and all stores are at one version. It waits for several times as long as that took lately, a second at
  // most: if a worker is lost, or has no more steps to make, the others make the missing gradients.
  bool synchronous = false;
  // A step's push asks the stores for the values that the next step will need (PushRequest::next), so that they arrive
  // while the batch is made. They are used if the next step begins soon: within the time that the last step took from
  // pull to push. Not done with `synchronous`; nor for sparse tables, whose rows depend on the batch; nor for a store
  // that would have to keep more than 1 MiB of values until they are fetched.
  bool pull_ahead = false;
  SessionOptions session = {};  // of the worker's program; its seed is not used
};

// Bytes of elements that a session has sent and received since it was made, including the numbers of rows.
struct ServedTraffic {
  int64_t pulled = 0, pushed = 0;
};

// PushRequest::pusher and sequence.
struct PushId {
  std::string pusher;
  int64_t sequence = 0;
};

class ServedSession {
 public:
  // `stores`: one per server of the split, in their order, here or remote. Errors: another number of stores, or a null
  // one; options out of range; those of Session::Create.
  static absl::StatusOr<ServedSession> Create(const TrainingSplit& split,
                                              std::vector<std::shared_ptr<ParameterStore>> stores,
                                              const ServedSessionOptions& options = {});

  // One step; returns the outputs of the graph. `id`: of its push, if others may make the same step again; the step
  // counts once. `at_least`: by store, the version that values pulled ahead must have at least; otherwise they are
  // pulled anew.
  // Errors: those of Session::Run and of the stores; OutOfRange: the gradients were too old, `retries` times and once
  // more. After an error of one store, others may have applied the step.
  absl::StatusOr<StepResult> Run(const Feeds& feeds);
  absl::StatusOr<StepResult> Run(const Feeds& feeds, const PushId& id,
                                 std::span<const int64_t> at_least = {});
  // The outputs outside of training, at the values that the stores have now; as Session::Evaluate. Pushes nothing.
  absl::StatusOr<StepResult> Evaluate(const Feeds& feeds, const std::vector<std::string>& outputs = {});
  // A whole variable of the graph, or of an optimizer's state, as the stores have it now. If the servers are at
  // different versions, each piece is at the version of its server. Errors: there is no such variable; those of the
  // stores.
  absl::StatusOr<Tensor> Get(std::string_view variable);

  // By store: the version of the last pull, of a step or of Evaluate.
  const std::vector<int64_t>& versions() const { return versions_; }
  // By store: Pushed::version of the last push that it took. The step is in this version.
  const std::vector<int64_t>& versions_pushed() const { return versions_pushed_; }
  // By store: Pulled::life of the last pull.
  const std::vector<int64_t>& lives() const { return lives_; }
  // How many stores applied the push of the last Run.
  int64_t num_applied() const { return num_applied_; }
  const ServedTraffic& traffic() const { return traffic_; }

 private:
  ServedSession(const TrainingSplit& split, std::vector<std::shared_ptr<ParameterStore>> stores,
                const ServedSessionOptions& options, Session session, std::unique_ptr<Session> ids);

  // The rows of sparse tables that a batch names, by piece: numbered in the piece, ascending.
  using Rows = std::map<std::string, Tensor>;

  // Values that were pulled ahead of the next step.
  struct Ahead {
    std::shared_ptr<ParameterStore> store = {};
    std::function<absl::StatusOr<Pulled>()> values = nullptr;  // null: none were
    int64_t at_least = 0;                                      // the version that they must have
  };

  // Pulls these pieces, or rows of them, and joins them: by variable.
  absl::StatusOr<std::map<std::string, Tensor>> Pull(const std::vector<VariablePiece>& pieces,
                                                     const Rows& rows, std::vector<Ahead> ahead);
  // Pulls from one store. Values that were pulled ahead are taken instead, once.
  absl::StatusOr<Pulled> PullFrom(size_t store, const PullRequest& request, Ahead ahead);
  absl::Status CheckPulled(const VariablePiece& piece, const Rows& rows, const Tensor& value) const;
  // See ServedSessionOptions::synchronous. Returns whether the update is there; if not, the time was up.
  absl::StatusOr<bool> AwaitUpdate();
  absl::Status PullForStep(const Rows& rows);
  // `is_step`: takes the values that were pulled ahead; else they are left to the next step.
  absl::Status PullRead(const Rows& rows, bool is_step);
  // Finds the rows that a batch names, and adds the ids, numbered anew, to the feeds. Without `is_training`, inputs
  // that give ids may be missing; tables that need them are then left out.
  absl::StatusOr<Rows> FindRows(bool is_training, Feeds& feeds);
  // `pulls_ahead`: asks the stores for next_.
  absl::Status Push(const std::map<std::string, Tensor>& outputs, const Rows& rows, const PushId& id,
                    bool pulls_ahead, std::vector<bool>& is_taken);

  // The facts of a SparseVariable.
  struct SparseTable {
    std::string variable;
    int64_t rows, capacity;
    std::vector<std::string> ids;
  };

  ServedSessionOptions options_;
  std::vector<VariablePiece> pieces_, read_;  // all; those that the worker's program reads
  std::vector<PushedRows> pushed_;
  std::vector<std::string> outputs_;  // of the user
  std::vector<std::shared_ptr<ParameterStore>> stores_;
  Session session_;
  std::unique_ptr<Session> ids_;  // null: no table is sparse
  std::vector<SparseTable> sparse_;
  std::vector<int64_t> versions_, lives_;  // by store
  std::vector<int64_t> pushed_at_;  // by store: version of the last push that it took; -1: none in this life
  // For AwaitUpdate: how long it took lately, and how long it may take; the latter is halved each time that the update
  // did not come.
  static constexpr std::chrono::milliseconds kMostToWait{1000};
  std::chrono::nanoseconds longest_ = kMostToWait, wait_ = kMostToWait;
  std::vector<int64_t> versions_pushed_;        // by store
  std::vector<std::vector<std::string>> next_;  // by store: pieces that may be pulled ahead
  std::vector<Ahead> ahead_;                    // by store
  // When the last step ended, and how long it took.
  std::chrono::steady_clock::time_point ended_ = {};
  std::chrono::steady_clock::duration took_ = {};
  int64_t sequence_ = 0;
  int64_t num_applied_ = 0;
  ServedTraffic traffic_;
};

}  // namespace meshwork
