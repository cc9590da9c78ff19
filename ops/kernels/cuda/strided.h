// Kernels that move elements by strides, in words where several lie side by side.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "meshwork/ops/kernels/cuda/text.h"

namespace meshwork::cuda {

// "const bool by_words = …;": whether the pointers of the result and of so many operands are multiples of `bytes`.
std::string ByWords(size_t operands, int64_t bytes);
// Moves word `to` of the result, of `elements` elements of `dtype`, from word `from` of operand `o`. Names by_words.
std::string MovedWord(DType dtype, int64_t elements, std::string_view to, size_t o, std::string_view from);

// A step along dim d of the result is strides[d] elements of the operand, from element `offset` on.
CudaKernel StridedMove(const OpRow& row, const KernelSpec& spec, const Shape& strides, int64_t offset = 0);

}  // namespace meshwork::cuda
