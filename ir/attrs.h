// Attributes of a node: name=value pairs, typed by the op's row.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/ir/type.h"
#include "meshwork/layout/layout.h"

namespace meshwork {

// bool, whole number, real number, dtype, list of whole numbers (dims, shapes), mesh axes, reduction, pin.
using AttrValue =
    std::variant<bool, int64_t, double, DType, std::vector<int64_t>, AxisList, ReduceOp, LayoutPin>;

// What an attribute holds; the order is that of AttrValue's alternatives.
enum class AttrKind { kBool, kInt, kFloat, kDType, kInts, kAxes, kReduceOp, kLayout };

// Equal, numbers bit by bit: 0 is not -0, while NaN is NaN.
bool SameAttr(const AttrValue& a, const AttrValue& b);

// Declares one attribute of a row. An attribute without a default must be given.
struct AttrSpec {
  std::string_view name;
  AttrKind kind;
  std::optional<AttrValue> fallback = std::nullopt;
  // This attribute is the result's shape (kInts) or its last dim (kInt): Localize makes it local.
  bool is_result_shape = false;
};

// The attributes of a node, by name.
class Attrs {
 public:
  Attrs() = default;
  Attrs(std::initializer_list<std::pair<std::string, AttrValue>> entries) : entries_(entries) {}

  void Set(std::string_view name, AttrValue value) {
    for (auto& [key, old] : entries_) {
      if (key == name) {
        old = std::move(value);
        return;
      }
    }
    entries_.emplace_back(name, std::move(value));
  }
  const AttrValue* Find(std::string_view name) const {
    for (const auto& [key, value] : entries_)
      if (key == name) return &value;
    return nullptr;
  }
  // REQUIRES: the attribute is there with type T (the graph fills defaults in).
  template <typename T>
  const T& Get(std::string_view name) const {
    const AttrValue* value = Find(name);
    MESHWORK_CHECK(value != nullptr && std::holds_alternative<T>(*value), "attribute {}", name);
    return std::get<T>(*value);
  }
  const std::vector<std::pair<std::string, AttrValue>>& entries() const { return entries_; }
  // By SameAttr.
  bool operator==(const Attrs& other) const {
    return std::equal(
        entries_.begin(), entries_.end(), other.entries_.begin(), other.entries_.end(),
        [](const auto& a, const auto& b) { return a.first == b.first && SameAttr(a.second, b.second); });
  }

 private:
  std::vector<std::pair<std::string, AttrValue>> entries_;
};

}  // namespace meshwork
