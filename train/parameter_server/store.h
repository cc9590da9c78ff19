// A ParameterStore keeps variables, in pieces, and applies gradients to them: a server of a training in which workers
// compute on their own.
//
//   MESHWORK_ASSIGN_OR_RETURN(Pulled pulled, store.Pull({.pieces = {{"dense/kernel/part_0"}, {"embedding/part_1", rows}}}));
//   …gradients of a batch, at these values…
//   MESHWORK_ASSIGN_OR_RETURN(Pushed pushed, store.Push({.pusher = "worker 1 of job 93", .sequence = 17,
//                                                        .version = pulled.version, .gradients = …}));
//
// A *piece* is a block of rows (dim 0) of a variable; a variable that is not partitioned is one piece. The *version* of
// a store counts the updates that it has applied: 0, 1, …
//
// Thread-safe. Source: Li et al., "Scaling Distributed Machine Learning with the Parameter Server", OSDI 2014.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/runtime/tensor/tensor.h"
#include "meshwork/train/parameter_server/sequence_set.h"

namespace meshwork {

// A piece, or some of its rows.
struct PieceRows {
  std::string piece;
  Tensor rows = {};  // i64[k], of the piece, from 0, each once; invalid: all
};

struct PullRequest {
  std::vector<PieceRows> pieces;
};
struct Pulled {
  int64_t version = 0;  // that all values are of
  int64_t life = 0;     // of the store: a store that continues from a checkpoint counts some versions again
  std::vector<Tensor> values;  // as asked for: the piece's shape, with dim 0 = k where rows were asked for
};

struct PieceGradient {
  PieceRows at;
  Tensor gradient;  // of the shape that Pull gives; rows that are not named have none
};
struct PushRequest {
  // The one who numbers the pushes: one run of a process, or a scheduler that has several workers make numbered steps.
  std::string pusher;
  int64_t sequence = 0;           // 1, 2, …, of this pusher's pushes; a repeated push has the same number
  int64_t version = 0, life = 0;  // at which the gradients were computed, as Pulled says; life 0: any
  std::vector<PieceGradient> gradients;
  // Whole pieces that the pusher needs next. A remote store begins to send them when it has taken the push; other
  // stores ignore this.
  std::vector<std::string> next;
};
struct Pushed {
  int64_t version = 0;
  // False: this push was taken before, and nothing changed now.
  bool applied = true;
  // Gives PushRequest::next, as the pieces were behind this push; waits for them. Null: they have to be pulled.
  // REQUIRES: the store lives, and this is called at most once. Its errors are those of a pull that is not repeated.
  std::function<absl::StatusOr<Pulled>()> next = nullptr;
};

class ParameterStore {
 public:
  virtual ~ParameterStore() = default;

  // Errors: there is no such piece (with the nearest name); rows out of range, or twice, with the number.
  virtual absl::StatusOr<Pulled> Pull(const PullRequest& request) = 0;
  // Applies the push as an update, all or nothing, or keeps it for an update of several pushes. If that update fails,
  // none of its pushes counts as taken any more. Errors, which change nothing else: those of Pull; a gradient of
  // another type or shape; OutOfRange: the gradients are older than the store allows, and are to be computed anew;
  // Aborted: Stop was called.
  virtual absl::StatusOr<Pushed> Push(const PushRequest& request) = 0;
  // The pushes of a pusher that were taken; none if the pusher is not known.
  virtual absl::StatusOr<SequenceSet> TakenFrom(const std::string& pusher) = 0;
  // Writes a checkpoint of all pieces, their optimizers' state, the version, and which pushes were applied, and returns
  // its version. Only the store's own process decides where it is written: a client may be anywhere.
  virtual absl::StatusOr<int64_t> Save() = 0;
  // For a process that asks the store nothing while others wait for it: waits at most so long for a connection to the
  // store. The log says when the store's process is lost, and when it is there again. A store in this process is always
  // there.
  virtual void LookForServer(std::chrono::milliseconds) {}
  // All later pushes fail.
  virtual void Stop() = 0;
};

}  // namespace meshwork
