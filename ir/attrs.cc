#include "meshwork/ir/attrs.h"

#include <bit>

namespace meshwork {

bool SameAttr(const AttrValue& a, const AttrValue& b) {
  const auto *x = std::get_if<double>(&a), *y = std::get_if<double>(&b);
  if (x == nullptr || y == nullptr) return a == b;
  return std::bit_cast<uint64_t>(*x) == std::bit_cast<uint64_t>(*y);
}

}  // namespace meshwork
