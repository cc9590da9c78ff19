// Layouts of whole models, found without a pin, against layouts that engineers write by hand.
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "meshwork/ops/ops.h"
#include "spmd/by_hand.h"

namespace meshwork::auto_models_test {
namespace {

// DLRM (Naumov et al., arXiv 1906.00091): a perceptron for numerical features, a table for each categorical feature,
// the products of all pairs, and a perceptron over these. By hand: the tables by rows, all else by examples.
Graph Dlrm(const std::string& mesh, const DimSpec& axes, int64_t units_of_row, bool is_pinned) {
  constexpr int64_t kBatch = 512, kMeasured = 16;
  const std::vector<int64_t> rows_of = {1 << 18, 1 << 16, 1 << 14, 1 << 12};
  const LayoutSpec by_examples = {axes, UNSHARDED}, whole = {UNSHARDED, UNSHARDED};
  StepByHand step(mesh, is_pinned);
  const auto perceptron = [&](Value x, const std::string& name, const std::vector<int64_t>& units) {
    for (size_t i = 0; i < units.size(); ++i) {
      const std::string dense = fmt::format("{}/dense{}", name, i);
      x = Relu(MatMul(x, step.Weight(dense + "/kernel", {x.shape()[1], units[i]}, whole)) +
               step.Weight(dense + "/bias", {units[i]}, {UNSHARDED}));
    }
    return x;
  };
  const Value measured = step.Input("measured", F32, {kBatch, kMeasured}, by_examples);
  const Value clicked = step.Input("clicked", F32, {kBatch, 1}, by_examples);
  std::vector<Value> features = {perceptron(measured, "bottom", {64, units_of_row})};
  for (size_t i = 0; i < rows_of.size(); ++i) {
    const Value ids = step.Input(fmt::format("ids{}", i), I32, {kBatch}, {axes});
    const Value table = step.Weight(fmt::format("table{}", i), {rows_of[i], units_of_row}, by_examples);
    features.push_back(Gather(table, ids, 0));
  }
  std::vector<Value> joined = {features[0]};
  for (size_t i = 0; i < features.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      joined.push_back(ReduceSum(features[i] * features[j], {1}, /*keep_dims=*/true));
  const Value top = perceptron(Concat(joined, 1), "top", {128, 64});
  const Value logits = MatMul(top, step.Weight("rating", {64, 1}, whole));
  return step.FinishWithAdam(ReduceMean(SquaredDifference(Sigmoid(logits), clicked)));
}

struct TransformerSizes {
  int64_t sequences, tokens, heads, units;
};

// A plan's layouts of a transformer's layer: activations between its blocks [sequences,tokens,units], queries
// [sequences,heads,tokens,units of a head], weights along the units inside the blocks.
struct TransformerLayouts {
  LayoutSpec between, heads, in, out;
};

// Two layers: LayerNorm, attention by heads and a residual, LayerNorm, an MLP with GELU and a residual.
Graph Transformer(const std::string& mesh, const TransformerSizes& n, const TransformerLayouts& layouts,
                  bool is_pinned) {
  StepByHand step(mesh, is_pinned);
  const Shape shape = {n.sequences, n.tokens, n.units};
  const auto norm = [&](const Value& x, const std::string& name) {
    const Value centred = x - ReduceMean(x, {2}, true);
    const Value normed = centred / Sqrt(ReduceMean(Square(centred), {2}, true) + 1e-6);
    return normed * step.Weight(name + "/scale", {n.units}, {UNSHARDED}) +
           step.Weight(name + "/offset", {n.units}, {UNSHARDED});
  };
  const auto attention = [&](const Value& x, const std::string& name) {
    const auto by_heads = [&](const std::string& which) {
      const Value flat = MatMul(x, step.Weight(name + "/" + which, {n.units, n.units}, layouts.in));
      const Value split = Reshape(flat, {n.sequences, n.tokens, n.heads, n.units / n.heads});
      return Transpose(split, {0, 2, 1, 3});
    };
    const Value q = step.Pinned(by_heads("q"), layouts.heads), k = by_heads("k"), v = by_heads("v");
    const double scale = 1 / std::sqrt(static_cast<double>(n.units / n.heads));
    const Value mixed = MatMul(Softmax(MatMul(q, k, false, true) * scale), v);
    return MatMul(Reshape(Transpose(mixed, {0, 2, 1, 3}), shape),
                  step.Weight(name + "/out", {n.units, n.units}, layouts.out));
  };
  const auto mlp = [&](const Value& x, const std::string& name) {
    const Value wide = Gelu(MatMul(x, step.Weight(name + "/in", {n.units, 4 * n.units}, layouts.in)));
    return MatMul(wide, step.Weight(name + "/out", {4 * n.units, n.units}, layouts.out));
  };
  Value x = step.Input("x", F32, shape, layouts.between);
  const Value target = step.Input("target", F32, shape, layouts.between);
  for (int layer = 0; layer < 2; ++layer) {
    const std::string name = fmt::format("block{}", layer);
    x = step.Pinned(x + attention(norm(x, name + "/norm1"), name + "/attention"), layouts.between);
    x = step.Pinned(x + mlp(norm(x, name + "/norm2"), name + "/mlp"), layouts.between);
  }
  return step.FinishWithAdam(ReduceMean(SquaredDifference(x, target)));
}

std::vector<ModelByHand> WholeModels() {
  std::vector<ModelByHand> models;
  // Plans that hold much more would be a little faster, or nothing is known but the time of the operations: these gaps
  // are not 0.
  models.push_back(
      {"dlrm", "x=8", [](bool pinned) { return Dlrm("x=8", "x", 32, pinned); }, 0, {}, /*gap=*/1e-4});
  // Rows with fewer units than there are devices.
  models.push_back({"dlrm_of_short_rows",
                    "x=8",
                    [](bool pinned) { return Dlrm("x=8", "x", 4, pinned); },
                    0,
                    {},
                    /*gap=*/1e-3});
  models.push_back({"dlrm_of_two_axes",
                    "x=4,y=2",
                    [](bool pinned) {
                      return Dlrm("x=4,y=2", {"x", "y"}, 32, pinned);
                    },
                    0,
                    {},
                    /*gap=*/0.005});
  models.push_back({"dlrm_of_three_axes",
                    "x=16,y=16,z=4",
                    [](bool pinned) {
                      return Dlrm("x=16,y=16,z=4", {"x", "y", "z"}, 32, pinned);
                    },
                    0,
                    {},
                    /*gap=*/0.03});
  // Wide layers: blocks by heads and units, activations between them by tokens (Korthikanti et al., arXiv
  // 2205.05198). Distant hosts shard the sequences.
  models.push_back({"sequence_parallel", "host=2,device=4",
                    [](bool pinned) {
                      return Transformer("host=2,device=4", {8, 256, 16, 1024},
                                         {.between = {"host", "device", UNSHARDED},
                                          .heads = {"host", "device", UNSHARDED, UNSHARDED},
                                          .in = {UNSHARDED, "device"},
                                          .out = {"device", UNSHARDED}},
                                         pinned);
                    },
                    0,
                    R"({"axes": {"host": {"bandwidth": 1e10, "latency": 1e-5},
                                 "device": {"bandwidth": 1e11, "latency": 1e-6}}, "flops": 1e13})",
                    /*gap=*/0.05});
  // One long sequence, narrow layers: the devices share its tokens, and attend to the keys of all.
  models.push_back({"long_sequence",
                    "x=8",
                    [](bool pinned) {
                      return Transformer("x=8", {1, 4096, 2, 64},
                                         {.between = {UNSHARDED, "x", UNSHARDED},
                                          .heads = {UNSHARDED, UNSHARDED, "x", UNSHARDED},
                                          .in = {UNSHARDED, UNSHARDED},
                                          .out = {UNSHARDED, UNSHARDED}},
                                         pinned);
                    },
                    0,
                    {},
                    /*gap=*/0.03});
  return models;
}

class AutoModelsTest : public testing::TestWithParam<ModelByHand> {};

TEST_P(AutoModelsTest, CostsNoMoreThanByHand) { ExpectCostsNoMoreThanByHand(GetParam()); }

INSTANTIATE_TEST_SUITE_P(WholeModels, AutoModelsTest, testing::ValuesIn(WholeModels()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace meshwork::auto_models_test
