#include "meshwork/ops/kernels/pooling.h"

namespace meshwork {

PoolWalk::PoolWalk(const std::vector<Dim>& dims, Sees sees) {
  for (size_t d = 0; d < kMaxSpatialDims; ++d) {
    const size_t missing = kMaxSpatialDims - dims.size();
    const Dim dim = d < missing ? Dim{1, 1, {}} : dims[d - missing];
    own_[d] = sees == Sees::kElements ? dim.out : dim.in;
    seen_[d] = sees == Sees::kElements ? dim.in : dim.out;
    filter_[d] = dim.sliding.filter;
    slidings_[d] = dim.sliding;
    const Sliding& s = dim.sliding;
    for (int64_t phase = 0; phase < (s.windowed ? s.stride : 1); ++phase)
      sights_[d].push_back(SightOf(dim, s.windowed ? s.extent() - 1 - phase : s.low, sees));
  }
}

PoolWalk::Sight PoolWalk::SightOf(const Dim& dim, int64_t low, Sees sees) {
  const Sliding& s = dim.sliding;
  Sight sight;
  for (int64_t own = 0; own < (sees == Sees::kElements ? dim.out : dim.in); ++own) {
    sight.first.push_back(static_cast<int32_t>(sight.entries.size()));
    for (int64_t tap = 0; tap < s.filter; ++tap) {
      int64_t at =
          sees == Sees::kElements ? own * s.stride - low + tap * s.dilation : own + low - tap * s.dilation;
      const int64_t size = sees == Sees::kElements ? dim.in : dim.out;
      if (at < 0) continue;
      if (sees == Sees::kResults) {
        if (at % s.stride != 0) continue;
        at /= s.stride;
      }
      if (at < size) sight.entries.push_back({static_cast<int32_t>(tap), static_cast<int32_t>(at)});
    }
  }
  sight.first.push_back(static_cast<int32_t>(sight.entries.size()));
  return sight;
}

PoolWalk::Phases PoolWalk::PhasesOf(const Block& block) const {
  Phases phases = {};
  const size_t dims = block.size() - 2;
  for (size_t d = 0; d < dims; ++d) {
    const size_t at = kMaxSpatialDims - dims + d;
    const Sliding& s = slidings_[at];
    if (s.windowed) phases[at] = static_cast<int>(s.extent() - 1 - s.LowAt(block[1 + d].start));
  }
  return phases;
}

}  // namespace meshwork
