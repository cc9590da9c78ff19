// QuantizeWeights: a program whose weights are quantised in blocks of 32 numbers, 8 or 4 bits each (ops/matmul_q.h).
//
//   QuantizeWeightsOptions options{.weights = {"*/kernel", "tokens/table"}, .bits = 4};
//   Session small = QuantizeSession(session, options).value();   // the session's numbers, rounded
//
//   // Or a program, for weights that were stored so ("meshwork import gguf --keep-blocks"):
//   for (const QuantizeWeightsOptions& stored : StoredInBlocks(graph, "model", rules).value())
//     graph = QuantizeWeights(graph, stored)->graph;
//   Session loaded = Session::Create(graph).value();
//   LoadWeights(loaded, "model", {.rules = WithBlockRules(rules)});
//
// In place of a variable NAME there are NAME.q, NAME.scale and, with 4 bits, NAME.zero. The rows of the blocks are the
// outputs of a product: a kernel that is declared as [in,out] is quantised transposed, as [out,in/32,…], which is how GGUF
// and PyTorch have it, so LoadWeights needs no `transpose` for it. A program may have weights of 4 and of 8 bits: quantise
// it twice.
//
// Pure functions, but for QuantizeSession, which is a call of its session.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/ir/graph.h"
#include "meshwork/session/load_weights.h"
#include "meshwork/session/session.h"

namespace meshwork {

struct QuantizeWeightsOptions {
  // Names of variables, or patterns of names (base/name_patterns.h).
  std::vector<std::string> weights;
  int bits = 8;  // or 4
};

struct QuantizedWeight {
  std::string name;    // of the variable that was there
  bool is_transposed;  // whether the blocks are those of the variable with its dims exchanged
};

struct QuantizedProgram {
  Graph graph;
  std::vector<QuantizedWeight> weights;  // in the order of the program
};

// `graph` with quantised weights, whose initial values are zeros. What reads them becomes
//
//   matmul(x, W), matmul(x, W, transpose_b)   MatMulQ(x, …)
//   gather(W, indices, dim=0)                 DequantizeMatrix of the rows found
//   cast(W) that is read so                   the same, of its dtype
//
// It is for programs that predict: VarOptions::trainable is not carried over.
//
// A pin of W is carried over: axes along the outputs cut the rows, axes along the inputs the blocks, so they must divide the
// number of blocks. Errors: those of the graph; bits; a name or a pattern that fits no variable; a variable that is no
// matrix of real numbers, is read or updated otherwise, or is read along both of its dims; k that is no multiple of 32; a
// cut of k that does not divide its blocks; a variable NAME.q that is there already.
absl::StatusOr<QuantizedProgram> QuantizeWeights(const Graph& graph, const QuantizeWeightsOptions& options);

// A session of session.graph() with quantised weights, on other memory: weights are rounded (runtime/tensor/quantized.h), one
// at a time on the host, other variables are copied. With several domains all call it alike, with `session_options` for
// theirs. Errors: those of QuantizeWeights, of Session::Create, of Session::Get; numbers that cannot be quantised.
absl::StatusOr<Session> QuantizeSession(const Session& session, const QuantizeWeightsOptions& options,
                                        SessionOptions session_options = {});

// The variables whose tensors at `path` are stored in blocks, as `rules` for the whole weights say: those of 8 bits and those of
// 4, one for each call of QuantizeWeights that is needed, or none. A tensor NAME is in blocks where there is a tensor NAME.q of
// i8 or u8. Errors: those of WeightFiles::Open; a rule that contradicts itself, or that takes a part of a tensor in blocks.
absl::StatusOr<std::vector<QuantizeWeightsOptions>> StoredInBlocks(const Graph& graph,
                                                                   const std::string& path,
                                                                   const std::vector<WeightRule>& rules);

// The rules of NAME.q, NAME.scale and NAME.zero for each variable NAME that `rules` has, and behind them `rules`.
std::vector<WeightRule> WithBlockRules(const std::vector<WeightRule>& rules);

}  // namespace meshwork
