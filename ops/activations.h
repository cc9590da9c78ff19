// Activations, element by element. Part of ops/ops.h; ops/arithmetic.h says what holds for all such ops.
#pragma once

#include "meshwork/ir/graph.h"
#include "meshwork/ir/operand.h"

namespace meshwork {

enum class GeluForm { kErf, kTanh };  // exact; approximated by tanh

// ---- Activations, of reals. At ±infinity, they and their gradients take their limits.
Value Relu(const Operand& x);                            // gradient 0 at 0
Value Relu6(const Operand& x);                           // min(max(x, 0), 6); gradient 0 at 0 and 6
Value LeakyRelu(const Operand& x, double alpha = 0.01);  // x > 0 ? x : alpha x; gradient alpha at 0
Value Elu(const Operand& x, double alpha = 1);  // x > 0 ? x : alpha (exp(x) - 1); gradient alpha at 0
Value Selu(const Operand& x);
Value Sigmoid(const Operand& x);
Value Softplus(const Operand& x);  // log(1 + exp(x))
Value Silu(const Operand& x);      // x sigmoid(x), swish
Value Gelu(const Operand& x, GeluForm form = GeluForm::kErf);
Value LogSigmoid(const Operand& x);   // -softplus(-x)
Value Mish(const Operand& x);         // x tanh(softplus(x))
Value HardSigmoid(const Operand& x);  // min(max(x + 3, 0), 6) / 6; gradient 0 at ±3
Value HardSilu(const Operand& x);     // x hard_sigmoid(x); gradient -1/2 at -3 and 3/2 at 3

}  // namespace meshwork
