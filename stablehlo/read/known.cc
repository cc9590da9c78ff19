#include "meshwork/stablehlo/read/known.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace meshwork::mlir {
namespace {

// Of scale i + offset, the bounds over all iterations.
struct Range {
  int64_t low, high;
};
constexpr int64_t kLargest = int64_t{1} << 31;

std::optional<Range> RangeOf(const Known& known) {
  if (known.is_splat()) return Range{known.bits, known.bits};
  if (!known.is_count() || known.loop->length < 1) return std::nullopt;
  const int64_t last = known.scale * (known.loop->length - 1) + known.offset;
  return Range{std::min(known.offset, last), std::max(known.offset, last)};
}

bool IsWholeElement(std::string_view element) {
  return element == "i32" || element == "i64" || element == "ui32" || element == "ui64";
}

// Whether the numbers are within ±2^31, so that no sum of two wraps around in 64 bits, and, as the element type asks, in 32.
bool Holds(std::string_view element, const Range& range) {
  const int64_t low = element.starts_with('u') ? 0 : -kLargest;
  return range.low >= low && range.high < kLargest;
}

std::optional<Known> Checked(const Known& known, std::string_view element) {
  if (known.is_count() && std::abs(known.scale) >= kLargest)
    return std::nullopt;  // of a single iteration no range shows it
  const std::optional<Range> range = RangeOf(known);
  return range.has_value() && Holds(element, *range) ? std::optional(known) : std::nullopt;
}

// a + sign b.
std::optional<Known> Sum(const Known& a, const Known& b, int64_t sign, std::string_view element) {
  if (a.is_count() && b.is_count() && a.loop != b.loop) return std::nullopt;
  const auto scale = [](const Known& k) { return k.is_count() ? k.scale : 0; };
  const auto offset = [](const Known& k) { return k.is_count() ? k.offset : k.bits; };
  Known sum{.kind = Known::Kind::kCount,
            .loop = a.is_count() ? a.loop : b.loop,
            .scale = scale(a) + sign * scale(b),
            .offset = offset(a) + sign * offset(b)};
  if (sum.loop == nullptr || sum.scale == 0) sum = Known::Splat(sum.offset);
  return Checked(sum, element);
}

std::optional<bool> Compares(std::string_view direction, const Range& a, const Range& b) {
  const bool is_one = a.low == a.high && b.low == b.high;
  if (direction == "LT")
    return a.high < b.low ? std::optional(true) : a.low >= b.high ? std::optional(false) : std::nullopt;
  if (direction == "LE")
    return a.high <= b.low ? std::optional(true) : a.low > b.high ? std::optional(false) : std::nullopt;
  if (direction == "GT") return Compares("LT", b, a);
  if (direction == "GE") return Compares("LE", b, a);
  if (direction != "EQ" && direction != "NE") return std::nullopt;
  if (a.high < b.low || b.high < a.low) return direction == "NE";
  if (is_one) return direction == "EQ";
  return std::nullopt;
}

// Whether the shapes of an op that moves elements may be these; what else its attributes say is not looked at.
bool MayMove(const Op& op) {
  const Shape &from = op.operand_types[0].shape, &to = op.result_types[0].shape;
  if (op.name == "stablehlo.broadcast_in_dim") return from.size() <= to.size();
  if (op.name == "stablehlo.slice" || op.name == "stablehlo.dynamic_slice") {
    if (from.size() != to.size()) return false;
    for (size_t d = 0; d < from.size(); ++d)
      if (to[d] > from[d]) return false;
    return true;
  }
  return NumElements(from) == NumElements(to);
}

}  // namespace

Folded Fold(const Op& op, std::span<const Known> operands) {
  const std::string_view name = op.name;
  if (operands.empty() || op.operand_types.empty() || op.result_types.size() != 1) return {};
  const std::string& element = op.operand_types[0].element;
  const TensorType& result = op.result_types[0];
  const bool is_same_element = result.element == element;
  const Known& x = operands[0];
  // Of one number all places are alike.
  const bool moves = name == "stablehlo.broadcast_in_dim" || name == "stablehlo.reshape" ||
                     name == "stablehlo.transpose" || name == "stablehlo.slice" ||
                     name == "stablehlo.reverse" || name == "stablehlo.dynamic_slice";
  if (moves && x.is_splat() && is_same_element && MayMove(op)) return {.known = x};
  if (moves && x.is_count() && is_same_element && result.shape == op.operand_types[0].shape)
    return {.known = x};
  if (name == "stablehlo.select" && operands.size() == 3 && x.is_splat() &&
      (op.operand_types[0].rank() == 0 || op.operand_types[0].shape == op.result_types[0].shape))
    return {.operand = x.bits != 0 ? 1 : 2};
  if (name == "stablehlo.and" && element == "i1" && operands.size() == 2) {
    for (const size_t i : {0, 1})
      if (operands[i].is_splat()) return {.operand = operands[i].bits != 0 ? 1 - i : i};
  }
  for (const TensorType& operand : op.operand_types)
    if (operand != op.operand_types[0] || operand.shape != result.shape) return {};
  const auto range = RangeOf(x);
  if (!range.has_value() || !IsWholeElement(element) || !Holds(element, *range)) return {};
  if (name == "stablehlo.convert" && IsWholeElement(result.element))
    return {.known = Checked(x, result.element)};
  if (name == "stablehlo.negate" && is_same_element) return {.known = Sum(Known::Splat(0), x, -1, element)};
  if (operands.size() != 2) return {};
  const auto other = RangeOf(operands[1]);
  if (!other.has_value() || !Holds(element, *other)) return {};
  if (name == "stablehlo.add" && is_same_element) return {.known = Sum(x, operands[1], 1, element)};
  if (name == "stablehlo.subtract" && is_same_element) return {.known = Sum(x, operands[1], -1, element)};
  if (name == "stablehlo.compare" && result.element == "i1") {
    const std::optional<bool> holds =
        Compares(WordOf(op.attributes.Find("comparison_direction")), *range, *other);
    if (holds.has_value()) return {.known = Known::Splat(*holds ? 1 : 0)};
  }
  return {};
}

std::optional<bool> RowIsBackward(const CountedLoop& loop, const Shape& shape, const Shape& sizes,
                                  std::span<const Known> starts) {
  if (shape.empty() || shape[0] != loop.length || sizes.size() != shape.size() ||
      starts.size() != shape.size())
    return std::nullopt;
  if (sizes[0] != 1 || !std::equal(sizes.begin() + 1, sizes.end(), shape.begin() + 1)) return std::nullopt;
  for (const Known& start : starts.subspan(1))
    if (start != Known::Splat(0)) return std::nullopt;
  const Known& row = starts[0];
  if (loop.length == 1 && row == Known::Splat(0)) return false;
  if (!row.is_count() || row.loop != &loop) return std::nullopt;
  if (row.scale == 1 && row.offset == 0) return false;
  if (row.scale == -1 && row.offset == loop.length - 1) return true;
  return std::nullopt;
}

}  // namespace meshwork::mlir
