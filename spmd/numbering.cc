#include "meshwork/spmd/numbering.h"

#include <bit>
#include <variant>

namespace meshwork {
namespace {

// Finalizer of splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
uint64_t Mixed(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace

uint64_t MixedHash(uint64_t a, uint64_t b) { return Mixed(a ^ Mixed(b)); }

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
