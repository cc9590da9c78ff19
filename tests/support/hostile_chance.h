// Random choices for hostile programs. Equal seeds give equal choices on every machine.
#pragma once

#include <cstdint>
#include <iterator>
#include <limits>
#include <random>

namespace meshwork {

class HostileChance {
 public:
  explicit HostileChance(uint64_t seed) : engine_(seed) {}
  bool Percent(int percent) { return Below(100) < percent; }
  int Below(int n) { return static_cast<int>(engine_() % static_cast<uint64_t>(n)); }
  template <typename List>
  auto Of(const List& list) {
    return *(std::begin(list) + Below(static_cast<int>(std::size(list))));
  }
  // A small number, or one that is likely to break code.
  int64_t Number() { return Percent(50) ? Below(9) - 2 : Of(kNumbers); }

 private:
  static constexpr int64_t kLeast = std::numeric_limits<int64_t>::min(),
                           kMost = std::numeric_limits<int64_t>::max();
  static constexpr int64_t kNumbers[] = {0,
                                         1,
                                         -1,
                                         2,
                                         3,
                                         -2,
                                         5,
                                         7,
                                         25,
                                         26,
                                         27,
                                         64,
                                         127,
                                         128,
                                         255,
                                         256,
                                         1000,
                                         -1000,
                                         int64_t{1} << 15,
                                         int64_t{1} << 20,
                                         int64_t{1} << 30,
                                         (int64_t{1} << 31) - 1,
                                         int64_t{1} << 31,
                                         -(int64_t{1} << 31),
                                         int64_t{1} << 32,
                                         int64_t{1} << 40,
                                         (int64_t{1} << 53) + 1,
                                         int64_t{1} << 60,
                                         int64_t{1} << 62,
                                         -(int64_t{1} << 62),
                                         kMost - 1,
                                         kMost,
                                         kLeast,
                                         kLeast + 1};

  std::mt19937_64 engine_;
};

}  // namespace meshwork
