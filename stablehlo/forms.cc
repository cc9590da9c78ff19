#include "meshwork/stablehlo/forms.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "fmt/format.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/row.h"

namespace meshwork::stablehlo {
namespace {

// "matmul_q (model.cc:4), sort (model.cc:7)": each op once.
std::string WithoutForm(const Graph& graph) {
  std::vector<std::string_view> seen;
  std::string names;
  for (const Node& node : graph.nodes()) {
    if (FindForm(node.row->name) != nullptr || IsNote(node) ||
        std::find(seen.begin(), seen.end(), node.row->name) != seen.end())
      continue;
    seen.push_back(node.row->name);
    const std::string place = node.location.ToString();
    names += fmt::format("{}{}{}", names.empty() ? "" : ", ", node.row->name,
                         place.empty() ? "" : fmt::format(" ({})", place));
  }
  return names;
}

// The results of a node, none of which has an element; StableHLO has no collectives of nothing. Nothing: some have elements.
std::optional<HloValues> EmptyResults(HloText& text, const Graph& graph, const Node& node) {
  HloValues results;
  for (const ValueId id : node.results) {
    const Type& type = graph.value(id).type;
    if (type.num_elements() > 0) return std::nullopt;
    results.push_back(text.Constant(0, type));
  }
  return results;
}

}  // namespace

HloValue FormView::Wide(size_t i) const {
  const HloValue& x = operands[i];
  return x.dtype() == BF16 || x.dtype() == F16 ? text.Convert(x, F32) : x;
}

Extent FormView::ExtentOn(const ValueInfo& value, size_t d, int64_t device) {
  if (!value.layout.has_value()) return {0, value.global.shape[d]};
  return value.layout->BlockOf(value.global.shape, device)[d];
}

HloValue FormView::StartOf(const ValueInfo& value, size_t d) const {
  std::vector<int64_t> starts;
  for (int64_t device = 0; device < mesh().num_devices(); ++device)
    starts.push_back(ExtentOn(value, d, device).start);
  return text.OfThisDevice(starts);
}

HloValue FormView::SizeOf(const ValueInfo& value, size_t d) const {
  std::vector<int64_t> sizes;
  for (int64_t device = 0; device < mesh().num_devices(); ++device)
    sizes.push_back(ExtentOn(value, d, device).size);
  return text.OfThisDevice(sizes);
}

HloValue FormView::IndexAlong(size_t d) const {
  const Type type{I64, result().shape};
  return text.Add(text.Iota(type, static_cast<int64_t>(d)),
                  text.Broadcast(StartOf(result_info(), d), type.shape));
}

Form FindForm(std::string_view op) {
  static const auto* const forms = [] {
    auto* all = new std::map<std::string_view, Form>;
    for (const auto& family :
         {ElementwiseForms(), FunctionForms(), ShapeForms(), IndexForms(), ReductionForms(), ProductForms(),
          WindowForms(), AttentionForms(), LinalgForms(), GenerationForms(), RandomForms(), OptimizerForms(),
          CollectiveForms(), ControlForms()})
      for (const NamedForm& named : family) all->emplace(named.op, named.form);
    return all;
  }();
  const auto found = forms->find(op);
  return found == forms->end() ? nullptr : found->second;
}

absl::StatusOr<HloValues> WriteNodes(HloText& text, const Graph& graph, const HloValues& arguments,
                                     const PlaceResult& placed) {
  if (const std::string names = WithoutForm(graph); !names.empty())
    return absl::UnimplementedError(fmt::format("These ops have no form in StableHLO yet: {}.", names));
  HloValues values(graph.values().size());
  for (size_t a = 0; a < arguments.size(); ++a) values[graph.arguments()[a].value] = arguments[a];
  for (const Node& node : graph.nodes()) {
    text.SetLocation(node.row->name, node.location);
    HloValues operands;
    for (const ValueId operand : node.operands) operands.push_back(values[operand]);
    absl::StatusOr<HloValues> written;
    if (IsNote(node)) written = std::move(operands);
    else if (std::optional<HloValues> empty = EmptyResults(text, graph, node); empty.has_value())
      written = *std::move(empty);
    else written = FindForm(node.row->name)({text, graph, node, std::move(operands)});
    MESHWORK_ASSIGN_OR_RETURN(const HloValues results, std::move(written));
    MESHWORK_CHECK(results.size() == node.results.size(), "{}: {} results", node.row->name, results.size());
    for (size_t r = 0; r < results.size(); ++r) {
      const Type& type = graph.value(node.results[r]).type;
      MESHWORK_CHECK(results[r].type == type, "{}: {} instead of {}", node.row->name,
                     results[r].type.ToString(), type.ToString());
      values[node.results[r]] = placed == nullptr ? results[r] : placed(node.results[r], results[r]);
    }
  }
  return values;
}

}  // namespace meshwork::stablehlo
