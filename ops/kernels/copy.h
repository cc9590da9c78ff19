// Kernels that move elements without looking at them: broadcasts, transposes, slices.
//
// A result element lies in the operand at a fixed offset plus its index times a stride per dim; the dims
// are merged as for elementwise rows, so that elements contiguous on both sides are copied in one piece.
#pragma once

#include <algorithm>
#include <array>
#include <utility>

#include "meshwork/ops/kernels/elementwise.h"

namespace meshwork {

// The strides, in elements, of a dense row-major tensor.
inline Shape DenseStrides(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

// Calls f with a value of an unsigned type of `bytes` bytes, for kernels that only move elements: 1, 2, 4 or 8.
template <typename F>
Kernel DispatchSize(int64_t bytes, F&& f) {
  switch (bytes) {
    case 1: return f(uint8_t{});
    case 2: return f(uint16_t{});
    case 4: return f(uint32_t{});
    default: return f(uint64_t{});
  }
}

// out[i] = a[offset + walk(i)].
template <typename T>
Kernel StridedCopyKernel(BroadcastWalk<1> walk, int64_t offset, int64_t elements) {
  return {.run = OnThisCpu([walk = std::move(walk), offset](const KernelArgs& args) {
            const int64_t stride = walk.dims.back().strides[0];
            ForEachRun(walk, args.begin, args.end,
                       [&](int64_t to, const std::array<int64_t, 1>& from, int64_t n) {
                         const T* a = args.In<T>(0) + offset + from[0];
                         T* out = args.Out<T>(0) + to;
                         if (stride == 1) std::copy_n(a, n, out);
                         else if (stride == 0) std::fill_n(out, n, *a);
                         else
                           for (int64_t i = 0; i < n; ++i) out[i] = a[i * stride];
                       });
          }),
          .units = elements,
          .by_rows = true};
}

// The copy of operand 0 to result 0: a step along dim d of the result is strides[d] elements in the operand.
inline Kernel StridedCopy(const KernelSpec& spec, const Shape& strides, int64_t offset = 0) {
  const Type& result = spec.results[0].local;
  const BroadcastWalk<1> walk = MergeDims<1>(result.shape, {strides});
  Kernel kernel = DispatchSize(DTypeSize(result.dtype), [&](auto zero) {
    return StridedCopyKernel<decltype(zero)>(walk, offset, result.num_elements());
  });
  if (offset == 0) kernel.parts = {PartsOf(walk, 0, spec.operands[0].local.num_elements())};
  return kernel;
}

}  // namespace meshwork
