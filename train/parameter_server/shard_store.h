// ShardStore: one parameter server's pieces, and the updates of them.
//
//   MESHWORK_ASSIGN_OR_RETURN(const TrainingSplit split, SplitTraining(graph, {.num_servers = 2}));
//   MESHWORK_ASSIGN_OR_RETURN(std::unique_ptr<ShardStore> store,
//                             ShardStore::Create(split, {.server = 0, .folder = "runs/a"}));
//
// *Asynchronous* (the default): each push is an update of its own, applied at once to the current values. max_staleness
// bounds the number of updates since the gradients' version: an older push is refused, and its worker computes anew.
//
// *Synchronous* (gather = n): the first n pushes that were computed at the current version are averaged and applied as
// one update, so that all gradients of an update are of the same values. A push is copied and does not wait; its worker
// waits before its next step (ServedSessionOptions::synchronous). With more than n workers, nobody waits for the
// slowest (backup workers; Chen et al., "Revisiting Distributed Synchronous SGD", arXiv 1604.00981): their pushes come
// too late for the version, are refused, and are computed anew. Values are averaged; bools are joined by "and"; an
// update that is given whole numbers is refused.
//
// A worker repeats a push if the answer was lost. If the push was taken before, it changes nothing: the sequence
// numbers of each pusher are kept, and saved with the values. Pushes that were gathered and not yet applied are not
// saved.
//
// Thread-safe. A pull copies the values while no update is made, so all of them are of one version.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/session/session.h"
#include "meshwork/train/parameter_server/row_update.h"
#include "meshwork/train/parameter_server/split.h"
#include "meshwork/train/parameter_server/store.h"

namespace meshwork {

struct ShardStoreOptions {
  int64_t server = 0;  // of the split
  // Seed of the initializers: pieces start as parts of the initial values of a Session of the whole program with this
  // seed.
  int64_t seed = 0;
  // Initial values, by name, of whole variables that are not to be initialized; the same for all servers.
  std::map<std::string, Tensor> initial = {};
  std::optional<int64_t> max_staleness = {};  // updates, >= 0; nothing: any number. Without gather
  int64_t gather = 0;                         // how many pushes make an update, >= 1; 0: asynchronous
  // The folder in which Save writes checkpoints, and from whose newest one the store continues; "": none. Each server
  // has a folder of its own in it.
  std::string folder = {};
  int64_t keep = 3;  // so many checkpoints stay, >= 1
  // Options of the program that updates, such as its workers; its seed is not used. A server computes on the CPU,
  // whatever `devices` says.
  SessionOptions session = {};
};

class ShardStore : public ParameterStore {
 public:
  // Errors: an option is out of range; `initial` has another variable, or one of another type; gather, and a push has
  // whole numbers; those of Session::Create and, with a folder, of Session::Restore; the folder is of another number of
  // servers.
  static absl::StatusOr<std::unique_ptr<ShardStore>> Create(const TrainingSplit& split,
                                                            const ShardStoreOptions& options);

  // Errors: those of ParameterStore::Pull.
  absl::StatusOr<Pulled> Pull(const PullRequest& request) override;
  // Takes the values that TrainingSplit::pushed lists for this server, each once, in any order; of a sparse table, some
  // rows or none. Errors: those of ParameterStore::Push; a value is missing, comes twice or is not pushed here; a
  // pusher without name, or one that is no UTF-8; a sequence below 1; OutOfRange, besides: the version is of another
  // life of the store.
  absl::StatusOr<Pushed> Push(const PushRequest& request) override;
  absl::StatusOr<SequenceSet> TakenFrom(const std::string& pusher) override;
  // Errors: the store has no folder; those of CheckpointWriter.
  absl::StatusOr<int64_t> Save() override;
  void Stop() override;

  int64_t version() const;

 private:
  // A checked push, ready to be applied.
  struct Update {
    Feeds feeds;                      // whole values, by their names as inputs
    std::vector<PieceGradient> rows;  // of sparse tables
  };

  ShardStore(const ShardStoreOptions& options, Session session);

  absl::Status Initialize(const TrainingSplit& split);
  absl::StatusOr<Tensor> InitialValue(const TrainingSplit& split, const Argument& argument) const;
  absl::Status Restore();
  std::string Folder() const;  // of this server, in ShardStoreOptions::folder
  // Checks that these rows of a piece are there, each once.
  absl::Status CheckRows(const PieceRows& at, const Type& type) const;
  absl::StatusOr<Tensor> Read(const PieceRows& at) const;
  absl::StatusOr<Update> Check(const PushRequest& request) const;
  absl::Status CheckPushed(const PieceGradient& given, const PushedRows& pushed) const;
  absl::Status CheckVersion(const PushRequest& request) const;
  // Applies one update, of one push or of several. REQUIRES: the lock is held.
  absl::Status Apply(const Update& update, const std::vector<const PushRequest*>& of);
  absl::Status Gather(const PushRequest& request);
  absl::Status ApplyGathered();
  // The sequence numbers that were taken, including those of gathered pushes.
  SequenceSet TakenLocked(const std::string& pusher) const;

  const ShardStoreOptions options_;
  int64_t num_servers_ = 1;
  std::map<std::string, VariablePiece> pieces_;  // of this server, by name
  std::map<std::string, PushedRows> pushed_;     // to this server, by name
  std::set<std::string> inputs_;                 // of the program that updates

  mutable std::mutex mutex_;
  Session session_;
  std::map<std::string, DTensor> state_;          // the session's variables
  std::map<std::string, RowUpdate> row_updates_;  // by sparse table
  const int64_t life_;                            // random
  int64_t version_ = 0;
  std::map<std::string, SequenceSet> taken_;  // by pusher: the pushes that were applied
  std::vector<PushRequest> gathered_;         // pushes that will be applied, together with others
  bool is_stopped_ = false;

  std::mutex saving_;  // taken before mutex_
};

}  // namespace meshwork
