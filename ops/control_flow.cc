// The control family: scan, while, if; their inference and builders.
#include "ops/control_flow.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/status.h"
#include "ops/body_builder.h"
#include "ops/difference.h"
#include "ops/local.h"
#include "ops/manual.h"
#include "ops/ops.h"
#include "ops/registry.h"
#include "ops/rewrite.h"
#include "ops/row.h"

namespace meshwork {
namespace {

std::string NameOf(const Graph& region, int argument) { return "%" + region.argument_name(argument); }

const Type& ArgumentType(const Graph& region, int argument) {
  return region.value(region.arguments()[argument].value).type;
}

absl::Status CheckArgument(const Graph& region, int argument, std::string_view what, const Type& given) {
  if (ArgumentType(region, argument) == given) return absl::OkStatus();
  return InvalidArgument("{} {} is {}, and {} is given.", what, NameOf(region, argument),
                         ArgumentType(region, argument).ToString(), given.ToString());
}

// Arguments against operands; variables come first, and only loops have them.
absl::Status CheckArguments(const Graph& region, const ControlShape& shape,
                            const std::vector<Type>& operands) {
  const auto given = static_cast<int>(operands.size()) - shape.first_argument;
  if (given != static_cast<int>(region.arguments().size()))
    return InvalidArgument("its body takes {}, and {} given.", Count(region.arguments().size(), "argument"),
                           given == 1 ? "1 is" : fmt::format("{} are", given));
  for (int a = 0; a < given; ++a) {
    const Type& operand = operands[a + shape.first_argument];
    const bool is_carry = a < shape.carries;
    if (region.arguments()[a].is_variable != is_carry)
      return InvalidArgument("{} is {}; the arguments of a body are its carries (var), then the others.",
                             NameOf(region, a), is_carry ? "no carry" : "a carry");
    if (is_carry) {
      RETURN_IF_ERROR(CheckArgument(region, a, "carry", operand));
    } else if (a < shape.carries + shape.slices) {
      if (operand.rank() == 0)
        return InvalidArgument("{} is a slice of {}, which has no dims.", NameOf(region, a),
                               operand.ToString());
      Type slice = operand;
      slice.shape.erase(slice.shape.begin());
      RETURN_IF_ERROR(CheckArgument(region, a, "slice", slice));
    } else {
      RETURN_IF_ERROR(CheckArgument(region, a, "argument", operand));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Type>> InferScan(const Node& node, const std::vector<Type>& operands) {
  const Graph& body = *node.regions[0];
  const int64_t length = node.attrs.Get<int64_t>("length");
  const ControlShape shape = ShapeOfControl(node);
  if (length < 0) return InvalidArgument("length={}; the number of iterations is at least 0.", length);
  // The shape has them as ints.
  const int64_t slices = node.attrs.Get<int64_t>("slices"), sums = node.attrs.Get<int64_t>("sums");
  const int64_t others = std::ssize(body.arguments()) - shape.carries;
  if (slices < 0 || slices > others)
    return InvalidArgument("slices={}; its body has {} beside the carries.", slices,
                           Count(others, "argument"));
  if (sums < 0 || sums > std::ssize(body.outputs()))
    return InvalidArgument("sums={}; its body returns {}.", sums, Count(body.outputs().size(), "value"));
  RETURN_IF_ERROR(CheckArguments(body, shape, operands));
  std::vector<Type> results(operands.begin(), operands.begin() + shape.carries);
  for (int s = shape.carries; s < shape.carries + shape.slices; ++s)
    if (operands[s].shape[0] != length)
      return InvalidArgument("{} is {}, which has {}; length={}.", fmt::format("operand {}", s),
                             operands[s].ToString(), Count(operands[s].shape[0], "slice"), length);
  for (int o = 0; o < shape.stacked + shape.sums; ++o) {
    Type type = body.value(body.outputs()[o].value).type;
    if (o < shape.stacked) type.shape.insert(type.shape.begin(), length);
    else if (type.dtype == BOOL)
      return InvalidArgument("output {} is {}; what is added up is of numbers.", o, type.ToString());
    results.push_back(std::move(type));
  }
  return results;
}

absl::StatusOr<std::vector<Type>> InferWhile(const Node& node, const std::vector<Type>& operands) {
  const Graph& body = *node.regions[0];
  const ControlShape shape = ShapeOfControl(node);
  RETURN_IF_ERROR(CheckArguments(body, shape, operands));
  const Type* go = body.outputs().size() == 1 ? &body.value(body.outputs()[0].value).type : nullptr;
  if (go == nullptr || *go != Type{BOOL, {}})
    return InvalidArgument("its condition is {}; it must be one bool[].",
                           go == nullptr ? Count(body.outputs().size(), "value") : go->ToString());
  return std::vector<Type>(operands.begin(), operands.begin() + shape.carries);
}

absl::StatusOr<std::vector<Type>> InferIf(const Node& node, const std::vector<Type>& operands) {
  if (operands.empty()) return InvalidArgument("takes a predicate, got no operand.");
  if (operands[0] != Type{BOOL, {}})
    return InvalidArgument("the predicate is {}; it must be a bool[].", operands[0].ToString());
  std::vector<std::vector<Type>> returned;
  for (const auto& region : node.regions) {
    RETURN_IF_ERROR(CheckArguments(*region, ShapeOfControl(node), operands));
    std::vector<Type>& types = returned.emplace_back();
    for (const OutputInfo& output : region->outputs()) types.push_back(region->value(output.value).type);
  }
  if (returned[0] == returned[1]) return returned[0];
  auto text = [](const std::vector<Type>& types) {
    std::string out;
    for (const Type& type : types) out += (out.empty() ? "" : ", ") + type.ToString();
    return out.empty() ? "nothing" : out;
  };
  return InvalidArgument("one branch returns {}, the other {}; they must agree.", text(returned[0]),
                         text(returned[1]));
}

}  // namespace

ControlShape ShapeOfControl(const Node& node) {
  ControlShape shape;
  if (node.row->control == ControlKind::kIf) {
    shape.first_argument = 1;
    return shape;
  }
  const Graph& body = *node.regions[0];
  for (const Argument& argument : body.arguments()) shape.carries += argument.is_variable;
  if (node.row->control != ControlKind::kScan) return shape;
  shape.slices = static_cast<int>(node.attrs.Get<int64_t>("slices"));
  shape.sums = static_cast<int>(node.attrs.Get<int64_t>("sums"));
  shape.stacked = static_cast<int>(body.outputs().size()) - shape.sums;
  return shape;
}

absl::StatusOr<std::vector<Type>> InferControl(const Node& node, const std::vector<Type>& operands) {
  MESHWORK_CHECK(static_cast<int>(node.regions.size()) == node.row->num_regions, "{} of {}",
                 node.regions.size(), node.row->name);
  if (IsManual(node)) return InferManual(node, operands);
  if (node.row->control == ControlKind::kScan) return InferScan(node, operands);
  return node.row->control == ControlKind::kWhile ? InferWhile(node, operands) : InferIf(node, operands);
}

absl::StatusOr<int> TryAddControl(Graph& graph, Node node) {
  auto fail = [&](const absl::Status& status) {
    return Annotate(status, graph.Describe(node.row->name, node.location) + ": ");
  };
  absl::StatusOr<Attrs> complete = Graph::CompleteAttrs(*node.row, node.attrs);
  if (!complete.ok()) return fail(complete.status());
  node.attrs = *std::move(complete);
  const absl::StatusOr<std::vector<Type>> types = InferControl(node, TypesOf(graph, node.operands));
  if (!types.ok()) return fail(types.status());
  std::vector<ValueInfo> infos;
  for (const Type& type : *types) {
    if (absl::Status status = CheckSize(type); !status.ok()) return fail(status);
    infos.push_back({.type = type, .global = type, .location = node.location});
  }
  return graph.AddNode(std::move(node), std::move(infos));
}

// ---- Local programs.

namespace {

std::vector<FactorList> FactorsOf(const Layout& layout) {
  std::vector<FactorList> dims;
  for (int d = 0; d < layout.rank(); ++d) dims.push_back(layout.Factors(d, 1));
  return dims;
}

// How result `r` must lie, and what it is a part of, by what one region does.
struct Lies {
  Type global;
  Layout layout;
};

Lies WhereResultLies(const Node& node, const Graph& region, const ControlShape& shape, int r) {
  if (r < shape.carries) {
    const ValueInfo& carry = region.value(region.arguments()[r].value);
    return {carry.global, *carry.layout};
  }
  const ValueInfo& output = region.value(region.outputs()[r - shape.carries].value);
  Lies lies{output.global, *output.layout};
  if (r - shape.carries >= shape.stacked) return lies;
  lies.global.shape.insert(lies.global.shape.begin(), node.attrs.Get<int64_t>("length"));
  return {lies.global, StackedLayout(lies.layout)};
}

absl::Status CheckLies(std::string_view what, const Lies& want, const ValueInfo& have) {
  if (want.global == have.global && want.layout.WithoutTrivialAxes() == have.layout->WithoutTrivialAxes())
    return absl::OkStatus();
  return InvalidArgument("{} is {} {} outside of its body and {} {} inside.", what, have.global.ToString(),
                         have.layout->ToString(), want.global.ToString(), want.layout.ToString());
}

absl::Status CheckLocalRegion(const Graph& local, const Node& node, const Graph& region) {
  const ControlShape shape = ShapeOfControl(node);
  for (int a = 0; a < static_cast<int>(region.arguments().size()); ++a) {
    const ValueInfo& argument = region.value(region.arguments()[a].value);
    Lies lies{argument.global, *argument.layout};
    const ValueInfo& operand = local.value(node.operands[a + shape.first_argument]);
    if (a >= shape.carries && a < shape.carries + shape.slices) {
      lies.global.shape.insert(lies.global.shape.begin(), node.attrs.Get<int64_t>("length"));
      lies.layout = StackedLayout(lies.layout);
    }
    RETURN_IF_ERROR(CheckLies("argument " + NameOf(region, a), lies, operand));
  }
  for (const VariableUpdate& update : region.updates()) {
    const ValueInfo& carry = region.value(region.arguments()[update.argument].value);
    RETURN_IF_ERROR(CheckLies("the next value of " + NameOf(region, update.argument),
                              {carry.global, *carry.layout}, region.value(update.value)));
  }
  for (size_t o = 0; o < region.outputs().size(); ++o) {
    const Layout& layout = *region.value(region.outputs()[o].value).layout;
    const bool is_sum = static_cast<int>(o) >= shape.stacked;
    if (layout.is_partial() &&
        (node.row->control != ControlKind::kScan || (is_sum && layout.partials()[0].op != ReduceOp::kSum)))
      return InvalidArgument("output {} of its body is {}; it must be reduced first.", o, layout.ToString());
  }
  for (const Node& inner : region.nodes())
    if (absl::Status status = CheckLocalNode(region, inner); !status.ok())
      return Annotate(status, fmt::format("{}: ", region.Describe(inner.row->name, inner.location)));
  return absl::OkStatus();
}

}  // namespace

Layout SliceLayout(const Layout& stacked) {
  std::vector<FactorList> dims = FactorsOf(stacked);
  dims.erase(dims.begin());
  return Layout::Strided(stacked.mesh(), dims, stacked.partials());
}

Layout StackedLayout(const Layout& slice) {
  std::vector<FactorList> dims = FactorsOf(slice);
  dims.insert(dims.begin(), FactorList{Factor{1, {}}});
  return Layout::Strided(slice.mesh(), dims, slice.partials());
}

absl::Status CheckLocalControl(const Graph& local, const Node& node) {
  RETURN_IF_ERROR(InferControl(node, TypesOf(local, node.operands)).status());
  const ControlShape shape = ShapeOfControl(node);
  for (size_t o = 0; o < node.operands.size(); ++o)
    if (const Layout& layout = *local.value(node.operands[o]).layout;
        layout.is_partial() && !(static_cast<int>(o) < shape.carries && CarryMayOwe(node, layout.partials())))
      return InvalidArgument("operand {} is {}; it must be reduced first.", o, layout.ToString());
  for (const auto& region : node.regions) {
    RETURN_IF_ERROR(CheckLocalRegion(local, node, *region));
    for (size_t r = 0; r < node.results.size(); ++r)
      RETURN_IF_ERROR(CheckLies(fmt::format("result {}", r),
                                WhereResultLies(node, *region, shape, static_cast<int>(r)),
                                local.value(node.results[r])));
  }
  return absl::OkStatus();
}

bool CarryMayOwe(const Node& node, const PartialSet& owed) {
  return owed.empty() || (node.row->control == ControlKind::kScan && owed[0].op == ReduceOp::kSum);
}

bool SameRegions(const Node& a, const Node& b) {
  return std::equal(a.regions.begin(), a.regions.end(), b.regions.begin(), b.regions.end(),
                    [](const auto& x, const auto& y) { return x == y || FirstDifference(*x, *y).empty(); });
}

Graph WithRegions(const Graph& graph, const std::function<Graph(const Graph&)>& pass) {
  if (std::none_of(graph.nodes().begin(), graph.nodes().end(), IsControl)) return pass(graph);
  Graph copy = graph;
  for (size_t n = 0; n < graph.nodes().size(); ++n)
    if (!IsManual(graph.nodes()[n]))
      for (std::shared_ptr<const Graph>& region : copy.mutable_node(static_cast<int>(n)).regions)
        region = std::make_shared<const Graph>(WithRegions(*region, pass));
  return pass(copy);
}

// ---- Regions.

namespace {

std::vector<bool> NeededNodes(const Graph& body, const RegionParts& parts) {
  std::vector<bool> values(body.values().size(), false), nodes(body.nodes().size(), false);
  for (const VariableUpdate& update : parts.updates) values[update.value] = true;
  for (ValueId id : parts.outputs) values[id] = true;
  std::vector<bool> given(body.values().size(), false);
  for (const RegionParts::Part& part : parts.arguments)
    if (part.value != kNoValue) given[part.value] = true;
  for (size_t n = nodes.size(); n-- > 0;) {
    const Node& node = body.nodes()[n];
    nodes[n] = std::any_of(node.results.begin(), node.results.end(),
                           [&](ValueId id) { return values[id] && !given[id]; });
    if (!nodes[n]) continue;
    for (ValueId id : node.operands) values[id] = true;
  }
  return nodes;
}

}  // namespace

Graph MakeRegion(const Graph& body, const RegionParts& parts) {
  Graph region(body.mesh());
  region.name = "body";
  std::vector<ValueId> map(body.values().size(), kNoValue);
  for (const RegionParts::Part& part : parts.arguments) {
    ValueInfo info{.name = part.name, .type = part.type, .global = part.type};
    if (part.value != kNoValue) info = body.value(part.value);
    if (!part.name.empty()) info.name = part.name;
    const ValueId id = region.AddArgument(std::move(info), part.is_variable);
    if (part.value != kNoValue) map[part.value] = id;
  }
  const std::vector<bool> needed = NeededNodes(body, parts);
  for (size_t n = 0; n < needed.size(); ++n) {
    if (!needed[n]) continue;
    Node node = body.nodes()[n];
    std::vector<ValueInfo> infos;
    for (ValueId id : node.results) infos.push_back(body.value(id));
    for (ValueId& id : node.operands) {
      MESHWORK_CHECK(map[id] != kNoValue, "a region reads what is none of its arguments");
      id = map[id];
    }
    const int index = region.AddNode(std::move(node), std::move(infos));
    for (size_t r = 0; r < body.nodes()[n].results.size(); ++r) {
      ValueId& to = map[body.nodes()[n].results[r]];
      if (to == kNoValue) to = region.nodes()[index].results[r];
    }
  }
  for (const VariableUpdate& update : parts.updates) region.AddUpdate({update.argument, map[update.value]});
  for (ValueId id : parts.outputs) region.AddOutput({"", map[id]});
  return region;
}

// ---- Builders.

namespace {

std::string CountCarries(size_t n) { return n == 1 ? "1 carry" : fmt::format("{} carries", n); }

// What a carry is when an iteration only adds to it: the terms, which are then added up. Nothing else may see
// the carry, or what it is on the way to its next value.
class AddedTerms {
 public:
  AddedTerms(const Graph& body, std::span<const ValueId> returned)
      : body_(body), readers_(body.values().size()) {
    for (size_t n = 0; n < body.nodes().size(); ++n)
      for (ValueId id : body.nodes()[n].operands) readers_[id].push_back(static_cast<int>(n));
    for (ValueId id : returned) readers_[id].push_back(-1);
  }

  std::optional<std::vector<ValueId>> Of(ValueId carry, ValueId next) const {
    std::vector<ValueId> terms;
    ValueId at = carry;
    while (at != next) {
      if (readers_[at].size() != 1 || readers_[at][0] < 0) return std::nullopt;
      const Node& node = body_.nodes()[readers_[at][0]];
      const ValueId result = node.results[0];
      if (node.row->name != "add" || body_.value(result).layout.has_value()) return std::nullopt;
      const ValueId term = node.operands[node.operands[0] == at ? 1 : 0];
      if (body_.value(term).type != body_.value(carry).type) return std::nullopt;
      terms.push_back(term);
      at = result;
    }
    if (terms.empty() || readers_[next].size() != 1) return std::nullopt;
    return terms;
  }

 private:
  const Graph& body_;
  std::vector<std::vector<int>> readers_;  // per value; -1: it is returned
};

bool IsZero(const Value& value) {
  const int n = value.graph()->value(value.id()).node;
  if (n < 0) return false;
  const Node& node = value.graph()->nodes()[n];
  return node.row->name == "constant" && node.attrs.Get<double>("value") == 0;
}

// A scan that is being built.
class ScanBuilder {
 public:
  ScanBuilder(Graph& graph, const ScanOptions& options, CallSite loc)
      : graph_(graph), options_(options), location_(loc), builder_(graph, "scan", loc) {}

  ScanResult Build(const std::vector<Value>& carries, const std::vector<Value>& xs, const ScanBody& body) {
    ScanResult result{.carries = std::vector<Value>(carries.size())};
    if (!builder_.MayNest()) {
      Graph nowhere = Graph::Nowhere();
      const ScanStep step = body(nowhere, result.carries, std::vector<Value>(xs.size()));
      result.stacked.resize(step.stacked.size());
      result.sums.resize(step.sums.size());
      return result;
    }
    const bool carries_known = ResolveOperands(graph_, builder_, "carry", carries, initial_);
    const bool xs_known = ResolveOperands(graph_, builder_, "xs", xs, xs_);
    const bool is_known = FindLength() && carries_known && xs_known;
    std::vector<Value> inner, slices;
    for (size_t c = 0; c < initial_.size(); ++c)
      inner.push_back(initial_[c].valid()
                          ? builder_.Argument(fmt::format("carry{}", c), initial_[c].type(), true)
                          : Value());
    for (size_t s = 0; s < xs_.size(); ++s) {
      Type type = xs_[s].type();
      const bool has_slices = xs_[s].valid() && type.rank() > 0;
      if (has_slices) type.shape.erase(type.shape.begin());
      slices.push_back(has_slices ? builder_.Argument(fmt::format("slice{}", s), type, false) : Value());
    }
    // After a mistake, too: it says how many results there are, and its own mistakes are reported.
    const ScanStep step = body(builder_.body(), inner, slices);
    result.stacked.resize(step.stacked.size());
    result.sums.resize(step.sums.size());
    if (is_known) Take(step);
    if (builder_.Close() && is_known) Finish(result);
    return result;
  }

 private:
  bool FindLength() {
    length_ = options_.length;
    if (xs_.empty() && length_ < 0) {
      builder_.Fail("length={}; without xs, say how many iterations there are, at least 0.", length_);
      return false;
    }
    for (size_t s = 0; s < xs_.size(); ++s) {
      if (!xs_[s].valid()) continue;
      const Type& type = xs_[s].type();
      if (type.rank() == 0) {
        builder_.Fail("xs {} is {}, which has no dim to be cut into slices.", s, type.ToString());
        return false;
      }
      if (length_ < 0) length_ = type.shape[0];
      if (type.shape[0] == length_) continue;
      builder_.Fail("xs {} is {}, which has {}; there are {}.", s, type.ToString(),
                    Count(type.shape[0], "slice"), Count(length_, "iteration"));
      return false;
    }
    return true;
  }

  // What the body returned; carries that it only adds to become sums.
  void Take(const ScanStep& step) {
    if (step.carries.size() != initial_.size())
      return builder_.Fail("there are {}, and the body returns {}; give the next value of each.",
                           CountCarries(initial_.size()), step.carries.size());
    std::vector<ValueId> next, all;
    for (size_t c = 0; c < step.carries.size(); ++c) {
      next.push_back(builder_.Returned(step.carries[c], "carry", c));
      if (next.back() == kNoValue) continue;
      const Type& type = builder_.body().value(next.back()).type;
      if (type != initial_[c].type())
        builder_.Fail("carry {} is {}, its next value {}; they must agree.", c, initial_[c].type().ToString(),
                      type.ToString());
    }
    for (size_t i = 0; i < step.stacked.size(); ++i)
      stacked_.push_back(builder_.Returned(step.stacked[i], "stacked", i));
    for (size_t i = 0; i < step.sums.size(); ++i) sums_.push_back(builder_.Returned(step.sums[i], "sum", i));
    for (const auto* list : {&next, &stacked_, &sums_}) all.insert(all.end(), list->begin(), list->end());
    if (std::find(all.begin(), all.end(), kNoValue) != all.end()) return;
    const AddedTerms added(builder_.body(), all);
    own_sums_ = sums_.size();
    sum_of_.assign(initial_.size(), -1);
    std::vector<std::optional<std::vector<ValueId>>> terms;
    for (size_t c = 0; c < initial_.size(); ++c)
      terms.push_back(added.Of(builder_.parts().arguments[c].value, next[c]));
    for (size_t c = 0; c < initial_.size(); ++c) {
      if (!terms[c].has_value()) {
        kept_.push_back(next[c]);
        continue;
      }
      const LocationScope scope(builder_.body(), location_);
      Value sum(&builder_.body(), (*terms[c])[0]);
      for (size_t t = 1; t < terms[c]->size(); ++t) sum = Add(sum, Value(&builder_.body(), (*terms[c])[t]));
      sum_of_[c] = static_cast<int>(sums_.size());
      sums_.push_back(sum.id());
    }
  }

  void Finish(ScanResult& result) {
    RegionParts& parts = builder_.parts();
    Node node{.row = &GetOp("scan"), .location = location_};
    for (size_t c = initial_.size(); c-- > 0;)
      if (sum_of_[c] >= 0) parts.arguments.erase(parts.arguments.begin() + static_cast<int64_t>(c));
    for (size_t c = 0; c < initial_.size(); ++c)
      if (sum_of_[c] < 0) node.operands.push_back(initial_[c].id());
    for (const Value& x : xs_) node.operands.push_back(x.id());
    for (const auto& [outer, inner] : builder_.body().captured()) node.operands.push_back(outer);
    for (size_t k = 0; k < kept_.size(); ++k) parts.updates.push_back({static_cast<int>(k), kept_[k]});
    parts.outputs = stacked_;
    parts.outputs.insert(parts.outputs.end(), sums_.begin(), sums_.end());
    node.attrs = {{"length", length_},
                  {"slices", static_cast<int64_t>(xs_.size())},
                  {"sums", static_cast<int64_t>(sums_.size())},
                  {"reverse", options_.reverse},
                  {"recompute", options_.recompute}};
    node.regions.push_back(std::make_shared<const Graph>(builder_.Region()));
    const std::vector<Value> all = AddNodeOf(graph_, std::move(node));
    if (all.empty()) return;
    const LocationScope scope(graph_, location_);
    const size_t first_sum = kept_.size() + stacked_.size();
    for (size_t c = 0, k = 0; c < initial_.size(); ++c) {
      if (sum_of_[c] < 0) result.carries[c] = all[k++];
      else if (IsZero(initial_[c])) result.carries[c] = all[first_sum + sum_of_[c]];
      else result.carries[c] = Add(initial_[c], all[first_sum + sum_of_[c]]);
    }
    for (size_t i = 0; i < stacked_.size(); ++i) result.stacked[i] = all[kept_.size() + i];
    for (size_t i = 0; i < own_sums_; ++i) result.sums[i] = all[first_sum + i];
  }

  Graph& graph_;
  const ScanOptions& options_;
  const SourceLocation location_;
  BodyBuilder builder_;
  std::vector<Value> initial_, xs_;
  int64_t length_ = -1;
  std::vector<ValueId> kept_, stacked_, sums_;  // of the body
  std::vector<int> sum_of_;                     // per carry: the sum that it is; -1: it stays a carry
  size_t own_sums_ = 0;                         // those that the body returned
};

}  // namespace

ScanResult Scan(Graph& graph, const std::vector<Value>& carries, const std::vector<Value>& xs,
                const ScanBody& body, const ScanOptions& options, CallSite loc) {
  return ScanBuilder(graph, options, loc).Build(carries, xs, body);
}

std::vector<Value> While(Graph& graph, const std::vector<Value>& carries, const WhileCondition& condition,
                         const WhileBody& body, CallSite loc) {
  const SourceLocation location(loc);
  BodyBuilder builder(graph, "while", location);
  const std::vector<Value> invalid(carries.size());
  if (!builder.MayNest()) return invalid;
  std::vector<Value> initial, inner;
  const bool is_known = ResolveOperands(graph, builder, "carry", carries, initial);
  for (size_t c = 0; c < initial.size(); ++c)
    inner.push_back(initial[c].valid() ? builder.Argument(fmt::format("carry{}", c), initial[c].type(), true)
                                       : Value());
  const Value go = condition(builder.body(), inner);
  const std::vector<Value> next = body(builder.body(), inner);
  if (!is_known) {
    builder.Close();
    return invalid;
  }
  if (next.size() != initial.size())
    builder.Fail("there are {}, and the body returns {}; give the next value of each.",
                 CountCarries(initial.size()), next.size());
  builder.parts().outputs = {builder.Returned(go, "condition", 0)};
  for (size_t c = 0; c < std::min(next.size(), initial.size()); ++c) {
    const ValueId id = builder.Returned(next[c], "carry", c);
    builder.parts().updates.push_back({static_cast<int>(c), id});
    if (id != kNoValue && builder.body().value(id).type != initial[c].type())
      builder.Fail("carry {} is {}, its next value {}; they must agree.", c, initial[c].type().ToString(),
                   builder.body().value(id).type.ToString());
  }
  if (!builder.Close()) return invalid;
  Node node{.row = &GetOp("while"), .location = location};
  for (const Value& value : initial) node.operands.push_back(value.id());
  for (const auto& [outer, inside] : builder.body().captured()) node.operands.push_back(outer);
  node.regions.push_back(std::make_shared<const Graph>(builder.Region()));
  std::vector<Value> results = AddNodeOf(graph, std::move(node));
  return results.size() == initial.size() ? results : invalid;
}

namespace {

// The branches say how many results there are. What they add to the graph that they are given goes nowhere.
std::vector<Value> InvalidResults(const Branch& then, const Branch& otherwise) {
  Graph nowhere = Graph::Nowhere();
  const size_t returned = then(nowhere).size();
  return std::vector<Value>(std::max(returned, otherwise(nowhere).size()));
}

}  // namespace

std::vector<Value> If(const Value& predicate, const Branch& then, const Branch& otherwise, CallSite loc) {
  if (!predicate.valid()) return InvalidResults(then, otherwise);
  Graph& graph = *predicate.graph();
  const SourceLocation location(loc);
  BodyBuilder builders[] = {{graph, "if", location}, {graph, "if", location}};
  size_t returned = 0;
  bool is_valid = true;
  if (!builders[0].MayNest()) return InvalidResults(then, otherwise);
  const Branch* const branches[] = {&then, &otherwise};
  for (int b = 0; b < 2; ++b) {
    BodyBuilder& builder = builders[b];
    const std::vector<Value> results = (*branches[b])(builder.body());
    for (size_t r = 0; r < results.size(); ++r)
      builder.parts().outputs.push_back(builder.Returned(results[r], "result", r));
    returned = std::max(returned, results.size());
    is_valid &= builder.Close();
  }
  if (!is_valid) return std::vector<Value>(returned);
  Node node{.row = &GetOp("if"), .location = location};
  node.operands.push_back(predicate.id());
  // Both take what either reads.
  std::vector<ValueId> outer;
  for (BodyBuilder& builder : builders)
    for (const auto& [value, inner] : builder.body().captured())
      if (std::find(outer.begin(), outer.end(), value) == outer.end()) outer.push_back(value);
  node.operands.insert(node.operands.end(), outer.begin(), outer.end());
  for (BodyBuilder& builder : builders) {
    RegionParts& parts = builder.parts();
    parts.arguments.clear();
    for (size_t i = 0; i < outer.size(); ++i) {
      RegionParts::Part part{.type = graph.value(outer[i]).type, .name = fmt::format("unread{}", i)};
      for (const auto& [value, inner] : builder.body().captured())
        if (value == outer[i]) part.value = inner;
      parts.arguments.push_back(std::move(part));
    }
    node.regions.push_back(std::make_shared<const Graph>(builder.Region()));
  }
  std::vector<Value> results = AddNodeOf(graph, std::move(node));
  return results.size() == returned ? results : std::vector<Value>(returned);
}

// ---- Rows.

namespace {

absl::StatusOr<std::vector<Type>> InferNothing(const OpView&) {
  return InvalidArgument("it has a body; write it with Scan, While or If.");
}

}  // namespace

std::span<const OpRow> ControlOps() {
  static const auto* rows = new std::vector<OpRow>{
      {.name = "scan",
       .doc = "runs its body `length` times, on one slice of each scanned operand after the other",
       .num_operands = -1,
       .num_results = -1,
       .kind = OpKind::kControl,
       .control = ControlKind::kScan,
       .num_regions = 1,
       .attrs = {{"length", AttrKind::kInt},
                 {"slices", AttrKind::kInt, AttrValue(int64_t{0})},
                 {"sums", AttrKind::kInt, AttrValue(int64_t{0})},
                 {"reverse", AttrKind::kBool, AttrValue(false)},
                 {"recompute", AttrKind::kBool, AttrValue(false)}},
       .infer = InferNothing},
      {.name = "while",
       .doc = "runs its body as long as what it returns is true",
       .num_operands = -1,
       .num_results = -1,
       .kind = OpKind::kControl,
       .control = ControlKind::kWhile,
       .num_regions = 1,
       .infer = InferNothing},
      {.name = "if",
       .doc = "runs the first body where the predicate is true, else the second",
       .num_operands = -1,
       .num_results = -1,
       .kind = OpKind::kControl,
       .control = ControlKind::kIf,
       .num_regions = 2,
       .infer = InferNothing},
  };
  return *rows;
}

}  // namespace meshwork
