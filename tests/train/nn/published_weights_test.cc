#include "meshwork/train/nn/published_weights.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "support/temp_dir.h"

namespace meshwork::published_weights_test {
namespace {

constexpr int64_t kUnits = 4, kHeads = 2, kHidden = 6;

class BlockWeightRulesTest : public TempDirTest {
 protected:
  // Loads two blocks "layers.0" and "layers.1" with these options from tensors [out,in] or [units] "h.0.NAME", …: element i of
  // each is its place in the file, in thousands, and i. Returns the session.
  Session Loaded(PublishedBlock kind, const TransformerBlockOptions& options,
                 const std::vector<std::pair<const char*, Shape>>& names) {
    std::vector<std::pair<std::string, Tensor>> file;
    for (int block = 0; block < 2; ++block)
      for (const auto& [name, shape] : names) {
        std::vector<float> numbers;
        for (int64_t i = 0; i < NumElements(shape); ++i)
          numbers.push_back(static_cast<float>(1000 * std::ssize(file) + i));
        file.emplace_back(fmt::format("h.{}.{}", block, name), Tensor::From<float>(shape, numbers));
      }
    EXPECT_TRUE(WriteSafetensors(Path("model.safetensors"), file).ok());
    Graph g(Mesh::VirtualCpus("model=2").value());
    Value x = g.Input("x", F32, {1, 3, kUnits});
    for (int i = 0; i < 2; ++i)
      x = TransformerBlock(g, fmt::format("layers.{}", i), kHeads, kHidden, options)(x);
    g.Output("y", x);
    Session session = Session::Create(g).value();
    const absl::StatusOr<LoadedWeights> loaded =
        LoadWeights(session, Path(""), {.rules = BlockWeightRules(kind, "layers.*", "h.*")});
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return session;
  }

  // Expects that element [i,j] of a variable is element [j,i] of the n-th tensor [out,in].
  static void ExpectKernel(const Session& session, const std::string& variable, int64_t n) {
    const Tensor kernel = session.Get(variable).value();
    const int64_t in = kernel.shape()[0], out = kernel.shape()[1];
    for (int64_t i = 0; i < in; ++i)
      for (int64_t j = 0; j < out; ++j)
        EXPECT_EQ(*kernel.At({i, j}), static_cast<double>(1000 * n + j * in + i)) << variable;
  }
  static void ExpectVector(const Session& session, const std::string& variable, int64_t n) {
    const Tensor vector = session.Get(variable).value();
    for (int64_t i = 0; i < vector.num_elements(); ++i)
      EXPECT_EQ(*vector.At({i}), static_cast<double>(1000 * n + i)) << variable;
  }
};

TEST_F(BlockWeightRulesTest, OfLlama) {
  const Shape square = {kUnits, kUnits}, units = {kUnits};
  const Session session = Loaded(PublishedBlock::kLlama,
                                 {.attention = {.bias = true, .heads = "model"},
                                  .feed_forward = {.activation = Silu, .gated = true, .bias = false},
                                  .norm = BlockNorm::kRms},
                                 {{"self_attn.q_proj.weight", square},
                                  {"self_attn.k_proj.weight", square},
                                  {"self_attn.v_proj.weight", square},
                                  {"self_attn.o_proj.weight", square},
                                  {"self_attn.q_proj.bias", units},
                                  {"self_attn.k_proj.bias", units},
                                  {"self_attn.v_proj.bias", units},
                                  {"mlp.gate_proj.weight", {kHidden, kUnits}},
                                  {"mlp.up_proj.weight", {kHidden, kUnits}},
                                  {"mlp.down_proj.weight", {kUnits, kHidden}},
                                  {"input_layernorm.weight", units},
                                  {"post_attention_layernorm.weight", units}});
  const char* const kernels[] = {"attention/query", "attention/key", "attention/value", "attention/out"};
  for (int64_t i = 0; i < 4; ++i) ExpectKernel(session, fmt::format("layers.1/{}", kernels[i]), 12 + i);
  for (int64_t i = 0; i < 3; ++i) ExpectVector(session, fmt::format("layers.1/{}_bias", kernels[i]), 16 + i);
  ExpectKernel(session, "layers.0/feed_forward/gate/kernel", 7);
  ExpectKernel(session, "layers.0/feed_forward/in/kernel", 8);
  ExpectKernel(session, "layers.0/feed_forward/out/kernel", 9);
  ExpectVector(session, "layers.0/norm1/scale", 10);
  ExpectVector(session, "layers.0/norm2/scale", 11);
}

TEST_F(BlockWeightRulesTest, OfBert) {
  const Shape square = {kUnits, kUnits}, units = {kUnits};
  const Session session = Loaded(PublishedBlock::kBert,
                                 {.attention = {.bias = true, .out_bias = true},
                                  .feed_forward = {.hidden = "model"},
                                  .norm_first = false},
                                 {{"attention.self.query.weight", square},
                                  {"attention.self.query.bias", units},
                                  {"attention.self.key.weight", square},
                                  {"attention.self.key.bias", units},
                                  {"attention.self.value.weight", square},
                                  {"attention.self.value.bias", units},
                                  {"attention.output.dense.weight", square},
                                  {"attention.output.dense.bias", units},
                                  {"attention.output.LayerNorm.weight", units},
                                  {"attention.output.LayerNorm.bias", units},
                                  {"intermediate.dense.weight", {kHidden, kUnits}},
                                  {"intermediate.dense.bias", {kHidden}},
                                  {"output.dense.weight", {kUnits, kHidden}},
                                  {"output.dense.bias", units},
                                  {"output.LayerNorm.weight", units},
                                  {"output.LayerNorm.bias", units}});
  const char* const products[] = {"query", "key", "value", "out"};
  for (int64_t i = 0; i < 4; ++i) {
    ExpectKernel(session, fmt::format("layers.1/attention/{}", products[i]), 16 + 2 * i);
    ExpectVector(session, fmt::format("layers.1/attention/{}_bias", products[i]), 17 + 2 * i);
  }
  ExpectVector(session, "layers.0/norm1/scale", 8);
  ExpectVector(session, "layers.0/norm1/offset", 9);
  ExpectKernel(session, "layers.0/feed_forward/in/kernel", 10);
  ExpectVector(session, "layers.0/feed_forward/in/bias", 11);
  ExpectKernel(session, "layers.0/feed_forward/out/kernel", 12);
  ExpectVector(session, "layers.0/feed_forward/out/bias", 13);
  ExpectVector(session, "layers.0/norm2/scale", 14);
  ExpectVector(session, "layers.0/norm2/offset", 15);
}

}  // namespace
}  // namespace meshwork::published_weights_test
