// Which part of which tensor each variable is read from (session/load_weights.h). Only this room uses it.
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
#include "meshwork/ir/type.h"
#include "meshwork/layout/layout.h"
#include "meshwork/session/load_weights.h"
#include "meshwork/storage/weight_files.h"

namespace meshwork {

// The name of the tensor that a rule gives a variable, which its pattern fits; nothing: it does not fit.
//   TensorFor({"block*/k", "h.*.k"}, "block7/k")    // h.7.k
std::optional<std::string> TensorFor(const WeightRule& rule, std::string_view variable);

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

// The files must outlive the plan. Errors: those of LoadWeights that names and types have.
absl::StatusOr<WeightPlan> PlanWeights(const WeightFiles& files, const std::map<std::string, Type>& variables,
                                       const LoadWeightsOptions& options);

}  // namespace meshwork
