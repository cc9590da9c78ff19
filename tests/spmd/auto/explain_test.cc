#include "meshwork/ir/plan/explain.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/program_cost.h"
#include "meshwork/ir/row.h"
#include "meshwork/ir/text.h"
#include "meshwork/spmd/auto/cheaper_layouts.h"
#include "meshwork/spmd/compile.h"
#include "support/golden.h"

namespace meshwork::explain_test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

Graph ParseStep(std::string_view text) { return ParseGraph(text, "step.mw").value(); }

constexpr std::string_view kStep = R"(mesh [batch=2, model=4]
func step(%x: f32[64,32] {batch,_}, var %v: f32[32,16] {_,model}, var %adam/m/v: f32[32,16] {_,model}) {
  %y = matmul %x, %v : f32[64,16] {batch,_}
  %d = matmul %x, %y transpose_a=true
  %m = add %adam/m/v, %d
  %new = sub %v, %m
  update %v = %new
  update %adam/m/v = %m
  return y=%y
}
)";

TEST(ExplainTest, SumsWhatItsCollectivesCost) {
  const Program program = Compile(ParseStep(kStep)).value();
  const Topology topology =
      Topology::Create(program.body.mesh(), {{"batch", {1e9, 1e-5}}, {"model", {1e10, 1e-6}}}).value();
  const Explanation all = Explain(program, topology);
  ASSERT_EQ(all.collectives.size(), 2);
  // y, 2 KiB on a device, is gathered from four blocks; v's gradient, 32x4 on a device, is summed over two devices.
  EXPECT_EQ(all.collectives[0].op, "all_gather");
  EXPECT_EQ(all.collectives[0].group, 4);
  EXPECT_EQ(all.collectives[0].bytes, 32 * 16 * 4 * 3 / 4);
  EXPECT_NEAR(all.collectives[0].seconds, 2 * 1e-6 + 32 * 16 * 3 / 1e10, 1e-15);
  EXPECT_EQ(all.collectives[1].op, "all_reduce");
  EXPECT_EQ(all.collectives[1].bytes, 32 * 4 * 4);
  EXPECT_NEAR(all.collectives[1].seconds, 2 * 1e-5 + 32 * 4 * 4 / 1e9, 1e-15);
  EXPECT_EQ(all.cost.collectives, 2);
  EXPECT_EQ(all.cost.bytes, all.collectives[0].bytes + all.collectives[1].bytes);
  EXPECT_DOUBLE_EQ(all.cost.seconds, all.collectives[0].seconds + all.collectives[1].seconds);
  ASSERT_EQ(all.collectives[0].values.size(), 1);
  EXPECT_EQ(all.collectives[0].values[0].location, "step.mw:3");
  EXPECT_EQ(all.collectives[0].values[0].from, "{batch,model}");
  EXPECT_EQ(all.collectives[0].values[0].to, "{batch,_}");
}

// If no topology is known, no times are estimated.
TEST(ExplainTest, HasTimesOnlyWhereATopologyIsKnown) {
  const Explanation all = Explain(Compile(ParseStep(kStep)).value());
  EXPECT_THAT(ToText(all), Not(HasSubstr("µs")));
  EXPECT_THAT(ToText(all), HasSubstr("2 collectives, 2048 B on the wire per device:\n"));
  EXPECT_FALSE(ToJson(all).contains("seconds"));
  EXPECT_EQ(ToJson(all)["wire_bytes_per_device"], 2048);
}

// One device has all the rows of the slice, and sends seven; each of the others receives one.
TEST(ExplainTest, CountsTheBusiestLink) {
  const Explanation all = Explain(Compile(ParseStep(R"(mesh [x=8]
func step(%x: f32[64,64] {x,_}, %z: f32[8,64] {_,x}) {
  %y = slice %x start=[0,0] limit=[8,64] : f32[8,64] {x,_}
  %t = relayout %z {_,_}
  return y=%y, t=%t
}
)"))
                                      .value());
  ASSERT_EQ(all.collectives.size(), 2);
  const bool is_first = all.collectives[0].op == "exchange";
  const ExplainedCollective& exchange = all.collectives[is_first ? 0 : 1];
  EXPECT_EQ(exchange.bytes, 7 * 64 * 4);
  EXPECT_EQ(exchange.received, 64 * 4);
  EXPECT_THAT(ToText(all), HasSubstr("f32[64,64] {x,_}, 1792 B on the wire per device (256 B received)\n"));
  EXPECT_THAT(ToText(all), HasSubstr("f32[8,64] {_,x}, 1792 B on the wire per device\n"));
  EXPECT_THAT(ToText(all), HasSubstr("2 collectives, 3584 B on the wire per device (2048 B received):\n"));
  const nlohmann::ordered_json json = ToJson(all);
  EXPECT_EQ(json["wire_bytes_per_device"], 3584);
  EXPECT_EQ(json["received_bytes_per_device"], 2048);
  EXPECT_EQ(json["list"][is_first ? 0 : 1]["received_bytes_per_device"], 256);
  EXPECT_FALSE(json["list"][is_first ? 1 : 0].contains("received_bytes_per_device")) << "it is the same";
}

// Compiling with a suggested layout gives the cost that the suggestion states.
TEST(ExplainTest, CheaperLayoutsCostWhatIsSaid) {
  const Graph global = ParseStep(kStep);
  const Program program = Compile(global).value();
  const StepCost now = CostOf(program.body, {});
  const std::vector<LayoutChange> changes = CheaperLayouts(global, program, {}, {.most = 100}).changes;
  ASSERT_THAT(changes, Not(IsEmpty()));
  for (const LayoutChange& change : changes) {
    EXPECT_TRUE(std::pair(change.cost.bytes, change.cost.collectives) <
                std::pair(now.bytes, now.collectives));
    Graph changed = global;
    for (size_t id = 0; id < global.values().size(); ++id) {
      ValueInfo& info = changed.mutable_value(static_cast<ValueId>(id));
      const bool is_slot = change.value == "%v" && info.name == "adam/m/v";
      if ("%" + info.name != change.value && !is_slot) continue;
      ASSERT_EQ(info.layout->ToString(), change.from);
      info.layout = Layout::Parse(global.mesh(), change.to).value();
    }
    const Program other = Compile(changed).value();
    EXPECT_EQ(CostOf(other.body, {}).bytes, change.cost.bytes) << change.value << " " << change.to;
    EXPECT_EQ(CostOf(other.body, {}).peak_bytes, change.cost.peak_bytes);
    EXPECT_LE(CountFlops(other.body), 1.02 * CountFlops(program.body));
  }
}

// The ops of layer i, which makes x<i>: %x + tanh(%x · %a<i>) · %b<i>, and the new %b<i>.
std::string OpsOfLayer(int i, const std::string& x) {
  return fmt::format(
      "  %h{0} = matmul %{1}, %a{0}\n  %t{0} = tanh %h{0}\n  %p{0} = matmul %t{0}, %b{0}\n"
      "  %x{0} = add %{1}, %p{0}\n  %d{0} = matmul %t{0}, %x{0} transpose_a=true\n"
      "  %n{0} = sub %b{0}, %d{0}\n",
      i, x);
}

// A step whose layers repeat, and updates.
Graph RepeatedSteps(int layers, const std::string& of_a, const std::string& of_b) {
  std::string text = "mesh [batch=4, model=2]\nfunc step(%x: f32[64,64] {batch,_}", updates;
  for (int i = 0; i < layers; ++i)
    text += fmt::format(", var %a{0}: f32[64,256] {1}, var %b{0}: f32[256,64] {2}", i, of_a, of_b);
  text += ") {\n";
  std::string x = "x";
  for (int i = 0; i < layers; ++i) {
    text += OpsOfLayer(i, x);
    updates += fmt::format("  update %b{0} = %n{0}\n", i);
    x = fmt::format("x{}", i);
  }
  return ParseStep(text + updates + "  return y=%" + x + "\n}\n");
}

// A suggestion changes a value in all layers together.
TEST(ExplainTest, WhereLayersRepeatTheyChangeTogether) {
  int compared = 0;
  for (const auto& [of_a, of_b] :
       std::vector<std::pair<std::string, std::string>>{{"{_,_}", "{_,_}"},
                                                        {"{model,_}", "{model,_}"},
                                                        {"{_,model}", "{_,model}"},
                                                        {"{batch,_}", "{_,model}"}}) {
    SCOPED_TRACE(of_a + " " + of_b);
    const Graph global = RepeatedSteps(30, of_a, of_b);
    const Program program = Compile(global).value();
    const LayoutSearch search = CheaperLayouts(global, program, {}, {.most = 100});
    Explanation explanation = Explain(program);
    explanation.search = search;
    for (const LayoutChange& change : search.changes) {
      if (change.others < 15) continue;
      EXPECT_THAT(ToText(explanation),
                  HasSubstr(fmt::format("{}, and {} like it, {}", change.value, change.others, change.to)));
      // Layers near the ends may be changed by themselves.
      Graph changed = global;
      int64_t count = 0;
      for (const Argument& argument : global.arguments()) {
        ValueInfo& info = changed.mutable_value(argument.value);
        if (info.name[0] != change.value[1]) continue;
        if (std::stoi(info.name.substr(1)) < std::stoi(change.value.substr(2)) || count > change.others)
          continue;
        ++count;
        info.layout = Layout::Parse(global.mesh(), change.to).value();
      }
      ASSERT_EQ(count, change.others + 1);
      const StepCost then = CostOf(Compile(changed).value().body, {});
      EXPECT_EQ(change.cost.bytes, then.bytes) << change.value << " " << change.to;
      EXPECT_EQ(change.cost.peak_bytes, then.peak_bytes) << change.value << " " << change.to;
      EXPECT_EQ(std::ssize(change.collectives), then.collectives);
      ++compared;
    }
  }
  EXPECT_GE(compared, 4);
}

// Of many thousand ops one change that is cheaper is compiled, or two that are not: the best one that fewer layers have
// is among them, though the planner promises more of another one, or what is found sends half of what moves.
TEST(ExplainTest, OfALargeProgramTheBestChangeIsNamed) {
  for (const std::string of_both : {"{model,_}", "{_,model}"}) {
    const auto changes_of = [&](int layers) {
      const Graph global = RepeatedSteps(layers, of_both, of_both);
      return CheaperLayouts(global, Compile(global, {.verify = false}).value()).changes;
    };
    const std::vector<LayoutChange> few = changes_of(120), many = changes_of(1500);
    ASSERT_THAT(few, Not(IsEmpty()));
    ASSERT_EQ(many.size(), 1);
    EXPECT_EQ(many[0].value, few[0].value);
    EXPECT_EQ(many[0].to, few[0].to);
    EXPECT_GT(many[0].others, 1400);
  }
}

TEST(ExplainTest, NothingIsCheaperThanNothing) {
  const Graph global = ParseStep("mesh [x=2]\nfunc f(%a: f32[4] {x}) {\n  %0 = tanh %a\n  return y=%0\n}\n");
  EXPECT_THAT(CheaperLayouts(global, Compile(global).value()).changes, IsEmpty());
}

// Programs with loops, branches and manual regions are searched, too. A manual region has no rule.
TEST(ExplainTest, EveryProgramIsSearched) {
  int programs = 0;
  for (const std::string_view folder : {"spmd/cases", "spmd/compile"}) {
    for (const std::string& file : GoldenFiles(folder)) {
      SCOPED_TRACE(file);
      const std::string text = ReadGolden(file);
      const absl::StatusOr<Graph> global = ParseGraph(text.substr(0, text.find("----\n")));
      if (!global.ok()) continue;
      const absl::StatusOr<Program> program = Compile(*global);
      if (!program.ok()) continue;
      const LayoutSearch search = CheaperLayouts(*global, *program, {}, {.most_nodes = 1});
      EXPECT_LE(search.tried, search.layouts);
      ++programs;
    }
  }
  EXPECT_GE(programs, 100);
}

// Every layout that differs in one step from that of an argument.
std::vector<Layout> OneStepAway(const Layout& layout) {
  std::vector<Layout> all;
  const auto with = [&](int dim, AxisList axes) { return layout.WithDim(dim, std::move(axes)); };
  for (int d = 0; d < layout.rank(); ++d) {
    const AxisList& now = layout.dim(d);
    for (int axis = 0; axis < layout.mesh().num_axes(); ++axis) {
      AxisList more = now;
      more.push_back(axis);
      if (layout.mesh().axis(axis).size > 1 && !layout.ShardedAxes().Contains(axis))
        all.push_back(with(d, more));
    }
    if (now.empty()) continue;
    const Layout dropped = with(d, AxisList(now.begin(), now.end() - 1));
    all.push_back(dropped);
    for (int e = 0; e < layout.rank(); ++e) {
      AxisList moved = layout.dim(e);
      moved.push_back(now.back());
      if (e != d) all.push_back(dropped.WithDim(e, std::move(moved)));
    }
  }
  return all;
}

// The operations of a device, or the elements that it reads if these are more.
double Work(const Program& program) {
  double work = 0;
  for (const Node& node : program.body.nodes()) {
    if (node.row->kind != OpKind::kCompute) continue;
    double read = 0;
    for (ValueId id : node.operands) read += static_cast<double>(program.body.value(id).type.num_elements());
    work += std::max(FlopsOf(program.body, node), read);
  }
  return work;
}

// The least cost when one input is compiled with another layout, tried one by one.
std::pair<int64_t, int64_t> LeastByCompiling(const Graph& global, const Program& program) {
  const StepCost now = CostOf(program.body, {});
  std::pair<int64_t, int64_t> least(now.bytes, now.collectives);
  for (const Argument& argument : global.arguments()) {
    const ValueInfo& info = global.value(argument.value);
    if (!info.layout.has_value() || info.layout->is_strided() || !info.modes.empty()) continue;
    for (const Layout& layout : OneStepAway(*info.layout)) {
      Graph changed = global;
      changed.mutable_value(argument.value).layout = layout;
      const absl::StatusOr<Program> other = Compile(changed, {.verify = false});
      if (!other.ok() || Work(*other) > 1.02 * Work(program)) continue;
      const StepCost cost = CostOf(other->body, {});
      least = std::min(least, {cost.bytes, cost.collectives});
    }
  }
  return least;
}

// The planner selects layouts to compile; the best of all, found by compiling each, is most often among them.
TEST(ExplainTest, FindsWhatCompilingEachLayoutFinds) {
  int found = 0, programs = 0;
  std::string missed;
  for (const std::string& file : GoldenFiles("spmd/cases")) {
    const std::string text = ReadGolden(file);
    const absl::StatusOr<Graph> global = ParseGraph(text.substr(0, text.find("----\n")));
    if (!global.ok() || !global->updates().empty()) continue;
    const absl::StatusOr<Program> program = Compile(*global, {.verify = false});
    if (!program.ok()) continue;
    const StepCost now = CostOf(program->body, {});
    const std::pair<int64_t, int64_t> least = LeastByCompiling(*global, *program);
    if (least == std::pair(now.bytes, now.collectives)) continue;
    ++programs;
    const std::vector<LayoutChange> changes = CheaperLayouts(*global, *program).changes;
    if (!changes.empty() && std::pair(changes[0].cost.bytes, changes[0].cost.collectives) <= least) ++found;
    else missed += file + "\n";
  }
  EXPECT_GE(programs, 40);
  EXPECT_GE(found, programs - 2) << missed;
}

// Layers of different widths, whose gradients are summed over `batch`. A weight laid out along the other axis
// is paid for far from where it is read, in all values that are added to it.
Graph StepOfUnlikeLayers(int layers) {
  std::string arguments = "%x: f32[64,1024] {batch,_}", ops, updates, x = "x";
  for (int i = 0; i < layers; ++i) {
    const int width = 2048 + 64 * i;
    arguments +=
        fmt::format(", var %a{0}: f32[1024,{1}] {{_,_}}, var %b{0}: f32[{1},1024] {{_,_}}", i, width);
    ops += OpsOfLayer(i, x);
    updates += fmt::format("  update %b{0} = %n{0}\n", i);
    x = fmt::format("x{}", i);
  }
  return ParseStep("mesh [batch=4, model=2]\nfunc step(" + arguments + ") {\n" + ops + updates +
                   "  return y=%" + x + "\n}\n");
}

TEST(ExplainTest, ChangesOfEachKindAreCompiled) {
  const Graph global = StepOfUnlikeLayers(20);
  const Program program = Compile(global, {.verify = false}).value();
  Graph changed = global;
  for (const Argument& argument : global.arguments())
    if (ValueInfo& info = changed.mutable_value(argument.value); info.name == "b19")
      info.layout = Layout::Parse(global.mesh(), "{_,model}").value();
  const StepCost with_one = CostOf(Compile(changed, {.verify = false}).value().body, {});
  EXPECT_LT(with_one.bytes, CostOf(program.body, {}).bytes);
  const std::vector<LayoutChange> changes = CheaperLayouts(global, program).changes;
  ASSERT_THAT(changes, Not(IsEmpty()));
  EXPECT_LE(changes[0].cost.bytes, with_one.bytes);
}

// With loops, layouts are compiled for at most `most_nodes` nodes together, largest values first; the text says so.
TEST(ExplainTest, OfLoopsFewerLayoutsAreTried) {
  const std::string text = ReadGolden("spmd/compile/scan_carry.mw");
  const Graph global = ParseStep(text.substr(0, text.find("----\n")));
  const Program program = Compile(global).value();
  const LayoutSearch all = CheaperLayouts(global, program, {}, {.most = 100});
  EXPECT_EQ(all.tried, all.layouts);
  EXPECT_THAT(all.changes, Not(IsEmpty()));
  Explanation explanation = Explain(program);
  explanation.search = all;
  EXPECT_THAT(ToText(explanation), Not(HasSubstr("were looked at")));
  const auto nodes = static_cast<int64_t>(global.nodes().size());
  for (const int64_t most : {int64_t{1}, nodes - 1, nodes, 2 * nodes, 3 * nodes - 1, 3 * nodes}) {
    const LayoutSearch some = CheaperLayouts(global, program, {}, {.most = 100, .most_nodes = most});
    EXPECT_EQ(some.layouts, all.layouts);
    EXPECT_EQ(some.tried, std::max<int64_t>(1, most / nodes));
    explanation.search = some;
    EXPECT_THAT(ToText(explanation),
                HasSubstr(fmt::format("of {} other layouts {} were looked at\n", all.layouts, some.tried)));
    EXPECT_EQ(ToJson(explanation)["layouts_tried"], some.tried);
  }
}

// Hundreds of collectives, and buckets of hundreds of values, fit on a screen.
TEST(ExplainTest, IsShort) {
  std::string text = "mesh [x=2]\nfunc f(%a: f32[8,8] {x,_}) {\n";
  std::string at = "%a", results;
  for (int i = 0; i < 40; ++i) {
    text += fmt::format(
        "  %s{0} = reduce_sum {1} dims=[0]\n  %t{0} = matmul {1}, {1} transpose_a=true : f32[8,8] {{_,_}}\n"
        "  %u{0} = matmul {1}, %t{0}\n",
        i, at);
    at = fmt::format("%u{}", i);
    results += fmt::format("{}r{}=%s{}", i == 0 ? "" : ", ", i, i);
  }
  const Explanation all = Explain(Compile(ParseStep(text + "  return " + results + "\n}\n")).value());
  EXPECT_GT(all.collectives.size(), 30);
  const std::string shown = ToText(all);
  EXPECT_LT(std::count(shown.begin(), shown.end(), '\n'), 60);
  EXPECT_THAT(shown, HasSubstr("that cost less; the JSON form has all\n"));
  EXPECT_THAT(shown, HasSubstr(" more values\n"));
  EXPECT_EQ(ToJson(all)["list"].size(), all.collectives.size());
}

}  // namespace
}  // namespace meshwork::explain_test
