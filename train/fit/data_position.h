// Where a training is in its data: so many epochs are over, and so many batches of the next one. It is noted in
// checkpoints, so that a training that goes on from one takes the examples that it would have taken.
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
// Law: PositionIn(FactsOf(position, input), input) == position. If the batches have another size now, the position is that
// of the batch with the next example; the examples before it in that batch come again. Errors: facts are missing or no
// numbers; the order of the examples is another one than that in which the training began.
absl::StatusOr<DataPosition> PositionIn(const CheckpointFacts& facts, const InputSpec& input);

}  // namespace meshwork
