// Numbers for things that are equal, found by hashes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "meshwork/base/hash.h"
#include "meshwork/ir/attrs.h"
#include "meshwork/layout/layout.h"

namespace meshwork {

// Equal for equal arguments; the same in every run.
uint64_t HashOf(const Layout& layout);
uint64_t HashOf(const Attrs& attrs);

// Gives equal things one number, counted from 0. Only things with the same hash are compared.
class Numbering {
 public:
  struct Number {
    int number;
    bool is_new;
  };

  // is_equal(k): whether the thing is equal to the one that first got the number k.
  template <typename IsEqual>
  Number NumberOf(uint64_t hash, IsEqual&& is_equal) {
    if (numbered_.size() == first_.size()) Grow();
    int* next = &first_[hash % first_.size()];
    for (; *next != kNone; next = &numbered_[*next].next)
      if (numbered_[*next].hash == hash && is_equal(*next)) return {*next, false};
    const int number = *next = static_cast<int>(numbered_.size());
    numbered_.push_back({hash, kNone});
    return {number, true};
  }

 private:
  static constexpr int kNone = -1;
  struct Numbered {
    uint64_t hash;
    int next;  // the next number whose hash falls in the same place
  };

  void Grow() {
    first_.assign(first_.empty() ? 64 : 2 * first_.size(), kNone);
    for (size_t k = numbered_.size(); k-- > 0;) {
      int& first = first_[numbered_[k].hash % first_.size()];
      numbered_[k].next = first;
      first = static_cast<int>(k);
    }
  }

  std::vector<Numbered> numbered_;  // per number
  std::vector<int> first_;          // per place: the first number there
};

}  // namespace meshwork
