#include "meshwork/ops/control/loops.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/ir/program_cost.h"
#include "meshwork/ir/regions.h"
#include "meshwork/ir/rewrite.h"
#include "meshwork/ops/control/marks.h"

namespace meshwork {
namespace {

// ---- Opening.

class Opener {
 public:
  explicit Opener(const Graph& from) : from_(from), to_(from.mesh()) {}

  OpenedGraph Run() && {
    to_.name = from_.name;
    std::vector<ValueId> map(from_.values().size(), kNoValue);
    for (const Argument& argument : from_.arguments())
      map[argument.value] =
          to_.AddArgument(from_.value(argument.value), argument.is_variable, argument.initializer);
    Write(from_, map, /*around=*/0);
    for (const VariableUpdate& update : from_.updates()) to_.AddUpdate({update.argument, map[update.value]});
    for (const OutputInfo& output : from_.outputs()) to_.AddOutput({output.name, map[output.value]});
    return {std::move(to_), std::move(loops_)};
  }

 private:
  void Write(const Graph& graph, std::vector<ValueId>& map, int around) {
    for (const Node& node : graph.nodes()) {
      if (IsControl(node)) {
        Open(graph, node, map, around);
        continue;
      }
      CopyNode(graph, node, to_, map);
    }
  }

  // `number`: of the argument or the result.
  ValueId AddMark(Mark mark, int loop, int64_t region, size_t number, std::initializer_list<ValueId> operands,
                  ValueInfo info) {
    const OpenedLoop& opened = loops_[loop];
    Node node{.row = &MarkRowOf(mark, opened.node),
              .attrs = {{"loop", static_cast<int64_t>(loop)},
                        {"region", region},
                        {"number", static_cast<int64_t>(number)},
                        {"length", TimesOf(opened.node)}},
              .location = opened.node.location};
    node.operands.assign(operands.begin(), operands.end());
    return to_.nodes()[to_.AddNode(std::move(node), {std::move(info)})].results[0];
  }

  // Adds a value that must lie as others do. If it has a pin of its own, a relayout takes it to that layout.
  template <typename Add>
  ValueId AddUnpinned(ValueInfo info, Add&& add) {
    if (!info.layout.has_value()) return add(std::move(info));
    ValueInfo open = info;
    open.name.clear();
    open.layout.reset();
    open.modes.clear();
    LayoutPin pin{*info.layout, info.modes};
    return AddRelayout(add(std::move(open)), std::move(pin), std::move(info));
  }

  void Open(const Graph& graph, const Node& node, std::vector<ValueId>& map, int around) {
    const auto loop = static_cast<int>(loops_.size());
    loops_.push_back({node, around});
    bodies_ += static_cast<int>(node.regions.size());
    if (IsManual(node)) return OpenManual(graph, node, map, loop);
    const int first_body = bodies_ - static_cast<int>(node.regions.size()) + 1;
    const ControlShape shape = ShapeOfControl(node);
    std::vector<std::vector<ValueId>> inner;
    for (size_t r = 0; r < node.regions.size(); ++r) {
      const Graph& region = *node.regions[r];
      std::vector<ValueId>& values = inner.emplace_back(region.values().size(), kNoValue);
      for (size_t a = 0; a < region.arguments().size(); ++a) {
        const ValueId id = region.arguments()[a].value;
        const auto number = static_cast<int>(a);
        const bool is_slice = number >= shape.carries && number < shape.carries + shape.slices;
        const auto add = [&](ValueInfo info) {
          return AddMark(is_slice ? Mark::kSlice : Mark::kEnter, loop, static_cast<int64_t>(r), a,
                         {map[node.operands[a + shape.first_argument]]}, std::move(info));
        };
        // Arguments get their names back when the body is closed.
        ValueInfo info = region.value(id);
        if (shape.first_argument > 0) info.name.clear();
        values[id] = shape.first_argument > 0 ? AddUnpinned(std::move(info), add) : add(std::move(info));
      }
      Write(region, values, first_body + static_cast<int>(r));
    }
    for (size_t r = 0; r < node.results.size(); ++r)
      map[node.results[r]] = Leave(graph.value(node.results[r]), loop, shape, r, inner, map);
  }

  // The result of a relayout of `id` to `pin`.
  ValueId AddRelayout(ValueId id, LayoutPin pin, ValueInfo info) {
    Node relayout{
        .row = &GetOp("relayout"), .attrs = {{"layout", std::move(pin)}}, .location = info.location};
    relayout.operands.push_back(id);
    info.layout.reset();
    info.modes.clear();
    return to_.nodes()[to_.AddNode(std::move(relayout), {std::move(info)})].results[0];
  }

  // Relayouts take the operands to the layouts that the region states. Its body stays closed.
  void OpenManual(const Graph& graph, const Node& node, std::vector<ValueId>& map, int loop) {
    const Graph& region = *node.regions[0];
    for (size_t a = 0; a < region.arguments().size(); ++a) {
      const ValueId operand = map[node.operands[a]];
      const ValueInfo& argument = region.value(region.arguments()[a].value);
      ValueInfo info{
          .type = to_.value(operand).type, .global = to_.value(operand).type, .location = node.location};
      const ValueId brought = AddRelayout(operand, {*argument.layout}, info);
      info.layout = argument.layout;
      AddMark(Mark::kManualEnter, loop, 0, a, {brought}, std::move(info));
    }
    for (size_t r = 0; r < node.results.size(); ++r) {
      const ValueInfo& user = graph.value(node.results[r]);
      const ValueId inside = region.outputs()[r].value;
      const Node& block = region.nodes()[region.value(inside).node];
      const Layout& lies = block.attrs.Get<LayoutPin>("layout").layout;
      ValueInfo info = user;
      info.layout = lies;
      info.modes.clear();
      if (!user.layout.has_value()) {
        map[node.results[r]] = AddMark(Mark::kManualLeave, loop, 0, r, {}, std::move(info));
        continue;
      }
      info.name.clear();
      const ValueId made = AddMark(Mark::kManualLeave, loop, 0, r, {}, std::move(info));
      map[node.results[r]] = AddRelayout(made, {*user.layout, user.modes}, user);
    }
  }

  ValueId Leave(const ValueInfo& info, int loop, const ControlShape& shape, size_t r,
                const std::vector<std::vector<ValueId>>& inner, const std::vector<ValueId>& map) {
    const Node node = loops_[loop].node;
    const Graph& body = *node.regions[0];
    if (node.row->control == ControlKind::kIf) {
      return AddUnpinned(info, [&](ValueInfo open) {
        return AddMark(Mark::kBranch, loop, 0, r,
                       {map[node.operands[0]], inner[0][body.outputs()[r].value],
                        inner[1][node.regions[1]->outputs()[r].value]},
                       std::move(open));
      });
    }
    const auto carry = static_cast<int>(r);
    if (carry >= shape.carries) {
      const int output = carry - shape.carries;
      return AddMark(output < shape.stacked ? Mark::kStack : Mark::kSum, loop, 0, r,
                     {inner[0][body.outputs()[output].value]}, info);
    }
    const ValueId old = inner[0][body.arguments()[r].value];
    ValueId next = old;
    for (const VariableUpdate& update : body.updates())
      if (update.argument == carry) next = inner[0][update.value];
    return AddUnpinned(info, [&](ValueInfo open) {
      if (node.row->control == ControlKind::kScan)
        return AddMark(Mark::kLeave, loop, 0, r, {next, old}, std::move(open));
      return AddMark(Mark::kLeave, loop, 0, r, {next, old, inner[0][body.outputs()[0].value]},
                     std::move(open));
    });
  }

  const Graph& from_;
  Graph to_;
  std::vector<OpenedLoop> loops_;
  int bodies_ = 0;
};

// ---- Closing.

constexpr int kNowhere = -1;  // of values that depend on no argument: they are written wherever they are read

class Closer {
 public:
  Closer(const Graph& from, const std::vector<OpenedLoop>& loops) : from_(from), loops_(loops) {
    int bodies = 1;
    for (const OpenedLoop& loop : loops) {
      first_body_.push_back(bodies);
      bodies += static_cast<int>(loop.node.regions.size());
    }
    nodes_.resize(bodies);
    enters_.resize(bodies);
    leaves_.resize(loops.size());
    maps_.resize(bodies);
    SortNodes();
  }

  Graph Run() && {
    Graph to(from_.mesh());
    to.name = from_.name;
    for (const Argument& argument : from_.arguments())
      maps_[0][argument.value] =
          to.AddArgument(from_.value(argument.value), argument.is_variable, argument.initializer);
    Write(0, to);
    for (const VariableUpdate& update : from_.updates())
      to.AddUpdate({update.argument, Read(update.value, 0, to)});
    for (const OutputInfo& output : from_.outputs()) to.AddOutput({output.name, Read(output.value, 0, to)});
    return to;
  }

 private:
  int BodyOf(const Node& mark) const {
    return first_body_[LoopOf(mark)] + static_cast<int>(MarkNumber(mark, "region"));
  }

  // Finds the body of every node: the one whose values the node reads.
  void SortNodes() {
    std::vector<int> body(from_.values().size(), kNowhere);
    for (const Argument& argument : from_.arguments()) body[argument.value] = 0;
    for (size_t n = 0; n < from_.nodes().size(); ++n) {
      const Node& node = from_.nodes()[n];
      int at = kNowhere;
      if (IsMark(node)) {
        at = loops_[LoopOf(node)].around;
        if (EntersBody(node)) enters_[BodyOf(node)].push_back(static_cast<int>(n));
        else leaves_[LoopOf(node)].push_back(static_cast<int>(n));
      } else {
        for (ValueId id : node.operands) {
          MESHWORK_CHECK(at == kNowhere || body[id] == kNowhere || at == body[id],
                         "{} reads values of two bodies", node.row->name);
          if (body[id] != kNowhere) at = body[id];
        }
      }
      if (at != kNowhere) nodes_[at].push_back(static_cast<int>(n));
      for (ValueId id : node.results) body[id] = EntersBody(node) ? BodyOf(node) : at;
    }
  }

  // `id` in the program that is written for a body. Values that depend on no argument are written there
  // first.
  ValueId Read(ValueId id, int body, Graph& to) {
    const std::map<ValueId, ValueId>& map = maps_[body];
    std::vector<ValueId> wanted = {id};  // the last one first: chains may be long
    while (!wanted.empty()) {
      const ValueId next = wanted.back();
      const size_t before = wanted.size();
      if (!map.contains(next)) {
        const Node& node = from_.nodes()[from_.value(next).node];
        for (size_t o = node.operands.size(); o-- > 0;)
          if (!map.contains(node.operands[o])) wanted.push_back(node.operands[o]);
        if (wanted.size() > before) continue;
        Copy(from_.value(next).node, body, to);
      }
      wanted.pop_back();
    }
    return map.at(id);
  }

  void Copy(int n, int body, Graph& to) {
    Node node = from_.nodes()[n];
    for (ValueId& id : node.operands) id = Read(id, body, to);
    Add(std::move(node), from_.nodes()[n].results, body, to);
  }

  void Add(Node node, std::span<const ValueId> results, int body, Graph& to) {
    std::vector<ValueInfo> infos;
    for (ValueId id : results) infos.push_back(from_.value(id));
    const int index = to.AddNode(std::move(node), std::move(infos));
    for (size_t r = 0; r < results.size(); ++r) maps_[body][results[r]] = to.nodes()[index].results[r];
  }

  void Write(int body, Graph& to) {
    for (int n : nodes_[body]) {
      const Node& node = from_.nodes()[n];
      if (!IsMark(node)) Copy(n, body, to);
      else if (!EntersBody(node) && n == leaves_[LoopOf(node)][0]) WriteLoop(LoopOf(node), body, to);
    }
  }

  // Called at the first mark of the loop's end: all values of the surrounding body that the loop reads are
  // written by then.
  void WriteLoop(int loop, int body, Graph& to) {
    Node node = loops_[loop].node;
    const ControlShape shape = ShapeOfControl(node);
    std::sort(leaves_[loop].begin(), leaves_[loop].end(), [&](int a, int b) {
      return MarkNumber(from_.nodes()[a], "number") < MarkNumber(from_.nodes()[b], "number");
    });
    MESHWORK_CHECK(leaves_[loop].size() == node.results.size(), "a mark of {} is gone", node.row->name);
    node.operands.clear();
    if (shape.first_argument > 0)
      node.operands.push_back(Read(from_.nodes()[leaves_[loop][0]].operands[0], body, to));
    for (int n : enters_[first_body_[loop]])
      node.operands.push_back(Read(from_.nodes()[n].operands[0], body, to));
    for (size_t r = 0; r < node.regions.size(); ++r)
      node.regions[r] = std::make_shared<const Graph>(
          IsManual(node) ? OnMeshOf(from_, *node.regions[r]) : WriteRegion(loop, static_cast<int>(r), shape));
    std::vector<ValueId> results;
    for (int n : leaves_[loop]) results.push_back(from_.nodes()[n].results[0]);
    Add(std::move(node), results, body, to);
  }

  // A body that stayed closed, on the mesh of `graph`, which may have been cut since.
  static Graph OnMeshOf(const Graph& graph, Graph region) {
    region.CutMesh(graph.mesh());
    return region;
  }

  Graph WriteRegion(int loop, int r, const ControlShape& shape) {
    const Graph& old = *loops_[loop].node.regions[r];
    const int body = first_body_[loop] + r;
    Graph region(from_.mesh());
    region.name = old.name;
    for (size_t a = 0; a < enters_[body].size(); ++a) {
      const ValueId id = from_.nodes()[enters_[body][a]].results[0];
      ValueInfo info = from_.value(id);
      info.name = old.argument_name(static_cast<int>(a));
      maps_[body][id] = region.AddArgument(std::move(info), static_cast<int>(a) < shape.carries);
    }
    Write(body, region);
    for (const VariableUpdate& update : old.updates()) {
      const Node& leave = from_.nodes()[leaves_[loop][update.argument]];
      region.AddUpdate({update.argument, Read(leave.operands[0], body, region)});
    }
    for (size_t o = 0; o < old.outputs().size(); ++o) {
      ValueId id = kNoValue;
      const Node& row = loops_[loop].node;
      if (row.row->control == ControlKind::kIf) id = from_.nodes()[leaves_[loop][o]].operands[1 + r];
      else if (row.row->control == ControlKind::kWhile) id = from_.nodes()[leaves_[loop][0]].operands[2];
      else id = from_.nodes()[leaves_[loop][shape.carries + o]].operands[0];
      region.AddOutput({old.outputs()[o].name, Read(id, body, region)});
    }
    return region;
  }

  const Graph& from_;
  const std::vector<OpenedLoop>& loops_;
  std::vector<int> first_body_;                   // per loop
  std::vector<std::vector<int>> nodes_;           // per body
  std::vector<std::vector<int>> enters_;          // per body: marks, in the order of the arguments
  std::vector<std::vector<int>> leaves_;          // per loop: marks
  std::vector<std::map<ValueId, ValueId>> maps_;  // per body
};

}  // namespace

bool HasLoops(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), IsControl);
}

OpenedGraph OpenLoops(const Graph& graph) { return Opener(graph).Run(); }

Graph CloseLoops(const Graph& graph, const std::vector<OpenedLoop>& loops) {
  return Closer(graph, loops).Run();
}

std::vector<ScanCarry> ScanCarries(const Graph& opened) {
  std::vector<ScanCarry> carries;
  for (size_t n = 0; n < opened.nodes().size(); ++n) {
    const Node& node = opened.nodes()[n];
    if (!IsMark(node, Mark::kLeave) || node.operands.size() != 2)
      continue;  // a third operand: the condition of a while
    carries.push_back({.enter = opened.value(node.operands[1]).node,
                       .leave = static_cast<int>(n),
                       .value = node.operands[1],
                       .next = node.operands[0],
                       .length = MarkNumber(node, "length")});
  }
  return carries;
}

bool LeavesCarry(const Node& node) { return IsMark(node, Mark::kLeave); }

bool IsExactMark(const Node& node) {
  return EntersBody(node) || IsMark(node, Mark::kLeave) || IsMark(node, Mark::kBranch) ||
         IsMark(node, Mark::kManualLeave);
}

int LoopOf(const Node& mark) { return static_cast<int>(MarkNumber(mark, "loop")); }

std::vector<int64_t> RunsOf(const Graph& opened) {
  std::vector<int64_t> of_value(opened.values().size(), 1), of_node;
  std::map<int, int64_t> around;  // per loop: how often it runs
  for (const Node& node : opened.nodes()) {
    int64_t runs = 1;
    for (ValueId id : node.operands) runs = std::max(runs, of_value[id]);
    int64_t within = runs;
    if (EntersBody(node)) {
      int64_t& loop = around[LoopOf(node)];
      loop = std::max(loop, runs);
      within = loop * MarkNumber(node, "length");
    } else if (IsMark(node)) {
      runs = within = around[LoopOf(node)];
    }
    of_node.push_back(std::max<int64_t>(runs, 1));
    for (ValueId id : node.results) of_value[id] = std::max<int64_t>(within, 1);
  }
  return of_node;
}

std::vector<std::pair<ValueId, ValueId>> AlikeAtMarks(const Graph& opened) {
  std::vector<std::pair<ValueId, ValueId>> alike;
  std::map<std::pair<int64_t, int64_t>, ValueId> entered;  // by loop and argument, in the first region
  for (const Node& node : opened.nodes()) {
    if (IsMark(node, Mark::kLeave)) {
      alike.emplace_back(node.operands[1], node.results[0]);
    } else if (EntersBody(node)) {
      const auto [it, is_first] =
          entered.try_emplace({MarkNumber(node, "loop"), MarkNumber(node, "number")}, node.results[0]);
      if (!is_first) alike.emplace_back(it->second, node.results[0]);
    }
  }
  return alike;
}

void AgreeAtMarks(Graph& graph) {
  for (const auto& [from, to] : AlikeAtMarks(graph))
    graph.mutable_value(to).layout = graph.value(from).layout;
}

}  // namespace meshwork
