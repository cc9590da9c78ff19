#include "meshwork/spmd/planner/numbering.h"

#include <bit>
#include <variant>

namespace meshwork {

uint64_t HashOf(const Layout& layout) {
  uint64_t hash = layout.is_strided() ? 1 : 0;
  for (int d = 0; d < layout.rank(); ++d) {
    hash = MixedHash(hash, 2);
    if (layout.IsStrided(d)) continue;
    for (int axis : layout.dim(d)) hash = MixedHash(hash, static_cast<uint64_t>(axis) + 3);
  }
  return hash;
}

uint64_t HashOf(const Attrs& attrs) {
  uint64_t hash = 0;
  for (const auto& [name, value] : attrs.entries()) {
    hash = MixedHash(hash, value.index());
    if (const auto* number = std::get_if<int64_t>(&value))
      hash = MixedHash(hash, static_cast<uint64_t>(*number));
    if (const auto* number = std::get_if<double>(&value))
      hash = MixedHash(hash, std::bit_cast<uint64_t>(*number));
    if (const auto* numbers = std::get_if<std::vector<int64_t>>(&value))
      for (int64_t number : *numbers) hash = MixedHash(hash, static_cast<uint64_t>(number));
    if (const auto* pin = std::get_if<LayoutPin>(&value)) hash = MixedHash(hash, HashOf(pin->layout));
  }
  return hash;
}

}  // namespace meshwork
