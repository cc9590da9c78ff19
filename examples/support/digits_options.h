// The flags of a program that trains on digits.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "examples/support/digits.h"
#include "examples/support/training_run.h"
#include "meshwork/ir/type.h"
#include "meshwork/mesh/mesh.h"

namespace meshwork {

struct DigitsOptions {
  RunOptions run;
  int64_t train_examples = 5000;
  int64_t test_examples = 5000;
  int64_t epochs = 3;
  int64_t steps = 0;  // 0: no limit
  int64_t batch_size = 128;
  std::string optimizer = "adam";
  double learning_rate = 1e-3;
  std::string shuffle = "on";
  std::string dtype = "f32";
  std::string data_dir;
  std::string load, save;
  std::string tensorboard;  // a folder; empty: nothing is logged
  bool help = false;
  std::string help_text;
};

// Errors: an unknown flag, a value that is missing, malformed or out of range.
absl::StatusOr<DigitsOptions> ParseDigitsOptions(const DigitsModel& model, int argc, const char* const* argv);

}  // namespace meshwork
