// Mixed precision: layers compute in a narrow dtype and keep their variables in a wide one (Micikevicius et al.,
// arXiv 1710.03740; docs/mixed-precision.md).
//
//   g.SetPrecision({.compute = BF16});                       // all layers of the graph; variables stay f32
//   const Dense hidden(g, "hidden", 784, 700);
//   const Dense head(g, "head", 700, 10, {.compute = F32});  // but not this one
//   const Value h = head(Relu(hidden(x)));
//
// A layer whose two dtypes differ casts its input and its weights where it uses them, once per step. If the graph's own
// two dtypes differ, all its layers do, such as `head` above, which reads the bf16 result of `hidden`. The cast runs on
// the blocks that devices hold, so that gathers move the narrow dtype. Gradients pass the casts, and arrive in the
// dtype of the variable. These stay in f32, or f64, whatever layers compute in:
//
//   variables, gradients of variables, optimizer state      Precision::variables; state of bf16 weights is f32
//   statistics of norms, Softmax, losses                    computed in f32; a loss is f32 (ops/norms.h, ops/losses.h)
//   sums: of products, of reductions, over devices          f32; rounded once
//
// Thread safety: pure functions but for ToCompute, which writes the graph.
#pragma once

#include <optional>

#include "meshwork/ir/graph.h"

namespace meshwork {

// The dtypes of a layer with the options `dtype` and `compute`. If only `dtype` is given, the layer computes in it,
// too. The graph's dtypes are taken for what is left open (Graph::SetPrecision).
Precision LayerPrecision(const Graph& graph, std::optional<DType> dtype, std::optional<DType> compute);

// x as a layer computes with it: cast to precision.compute. For layers of the user's own:
//
//   const Precision precision = LayerPrecision(g, {}, {});
//   const Variable w = g.Var("w", GlorotUniform({n, m}, precision.variables), {UNSHARDED, "model"});
//   const Value y = MatMul(ToCompute(x, precision), ToCompute(w, precision));
//
// Returns x itself if x is no float or invalid, or if the two dtypes of `precision` are the same, and those of the
// graph, too. In the last case dtypes that do not fit are reported by the op that reads them.
Value ToCompute(const Value& x, const Precision& precision);

}  // namespace meshwork
