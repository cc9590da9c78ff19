// Pieces of kernels of several ops (MakeCudaChain, MakeCudaRows). Elements of results have numbers, i; a thread takes some that
// follow each other at once, as a Pack.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "meshwork/ops/kernels/cuda/cuda_kernel.h"
#include "meshwork/ops/kernels/cuda/text.h"

namespace meshwork::cuda {

// What a chain reads from memory.
struct ChainInput {
  Type type;
  Walk walk;  // along the results of the op that reads it

  // Whether elements of results that follow each other need such of the input; otherwise they need one.
  bool moves() const { return !walk.dims.empty() && walk.dims.back().strides[0] != 0; }
  // Whether `width` elements of results, from a multiple of `width` on, need a Pack of it, or one element.
  bool PacksBy(int64_t width) const;
  // "m = a2[i];" for element i; or the Pack from i on.
  std::string LinesOfLoad(size_t number, std::string_view index, std::string_view to, int64_t width) const;
};
// By their numbers.
std::vector<ChainInput> InputsOf(std::span<const CudaChainOp> ops);

std::string PackName(DType dtype, int64_t width);

// Which element of an op's result is made: expression `at`, the number of the element in a part of `size` elements. The result
// has a whole number of such parts.
struct ElementPlace {
  std::string at;
  int64_t size;
};
// "float v2; { … }" by the op's expression. Results of ops are v0, v1, …, inputs x0, x1, …: numbers.
std::string LinesOfOp(const CudaChainOp& op, size_t number, const ElementPlace& place);
// Behind these lines, the element that is stored of the op's result. By it two neighbours may be rounded by one instruction; that of
// v2, which is rounded itself, takes two more.
std::string ElementOfOp(const CudaChainOp& op, size_t number);

// Functions of hundreds of instructions: their text should not stand often in one kernel.
bool IsLong(const OpRow& row);

}  // namespace meshwork::cuda
