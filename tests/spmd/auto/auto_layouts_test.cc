// Layouts found without a pin cost no more than layouts written by hand, for the models that made each of
// these plans known.
#include "meshwork/spmd/auto/auto_layouts.h"

#include <filesystem>
#include <string>
#include <tuple>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/program.h"
#include "meshwork/ir/text.h"
#include "meshwork/ops/ops.h"
#include "spmd/by_hand.h"
#include "support/golden.h"

namespace meshwork::auto_layouts_test {
namespace {

using testing::HasSubstr;

// [batch, in] -> [batch, hidden] -> [batch, out], twice.
Graph Mlp(const std::string& mesh, bool is_pinned, int64_t batch, int64_t units, int64_t hidden,
          const LayoutSpec& rows, const LayoutSpec& columns, const LayoutSpec& x,
          Gathering gather = Gathering::kWithinBudget) {
  StepByHand step(mesh, is_pinned);
  Value h = step.Input("x", F32, {batch, units}, x);
  const Value target = step.Input("target", F32, {batch, units}, x);
  for (int layer = 0; layer < 2; ++layer) {
    const Value wide =
        Relu(MatMul(h, step.Weight(fmt::format("in{}", layer), {units, hidden}, columns, gather)));
    h = MatMul(wide, step.Weight(fmt::format("out{}", layer), {hidden, units}, rows, gather));
  }
  return step.Finish(ReduceMean(SquaredDifference(h, target)));
}

std::vector<ModelByHand> Models() {
  const LayoutSpec whole = {UNSHARDED, UNSHARDED}, rows = {"x", UNSHARDED}, columns = {UNSHARDED, "x"};
  std::vector<ModelByHand> models;
  // Many examples, few weights: the devices share the examples.
  models.push_back({"data_parallel", "x=8",
                    [=](bool pinned) { return Mlp("x=8", pinned, 4096, 64, 128, whole, whole, rows); }});
  // Few examples, wide layers: Megatron (Shoeybi et al., arXiv 1909.08053).
  models.push_back({"megatron", "x=8",
                    [=](bool pinned) { return Mlp("x=8", pinned, 32, 1024, 8192, rows, columns, whole); }});
  // Weights and gradients that do not fit whole: ZeRO stage 3.
  models.push_back(
      {"zero3",
       "x=8",
       [=](bool pinned) { return Mlp("x=8", pinned, 8192, 512, 2048, rows, rows, rows, Gathering::kOnUse); },
       40'000'000,
       {},
       /*gap=*/0.005});  // the bound is that of plans of any size
  // Distant hosts shard the examples, the devices of a host the weights.
  models.push_back({"hybrid", "host=4,device=8",
                    [](bool pinned) {
                      return Mlp("host=4,device=8", pinned, 512, 1024, 4096, {"device", UNSHARDED},
                                 {UNSHARDED, "device"}, {"host", UNSHARDED});
                    },
                    0,
                    R"({"axes": {"host": {"bandwidth": 1e9, "latency": 1e-5},
                                 "device": {"bandwidth": 1e11, "latency": 1e-6}}, "flops": 1e13})",
                    /*gap=*/0.03});  // the bound has no latencies
  // One long sequence: the devices share its tokens.
  models.push_back({"sequence", "x=8", [](bool pinned) {
                      const LayoutSpec by_tokens = {UNSHARDED, "x", UNSHARDED};
                      StepByHand step("x=8", pinned);
                      const Value x = step.Input("x", F32, {1, 4096, 64}, by_tokens);
                      const Value in = step.Weight("in", {64, 256}, {UNSHARDED, UNSHARDED});
                      const Value out = step.Weight("out", {256, 64}, {UNSHARDED, UNSHARDED});
                      const Value normed = x / Sqrt(ReduceMean(Square(x), {2}, true) + 1e-6);
                      return step.Finish(ReduceMean(Square(x + MatMul(Relu(MatMul(normed, in)), out))));
                    }});
  // The logits of a large vocabulary are cut along it.
  models.push_back({"vocabulary", "x=8", [=](bool pinned) {
                      StepByHand step("x=8", pinned);
                      const Value h = step.Input("h", F32, {64, 512}, whole);
                      const Value labels = step.Input("labels", I32, {64}, {UNSHARDED});
                      const Value w = step.Weight("w", {512, 32768}, columns);
                      return step.Finish(SparseSoftmaxCrossEntropy(MatMul(h, w), labels));
                    }});
  // The devices share the experts.
  models.push_back({"experts", "x=8", [](bool pinned) {
                      const LayoutSpec by_expert = {"x", UNSHARDED, UNSHARDED};
                      StepByHand step("x=8", pinned);
                      const Value x = step.Input("x", F32, {16, 64, 256}, by_expert);
                      const Value in = step.Weight("in", {16, 256, 1024}, by_expert);
                      const Value out = step.Weight("out", {16, 1024, 256}, by_expert);
                      return step.Finish(ReduceMean(Square(MatMul(Relu(MatMul(x, in)), out))));
                    }});
  // One huge image: the devices share its rows, and exchange the rows that windows need.
  models.push_back({"spatial", "x=8", [](bool pinned) {
                      const LayoutSpec by_rows = {UNSHARDED, "x", UNSHARDED, UNSHARDED};
                      const LayoutSpec filter = {UNSHARDED, UNSHARDED, UNSHARDED, UNSHARDED};
                      StepByHand step("x=8", pinned);
                      const Value x = step.Input("x", F32, {1, 1024, 1024, 4}, by_rows);
                      const Value w1 = step.Weight("w1", {3, 3, 4, 8}, filter);
                      const Value w2 = step.Weight("w2", {3, 3, 8, 4}, filter);
                      const ConvOptions same{.window = {.padding = WindowPadding::Same()}};
                      return step.Finish(ReduceMean(Square(Conv(Relu(Conv(x, w1, same)), w2, same))));
                    }});
  // A table that no device can hold, and examples that look up rows of it.
  models.push_back({"table", "x=8",
                    [=](bool pinned) {
                      StepByHand step("x=8", pinned);
                      const Value ids = step.Input("ids", I32, {256}, {"x"});
                      const Value table = step.Weight("table", {1 << 18, 64}, rows);
                      const Value top = step.Weight("top", {64, 64}, whole);
                      return step.Finish(ReduceMean(Square(MatMul(Gather(table, ids, 0), top))));
                    },
                    40'000'000});
  return models;
}

class AutoLayoutsTest : public testing::TestWithParam<ModelByHand> {};

TEST_P(AutoLayoutsTest, CostsNoMoreThanByHand) { ExpectCostsNoMoreThanByHand(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Models, AutoLayoutsTest, testing::ValuesIn(Models()),
                         [](const auto& info) { return info.param.name; });

// Programs of all kinds, with loops and manual regions, without the pins of their arguments: a plan is found
// and takes no longer than with the pins of the file.
TEST(FindLayoutsTest, OpenedProgramsCompile) {
  constexpr double kMore = 1.001;
  int count = 0, dearer = 0;
  for (const char* folder : {"cases", "compile", "choose_layouts", "open_loops"}) {
    for (const auto& entry :
         std::filesystem::directory_iterator(fmt::format("{}/spmd/{}", MESHWORK_TEST_DIR, folder))) {
      const std::string text =
          ReadGolden(fmt::format("spmd/{}/{}", folder, entry.path().filename().string()));
      const absl::StatusOr<Graph> graph = ParseGraph(text.substr(0, text.find("----\n")));
      if (!graph.ok()) continue;
      Graph open = *graph;
      for (ValueId id = 0; id < static_cast<ValueId>(open.values().size()); ++id) {
        ValueInfo& info = open.mutable_value(id);
        if (info.node >= 0) continue;
        info.layout.reset();
        info.modes.clear();
      }
      SCOPED_TRACE(entry.path().string());
      const absl::StatusOr<std::vector<FoundLayouts>> found = FindLayouts(open);
      ASSERT_TRUE(found.ok()) << found.status();
      ++count;
      const absl::StatusOr<Program> pinned = Compile(*graph);
      if (pinned.ok() && (*found)[0].seconds() > kMore * SecondsOf(*graph, {})) ++dearer;
    }
  }
  EXPECT_GT(count, 100);
  // The dearer ones need a cut of the mesh, which is not tried here, or have attention with fewer heads of
  // keys than of queries, or labels that Compile lays out better: it tries all layouts of a small program.
  EXPECT_LE(dearer, 9);
}

TEST(FindLayoutsTest, PinsOfTheUserStay) {
  const Graph graph = ParseGraph(R"(mesh [x=2]
func f(%a: f32[8,4] {_,x}, %w: f32[4,6]) {
  %h = matmul %a, %w
  return h=%h
})")
                          .value();
  const std::vector<FoundLayouts> found = FindLayouts(graph).value();
  EXPECT_EQ(found[0].graph.value(0).layout->ToString(), "{_,x}");
  ASSERT_EQ(found[0].pins.size(), 1);
  EXPECT_EQ(found[0].pins[0].name, "w");
}

TEST(FindLayoutsTest, SaysWhatMemoryIsLeastNeeded) {
  const Graph graph = Mlp("x=2", false, 64, 64, 64, {}, {}, {});
  const absl::StatusOr<std::vector<FoundLayouts>> found = FindLayouts(graph, {.memory_budget = 100});
  EXPECT_EQ(found.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(MessageOf(found.status())), HasSubstr("a device may hold 100 B"));
}

// Computing a mask again for its late reader needs less memory than any layout that takes no longer.
TEST(FindLayoutsTest, WhatIsComputedAgainIsAmongThePlans) {
  const Graph graph = ParseGraph(R"(mesh [batch=2]
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
})")
                          .value();
  const FoundLayouts fast = FindLayouts(graph).value()[0];
  EXPECT_FALSE(fast.is_fitted);
  const CompileOptions within = {.memory_budget = fast.cost.peak_bytes - 1200};
  const std::vector<FoundLayouts> found = FindLayouts(graph, within).value();
  EXPECT_TRUE(found[0].is_fitted);
  EXPECT_EQ(found[0].pins, fast.pins);
  EXPECT_LE(found[0].cost.peak_bytes, within.memory_budget);
  EXPECT_GT(found[0].compute_seconds, fast.compute_seconds);
  const Program program = Compile(found[0].graph, within).value();
  EXPECT_EQ(CostOf(program.body, {}).peak_bytes, found[0].cost.peak_bytes);
}

// Steps that take hours are searched, too, and so are steps whose memory has a high price.
TEST(FindLayoutsTest, LongStepsAreSearched) {
  const LayoutSpec whole = {UNSHARDED, UNSHARDED}, rows = {"x", UNSHARDED};
  const auto build = [&](bool is_pinned) {
    return Mlp("x=8", is_pinned, int64_t{1} << 20, 8192, 32768, whole, whole, rows);
  };
  const FoundLayouts found = FindLayouts(build(false)).value()[0];
  EXPECT_GT(found.seconds(), 3600);
  EXPECT_LT(found.gap, 1e-6);
  EXPECT_LE(found.seconds(), SecondsOf(build(true), {}) * 1.0001);
  const int64_t budget = found.cost.peak_bytes / 100 * 97;
  const FoundLayouts tight = FindLayouts(build(false), {.memory_budget = budget}).value()[0];
  EXPECT_LE(tight.cost.peak_bytes, budget);
}

// What MATCH dims and manual regions ask for stays, and the rest is searched.
TEST(FindLayoutsTest, AroundMatchesAndManualRegionsIsSearched) {
  for (const std::string_view text : {R"(mesh [x=2]
func f(%a: f32[8,4] {x,_}, %w: f32[4,6]) {
  %b = relayout %a {MATCH,_}
  %h = matmul %b, %w
  return h=%h
})",
                                      R"(mesh [x=2]
func f(%a: f32[8,4] {x,_}, %w: f32[4,6]) {
  %n = tanh %a
  %b = relayout %n {MATCH,?}
  %h = matmul %b, %w
  return h=%h
})"}) {
    const FoundLayouts found = FindLayouts(ParseGraph(text).value()).value()[0];
    EXPECT_EQ(found.gap, 0) << text;
    EXPECT_EQ(found.cost.bytes, 0) << text;
  }
  const std::string golden = ReadGolden("spmd/compile/manual_region.mw");
  const Graph manual = ParseGraph(golden.substr(0, golden.find("----\n"))).value();
  const FoundLayouts found = FindLayouts(manual).value()[0];
  EXPECT_EQ(found.gap, 0);
  EXPECT_LE(found.cost.bytes, CostOf(Compile(manual).value().body, {}).bytes);
}

// Several axes do as well as one axis of as many devices, and each result is known to be the best.
TEST(FindLayoutsTest, SeveralAxesCostNoMoreThanOneOfAsManyDevices) {
  for (const auto& [batch, units, hidden] :
       {std::tuple<int64_t, int64_t, int64_t>{4096, 64, 128}, {32, 1024, 8192}, {1024, 512, 1024}}) {
    const FoundLayouts one = FindLayouts(Mlp("x=8", false, batch, units, hidden, {}, {}, {})).value()[0];
    EXPECT_LT(one.gap, 1e-6);
    for (const std::string mesh : {"x=4,y=2", "x=2,q=1,y=4", "x=2,y=2,z=2"}) {
      SCOPED_TRACE(fmt::format("{} x {} x {} on {}", batch, units, hidden, mesh));
      const FoundLayouts several = FindLayouts(Mlp(mesh, false, batch, units, hidden, {}, {}, {})).value()[0];
      EXPECT_LE(several.seconds(), one.seconds() * 1.0001);
      EXPECT_LT(several.gap, 1e-6);
    }
  }
}

// An axis of size 1 between two others changes nothing.
TEST(FindLayoutsTest, AxesOfOneDeviceChangeNothing) {
  const std::string text = ReadGolden("spmd/cases/03_sequence_parallel_attention_step_2d.mw");
  const std::string pinned = "mesh [d=2, x=4]";
  const auto found_on = [&](const std::string& mesh) {
    std::string program = text.substr(0, text.find("\n----"));
    program.replace(program.find(pinned), pinned.size(), mesh);
    Graph graph = ParseGraph(program).value();
    for (ValueId id = 0; id < static_cast<ValueId>(graph.values().size()); ++id) {
      graph.mutable_value(id).layout.reset();
      graph.mutable_value(id).modes.clear();
    }
    return FindLayouts(graph).value()[0];
  };
  const FoundLayouts plain = found_on("mesh [d=2, x=2]"), apart = found_on("mesh [d=2, q=1, x=2]");
  EXPECT_EQ(apart.cost.bytes, plain.cost.bytes);
  EXPECT_LT(plain.gap, 1e-6);
  EXPECT_LT(apart.gap, 1e-6);
}

// There are millions of layouts of a large tensor on so many axes, and many orders of axes on one dim.
TEST(FindLayoutsTest, ManyAxesAreNotTriedOneByOne) {
  for (const std::string_view text : {R"(mesh [a=2, b=2, c=2, d=2, e=2, f=2, g=2, h=2, i=2]
func f(%x: f32[1024,1024,1024,1024]) {
  %h = relu %x
  return h=%h
})",
                                      R"(mesh [a=2, b=2, c=2, d=2, e=2, f=2, g=2, h=2]
func f(%x: f32[4096] {(a,b,c,d,e,f,g,h)}, %y: f32[4096] {(b,c,d,e,f,g,h,a)}, %z: f32[4096]) {
  %s = add %x, %y
  %t = add %s, %z
  return t=%t
})"}) {
    const absl::StatusOr<std::vector<FoundLayouts>> found = FindLayouts(ParseGraph(text).value());
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_GT((*found)[0].seconds(), 0);
  }
}

// A reshape joins the channels of a convolution with rows and columns of the image: there are more ways to
// shard the convolution's result than pairs of dims and axes.
TEST(FindLayoutsTest, SeveralAxesCutJoinedDimsAsOneDoes) {
  const auto seconds = [](const std::string& mesh) {
    const Graph graph = ParseGraph("mesh [" + mesh + R"(]
func f(%images: f32[128,28,28,1], %labels: f32[128,64], var %k: f32[3,3,1,32], var %w: f32[5408,64]) {
  %c = conv %images, %k
  %p, %i = max_pool %c window=[2,2] strides=[2,2]
  %q = reshape %p shape=[128,5408]
  %h = matmul %q, %w
  %d = sub %h, %labels
  %g = matmul %q, %d transpose_a=true
  %n = sub %w, %g
  update %w = %n
})")
                            .value();
    return FindLayouts(graph).value()[0].seconds();
  };
  const double one = seconds("x=8");
  EXPECT_LE(seconds("x=4,y=2"), one * 1.001);
  EXPECT_LE(seconds("x=2,y=4"), one * 1.001);
}

}  // namespace
}  // namespace meshwork::auto_layouts_test
