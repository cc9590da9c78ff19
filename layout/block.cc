#include "meshwork/layout/block.h"

#include <algorithm>

#include "fmt/ranges.h"
#include "meshwork/base/status.h"

namespace meshwork {

Block Intersect(const Block& a, const Block& b) {
  Block common(a.size());
  for (size_t d = 0; d < a.size(); ++d) {
    const int64_t start = std::max(a[d].start, b[d].start);
    const int64_t end = std::min(a[d].start + a[d].size, b[d].start + b[d].size);
    common[d] = {start, std::max<int64_t>(end - start, 0)};
  }
  return common;
}

int64_t NumElements(const Block& block) {
  int64_t n = 1;
  for (const Extent& extent : block) n *= extent.size;
  return n;
}

Shape SizesOf(const Block& block) {
  Shape sizes;
  for (const Extent& extent : block) sizes.push_back(extent.size);
  return sizes;
}

Block WholeBlock(const Shape& global) {
  Block block(global.size());
  for (size_t d = 0; d < global.size(); ++d) block[d] = {0, global[d]};
  return block;
}

std::string BlockToString(const Block& block) {
  std::vector<std::string> dims;
  for (const Extent& e : block) dims.push_back(fmt::format("{}:{}", e.start, e.start + e.size));
  return fmt::format("[{}]", fmt::join(dims, ","));
}

std::vector<Block> CutInto(const Block& block, int64_t parts) {
  MESHWORK_CHECK(!block.empty() && parts >= 1);
  size_t dim = 0;  // the first that is long enough, else the longest
  for (size_t d = 0; d < block.size(); ++d) {
    if (block[d].size >= parts) {
      dim = d;
      break;
    }
    if (block[d].size > block[dim].size) dim = d;
  }
  const Extent rows = block[dim];
  std::vector<Block> cut(static_cast<size_t>(parts), block);
  for (int64_t p = 0; p < parts; ++p) {
    Extent& part = cut[static_cast<size_t>(p)][dim];
    part.start = rows.start + rows.size * p / parts;
    part.size = rows.start + rows.size * (p + 1) / parts - part.start;
  }
  return cut;
}

std::vector<Block> CutToFit(const Block& block, int64_t most) {
  MESHWORK_CHECK(most >= 1);
  if (NumElements(block) == 0) return {};
  std::vector<Block> cut = {block};
  for (size_t d = 0; d < block.size() && NumElements(cut[0]) > most; ++d) {
    const int64_t row = NumElements(cut[0]) / block[d].size;
    const int64_t rows = std::max<int64_t>(most / row, 1);
    std::vector<Block> finer;
    for (const Block& part : cut) {
      for (int64_t begin = 0; begin < block[d].size; begin += rows) {
        finer.push_back(part);
        finer.back()[d] = {block[d].start + begin, std::min(rows, block[d].size - begin)};
      }
    }
    cut = std::move(finer);
  }
  return cut;
}

}  // namespace meshwork
