// Low-rank adapters: a trained model is tuned by small matrices beside its weights, and keeps the weights (Hu et al.,
// "LoRA", arXiv 2106.09685, section 4.1).
//
//   const Llama llama(g, config);                                     // layers as ever
//   Value loss = …;
//   const LowRankAdapters adapters = AddLowRankAdapters(g, {.patterns = {"*/attention/*"}, .rank = 8, .alpha = 16});
//   Adam({.learning_rate = 1e-4}).Minimize(loss, adapters.variables); // trains the adapters alone
//   …
//   SaveWeights(session, "adapters.safetensors", {.only = {"*.lora_[ab]"}});       // they are saved alone, or …
//   MergeLowRankAdapters(session, adapters);                          // … become part of the weights
//
// A product y = x W becomes y = x W + (alpha / rank) (x A) B with A: [k,rank] and B: [rank,n] for W: [k,n], so that no
// value of W's size is computed, neither in the step nor for its gradient. B is zero at first: the model begins as it was.
//
// Thread safety: that of the graph, and of the session.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "meshwork/ir/graph.h"
#include "meshwork/session/load_weights.h"
#include "meshwork/session/session.h"
#include "meshwork/train/nn/initializers.h"

namespace meshwork {

struct LowRankOptions {
  // The weights that get adapters: patterns (base/name_patterns.h) of names of variables. A pattern may fit biases and
  // scales as well: variables that are not matrices get none.
  std::vector<std::string> patterns = {};
  int64_t rank = 8;
  double alpha = 16;
  LayerInitializer initializer = LecunNormal();  // of A: by default normal with variance 1 / k
};

struct LowRankAdapters {
  double scale = 1;                       // alpha / rank
  std::vector<std::string> weights = {};  // W is "NAME", A "NAME.lora_a", B "NAME.lora_b"; by declaration
  std::vector<Variable> variables = {};   // of the graph: A and B of each weight
};

// Adds adapters to products that are in the graph, in place: handles to results of layers, such as a loss, stay valid and
// see the adapters. Gradients and optimizers come after it: Minimize(loss, adapters.variables) freezes all other variables,
// and computes no gradient of them. A is cut as the rows of W are, and B as its columns; both are in W's dtype, or in f32
// if that is bf16. x may have any dims before k, and W may stand transposed. Several calls may have other ranks.
// Errors (recorded; no product is changed then): rank or alpha out of range; a pattern that fits no matrix of floats; a weight
// that something else than products x W reads, such as a lookup or a loop; one that the graph updates, or that has an
// adapter.
LowRankAdapters AddLowRankAdapters(Graph& graph, const LowRankOptions& options,
                                   CallSite loc = CallSite::Current());

// W becomes W + (alpha / rank) A B, and B zero: the program computes the same but for rounding, and may be trained on.
// All domains of the session call it alike. Errors: a variable is missing; those of Session::Share, such as executor.atomic,
// and of Session::Run.
absl::Status MergeLowRankAdapters(Session& session, const LowRankAdapters& adapters);

// The rules by which PEFT of Hugging Face names adapters, from the rules for the weights: "NAME.lora_a" of the variable
// that is the tensor "model.layers.0.self_attn.q_proj.weight" is
// "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight". Rules of parts of tensors have none.
std::vector<WeightRule> PeftRules(const std::vector<WeightRule>& rules);

}  // namespace meshwork
