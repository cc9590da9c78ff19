#include "meshwork/ops/control/control_gradients.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/ir/pull_back.h"
#include "meshwork/ir/regions.h"
#include "meshwork/ir/rewrite.h"
#include "meshwork/ir/row.h"
#include "meshwork/ops/control/added_terms.h"
#include "meshwork/ops/ops.h"

namespace meshwork {
namespace {

// The body as a program to which its gradients are added.
Graph CopyOf(const Graph& body) {
  Graph copy(body.mesh());
  std::vector<ValueId> map(body.values().size(), kNoValue);
  for (const Argument& argument : body.arguments())
    map[argument.value] = copy.AddArgument(body.value(argument.value), false);
  for (const Node& node : body.nodes()) CopyNode(body, node, copy, map);
  for (const OutputInfo& output : body.outputs()) copy.AddOutput({output.name, map[output.value]});
  // The next values of the carries follow the outputs.
  std::vector<ValueId> next;
  for (size_t a = 0; a < body.arguments().size() && body.arguments()[a].is_variable; ++a)
    next.push_back(map[body.arguments()[a].value]);
  for (const VariableUpdate& update : body.updates()) next[update.argument] = map[update.value];
  for (ValueId id : next) copy.AddOutput({"", id});
  return copy;
}

Value AddCotangent(Graph& copy, const Type& type) {
  const ValueId id = copy.AddArgument(
      {.name = fmt::format("cotangent{}", copy.arguments().size()), .type = type, .global = type}, false);
  return {&copy, id};
}

Value Zeros(Graph& graph, const Type& type) { return Constant(graph, 0.0, type); }

class ScanGradient {
 public:
  ScanGradient(Graph& graph, int n, const std::vector<Value>& result_grads, const std::vector<bool>& needed)
      : graph_(graph),
        n_(n),
        node_(graph.nodes()[n]),
        shape_(ShapeOfControl(node_)),
        result_grads_(result_grads),
        needed_(needed),
        body_(CopyOf(*node_.regions[0])),
        recompute_(node_.attrs.Get<bool>("recompute")) {
    for (const Argument& argument : body_.arguments()) arguments_.push_back(argument.value);
    for (const OutputInfo& output : body_.outputs()) outputs_.push_back(output.value);
    num_forward_ = body_.nodes().size();
  }

  absl::StatusOr<std::vector<Value>> Run() {
    if (const int sum = OnlySum(); sum >= 0) return AddToForward(sum);
    FindVaried();
    FindUseful();
    BuildGradients();
    if (!body_.errors().empty()) return absl::InvalidArgumentError(body_.errors()[0]);
    FindSaved();
    Save();
    return AddBackward();
  }

 private:
  int num_outputs() const { return shape_.stacked + shape_.sums; }
  ValueId NextOf(int carry) const { return outputs_[num_outputs() + carry]; }
  const Type& TypeOf(ValueId id) const { return body_.value(id).type; }

  // The loop's own arguments and updates.
  RegionParts Parts() const {
    RegionParts parts;
    for (size_t a = 0; a < arguments_.size(); ++a)
      parts.arguments.push_back({.value = arguments_[a],
                                 .type = TypeOf(arguments_[a]),
                                 .is_variable = static_cast<int>(a) < shape_.carries});
    for (int c = 0; c < shape_.carries; ++c) parts.updates.push_back({c, NextOf(c)});
    return parts;
  }

  // The only output with a gradient, if it is a float scalar that is added up and no carry is a float; else -1.
  int OnlySum() const {
    int only = -1;
    for (int c = 0; c < shape_.carries; ++c)
      if (IsFloat(TypeOf(arguments_[c]).dtype)) return -1;
    for (int o = 0; o < num_outputs(); ++o) {
      if (!result_grads_[shape_.carries + o].valid()) continue;
      if (only >= 0 || o < shape_.stacked || TypeOf(outputs_[o]).rank() != 0) return -1;
      only = o;
    }
    return only >= 0 && IsFloat(TypeOf(outputs_[only]).dtype) ? only : -1;
  }

  // `gradient` by an argument times the sum's own gradient, computed in the wider of the two dtypes and rounded once.
  static Value TimesSum(const Value& gradient, const Value& of_sum) {
    const DType dtype = gradient.dtype(),
                wide = DTypeSize(of_sum.dtype()) > DTypeSize(dtype) ? of_sum.dtype() : dtype;
    return InDType(Mul(InDType(of_sum, wide), InDType(gradient, wide)), dtype);
  }

  absl::StatusOr<std::vector<Value>> AddToForward(int sum) {
    std::vector<Value> by;
    std::vector<int> by_arguments;
    RegionParts parts = Parts();
    for (size_t a = 0; a < arguments_.size(); ++a) {
      if (!needed_[a] || !IsFloat(TypeOf(arguments_[a]).dtype)) continue;
      by.emplace_back(&body_, arguments_[a]);
      by_arguments.push_back(static_cast<int>(a));
    }
    const Value of(&body_, outputs_[sum]), one = Constant(body_, 1.0, of.type());
    const std::vector<Value> found = PullBack(body_, {&of, 1}, {&one, 1}, by);
    if (!body_.errors().empty()) return absl::InvalidArgumentError(body_.errors()[0]);
    std::vector<Value> grads(node_.operands.size());
    std::vector<int> slices, captured;  // arguments that a gradient reaches
    std::vector<ValueId> of_slices, of_captured;
    for (size_t i = 0; i < found.size(); ++i) {
      if (!found[i].valid()) continue;
      const bool is_slice = IsSlice(by_arguments[i]);
      (is_slice ? slices : captured).push_back(by_arguments[i]);
      (is_slice ? of_slices : of_captured).push_back(found[i].id());
    }
    if (slices.empty() && captured.empty()) return grads;
    parts.outputs.assign(outputs_.begin(), outputs_.begin() + shape_.stacked);
    parts.outputs.insert(parts.outputs.end(), of_slices.begin(), of_slices.end());
    parts.outputs.insert(parts.outputs.end(), outputs_.begin() + shape_.stacked,
                         outputs_.begin() + num_outputs());
    parts.outputs.insert(parts.outputs.end(), of_captured.begin(), of_captured.end());
    Node& node = graph_.mutable_node(n_);
    node.regions[0] = std::make_shared<const Graph>(MakeRegion(body_, parts));
    node.attrs.Set("sums", static_cast<int64_t>(shape_.sums + captured.size()));
    std::vector<ValueInfo> stacks, sums;
    for (const auto* list : {&slices, &captured}) {
      for (int a : *list) {
        const Type& type = list == &slices ? graph_.value(node_.operands[a]).type : TypeOf(arguments_[a]);
        (list == &slices ? stacks : sums)
            .push_back({.type = type, .global = type, .location = node_.location});
      }
    }
    std::vector<ValueId> added = graph_.InsertResults(n_, graph_.nodes()[n_].results.size(), std::move(sums));
    const std::vector<ValueId> first =
        graph_.InsertResults(n_, static_cast<size_t>(shape_.carries + shape_.stacked), std::move(stacks));
    added.insert(added.begin(), first.begin(), first.end());
    size_t r = 0;
    for (const auto* list : {&slices, &captured})
      for (int a : *list)
        grads[a] = TimesSum(Value(&graph_, added[r++]), result_grads_[shape_.carries + sum]);
    return grads;
  }

  // Arguments that depend on an operand whose gradient is wanted.
  void FindVaried() {
    varied_.assign(arguments_.size(), false);
    for (size_t a = 0; a < arguments_.size(); ++a)
      varied_[a] = needed_[a] && IsFloat(TypeOf(arguments_[a]).dtype);
    for (bool changed = true; changed;) {
      changed = false;
      std::vector<bool> depends(body_.values().size(), false);
      for (size_t a = 0; a < arguments_.size(); ++a) depends[arguments_[a]] = varied_[a];
      for (const Node& node : body_.nodes()) {
        if (!MayHaveSlope(body_, node)) continue;
        const bool any =
            std::any_of(node.operands.begin(), node.operands.end(), [&](ValueId id) { return depends[id]; });
        for (ValueId id : node.results) depends[id] = any;
      }
      for (int c = 0; c < shape_.carries; ++c) {
        if (varied_[c] || !depends[NextOf(c)] || !IsFloat(TypeOf(arguments_[c]).dtype)) continue;
        varied_[c] = changed = true;
      }
    }
  }

  // Finds the carries on which values with a gradient depend.
  void FindUseful() {
    useful_.assign(shape_.carries, false);
    for (int c = 0; c < shape_.carries; ++c) useful_[c] = result_grads_[c].valid();
    for (bool changed = true; changed;) {
      changed = false;
      std::vector<bool> reaches(body_.values().size(), false);
      for (int o = 0; o < num_outputs(); ++o)
        if (result_grads_[shape_.carries + o].valid()) reaches[outputs_[o]] = true;
      for (int c = 0; c < shape_.carries; ++c)
        if (useful_[c]) reaches[NextOf(c)] = true;
      for (size_t n = body_.nodes().size(); n-- > 0;) {
        const Node& node = body_.nodes()[n];
        const bool any =
            std::any_of(node.results.begin(), node.results.end(), [&](ValueId id) { return reaches[id]; });
        if (!any || !MayHaveSlope(body_, node)) continue;
        for (ValueId id : node.operands) reaches[id] = true;
      }
      for (int c = 0; c < shape_.carries; ++c) {
        if (useful_[c] || !reaches[arguments_[c]]) continue;
        useful_[c] = changed = true;
      }
    }
  }

  bool HasCotangent(int carry) const { return varied_[carry] && useful_[carry]; }

  // Appends the gradients of one iteration behind it.
  void BuildGradients() {
    std::vector<Value> values, cotangents, wrt;
    std::vector<int> arguments;  // of wrt
    for (int c = 0; c < shape_.carries; ++c) {
      if (!HasCotangent(c)) continue;
      carries_.push_back(c);
      values.emplace_back(&body_, NextOf(c));
      cotangents.push_back(AddCotangent(body_, TypeOf(arguments_[c])));
      carry_cotangents_.push_back(cotangents.back().id());
    }
    for (int o = 0; o < num_outputs(); ++o) {
      const Value& grad = result_grads_[shape_.carries + o];
      if (!grad.valid() || !IsFloat(grad.dtype())) continue;
      values.emplace_back(&body_, outputs_[o]);
      cotangents.push_back(AddCotangent(body_, TypeOf(outputs_[o])));
      auto& list = o < shape_.stacked ? stacked_cotangents_ : sum_cotangents_;
      list.emplace_back(cotangents.back().id(), grad);
    }
    for (size_t a = 0; a < arguments_.size(); ++a) {
      const bool is_carry = static_cast<int>(a) < shape_.carries;
      if (!varied_[a] || (is_carry && !useful_[a])) continue;
      wrt.emplace_back(&body_, arguments_[a]);
      arguments.push_back(static_cast<int>(a));
    }
    const std::vector<Value> found = PullBack(body_, values, cotangents, wrt);
    for (size_t w = 0; w < found.size(); ++w) {
      // A carry's gradient goes on to the iteration before, so there is always one.
      if (!found[w].valid() && arguments[w] >= shape_.carries) continue;
      wrt_.push_back(arguments[w]);
      gradients_.push_back(found[w].valid() ? found[w] : Zeros(body_, wrt[w].type()));
    }
  }

  // Per value of the body: whether it differs from iteration to iteration.
  std::vector<bool> Changing() const {
    std::vector<bool> changing(body_.values().size(), false);
    for (int a = 0; a < shape_.carries + shape_.slices; ++a) changing[arguments_[a]] = true;
    for (size_t n = 0; n < num_forward_; ++n) {
      const Node& node = body_.nodes()[n];
      const bool any =
          std::any_of(node.operands.begin(), node.operands.end(), [&](ValueId id) { return changing[id]; });
      for (ValueId id : node.results) changing[id] = any;
    }
    return changing;
  }

  // Whether the node makes a larger value from scalars alone, such as random numbers: the scalars take less memory.
  bool IsOfScalars(const Node& node) const {
    return !IsControl(node) && TypeOf(node.results[0]).rank() > 0 &&
           std::all_of(node.operands.begin(), node.operands.end(),
                       [&](ValueId id) { return TypeOf(id).rank() == 0; });
  }

  // Finds the values of the forward iterations that the backward loop reads.
  void FindSaved() {
    const std::vector<bool> changing = Changing();
    std::vector<bool> reads(body_.values().size(), false);
    for (const Value& grad : gradients_) reads[grad.id()] = true;
    for (size_t n = body_.nodes().size(); n-- > 0;) {
      const Node& node = body_.nodes()[n];
      const bool is_read =
          std::any_of(node.results.begin(), node.results.end(), [&](ValueId id) { return reads[id]; });
      if (!is_read) continue;
      const bool is_forward = n < num_forward_;
      if (is_forward && changing[node.results[0]] && !recompute_ && !IsOfScalars(node)) {
        for (ValueId id : node.results)
          if (reads[id]) saved_.push_back(id);
        continue;
      }
      for (ValueId id : node.operands) reads[id] = true;
    }
    std::reverse(saved_.begin(), saved_.end());
    for (size_t a = 0; a < arguments_.size(); ++a) {
      if (!reads[arguments_[a]]) continue;
      if (static_cast<int>(a) < shape_.carries) saved_.push_back(arguments_[a]);
      else read_.push_back(static_cast<int>(a));
    }
  }

  // Makes the saved values results of the forward loop.
  void Save() {
    const int64_t length = node_.attrs.Get<int64_t>("length");
    RegionParts parts = Parts();
    parts.outputs.assign(outputs_.begin(), outputs_.begin() + shape_.stacked);
    std::vector<ValueInfo> infos;
    for (ValueId id : saved_) {
      const auto known = std::find(outputs_.begin(), outputs_.begin() + shape_.stacked, id);
      if (known != outputs_.begin() + shape_.stacked) {
        stacks_.push_back(node_.results[shape_.carries + (known - outputs_.begin())]);
        continue;
      }
      stacks_.push_back(kNoValue);
      parts.outputs.push_back(id);
      Type type = TypeOf(id);
      type.shape.insert(type.shape.begin(), length);
      infos.push_back({.type = type, .global = type, .location = node_.location});
    }
    parts.outputs.insert(parts.outputs.end(), outputs_.begin() + shape_.stacked,
                         outputs_.begin() + num_outputs());
    // Needed even if nothing is saved: a loop inside the body may save values of its own.
    graph_.mutable_node(n_).regions[0] = std::make_shared<const Graph>(MakeRegion(body_, parts));
    const std::vector<ValueId> added =
        graph_.InsertResults(n_, static_cast<size_t>(shape_.carries + shape_.stacked), std::move(infos));
    size_t next = 0;
    for (ValueId& stack : stacks_)
      if (stack == kNoValue) stack = added[next++];
  }

  // Per carried gradient: the terms that an iteration adds to it, if it does nothing else with it.
  std::vector<std::optional<std::vector<ValueId>>> FindAdded() const {
    std::vector<ValueId> returned;
    for (const Value& gradient : gradients_) returned.push_back(gradient.id());
    const AddedTerms added(body_, returned);
    std::vector<std::optional<std::vector<ValueId>>> terms;
    for (size_t i = 0; i < carries_.size(); ++i)
      terms.push_back(added.Of(carry_cotangents_[i], NextOfGradient(carries_[i])));
    return terms;
  }

  ValueId NextOfGradient(int carry) const {
    return gradients_[std::find(wrt_.begin(), wrt_.end(), carry) - wrt_.begin()].id();
  }

  std::vector<Value> AddBackward() {
    Node back{.row = node_.row, .location = node_.location};
    const auto added_terms = FindAdded();
    RegionParts parts;
    const auto add = [&](ValueId value, ValueId operand, bool is_variable) {
      parts.arguments.push_back(
          {.value = value,
           .type = TypeOf(value),
           .is_variable = is_variable,
           .name = fmt::format("{}{}", is_variable ? "gradient" : "in", parts.arguments.size())});
      back.operands.push_back(operand);
    };
    std::vector<int> kept;        // of carries_
    std::vector<Value> starting;  // per carry
    for (size_t i = 0; i < carries_.size(); ++i) {
      const Value& grad = result_grads_[carries_[i]];
      starting.push_back(grad.valid() ? grad : Zeros(graph_, TypeOf(arguments_[carries_[i]])));
      if (added_terms[i].has_value()) continue;
      kept.push_back(static_cast<int>(i));
      add(carry_cotangents_[i], starting.back().id(), true);
    }
    for (size_t i = 0; i < saved_.size(); ++i) add(saved_[i], stacks_[i], false);
    for (const auto& [inner, grad] : stacked_cotangents_) add(inner, grad.id(), false);
    for (int a : read_)
      if (IsSlice(a)) add(arguments_[a], node_.operands[a], false);
    const auto slices = static_cast<int64_t>(back.operands.size() - kept.size());
    for (int a : read_)
      if (!IsSlice(a)) add(arguments_[a], node_.operands[a], false);
    for (const auto& [inner, grad] : sum_cotangents_) add(inner, grad.id(), false);

    for (size_t k = 0; k < kept.size(); ++k)
      parts.updates.push_back({static_cast<int>(k), NextOfGradient(carries_[kept[k]])});
    std::vector<int> stacked, sums;  // arguments
    std::vector<ValueId> of_stacked, of_sums;
    for (size_t w = 0; w < wrt_.size(); ++w) {
      if (wrt_[w] < shape_.carries) continue;
      (IsSlice(wrt_[w]) ? stacked : sums).push_back(wrt_[w]);
      (IsSlice(wrt_[w]) ? of_stacked : of_sums).push_back(gradients_[w].id());
    }
    for (size_t i = 0; i < carries_.size(); ++i) {
      if (!added_terms[i].has_value()) continue;
      sums.push_back(carries_[i]);
      of_sums.push_back(SumOfTerms(body_, *added_terms[i]).id());
    }
    parts.outputs = of_stacked;
    parts.outputs.insert(parts.outputs.end(), of_sums.begin(), of_sums.end());
    back.attrs = {{"length", node_.attrs.Get<int64_t>("length")},
                  {"slices", slices},
                  {"sums", static_cast<int64_t>(sums.size())},
                  {"reverse", !node_.attrs.Get<bool>("reverse")},
                  {"recompute", recompute_}};
    std::vector<Value> grads(node_.operands.size());
    if (wrt_.empty()) return grads;
    back.regions.push_back(std::make_shared<const Graph>(MakeRegion(body_, parts)));
    const int added = TryAddControl(graph_, std::move(back)).value();
    const auto results = graph_.nodes()[added].results;
    size_t r = 0;
    for (int k : kept) grads[carries_[k]] = {&graph_, results[r++]};
    for (const auto* list : {&stacked, &sums})
      for (int a : *list) grads[a] = {&graph_, results[r++]};
    for (size_t i = 0; i < carries_.size(); ++i)
      if (added_terms[i].has_value()) grads[carries_[i]] = AddedTo(starting[i], grads[carries_[i]]);
    return grads;
  }

  bool IsSlice(int argument) const {
    return argument >= shape_.carries && argument < shape_.carries + shape_.slices;
  }

  Graph& graph_;
  const int n_;
  const Node node_;  // as it was
  const ControlShape shape_;
  const std::vector<Value>& result_grads_;
  const std::vector<bool>& needed_;
  Graph body_;
  const bool recompute_;
  std::vector<ValueId> arguments_, outputs_;  // of the body; next values of carries follow the outputs
  size_t num_forward_ = 0;                    // nodes
  std::vector<bool> varied_;                  // per argument
  std::vector<bool> useful_;                  // per carry
  std::vector<int> carries_;                  // that have a cotangent
  std::vector<ValueId> carry_cotangents_;
  std::vector<std::pair<ValueId, Value>> stacked_cotangents_, sum_cotangents_;  // and what they are
  std::vector<int> wrt_;                                                        // arguments
  std::vector<Value> gradients_;                                                // of these
  std::vector<ValueId> saved_, stacks_;  // values of the body, and what they are when stacked
  std::vector<int> read_;                // other arguments that the backward loop reads
};

}  // namespace

absl::StatusOr<std::vector<Value>> ScanGradients(Graph& graph, int n, const std::vector<Value>& result_grads,
                                                 const std::vector<bool>& needed) {
  return ScanGradient(graph, n, result_grads, needed).Run();
}

absl::StatusOr<std::vector<Value>> WhileGradients(Graph&, int, const std::vector<Value>&,
                                                  const std::vector<bool>&) {
  return InvalidArgument(
      "a loop whose number of iterations is not known has no gradient; use a scan, or stop the gradient "
      "before it.");
}

// Each branch of the gradient computes the forward branch again, and then its gradients.
absl::StatusOr<std::vector<Value>> IfGradients(Graph& graph, int n, const std::vector<Value>& result_grads,
                                               const std::vector<bool>& needed) {
  const Node node = graph.nodes()[n];
  std::vector<int> wrt;
  for (size_t o = 1; o < node.operands.size(); ++o)
    if (needed[o] && IsFloat(graph.value(node.operands[o]).type.dtype)) wrt.push_back(static_cast<int>(o));
  std::vector<Value> grads(node.operands.size());
  if (wrt.empty()) return grads;
  Node back{.row = node.row, .operands = node.operands, .location = node.location};
  std::vector<int> with_grads;
  for (size_t r = 0; r < result_grads.size(); ++r) {
    if (!result_grads[r].valid() || !IsFloat(result_grads[r].dtype())) continue;
    with_grads.push_back(static_cast<int>(r));
    back.operands.push_back(result_grads[r].id());
  }
  struct Branch {
    Graph body;
    RegionParts parts;
    std::vector<Value> found;  // of wrt
  };
  std::vector<Branch> branches;
  branches.reserve(node.regions.size());
  for (const auto& region : node.regions) {
    auto& [body, parts, found] = branches.emplace_back(Branch{.body = CopyOf(*region)});
    std::vector<Value> values, cotangents, by;
    for (const Argument& argument : body.arguments())
      parts.arguments.push_back({.value = argument.value, .type = body.value(argument.value).type});
    for (int o : wrt) by.emplace_back(&body, parts.arguments[o - 1].value);
    for (int r : with_grads) {
      values.emplace_back(&body, body.outputs()[r].value);
      cotangents.push_back(AddCotangent(body, values.back().type()));
      parts.arguments.push_back({.value = cotangents.back().id(), .type = values.back().type()});
    }
    found = PullBack(body, values, cotangents, by);
    if (!body.errors().empty()) return absl::InvalidArgumentError(body.errors()[0]);
  }
  // An operand that a gradient reaches in one branch alone has the gradient 0 in the other.
  std::vector<int> reached;
  for (size_t i = 0; i < wrt.size(); ++i) {
    if (std::none_of(branches.begin(), branches.end(), [&](const Branch& b) { return b.found[i].valid(); }))
      continue;
    reached.push_back(wrt[i]);
    for (auto& [body, parts, found] : branches) {
      const Type& type = graph.value(node.operands[wrt[i]]).type;
      parts.outputs.push_back((found[i].valid() ? found[i] : Zeros(body, type)).id());
    }
  }
  if (reached.empty()) return grads;
  for (const auto& [body, parts, found] : branches)
    back.regions.push_back(std::make_shared<const Graph>(MakeRegion(body, parts)));
  const int added = TryAddControl(graph, std::move(back)).value();
  for (size_t i = 0; i < reached.size(); ++i) grads[reached[i]] = {&graph, graph.nodes()[added].results[i]};
  return grads;
}

}  // namespace meshwork
