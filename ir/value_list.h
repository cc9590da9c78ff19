// ValueList: how functions take several values: a brace list, or any container of values or variables.
//
//   Gradients(loss, {w, b});
//   Gradients(loss, graph.variables());
//
// Holds handles; cheap to pass. Thread safety: a value.
#pragma once

#include <concepts>
#include <initializer_list>
#include <ranges>
#include <span>
#include <vector>

#include "meshwork/ir/graph.h"

namespace meshwork {

class ValueList {
 public:
  ValueList(std::initializer_list<Value> values) : values_(values) {}  // NOLINT: implicit
  template <std::ranges::input_range R>
  requires std::convertible_to < std::ranges::range_reference_t<R>,
  const Value& > ValueList(const R& values)
      : values_(std::ranges::begin(values), std::ranges::end(values)) {}  // NOLINT: implicit

  std::span<const Value> values() const { return values_; }

 private:
  std::vector<Value> values_;
};

}  // namespace meshwork
