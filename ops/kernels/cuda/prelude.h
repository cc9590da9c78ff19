// The functions that kernels call, as text for nvcc, NVRTC and the host's compiler alike: no header is needed.
#pragma once

#include <string_view>

namespace meshwork::cuda {

std::string_view
ConversionText();  // between dtypes, as base/bfloat16.h, base/float16.h and ops/kernels/convert.h
std::string_view ArithmeticText();  // of whole numbers and reals, as ops/arithmetic.cc
std::string_view FunctionText();    // of reals, as ops/activations.cc
std::string_view SpecialText();     // as ops/special.cc, where the formulas are explained
std::string_view LinalgText();      // as ops/linalg.cc
std::string_view TileText();        // of bf16, for tensor cores
std::string_view AttentionText();   // by these
std::string_view AttentionGradText();
std::string_view HeadText();      // attention without them
std::string_view ProductText();   // of matrices whose elements are computed
std::string_view OrderText();     // sorts
std::string_view IndexingText();  // scatters
// The functions of ops/kernels/philox.cc, where the formulas are explained: the same operations in the same order.
std::string_view PhiloxText();

}  // namespace meshwork::cuda
