// The parts of a graph that optimizers add; their formulas are in optimizers.cc.

#include <algorithm>
#include <cctype>
#include <set>

#include "meshwork/base/name_patterns.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/name_scope.h"
#include "meshwork/ir/pull_back.h"
#include "meshwork/ir/row.h"
#include "meshwork/ops/hyperparameters.h"
#include "meshwork/ops/ops.h"
#include "meshwork/train/nn/initializers.h"
#include "meshwork/train/optim/loss_scaler.h"
#include "meshwork/train/optim/optimizers.h"

namespace meshwork {
namespace {

constexpr VarOptions kState{.trainable = false};

// The trainable float variables that `loss` depends on, by whatever ops, in the order of declaration.
std::vector<Value> TrainableOf(const Value& loss) {
  Graph& graph = *loss.graph();
  std::vector<bool> reached(graph.values().size(), false);
  reached[loss.id()] = true;
  for (size_t i = graph.nodes().size(); i-- > 0;) {
    const Node& node = graph.nodes()[i];
    bool any = false;
    for (ValueId id : node.results) any |= reached[id];
    if (!any) continue;
    for (ValueId id : node.operands) reached[id] = true;
  }
  std::vector<Value> trainable;
  for (const Argument& argument : graph.arguments())
    if (argument.is_variable && argument.is_trainable && reached[argument.value] &&
        IsFloat(graph.value(argument.value).type.dtype))
      trainable.emplace_back(&graph, argument.value);
  return trainable;
}

bool IsVariable(const Graph& graph, const Value& value) {
  if (value.graph() != &graph) return false;
  return std::any_of(graph.arguments().begin(), graph.arguments().end(), [&](const Argument& argument) {
    return argument.is_variable && argument.value == value.id();
  });
}

// Mistakes of one call: "Sgd (model.cc:4): …".
class Mistakes {
 public:
  Mistakes(Graph& graph, std::string_view who, CallSite loc) : graph_(graph), who_(who), loc_(loc) {}
  // False, so that a caller can end with it.
  bool Record(std::string_view message) const {
    graph_.RecordError(fmt::format("{}: {}", graph_.Describe(who_, loc_), message));
    return false;
  }

 private:
  Graph& graph_;
  const std::string_view who_;
  const CallSite loc_;
};

// The elements of `variables` that are also in `candidates`, in the order of `candidates`. Nothing after a mistake.
std::optional<std::vector<Value>> Among(const std::vector<Value>& candidates, const Graph& graph,
                                        const ValueList& variables, const Mistakes& mistakes) {
  std::set<ValueId> chosen;
  for (const Value& variable : variables.values()) {
    if (!variable.valid()) return std::nullopt;  // its mistake is recorded already
    if (!IsVariable(graph, variable)) {
      mistakes.Record(
          fmt::format("\"{}\" ({}) is no variable of the loss's graph; name those that Graph::Var gave.",
                      variable.graph()->value(variable.id()).name, variable.type().ToString()));
      return std::nullopt;
    }
    chosen.insert(variable.id());
  }
  std::vector<Value> among;
  for (const Value& candidate : candidates)
    if (chosen.contains(candidate.id())) among.push_back(candidate);
  return among;
}

// `only`: null for all. Nothing after a mistake.
std::optional<std::vector<VariableGradient>> FindGradients(const Value& loss, const ValueList* only,
                                                           CallSite loc, const Mistakes& mistakes) {
  Graph& graph = *loss.graph();
  if (!graph.body_of().empty()) {
    mistakes.Record(fmt::format(
        "the loss was made in the body of {}, where no variable can be updated; return it from there and minimize it "
        "outside, or, in a replica's function, by ReplicaContext::Minimize.",
        graph.body_of()));
    return std::nullopt;
  }
  std::vector<Value> candidates = TrainableOf(loss);
  if (only != nullptr) {
    std::optional<std::vector<Value>> among = Among(candidates, graph, *only, mistakes);
    if (!among.has_value()) return std::nullopt;
    candidates = *std::move(among);
  }
  if (candidates.empty()) {
    mistakes.Record(
        only == nullptr
            ? "the loss depends on no float variable that is trainable; compute it from some, and not behind "
              "StopGradient."
            : "the loss depends on none of the variables that are named, or they are not trainable; "
              "name some that it is computed from.");
    return std::nullopt;
  }
  const std::optional<std::vector<Value>> reached = ReachedGradients(loss, candidates, loc);
  if (!reached.has_value()) return std::nullopt;
  std::vector<VariableGradient> gradients;
  for (size_t i = 0; i < candidates.size(); ++i)
    if ((*reached)[i].valid()) gradients.push_back({Variable(&graph, candidates[i].id()), (*reached)[i]});
  return gradients;
}

std::vector<VariableGradient> GradientsOrNothing(const Value& loss, const ValueList* only, CallSite loc) {
  if (!loss.valid()) return {};
  const Mistakes mistakes(*loss.graph(), "VariableGradients", loc);
  return FindGradients(loss, only, loc, mistakes).value_or(std::vector<VariableGradient>());
}

std::string InSmallLetters(std::string name) {
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name;
}

absl::Status CheckClipNorm(const std::optional<double>& clip_norm) {
  return clip_norm.has_value() ? CheckPositive("clip_norm", *clip_norm) : absl::OkStatus();
}

absl::Status CheckRule(const UpdateRule& rule) {
  absl::Status status = rule.learning_rate.Check("learning_rate");
  status.Update(rule.options);
  if (rule.weight_decay.has_value()) status.Update(CheckNotNegative("weight_decay", *rule.weight_decay));
  status.Update(CheckClipNorm(rule.clip_norm));
  if (rule.loss_scale.has_value()) status.Update(CheckLossScale(*rule.loss_scale));
  if (!rule.scope.empty() && !IsArgumentName(rule.scope))
    status.Update(InvalidArgument(
        "name=\"{}\" cannot begin the names of variables; take letters, digits and _ . / -.", rule.scope));
  for (const ParameterGroup& group : rule.groups) {
    absl::Status wrong = CheckClipNorm(group.clip_norm);
    if (group.learning_rate.has_value()) wrong.Update(group.learning_rate->Check("learning_rate"));
    if (group.weight_decay.has_value()) {
      if (!rule.weight_decay.has_value())
        wrong.Update(InvalidArgument("{} has no weight_decay; AdamW and Sgd have one.", rule.name));
      wrong.Update(CheckNotNegative("weight_decay", *group.weight_decay));
    }
    status.Update(Annotate(wrong, fmt::format("group \"{}\": ", group.pattern)));
  }
  return status;
}

bool Counts(const UpdateRule& rule) {
  return rule.counts_steps || rule.learning_rate.schedule().has_value() ||
         std::any_of(rule.groups.begin(), rule.groups.end(), [](const ParameterGroup& group) {
           return group.learning_rate.has_value() && group.learning_rate->schedule().has_value();
         });
}

// One call of ApplyGradients, which adds to the graph.
class Update {
 public:
  Update(const UpdateRule& rule, Graph& graph, CallSite loc)
      : rule_(rule), graph_(graph), loc_(loc), mistakes_(graph, rule.name, loc), prefix_(Prefix()) {}

  // How the names of the state begin: "adam", and "adam_1" for the second Adam of the graph.
  const std::string& prefix() const { return prefix_; }

  // `scaler`: null if the loss was not scaled.
  Minimized Add(const std::vector<VariableGradient>& gradients, LossScaler* scaler = nullptr) {
    if (!Check(gradients) || !FindGroups(gradients)) return {};
    if (scaler != nullptr) is_good_ = scaler->Finish(gradients);
    Clip();
    const LocationScope scope(graph_, loc_);
    Value step, before;
    if (Counts(rule_)) {
      const Variable steps = graph_.Var(prefix_ + "/step", Zeros({}, I64), {}, kState, loc_);
      step = steps + 1.0;
      Put(steps, step);
      before = steps;
    }
    const Operand rate = At(rule_.learning_rate, before);
    std::vector<Operand> rates;  // of groups
    for (const ParameterGroup& group : rule_.groups)
      rates.push_back(group.learning_rate.has_value() ? At(*group.learning_rate, before) : rate);
    for (const Weight& weight : weights_)
      if (!AddOne(weight, step, weight.group < 0 ? rate : rates[static_cast<size_t>(weight.group)]))
        return {};
    if (scaler == nullptr) return {gradients, step, rate};
    return {gradients, step, rate, scaler->scale(), Not(is_good_)};
  }

 private:
  struct Weight {
    Variable variable;
    Value gradient;
    int group;  // of the rule's; -1: none
  };

  // Mistakes are recorded.
  bool Check(const std::vector<VariableGradient>& gradients) const {
    std::set<ValueId> updated;
    for (const VariableUpdate& update : graph_.updates())
      updated.insert(graph_.arguments()[update.argument].value);
    for (const auto& [variable, gradient] : gradients) {
      if (!variable.valid() || !gradient.valid()) return false;  // their mistakes are recorded already
      if (!IsVariable(graph_, variable) || gradient.graph() != &graph_)
        return mistakes_.Record("a variable or a gradient belongs to another graph; name those of one.");
      const std::string& name = graph_.value(variable.id()).name;
      if (!IsFloat(variable.dtype()) || variable.type() != gradient.type())
        return mistakes_.Record(fmt::format("\"{}\" is {}, its gradient {}; they must be floats of one type.",
                                            name, variable.type().ToString(), gradient.type().ToString()));
      if (!IsFrozen(GroupOf(name)) && !updated.insert(variable.id()).second)
        return mistakes_.Record(AlreadyUpdated(variable));
    }
    return true;
  }

  std::string AlreadyUpdated(const Variable& variable) const {
    const std::string& name = graph_.value(variable.id()).name;
    for (const VariableUpdate& update : graph_.updates()) {
      if (graph_.arguments()[update.argument].value != variable.id()) continue;
      const std::string before = update.location.ToString();
      return fmt::format(
          "\"{}\" is already updated{}; a step writes a variable once, and Minimize writes all that a gradient of "
          "its loss reaches. Name the variables that it shall write: Minimize(loss, variables).",
          name, before.empty() ? "" : fmt::format(" ({})", before));
    }
    return fmt::format("\"{}\" comes twice; a step writes a variable once, give the sum of its gradients.",
                       name);
  }

  // The last of the rule's groups that fits a name; -1: none. Sets `fits`, if given, to true for each group that fits.
  int GroupOf(const std::string& name, std::vector<bool>* fits = nullptr) const {
    int group = -1;
    for (size_t i = 0; i < rule_.groups.size(); ++i) {
      if (!MatchesPattern(name, rule_.groups[i].pattern)) continue;
      if (fits != nullptr) (*fits)[i] = true;
      group = static_cast<int>(i);
    }
    return group;
  }
  bool IsFrozen(int group) const { return group >= 0 && rule_.groups[static_cast<size_t>(group)].frozen; }

  bool FindGroups(const std::vector<VariableGradient>& gradients) {
    std::vector<bool> fits(rule_.groups.size(), false);
    for (const auto& [variable, gradient] : gradients) {
      const int group = GroupOf(graph_.value(variable.id()).name, &fits);
      if (!IsFrozen(group)) weights_.push_back({variable, gradient, group});
    }
    for (size_t i = 0; i < fits.size(); ++i) {
      if (fits[i]) continue;
      std::vector<std::string> names;
      for (const auto& [variable, gradient] : gradients) names.push_back(graph_.value(variable.id()).name);
      return mistakes_.Record(fmt::format("group \"{}\": no weight that is updated is called so; there {}.",
                                          rule_.groups[i].pattern, Listed(names)));
    }
    return true;
  }

  static std::string Listed(const std::vector<std::string>& names) {
    constexpr size_t kShown = 5;
    std::string text = names.size() == 1 ? "is" : "are";
    for (size_t i = 0; i < std::min(names.size(), kShown); ++i)
      text += fmt::format("{} \"{}\"", i == 0 ? "" : ",", names[i]);
    if (names.size() > kShown) text += fmt::format(" and {} more", names.size() - kShown);
    return text;
  }

  // Clips by the norm of all gradients together, except those of groups with a norm of their own.
  void Clip() {
    ClipThose(rule_.clip_norm, [&](int group) { return !HasOwnNorm(group); });
    for (size_t i = 0; i < rule_.groups.size(); ++i)
      ClipThose(rule_.groups[i].clip_norm, [&](int group) { return group == static_cast<int>(i); });
  }
  bool HasOwnNorm(int group) const {
    return group >= 0 && rule_.groups[static_cast<size_t>(group)].clip_norm.has_value();
  }
  template <typename F>
  void ClipThose(const std::optional<double>& norm, const F& is_meant) {
    std::vector<Value> gradients;
    for (const Weight& weight : weights_)
      if (is_meant(weight.group)) gradients.push_back(weight.gradient);
    if (!norm.has_value() || gradients.empty()) return;
    const std::vector<Value> clipped = ClipByGlobalNorm(gradients, *norm, loc_);
    size_t next = 0;
    for (Weight& weight : weights_)
      if (is_meant(weight.group)) weight.gradient = clipped[next++];
  }

  std::string Prefix() const {
    if (!rule_.scope.empty()) return rule_.scope;
    const std::string name = InSmallLetters(rule_.name);
    const auto is_taken = [&](const std::string& prefix) {
      return std::any_of(graph_.arguments().begin(), graph_.arguments().end(), [&](const Argument& argument) {
        return std::string_view(graph_.value(argument.value).name).starts_with(prefix + "/");
      });
    };
    std::string prefix = name;
    for (int i = 1; is_taken(prefix); ++i) prefix = fmt::format("{}_{}", name, i);
    return prefix;
  }

  // `steps`: how many there were before this one.
  Operand At(const Rate& rate, const Value& steps) const {
    if (rate.is_number()) return {rate.number(), loc_};
    return {rate.schedule().has_value() ? (*rate.schedule())(Cast(steps, F64)) : rate.value(), loc_};
  }

  // Sets the value of `variable` after the step; if the step is skipped, it does not change.
  void Put(const Variable& variable, const Value& next) {
    graph_.Update(variable, is_good_.valid() ? Select(is_good_, next, variable) : next, loc_);
  }

  // Whether rows of it are looked up, and nothing else reads it.
  bool IsTable(const Variable& variable) const {
    bool is_looked_up = false;
    for (const Node& node : graph_.nodes())
      for (size_t o = 0; o < node.operands.size(); ++o) {
        if (node.operands[o] != variable.id()) continue;
        if (node.row->name != "gather" || o != 0 || node.attrs.Get<int64_t>("dim") != 0) return false;
        is_looked_up = true;
      }
    return is_looked_up;
  }

  bool AddOne(const Weight& weight, const Value& step, const Operand& rate) {
    const ValueInfo info = graph_.value(weight.variable.id());
    const DType dtype = WideDType(info.type.dtype);
    std::vector<Value> state;
    for (const UpdateRule::Slot& slot : rule_.slots)
      state.push_back(graph_.Var(fmt::format("{}/{}/{}", prefix_, slot.name, info.name),
                                 Filled(slot.initial, info.type.shape, dtype), SpecOf(*info.layout), kState,
                                 loc_));
    const bool has_decay =
        weight.group >= 0 && rule_.groups[static_cast<size_t>(weight.group)].weight_decay.has_value();
    const double decay = has_decay ? *rule_.groups[static_cast<size_t>(weight.group)].weight_decay
                                   : rule_.weight_decay.value_or(0);
    const Operand own_rate = rate.is_number() ? rate : Operand(InDType(rate.value(), dtype), loc_);
    const bool is_table = IsTable(weight.variable);
    const std::vector<Value> next =
        rule_.formula({InDType(weight.variable, dtype), InDType(weight.gradient, dtype), state, step,
                       own_rate, decay, is_table});
    if (next.size() != 1 + state.size())
      return mistakes_.Record(
          fmt::format("its formula gives {}; it must give {}, the new weight and the new state of each slot.",
                      Count(static_cast<int64_t>(next.size()), "value"), 1 + state.size()));
    Put(weight.variable, InDType(next[0], info.type.dtype));
    for (size_t s = 0; s < state.size(); ++s) Put(Variable(&graph_, state[s].id()), next[s + 1]);
    return true;
  }

  const UpdateRule& rule_;
  Graph& graph_;
  const CallSite loc_;
  const Mistakes mistakes_;
  const std::string prefix_;
  std::vector<Weight> weights_;
  Value is_good_;  // bool[]; invalid: no step is skipped
};

}  // namespace

std::vector<VariableGradient> VariableGradients(const Value& loss, CallSite loc) {
  return GradientsOrNothing(loss, nullptr, loc);
}
std::vector<VariableGradient> VariableGradients(const Value& loss, const ValueList& variables, CallSite loc) {
  return GradientsOrNothing(loss, &variables, loc);
}

Value Minimized::gradient_norm(CallSite loc) const {
  std::vector<Value> gradients;
  for (const VariableGradient& gradient : gradients_) gradients.push_back(gradient.gradient);
  return GlobalNorm(gradients, loc);
}

Value Minimized::learning_rate(CallSite loc) const {
  if (gradients_.empty()) return {};
  Graph& graph = *gradients_[0].variable.graph();
  if (learning_rate_.is_number()) return Constant(graph, learning_rate_.number(), {F64, {}}, loc);
  const LocationScope scope(graph, loc);
  return InDType(learning_rate_.value(), F64);
}

Minimized Optimizer::Minimize(const Value& loss, CallSite loc) const { return Minimize(loss, nullptr, loc); }

Minimized Optimizer::Minimize(const Value& loss, const ValueList& variables, CallSite loc) const {
  return Minimize(loss, &variables, loc);
}

Minimized Optimizer::Minimize(const Value& loss, const ValueList* variables, CallSite loc) const {
  if (!loss.valid()) return {};
  Graph& graph = *loss.graph();
  const Mistakes mistakes(graph, rule_.name, loc);
  if (const absl::Status status = CheckRule(rule_); !status.ok()) {
    mistakes.Record(MessageOf(status));
    return {};
  }
  const NameScope none = NameScope::None(graph);
  Update update(rule_, graph, loc);
  std::optional<LossScaler> scaler;
  if (rule_.loss_scale.has_value()) scaler.emplace(graph, *rule_.loss_scale, update.prefix(), loc);
  std::optional<std::vector<VariableGradient>> gradients =
      FindGradients(scaler.has_value() ? scaler->Scaled(loss) : loss, variables, loc, mistakes);
  if (!gradients.has_value()) return {};
  if (gradients->empty()) {
    mistakes.Record(
        "no gradient of the loss reaches a variable: all that it depends on is behind StopGradient, or an op "
        "without a gradient.");
    return {};
  }
  if (scaler.has_value()) scaler->Unscale(*gradients);
  return update.Add(*gradients, scaler.has_value() ? &*scaler : nullptr);
}

Minimized Optimizer::ApplyGradients(const std::vector<VariableGradient>& gradients, CallSite loc) const {
  if (gradients.empty() || !gradients[0].variable.valid()) return {};
  Graph& graph = *gradients[0].variable.graph();
  absl::Status status = CheckRule(rule_);
  if (rule_.loss_scale.has_value())
    status.Update(InvalidArgument(
        "loss_scale is set, and ApplyGradients is given gradients, not a loss that could be scaled; use Minimize."));
  if (!status.ok()) {
    Mistakes(graph, rule_.name, loc).Record(MessageOf(status));
    return {};
  }
  const NameScope none = NameScope::None(graph);
  return Update(rule_, graph, loc).Add(gradients);
}

}  // namespace meshwork
