// LoadWeights: a session takes weights that somebody published, with the names and the files of Hugging Face.
//
//   LoadWeights(session, "SmolLM2-135M",
//               {.rules = {{.variable = "block*/query/kernel",
//                           .tensor = "model.layers.*.self_attn.q_proj.weight", .transpose = true},
//                          {.variable = "tokens/table", .tensor = "model.embed_tokens.weight"}}});
//
// Nothing is gathered: each process reads from the files only the boxes that its devices hold, also of weights that are
// transposed, and each box once.
//
// Which variables are loaded: those that the program's outputs depend on outside of training, as SaveProgram saves them. So
// the running statistics of batch norm are, and the optimizer's state, averages of weights and the sums of metrics are not;
// they keep their values, as does Session::steps_done.
//
// docs/saving.md has an example. Thread safety: that of the session.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/layout/layout.h"
#include "meshwork/session/session.h"

namespace meshwork {

// Which tensor variables are read from, and how they lie in it.
struct WeightRule {
  // The name of a variable. Each * stands for any characters, as few as possible; no other character is special.
  std::string variable;
  // The name of its tensor. The n-th * becomes what the n-th * of `variable` stands for.
  std::string tensor;
  // The variable [n,m] is the tensor [m,n] with its dims exchanged, as the weight of a torch.nn.Linear is.
  bool transpose = false;
  // Instead, for any number of dims: dim d of the variable is dim dims[d] of the tensor. The kernel of a convolution that
  // PyTorch has as [out,in,h,w] is [h,w,in,out] with {2, 3, 1, 0}.
  std::vector<int64_t> dims = {};
  // The part of the tensor that the variable is, before dims are exchanged: rows of dim 0, columns of dim 1. So the three
  // weights of a fused query, key and value are read from one tensor. Nothing: all.
  std::optional<Extent> rows = {}, columns = {};
};

struct LoadWeightsOptions {
  // For a variable the first rule that fits counts. A variable without a rule is read from the tensor of its own name.
  // Several variables may be read from one tensor.
  std::vector<WeightRule> rules = {};
  // Patterns (base/name_patterns.h) of variables that keep their values if they have no tensor, of tensors that need
  // not be read, and of variables that are to be loaded although no output depends on them. A tensor of which a part is
  // read counts as read.
  std::vector<std::string> missing = {}, unused = {}, also = {};
  // Patterns of the variables that are loaded, of those above; none: all. The others keep their values, and
  // their tensors need not be read.
  std::vector<std::string> only = {};
};

struct LoadedWeights {
  std::vector<std::string> variables;  // that were set, by name
  std::vector<std::string> kept;       // without a tensor: they have kept their values
  std::vector<std::string> unused;     // tensors that no variable was read from
  int64_t bytes_read = 0;              // of elements, from the files, by this process
};

// Sets variables from the weights at `path`, which is as WeightFiles::Open (storage/weight_files.h) takes it. Numbers
// become those of the variable's dtype where storage/safetensors.h has the conversion: bf16 and f16 become f32.
// With several domains all call it alike; it succeeds in all or in none, and each may have the files under another path.
// Errors: those of WeightFiles::Open; rules that contradict themselves; variables without a tensor, tensors without a
// variable, other dtypes or shapes, with their names; domains whose files differ. After these the variables are as they
// were. If a file cannot be read after all, the variables that are to be set have no usable values.
// A call of the session, as those of its own functions are.
absl::StatusOr<LoadedWeights> LoadWeights(Session& session, const std::string& path,
                                          const LoadWeightsOptions& options = {});

}  // namespace meshwork
