#include "examples/support/digits_weights.h"

#include <algorithm>

#include "fmt/ranges.h"
#include "meshwork/base/status.h"
#include "meshwork/base/suggest.h"

namespace meshwork {

int64_t CountParameters(const DigitsModel& model, const Graph& graph) {
  int64_t count = 0;
  for (const std::string& name : model.weights) {
    const Argument& weight = graph.arguments()[static_cast<size_t>(graph.FindArgument(name))];
    count += graph.value(weight.value).global.num_elements();
  }
  return count;
}

absl::StatusOr<Weights> WeightsOf(const DigitsModel& model, const Session& session) {
  Weights weights;
  for (const std::string& name : model.weights) {
    MESHWORK_ASSIGN_OR_RETURN(Tensor tensor, session.Get(name));
    weights.emplace_back(name, std::move(tensor));
  }
  return weights;
}

namespace {

absl::Status CheckNames(const DigitsModel& model, const std::string& path, const Weights& weights) {
  const std::vector<std::string> wanted = model.weights;
  const std::string all = fmt::format("{}", fmt::join(wanted, ", "));
  std::vector<std::string> found;
  for (const auto& [name, tensor] : weights) found.push_back(name);
  for (const std::string& name : found) {
    if (std::find(wanted.begin(), wanted.end(), name) != wanted.end()) continue;
    const std::string hint = DidYouMean(name, wanted);
    return InvalidArgument("{}: tensor \"{}\" is no weight of the model{} The weights are {}.", path, name,
                           hint.empty() ? "." : hint, all);
  }
  for (const std::string& name : wanted)
    if (std::find(found.begin(), found.end(), name) == found.end())
      return InvalidArgument("{}: there is no tensor \"{}\"; the weights of the model are {}.", path, name,
                             all);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Weights> ReadWeights(const DigitsModel& model, const std::string& path, const Graph& graph) {
  MESHWORK_ASSIGN_OR_RETURN(Weights weights, ReadSafetensors(path));
  MESHWORK_RETURN_IF_ERROR(CheckNames(model, path, weights));
  for (const auto& [name, tensor] : weights) {
    const Type& type = graph.value(graph.arguments()[graph.FindArgument(name)].value).type;
    if (tensor.type() == type) continue;
    return InvalidArgument("{}: tensor \"{}\" is {} but the model's is {}; weights are not converted{}", path,
                           name, tensor.type().ToString(), type.ToString(),
                           tensor.shape() == type.shape
                               ? fmt::format(", give --dtype {}.", DTypeName(tensor.type().dtype))
                               : ".");
  }
  return weights;
}

}  // namespace meshwork
