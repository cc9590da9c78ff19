// Draws programs of all rows with scans, branches and whiles, whose bodies are of the same rows.
//
// An op that jumps reads arguments of the program in bodies, too, whole or slice by slice, because their
// numbers are exact.
#pragma once

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "meshwork/ir/regions.h"
#include "meshwork/ops/control/control_flow.h"
#include "meshwork/ops/ops.h"
#include "support/rows_drawer.h"
#include "support/twins.h"

namespace meshwork {

class RowLoopsDrawer : RowsDrawer {
 public:
  // `twins`: the percentage of loops that have a twin (twins.h).
  RowLoopsDrawer(const std::vector<Sample>& pool, uint64_t seed, uint64_t twins = 20)
      : RowsDrawer(pool, seed), twins_(twins) {}

  RandomProgram Draw() && {
    AddNodes(3);
    for (uint64_t loops = 1 + Below(3); loops > 0; --loops) {
      AddLoop();
      AddNodes(2);
    }
    AddUpdates();
    AddOutputs();
    return TakeProgram();
  }

 private:
  static constexpr int64_t kMostIterations = 4;
  static constexpr int64_t kMostElements = 1000;

  void AddNodes(uint64_t most) {
    for (uint64_t nodes = Below(most + 1); nodes > 0; --nodes) AddNode();
  }
  void AddBodyNodes() {
    for (uint64_t nodes = 1 + Below(4); nodes > 0; --nodes) {
      if (depth() < 3 && Chance(8)) AddLoop();
      else if (Chance(8)) AddLimited();
      else AddNode();
    }
  }

  void AddLoop() {
    const uint64_t which = Below(10);
    if (which < 6) AddScan();
    else if (which < 8) AddIf();
    else AddWhile();
    // The loop may not be the last node: a sum of a carry and its term may follow.
    for (int n = static_cast<int>(graph().nodes().size()) - 1; n >= 0; --n) {
      if (!IsControl(graph().nodes()[n])) continue;
      MarkResults(n);
      if (Chance(twins_)) AddTwin(n);
      break;
    }
  }

  // Both the loop and its twin are read, now and then by one op.
  void AddTwin(int n) {
    const int twin = TryAddControl(graph(), TwinMaker(engine(), {}).TwinOf(graph().nodes()[n])).value();
    MarkResults(twin);
    const auto results = graph().nodes()[n].results, others = graph().nodes()[twin].results;
    for (size_t r = 0; r < results.size(); ++r) {
      const Value x(&graph(), results[r]), y(&graph(), others[r]);
      if (IsFloat(x.dtype()) && Chance(50)) Tanh(x - y * 0.5);
    }
  }

  // Adds ops with infinities or NaN as attributes, and finite results.
  void AddLimited() {
    std::vector<ValueId> reals;
    for (size_t id = 0; id < graph().values().size(); ++id)
      if (IsFloat(graph().values()[id].type.dtype)) reals.push_back(static_cast<ValueId>(id));
    if (reals.empty()) return;
    const Value x(&graph(), Pick(reals));
    switch (Below(3)) {
      case 0: Minimum(x, std::numeric_limits<double>::infinity()); break;
      case 1: Maximum(x, -std::numeric_limits<double>::infinity()); break;
      default: Select(IsNan(x), std::numeric_limits<double>::quiet_NaN(), x);
    }
  }

  // A value of this graph, a node's result more often than an argument, or an argument of the program.
  Value AnyValue() {
    std::vector<ValueId> small, made;
    for (size_t id = 0; id < graph().values().size(); ++id) {
      const ValueInfo& info = graph().values()[id];
      if (info.type.num_elements() > kMostElements || !IsNumber(static_cast<ValueId>(id))) continue;
      small.push_back(static_cast<ValueId>(id));
      if (info.node >= 0) made.push_back(static_cast<ValueId>(id));
    }
    if (!made.empty() && Chance(65))
      return {&graph(), made[made.size() - 1 - Below(std::min<size_t>(made.size(), 4))]};
    if (!small.empty() && Chance(60)) return {&graph(), Pick(small)};
    const Sample& sample = WithOperands();
    return {&graph(), AddArgument(sample.operands[Below(sample.operands.size())], *sample.row)};
  }
  const Sample& WithOperands() {
    for (;;)
      if (const Sample& sample = Pick(pool()); !sample.operands.empty()) return sample;
  }

  // The body reads some of the values outside it.
  void Enter(Graph& body, const std::vector<Value>& arguments) {
    std::vector<Value> around;
    for (uint64_t a = Below(3); a > 0; --a) around.push_back(AnyValue());
    EnterBody(body);
    for (const Value& value : around) body.Capture(value);
    for (const Value& argument : arguments)
      if (Chance(12)) SetPin(body.mutable_value(argument.id()));
  }

  // A value of the body that has this type; `instead` if there is none.
  Value ValueLike(const Value& instead) {
    const std::vector<ValueId> fitting = ValuesOf(instead.type());
    return Chance(50) ? Value(&graph(), fitting.back()) : Value(&graph(), Pick(fitting));
  }
  Value NextOf(const Value& carry) {
    const Value like = ValueLike(carry);
    if (!IsFloat(carry.dtype())) return like;
    switch (Below(5)) {
      case 0: return carry + like;
      case 1: return Tanh(like);
      case 2: return Tanh(carry + like);
      case 3: return carry * 0.5 + like * 0.25;
      default: return like;
    }
  }

  // Whether sums are exact, or nearly so: reals, and whole numbers of arguments.
  bool MayBeAddedUp(const Value& x) {
    return IsFloat(x.dtype()) || (IsInteger(x.dtype()) && graph().value(x.id()).node < 0);
  }

  void AddScan() {
    const auto length = 1 + static_cast<int64_t>(Below(kMostIterations));
    std::vector<Value> carries, xs;
    for (uint64_t c = Below(3); c > 0; --c) carries.push_back(AnyValue());
    // The operands of an op, each cut into slices or whole in each iteration.
    const Sample& sample = WithOperands();
    std::vector<bool> is_slice;
    for (const Type& type : sample.operands) {
      is_slice.push_back(Chance(70));
      if (!is_slice.back()) continue;
      Type all = type;
      all.shape.insert(all.shape.begin(), length);
      xs.emplace_back(&graph(), AddArgument(all, *sample.row));
    }
    const ScanOptions options{.length = length, .reverse = Chance(40), .recompute = Chance(30)};
    const auto body = [&](Graph& graph_of_body, const std::vector<Value>& now,
                          const std::vector<Value>& slices) {
      std::vector<Value> arguments = now;
      arguments.insert(arguments.end(), slices.begin(), slices.end());
      Enter(graph_of_body, arguments);
      std::vector<ValueId> operands;
      for (size_t o = 0, s = 0; o < is_slice.size(); ++o)
        operands.push_back(is_slice[o] ? slices[s++].id() : AddArgument(sample.operands[o], *sample.row));
      AddNode(sample, operands);
      AddBodyNodes();
      ScanStep step;
      for (const Value& carry : now) step.carries.push_back(NextOf(carry));
      for (uint64_t s = Below(3); s > 0; --s) step.stacked.push_back(AnyValue());
      for (uint64_t s = 1 + Below(3); s > 0; --s)
        if (const Value x = AnyValue(); MayBeAddedUp(x)) step.sums.push_back(x);
      if (step.carries.empty() && step.stacked.empty() && step.sums.empty())
        step.stacked.push_back(AnyValue());
      LeaveBody();
      return step;
    };
    Scan(graph(), carries, xs, body, options);
  }

  void AddIf() {
    Value predicate;
    if (const std::vector<ValueId> known = ValuesOf({BOOL, {}}); !known.empty() && Chance(50))
      predicate = {&graph(), Pick(known)};
    else predicate = {&graph(), AddArgument({BOOL, {}}, GetOp("not"))};
    std::vector<Value> targets;
    for (uint64_t t = 1 + Below(2); t > 0; --t) targets.push_back(AnyValue());
    const Branch branch = [&](Graph& body) {
      Enter(body, {});
      AddBodyNodes();
      std::vector<Value> results;
      for (const Value& target : targets) results.push_back(NextOf(graph().Capture(target)));
      LeaveBody();
      return results;
    };
    If(predicate, branch, branch);
  }

  // Adds a while with a counter, which no other op reads.
  void AddWhile() {
    const DType dtype = Chance(50) ? I32 : I64;
    const Value limit(&graph(), AddArgument({dtype, {}}, GetOp("add")));
    std::vector<Value> carries = {Constant(graph(), static_cast<double>(Below(5)), {dtype, {}})};
    for (uint64_t c = 1 + Below(2); c > 0; --c) carries.push_back(AnyValue());
    While(
        graph(), carries, [&](Graph&, const std::vector<Value>& now) { return Less(now[0], limit); },
        [&](Graph& body, const std::vector<Value>& now) {
          Enter(body, now);
          AddBodyNodes();
          std::vector<Value> next = {now[0] + 1.0};
          for (size_t c = 1; c < now.size(); ++c) next.push_back(NextOf(now[c]));
          LeaveBody();
          return next;
        });
  }

  const uint64_t twins_;
};

}  // namespace meshwork
