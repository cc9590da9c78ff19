#include "meshwork/plan/explain.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/text.h"
#include "meshwork/spmd/cheaper_layouts.h"
#include "meshwork/spmd/compile.h"
#include "support/golden.h"

namespace meshwork {
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
  // y, 2 KiB on a device, is put together of four blocks; v's gradient, 32x4 on a device, is summed over two.
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

// Where no topology is known, no times are made up.
TEST(ExplainTest, HasTimesOnlyWhereATopologyIsKnown) {
  const Explanation all = Explain(Compile(ParseStep(kStep)).value());
  EXPECT_THAT(ToText(all), Not(HasSubstr("µs")));
  EXPECT_THAT(ToText(all), HasSubstr("2 collectives, 2048 B on the wire per device:\n"));
  EXPECT_FALSE(ToJson(all).contains("seconds"));
  EXPECT_EQ(ToJson(all)["wire_bytes_per_device"], 2048);
}

// One device has all rows that are kept, and sends seven; each of the others receives one.
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

// What is promised of another layout is what compiling with it gives.
TEST(ExplainTest, CheaperLayoutsCostWhatIsSaid) {
  const Graph global = ParseStep(kStep);
  const Program program = Compile(global).value();
  const StepCost now = CostOf(program.body, {});
  const std::vector<LayoutChange> changes = CheaperLayouts(global, program, {}, 100).changes;
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

TEST(ExplainTest, NothingIsCheaperThanNothing) {
  const Graph global = ParseStep("mesh [x=2]\nfunc f(%a: f32[4] {x}) {\n  %0 = tanh %a\n  return y=%0\n}\n");
  EXPECT_THAT(CheaperLayouts(global, Compile(global).value()).changes, IsEmpty());
}

// Programs with loops, branches and manual regions, too. A manual region has no rule.
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
      const LayoutSearch search = CheaperLayouts(*global, *program, {}, 100, /*most_nodes=*/1);
      EXPECT_LE(search.tried, search.layouts);
      ++programs;
    }
  }
  EXPECT_GE(programs, 100);
}

// Of a large program so many as together are no larger than asked for, the largest values first; it is said.
TEST(ExplainTest, OfALargeProgramFewerLayoutsAreTried) {
  const Graph global = ParseStep(kStep);
  const Program program = Compile(global).value();
  const LayoutSearch all = CheaperLayouts(global, program, {}, 100);
  EXPECT_EQ(all.tried, all.layouts);
  Explanation explanation = Explain(program);
  explanation.search = all;
  EXPECT_THAT(ToText(explanation), Not(HasSubstr("were tried")));
  const auto nodes = static_cast<int64_t>(global.nodes().size());
  for (const int64_t most : {int64_t{1}, nodes - 1, nodes, 2 * nodes, 3 * nodes - 1, 3 * nodes}) {
    const LayoutSearch some = CheaperLayouts(global, program, {}, 100, most);
    EXPECT_EQ(some.layouts, all.layouts);
    EXPECT_EQ(some.tried, std::max<int64_t>(1, most / nodes));
    // %x is the largest.
    for (const LayoutChange& change : some.changes) EXPECT_EQ(change.value, "%x");
    explanation.search = some;
    EXPECT_THAT(ToText(explanation), HasSubstr(fmt::format("of {} other layouts {} were tried, those of the "
                                                           "largest values\n",
                                                           all.layouts, some.tried)));
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
}  // namespace meshwork
