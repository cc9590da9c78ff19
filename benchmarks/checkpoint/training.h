// The slowdown of a training by checkpoints in the background.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace meshwork {

struct TrainingOptions {
  std::string dir;     // for checkpoints; made and removed again
  double seconds = 3;  // of a turn
  double every = 1;    // seconds from checkpoint to checkpoint
  int64_t rounds = 5;  // of two turns, one with checkpoints and one without
};

struct TrainingCost {
  std::string name;         // of the model
  double megabytes = 0;     // of a checkpoint
  double plain = 0;         // steps per second, the median
  double throughput = 0;    // with checkpoints, of that without: the median of the rounds
  int64_t checkpoints = 0;  // begun, in all turns
};

// mlp_mnist with batches of 1024, and a transformer of 4 layers of 256 units; both with Adam on 8 virtual devices.
absl::StatusOr<std::vector<TrainingCost>> MeasureTraining(const TrainingOptions& options);

}  // namespace meshwork
