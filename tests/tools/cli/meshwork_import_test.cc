// meshwork import as a shell sees it.
#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/io/file.h"
#include "meshwork/storage/safetensors.h"
#include "meshwork/storage/safetensors_file.h"
#include "support/contents.h"
#include "support/gguf_bytes.h"
#include "support/golden.h"
#include "support/safetensors_bytes.h"
#include "tools/cli/meshwork_tool.h"

namespace meshwork::meshwork_import_test {
namespace {

using nlohmann::ordered_json;
using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

// A small Llama: 4 heads of 8 rows, which share 2 heads of keys.
constexpr uint64_t kHidden = 32, kHeads = 4, kKeyHeads = 2, kHeadDim = 8, kInner = 64;
const std::vector<std::string> kTokens = {"<s>", "a", "b", "ab", "<user>", "\u0120"};

std::vector<std::string> LlamaKeys() {
  return {GgufKey("general.architecture", "llama"),
          GgufKey("general.name", "tiny"),
          GgufKey("llama.block_count", uint32_t{1}),
          GgufKey("llama.context_length", uint32_t{128}),
          GgufKey("llama.embedding_length", uint32_t{kHidden}),
          GgufKey("llama.feed_forward_length", uint32_t{kInner}),
          GgufKey("llama.attention.head_count", uint32_t{kHeads}),
          GgufKey("llama.attention.head_count_kv", uint64_t{kKeyHeads}),
          GgufKey("llama.attention.layer_norm_rms_epsilon", 1e-5f)};
}

std::vector<std::string> TokenizerKeys(const std::string& pre,
                                       const std::vector<std::string>& tokens = kTokens) {
  return {GgufKey("tokenizer.ggml.model", "gpt2"),
          GgufKey("tokenizer.ggml.pre", pre),
          GgufKey("tokenizer.ggml.tokens", tokens),
          GgufKey("tokenizer.ggml.token_type", std::vector<int32_t>{3, 1, 1, 1, 4, 1}),
          GgufKey("tokenizer.ggml.merges", std::vector<std::string>{"a b"}),
          GgufKey("tokenizer.ggml.bos_token_id", uint32_t{0}),
          GgufKey("tokenizer.ggml.eos_token_id", uint32_t{4})};
}

std::vector<std::string> operator+(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Numbers that tell rows and tensors apart.
GgufTensorBytes Floats(const std::string& name, const std::vector<uint64_t>& shape) {
  uint64_t elements = 1;
  for (uint64_t size : shape) elements *= size;
  std::string data;
  for (uint64_t i = 0; i < elements; ++i)
    data += NumberBytes(static_cast<float>(name.size()) * 1000 + static_cast<float>(i));
  return {.name = name, .shape = shape, .data = data};
}

std::vector<GgufTensorBytes> LlamaTensors() {
  GgufTensorBytes quantised{
      .name = "blk.0.ffn_up.weight", .shape = {kInner, kHidden}, .type = GgmlType::kQ4_1};
  for (uint64_t i = 0; i < kInner; ++i)
    quantised.data += std::string("\x00\x3c\x00\x38", 4) + std::string(16, static_cast<char>(i));
  return {Floats("token_embd.weight", {kTokens.size(), kHidden}),
          Floats("blk.0.attn_norm.weight", {kHidden}),
          Floats("blk.0.ffn_norm.weight", {kHidden}),
          Floats("blk.0.attn_q.weight", {kHeads * kHeadDim, kHidden}),
          Floats("blk.0.attn_k.weight", {kKeyHeads * kHeadDim, kHidden}),
          Floats("blk.0.attn_v.weight", {kKeyHeads * kHeadDim, kHidden}),
          Floats("blk.0.attn_output.weight", {kHidden, kHidden}),
          Floats("blk.0.ffn_gate.weight", {kInner, kHidden}),
          quantised,
          Floats("blk.0.ffn_down.weight", {kHidden, kInner}),
          Floats("output_norm.weight", {kHidden})};
}

class ImportToolTest : public MeshworkTest {
 protected:
  std::string Gguf(const std::vector<std::string>& keys, const std::vector<GgufTensorBytes>& tensors) const {
    return File("model.gguf", EncodeGguf(keys, tensors));
  }
  static Finished Import(std::vector<std::string> args) {
    args.insert(args.begin(), {"import", "gguf"});
    return Run(args);
  }
  // What the command says, with $ for this test's folder.
  std::string Succeeds(const std::vector<std::string>& args) const {
    const Finished finished = Import(args);
    EXPECT_EQ(finished.err, "");
    EXPECT_EQ(finished.code, 0);
    std::string out = finished.out;
    for (size_t at = 0; (at = out.find(dir(), at)) != std::string::npos;) out.replace(at, dir().size(), "$");
    return out;
  }
  // The message, behind the file's name; nothing is written.
  void ExpectRefused(const std::vector<std::string>& keys, const std::vector<GgufTensorBytes>& tensors,
                     const std::string& message) const {
    ExpectFails(Import({Gguf(keys, tensors), Path("refused")}), 2,
                fmt::format("meshwork import gguf: $/model.gguf: {}", message));
    EXPECT_THAT(Names("refused"), ElementsAre());
  }
  // What lies beside or in the test's folder, whose name begins so.
  std::vector<std::string> Names(const std::string& beginning) const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(dir()))
      if (entry.path().filename().string().starts_with(beginning)) names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }
  ordered_json ReadJson(const std::string& name) const { return ordered_json::parse(Contents(Path(name))); }
  std::map<std::string, Tensor> Weights(const std::string& folder) const {
    const auto read = ReadSafetensors(Path(folder + "/model.safetensors")).value();
    return {read.begin(), read.end()};
  }
  // The pre-tokenizer of a model whose file names it so.
  ordered_json PreTokenizer(const std::string& pre) const {
    Succeeds({Gguf(LlamaKeys() + TokenizerKeys(pre), LlamaTensors()), Path("pre"), "--force"});
    return ReadJson("pre/tokenizer.json").at("pre_tokenizer");
  }
};

TEST_F(ImportToolTest, HelpListsCommandsAndFlags) {
  ExpectGolden("tools/cli/meshwork_import_help.txt",
               fmt::format("$ meshwork import --help\n{}\n$ meshwork import gguf --help\n{}",
                           Output({"import", "--help"}), Succeeds({"--help"})));
}

TEST_F(ImportToolTest, MakesAFolderOfALlama) {
  const std::vector<GgufTensorBytes> tensors = LlamaTensors();
  EXPECT_EQ(Succeeds({Gguf(LlamaKeys() + TokenizerKeys("smollm"), tensors), Path("out")}),
            "$/out/model.safetensors: 11 tensors, 38.2 KiB\n"
            "$/out/config.json\n"
            "$/out/tokenizer.json: 6 tokens, 1 merge\n");
  EXPECT_THAT(Names("out"), ElementsAre("out"));
  EXPECT_EQ(ReadJson("out/config.json").dump(),
            R"({"model_type":"llama","hidden_size":32,"intermediate_size":64,"num_hidden_layers":1,)"
            R"("num_attention_heads":4,"num_key_value_heads":2,"head_dim":8,"rms_norm_eps":1e-05,)"
            R"("rope_theta":10000.0,"vocab_size":6,"max_position_embeddings":128,"tie_word_embeddings":true,)"
            R"("bos_token_id":0,"eos_token_id":4})");

  const std::map<std::string, std::string> names = {
      {"token_embd.weight", "model.embed_tokens.weight"},
      {"blk.0.attn_norm.weight", "model.layers.0.input_layernorm.weight"},
      {"blk.0.ffn_norm.weight", "model.layers.0.post_attention_layernorm.weight"},
      {"blk.0.attn_q.weight", "model.layers.0.self_attn.q_proj.weight"},
      {"blk.0.attn_k.weight", "model.layers.0.self_attn.k_proj.weight"},
      {"blk.0.attn_v.weight", "model.layers.0.self_attn.v_proj.weight"},
      {"blk.0.attn_output.weight", "model.layers.0.self_attn.o_proj.weight"},
      {"blk.0.ffn_gate.weight", "model.layers.0.mlp.gate_proj.weight"},
      {"blk.0.ffn_up.weight", "model.layers.0.mlp.up_proj.weight"},
      {"blk.0.ffn_down.weight", "model.layers.0.mlp.down_proj.weight"},
      {"output_norm.weight", "model.norm.weight"}};
  const std::map<std::string, Tensor> weights = Weights("out");
  EXPECT_EQ(weights.size(), names.size());
  for (const GgufTensorBytes& tensor : tensors) {
    const Tensor& written = weights.at(names.at(tensor.name));
    EXPECT_EQ(written.dtype(), F32);
    EXPECT_EQ(written.shape(), Shape(tensor.shape.begin(), tensor.shape.end()));
    const std::vector<double> numbers = GgmlNumbers(tensor.type, tensor.data);
    const bool is_turned =
        tensor.name.find("attn_q") != std::string::npos || tensor.name.find("attn_k") != std::string::npos;
    const uint64_t columns = tensor.shape.back();
    for (uint64_t i = 0; i < numbers.size(); ++i) {
      // Row 2i of a head is row i, and row 2i + 1 is row i + d/2.
      const uint64_t row = i / columns, in_head = row % kHeadDim;
      const uint64_t to = is_turned ? row - in_head + in_head / 2 + in_head % 2 * (kHeadDim / 2) : row;
      ASSERT_EQ(written.values<float>()[to * columns + i % columns], numbers[i]) << tensor.name << " " << i;
    }
  }
  EXPECT_EQ(SafetensorsFile::Open(Path("out/model.safetensors"))->metadata(),
            (SafetensorsMetadata{{"format", "pt"}}));
}

TEST_F(ImportToolTest, TakesWhatIsOptionalFromTheMetadata) {
  std::vector<GgufTensorBytes> tensors = LlamaTensors();
  tensors.push_back(Floats("output.weight", {7, kHidden}));
  tensors.push_back(Floats("rope_freqs.weight", {4}));
  tensors.push_back(Floats("blk.0.attn_k.bias", {kKeyHeads * kHeadDim}));
  tensors.push_back(Floats("blk.0.attn_strange.weight", {2}));
  tensors.push_back(Floats("blk.00.attn_q.weight", {2}));
  const std::string file =
      Gguf(LlamaKeys() + std::vector<std::string>{GgufKey("llama.rope.freq_base", 1e5f),
                                                  GgufKey("llama.rope.scaling.type", "linear"),
                                                  GgufKey("llama.attention.key_length", uint32_t{kHeadDim}),
                                                  GgufKey("llama.vocab_size", uint32_t{7})},
           tensors);
  EXPECT_EQ(Succeeds({file, Path("deep/er/out/")}),
            "$/deep/er/out/model.safetensors: 15 tensors, 39.5 KiB\n"
            "$/deep/er/out/config.json\n"
            "no tokenizer.json: the file has no tokenizer\n"
            "rope_freqs.weight is left out: config.json has no scales of rotary positions.\n"
            "kept their names, which Hugging Face's Llama does not have: blk.0.attn_strange.weight, "
            "blk.00.attn_q.weight\n"
            "llama.rope.scaling is left out: config.json has no scales of rotary positions.\n");
  const ordered_json config = ReadJson("deep/er/out/config.json");
  EXPECT_EQ(config.at("rope_theta"), 100000.0);
  EXPECT_EQ(config.at("vocab_size"), 7);
  EXPECT_EQ(config.at("tie_word_embeddings"), false);
  EXPECT_FALSE(config.contains("bos_token_id"));
  const std::map<std::string, Tensor> weights = Weights("deep/er/out");
  EXPECT_TRUE(weights.contains("lm_head.weight"));
  EXPECT_FALSE(weights.contains("rope_freqs.weight"));
  // 0, 2, 4, 6, 1, 3, 5, 7 of each head.
  const std::span<const float> bias = weights.at("model.layers.0.self_attn.k_proj.bias").values<float>();
  EXPECT_EQ(bias[1] - bias[0], 2);
  EXPECT_EQ(bias[4] - bias[0], 1);
  EXPECT_EQ(bias[8] - bias[0], 8);
}

TEST_F(ImportToolTest, WritesOtherDtypes) {
  std::vector<GgufTensorBytes> tensors = LlamaTensors();
  tensors[1].type = GgmlType::kBF16;
  tensors[1].data.resize(2 * kHidden);
  const std::string file = Gguf(LlamaKeys(), tensors);
  Succeeds({file, Path("out")});
  const std::map<std::string, Tensor> whole = Weights("out");
  EXPECT_EQ(whole.at("model.layers.0.input_layernorm.weight").dtype(), BF16);
  EXPECT_EQ(whole.at("model.layers.0.mlp.up_proj.weight").dtype(), F32);
  for (DType dtype : {F32, F16, BF16}) {
    Succeeds({file, Path("out"), "--dtype", std::string(DTypeName(dtype)), "--force"});
    for (const auto& [name, tensor] : Weights("out")) {
      EXPECT_EQ(tensor.dtype(), dtype);
      EXPECT_EQ(RawBytes(tensor), RawBytes(whole.at(name).Cast(dtype))) << name;
    }
  }
}

// Rows of q are put into Hugging Face's order in each part of their blocks.
TEST_F(ImportToolTest, KeepsBlocks) {
  std::vector<GgufTensorBytes> tensors = LlamaTensors();
  GgufTensorBytes q{.name = "blk.0.attn_q.weight", .shape = {kHidden, kHidden}, .type = GgmlType::kQ4_1};
  for (uint64_t row = 0; row < kHidden; ++row) {
    q.data += std::string(1, static_cast<char>(row)) + std::string("\x3c\x00", 2);
    q.data += std::string(1, static_cast<char>(row)) + std::string(16, static_cast<char>(16 + row));
  }
  GgufTensorBytes v{.name = "blk.0.attn_v.weight", .shape = {16, kHidden}, .type = GgmlType::kQ8_0};
  for (uint64_t row = 0; row < 16; ++row)
    v.data += std::string("\x00\x3c", 2) + std::string(32, static_cast<char>(row - 8));
  GgufTensorBytes bias{.name = "blk.0.attn_v.bias", .shape = {32}, .type = GgmlType::kQ8_0};
  bias.data = std::string("\x00\x3c", 2) + std::string(32, '\2');
  tensors[3] = q;
  tensors[5] = v;
  tensors.push_back(bias);
  Succeeds({Gguf(LlamaKeys(), tensors), Path("out"), "--keep-blocks", "--dtype", "bf16"});
  const std::map<std::string, Tensor> weights = Weights("out");
  EXPECT_EQ(weights.size(), tensors.size() + 2 + 2 + 1);

  const std::string name = "model.layers.0.self_attn.q_proj.weight";
  EXPECT_FALSE(weights.contains(name));
  const Tensor &numbers = weights.at(name + ".q"), &scale = weights.at(name + ".scale"),
               &zero = weights.at(name + ".zero");
  EXPECT_EQ(numbers.type().ToString(), "u8[32,1,16]");
  EXPECT_EQ(scale.type().ToString(), "f16[32,1]");
  EXPECT_EQ(zero.type().ToString(), "f16[32,1]");
  for (uint64_t row = 0; row < kHidden; ++row) {
    const uint64_t in_head = row % kHeadDim;
    const uint64_t to = row - in_head + in_head / 2 + in_head % 2 * (kHeadDim / 2);
    EXPECT_EQ(numbers.values<uint8_t>()[to * 16], 16 + row);
    EXPECT_EQ(scale.values<Float16>()[to].bits, 0x3c00 + row);
    EXPECT_EQ(zero.values<Float16>()[to].bits, row << 8);
  }
  const Tensor& of_v = weights.at("model.layers.0.self_attn.v_proj.weight.q");
  EXPECT_EQ(of_v.type().ToString(), "i8[16,1,32]");
  EXPECT_EQ(of_v.At({3, 0, 5}).value(), -5);
  EXPECT_FALSE(weights.contains("model.layers.0.self_attn.v_proj.weight.zero"));
  EXPECT_EQ(weights.at("model.layers.0.mlp.gate_proj.weight").dtype(), BF16);
  // No matrix.
  EXPECT_EQ(weights.at("model.layers.0.self_attn.v_proj.bias").type().ToString(), "bf16[32]");
}

TEST_F(ImportToolTest, KeepsNamesAndMetadataOfOtherArchitectures) {
  const std::string file =
      Gguf({GgufKey("general.architecture", "mamba"), GgufKey("mamba.block_count", uint32_t{3}),
            GgufKey("mamba.rate", 0.1f), GgufKey("mamba.fast", true),
            GgufKey("mamba.sizes", std::vector<int32_t>{1}), GgufKey("tokenizer.ggml.model", "llama")},
           {Floats("blk.0.attn_q.weight", {3, 2}), Floats("rope_freqs.weight", {2})});
  EXPECT_EQ(
      Succeeds({file, Path("out")}),
      "$/out/model.safetensors: 2 tensors, 224 B\n"
      "$/out/config.json\n"
      "no tokenizer.json: the tokenizer is \"llama\"; only gpt2, a byte-pair encoding, is imported\n"
      "the architecture is \"mamba\": tensors keep their names, and config.json has the metadata as it is; "
      "names and configs of Hugging Face are known for llama.\n");
  EXPECT_EQ(ReadJson("out/config.json").dump(),
            R"({"general.architecture":"mamba","mamba.block_count":3,"mamba.rate":0.1,"mamba.fast":true,)"
            R"("tokenizer.ggml.model":"llama"})");
  const Tensor q = Weights("out").at("blk.0.attn_q.weight");
  EXPECT_THAT(q.values<float>(), ElementsAre(19000, 19001, 19002, 19003, 19004, 19005));
  EXPECT_FALSE(std::filesystem::exists(Path("out/tokenizer.json")));
}

// ---- Tokenizers.

TEST_F(ImportToolTest, WritesATokenizer) {
  Succeeds({Gguf(LlamaKeys() + TokenizerKeys("smollm"), LlamaTensors()), Path("out")});
  const ordered_json tokenizer = ReadJson("out/tokenizer.json");
  EXPECT_EQ(tokenizer.at("model").at("type"), "BPE");
  EXPECT_EQ(tokenizer.at("model").at("vocab").dump(),
            "{\"<s>\":0,\"a\":1,\"b\":2,\"ab\":3,\"<user>\":4,\"\u0120\":5}");
  EXPECT_EQ(tokenizer.at("model").at("merges").dump(), R"(["a b"])");
  EXPECT_EQ(tokenizer.at("model").at("ignore_merges"), false);
  EXPECT_EQ(
      tokenizer.at("added_tokens").dump(),
      R"([{"id":0,"content":"<s>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,)"
      R"("special":true},{"id":4,"content":"<user>","single_word":false,"lstrip":false,"rstrip":false,)"
      R"("normalized":false,"special":false}])");
}

TEST_F(ImportToolTest, CutsTextsAsTheFileSays) {
  const std::string bytes =
      R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":)";
  EXPECT_EQ(PreTokenizer("gpt-2").dump(), bytes + "true}");
  EXPECT_EQ(PreTokenizer("default").dump(), bytes + "true}");
  EXPECT_EQ(PreTokenizer("smollm").dump(),
            R"({"type":"Sequence","pretokenizers":[{"type":"Digits","individual_digits":true},)" + bytes +
                "true}]}");
  EXPECT_EQ(
      PreTokenizer("llama-bpe").dump(),
      R"({"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":)"
      R"("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*)"
      R"(|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},"behavior":"Isolated","invert":false},)" +
          bytes + "false}]}");
  EXPECT_EQ(ReadJson("pre/tokenizer.json").at("model").at("ignore_merges"), true);
}

TEST_F(ImportToolTest, RefusesTokenizersThatDoNotFitTogether) {
  const auto refused = [&](const std::vector<std::string>& keys, const std::string& message) {
    ExpectRefused(LlamaKeys() + keys, LlamaTensors(), message);
  };
  refused(
      TokenizerKeys("viking"),
      "tokenizer.ggml.pre is \"viking\"; smollm, llama-bpe, gpt-2 and default are known. Report the model.");
  refused({GgufKey("tokenizer.ggml.model", uint8_t{1})},
          "tokenizer.ggml.model of the metadata must be a text.");
  refused({GgufKey("tokenizer.ggml.model", "gpt2")},
          "the metadata has no tokenizer.ggml.tokens, which is needed; get a file that has it.");
  refused({GgufKey("tokenizer.ggml.model", "gpt2"), GgufKey("tokenizer.ggml.tokens", std::vector<float>{1})},
          "tokenizer.ggml.tokens of the metadata must be an array of texts.");
  refused(TokenizerKeys("smollm", {"a", "b"}),
          "tokenizer.ggml.token_type must be an array of 2 whole numbers, one for each token.");
  refused(TokenizerKeys("smollm", {"a", "b", "c", "d", "e", "b"}),
          "tokens 1 and 5 are both \"b\"; tokens must be unique.");
  refused(TokenizerKeys("smollm", {"a", "b", "c", "\xff", "e", "f"}),
          "tokenizer.ggml.tokens[3] is \"\\ufffd\", which is not UTF-8; tokenizer.json cannot hold it.");
  refused({GgufKey("tokenizer.ggml.model", "gpt2"),
           GgufKey("tokenizer.ggml.tokens", std::vector<std::string>{"a"}),
           GgufKey("tokenizer.ggml.merges", std::vector<std::string>{"a b c"})},
          "the merge \"a b c\" is not two parts with a space between them.");
}

// ---- Mistakes.

TEST_F(ImportToolTest, RefusesModelsThatItDoesNotKnow) {
  const std::vector<GgufTensorBytes> tensors = LlamaTensors();
  ExpectRefused({}, tensors,
                "the metadata has no general.architecture, which is needed; get a file that has it.");
  const auto with = [&](const std::string& key) { return LlamaKeys() + std::vector<std::string>{key}; };
  ExpectRefused(with(GgufKey("llama.expert_count", uint32_t{8})), tensors,
                "llama.expert_count is not 0; mixtures of experts are not imported.");
  ExpectRefused(with(GgufKey("split.count", uint16_t{2})), tensors,
                "is one of several files of a model; merge them by llama-gguf-split --merge.");
  ExpectRefused(with(GgufKey("llama.rope.freq_base", uint32_t{2})), tensors,
                "llama.rope.freq_base of the metadata must be a real number.");
  const auto without = [&](size_t i, const std::string& key) {
    std::vector<std::string> keys = LlamaKeys();
    keys[i] = key;
    return keys;
  };
  ExpectRefused(without(4, GgufKey("unused", uint8_t{0})), tensors,
                "the metadata has no llama.embedding_length, which is needed; get a file that has it.");
  ExpectRefused(
      without(4, GgufKey("llama.embedding_length", uint32_t{33})), tensors,
      "llama.embedding_length is 33 and llama.attention.head_count 4; without llama.attention.key_length, "
      "the heads must divide the length.");
  ExpectRefused(without(6, GgufKey("llama.attention.head_count", uint32_t{0})), tensors,
                "llama.attention.head_count of the metadata must be a whole number of at least 1.");
  ExpectRefused(without(6, GgufKey("llama.attention.head_count", uint32_t{32})), tensors,
                "tensor \"blk.0.attn_q.weight\" is f32[32,32]; its rows must be pairs for each of 32 heads.");
  ExpectRefused(
      LlamaKeys(), {{.name = "w", .shape = {256}, .type = GgmlType{14}}},
      "tensor \"w\": is stored as Q6_K; F32, F16, BF16, Q4_0, Q4_1 and Q8_0 are read, convert the file to "
      "one of them.");
  ExpectFails(
      Import({Path("none.gguf"), Path("out")}), 2,
      "meshwork import gguf: $/none.gguf: cannot be read: No such file or directory; check the path.");
  ExpectFails(Import({Path("step.mw"), Path("out")}), 2,
              "meshwork import gguf: $/step.mw: begins with \"mesh\"; a GGUF file begins with \"GGUF\".");
  ExpectFails(Import({Path("none.gguf"), ""}), 2,
              "meshwork import gguf: DIR is empty; give the folder that is to be made.");
  ExpectFails(Run({"import"}), 2, "meshwork import: a command is missing. See --help.");
}

TEST_F(ImportToolTest, ReplacesOnlyWhatAnImportHasMade) {
  const std::string file = Gguf(LlamaKeys() + TokenizerKeys("smollm"), LlamaTensors());
  Succeeds({file, Path("out")});
  ExpectFails(Import({file, Path("out")}), 2,
              "meshwork import gguf: $/out: is there already; --force replaces it.");
  // The new folder has no tokenizer, so the old one is gone.
  Succeeds({Gguf(LlamaKeys(), LlamaTensors()), Path("out"), "--force"});
  EXPECT_FALSE(std::filesystem::exists(Path("out/tokenizer.json")));
  EXPECT_TRUE(std::filesystem::exists(Path("out/config.json")));
  File("out/notes.txt", "mine");
  ExpectFails(
      Import({file, Path("out"), "--force"}), 2,
      "meshwork import gguf: $/out: has \"notes.txt\", which no import writes; --force replaces the whole "
      "folder, so give another one or move that away.");
  ExpectFails(Import({file, file, "--force"}), 2,
              "meshwork import gguf: $/model.gguf: is no folder; give another name.");
  EXPECT_THAT(Names("out"), ElementsAre("out"));
}

// No file may be larger than 16 KiB: then a write fails, or where the signal is not ignored, the import is killed.
TEST_F(ImportToolTest, AFailedOrKilledImportChangesNothing) {
  Gguf(LlamaKeys() + TokenizerKeys("smollm"), LlamaTensors());
  const Finished failed = Shell(
      "trap '' XFSZ; ulimit -f 32; $0 import gguf model.gguf out 2> said; code=$?; sed 's@tmp-[0-9a-f]*@tmp-N@' said; exit $code");
  EXPECT_EQ(failed.code, 2);
  EXPECT_EQ(
      failed.out,
      "meshwork import gguf: out.tmp-N/model.safetensors: cannot be written: File too large; its directory must "
      "exist, be writable and have room. Nothing was changed.\n");
  EXPECT_THAT(Names("out"), ElementsAre());
  Shell("ulimit -f 32; $0 import gguf model.gguf out");
  EXPECT_THAT(Names("out"), testing::Each(testing::StartsWith("out.tmp-")));

  Succeeds({Path("model.gguf"), Path("out")});
  const std::string before = Contents(Path("out/model.safetensors"));
  Shell("ulimit -f 32; $0 import gguf model.gguf out --force --dtype f16");
  EXPECT_EQ(Contents(Path("out/model.safetensors")), before);
}

}  // namespace
}  // namespace meshwork::meshwork_import_test
