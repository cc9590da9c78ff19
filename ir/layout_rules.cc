#include "meshwork/ir/layout_rules.h"

#include <algorithm>

#include "meshwork/base/name_patterns.h"
#include "meshwork/base/status.h"
#include "meshwork/base/suggest.h"

namespace meshwork {

const LayoutSpec* FindLayout(const NamedLayouts& layouts, const std::string& name, int rank) {
  const LayoutSpec* found = nullptr;
  for (const auto& [pattern, spec] : layouts)
    if (MatchesPattern(name, pattern) && (!IsPattern(pattern) || std::ssize(spec) == rank)) found = &spec;
  return found;
}

LayoutRules::Ruled LayoutRules::LayoutOf(const Mesh& mesh, const std::string& name, const Type& type,
                                         bool is_variable) const {
  const LayoutSpec* const found = FindLayout(layouts, name, type.rank());
  if (found != nullptr) return {*found};
  LayoutSpec spec(static_cast<size_t>(type.rank()), open ? DimSpec(OPEN) : DimSpec(UNSHARDED));
  if (!is_variable && !batch.empty() && type.rank() > 0) spec[0] = DimSpec(batch);
  const bool in_blocks =
      is_variable && !variables.empty() && type.rank() > 0 && type.num_elements() >= least_in_blocks;
  if (!in_blocks) return {std::move(spec)};
  int64_t devices = 1;  // an axis that the mesh lacks is refused, or of size 1
  for (const std::string& axis : variables)
    if (const auto axes = mesh.FindAxes(axis); axes.ok()) devices *= mesh.GroupSize(*axes);
  const auto rank = [&](int64_t size) { return std::pair(size % devices == 0, size); };
  const auto longest = std::max_element(type.shape.begin(), type.shape.end(),
                                        [&](int64_t a, int64_t b) { return rank(a) < rank(b); });
  spec[static_cast<size_t>(longest - type.shape.begin())] = DimSpec(variables);
  return {std::move(spec), true};
}

LayoutSpec UnlessWhole(LayoutSpec spec) {
  const auto is_whole = [](const DimSpec& dim) {
    return dim.mode() == DimMode::kLocked && dim.axes().empty() && dim.factors().empty();
  };
  return std::all_of(spec.begin(), spec.end(), is_whole) ? LayoutSpec() : spec;
}

absl::Status CheckLayouts(const NamedLayouts& layouts,
                          const std::vector<std::pair<std::string, Type>>& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, type] : tensors) names.push_back(name);
  for (const auto& [pattern, spec] : layouts) {
    bool fits = false;
    for (const auto& [name, type] : tensors) {
      if (!MatchesPattern(name, pattern)) continue;
      if (std::ssize(spec) == type.rank()) fits = true;
      else if (!IsPattern(pattern))
        return InvalidArgument("\"{}\" is {}, and its layout {} is of {}; give an entry per dim.", name,
                               type.ToString(), LayoutSpecToString(spec), Count(std::ssize(spec), "dim"));
    }
    if (fits) continue;
    if (IsPattern(pattern))
      return absl::NotFoundError(
          fmt::format("\"{}\" fits no input or variable of {}; the layout {} would be of no use.", pattern,
                      Count(std::ssize(spec), "dim"), LayoutSpecToString(spec)));
    return absl::NotFoundError(fmt::format("there is no input or variable \"{}\"{}", pattern,
                                           DidYouMeanOneOf(pattern, names, "inputs and variables")));
  }
  return absl::OkStatus();
}

}  // namespace meshwork
