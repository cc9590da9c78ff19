#include "meshwork/train/nn/transformer_block.h"

#include <cmath>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "meshwork.h"

namespace meshwork::transformer_block_test {
namespace {

constexpr int64_t kB = 3, kS = 5, kUnits = 8, kHeads = 4, kHidden = 6;
constexpr const char* kMeshes[] = {"batch=1,model=1", "batch=2,model=2", "batch=1,model=3"};

// The numbers of a variable, drawn by its place and name.
Tensor DrawnFor(const std::string& name, const Shape& shape) {
  std::vector<double> drawn;
  for (int64_t i = 0; i < NumElements(shape); ++i)
    drawn.push_back(
        static_cast<double>((i * 37 + static_cast<int64_t>(name.size()) * 11 + name.back()) % 23) / 11 - 1);
  return Tensor::From<double>(shape, drawn);
}

const Tensor kX = DrawnFor("x", {kB, kS, kUnits});

Session WithDrawnVariables(const Graph& g) {
  absl::StatusOr<Session> session = Session::Create(g, {.workers = 1, .own_cores = false});
  EXPECT_TRUE(session.ok()) << session.status();
  for (const std::string& name : session->variable_names()) {
    if (!name.starts_with("a/")) continue;
    EXPECT_TRUE(session->Set(name, DrawnFor(name, session->Get(name)->shape())).ok());
  }
  return *std::move(session);
}

std::vector<double> Numbers(const absl::StatusOr<StepResult>& result) {
  const Tensor y = result->Get("y").value();
  return {y.values<double>().begin(), y.values<double>().end()};
}

// The output "y" of a program of x.
std::vector<double> YOf(const Graph& g) {
  return Numbers(WithDrawnVariables(g).Evaluate({{"x", kX}}, {"y"}));
}

void ExpectNear(const std::vector<double>& have, const std::vector<double>& want) {
  ASSERT_EQ(have.size(), want.size());
  for (size_t i = 0; i < have.size(); ++i) EXPECT_NEAR(have[i], want[i], 1e-11) << i;
}

TEST(TransformerBlockTest, IsItsLayersWithNormsAndResiduals) {
  for (const bool is_rms : {false, true}) {
    for (const bool norm_first : {false, true}) {
      const MultiHeadAttentionOptions attention{
          .causal = true, .rotary = RotaryOptions(), .kv_heads = 2, .bias = true, .dtype = F64};
      const FeedForwardOptions feed_forward{.activation = Silu, .gated = true, .dtype = F64};
      Graph plain{Mesh()};
      {
        const auto norm = [&](const std::string& name, const Value& v) {
          return is_rms ? RmsNormalization(plain, name, kUnits, {.dtype = F64, .epsilon = 0.1})(v)
                        : LayerNormalization(plain, name, kUnits, {.dtype = F64, .epsilon = 0.1})(v);
        };
        const Value x = plain.Input("x", F64, {kB, kS, kUnits});
        const MultiHeadAttention f(plain, "a/attention", kUnits, kHeads, attention);
        const FeedForward g(plain, "a/feed_forward", kUnits, kHidden, feed_forward);
        if (norm_first) {
          const Value h = x + f(norm("a/norm1", x));
          plain.Output("y", h + g(norm("a/norm2", h)));
        } else {
          const Value h = norm("a/norm1", x + f(x));
          plain.Output("y", norm("a/norm2", h + g(h)));
        }
      }
      const std::vector<double> want = YOf(plain);
      for (const char* mesh : kMeshes) {
        SCOPED_TRACE(fmt::format("{} rms {} norm_first {}", mesh, is_rms, norm_first));
        TransformerBlockOptions options{.attention = attention,
                                        .feed_forward = feed_forward,
                                        .norm = is_rms ? BlockNorm::kRms : BlockNorm::kLayer,
                                        .norm_first = norm_first,
                                        .epsilon = 0.1,
                                        .dtype = F64};
        options.attention.heads = options.feed_forward.hidden = "model";
        options.attention.dtype = options.feed_forward.dtype = {};  // the block gives it
        Graph g(Mesh::VirtualCpus(mesh).value());
        const Value x = g.Input("x", F64, {kB, kS, kUnits}, {"batch", UNSHARDED, UNSHARDED});
        g.Output("y", TransformerBlock(g, "a", kHeads, kHidden, options)(x));
        ExpectNear(YOf(g), want);
      }
    }
  }
}

TEST(TransformerBlockTest, IsAScopeOfItsNameWhereverItIsCalled) {
  Graph g{Mesh()};
  std::optional<TransformerBlock> block;
  {
    const NameScope tower(g, "tower");
    block.emplace(g, "block3", kHeads, kHidden, TransformerBlockOptions{.dtype = F64});
  }
  const NameScope elsewhere(g, "elsewhere");
  const Value y = (*block)(g.Input("x", F64, {kB, kS, kUnits}));
  EXPECT_EQ(g.nodes()[g.value(y.id()).node].location.scope, "tower/block3");
  for (size_t i = 1; i < g.arguments().size(); ++i)
    EXPECT_TRUE(g.argument_name(static_cast<int>(i)).starts_with("tower/block3/"));
}

// Dropout that takes a whole branch of an example leaves what the other branch makes, times 1 / (1 - rate).
TEST(TransformerBlockTest, DropsElementsAndBranchesInTraining) {
  const auto made = [](double dropout, double drop_path) {
    Graph g{Mesh()};
    const Value x = g.Input("x", F64, {kB, kS, kUnits});
    g.Output("y", TransformerBlock(g, "a", kHeads, kHidden,
                                   {.dropout = dropout, .drop_path = drop_path, .dtype = F64})(x));
    return g;
  };
  const std::vector<double> undropped = YOf(made(0, 0));
  Session elements = WithDrawnVariables(made(0.5, 0)), branches = WithDrawnVariables(made(0, 0.9));
  ExpectNear(Numbers(elements.Evaluate({{"x", kX}})), undropped);
  ExpectNear(Numbers(branches.Evaluate({{"x", kX}})), undropped);
  EXPECT_NE(Numbers(elements.Run({{"x", kX}})), undropped);
  // Of 60 examples most have lost both branches, and are x.
  int whole = 0, changed = 0;
  const std::vector<double> x(kX.values<double>().begin(), kX.values<double>().end());
  for (int step = 0; step < 20; ++step) {
    const std::vector<double> y = Numbers(branches.Run({{"x", kX}}));
    for (int64_t b = 0; b < kB; ++b) {
      int64_t same = 0;
      for (int64_t i = b * kS * kUnits; i < (b + 1) * kS * kUnits; ++i)
        same += y[static_cast<size_t>(i)] == x[static_cast<size_t>(i)] ? 1 : 0;
      (same == kS * kUnits ? whole : changed) += 1;
    }
  }
  EXPECT_GT(whole, 40);
  EXPECT_GT(changed, 0);
}

}  // namespace
}  // namespace meshwork::transformer_block_test
