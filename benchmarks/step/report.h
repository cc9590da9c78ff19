// Results of a step program as a table and as JSON.
#pragma once

#include <string>
#include <vector>

#include "benchmarks/step/rounds.h"

namespace meshwork {

struct StepReport {
  std::string cpu;
  int workers = 0;
  int64_t repeats = 0;
  std::vector<BatchResult> batches;

  std::string ToTable() const;
  // {"cpu": …, "workers": 2, "repeats": 9, "batches": [{"batch": 128, "steps": 20, "gflop": …, "mb": …,
  //  "products_ms": …, "memory_ms": …,
  //  "variants": [{"variant": "by_hand", "ms": …, "min_ms": …, "ratio": 1, …}, …], "idle_cores": …,
  //  "rss_8_over_1": …}]};
  // Numbers that were not measured are left out.
  std::string ToJson() const;
};

}  // namespace meshwork
