// Pieces of kernels of several ops (MakeCudaChain, MakeCudaRows). Elements of results are numbered by i; a thread
// computes several consecutive elements at once, as a Pack.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "meshwork/ops/kernels/cuda/cuda_kernel.h"
#include "meshwork/ops/kernels/cuda/text.h"

namespace meshwork::cuda {

// A tensor that a chain reads from memory.
struct ChainInput {
  Type type;
  Walk walk;  // along the results of the op that reads it

  // Whether consecutive elements of results need different elements of the input; otherwise they need the same element.
  bool moves() const { return !walk.dims.empty() && walk.dims.back().strides[0] != 0; }
  // Whether `width` elements of results, from a multiple of `width` on, need one Pack of the input, or one element.
  bool PacksBy(int64_t width) const;
  // "m = a2[i];" for element i; or a load of the Pack from i on.
  std::string LinesOfLoad(size_t number, std::string_view index, std::string_view to, int64_t width) const;
};
// The inputs of the chain, in the order of their numbers.
std::vector<ChainInput> InputsOf(std::span<const CudaChainOp> ops);

std::string PackName(DType dtype, int64_t width);

// The element of an op's result that is computed. `at`: an expression for its number within a part of `size` elements.
// The result has a whole number of such parts.
struct ElementPlace {
  std::string at;
  int64_t size;
};
// "float v2; { … }" by the op's expression. Results of ops are v0, v1, …, inputs x0, x1, …: numbers.
std::string LinesOfOp(const CudaChainOp& op, size_t number, const ElementPlace& place);
// An expression, behind these lines, for the element of the op's result that is stored. It rounds the unrounded number,
// so that one instruction may round two neighbours; v2 is rounded already, and would take two more instructions.
std::string ElementOfOp(const CudaChainOp& op, size_t number);

// Whether the row is a function of hundreds of instructions; its text should not be repeated often in one kernel.
bool IsLong(const OpRow& row);

}  // namespace meshwork::cuda
