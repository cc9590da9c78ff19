#include "meshwork/layout/plain_parts.h"

#include <cstddef>
#include <utility>

#include "meshwork/layout/block.h"

namespace meshwork {

std::vector<DimPart> DimParts(const FactorList& factors, const Block& extents) {
  if (NumElements(extents) == 0) return {};
  const size_t n = factors.size();
  std::vector<int64_t> stride(n, 1);
  for (size_t f = n; f-- > 1;) stride[f - 1] = stride[f] * factors[f].size;
  size_t last = n - 1;  // the factors behind it are whole
  while (last > 0 && extents[last].size == factors[last].size) --last;
  std::vector<DimPart> parts = {{{0, 0}, {}}};
  for (size_t f = 0; f < last; ++f) {
    std::vector<DimPart> longer;
    for (const DimPart& part : parts) {
      for (int64_t i = extents[f].start; i < extents[f].start + extents[f].size; ++i) {
        longer.push_back(part);
        longer.back().interval.start += i * stride[f];
        longer.back().factors.push_back({i, 1});
      }
    }
    parts = std::move(longer);
  }
  for (DimPart& part : parts) {
    part.interval.start += extents[last].start * stride[last];
    part.interval.size = extents[last].size * stride[last];
    part.factors.insert(part.factors.end(), extents.begin() + static_cast<int64_t>(last), extents.end());
  }
  return parts;
}

std::vector<PlainPart> PlainParts(const Layout& layout, const Shape& global, const Block& factors) {
  if (NumElements(factors) == 0) return {};
  if (!layout.is_strided()) return {{factors, factors}};
  std::vector<PlainPart> parts = {{}};
  auto next = factors.begin();
  for (int d = 0; d < static_cast<int>(global.size()); ++d) {
    const FactorList of_dim = layout.Factors(d, global[static_cast<size_t>(d)]);
    const Block extents(next, next + std::ssize(of_dim));
    next += std::ssize(of_dim);
    std::vector<PlainPart> longer;
    for (const PlainPart& part : parts) {
      for (const DimPart& dim : DimParts(of_dim, extents)) {
        longer.push_back(part);
        longer.back().box.push_back(dim.interval);
        longer.back().factors.insert(longer.back().factors.end(), dim.factors.begin(), dim.factors.end());
      }
    }
    parts = std::move(longer);
  }
  return parts;
}

}  // namespace meshwork
