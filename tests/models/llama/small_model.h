// The files of a small Llama, with drawn weights, for tests.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "examples/llama/llama_config.h"
#include "fmt/format.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "meshwork/base/io/file.h"
#include "support/temp_dir.h"

namespace meshwork::llama_test {

using Doubles = std::vector<double>;

// What loops.h needs of a model whose files are in a folder.
struct Weights {
  std::map<std::string, std::pair<Shape, Doubles>> tensors;
  const Doubles& operator[](const std::string& name) const { return tensors.at(name).second; }
};

// A text of so many of the small model's tokens, each of which follows from the one before it.
inline std::vector<int32_t> Text(int64_t tokens) {
  std::vector<int32_t> text = {1};
  while (std::ssize(text) < tokens) text.push_back((text.back() * 7 + 3) % 23);
  return text;
}

// Tests that have the folder of a small model.
class SmallLlamaTest : public TempDirTest {
 protected:
  // Makes the folder of a small model, and returns its numbers.
  Weights Write(const LlamaConfig& c, const std::string& more = "") {
    EXPECT_TRUE(
        WriteFileAtomically(
            Path("config.json"),
            fmt::format(
                R"({{"model_type": "{}", "hidden_size": {}, "intermediate_size": {}, "num_hidden_layers": {},
"num_attention_heads": {}, "num_key_value_heads": {}, "head_dim": {}, "vocab_size": {}, "max_position_embeddings": {},
"rms_norm_eps": {}, "rope_theta": {}, "tie_word_embeddings": {}, "eos_token_id": [1, 2]{}{}}})",
                c.bias         ? "qwen2"
                : c.window > 0 ? "mistral"
                               : "llama",
                c.units, c.hidden, c.layers, c.heads, c.kv_heads, c.head, c.vocabulary, c.positions,
                c.epsilon, c.rotary.base, c.tied,
                c.window > 0 ? fmt::format(", \"sliding_window\": {}", c.window) : "", more))
            .ok());
    Weights weights;
    std::vector<std::pair<std::string, Tensor>> file;
    uint64_t state = 12345;
    const auto add = [&](const std::string& name, const Shape& shape, double center, double width) {
      std::vector<float> floats;
      for (int64_t i = 0; i < NumElements(shape); ++i) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        floats.push_back(
            static_cast<float>(center + width * (static_cast<double>(state >> 40) / (1 << 23) - 1)));
      }
      weights.tensors[name] = {shape, Doubles(floats.begin(), floats.end())};
      file.emplace_back(name, Tensor::From<float>(shape, floats));
    };
    add("model.embed_tokens.weight", {c.vocabulary, c.units}, 0, 1);
    add("model.norm.weight", {c.units}, 1, 0.3);
    if (!c.tied) add("lm_head.weight", {c.vocabulary, c.units}, 0, 1);
    for (int64_t layer = 0; layer < c.layers; ++layer) {
      const std::string of = fmt::format("model.layers.{}.", layer);
      for (const auto& [name, out, in] : {std::tuple("q", c.heads * c.head, c.units),
                                          {"k", c.kv_heads * c.head, c.units},
                                          {"v", c.kv_heads * c.head, c.units},
                                          {"o", c.units, c.heads * c.head}}) {
        add(fmt::format("{}self_attn.{}_proj.weight", of, name), {out, in}, 0, 0.6);
        if (c.bias && *name != 'o') add(fmt::format("{}self_attn.{}_proj.bias", of, name), {out}, 0, 0.5);
      }
      add(of + "mlp.gate_proj.weight", {c.hidden, c.units}, 0, 0.5);
      add(of + "mlp.up_proj.weight", {c.hidden, c.units}, 0, 0.5);
      add(of + "mlp.down_proj.weight", {c.units, c.hidden}, 0, 0.5);
      add(of + "input_layernorm.weight", {c.units}, 1, 0.3);
      add(of + "post_attention_layernorm.weight", {c.units}, 1, 0.3);
    }
    EXPECT_TRUE(WriteSafetensors(Path("model.safetensors"), file).ok());
    return weights;
  }

  // 3 heads of keys, which 2 and 4 devices share unevenly.
  static LlamaConfig Small() {
    LlamaConfig c{
        .units = 12, .hidden = 10, .layers = 2, .vocabulary = 23, .heads = 6, .kv_heads = 3, .head = 4};
    c.positions = 64;
    c.epsilon = 1e-5;
    c.rotary.base = 1000;
    c.tied = true;
    return c;
  }

  LlamaConfig Loaded() {
    const absl::StatusOr<LlamaConfig> loaded = LlamaConfig::Load(Path("config.json"));
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return *loaded;
  }
};

}  // namespace meshwork::llama_test
