// The programs whose steps are simulated and measured.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork.h"

namespace meshwork {

struct SimulatedWork {
  std::string model;          // "mlp", "cnn", "gpt"
  std::string mesh;           // "batch=4,model=2"
  int64_t batch = 0;          // examples
  int64_t size = 0;           // of gpt: units of a byte
  NamedLayouts layouts = {};  // other ones than the model's
  std::string layouts_text = {};
  bool ranked = false;  // one of the layouts of one model that are put in order

  std::string name() const;  // "mlp 128 on batch=8"
};

// At least 20 programs, and 10 layouts of one model.
const std::vector<SimulatedWork>& SimulatedWorks();

absl::StatusOr<Graph> GraphOf(const SimulatedWork& work);
Feeds FeedsOf(const SimulatedWork& work);

}  // namespace meshwork
