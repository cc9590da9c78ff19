// Attributes of a node: name=value pairs, typed by the op's row.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
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

// Entry d of a list attribute that may be left out, such as strides; `usual` if it is left out.
inline int64_t EntryOr(const std::vector<int64_t>& list, size_t d, int64_t usual) {
  return list.empty() ? usual : list[d];
}

// What an attribute holds; the order is that of AttrValue's alternatives.
enum class AttrKind { kBool, kInt, kFloat, kDType, kInts, kAxes, kReduceOp, kLayout };

// Whether two values are equal; numbers are compared bit by bit, so 0 is not -0, and NaN is NaN.
bool SameAttr(const AttrValue& a, const AttrValue& b);

// Declares one attribute of a row. An attribute without a default must be given.
struct AttrSpec {
  std::string_view name;
  AttrKind kind;
  std::optional<AttrValue> fallback = std::nullopt;
  // This attribute is the result's shape (kInts) or its last dim (kInt): Localize makes it local.
  bool is_result_shape = false;
};

// The attributes of a node, by name. Copies share the attributes until one of them is Set; they may be used in several
// threads.
class Attrs {
 public:
  using Entries = std::vector<std::pair<std::string, AttrValue>>;

  Attrs() = default;
  Attrs(std::initializer_list<Entries::value_type> entries) : Attrs(Entries(entries)) {}
  // REQUIRES: each name once.
  explicit Attrs(Entries entries)
      : entries_(entries.empty() ? nullptr : std::make_shared<const Entries>(std::move(entries))) {}

  // Replaces the attribute, or adds it at the end. Pointers and references returned by the functions below may become
  // invalid.
  void Set(std::string_view name, AttrValue value);
  const AttrValue* Find(std::string_view name) const {
    for (const auto& [key, value] : entries())
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
  const Entries& entries() const { return entries_ == nullptr ? NoEntries() : *entries_; }
  // By SameAttr.
  bool operator==(const Attrs& other) const;

 private:
  static const Entries& NoEntries();

  std::shared_ptr<const Entries> entries_;  // null: none
};

}  // namespace meshwork
