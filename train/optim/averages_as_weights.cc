#include "meshwork/train/optim/averages_as_weights.h"

#include <algorithm>
#include <cstddef>
#include <set>

#include "fmt/format.h"
#include "meshwork/base/status.h"

namespace meshwork {
namespace {

// Weights and their averages, by name. Other variables of AverageWeights are left out: "ema/step", and "ema/wide/w"
// beside "ema/w".
std::vector<std::pair<std::string, std::string>> AveragesIn(const Session& session, const std::string& name) {
  const std::vector<std::string> all = session.variable_names();
  const std::set<std::string> names(all.begin(), all.end());
  const std::string prefix = name + "/", wide = prefix + "wide/";
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const std::string& average : all) {
    if (!average.starts_with(prefix) || average == prefix + "step") continue;
    if (average.starts_with(wide) && names.contains(prefix + average.substr(wide.size()))) continue;
    if (const std::string weight = average.substr(prefix.size()); names.contains(weight))
      pairs.emplace_back(weight, average);
  }
  return pairs;
}

}  // namespace

absl::Status CheckAverages(const Session& session, const std::string& name) {
  if (!AveragesIn(session, name).empty()) return absl::OkStatus();
  return absl::NotFoundError(fmt::format(
      "the session has no averages \"{0}/…\" of its weights; call AverageWeights(graph{1}) behind Minimize, before the "
      "session is made.",
      name, name == "ema" ? "" : fmt::format(", {{.name = \"{}\"}}", name)));
}

absl::StatusOr<std::unique_ptr<AveragesAsWeights>> AveragesAsWeights::Begin(Session& session,
                                                                            const std::string& name) {
  MESHWORK_RETURN_IF_ERROR(Annotate(CheckAverages(session, name), "AveragesAsWeights: "));
  std::unique_ptr<AveragesAsWeights> averages(new AveragesAsWeights(session));
  std::map<std::string, DTensor> state = session.State();
  for (const Pair& pair : AveragesIn(session, name)) {
    MESHWORK_RETURN_IF_ERROR(averages->Exchange(pair, state));
    averages->exchanged_.push_back(pair);
  }
  return averages;
}

absl::Status AveragesAsWeights::End() {
  absl::Status status;
  if (exchanged_.empty()) return status;
  std::map<std::string, DTensor> state = session_.State();
  for (; !exchanged_.empty(); exchanged_.pop_back()) status.Update(Exchange(exchanged_.back(), state));
  return status;
}

absl::Status AveragesAsWeights::Exchange(const Pair& pair, std::map<std::string, DTensor>& state) {
  DTensor &weight = state.at(pair.first), &average = state.at(pair.second);
  if (weight.type() == average.type() && weight.layout() == average.layout() &&
      weight.bytes() == average.bytes() && weight.memory().is_host() && average.memory().is_host()) {
    std::byte* const bytes = weight.instance(0);
    std::swap_ranges(bytes, bytes + weight.bytes(), average.instance(0));
    return absl::OkStatus();
  }
  MESHWORK_ASSIGN_OR_RETURN(const Tensor old_weight, session_.Get(pair.first));
  MESHWORK_ASSIGN_OR_RETURN(const Tensor old_average, session_.Get(pair.second));
  MESHWORK_RETURN_IF_ERROR(session_.Set(pair.first, old_average));
  const absl::Status set = session_.Set(pair.second, old_weight);
  if (!set.ok()) session_.Set(pair.first, old_weight).IgnoreError();
  return set;
}

}  // namespace meshwork
