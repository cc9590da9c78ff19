// The text of a StableHLO module, op by op, in MLIR's generic form: what a form (forms.h) writes with.
//
//   const HloValue sum = text.Op("stablehlo.add", {a, b}, a.type);
//   const HloValue total = text.Reduce(ReduceOp::kSum, sum, {1});
//
// Each op ends in the place of the node that it is written for, so that a plugin's errors name the user's line.
//
// Source: StableHLO specification, openxla.org/stablehlo/spec. Plain data; not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/ir/type.h"
#include "meshwork/layout/layout.h"

namespace meshwork::stablehlo {

// "tensor<4x6xf32>"
std::string TypeText(const Type& type);
// "[0, 2]", as an array attribute "array<i64: 0, 2>".
std::string Array(std::span<const int64_t> numbers);
inline std::string Array(std::initializer_list<int64_t> numbers) {
  return Array(std::span(numbers.begin(), numbers.size()));
}

struct HloValue {
  int id = -1;  // printed as %id
  Type type;

  const Shape& shape() const { return type.shape; }
  DType dtype() const { return type.dtype; }
  int rank() const { return type.rank(); }
};
using HloValues = std::vector<HloValue>;

class HloText {
 public:
  // Of the module so far.
  const std::string& text() const { return text_; }
  // Ops are written for this op of ours, and its place, from now on.
  void SetLocation(std::string_view op, const SourceLocation& location);

  HloValue NewValue(Type type) { return {next_++, std::move(type)}; }
  void Line(std::string_view line);
  void Indent() { ++depth_; }

  // ---- Ops. `attrs`: "dimensions = array<i64: 1>"; of several, with commas.

  HloValue Op(std::string_view name, std::span<const HloValue> operands, Type result,
              std::string_view attrs = {});
  HloValue Op(std::string_view name, std::initializer_list<HloValue> operands, Type result,
              std::string_view attrs = {}) {
    return Op(name, std::span(operands.begin(), operands.size()), std::move(result), attrs);
  }
  // Any number of results, and regions, which Region makes.
  HloValues Ops(std::string_view name, std::span<const HloValue> operands, std::vector<Type> results,
                std::string_view attrs = {}, std::span<const std::string> regions = {});
  // The region of an op: `body` gets the arguments and gives what the region returns.
  std::string Region(const std::vector<Type>& arguments,
                     const std::function<HloValues(const HloValues&)>& body);
  // A region of an op that reduces scalars of `dtype` by `op`; "stablehlo.add", for sums.
  std::string Reduction(ReduceOp op, DType dtype);

  // ---- Constants.

  // Every element is `number`, rounded to the dtype.
  HloValue Constant(double number, Type type);
  HloValue WholeConstant(int64_t number, Type type);  // REQUIRES: not a real dtype
  // These numbers, row by row.
  HloValue Table(std::span<const int64_t> numbers, Type type);  // REQUIRES: i32 or i64
  // What reducing nothing by `op` gives.
  HloValue Identity(ReduceOp op, DType dtype);
  // A number of this device: numbers[replica]. i64[].
  HloValue OfThisDevice(std::span<const int64_t> numbers);

  // ---- Shorthands.

  HloValue Convert(const HloValue& x, DType dtype);  // as stablehlo.convert; x itself if it has the dtype
  HloValue Reshape(const HloValue& x, const Shape& shape);
  HloValue Transpose(const HloValue& x, const std::vector<int64_t>& permutation);
  // Dim d of x becomes dim dims[d]; dims of size 1 are stretched.
  HloValue BroadcastInDim(const HloValue& x, const Shape& shape, const std::vector<int64_t>& dims);
  // By NumPy's rule: shapes are aligned at their last dim.
  HloValue Broadcast(const HloValue& x, const Shape& shape);
  // Elements [start, limit) along each dim, every stride-th one.
  HloValue Slice(const HloValue& x, const Shape& start, const Shape& limit, const Shape& stride = {});
  // Elements [start, limit) along one dim.
  HloValue SliceDim(const HloValue& x, int64_t dim, int64_t start, int64_t limit);
  // Pads with `value`, a scalar; low and high may be negative; `interior` empty: none.
  HloValue Pad(const HloValue& x, const HloValue& value, const Shape& low, const Shape& high,
               const Shape& interior = {});
  HloValue Concatenate(std::span<const HloValue> parts, int64_t dim);
  HloValue Iota(Type type, int64_t dim);
  HloValue Reverse(const HloValue& x, const std::vector<int64_t>& dims);
  // The dims are left out of the result.
  HloValue Reduce(ReduceOp op, const HloValue& x, const std::vector<int64_t>& dims);
  // direction: "EQ", "NE", "LT", "LE", "GT", "GE". Both of one type. Reals by IEEE's order, in which NaN is unequal to all.
  HloValue Compare(std::string_view direction, const HloValue& a, const HloValue& b);
  // All of one shape.
  HloValue Select(const HloValue& condition, const HloValue& a, const HloValue& b);
  // Of one shape and dtype.
  HloValue Add(const HloValue& a, const HloValue& b) { return Op("stablehlo.add", {a, b}, a.type); }
  HloValue Subtract(const HloValue& a, const HloValue& b) { return Op("stablehlo.subtract", {a, b}, a.type); }
  HloValue Multiply(const HloValue& a, const HloValue& b) { return Op("stablehlo.multiply", {a, b}, a.type); }
  HloValue Divide(const HloValue& a, const HloValue& b) { return Op("stablehlo.divide", {a, b}, a.type); }
  HloValue Maximum(const HloValue& a, const HloValue& b) { return Op("stablehlo.maximum", {a, b}, a.type); }
  HloValue Minimum(const HloValue& a, const HloValue& b) { return Op("stablehlo.minimum", {a, b}, a.type); }
  HloValue Negate(const HloValue& x) { return Op("stablehlo.negate", {x}, x.type); }
  // With the number as a constant of x's type.
  HloValue Add(const HloValue& x, double number) { return Add(x, Constant(number, x.type)); }
  HloValue Multiply(const HloValue& x, double number) { return Multiply(x, Constant(number, x.type)); }
  // [batch.., rows.., columns..]: products summed over the dims `contracted`; f32 and f64 as exact as these are.
  HloValue DotGeneral(const HloValue& a, const HloValue& b, const std::vector<int64_t>& batch_a,
                      const std::vector<int64_t>& batch_b, const std::vector<int64_t>& contracted_a,
                      const std::vector<int64_t>& contracted_b, DType result);

 private:
  std::string text_, location_;
  int next_ = 0, depth_ = 1;
};

}  // namespace meshwork::stablehlo
