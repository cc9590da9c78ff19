// Mixed precision: layers compute in a narrow dtype and keep their variables in a wide one (Micikevicius et al.,
// arXiv 1710.03740; docs/mixed-precision.md).
//
//   g.SetPrecision({.compute = BF16});                       // all layers of the graph; variables stay f32
//   const Dense hidden(g, "hidden", 784, 700);
//   const Dense head(g, "head", 700, 10, {.compute = F32});  // but not this one
//   const Value h = head(Relu(hidden(x)));
//
// A layer whose two dtypes differ casts its input and its weights where it uses them, once per step. So do all layers of a
// graph whose own two dtypes differ, as `head` above, which reads what `hidden` gives in bf16. The cast runs on the blocks
// that devices hold, so that what is gathered are blocks in the narrow dtype. Gradients pass the casts, and arrive in the
// dtype of the variable. What stays in f32, or f64, whatever layers compute in:
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

// What a layer with the options `dtype` and `compute` works in. If only `dtype` is given, it computes in that, too; what is
// left open is the graph's (Graph::SetPrecision).
Precision LayerPrecision(const Graph& graph, std::optional<DType> dtype, std::optional<DType> compute);

// What a layer computes with, given x: x cast to precision.compute. For layers of one's own:
//
//   const Precision precision = LayerPrecision(g, {}, {});
//   const Variable w = g.Var("w", GlorotUniform({n, m}, precision.variables), {UNSHARDED, "model"});
//   const Value y = MatMul(ToCompute(x, precision), ToCompute(w, precision));
//
// x itself if both dtypes of `precision` are the same, and those of the graph, too (then nothing is cast, and dtypes that do not
// fit are reported by the op that reads them), or x is no float or invalid.
Value ToCompute(const Value& x, const Precision& precision);

}  // namespace meshwork
