// Which variables are weights, and which part of which tensor each is read from (session/load_weights.h) or written to
// (session/save_weights.h). Only this room uses it.
//
// Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/ir/graph.h"
#include "meshwork/ir/type.h"
#include "meshwork/layout/layout.h"
#include "meshwork/session/load_weights.h"
#include "meshwork/storage/weight_files.h"

namespace meshwork {

// The variables that the outputs of `graph` depend on outside of training, without the sums of metrics, and those that a
// pattern of `also` fits. Of them those that a pattern of `only` fits; all if there is none. `left_out`: gets the others; may be
// null. Errors: there are none; a pattern fits none; `who`: the function that the user called.
absl::StatusOr<std::map<std::string, Type>> WeightsOf(const Graph& graph,
                                                      const std::vector<std::string>& also,
                                                      const std::vector<std::string>& only,
                                                      std::string_view who,
                                                      std::vector<std::string>* left_out = nullptr);

// Whether a pattern fits the name.
bool MatchesOne(const std::vector<std::string>& patterns, const std::string& name);

// Errors: a rule contradicts itself.
absl::Status CheckRules(const std::vector<WeightRule>& rules, std::string_view who);

// The name of the tensor that a rule gives a variable, which its pattern fits; nothing: it does not fit.
//   TensorFor({"block*/k", "h.*.k"}, "block7/k")    // h.7.k
std::optional<std::string> TensorFor(const WeightRule& rule, std::string_view variable);

// The first rule that fits a variable, and the tensor that it gives it; without such a rule, the tensor of its own name.
struct FoundRule {
  const WeightRule* rule = nullptr;
  std::string tensor;
};
FoundRule RuleFor(const std::vector<WeightRule>& rules, const std::string& variable);

// The order of the dims of a tensor of this shape that a rule asks for: dim d of the variable is dim dims[d] of the tensor.
// `shape` may as well be the variable's. Error: why the rule does not fit, as a part of a sentence.
absl::StatusOr<std::vector<int64_t>> DimsOf(const WeightRule& rule, const Shape& shape);

struct PlannedWeight {
  std::string variable;
  const SafetensorsFile* file = nullptr;
  SafetensorsEntry entry;     // read as the variable's dtype
  Block part;                 // of the tensor: what the variable is
  std::vector<int64_t> dims;  // dim d of the variable is dim dims[d] of the tensor

  // Where a box of the variable lies in the tensor. Law: it has as many elements as `box`.
  Block InTensor(const Block& box) const;
  // Whether the dims have another order in the tensor.
  bool is_transposed() const;
};

struct WeightPlan {
  std::vector<PlannedWeight> weights;     // by variable
  std::vector<std::string> kept, unused;  // as LoadedWeights

  // The same for two plans that read the same.
  std::string ToString() const;
};

// `left_out`: other variables, whose tensors need not be read. The files must outlive the plan. Errors: those of LoadWeights that
// names and types have.
absl::StatusOr<WeightPlan> PlanWeights(const WeightFiles& files, const std::map<std::string, Type>& variables,
                                       const std::vector<std::string>& left_out,
                                       const LoadWeightsOptions& options);

}  // namespace meshwork
