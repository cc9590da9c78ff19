#include "meshwork/session/save_weights.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "meshwork/base/io/file.h"
#include "meshwork/base/quote.h"
#include "meshwork/base/status.h"
#include "meshwork/session/save_restore.h"
#include "meshwork/session/weight_plan.h"
#include "meshwork/session/without_exceptions.h"
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

using GetVariable = std::function<absl::StatusOr<Tensor>(const std::string& variable)>;

// Gathers the weights, each once and in order, as all domains do together.
class WeightGatherer {
 public:
  WeightGatherer(const std::vector<WeightToSave>& weights, GetVariable get)
      : weights_(weights), get_(std::move(get)) {}

  // The i-th weight as it is in the file. REQUIRES: i grows from call to call.
  absl::StatusOr<Tensor> Gather(size_t i) {
    MESHWORK_RETURN_IF_ERROR(Skip(i));
    next_ = i + 1;
    const WeightToSave& weight = weights_[i];
    MESHWORK_ASSIGN_OR_RETURN(Tensor tensor, get_(weight.variable));
    return std::is_sorted(weight.dims.begin(), weight.dims.end()) ? tensor : tensor.Transposed(weight.dims);
  }
  // Takes part in gathering the weights up to the i-th, also after an error: the other domains count on it.
  absl::Status Skip(size_t i) {
    absl::Status status;
    for (; next_ < i; ++next_) status.Update(get_(weights_[next_].variable).status());
    return status;
  }

 private:
  const std::vector<WeightToSave>& weights_;
  const GetVariable get_;
  size_t next_ = 0;
};

std::string FileOf(const std::string& path) {
  return path.ends_with(".safetensors") ? path : (std::filesystem::path(path) / "model.safetensors").string();
}

// How all domains save together. Domain 0 writes while the others take part in gathering; before the file gets its name, which
// is when its last tensor has been read, all agree that each has done its part.
class Saving {
 public:
  Saving(Transport* transport, const std::vector<WeightToSave>& weights, GetVariable get)
      : transport_(transport), weights_(weights), gatherer_(weights, std::move(get)) {
    for (size_t i = 0; i < weights.size(); ++i)
      if (weights[i].type.num_elements() > 0) last_ = i;
  }

  absl::StatusOr<int64_t> Write(const std::string& path, const SaveWeightsOptions& options) {
    const absl::StatusOr<WrittenFile> file = TryWrite(path, options);
    if (!has_agreed_) MESHWORK_RETURN_IF_ERROR(Agree(file.status()));
    MESHWORK_RETURN_IF_ERROR(AllAgree(transport_, kWhat, file.status()));
    return file->bytes;
  }
  absl::Status HelpOther() {
    MESHWORK_RETURN_IF_ERROR(Agree(absl::OkStatus()));
    return AllAgree(transport_, kWhat, absl::OkStatus());
  }

 private:
  absl::StatusOr<WrittenFile> TryWrite(const std::string& path, const SaveWeightsOptions& options) {
    const std::filesystem::path folder = std::filesystem::path(path).parent_path();
    if (!folder.empty()) MESHWORK_RETURN_IF_ERROR(MakeFolders(folder.string()));
    if (!last_.has_value()) MESHWORK_RETURN_IF_ERROR(Agree(absl::OkStatus()));
    std::vector<std::pair<std::string, Type>> tensors;
    for (const WeightToSave& weight : weights_) tensors.emplace_back(weight.tensor, weight.type);
    return StreamSafetensors(
        path, tensors, [&](size_t i) { return Read(i); }, options.metadata);
  }

  absl::StatusOr<Tensor> Read(size_t i) {
    absl::StatusOr<Tensor> tensor = gatherer_.Gather(i);
    if (i == last_) MESHWORK_RETURN_IF_ERROR(Agree(tensor.status()));
    return tensor;
  }

  // OK if all domains have done their part. `mine`: whether this one has, so far.
  absl::Status Agree(absl::Status mine) {
    has_agreed_ = true;
    if (transport_ != nullptr) mine.Update(gatherer_.Skip(weights_.size()));
    return AllAgree(transport_, kWhat, mine);
  }

  Transport* const transport_;
  const std::vector<WeightToSave>& weights_;
  WeightGatherer gatherer_;
  std::optional<size_t> last_;  // the last one with elements, which StreamSafetensors reads last
  bool has_agreed_ = false;
};

// All domains call it alike.
absl::StatusOr<SavedWeights> Save(const Graph& graph, const DomainState& here, const GetVariable& get,
                                  const std::string& path, const SaveWeightsOptions& options) {
  const absl::StatusOr<std::vector<WeightToSave>> weights = PlanSaving(graph, options);
  MESHWORK_RETURN_IF_ERROR(AllAgree(here.transport, kWhat, weights.status()));
  SavedWeights saved{.path = FileOf(path)};
  for (const WeightToSave& weight : *weights) saved.tensors.push_back(weight.tensor);
  Saving saving(here.transport, *weights, get);
  if (here.domain() > 0) {
    MESHWORK_RETURN_IF_ERROR(saving.HelpOther());
  } else {
    MESHWORK_ASSIGN_OR_RETURN(saved.bytes, saving.Write(saved.path, options));
  }
  return saved;
}

}  // namespace

absl::StatusOr<SavedWeights> SaveWeights(const Session& session, const std::string& path,
                                         const SaveWeightsOptions& options) {
  MESHWORK_ASSIGN_OR_RETURN(const OneCaller::Call call, session.Begin("SaveWeights"));
  const DomainState here = session.Here();
  return WithoutExceptions(here.transport, [&] {
    return Save(
        session.graph(), here, [&](const std::string& variable) { return session.TryGet(variable); }, path,
        options);
  });
}

}  // namespace meshwork
