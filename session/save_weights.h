// SaveWeights: the weights of a session as others read them, with the names and the files of Hugging Face. The counterpart
// of LoadWeights, by the same rules.
//
//   const std::vector<WeightRule> rules = {{.variable = "block*/query/kernel",
//                                           .tensor = "model.layers.*.self_attn.q_proj.weight", .transpose = true}};
//   LoadWeights(session, "SmolLM2-135M", {.rules = rules});
//   …
//   SaveWeights(session, "tuned", {.rules = rules});                               // tuned/model.safetensors
//
// Which variables are saved: those that LoadWeights loads. A checkpoint (Session::Save) also has the optimizer's state.
//
// A process holds one tensor at a time. Thread safety: that of the session.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/session/load_weights.h"
#include "meshwork/session/session.h"
#include "meshwork/storage/safetensors.h"

namespace meshwork {

struct SaveWeightsOptions {
  // For a variable the first rule that fits counts. A variable without a rule becomes the tensor of its own name.
  std::vector<WeightRule> rules = {};
  // Patterns (base/name_patterns.h) of variables that are saved although no output depends on them; of those that are
  // saved, none for all; and of those that are not, which need not be there.
  std::vector<std::string> also = {}, only = {}, except = {};
  SafetensorsMetadata metadata = {{"format", "pt"}};  // transformers asks for it
};

struct SavedWeights {
  std::string path;                  // of the file
  std::vector<std::string> tensors;  // in the order of their elements in the file
  int64_t bytes = 0;                 // of the file
};

// Writes a safetensors file: `path` if it ends in ".safetensors", else "model.safetensors" in the folder `path`, which is
// made where it is missing. The file is replaced in one step. Tensors have the dtypes of their variables.
// With several domains all call it alike, and domain 0 writes; it succeeds in all or in none, and `bytes` is 0 in the
// others. Law: LoadWeights with the same .rules, .also and .only, and with .except as .missing, sets the variables to the same
// values, bit for bit. A call of the session.
// Errors, after which the file is as it was: rules that contradict themselves, that do not fit a variable's dims, or that
// make a variable a part of a tensor; two variables that become one tensor; patterns that fit none; those of Session::Get
// and StreamSafetensors.
absl::StatusOr<SavedWeights> SaveWeights(const Session& session, const std::string& path,
                                         const SaveWeightsOptions& options = {});

}  // namespace meshwork
