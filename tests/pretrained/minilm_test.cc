// all-MiniLM-L6-v2: a BERT whose last states are averaged to one vector per sentence (Reimers and Gurevych, arXiv 1908.10084).
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "meshwork.h"
#include "pretrained/pretrained.h"

namespace meshwork::minilm_test {
namespace {

constexpr int64_t kTokens = 30522, kPositions = 512, kUnits = 384, kLayers = 6, kHeads = 12, kHidden = 1536;
constexpr double kEpsilon = 1e-12;

class MiniLmTest : public PretrainedTest {
 protected:
  MiniLmTest() : PretrainedTest("minilm") {}
};

// tokens: i32[b,s], of which the first lengths[b] are real -> "states" [b,s,units], "embedding" [b,units] of length 1.
Graph Model(const Mesh& mesh, const Shape& tokens_shape) {
  Graph g(mesh);
  g.SetLayouts({.layouts = {{"tokens", {"batch", UNSHARDED}},
                            {"lengths", {"batch"}},
                            {"words/table", {"model", UNSHARDED}}},
                .missing_axes = MissingAxes::kShardNothing});
  const int64_t b = tokens_shape[0], s = tokens_shape[1];
  const Value tokens = g.Input("tokens", I32, tokens_shape), lengths = g.Input("lengths", I32, {b});
  const Value positions = Iota(g, {I32, {s}}, 0);
  const Value words = Embedding(g, "words", kTokens, kUnits)(tokens);
  const Value places = Embedding(g, "positions", kPositions, kUnits)(positions);
  const Value type = Embedding(g, "types", 2, kUnits)(Constant(g, 0, {I32, {1}}));
  Value x = LayerNormalization(g, "norm", kUnits, {.epsilon = kEpsilon})(words + places + type);
  const Value seen = BroadcastTo(ExpandDims(lengths, {1}), {b, s}, {0, 1});
  for (int64_t i = 0; i < kLayers; ++i) {
    const TransformerBlock block(
        g, fmt::format("block{}", i), kHeads, kHidden,
        {.attention = {.bias = true, .out_bias = true, .heads = "model"},
         .feed_forward = {.hidden = "model", .activation = [](const Operand& v) { return Gelu(v); }},
         .norm_first = false,
         .epsilon = kEpsilon});
    x = block(x, {.seen = seen});
  }
  const Value is_real = Cast(Less(ExpandDims(positions, {0}), ExpandDims(lengths, {1})), F32);  // [b,s]
  const Value sum = ReduceSum(x * ExpandDims(is_real, {2}), {1});
  g.Output("states", x * ExpandDims(is_real, {2}));
  g.Output("embedding", sum / Sqrt(ReduceSum(Square(sum), {1}, /*keep_dims=*/true)));
  return g;
}

LoadWeightsOptions Weights() {
  LoadWeightsOptions load{.rules = BlockWeightRules(PublishedBlock::kBert, "block*", "encoder.layer.*"),
                          .unused = {"pooler.*", "embeddings.position_ids"}};
  for (const auto& [variable, tensor] : {std::pair("words/table", "word_embeddings.weight"),
                                         {"positions/table", "position_embeddings.weight"},
                                         {"types/table", "token_type_embeddings.weight"},
                                         {"norm/scale", "LayerNorm.weight"},
                                         {"norm/offset", "LayerNorm.bias"}})
    load.rules.push_back({.variable = variable, .tensor = fmt::format("embeddings.{}", tensor)});
  return load;
}

// In f32, a product over k <= 1536 has an error of about sqrt(k) 2^-24 = 2.3e-6 of its largest result, and a text goes
// through 6 products in each of 6 layers, whose norms keep the sizes: 36 · 2.3e-6 = 8.4e-5 if all errors had one sign.
TEST_F(MiniLmTest, EmbeddingsAreThoseOfNumPyOnEveryMesh) {
  for (const char* mesh : kMeshes) {
    SCOPED_TRACE(mesh);
    absl::StatusOr<Session> session =
        Session::Create(Model(Mesh::VirtualCpus(mesh).value(), Expected("tokens").shape()));
    ASSERT_TRUE(session.ok()) << session.status();
    const absl::StatusOr<LoadedWeights> loaded =
        LoadWeights(*session, dir() + "/model.safetensors", Weights());
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_EQ(loaded->variables.size(), 5 + 16 * kLayers);
    const absl::StatusOr<StepResult> result =
        session->Predict({{"tokens", Expected("tokens")}, {"lengths", Expected("lengths")}});
    ASSERT_TRUE(result.ok()) << result.status();
    ExpectNear(mesh, "states", result->Get("states").value(), 1e-4);
    ExpectNear(mesh, "embedding", result->Get("embedding").value(), 1e-4);
  }
}

}  // namespace
}  // namespace meshwork::minilm_test
