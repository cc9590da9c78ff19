// Values without operands. Part of ops/ops.h, which says what holds for all ops.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <ranges>
#include <type_traits>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/ir/operand.h"

namespace meshwork {

// Each device generates its own block; any layout, no communication.
Value Constant(Graph& graph, double value, const Type& type, CallSite loc = CallSite::Current());
// Numbers in row-major order: a brace list, or a range of numbers.
class ElementList {
 public:
  ElementList(std::initializer_list<double> values) : reals_(values) {}  // NOLINT: implicit
  template <std::ranges::input_range R>
  ElementList(const R& values) {  // NOLINT
    for (const auto& value : values) {
      if constexpr (std::is_integral_v<std::ranges::range_value_t<R>>) wholes_.push_back(value);
      else reals_.push_back(static_cast<double>(value));
    }
  }

  int64_t size() const { return static_cast<int64_t>(reals_.size() + wholes_.size()); }
  bool is_whole() const { return !wholes_.empty(); }
  const std::vector<double>& reals() const { return reals_; }
  const std::vector<int64_t>& wholes() const { return wholes_; }

 private:
  std::vector<double> reals_;    // one of the two is empty
  std::vector<int64_t> wholes_;  // exact beyond 2^53
};
// A constant with these elements, such as a table or a kernel; they become part of the program:
//   Constant(g, {-1, 0, 1}, {F32, {3}})
// Each device keeps its block. Errors: another number of elements than the type's; more than 2^16: feed them, or set a
// variable (Session::Set); a whole type, and elements that are not whole.
Value Constant(Graph& graph, const ElementList& values, const Type& type, CallSite loc = CallSite::Current());
// 0, 1, 2, … along `dim`; a negative `dim` counts from the end.
Value Iota(Graph& graph, const Type& type, int64_t dim, CallSite loc = CallSite::Current());
// x: integers [..] -> [.., depth], 1 where the last index equals x, else 0.
Value OneHot(const Operand& x, int64_t depth, DType dtype);
// Numbers of real `type` [n] from start to stop, both included, at equal distances; if n is 1, start.
Value Linspace(Graph& graph, double start, double stop, const Type& type, CallSite loc = CallSite::Current());
// type: […,n,m]; 1 where column - row is `offset`, else 0.
Value Eye(Graph& graph, const Type& type, int64_t offset = 0, CallSite loc = CallSite::Current());

}  // namespace meshwork
