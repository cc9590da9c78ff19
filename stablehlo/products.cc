// The forms of products of matrices. Products of bf16 are summed in f32 and rounded once.
#include <algorithm>

#include "meshwork/ops/kernels/matmul_sizes.h"
#include "meshwork/stablehlo/forms.h"

namespace meshwork::stablehlo {
namespace {

// How the leading dims of two stacks of matrices meet, aligned at the last of them. A dim of size 1 that meets another size
// is left out of its operand, so that nothing is stretched.
struct MeetingDims {
  Shape shape_a, shape_b;                     // without the dims that are left out
  std::vector<int64_t> both_a, both_b;        // dims of these shapes that go together
  std::vector<int64_t> both, only_a, only_b;  // leading dims of the result, by their number
};

MeetingDims MeetingDimsOf(const Shape& a, const Shape& b) {
  MeetingDims dims;
  const auto leading_a = std::ssize(a) - 2, leading_b = std::ssize(b) - 2,
             leading = std::max(leading_a, leading_b);
  for (int64_t d = 0; d < leading; ++d) {
    const int64_t at_a = d - (leading - leading_a), at_b = d - (leading - leading_b);
    const bool is_of_a = at_a >= 0 && (at_b < 0 || a[at_a] != 1 || b[at_b] == 1);
    const bool is_of_b = at_b >= 0 && (at_a < 0 || b[at_b] != 1 || a[at_a] == 1);
    if (is_of_a && is_of_b) {
      dims.both.push_back(d);
      dims.both_a.push_back(std::ssize(dims.shape_a));
      dims.both_b.push_back(std::ssize(dims.shape_b));
    } else {
      (is_of_a ? dims.only_a : dims.only_b).push_back(d);
    }
    if (is_of_a) dims.shape_a.push_back(a[at_a]);
    if (is_of_b) dims.shape_b.push_back(b[at_b]);
  }
  dims.shape_a.insert(dims.shape_a.end(), a.end() - 2, a.end());
  dims.shape_b.insert(dims.shape_b.end(), b.end() - 2, b.end());
  return dims;
}

// Where each dim of the result is in a product [both.., only_a.., m, only_b.., n].
std::vector<int64_t> ProductOrder(const MeetingDims& dims) {
  std::vector<int64_t> made = dims.both;
  const auto leading = std::ssize(dims.both) + std::ssize(dims.only_a) + std::ssize(dims.only_b);
  made.insert(made.end(), dims.only_a.begin(), dims.only_a.end());
  made.push_back(leading);
  made.insert(made.end(), dims.only_b.begin(), dims.only_b.end());
  made.push_back(leading + 1);
  std::vector<int64_t> order(made.size());
  for (size_t i = 0; i < made.size(); ++i) order[made[i]] = static_cast<int64_t>(i);
  return order;
}

DType SumDTypeOf(DType dtype) { return dtype == F64 ? F64 : F32; }

absl::StatusOr<HloValues> Matmul(const FormView& v) {
  const MatmulSizes sizes = MatmulSizesOf(v.attrs(), v.operands[0].shape(), v.operands[1].shape());
  MeetingDims dims = MeetingDimsOf(v.operands[0].shape(), v.operands[1].shape());
  const HloValue a = v.text.Reshape(v.operands[0], dims.shape_a),
                 b = v.text.Reshape(v.operands[1], dims.shape_b);
  std::vector<int64_t> summed_a, summed_b;
  if (sizes.sum_batch) {
    summed_a.swap(dims.both_a);
    summed_b.swap(dims.both_b);
    dims.both.clear();
  }
  summed_a.push_back(a.rank() - (sizes.transpose_a ? 2 : 1));
  summed_b.push_back(b.rank() - (sizes.transpose_b ? 1 : 2));
  HloValue product =
      v.text.DotGeneral(a, b, dims.both_a, dims.both_b, summed_a, summed_b, SumDTypeOf(a.dtype()));
  const std::vector<int64_t> order = ProductOrder(dims);
  if (!std::is_sorted(order.begin(), order.end())) product = v.text.Transpose(product, order);
  return HloValues{v.text.Convert(product, v.result().dtype)};
}

// q as f32 [n,K,32]: of u8 [n,K,16], the low halves of the bytes and then the high ones.
HloValue QuantizedNumbers(HloText& text, const HloValue& q) {
  if (q.dtype() != U8) return text.Convert(q, F32);
  const HloValue low = text.Op("stablehlo.and", {q, text.WholeConstant(15, q.type)}, q.type);
  const HloValue high = text.Op("stablehlo.shift_right_logical", {q, text.WholeConstant(4, q.type)}, q.type);
  const HloValue halves[] = {low, high};
  return text.Convert(text.Concatenate(halves, q.rank() - 1), F32);
}

// x and the numbers of the matrix are f32, whatever the dtype of x.
absl::StatusOr<HloValues> MatmulQ(const FormView& v) {
  HloValue matrix = QuantizedNumbers(v.text, v.operands[1]);
  const auto of_blocks = [&](size_t i) { return v.text.BroadcastInDim(v.Wide(i), matrix.shape(), {0, 1}); };
  matrix = v.text.Multiply(matrix, of_blocks(2));
  if (v.operands.size() > 3) matrix = v.text.Add(matrix, of_blocks(3));
  const HloValue x = v.text.Convert(v.operands[0], F32);
  const HloValue product = v.text.DotGeneral(x, matrix, {}, {}, {x.rank() - 2, x.rank() - 1}, {1, 2}, F32);
  return HloValues{v.text.Convert(product, v.result().dtype)};
}

constexpr NamedForm kProductForms[] = {
    {"matmul", Matmul},
    {"matmul_q", MatmulQ},
};

}  // namespace

std::span<const NamedForm> ProductForms() { return kProductForms; }

}  // namespace meshwork::stablehlo
