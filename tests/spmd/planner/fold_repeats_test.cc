// Ops of repeated layers that are folded into one class.
#include "meshwork/spmd/planner/fold_repeats.h"

#include <algorithm>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "meshwork/ir/gradients.h"
#include "meshwork/ir/row.h"
#include "meshwork/ir/text.h"
#include "meshwork/ops/ops.h"

namespace meshwork::fold_repeats_test {
namespace {

// h = tanh(h · w), `count` times. `last`: further ops.
Graph Layers(int count, const std::string& last = "") {
  std::string text = "mesh [x=2]\nfunc f(%h: f32[8,8] {x,_}";
  for (int i = 0; i < count; ++i) text += fmt::format(", %w{}: f32[8,8]", i);
  text += ") {\n";
  for (int i = 0; i < count; ++i)
    text += fmt::format("  %p{0} = matmul {1}, %w{0}\n  %t{0} = tanh %p{0}\n", i,
                        i == 0 ? "%h" : fmt::format("%t{}", i - 1));
  return ParseGraph(text + last + fmt::format("  return y=%t{}\n}}\n", count - 1)).value();
}

int ClassesOf(const Graph& graph, int rounds) {
  return static_cast<int>(FoldAlike(graph, rounds, {}, {}).first.size());
}

TEST(FoldRepeatsTest, AsManyClassesForMoreLayers) {
  const int few = ClassesOf(Layers(12), 2);
  EXPECT_EQ(ClassesOf(Layers(13), 2), few);
  EXPECT_EQ(ClassesOf(Layers(100), 2), few);
  EXPECT_LT(few, 24);
  // Each round tells one more op at either end from the next op.
  EXPECT_EQ(ClassesOf(Layers(100), 4), few + 4);
}

// A node of a class reads values of the same classes as the first.
TEST(FoldRepeatsTest, ClassesOfNodesAreOnClassesOfValues) {
  const Graph graph = Layers(20, "  %u = add %t3, %t9\n  %v = mul %u, %p12\n");
  const Fold fold = FoldAlike(graph, 2, {}, {});
  const FoldedNodes nodes(graph, fold);
  ASSERT_EQ(nodes.size(), std::ssize(fold.first));
  for (size_t n = 0; n < fold.class_of.size(); ++n) {
    const Node &node = graph.nodes()[n], &alike = nodes[fold.class_of[n]];
    EXPECT_EQ(node.row, alike.row);
    for (size_t i = 0; i < node.operands.size(); ++i)
      EXPECT_EQ(fold.value_of[node.operands[i]], alike.operands[i]);
    EXPECT_EQ(fold.value_of[node.results[0]], alike.results[0]);
    EXPECT_EQ(graph.value(node.results[0]).type, graph.value(alike.results[0]).type);
  }
  // Layers 3, 9 and 12 have one reader more than the others.
  EXPECT_NE(fold.class_of[2 * 9 + 1], fold.class_of[2 * 7 + 1]);
}

TEST(FoldRepeatsTest, MarksTellApart) {
  const Graph graph = Layers(12);
  std::vector<uint64_t> marks(graph.values().size(), 0);
  const int without = static_cast<int>(FoldAlike(graph, 0, marks, {}).first.size());
  marks[graph.arguments()[5].value] = 1;
  EXPECT_EQ(static_cast<int>(FoldAlike(graph, 0, marks, {}).first.size()), without + 1);
  std::vector<uint64_t> of_nodes(graph.nodes().size(), 0);
  of_nodes[9] = 7;
  EXPECT_EQ(static_cast<int>(FoldAlike(graph, 0, {}, of_nodes).first.size()), without + 1);
}

// Values of constants alone are followed back to these, whose numbers decide whether a sum may stay pending.
TEST(FoldRepeatsTest, ConstantsAreToldApartFromAfar) {
  const Graph graph = ParseGraph(R"(mesh [x=2]
func f(%a: f32[4]) {
  %c = constant value=1 shape=[]
  %d = constant value=2 shape=[]
  %c1 = neg %c
  %d1 = neg %d
  %c2 = neg %c1
  %d2 = neg %d1
  %c3 = broadcast_to %c2 dims=[] shape=[4]
  %d3 = broadcast_to %d2 dims=[] shape=[4]
  %x = mul %a, %c3
  %y = mul %a, %d3
  return x=%x, y=%y
})")
                          .value();
  const Fold fold = FoldAlike(graph, 0, {}, {});
  EXPECT_NE(fold.class_of[8], fold.class_of[9]);
}

// The first and last repetition of each run stay; the rest is a program: each value is made before it is read.
TEST(SkipRepeatsTest, LeavesAProgramOfFewLayers) {
  const auto kept = [](int layers) {
    const Graph graph = Layers(layers);
    return SkipRepeats(graph, FoldAlike(graph, 2, {}, {})).first.size();
  };
  EXPECT_EQ(kept(12), kept(100));
  EXPECT_LT(kept(12), 14);
  EXPECT_EQ(kept(3), 6);
}

TEST(SkipRepeatsTest, GradientsAreLeftOutWithTheirLayers) {
  Graph graph(Mesh::Parse("x=2").value());
  Value h = graph.Input("h", F32, {8, 8}, {"x", UNSHARDED});
  std::vector<Value> weights;
  for (int i = 0; i < 20; ++i) {
    weights.push_back(graph.Input(fmt::format("w{}", i), F32, {8, 8}));
    h = Tanh(MatMul(h, weights.back()));
  }
  const std::vector<Value> gradients = Gradients(ReduceSum(h), weights);
  for (size_t i = 0; i < weights.size(); ++i)
    graph.Output(fmt::format("new_w{}", i), weights[i] - gradients[i]);
  const Fold fold = SkipRepeats(graph, FoldAlike(graph, 2, {}, {}));
  EXPECT_LT(fold.first.size(), graph.nodes().size() / 2);
  const FoldedNodes nodes(graph, fold);
  std::vector<bool> is_made(graph.values().size(), false);
  std::vector<ValueId> read;
  for (const Argument& argument : graph.arguments()) is_made[argument.value] = true;
  for (int n = 0; n < nodes.size(); ++n) {
    for (ValueId id : nodes[n].operands) {
      EXPECT_TRUE(is_made[id]) << "node " << n;
      EXPECT_EQ(fold.value_of[id], id);
    }
    for (ValueId id : nodes[n].results) is_made[id] = true;
  }
  // A layer's gradient reads values of that layer: tanh is read by the next product, and by two ops of the gradient.
  std::vector<int> readers(graph.values().size(), 0);
  for (int n = 0; n < nodes.size(); ++n)
    for (ValueId id : nodes[n].operands) ++readers[id];
  for (int n = 0; n < nodes.size(); ++n) {
    if (nodes[n].row->name != "tanh") continue;
    int all = 0;
    for (const Node& node : graph.nodes())
      all += static_cast<int>(std::count(node.operands.begin(), node.operands.end(), nodes[n].results[0]));
    EXPECT_EQ(readers[nodes[n].results[0]], all);
  }
}

TEST(FoldRepeatsTest, UnfoldedIsEachByItself) {
  const Graph graph = Layers(5);
  const Fold fold = Unfolded(graph);
  EXPECT_FALSE(fold.folds());
  EXPECT_EQ(fold.first.size(), graph.nodes().size());
}

}  // namespace
}  // namespace meshwork::fold_repeats_test
