// Numbers for things that are equal, found by hashes.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "absl/container/inlined_vector.h"
#include "meshwork/ir/attrs.h"
#include "meshwork/layout/layout.h"

namespace meshwork {

// The hash of two numbers, in their order.
uint64_t MixedHash(uint64_t a, uint64_t b);
// Equal for what is equal; the same in every run.
uint64_t HashOf(const Layout& layout);
uint64_t HashOf(const Attrs& attrs);

// Gives equal things one number, counted from 0. The hash finds few of them, which are compared.
class Numbering {
 public:
  struct Number {
    int number;
    bool is_new;
  };

  // is_equal(k): whether the thing is equal to the one that first got the number k.
  template <typename IsEqual>
  Number NumberOf(uint64_t hash, IsEqual&& is_equal) {
    absl::InlinedVector<int, 1>& known = of_hash_[hash];
    for (int k : known)
      if (is_equal(k)) return {k, false};
    known.push_back(count_);
    return {count_++, true};
  }

 private:
  std::unordered_map<uint64_t, absl::InlinedVector<int, 1>> of_hash_;
  int count_ = 0;
};

}  // namespace meshwork
