// The command plan of the program meshwork. tests/spmd/auto/auto_layouts_test.cc tests which layouts are found.
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/ir/text.h"
#include "nlohmann/json.hpp"
#include "tools/cli/meshwork_tool.h"

namespace meshwork::meshwork_plan_test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr std::string_view kLayers = R"(mesh [x=8]
func layers(%h: f32[32,1024], var %in: f32[1024,8192], var %out: f32[8192,1024]) {
  %wide = matmul %h, %in
  %positive = relu %wide
  %y = matmul %positive, %out
  return y=%y
}
)";

TEST_F(MeshworkTest, PlanWritesTheProgramWithItsPins) {
  const std::string layers = File("layers.mw", kLayers), page = Path("laid_out.mw");
  const std::string table = Output({"plan", layers, "--memory-budget=12MiB", "--output", page});
  EXPECT_THAT(table, HasSubstr("%in {_,x}"));
  EXPECT_THAT(table, HasSubstr("%out {x,_}"));
  const Graph laid_out = ParseGraph(Contents(page)).value();
  EXPECT_EQ(laid_out.value(1).layout->ToString(), "{_,x}");
  EXPECT_EQ(Output({"plan", layers, "--memory-budget=12MiB", "--output", "-"}), Contents(page));
  // In the program that it writes, all layouts are pinned.
  EXPECT_THAT(Output({"plan", page}), HasSubstr("the program pins all"));
}

TEST_F(MeshworkTest, PlanSaysItInCpp) {
  const std::string layers = File("layers.mw", kLayers);
  EXPECT_EQ(Output({"plan", layers, "--memory-budget=12MiB", "--layout", "in={_,x}", "--cpp"}),
            "// Before the model, on the mesh [x=8]:\n// %y, of matmul (" + layers +
                ":5): WithLayout(x, {mw::UNSHARDED, \"x\"}).\n"
                "graph.SetLayouts({.layouts = {{\"h\", {mw::UNSHARDED, mw::UNSHARDED}},\n"
                "                              {\"out\", {\"x\", mw::UNSHARDED}}}});\n");
  const std::string cut = Output({"plan", layers, "--memory-budget=3MiB", "--num-devices=64", "--cpp"});
  EXPECT_THAT(cut, HasSubstr("devices:("));
  ExpectFails(Run({"plan", layers, "--cpp", "--json"}), 2,
              "meshwork plan: --cpp prints the best plan alone; leave --json and --price-pins out.");
  ExpectFails(Run({"plan", layers, "--cpp", "--output=-"}), 2,
              "meshwork plan: --output - and --cpp both write to standard output; name a file for one.");
}

TEST_F(MeshworkTest, PlanSaysWhatPinsCost) {
  const std::string layers = File("layers.mw", kLayers);
  const json plans = json::parse(Output({"plan", layers, "--memory-budget=12MiB", "--layout", "in={x,_}",
                                         "--price-pins", "--json", "--plans=1"}));
  ASSERT_EQ(plans.at("plans").size(), 1);
  EXPECT_EQ(plans.at("plans")[0].at("pins").size(), 2);
  ASSERT_EQ(plans.at("pin_prices").size(), 1);
  EXPECT_EQ(plans.at("pin_prices")[0].at("name"), "in");
  EXPECT_EQ(plans.at("pin_prices")[0].at("instead"), "{_,x}");
  EXPECT_GT(plans.at("pin_prices")[0].at("seconds"), 0);
  const json open = json::parse(
      Output({"plan", layers, "--memory-budget=12MiB", "--layout", "in={x,_}", "--open", "--json"}));
  EXPECT_EQ(open.at("plans")[0].at("pins").size(), 3);
  EXPECT_LT(open.at("plans")[0].at("seconds"), plans.at("plans")[0].at("seconds"));
}

TEST_F(MeshworkTest, PlanFitsIntoMemory) {
  const std::string layers = File("layers.mw", kLayers);
  const json tight = json::parse(Output({"plan", layers, "--memory-budget=12MiB", "--json"}));
  for (const json& plan : tight.at("plans")) EXPECT_LE(plan.at("peak_bytes"), 12 << 20);
  const Finished over = Run({"plan", layers, "--memory-budget=1MiB"});
  EXPECT_EQ(over.code, 1);
  EXPECT_THAT(over.err, HasSubstr("meshwork plan: FindLayouts: a device may hold 1048576 B"));
  ExpectFails(Run({"plan", layers, "--output=-", "--json"}), 2,
              "meshwork plan: --output - and --json both write to standard output; name a file for one.");
  const Finished itself = Run({"plan", layers, "--output", layers});
  EXPECT_EQ(itself.code, 2);
  EXPECT_THAT(itself.err, HasSubstr("--output"));
  EXPECT_EQ(Contents(layers), kLayers);
  const Finished nowhere = Run({"plan", layers, "--output", Path("none/plan.mw")});
  EXPECT_EQ(nowhere.code, 2);
  EXPECT_THAT(nowhere.err, HasSubstr("meshwork plan: --output: "));
}

// The program fits the budget only because its mask is computed again for the late reader. The plan says that
// the budget is needed.
TEST_F(MeshworkTest, PlanSaysWhatFitsOnlyWithTheBudget) {
  const std::string step = File("step.mw", R"(mesh [batch=2]
func step(%x: f32[8,64] {batch,_}, var %w: f32[64,256] {_,_}, %b: f32[64]) {
  %h = matmul %x, %w
  %0 = constant value=0 shape=[]
  %m = greater %x, %0
  %r = select %m, %x, %0
  %k = matmul %r, %w
  %s = add %h, %k
  %d = matmul %s, %w transpose_b=true
  %e = select %m, %d, %x
  %f = add %e, %b
  return f=%f
}
)");
  const json plans = json::parse(Output({"plan", step, "--memory-budget=75088", "--json"})).at("plans");
  EXPECT_TRUE(plans.at(0).at("fitted"));
  EXPECT_LE(plans.at(0).at("peak_bytes"), 75088);
  const std::string page = Path("laid_out.mw");
  EXPECT_THAT(Output({"plan", step, "--memory-budget=75088", "--output", page}),
              HasSubstr("fits only when it is compiled with this memory budget"));
  EXPECT_THAT(Output({"compile", page, "--memory-budget=75088", "--emit=stats"}), HasSubstr("memory"));
}

TEST_F(MeshworkTest, PlanFindsAMesh) {  // unnamed hosts: factors of one axis, the slow one for the examples
  const std::string layers = File("layers.mw", kLayers);
  const std::string pod = File("pod.json", R"({"axes": {"devices:(1)4": {"bandwidth": 1e9, "latency": 1e-5},
      "devices:(4)8": {"bandwidth": 1e11, "latency": 1e-6}}, "flops": 1e12})");
  const json plans = json::parse(
      Output({"plan", layers, "--num-devices=32", "--topology", pod, "--memory-budget=12MiB", "--json"}));
  EXPECT_EQ(plans.at("mesh"), "[devices=32]");
  EXPECT_EQ(plans.at("plans")[0].at("mesh"), "[devices=4*8]");
  EXPECT_EQ(plans.at("plans")[0].at("pins").size(), 3);
  // The pins of the program are opened, whatever the mesh that they were written for.
  const std::string pinned = File("pinned.mw", R"(mesh [a=2, b=2]
func layers(%h: f32[32,1024] {a,b}, var %in: f32[1024,8192], var %out: f32[8192,1024] {b,_}) {
  %wide = matmul %h, %in
  %positive = relu %wide : f32[32,8192] {_,a}
  %y = matmul %positive, %out
  return y=%y
}
)");
  const json opened = json::parse(
      Output({"plan", pinned, "--num-devices=32", "--topology", pod, "--memory-budget=12MiB", "--json"}));
  EXPECT_EQ(opened.at("plans")[0].at("pins"), plans.at("plans")[0].at("pins"));
  const std::string asked = File("asked.mw", R"(mesh [x=8]
func asked(%h: f32[32,1024]) {
  %there = relayout %h {x,_}
  return y=%there
}
)");
  const Finished moved = Run({"plan", asked, "--num-devices=8"});
  EXPECT_EQ(moved.code, 2);
  EXPECT_THAT(moved.err,
              HasSubstr("asked.mw:3) is written for the program's own mesh; name a mesh by --mesh.\n"));
  ExpectFails(
      Run({"plan", layers, "--num-devices=8", "--layout", "in={x,_}"}), 2,
      "meshwork plan: --num-devices opens all layouts, and --layout names one; leave one of them out.");
  ExpectFails(
      Run({"plan", layers, "--num-devices=8", "--price-pins"}), 2,
      "meshwork plan: --num-devices opens all layouts, so that no pin has a price; leave --price-pins out.");
  ExpectFails(Run({"plan", layers, "--num-devices=8", "--mesh", "x=8"}), 2,
              "meshwork plan: --num-devices and --mesh both say on which devices; name one of them.");
}

}  // namespace
}  // namespace meshwork::meshwork_plan_test
