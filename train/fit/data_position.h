// The position of a training in its data: how many epochs are over, and how many batches of the next one. Checkpoints
// note it, so that a training that continues from one takes the examples that it would have taken.
//
//   DataPosition position;                              // at the start
//   position.Advance(input);                            // after each step
//   facts = FactsOf(position, input);                   // of a checkpoint
//   MESHWORK_ASSIGN_OR_RETURN(position, PositionIn(facts, input));
//
// Pure functions; thread-safe.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "meshwork/storage/checkpoint_index.h"
#include "meshwork/train/fit/train_spec.h"

namespace meshwork {

struct DataPosition {
  int64_t epoch = 0;
  int64_t batch = 0;  // the next one, of the epoch

  // REQUIRES: the input has examples.
  void Advance(const InputSpec& input);
  bool operator==(const DataPosition&) const = default;
};

// "epoch", "batch", and what decides on the order of the examples: "batch_size", "examples", "shuffle_seed", "lanes".
CheckpointFacts FactsOf(const DataPosition& position, const InputSpec& input);
// Law: PositionIn(FactsOf(position, input), input) == position. If the batch size has changed, the position is the
// batch that contains the next example; the examples before it in that batch come again. Errors: facts are missing or
// no numbers; the examples have another order than when the training began.
absl::StatusOr<DataPosition> PositionIn(const CheckpointFacts& facts, const InputSpec& input);

}  // namespace meshwork
