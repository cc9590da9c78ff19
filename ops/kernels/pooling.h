// Pooling of channels-last blocks: windows of rows of channels.
//
// All four kernels walk alike: for each row of channels of the result, they visit the rows of an operand that
// it sees, each by a tap (a place in a window). For y = pool(x) these are the rows of a window; for its
// gradient, the results whose windows hold the row.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "meshwork/ir/kernel.h"
#include "meshwork/ir/sliding.h"

namespace meshwork {

// For each row of the result, the rows of an operand that it sees.
class PoolWalk {
 public:
  struct Dim {
    int64_t in, out;  // of x, of y
    Sliding sliding;
  };
  enum class Sees { kElements, kResults };
  PoolWalk(const std::vector<Dim>& dims, Sees sees);

  int64_t seen_rows() const { return seen_[0] * seen_[1] * seen_[2]; }  // of one image
  int64_t rows() const { return own_[0] * own_[1] * own_[2]; }

  // The offset of a block of the result relative to the windows, per dim; see Sliding::LowAt.
  using Phases = std::array<int, kMaxSpatialDims>;
  Phases PhasesOf(const Block& block) const;

  // A row that is seen, and the tap that sees it.
  struct Seen {
    int64_t row;
    int32_t tap;
  };
  int64_t taps() const { return filter_[0] * filter_[1] * filter_[2]; }
  // Calls f(row, the rows that it sees, in the order of the taps) for rows [first, last) of all images.
  // `seen`: room for taps() elements.
  template <typename F>
  void ForEach(int64_t first, int64_t last, const Phases& phases, Seen* seen, F&& f) const;

 private:
  struct Entry {
    int32_t tap, at;
  };
  // Along one dim: the positions that each position sees.
  struct Sight {
    std::vector<int32_t> first;  // per position, and one more
    std::vector<Entry> entries;
  };
  static Sight SightOf(const Dim& dim, int64_t low, Sees sees);

  std::array<int64_t, kMaxSpatialDims> own_, seen_, filter_;
  std::array<Sliding, kMaxSpatialDims> slidings_;
  std::array<std::vector<Sight>, kMaxSpatialDims> sights_;  // per phase
};

template <typename F>
void PoolWalk::ForEach(int64_t first, int64_t last, const Phases& phases, Seen* seen, F&& f) const {
  const Sight &a = sights_[0][phases[0]], &b = sights_[1][phases[1]], &c = sights_[2][phases[2]];
  int64_t k = first % own_[2], rest = first / own_[2];
  int64_t j = rest % own_[1], i = rest / own_[1] % own_[0], n = rest / own_[1] / own_[0];
  for (int64_t row = first; row < last; ++row) {
    Seen* end = seen;
    for (int32_t u = a.first[i]; u < a.first[i + 1]; ++u) {
      const int64_t at_a = n * seen_[0] + a.entries[u].at, tap_a = a.entries[u].tap * filter_[1];
      for (int32_t v = b.first[j]; v < b.first[j + 1]; ++v) {
        const int64_t at_b = (at_a * seen_[1] + b.entries[v].at) * seen_[2];
        const int64_t tap_b = (tap_a + b.entries[v].tap) * filter_[2];
        for (int32_t w = c.first[k]; w < c.first[k + 1]; ++w)
          *end++ = {at_b + c.entries[w].at, static_cast<int32_t>(tap_b + c.entries[w].tap)};
      }
    }
    f(row, std::span<const Seen>(seen, end));
    if (++k < own_[2]) continue;
    k = 0;
    if (++j < own_[1]) continue;
    j = 0;
    if (++i < own_[0]) continue;
    i = 0;
    ++n;
  }
}

}  // namespace meshwork
