// The flags of mlp_mnist.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "mesh/mesh.h"
#include "ops/type.h"

namespace meshwork {

struct MlpOptions {
  std::string mesh = "batch=8";
  int64_t train_examples = 5000;
  int64_t test_examples = 5000;
  int64_t epochs = 3;
  int64_t steps = 0;  // 0: no limit
  int64_t batch_size = 128;
  std::string optimizer = "adam";
  double learning_rate = 1e-3;
  int64_t seed = 0;
  std::string shuffle = "on";
  std::string dtype = "f32";
  int64_t workers = 0;
  std::string data_dir;
  std::string load, save, json, plot, dump;
  std::string profile = "off";  // "off", "on", or the file for a trace
  bool explain = false;
  bool shard_weight_update = false;
  bool help = false;
  std::string help_text;
};

// Errors: an unknown flag, a value that is missing, malformed or out of range.
absl::StatusOr<MlpOptions> ParseMlpOptions(int argc, const char* const* argv);

}  // namespace meshwork
