// Loops and branches that compute the same and are written differently.
//
//   TwinMaker twins(engine, {});
//   TryAddControl(graph, twins.TwinOf(node));   // gives what `node` gives
//   TryAddControl(graph, twins.OtherThan(node)) // does not
//
// A twin may have: code that nothing reads, also with NaN and infinities; an op twice; terms of a sum in
// another order; a size in the place of a number; values that are computed again, or reshaped and back; other
// pins and no names; carries that are updated to themselves, or not at all.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/ir/regions.h"
#include "meshwork/ir/row.h"

namespace meshwork {

struct TwinOptions {
  // Gradients go through the twin as through the original, and all numbers are finite.
  bool for_training = false;
  bool keep_pins = false;
};

class TwinMaker {
 public:
  TwinMaker(std::mt19937_64& engine, const TwinOptions& options) : engine_(engine), options_(options) {}

  // REQUIRES: a loop or a branch.
  Node TwinOf(const Node& node) {
    Node twin = node;
    twin.results.clear();
    twin.location = {"twin", 1};
    for (std::shared_ptr<const Graph>& region : twin.regions)
      region = std::make_shared<const Graph>(Rewritten(*region, /*other=*/false));
    return twin;
  }

  // As TwinOf, but one result of one of its bodies is another value. The condition of a loop stays, and so
  // does the first carry of a while, which may be its counter.
  Node OtherThan(const Node& node) {
    Node twin = TwinOf(node);
    std::shared_ptr<const Graph>& region = twin.regions[Below(twin.regions.size())];
    first_that_differs_ = node.row->name == "while" ? 1 : 0;
    region = std::make_shared<const Graph>(Rewritten(*region, /*other=*/true));
    return twin;
  }

 private:
  uint64_t Below(uint64_t n) { return engine_() % n; }
  bool Chance(uint64_t percent) { return Below(100) < percent; }
  template <typename List>
  const auto& Pick(const List& list) {
    return list[Below(list.size())];
  }

  // A body that is being copied.
  struct Copy {
    const Graph& from;
    Graph to;
    std::vector<std::vector<ValueId>> equal;  // per value of `from`: those that are equal to it
  };

  Graph Rewritten(const Graph& from, bool other) {
    Copy copy{from, Graph(from.mesh()), std::vector<std::vector<ValueId>>(from.values().size())};
    copy.to.name = from.name;
    for (const Argument& argument : from.arguments())
      copy.equal[argument.value] = {copy.to.AddArgument(from.value(argument.value), argument.is_variable)};
    if (Chance(20)) AddNumbers(copy.to);
    for (const Node& node : from.nodes()) {
      AddSame(copy, node);
      if (Chance(25)) AddSame(copy, node);
      for (ValueId id : node.results) Vary(copy, id);
      if (Chance(30)) AddDead(copy.to, Pick(copy.equal[Pick(node.results)]));
    }
    if (!from.arguments().empty() && Chance(50))
      AddDead(copy.to, Pick(copy.equal[Pick(from.arguments()).value]));
    Finish(copy, other);
    return std::move(copy.to);
  }

  ValueId Any(const Copy& copy, ValueId id) { return Pick(copy.equal[id]); }

  void Finish(Copy& copy, bool other) {
    const Graph& from = copy.from;
    std::vector<ValueId> next;
    for (const Argument& argument : from.arguments()) next.push_back(argument.value);
    std::vector<bool> is_updated(next.size(), false);
    for (const VariableUpdate& update : from.updates()) {
      next[update.argument] = update.value;
      is_updated[update.argument] = true;
    }
    std::vector<ValueId> outputs;
    for (const OutputInfo& output : from.outputs()) outputs.push_back(Any(copy, output.value));
    std::vector<std::pair<int, ValueId>> updates;
    for (size_t a = 0; a < next.size(); ++a) {
      if (!from.arguments()[a].is_variable) continue;
      const bool stays = next[a] == from.arguments()[a].value;
      if (stays ? Chance(30) : is_updated[a]) updates.emplace_back(a, Any(copy, next[a]));
    }
    if (other) Differ(copy.to, updates, outputs);
    for (const auto& [argument, value] : updates) copy.to.AddUpdate({argument, value});
    for (size_t o = 0; o < outputs.size(); ++o) copy.to.AddOutput({from.outputs()[o].name, outputs[o]});
  }

  void Differ(Graph& to, std::vector<std::pair<int, ValueId>>& updates, std::vector<ValueId>& outputs) {
    std::vector<ValueId*> places;
    for (auto& [argument, value] : updates)
      if (argument >= first_that_differs_) places.push_back(&value);
    if (first_that_differs_ == 0)
      for (ValueId& value : outputs) places.push_back(&value);
    if (places.empty()) {
      // A carry that kept its value is changed.
      for (size_t a = static_cast<size_t>(first_that_differs_); a < to.arguments().size(); ++a)
        if (to.arguments()[a].is_variable && places.empty())
          places.push_back(&updates.emplace_back(static_cast<int>(a), to.arguments()[a].value).second);
    }
    if (places.empty()) return;
    ValueId& place = *Pick(places);
    const Type type = to.value(place).type;
    if (IsFloat(type.dtype)) place = Add(to, "erf", {place});
    else if (type.dtype == BOOL) place = Add(to, "not", {place});
    else if (IsStorage(type.dtype)) place = Cast(to, Add(to, "not", {Cast(to, place, BOOL)}), type.dtype);
    else place = Add(to, "add", {place, Number(to, 1, type.dtype)});
  }

  // ---- Nodes.

  ValueId Add(Graph& to, std::string_view op, std::initializer_list<ValueId> operands,
              const Attrs& attrs = {}) {
    const int node = to.TryAdd(GetOp(op), std::vector<ValueId>(operands), attrs, {"twin", 1}).value();
    return to.nodes()[node].results[0];
  }
  ValueId Cast(Graph& to, ValueId value, DType dtype) { return Add(to, "cast", {value}, {{"dtype", dtype}}); }
  ValueId Number(Graph& to, double number, DType dtype) {
    return Add(to, "constant", {}, {{"value", number}, {"dtype", dtype}, {"shape", std::vector<int64_t>{}}});
  }

  // The node, on values that are equal to its operands.
  void AddSame(Copy& copy, const Node& node) {
    Node same = node;
    same.results.clear();
    for (ValueId& id : same.operands) id = Any(copy, id);
    if (IsControl(same) && !IsManual(same))
      for (std::shared_ptr<const Graph>& region : same.regions)
        if (Chance(50)) region = std::make_shared<const Graph>(Rewritten(*region, /*other=*/false));
    std::vector<ValueInfo> infos;
    for (ValueId id : node.results) {
      ValueInfo& info = infos.emplace_back(copy.from.value(id));
      info.name.clear();
      if (options_.keep_pins || IsManual(node) || Chance(80)) continue;
      info.layout.reset();
      info.modes.clear();
    }
    const int index = copy.to.AddNode(std::move(same), std::move(infos));
    for (size_t r = 0; r < node.results.size(); ++r)
      copy.equal[node.results[r]].push_back(copy.to.nodes()[index].results[r]);
  }

  // Adds values that are equal to this one.
  void Vary(Copy& copy, ValueId id) {
    Graph& to = copy.to;
    const ValueId same = Any(copy, id);
    const Type type = to.value(same).type;
    std::vector<ValueId>& equal = copy.equal[id];
    if (IsStorage(type.dtype)) return;  // nothing computes with it
    switch (Below(12)) {
      case 0:
        if (!options_.for_training) equal.push_back(Add(to, "stop_gradient", {same}));
        return;
      case 1: equal.push_back(Add(to, "relayout", {same}, {{"layout", OpenPin(to, type)}})); return;
      case 2: {
        std::vector<int64_t> shape(type.shape.begin(), type.shape.end());
        const ValueId flat =
            Add(to, "reshape", {same}, {{"shape", std::vector<int64_t>{type.num_elements()}}});
        equal.push_back(Add(to, "reshape", {flat}, {{"shape", shape}}));
        return;
      }
      case 3:
      case 4:
      case 5: VarySum(to, same, equal); return;
      case 6:
      case 7: VaryNumber(to, same, equal); return;
      default: return;
    }
  }

  static LayoutPin OpenPin(const Graph& to, const Type& type) {
    LayoutPin pin{Layout::Replicated(to.mesh(), type.rank())};
    pin.modes.assign(static_cast<size_t>(type.rank()), DimMode::kOpen);
    return pin;
  }

  const Node* MadeBy(const Graph& to, ValueId id, std::string_view op) {
    const int node = to.value(id).node;
    return node >= 0 && to.nodes()[node].row->name == op ? &to.nodes()[node] : nullptr;
  }

  void VarySum(Graph& to, ValueId same, std::vector<ValueId>& equal) {
    if (const Node* sum = MadeBy(to, same, "add")) {
      const ValueId a = sum->operands[0], b = sum->operands[1];
      const Node* inner = MadeBy(to, a, "add");
      if (inner != nullptr && to.value(a).type == to.value(same).type && Chance(70)) {
        const ValueId p = inner->operands[0], q = inner->operands[1];
        equal.push_back(Add(to, "add", {p, Add(to, "add", {q, b})}));
      } else {
        equal.push_back(Add(to, "add", {b, a}));
      }
      if (to.value(equal.back()).type != to.value(same).type) equal.pop_back();
    } else if (const Node* difference = MadeBy(to, same, "sub")) {
      const ValueId a = difference->operands[0], b = difference->operands[1];
      equal.push_back(Add(to, "neg", {Add(to, "sub", {b, a})}));
    }
  }

  // Adds the size of a dim that equals this constant.
  void VaryNumber(Graph& to, ValueId same, std::vector<ValueId>& equal) {
    const Node* constant = MadeBy(to, same, "constant");
    if (constant == nullptr || to.value(same).type.rank() != 0 || to.value(same).type.dtype == BOOL) return;
    const double number = constant->attrs.Get<double>("value");
    const DType dtype = to.value(same).type.dtype;
    for (size_t id = 0; id < to.values().size(); ++id) {
      const Shape shape = to.values()[id].type.shape;
      for (size_t d = 0; d < shape.size(); ++d) {
        if (static_cast<double>(shape[d]) != number) continue;
        equal.push_back(Add(to, "dimension_size", {static_cast<ValueId>(id)},
                            {{"dims", std::vector<int64_t>{static_cast<int64_t>(d)}}, {"dtype", dtype}}));
        return;
      }
    }
  }

  // ---- Code that nothing reads.

  void AddNumbers(Graph& to) {
    constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
    constexpr double kMost = std::numeric_limits<double>::infinity();
    const std::vector<double> some = {0.0, -0.0, 2.5}, all = {0.0, -0.0, kNone, kMost, -kMost};
    Number(to, Pick(options_.for_training ? some : all), Chance(50) ? F32 : F64);
  }

  void AddDead(Graph& to, ValueId id) {
    const Type type = to.value(id).type;
    const auto dims = [&] {
      std::vector<int64_t> list;
      for (int d = 0; d < type.rank(); ++d)
        if (Chance(60)) list.push_back(d);
      return Attrs{{"dims", list}};
    };
    if (IsStorage(type.dtype)) {
      Add(to, "tanh", {Add(to, "cast", {id}, {{"dtype", F32}})});
    } else if (type.dtype == BOOL) {
      Add(to, "not", {id});
    } else if (IsInteger(type.dtype)) {
      if (Chance(50)) Add(to, "add", {id, Number(to, 3, type.dtype)});
      else Add(to, "tanh", {Add(to, "cast", {id}, {{"dtype", F32}})});
    } else {
      constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
      constexpr double kMost = std::numeric_limits<double>::infinity();
      const double none = options_.for_training ? 0.5 : Chance(50) ? kNone : -kMost;
      switch (Below(6)) {
        case 0: Add(to, "tanh", {id}); break;
        case 1: Add(to, "mul", {id, Number(to, none, type.dtype)}); break;
        case 2: Add(to, "square", {Add(to, "reduce_sum", {id}, dims())}); break;
        case 3: Add(to, "reduce_max", {id}, dims()); break;
        case 4: Add(to, "cast", {Add(to, "cast", {id}, {{"dtype", BF16}})}, {{"dtype", type.dtype}}); break;
        default: Add(to, "add", {id, Add(to, "sin", {id})}); break;
      }
    }
  }

  std::mt19937_64& engine_;
  const TwinOptions options_;
  int first_that_differs_ = 0;
};

}  // namespace meshwork
