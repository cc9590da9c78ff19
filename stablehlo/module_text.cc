#include "meshwork/stablehlo/module_text.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "fmt/ranges.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/row.h"

namespace meshwork::stablehlo {
namespace {

// "f32", as MLIR writes it.
std::string_view ElementText(DType dtype) {
  switch (dtype) {
    case DType::kBool: return "i1";
    case DType::kU8: return "ui8";
    default: return DTypeName(dtype);
  }
}

// The bits of a number, for types whose decimal text would be rounded.
std::string RealText(double number, DType dtype) {
  if (dtype == F64) return fmt::format("0x{:016X}", std::bit_cast<uint64_t>(number));
  if (dtype == F16) return fmt::format("0x{:04X}", Float16(static_cast<float>(number)).bits);
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(number));
  if (dtype == F32) return fmt::format("0x{:08X}", bits);
  return fmt::format("0x{:04X}",
                     std::bit_cast<uint32_t>(static_cast<float>(BFloat16(static_cast<float>(number)))) >> 16);
}

std::string ValueTexts(std::span<const HloValue> values) {
  std::string texts;
  for (const HloValue& value : values) texts += fmt::format("{}%{}", texts.empty() ? "" : ", ", value.id);
  return texts;
}

template <typename Types>
std::string TypeTexts(const Types& types) {
  std::string texts;
  for (const Type& type : types) texts += (texts.empty() ? "" : ", ") + TypeText(type);
  return texts;
}

std::vector<Type> TypesOfValues(std::span<const HloValue> values) {
  std::vector<Type> types;
  for (const HloValue& value : values) types.push_back(value.type);
  return types;
}

std::string_view OpOf(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum: return "stablehlo.add";
    case ReduceOp::kProd: return "stablehlo.multiply";
    case ReduceOp::kMax: return "stablehlo.maximum";
    case ReduceOp::kMin: return "stablehlo.minimum";
    case ReduceOp::kAnd: return "stablehlo.and";
    case ReduceOp::kOr: return "stablehlo.or";
    default: break;
  }
  MESHWORK_CHECK(false, "reduction {}", static_cast<int>(op));
}

}  // namespace

std::string TypeText(const Type& type) {
  std::string text = "tensor<";
  for (const int64_t size : type.shape) text += fmt::format("{}x", size);
  return fmt::format("{}{}>", text, ElementText(type.dtype));
}

std::string Array(std::span<const int64_t> numbers) {
  if (numbers.empty()) return "array<i64>";
  return fmt::format("array<i64: {}>", fmt::join(numbers, ", "));
}

void HloText::SetLocation(std::string_view op, const SourceLocation& location) {
  const std::string place =
      location.file.empty() ? ""
                            : fmt::format("(\"{}\":{}:0)", std::string_view(location.file), location.line);
  location_ = fmt::format(" loc(\"{}\"{})", op, place);
}

void HloText::Line(std::string_view line) { text_ += fmt::format("{:{}}{}\n", "", 2 * depth_, line); }

HloValue HloText::Op(std::string_view name, std::span<const HloValue> operands, Type result,
                     std::string_view attrs) {
  return Ops(name, operands, {std::move(result)}, attrs)[0];
}

HloValues HloText::Ops(std::string_view name, std::span<const HloValue> operands, std::vector<Type> results,
                       std::string_view attrs, std::span<const std::string> regions) {
  HloValues values;
  std::string left;
  if (results.size() > 1) {
    // %7:2 has the results %7#0 and %7#1; here each result has a number of its own.
    for (const Type& type : results) values.push_back(NewValue(type));
    left = ValueTexts(values) + " = ";
  } else if (!results.empty()) {
    values.push_back(NewValue(results[0]));
    left = fmt::format("%{} = ", values[0].id);
  }
  std::string line = fmt::format("{}\"{}\"({})", left, name, ValueTexts(operands));
  if (!regions.empty()) {
    line += " (";
    for (size_t r = 0; r < regions.size(); ++r)
      line += fmt::format("{}{{\n{}{:{}}}}", r > 0 ? ", " : "", regions[r], "", 2 * depth_);
    line += ")";
  }
  if (!attrs.empty()) line += fmt::format(" {{{}}}", attrs);
  Line(fmt::format("{} : ({}) -> {}{}{}{}", line, TypeTexts(TypesOfValues(operands)),
                   results.size() == 1 ? "" : "(", TypeTexts(results), results.size() == 1 ? "" : ")",
                   location_));
  return values;
}

std::string HloText::Region(const std::vector<Type>& arguments,
                            const std::function<HloValues(const HloValues&)>& body) {
  std::string outer = std::exchange(text_, {});
  HloValues values;
  std::string texts;
  for (const Type& type : arguments) {
    values.push_back(NewValue(type));
    texts += fmt::format("{}%{}: {}", texts.empty() ? "" : ", ", values.back().id, TypeText(type));
  }
  if (!arguments.empty()) Line(fmt::format("^bb0({}):", texts));
  ++depth_;
  const HloValues results = body(values);
  Ops("stablehlo.return", results, {});
  --depth_;
  return std::exchange(text_, std::move(outer));
}

std::string HloText::Reduction(ReduceOp op, DType dtype) {
  const Type scalar{dtype, {}};
  return Region({scalar, scalar},
                [&](const HloValues& values) { return HloValues{Op(OpOf(op), values, scalar)}; });
}

HloValue HloText::Constant(double number, Type type) {
  if (!IsReal(type.dtype)) return WholeConstant(static_cast<int64_t>(number), std::move(type));
  return Op("stablehlo.constant", {}, type,
            fmt::format("value = dense<{}> : {}", RealText(number, type.dtype), TypeText(type)));
}

HloValue HloText::WholeConstant(int64_t number, Type type) {
  const std::string text = type.dtype == BOOL ? (number != 0 ? "true" : "false") : fmt::format("{}", number);
  return Op("stablehlo.constant", {}, type, fmt::format("value = dense<{}> : {}", text, TypeText(type)));
}

HloValue HloText::Table(std::span<const int64_t> numbers, Type type) {
  const Type flat{type.dtype, {std::ssize(numbers)}};
  const HloValue table =
      Op("stablehlo.constant", {}, flat,
         numbers.empty() ? fmt::format("value = dense<> : {}", TypeText(flat))
                         : fmt::format("value = dense<[{}]> : {}", fmt::join(numbers, ", "), TypeText(flat)));
  return Reshape(table, type.shape);
}

HloValue HloText::Identity(ReduceOp op, DType dtype) {
  const Type scalar{dtype, {}};
  switch (op) {
    case ReduceOp::kSum: return Constant(IsReal(dtype) ? -0.0 : 0, scalar);
    case ReduceOp::kOr: return Constant(0, scalar);
    case ReduceOp::kProd: return Constant(1, scalar);
    case ReduceOp::kAnd: return WholeConstant(dtype == BOOL ? 1 : -1, scalar);
    default: break;
  }
  const double sign = op == ReduceOp::kMax ? -1 : 1;
  if (IsReal(dtype)) return Constant(sign * std::numeric_limits<double>::infinity(), scalar);
  if (dtype == I32)
    return WholeConstant(sign < 0 ? std::numeric_limits<int32_t>::min() : std::numeric_limits<int32_t>::max(),
                         scalar);
  return WholeConstant(sign < 0 ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int64_t>::max(),
                       scalar);
}

HloValue HloText::OfThisDevice(std::span<const int64_t> numbers) {
  if (std::all_of(numbers.begin(), numbers.end(), [&](int64_t number) { return number == numbers[0]; }))
    return WholeConstant(numbers[0], {I64, {}});
  const HloValue table = Table(numbers, {I64, {std::ssize(numbers)}});
  // Of ui32, which no op of ours has.
  const int replica = next_++;
  Line(fmt::format("%{} = \"stablehlo.replica_id\"() : () -> tensor<ui32>{}", replica, location_));
  const HloValue index = NewValue({I64, {}});
  Line(fmt::format("%{} = \"stablehlo.convert\"(%{}) : (tensor<ui32>) -> tensor<i64>{}", index.id, replica,
                   location_));
  return Reshape(Op("stablehlo.dynamic_slice", {table, index}, {I64, {1}}, "slice_sizes = array<i64: 1>"),
                 {});
}

HloValue HloText::Convert(const HloValue& x, DType dtype) {
  return x.dtype() == dtype ? x : Op("stablehlo.convert", {x}, {dtype, x.shape()});
}

HloValue HloText::Reshape(const HloValue& x, const Shape& shape) {
  return x.shape() == shape ? x : Op("stablehlo.reshape", {x}, {x.dtype(), shape});
}

HloValue HloText::Transpose(const HloValue& x, const std::vector<int64_t>& permutation) {
  Shape shape;
  for (const int64_t d : permutation) shape.push_back(x.shape()[d]);
  return Op("stablehlo.transpose", {x}, {x.dtype(), shape}, "permutation = " + Array(permutation));
}

HloValue HloText::BroadcastInDim(const HloValue& x, const Shape& shape, const std::vector<int64_t>& dims) {
  return Op("stablehlo.broadcast_in_dim", {x}, {x.dtype(), shape}, "broadcast_dimensions = " + Array(dims));
}

HloValue HloText::Broadcast(const HloValue& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  std::vector<int64_t> dims;
  for (int d = 0; d < x.rank(); ++d) dims.push_back(std::ssize(shape) - x.rank() + d);
  return BroadcastInDim(x, shape, dims);
}

HloValue HloText::Slice(const HloValue& x, const Shape& start, const Shape& limit, const Shape& stride) {
  Shape shape, strides = stride;
  if (strides.empty()) strides.assign(start.size(), 1);
  for (size_t d = 0; d < start.size(); ++d)
    shape.push_back((limit[d] - start[d] + strides[d] - 1) / strides[d]);
  return Op("stablehlo.slice", {x}, {x.dtype(), shape},
            fmt::format("start_indices = {}, limit_indices = {}, strides = {}", Array(start), Array(limit),
                        Array(strides)));
}

HloValue HloText::SliceDim(const HloValue& x, int64_t dim, int64_t start, int64_t limit) {
  Shape starts(x.shape().size(), 0), limits = x.shape();
  starts[dim] = start;
  limits[dim] = limit;
  return Slice(x, starts, limits);
}

HloValue HloText::Pad(const HloValue& x, const HloValue& value, const Shape& low, const Shape& high,
                      const Shape& interior) {
  Shape shape, between = interior;
  if (between.empty()) between.assign(low.size(), 0);
  for (size_t d = 0; d < low.size(); ++d)
    shape.push_back(low[d] + high[d] + x.shape()[d] + std::max<int64_t>(x.shape()[d] - 1, 0) * between[d]);
  return Op("stablehlo.pad", {x, value}, {x.dtype(), shape},
            fmt::format("edge_padding_low = {}, edge_padding_high = {}, interior_padding = {}", Array(low),
                        Array(high), Array(between)));
}

HloValue HloText::Concatenate(std::span<const HloValue> parts, int64_t dim) {
  Type type = parts[0].type;
  type.shape[dim] = 0;
  for (const HloValue& part : parts) type.shape[dim] += part.shape()[dim];
  return Op("stablehlo.concatenate", parts, type, fmt::format("dimension = {} : i64", dim));
}

HloValue HloText::Iota(Type type, int64_t dim) {
  return Op("stablehlo.iota", {}, std::move(type), fmt::format("iota_dimension = {} : i64", dim));
}

HloValue HloText::Reverse(const HloValue& x, const std::vector<int64_t>& dims) {
  return Op("stablehlo.reverse", {x}, x.type, "dimensions = " + Array(dims));
}

HloValue HloText::Reduce(ReduceOp op, const HloValue& x, const std::vector<int64_t>& dims) {
  Type result{x.dtype(), {}};
  for (int d = 0; d < x.rank(); ++d)
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) result.shape.push_back(x.shape()[d]);
  const HloValue operands[] = {x, Identity(op, x.dtype())};
  const std::string region = Reduction(op, x.dtype());
  return Ops("stablehlo.reduce", operands, {result}, "dimensions = " + Array(dims), {&region, 1})[0];
}

HloValue HloText::Compare(std::string_view direction, const HloValue& a, const HloValue& b) {
  const std::string_view kind = IsReal(a.dtype())                      ? "FLOAT"
                                : a.dtype() == BOOL || a.dtype() == U8 ? "UNSIGNED"
                                                                       : "SIGNED";
  return Op("stablehlo.compare", {a, b}, {BOOL, a.shape()},
            fmt::format("comparison_direction = #stablehlo<comparison_direction {}>, compare_type = "
                        "#stablehlo<comparison_type {}>",
                        direction, kind));
}

HloValue HloText::Select(const HloValue& condition, const HloValue& a, const HloValue& b) {
  return Op("stablehlo.select", {condition, a, b}, a.type);
}

HloValue HloText::DotGeneral(const HloValue& a, const HloValue& b, const std::vector<int64_t>& batch_a,
                             const std::vector<int64_t>& batch_b, const std::vector<int64_t>& contracted_a,
                             const std::vector<int64_t>& contracted_b, DType result) {
  const auto has = [](const std::vector<int64_t>& dims, int64_t d) {
    return std::find(dims.begin(), dims.end(), d) != dims.end();
  };
  Type type{result, {}};
  for (const int64_t d : batch_a) type.shape.push_back(a.shape()[d]);
  for (int d = 0; d < a.rank(); ++d)
    if (!has(batch_a, d) && !has(contracted_a, d)) type.shape.push_back(a.shape()[d]);
  for (int d = 0; d < b.rank(); ++d)
    if (!has(batch_b, d) && !has(contracted_b, d)) type.shape.push_back(b.shape()[d]);
  return Op(
      "stablehlo.dot_general", {a, b}, type,
      fmt::format("dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [{}], "
                  "rhs_batching_dimensions = [{}], lhs_contracting_dimensions = [{}], "
                  "rhs_contracting_dimensions = [{}]>, precision_config = [#stablehlo<precision HIGHEST>, "
                  "#stablehlo<precision HIGHEST>]",
                  fmt::join(batch_a, ", "), fmt::join(batch_b, ", "), fmt::join(contracted_a, ", "),
                  fmt::join(contracted_b, ", ")));
}

}  // namespace meshwork::stablehlo
