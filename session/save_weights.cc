#include "meshwork/session/save_weights.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "meshwork/base/io/file.h"
#include "meshwork/base/quote.h"
#include "meshwork/base/status.h"
#include "meshwork/session/save_restore.h"
#include "meshwork/session/weight_plan.h"
#include "meshwork/storage/fill_blocks.h"

namespace meshwork {
namespace {

constexpr std::string_view kWhat = "the weights to save";

struct WeightToSave {
  std::string variable, tensor;
  Type type;                  // of the tensor
  std::vector<int64_t> dims;  // dim d of the tensor is dim dims[d] of the variable
};

absl::StatusOr<WeightToSave> PlanWeight(const std::string& variable, const Type& type,
                                        const std::vector<WeightRule>& rules) {
  const auto [found, tensor] = RuleFor(rules, variable);
  const WeightRule rule = found == nullptr ? WeightRule{} : *found;
  if (rule.rows.has_value() || rule.columns.has_value())
    return InvalidArgument(
        "SaveWeights: the rule for {} makes it a part of {} (.rows or .columns), and parts are not joined; give each "
        "variable a tensor of its own.",
        Quoted(variable), Quoted(tensor));
  const absl::StatusOr<std::vector<int64_t>> dims = DimsOf(rule, type.shape);
  if (!dims.ok())
    return InvalidArgument("SaveWeights: {} {} cannot become {} by its rule: {}.", Quoted(variable),
                           type.ToString(), Quoted(tensor), MessageOf(dims.status()));
  WeightToSave weight{variable, tensor, {type.dtype, Shape(type.shape.size())}, Inverse(*dims)};
  for (size_t d = 0; d < weight.dims.size(); ++d)
    weight.type.shape[d] = type.shape[static_cast<size_t>(weight.dims[d])];
  return weight;
}

// In the order in which the file has their elements, so that all domains gather them in this order.
absl::StatusOr<std::vector<WeightToSave>> PlanSaving(const Graph& graph, const SaveWeightsOptions& options) {
  MESHWORK_RETURN_IF_ERROR(CheckRules(options.rules, "SaveWeights"));
  MESHWORK_ASSIGN_OR_RETURN(const auto variables,
                            WeightsOf(graph, options.also, options.only, "SaveWeights"));
  std::vector<WeightToSave> weights;
  std::map<std::string, std::string> variable_of;  // by tensor
  for (const auto& [variable, type] : variables) {
    if (MatchesOne(options.except, variable)) continue;
    MESHWORK_ASSIGN_OR_RETURN(WeightToSave weight, PlanWeight(variable, type, options.rules));
    const auto [other, is_new] = variable_of.emplace(weight.tensor, variable);
    if (!is_new)
      return InvalidArgument(
          "SaveWeights: {} and {} both become the tensor {}; give each one of its own by .rules, or leave one out by "
          ".except.",
          Quoted(other->second), Quoted(variable), Quoted(weight.tensor));
    weights.push_back(std::move(weight));
  }
  if (weights.empty()) return InvalidArgument("SaveWeights: .except leaves out all variables; leave one in.");
  std::sort(weights.begin(), weights.end(), [](const WeightToSave& a, const WeightToSave& b) {
    return std::tuple(-DTypeSize(a.type.dtype), a.tensor) < std::tuple(-DTypeSize(b.type.dtype), b.tensor);
  });
  return weights;
}

// Gathers the weights, each once and in order, as all domains do together.
class WeightGatherer {
 public:
  WeightGatherer(const Session& session, const std::vector<WeightToSave>& weights)
      : session_(session), weights_(weights) {}

  // The i-th weight as it is in the file. REQUIRES: i grows from call to call.
  absl::StatusOr<Tensor> Gather(size_t i) {
    MESHWORK_RETURN_IF_ERROR(Skip(i));
    next_ = i + 1;
    const WeightToSave& weight = weights_[i];
    MESHWORK_ASSIGN_OR_RETURN(Tensor tensor, session_.Get(weight.variable));
    return std::is_sorted(weight.dims.begin(), weight.dims.end()) ? tensor : tensor.Transposed(weight.dims);
  }
  // Takes part in gathering the weights up to the i-th, also after an error: the other domains count on it.
  absl::Status Skip(size_t i) {
    absl::Status status;
    for (; next_ < i; ++next_) status.Update(session_.Get(weights_[next_].variable).status());
    return status;
  }

 private:
  const Session& session_;
  const std::vector<WeightToSave>& weights_;
  size_t next_ = 0;
};

std::string FileOf(const std::string& path) {
  return path.ends_with(".safetensors") ? path : (std::filesystem::path(path) / "model.safetensors").string();
}

absl::Status Write(const SaveWeightsOptions& options, const std::vector<WeightToSave>& weights,
                   WeightGatherer& gatherer, SavedWeights& saved) {
  const std::filesystem::path folder = std::filesystem::path(saved.path).parent_path();
  if (!folder.empty()) MESHWORK_RETURN_IF_ERROR(MakeFolders(folder.string()));
  std::vector<std::pair<std::string, Type>> tensors;
  for (const WeightToSave& weight : weights) tensors.emplace_back(weight.tensor, weight.type);
  MESHWORK_ASSIGN_OR_RETURN(
      const WrittenFile file,
      StreamSafetensors(
          saved.path, tensors, [&](size_t i) { return gatherer.Gather(i); }, options.metadata));
  saved.bytes = file.bytes;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SavedWeights> SaveWeights(const Session& session, const std::string& path,
                                         const SaveWeightsOptions& options) {
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<WeightToSave> weights, PlanSaving(session.graph(), options));
  SavedWeights saved{.path = FileOf(path)};
  for (const WeightToSave& weight : weights) saved.tensors.push_back(weight.tensor);
  const DomainState here = session.Here();
  WeightGatherer gatherer(session, weights);
  absl::Status status;
  if (here.domain() == 0) status = Write(options, weights, gatherer, saved);
  if (here.num_domains() > 1) status.Update(gatherer.Skip(weights.size()));
  MESHWORK_RETURN_IF_ERROR(AllAgree(here.transport, kWhat, status));
  return saved;
}

}  // namespace meshwork
