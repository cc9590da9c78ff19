// The forms of ops that change the shape of a value, and of those that move its elements: slices, joins, reversals, rolls.
//
// Sizes are those of the blocks; of the attributes, places count only along dims that are whole.
#include <cstdint>
#include <vector>

#include "meshwork/stablehlo/forms.h"

namespace meshwork::stablehlo {
namespace {

using Ints = std::vector<int64_t>;

// ---- Shapes.

absl::StatusOr<HloValues> BroadcastToForm(const FormView& v) {
  return HloValues{v.text.BroadcastInDim(v.operands[0], v.result().shape, v.attrs().Get<Ints>("dims"))};
}

// Of reshape, squeeze and expand_dims: the same elements in the same order.
absl::StatusOr<HloValues> ReshapeForm(const FormView& v) {
  return HloValues{v.text.Reshape(v.operands[0], v.result().shape)};
}

absl::StatusOr<HloValues> TransposeForm(const FormView& v) {
  return HloValues{v.text.Transpose(v.operands[0], v.attrs().Get<Ints>("permutation"))};
}

absl::StatusOr<HloValues> DimensionSizeForm(const FormView& v) {
  int64_t size = 1;
  for (const int64_t d : v.attrs().Get<Ints>("dims")) size *= v.operand_info(0).global.shape[d];
  return HloValues{IsReal(v.result().dtype) ? v.text.Constant(static_cast<double>(size), v.result())
                                            : v.text.WholeConstant(size, v.result())};
}

// ---- Slices.

absl::StatusOr<HloValues> SliceForm(const FormView& v) {
  const Ints &from = v.attrs().Get<Ints>("start"), &step = v.attrs().Get<Ints>("stride");
  Shape start, limit, stride;
  for (size_t d = 0; d < from.size(); ++d) {
    const int64_t count = v.result().shape[d];
    start.push_back(from[d]);
    stride.push_back(count > 1 ? EntryOr(step, d, 1) : 1);
    limit.push_back(count > 0 ? from[d] + (count - 1) * stride[d] + 1 : from[d]);
  }
  return HloValues{v.text.Slice(v.operands[0], start, limit, stride)};
}

absl::StatusOr<HloValues> PadForm(const FormView& v) {
  const HloValue& x = v.operands[0];
  const Ints& between = v.attrs().Get<Ints>("interior");
  Shape low, high, interior;
  for (size_t d = 0; d < x.shape().size(); ++d) {
    const int64_t size = x.shape()[d];
    low.push_back(v.attrs().Get<Ints>("low")[d]);
    interior.push_back(size > 1 ? EntryOr(between, d, 0) : 0);
    high.push_back(v.result().shape[d] - low[d] - size - (size - 1) * interior[d]);
  }
  const HloValue value = v.text.Constant(v.attrs().Get<double>("value"), {x.dtype(), {}});
  return HloValues{v.text.Pad(x, value, low, high, interior)};
}

// ---- Joins, reversals, rolls.

absl::StatusOr<HloValues> ConcatForm(const FormView& v) {
  return HloValues{v.text.Concatenate(v.operands, v.attrs().Get<int64_t>("dim"))};
}

absl::StatusOr<HloValues> ReverseForm(const FormView& v) {
  return HloValues{v.text.Reverse(v.operands[0], v.attrs().Get<Ints>("dims"))};
}

absl::StatusOr<HloValues> RollForm(const FormView& v) {
  const HloValue& x = v.operands[0];
  const int64_t dim = v.attrs().Get<int64_t>("dim"), size = x.shape()[dim];
  const int64_t shift = size == 0 ? 0 : (v.attrs().Get<int64_t>("shift") % size + size) % size;
  if (shift == 0) return HloValues{x};
  const HloValue parts[] = {v.text.SliceDim(x, dim, size - shift, size),
                            v.text.SliceDim(x, dim, 0, size - shift)};
  return HloValues{v.text.Concatenate(parts, dim)};
}

constexpr NamedForm kShapeForms[] = {
    {"broadcast_to", BroadcastToForm},
    {"reshape", ReshapeForm},
    {"squeeze", ReshapeForm},
    {"expand_dims", ReshapeForm},
    {"transpose", TransposeForm},
    {"dimension_size", DimensionSizeForm},
    {"slice", SliceForm},
    {"pad", PadForm},
    {"concat", ConcatForm},
    {"reverse", ReverseForm},
    {"roll", RollForm},
};

}  // namespace

std::span<const NamedForm> ShapeForms() { return kShapeForms; }

}  // namespace meshwork::stablehlo
