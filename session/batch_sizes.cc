#include "meshwork/session/batch_sizes.h"

#include <algorithm>

namespace meshwork {

std::vector<int64_t> BatchSizes(int64_t full) {
  std::vector<int64_t> sizes = {full};
  while (sizes.back() > 1) sizes.push_back((sizes.back() + 3) / 4);
  return sizes;
}

std::vector<BatchPart> CutIntoBatches(int64_t rows, const std::vector<int64_t>& sizes) {
  std::vector<BatchPart> parts;
  for (int64_t begin = 0; begin < rows;) {
    const int64_t left = rows - begin;
    // The smallest size that holds all that is left; the largest one if none does.
    auto size = std::find_if(sizes.rbegin(), sizes.rend(), [&](int64_t s) { return s >= left; });
    if (size == sizes.rend()) --size;
    if (2 * left <= *size && size != sizes.rbegin()) --size;
    parts.push_back({begin, std::min(left, *size), *size});
    begin += parts.back().rows;
  }
  return parts;
}

}  // namespace meshwork
