// Counts of the contract tests' trials and findings, over all tests; printed when the program ends.
#pragma once

#include <cstdint>
#include <set>
#include <string_view>

#include "fmt/format.h"

namespace meshwork {

struct Tally {
  std::set<std::string_view> rows;
  int64_t placements = 0;  // kernels on shards, and compiled programs
  int64_t wrong = 0;       // accepted or compiled, and not the one-device value
  int64_t missing = 0;     // right, and no rule knows it

  ~Tally() {
    if (placements == 0) return;
    fmt::print("contract: {} rows, {} placements, wrong {}, missing {}\n", rows.size(), placements, wrong,
               missing);
  }
};

inline Tally& TheTally() {
  static Tally tally;
  return tally;
}

}  // namespace meshwork
