// Kernels that move elements without looking at them. A thread moves one element of the result, or a word of several
// elements that are contiguous in the operand, too. Transposes go through tiles in shared memory.
#include <algorithm>

#include "meshwork/base/status.h"
#include "meshwork/ops/kernels/cuda/families.h"
#include "meshwork/ops/kernels/cuda/strided.h"
#include "meshwork/ops/kernels/cuda/text.h"

namespace meshwork::cuda {
namespace {

using Ints = std::vector<int64_t>;

int64_t EntryOf(const Ints& list, size_t d, int64_t fallback) { return list.empty() ? fallback : list[d]; }

CudaKernel Transpose(const OpRow& row, const KernelSpec& spec) {
  const Shape dense = RowMajorStrides(spec.operands[0].local.shape);
  Shape strides;
  for (int64_t d : spec.attrs.Get<Ints>("permutation")) strides.push_back(dense[d]);
  return StridedMove(row, spec, strides);
}

CudaKernel BroadcastTo(const OpRow& row, const KernelSpec& spec) {
  const Ints& dims = spec.attrs.Get<Ints>("dims");
  const Shape &from = spec.operands[0].local.shape, &to = spec.results[0].local.shape;
  const Shape dense = RowMajorStrides(from);
  Shape strides(to.size(), 0);
  for (size_t i = 0; i < dims.size(); ++i) strides[dims[i]] = from[i] == to[dims[i]] ? dense[i] : 0;
  return StridedMove(row, spec, strides);
}

CudaKernel Slice(const OpRow& row, const KernelSpec& spec) {
  Shape strides = RowMajorStrides(spec.operands[0].local.shape);
  int64_t offset = 0;
  for (size_t d = 0; d < strides.size(); ++d) {
    offset += spec.attrs.Get<Ints>("start")[d] * strides[d];
    if (spec.results[0].local.shape[d] > 1) strides[d] *= EntryOf(spec.attrs.Get<Ints>("stride"), d, 1);
  }
  return StridedMove(row, spec, strides, offset);
}

CudaKernel Reverse(const OpRow& row, const KernelSpec& spec) {
  const Shape& shape = spec.operands[0].local.shape;
  Shape strides = RowMajorStrides(shape);
  int64_t offset = 0;
  for (int64_t d : spec.attrs.Get<Ints>("dims")) {
    offset += (shape[d] - 1) * strides[d];
    strides[d] = -strides[d];
  }
  return StridedMove(row, spec, strides, offset);
}

// Copies the elements in their order; bit by bit if the dtypes differ.
CudaKernel Copy(const OpRow& row, const KernelSpec& spec) {
  const DType dtype = spec.results[0].local.dtype;
  const int64_t count = spec.results[0].local.num_elements(), elements = ElementsOfWord(dtype, count);
  KernelText text = TextOf(row, spec);
  text.in[0].dtype = dtype;
  if (elements > 1) text.body = ByWords(1, elements * DTypeSize(dtype));
  return ForEach(std::move(text), count / elements, MovedWord(dtype, elements, "i", 0, "i"));
}

CudaKernel Pad(const OpRow& row, const KernelSpec& spec) {
  const Shape &from = spec.operands[0].local.shape, &to = spec.results[0].local.shape;
  const DType dtype = spec.results[0].local.dtype;
  std::string lines = PlacesAlong(to, "i", "p"), inside = "true";
  for (size_t d = 0; d < from.size(); ++d) {
    const int64_t low = spec.attrs.Get<Ints>("low")[d],
                  step = EntryOf(spec.attrs.Get<Ints>("interior"), d, 0) + 1;
    lines +=
        fmt::format("const long long o{0} = (long long)p{0} - {1};\nconst long long q{0} = o{0} / {2};\n", d,
                    Whole(low), Whole(step));
    inside += fmt::format(" && o{0} >= 0 && o{0} % {1} == 0 && q{0} < {2}", d, Whole(step), Whole(from[d]));
  }
  // The byte of a bool is the number.
  const DType stored = dtype == BOOL ? U8 : dtype;
  lines += fmt::format("r0[i] = {} ? a0[{}] : {};\n", inside, OffsetOf(RowMajorStrides(from), "q"),
                       Rounded(stored, Number(stored, spec.attrs.Get<double>("value"))));
  return ForEach(TextOf(row, spec), NumElements(to), lines);
}

// Chooses the operand of an element by its place along the dim.
CudaKernel Concat(const OpRow& row, const KernelSpec& spec) {
  const auto dim = static_cast<size_t>(spec.attrs.Get<int64_t>("dim"));
  const Shape& to = spec.results[0].local.shape;
  int64_t inner = 1;
  for (size_t d = dim + 1; d < to.size(); ++d) inner *= to[d];
  const DType dtype = spec.results[0].local.dtype;
  int64_t elements = 16 / DTypeSize(dtype);
  for (const TensorSpec& operand : spec.operands)
    while (operand.local.shape[dim] * inner % elements != 0) elements /= 2;
  const int64_t run = to[dim] * inner / elements;
  std::string lines =
      fmt::format("const Index outer = i / {0}, at = i % {0};\n", Whole(std::max<int64_t>(run, 1)));
  int64_t start = 0;
  for (size_t o = 0; o < spec.operands.size(); ++o) {
    const int64_t width = spec.operands[o].local.shape[dim] * inner / elements;
    if (width == 0) continue;
    const std::string from = fmt::format("outer * {} + at - {}", Whole(width), Whole(start));
    lines += fmt::format("if (at >= {} && at < {}) {{\n{}}}\n", Whole(start), Whole(start + width),
                         Indented(MovedWord(dtype, elements, "i", o, from)));
    start += width;
  }
  KernelText text = TextOf(row, spec);
  if (elements > 1) text.body = ByWords(spec.operands.size(), elements * DTypeSize(dtype));
  return ForEach(std::move(text), NumElements(to) / elements, lines);
}

CudaKernel Roll(const OpRow& row, const KernelSpec& spec) {
  const Shape& shape = spec.operands[0].local.shape;
  const auto dim = static_cast<size_t>(spec.attrs.Get<int64_t>("dim"));
  const int64_t size = std::max<int64_t>(shape[dim], 1);
  int64_t inner = 1;
  for (size_t d = dim + 1; d < shape.size(); ++d) inner *= shape[d];
  const int64_t shift = (spec.attrs.Get<int64_t>("shift") % size + size) % size;
  return ForEach(
      TextOf(row, spec), NumElements(shape),
      fmt::format("const Index run = {1}, moved = {2};\nconst Index begin = i % {0};\n"
                  "r0[i] = a0[i - begin + (begin < moved ? begin - moved + run : begin - moved)];\n",
                  Whole(std::max<int64_t>(size * inner, 1)), Whole(size * inner), Whole(shift * inner)));
}

// ---- Where a value says: the window's place is clamped so that it lies within the global value.

// "const long long w0 = …;" for each dim of `value`: where the window begins in its global value. `start`: the operand
// that says where, for all of dim 0 or for each place p0 along it.
std::string WindowStarts(const KernelSpec& spec, const TensorSpec& value, const TensorSpec& window,
                         int start) {
  const Ints& dims = spec.attrs.Get<Ints>("dims");
  const std::string row =
      spec.operands[start].local.rank() == 2 ? fmt::format("p0 * {} + ", Whole(std::ssize(dims))) : "";
  std::string lines;
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t most = std::max<int64_t>(0, value.global.shape[dims[i]] - window.global.shape[dims[i]]);
    lines += fmt::format("const long long w{} = Within((long long)a{}[{}{}], {});\n", dims[i], start, row, i,
                         Whole(most));
  }
  return lines;
}

CudaKernel DynamicSlice(const OpRow& row, const KernelSpec& spec) {
  const Shape &from = spec.operands[0].local.shape, &to = spec.results[0].local.shape;
  const Ints& dims = spec.attrs.Get<Ints>("dims");
  KernelText text = TextOf(row, spec);
  TakeBlock(text, spec, /*is_result=*/false, 0);
  std::string lines = PlacesAlong(to, "i", "p") + WindowStarts(spec, spec.operands[0], spec.results[0], 1);
  std::string inside = "true";
  for (size_t d = 0; d < to.size(); ++d) {
    const bool is_cut = std::find(dims.begin(), dims.end(), static_cast<int64_t>(d)) != dims.end();
    lines += fmt::format("const long long q{0} = (long long)p{0}{1};\n", d,
                         is_cut ? fmt::format(" + w{0} - a0_start{0}", d) : "");
    inside += fmt::format(" && q{0} >= 0 && q{0} < {1} && q{0} < a0_size{0}", d, Whole(from[d]));
  }
  lines += fmt::format("r0[i] = {} ? a0[{}] : {};\n", inside, OffsetOf(RowMajorStrides(from), "q"),
                       Identity(spec.results[0].local.dtype, ReduceOp::kSum));
  return ForEach(std::move(text), NumElements(to), lines);
}

CudaKernel DynamicUpdateSlice(const OpRow& row, const KernelSpec& spec) {
  const Shape &from = spec.operands[2].local.shape, &to = spec.results[0].local.shape;
  const Ints& dims = spec.attrs.Get<Ints>("dims");
  KernelText text = TextOf(row, spec);
  TakeBlock(text, spec, /*is_result=*/true, 0);
  TakeBlock(text, spec, /*is_result=*/false, 2);
  std::string lines = PlacesAlong(to, "i", "p") + WindowStarts(spec, spec.operands[1], spec.operands[2], 0);
  std::string inside = "true";
  for (size_t d = 0; d < to.size(); ++d) {
    const bool is_cut = std::find(dims.begin(), dims.end(), static_cast<int64_t>(d)) != dims.end();
    lines += fmt::format("const long long q{0} = (long long)p{0}{1};\n", d,
                         is_cut ? fmt::format(" - (w{0} - r0_start{0})", d) : "");
    inside += fmt::format(" && q{0} >= 0 && q{0} < {1} && q{0} < a2_size{0}", d, Whole(from[d]));
  }
  lines += fmt::format("r0[i] = {} ? a2[{}] : a1[i];\n", inside, OffsetOf(RowMajorStrides(from), "q"));
  return ForEach(std::move(text), NumElements(to), lines);
}

// ---- Local ops.

CudaKernel ShardSlice(const OpRow& row, const KernelSpec& spec) {
  const Shape &from = spec.operands[0].local.shape, &to = spec.results[0].local.shape;
  const auto dim = static_cast<size_t>(spec.attrs.Get<int64_t>("dim"));
  KernelText text = TextOf(row, spec);
  TakeBlock(text, spec, /*is_result=*/false, 0);
  TakeBlock(text, spec, /*is_result=*/true, 0);
  Shape strides = RowMajorStrides(from);
  const std::string lines = fmt::format(
      "{0}const long long first = r0_start{1} - a0_start{1};\n"
      "if (p{1} < r0_size{1}) r0[i] = a0[{2} + first * {3}];\n",
      PlacesAlong(to, "i", "p"), dim, OffsetOf(strides, "p"), Whole(strides[dim]));
  return ForEach(std::move(text), NumElements(to), lines);
}

CudaKernel MaskPadding(const OpRow& row, const KernelSpec& spec) {
  const Shape& shape = spec.results[0].local.shape;
  KernelText text = TextOf(row, spec);
  TakeBlock(text, spec, /*is_result=*/true, 0);
  std::string lines = PlacesAlong(shape, "i", "p"), inside = "true";
  for (int64_t d : spec.attrs.Get<Ints>("dims")) inside += fmt::format(" && p{0} < r0_size{0}", d);
  lines += fmt::format("r0[i] = {} ? a0[i] : {};\n", inside,
                       Identity(spec.results[0].local.dtype, spec.attrs.Get<ReduceOp>("op")));
  return ForEach(std::move(text), NumElements(shape), lines);
}

// bf16 to f32 and back.
CudaKernel Rounding(const OpRow& row, const KernelSpec& spec) {
  const DType from = spec.operands[0].local.dtype, to = spec.results[0].local.dtype;
  return ForEach(TextOf(row, spec), spec.results[0].local.num_elements(),
                 fmt::format("r0[i] = {};\n", Rounded(to, Loaded(from, "a0[i]"))));
}

}  // namespace

std::span<const Generator> MovementKernels() {
  static constexpr Generator kGenerators[] = {
      {"transpose", Transpose},
      {"broadcast_to", BroadcastTo},
      {"reshape", Copy},
      {"squeeze", Copy},
      {"expand_dims", Copy},
      {"bitcast", Copy},
      {"slice", Slice},
      {"reverse", Reverse},
      {"pad", Pad},
      {"concat", Concat},
      {"roll", Roll},
      {"dynamic_slice", DynamicSlice},
      {"dynamic_update_slice", DynamicUpdateSlice},
      {"shard_slice", ShardSlice},
      {"mask_padding", MaskPadding},
      {"widen", Rounding},
      {"narrow", Rounding},
  };
  return kGenerators;
}

}  // namespace meshwork::cuda
