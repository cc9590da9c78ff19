#include "meshwork/train/nn/low_rank.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "meshwork/base/name_patterns.h"
#include "meshwork/base/quote.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/name_scope.h"
#include "meshwork/ir/replace.h"
#include "meshwork/ir/row.h"
#include "meshwork/ops/ops.h"

namespace meshwork {
namespace {

constexpr std::string_view kA = ".lora_a", kB = ".lora_b";

bool IsAdapter(std::string_view name) { return name.ends_with(kA) || name.ends_with(kB); }

// A weight and the nodes x W, by index.
struct AdaptedWeight {
  ValueId weight = kNoValue;
  std::vector<int> products;
};

absl::Status CheckLowRankOptions(const LowRankOptions& options) {
  if (options.rank < 1) return InvalidArgument("rank={}; give 1 or more.", options.rank);
  if (!std::isfinite(options.alpha) || options.alpha <= 0)
    return InvalidArgument("alpha={}; give a number above 0.", options.alpha);
  if (options.patterns.empty())
    return InvalidArgument("no patterns; say which weights get adapters, as in {{\"*/attention/*\"}}.");
  return absl::OkStatus();
}

// The weights that the patterns mean, in the order of declaration.
absl::StatusOr<std::vector<AdaptedWeight>> WeightsThatFit(const Graph& graph,
                                                          const std::vector<std::string>& patterns) {
  std::vector<bool> fits(patterns.size(), false);
  std::vector<AdaptedWeight> weights;
  for (const Argument& argument : graph.arguments()) {
    const ValueInfo& info = graph.value(argument.value);
    if (!argument.is_variable || info.type.rank() != 2 || !IsFloat(info.type.dtype) || IsAdapter(info.name))
      continue;
    bool any = false;
    for (size_t p = 0; p < patterns.size(); ++p) {
      if (!MatchesPattern(info.name, patterns[p])) continue;
      any = fits[p] = true;
    }
    if (any) weights.push_back({.weight = argument.value});
  }
  const auto unused = std::find(fits.begin(), fits.end(), false);
  if (unused == fits.end()) return weights;
  return InvalidArgument(
      "pattern {} fits no variable that is a matrix of floats; adapters are for such ones.",
      Quoted(patterns[static_cast<size_t>(unused - fits.begin())]));
}

absl::Status CheckNotUpdated(const Graph& graph, const std::vector<AdaptedWeight>& weights) {
  for (const VariableUpdate& update : graph.updates())
    for (const AdaptedWeight& weight : weights)
      if (graph.arguments()[static_cast<size_t>(update.argument)].value == weight.weight)
        return InvalidArgument("{} is updated already; add adapters first, and the optimizer behind them.",
                               Quoted(graph.value(weight.weight).name));
  return absl::OkStatus();
}

// Fills in the products. Error: something else reads a weight.
absl::Status FindProducts(const Graph& graph, std::vector<AdaptedWeight>& weights) {
  std::map<ValueId, size_t> weight_of;  // of the weights, and of what they are cast to
  for (size_t w = 0; w < weights.size(); ++w) weight_of[weights[w].weight] = w;
  for (size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    for (size_t o = 0; o < node.operands.size(); ++o) {
      const auto found = weight_of.find(node.operands[o]);
      if (found == weight_of.end()) continue;
      const size_t w = found->second;
      if (node.row->name == "cast") {
        weight_of[node.results[0]] = w;
      } else if (node.row->name == "matmul" && o == 1) {
        weights[w].products.push_back(static_cast<int>(n));
      } else {
        return InvalidArgument(
            "{} is read by {}; adapters stand beside products x W of the program itself. Leave it out of the "
            "patterns.",
            Quoted(graph.value(weights[w].weight).name), graph.Describe(static_cast<int>(n)));
      }
    }
  }
  for (const AdaptedWeight& weight : weights)
    if (weight.products.empty())
      return InvalidArgument("{} is read by no product; build the model first, and add adapters behind it.",
                             Quoted(graph.value(weight.weight).name));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<AdaptedWeight>> FindWeights(const Graph& graph, const LowRankOptions& options) {
  MESHWORK_RETURN_IF_ERROR(CheckLowRankOptions(options));
  MESHWORK_ASSIGN_OR_RETURN(std::vector<AdaptedWeight> weights, WeightsThatFit(graph, options.patterns));
  MESHWORK_RETURN_IF_ERROR(CheckNotUpdated(graph, weights));
  MESHWORK_RETURN_IF_ERROR(FindProducts(graph, weights));
  return weights;
}

struct Adapter {
  Variable a, b;
};

Adapter Declare(Graph& graph, ValueId weight, const LowRankOptions& options, CallSite loc) {
  const ValueInfo info = graph.value(weight);  // a copy: the graph grows
  LayoutSpec layout = Value(&graph, weight).layout();
  if (layout.empty()) layout = {OPEN, OPEN};  // a program from a text need not say it
  const DType dtype = WideDType(info.type.dtype);
  const Shape a = {info.type.shape[0], options.rank}, b = {options.rank, info.type.shape[1]};
  const VarOptions var{.gather = info.gather};
  return {graph.Var(fmt::format("{}{}", info.name, kA), options.initializer.For(a, dtype),
                    {layout[0], UNSHARDED}, var, loc),
          graph.Var(fmt::format("{}{}", info.name, kB), Zeros(b, dtype), {UNSHARDED, layout[1]}, var, loc)};
}

// x W + scale (x A) B, of the product x W, or of x W' with B' and A'.
Value Corrected(Graph& graph, const Node& product, const Adapter& adapter, double scale) {
  const Value x(&graph, product.operands[0]), y(&graph, product.results[0]);
  const bool x_stands = product.attrs.Get<bool>("transpose_a"),
             w_stands = product.attrs.Get<bool>("transpose_b");
  const Value a = InDType(adapter.a, x.dtype()), b = InDType(adapter.b, x.dtype());
  const Value low = MatMul(x, w_stands ? b : a, x_stands, w_stands);
  return y + MatMul(low * scale, w_stands ? a : b, false, w_stands);
}

}  // namespace

LowRankAdapters AddLowRankAdapters(Graph& graph, const LowRankOptions& options, CallSite loc) {
  const absl::StatusOr<std::vector<AdaptedWeight>> weights = FindWeights(graph, options);
  if (!weights.ok()) {
    graph.RecordError(
        fmt::format("{}: {}", graph.Describe("AddLowRankAdapters", loc), MessageOf(weights.status())));
    return {};
  }
  const NameScope none = NameScope::None(graph);
  LowRankAdapters adapters{.scale = options.alpha / static_cast<double>(options.rank)};
  for (const AdaptedWeight& weight : *weights) {
    const Adapter added = Declare(graph, weight.weight, options, loc);
    if (!added.a.valid() || !added.b.valid()) return {};  // recorded already: the name is taken
    adapters.weights.push_back(graph.value(weight.weight).name);
    adapters.variables.insert(adapters.variables.end(), {added.a, added.b});
  }
  const size_t first = graph.nodes().size();
  std::vector<Replacement> replacements;
  for (size_t w = 0; w < weights->size(); ++w) {
    for (const int n : (*weights)[w].products) {
      const Node product = graph.nodes()[static_cast<size_t>(n)];  // a copy: the list grows
      const LocationScope line(graph, product.location);
      replacements.push_back(
          {product.results[0],
           Corrected(graph, product, {adapters.variables[2 * w], adapters.variables[2 * w + 1]},
                     adapters.scale)
               .id()});
    }
  }
  ReplaceInPlace(graph, first, replacements);
  return adapters;
}

absl::Status MergeLowRankAdapters(Session& session, const LowRankAdapters& adapters) {
  Graph merge(session.graph().mesh());
  merge.name = "merge";
  const auto declare = [&](const std::string& name) -> absl::StatusOr<Variable> {
    const Graph& program = session.graph();
    const int argument = program.FindArgument(name);
    if (argument < 0 || !program.arguments()[static_cast<size_t>(argument)].is_variable)
      return absl::NotFoundError(
          fmt::format("MergeLowRankAdapters: the session has no variable {}; give the adapters that "
                      "AddLowRankAdapters returned for its program.",
                      Quoted(name)));
    const Type& type = program.value(program.arguments()[static_cast<size_t>(argument)].value).type;
    return merge.Var(name, Zeros(type.shape, type.dtype));
  };
  for (const std::string& name : adapters.weights) {
    MESHWORK_ASSIGN_OR_RETURN(const Variable weight, declare(name));
    MESHWORK_ASSIGN_OR_RETURN(const Variable a, declare(fmt::format("{}{}", name, kA)));
    MESHWORK_ASSIGN_OR_RETURN(const Variable b, declare(fmt::format("{}{}", name, kB)));
    merge.Update(weight, InDType(InDType(weight, a.dtype()) + MatMul(a * adapters.scale, b), weight.dtype()));
    merge.Update(b, Constant(merge, 0.0, b.type()));
  }
  if (adapters.weights.empty()) return absl::OkStatus();
  MESHWORK_ASSIGN_OR_RETURN(Session merging, session.Share(merge));
  return merging.Run({}).status();
}

std::vector<WeightRule> PeftRules(const std::vector<WeightRule>& rules) {
  constexpr std::string_view kWeight = ".weight";
  std::vector<WeightRule> peft;
  for (const WeightRule& rule : rules) {
    if (!rule.tensor.ends_with(kWeight) || rule.rows.has_value() || rule.columns.has_value()) continue;
    const std::string module =
        "base_model.model." + rule.tensor.substr(0, rule.tensor.size() - kWeight.size());
    // PEFT adds lora_B · lora_A to its [out,in]: to ours transposed that is A · B, to ours as it is B is lora_A.
    const auto add = [&](std::string_view ours, char theirs) {
      peft.push_back({.variable = fmt::format("{}{}", rule.variable, ours),
                      .tensor = fmt::format("{}.lora_{}.weight", module, theirs),
                      .transpose = rule.transpose});
    };
    add(kA, rule.transpose ? 'A' : 'B');
    add(kB, rule.transpose ? 'B' : 'A');
  }
  return peft;
}

}  // namespace meshwork
