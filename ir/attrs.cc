#include "meshwork/ir/attrs.h"

#include <algorithm>
#include <bit>

namespace meshwork {

bool SameAttr(const AttrValue& a, const AttrValue& b) {
  const auto *x = std::get_if<double>(&a), *y = std::get_if<double>(&b);
  if (x == nullptr || y == nullptr) return a == b;
  return std::bit_cast<uint64_t>(*x) == std::bit_cast<uint64_t>(*y);
}

void Attrs::Set(std::string_view name, AttrValue value) {
  Entries changed;
  changed.reserve(entries().size() + 1);
  bool is_there = false;
  for (const auto& [key, old] : entries()) {
    const bool is_it = key == name;
    changed.emplace_back(key, is_it ? std::move(value) : old);
    is_there |= is_it;
  }
  if (!is_there) changed.emplace_back(name, std::move(value));
  *this = Attrs(std::move(changed));
}

bool Attrs::operator==(const Attrs& other) const {
  if (entries_ == other.entries_) return true;
  const Entries &a = entries(), &b = other.entries();
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.first == y.first && SameAttr(x.second, y.second);
  });
}

const Attrs::Entries& Attrs::NoEntries() {
  static const auto* const none = new Entries;
  return *none;
}

}  // namespace meshwork
