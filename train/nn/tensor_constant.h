// Constants of a program from tensors.
//
//   const Value mean = Constant(graph, ReadNpy("mean.npy").value());
#pragma once

#include "meshwork/ir/graph.h"
#include "meshwork/runtime/tensor/tensor.h"

namespace meshwork {

// The tensor as it is now, of its type. Errors: that of Constant (ops/generate.h); a tensor without storage.
Value Constant(Graph& graph, const Tensor& tensor, CallSite loc = CallSite::Current());

}  // namespace meshwork
