#include "support/random_training.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/ir/builder.h"
#include "meshwork/ir/gradients.h"
#include "meshwork/ops/ops.h"
#include "meshwork/train/optim/optimizers.h"
#include "support/loops_drawer.h"
#include "support/stability.h"

namespace meshwork {
namespace {

// The program is given up if a gradient is larger.
constexpr double kTooLarge = 1e4;

class TrainingDrawer : LoopsDrawer {
 public:
  TrainingDrawer(uint64_t seed, bool with_loops) : LoopsDrawer(seed), with_loops_(with_loops) {}

  // Nullopt if numbers have grown too large, or if results depend on rounding.
  std::optional<RandomProgram> Draw() && {
    for (uint64_t i = 2 + Below(3); i > 0; --i) NewArgument(F64, DrawShape());
    const uint64_t what = Below(100);
    differentiates_ = what < 30;
    trains_ = what < 80;
    if (with_loops_) AddOpsAndLoops();
    else AddOps(5 + Below(36));
    if (differentiates_) Differentiate();
    else if (what < 80) Train();
    else UpdateAtWill();
    Evaluate();
    for (size_t id = 0; id < graph().values().size(); ++id)
      if (graph().values()[id].type.dtype == F64 &&
          Largest(NumbersOf({&graph(), static_cast<ValueId>(id)})) > kTooLarge)
        return std::nullopt;
    AddOutputs();
    MESHWORK_CHECK(graph().status().ok(), "{}", MessageOf(graph().status()));
    RandomProgram program = TakeProgram();
    if (with_loops_ && !IsStable(program, kTooLarge)) return std::nullopt;
    return program;
  }

 private:
  void AddOps(size_t nodes) {
    while (graph().nodes().size() < nodes) AddOp();
  }
  // The first loop is drawn as soon as there is room for it, so that ops follow from it.
  void AddOpsAndLoops() {
    AddOps(Below(8));
    for (uint64_t loops = 1 + Below(3); loops > 0; --loops) {
      AddLoop();
      AddOps(graph().nodes().size() + Below(6));
    }
  }

  // ---- Losses and updates of variables.

  bool DependsOn(const Value& y, const Value& x) {
    std::vector<bool> depends(graph().values().size(), false);
    depends[x.id()] = true;
    for (const Node& node : graph().nodes())
      for (ValueId id : node.operands)
        if (depends[id])
          for (ValueId result : node.results) depends[result] = true;
    return depends[y.id()];
  }

  // `reaches`: a gradient reaches `wanted`; otherwise an op without slope may stand between it and the loss.
  Value Loss(const Value& wanted, bool reaches = false) {
    Value loss;
    for (uint64_t terms = 1 + Below(3); terms > 0;) {
      const Value term = LossTerm();
      if (!term.valid()) continue;
      loss = loss.valid() ? loss + term : term;
      --terms;
    }
    if (reaches || !DependsOn(loss, wanted)) loss = loss + ReduceMean(Square(wanted), AllDimsOf(wanted));
    Evaluate();
    return loss;
  }

  // The program's real variables, at least one.
  std::vector<Variable> Variables() {
    while (graph().variables().empty()) NewArgument(F64, DrawShape());
    return graph().variables();
  }

  // Updates variables with values of their shape, not by gradients.
  void UpdateAtWill() {
    for (const Variable& variable : graph().variables()) {
      if (Chance(30)) continue;
      const Value like = Like(variable);
      graph().Update(variable, Chance(50) ? like : variable * 0.75 + like * 0.25);
    }
  }

  void Differentiate() {
    const Value wanted = Chance(50) ? Value(Pick(Variables())) : Pick(All(F64));
    const Value loss = Loss(wanted);
    std::vector<Value> wrt = {wanted};
    for (const Value& x : All(F64))
      if (x.id() != wanted.id() && x.id() <= loss.id() && Chance(25)) wrt.push_back(x);
    graph().Output("loss", loss);
    const std::vector<Value> gradients = Gradients(loss, wrt);
    MESHWORK_CHECK(graph().status().ok(), "{}", MessageOf(graph().status()));
    Evaluate();
    for (size_t i = 0; i < wrt.size(); ++i) {
      const int argument = ArgumentOf(wrt[i]);
      graph().Output(
          argument < 0 ? fmt::format("gradient/{}", i) : "gradient/" + graph().argument_name(argument),
          gradients[i]);
      if (argument >= 0 && graph().arguments()[argument].is_variable && Chance(50))
        graph().Update(Variable(&graph(), wrt[i].id()), wrt[i] - gradients[i] * 0.1);
    }
  }
  int ArgumentOf(const Value& x) {
    const ValueInfo& info = graph().value(x.id());
    return info.node < 0 ? graph().FindArgument(info.name) : -1;
  }

  void Train() {
    const Value loss = Loss(Pick(Variables()), /*reaches=*/true);
    graph().Output("loss", loss);
    DrawOptimizer().Minimize(loss);
    MESHWORK_CHECK(graph().status().ok(), "{}", MessageOf(graph().status()));
    FeedState();
    // Adds readers of variables after their updates, and readers of the new values.
    const std::vector<VariableUpdate> updates = graph().updates();
    for (const VariableUpdate& update : updates) {
      const Value old(&graph(), graph().arguments()[update.argument].value);
      const Value now(&graph(), update.value);
      if (old.dtype() != F64 || Chance(50)) continue;
      const std::string name = graph().argument_name(update.argument);
      if (Chance(60)) graph().Output("old/" + name, Tanh(old));
      if (Chance(60)) graph().Output("new/" + name, Tanh(now));
      if (Chance(30)) graph().Output("moved/" + name, ReduceMean(Square(now - old), AllDimsOf(old)));
    }
  }

  Optimizer DrawOptimizer() {
    std::optional<double> clip;
    if (Chance(25)) clip = 0.5;
    switch (Below(10)) {
      case 9: return Lamb({.learning_rate = 0.1, .clip_norm = clip});
      case 0:
      case 1: return Sgd({.learning_rate = 0.1, .clip_norm = clip});
      case 2: return Momentum({.learning_rate = 0.1, .clip_norm = clip});
      case 3: return Nesterov({.learning_rate = 0.1, .clip_norm = clip});
      case 4: return Adagrad({.learning_rate = 0.1, .clip_norm = clip});
      case 5:
        return RmsProp({.learning_rate = 0.1, .momentum = 0.5, .centered = Chance(50), .clip_norm = clip});
      case 6: return AdamW({.learning_rate = 0.1, .clip_norm = clip});
      default: return Adam({.learning_rate = 0.1, .clip_norm = clip});
    }
  }

  // Feeds the optimizer's state: sums of squares are positive, and larger than the square of a mean.
  void FeedState() {
    for (const Argument& argument : graph().arguments()) {
      const ValueInfo& info = graph().value(argument.value);
      if (feeds().count(info.name) > 0) continue;
      Numbers& feed = feeds()[info.name];
      const bool positive =
          info.name.find("/v/") != std::string::npos || info.name.rfind("adagrad/a/", 0) == 0;
      for (int64_t i = info.type.num_elements(); i > 0; --i)
        feed.push_back(info.type.dtype == I64 ? static_cast<double>(Below(5))
                       : positive             ? Uniform(0.5, 1)
                                              : Uniform(-0.5, 0.5));
    }
  }

  const bool with_loops_;
};

RandomProgram DrawAny(uint64_t seed, bool with_loops) {
  for (uint64_t attempt = 0;; ++attempt)
    if (std::optional<RandomProgram> program = TrainingDrawer(seed * 1000 + attempt, with_loops).Draw())
      return *std::move(program);
}

}  // namespace

RandomProgram DrawTraining(uint64_t seed) { return DrawAny(seed, false); }
RandomProgram DrawLoopTraining(uint64_t seed) { return DrawAny(seed, true); }

}  // namespace meshwork
