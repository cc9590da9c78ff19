// Programs of repeated layers, of which only a few are compiled and then repeated.
#include "meshwork/spmd/short_program.h"

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/gradients.h"
#include "meshwork/ir/plan/explain.h"
#include "meshwork/ir/row.h"
#include "meshwork/ir/text.h"
#include "meshwork/ops/ops.h"
#include "meshwork/spmd/passes.h"
#include "meshwork/spmd/planner/solve_layouts.h"

namespace meshwork::short_program_test {
namespace {

constexpr std::string_view kPass = "repeat_layers";

// h = tanh(h · w), `count` times, and further ops.
std::string Layers(int count, const std::string& weights = "{_,model}", const std::string& last = "") {
  std::string text = "mesh [batch=4,model=2]\nfunc f(%h: f32[64,64] {batch,_}";
  for (int i = 0; i < count; ++i) text += fmt::format(", var %w{}: f32[64,64] {}", i, weights);
  text += ") {\n";
  for (int i = 0; i < count; ++i)
    text += fmt::format("  %p{0} = matmul {1}, %w{0}\n  %t{0} = tanh %p{0}\n", i,
                        i == 0 ? "%h" : fmt::format("%t{}", i - 1));
  return text + last + fmt::format("  return y=%t{}\n}}\n", count - 1);
}

ShortProgram ShortOf(const Graph& graph) {
  return Shortened(graph, RepeatsOf(graph, graph, {}, Replication())).value();
}

// The program compiled with all layers, and as Compile does it. Both are proven.
struct BothWays {
  absl::StatusOr<Program> all, quick;
};
BothWays Both(const Graph& graph) {
  return {CompileWith(graph, {}, {.left_out = {std::string(kPass)}}), Compile(graph)};
}
bool RunsPass(const Program& program) {
  return std::any_of(program.passes.begin(), program.passes.end(),
                     [](const PassTiming& timing) { return timing.pass == kPass; });
}

// The bytes of all layers are known from those of a few layers, before all layers are laid out.
TEST(ShortProgramTest, WhatSendsMoreThanAskedForIsNotMade) {
  for (const char* weights : {"{_,model}", "{batch,_}"}) {
    const Graph graph = ParseGraph(Layers(40, weights)).value();
    const int64_t bytes = CostOf(Compile(graph, {.verify = false}).value().body, {}).bytes;
    EXPECT_TRUE(CompileWith(graph, {.verify = false}, {.most_wire_bytes = bytes / 100 * 101}).ok())
        << weights;
    EXPECT_TRUE(absl::IsCancelled(
        CompileWith(graph, {.verify = false}, {.most_wire_bytes = bytes / 100 * 99}).status()))
        << weights;
  }
}

// Halos are sent once, not once per layer.
TEST(ShortProgramTest, HalosBesideLayersDoNotRepeat) {
  std::string text = Layers(40, "{_,model}", "  %c = conv %im, %k low=[4,4] high=[4,4]\n");
  text.replace(text.find("f("), 2, "f(%im: f32[8,64,64,8] {_,batch,_,_}, %k: f32[9,9,8,8] {_,_,_,_}, ");
  text.insert(text.rfind("\n}"), ", c=%c");
  const Graph graph = ParseGraph(text).value();
  const Program program = Compile(graph, {.verify = false}).value();
  EXPECT_TRUE(RunsPass(program));
  const int64_t bytes = CostOf(program.body, {}).bytes;
  EXPECT_TRUE(CompileWith(graph, {.verify = false}, {.most_wire_bytes = bytes / 100 * 101}).ok());
}

// Each op has the row and the types of the op that stands for it.
TEST(ShortProgramTest, IsAProgramOfTheSameOps) {
  const Graph graph =
      ParseGraph(Layers(40, "{_,model}", "  %u = add %t3, %t9\n  %v = mul %u, %p12\n")).value();
  const ShortProgram made = ShortOf(graph);
  EXPECT_LT(made.graph.nodes().size(), graph.nodes().size() / 2);
  for (size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node &node = graph.nodes()[n], &alike = made.graph.nodes()[made.node_of[n]];
    EXPECT_EQ(node.row, alike.row);
    for (size_t r = 0; r < node.results.size(); ++r)
      EXPECT_EQ(made.value_of[node.results[r]], alike.results[r]);
    for (size_t i = 0; i < node.operands.size(); ++i)
      EXPECT_EQ(graph.value(node.operands[i]).type, made.graph.value(alike.operands[i]).type);
  }
  for (ValueId id = 0; id < static_cast<ValueId>(graph.values().size()); ++id) {
    EXPECT_EQ(graph.value(id).type, made.graph.value(made.value_of[id]).type);
    EXPECT_EQ(graph.value(id).layout, made.graph.value(made.value_of[id]).layout);
  }
  // Layers near one that has another reader are not merged with the others.
  EXPECT_EQ(made.graph.value(made.value_of[graph.nodes()[2 * 9].results[0]]).name, "p9");
  EXPECT_EQ(made.graph.value(made.value_of[graph.nodes()[2 * 30].results[0]]).name,
            made.graph.value(made.value_of[graph.nodes()[2 * 31].results[0]]).name);
  EXPECT_EQ(made.graph.outputs().size(), graph.outputs().size());
}

TEST(ShortProgramTest, WeightsThatStayAreUpdated) {
  Graph graph(Mesh::Parse("batch=4,model=2").value());
  Value h = graph.Input("x", F32, {64, 64}, {"batch", UNSHARDED});
  std::vector<Variable> variables;
  std::vector<Value> weights;
  for (int i = 0; i < 20; ++i) {
    variables.push_back(
        graph.Var(fmt::format("w{}", i), Initializer{.type = {F32, {64, 64}}}, {UNSHARDED, "model"}));
    weights.push_back(variables.back());
    h = Tanh(MatMul(h, weights.back()));
  }
  const std::vector<Value> gradients = Gradients(ReduceMean(Square(h)), weights);
  for (size_t i = 0; i < weights.size(); ++i) graph.Update(variables[i], Sub(weights[i], gradients[i]));
  ASSERT_TRUE(graph.status().ok());
  const ShortProgram made = ShortOf(graph);
  std::vector<int> updates(made.graph.arguments().size(), 0);
  for (const VariableUpdate& update : made.graph.updates()) {
    ++updates[update.argument];
    EXPECT_GE(made.graph.value(update.value).node, 0);
  }
  int stay = 0;
  for (size_t i = 0; i < updates.size(); ++i) {
    if (!made.graph.arguments()[i].is_variable) continue;
    ++stay;
    EXPECT_EQ(updates[i], 1) << made.graph.argument_name(static_cast<int>(i));
  }
  EXPECT_LT(stay, static_cast<int>(graph.variables().size()) / 2);
}

// The step has the same bytes and collectives as if each layer were compiled by itself.
TEST(ShortProgramTest, TheStepIsThatOfAllLayers) {
  for (const std::string_view weights :
       {"{_,model}", "{model,_}", "{batch,_}", "{_,batch}", "", "{model,batch}"}) {
    SCOPED_TRACE(weights);
    const BothWays both = Both(ParseGraph(Layers(40, std::string(weights))).value());
    ASSERT_EQ(both.all.ok(), both.quick.ok()) << both.all.status() << both.quick.status();
    if (!both.all.ok()) {
      EXPECT_EQ(both.all.status().message(), both.quick.status().message());
      continue;
    }
    EXPECT_FALSE(RunsPass(*both.all));
    EXPECT_TRUE(RunsPass(*both.quick));
    const StepCost all = CostOf(both.all->body, {}), quick = CostOf(both.quick->body, {});
    EXPECT_EQ(quick.bytes, all.bytes);
    EXPECT_EQ(quick.collectives, all.collectives);
    EXPECT_EQ(quick.peak_bytes, all.peak_bytes);
  }
}

// A pin in the middle separates two runs of layers.
TEST(ShortProgramTest, WhatIsPinnedInTheMiddleIsAsPinned) {
  std::string text = Layers(60, "{_,model}");
  const std::string line = "  %t30 = tanh %p30\n";
  text.replace(text.find(line), line.size(), "  %t30 = tanh %p30 : f32[64,64] {_,batch}\n");
  const BothWays both = Both(ParseGraph(text).value());
  ASSERT_TRUE(both.all.ok() && both.quick.ok()) << both.all.status() << both.quick.status();
  EXPECT_TRUE(RunsPass(*both.quick));
  EXPECT_EQ(CostOf(both.quick->body, {}).bytes, CostOf(both.all->body, {}).bytes);
}

// Equal layers whose layouts alternate: a few do not stand for all, and no data moves.
TEST(ShortProgramTest, LayoutsThatAlternateStayAsTheyAre) {
  std::string text = "mesh [batch=4]\nfunc f(%h: f32[64,64] {batch,_}) {\n", h = "%h";
  for (int i = 0; i < 41; ++i) {
    text += fmt::format("  %a{0} = transpose {1} permutation=[1,0]\n  %t{0} = tanh %a{0}\n", i, h);
    h = fmt::format("%t{}", i);
  }
  const BothWays both = Both(ParseGraph(text + "  return y=" + h + "\n}\n").value());
  ASSERT_TRUE(both.all.ok() && both.quick.ok()) << both.all.status() << both.quick.status();
  EXPECT_TRUE(RunsPass(*both.quick));
  EXPECT_EQ(CostOf(both.all->body, {}).bytes, 0);
  EXPECT_EQ(CostOf(both.quick->body, {}).bytes, 0);
}

// Variables that are only written, like a statistic of each layer, are left out with their layers.
TEST(ShortProgramTest, VariablesThatNothingReads) {
  std::string text = "mesh [batch=4]\nfunc f(%h: f32[64,64] {batch,_}", updates, h = "%h";
  for (int i = 0; i < 40; ++i) text += fmt::format(", var %v{}: f32[64,64] {{batch,_}}", i);
  text += ") {\n";
  for (int i = 0; i < 40; ++i) {
    text += fmt::format("  %a{0} = tanh {1}\n  %t{0} = neg %a{0}\n", i, h);
    updates += fmt::format("  update %v{0} = %a{0}\n", i);
    h = fmt::format("%t{}", i);
  }
  const Graph graph = ParseGraph(text + updates + "  return y=" + h + "\n}\n").value();
  const ShortProgram made = ShortOf(graph);
  EXPECT_LT(made.graph.arguments().size(), 10);
  EXPECT_EQ(made.graph.updates().size() + 1, made.graph.arguments().size());
  const BothWays both = Both(graph);
  EXPECT_TRUE(RunsPass(both.quick.value()));
  EXPECT_EQ(CostOf(both.quick->body, {}).bytes, CostOf(both.all.value().body, {}).bytes);
}

// Weights that are gathered on use, and outputs of every layer.
TEST(ShortProgramTest, GathersOnUseAndOutputsOfLayers) {
  std::string text = "mesh [batch=4,model=2]\nfunc f(%h: f32[64,64] {batch,_}", outputs, h = "%h";
  for (int i = 0; i < 40; ++i) text += fmt::format(", var %w{}: f32[64,64] {{batch,_}} gather=on_use", i);
  text += ") {\n";
  for (int i = 0; i < 40; ++i) {
    text += fmt::format("  %m{0} = matmul {1}, %w{0}\n  %t{0} = tanh %m{0}\n", i, h);
    outputs += fmt::format("{}t{}=%t{}", i == 0 ? "" : ", ", i, i);
    h = fmt::format("%t{}", i);
  }
  const Graph graph = ParseGraph(text + "  return " + outputs + "\n}\n").value();
  const BothWays both = Both(graph);
  ASSERT_TRUE(both.all.ok() && both.quick.ok()) << both.all.status() << both.quick.status();
  EXPECT_TRUE(RunsPass(*both.quick));
  EXPECT_EQ(both.quick->body.outputs().size(), 40);
  EXPECT_EQ(CostOf(both.quick->body, {}).bytes, CostOf(both.all->body, {}).bytes);
  EXPECT_EQ(CostOf(both.quick->body, {}).peak_bytes, CostOf(both.all->body, {}).peak_bytes);
}

// Each pass dumps the whole program, even if it works on few layers.
TEST(ShortProgramTest, EveryPassShowsAllLayers) {
  std::map<std::string, size_t> nodes;
  const CompileOptions options = {.dump = [&](std::string_view pass, const Graph& graph) {
    nodes[std::string(pass)] = graph.nodes().size();
  }};
  ASSERT_TRUE(Compile(ParseGraph(Layers(40)).value(), options).ok());
  for (const char* pass : {"propagate", "insert_relayouts", "repeat_layers"})
    EXPECT_TRUE(nodes.contains(pass)) << pass;
  for (const auto& [pass, count] : nodes) EXPECT_GE(count, 80) << pass;
}

// A memory budget limits the whole program, so each layer is compiled.
TEST(ShortProgramTest, NotWithAMemoryBudget) {
  const absl::StatusOr<Program> program =
      Compile(ParseGraph(Layers(40)).value(), {.memory_budget = int64_t{1} << 30});
  ASSERT_TRUE(program.ok());
  EXPECT_FALSE(RunsPass(*program));
}

// Layers of a few ops with random pins: both ways are right, and send about the same.
TEST(ShortProgramTest, RandomLayers) {
  std::mt19937 random(7);
  const auto draw = [&](std::vector<std::string> of) { return of[random() % of.size()]; };
  const std::vector<std::string> layouts = {"",          "{_,model}",     "{model,_}",
                                            "{batch,_}", "{batch,model}", "{_,batch}"};
  int64_t all_bytes = 0, quick_bytes = 0;
  int compared = 0, short_ones = 0;
  for (int i = 0; i < 60; ++i) {
    const std::string a = draw(layouts), b = draw(layouts), pin = draw({"", "", "{batch,_}", "{_,model}"});
    const bool is_normed = random() % 2 == 0;
    const int count = 16 + static_cast<int>(random() % 16);
    std::string text = fmt::format("mesh [batch=4,model=2]\nfunc f(%h: f32[64,64] {}", draw(layouts));
    for (int l = 0; l < count; ++l)
      text += fmt::format(", %a{0}: f32[64,128] {1}, %b{0}: f32[128,64] {2}", l, a, b);
    text += ") {\n";
    std::string h = "%h";
    for (int l = 0; l < count; ++l) {
      text += fmt::format("  %m{0} = matmul {1}, %a{0}\n", l, h);
      if (is_normed) text += fmt::format("  %s{0} = reduce_mean %m{0} dims=[1] keep_dims=true\n", l);
      text +=
          is_normed ? fmt::format("  %n{0} = sub %m{0}, %s{0}", l) : fmt::format("  %n{0} = tanh %m{0}", l);
      text += pin.empty() ? "\n" : fmt::format(" : f32[64,128] {}\n", pin);
      text += fmt::format("  %o{0} = matmul %n{0}, %b{0}\n  %r{0} = add %o{0}, {1}\n", l, h);
      h = fmt::format("%r{}", l);
    }
    text += fmt::format("  return y={}\n}}\n", h);
    SCOPED_TRACE(text.substr(0, 160));
    const absl::StatusOr<Graph> graph = ParseGraph(text);
    ASSERT_TRUE(graph.ok()) << graph.status();
    const BothWays both = Both(*graph);
    ASSERT_EQ(both.all.ok(), both.quick.ok()) << both.all.status() << both.quick.status();
    if (!both.all.ok()) continue;
    ++compared;
    short_ones += RunsPass(*both.quick);
    all_bytes += CostOf(both.all->body, {}).bytes;
    quick_bytes += CostOf(both.quick->body, {}).bytes;
    EXPECT_LE(CostOf(both.quick->body, {}).bytes, 1.05 * CostOf(both.all->body, {}).bytes);
  }
  EXPECT_GE(compared, 40);
  EXPECT_EQ(short_ones, compared);
  EXPECT_LE(quick_bytes, 1.001 * all_bytes);
}

}  // namespace
}  // namespace meshwork::short_program_test
