// How well the example llama predicts a text, with whole weights and with weights in blocks, beside loops over doubles.
#include "examples/llama/text_loss.h"

#include <cmath>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "examples/llama/adapters.h"
#include "examples/llama/finetune.h"
#include "examples/llama/generator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "models/llama/loops.h"
#include "models/llama/small_model.h"

namespace meshwork::llama_test {
namespace {

using ::testing::HasSubstr;

// e to the mean cross-entropy of `parts` parts of `length` tokens.
double PerplexityByLoops(const LlamaConfig& c, const Weights& w, const std::vector<int32_t>& text,
                         int64_t parts, int64_t length) {
  double sum = 0;
  for (int64_t part = 0; part < parts; ++part) {
    const auto begin = text.begin() + part * length;
    const std::vector<Doubles> logits = LogitsOf(c, w, {begin, begin + length});
    for (int64_t i = 0; i < length; ++i) {
      double total = 0;
      for (const double x : logits[static_cast<size_t>(i)]) total += std::exp(x);
      sum += std::log(total) - logits[static_cast<size_t>(i)][static_cast<size_t>(begin[i + 1])];
    }
  }
  return std::exp(sum / static_cast<double>(parts * length));
}

class TextLossTest : public SmallLlamaTest {
 protected:
  double Perplexity(const std::string& mesh, const std::vector<int32_t>& text) {
    const absl::StatusOr<meshwork::Perplexity> perplexity =
        PerplexityOf(Loaded(), Mesh::VirtualCpus(mesh).value(), dir(), text,
                     {.text = {.batch = 2, .length = 7}, .session = {.workers = 1, .own_cores = false}});
    EXPECT_TRUE(perplexity.ok()) << perplexity.status();
    EXPECT_EQ(perplexity->tokens, (std::ssize(text) - 1) / 7 * 7);
    return perplexity->value;
  }

  // Puts the matrices of the folder into blocks, of 8 bits for the embedding and of 4 for the others, and returns the
  // numbers that they stand for. Adds the bytes of the file's tensors to `bytes`.
  Weights PutIntoBlocks(Weights weights, int64_t& bytes) {
    std::vector<std::pair<std::string, Tensor>> file;
    for (auto& [name, tensor] : weights.tensors) {
      auto& [shape, numbers] = tensor;
      const Tensor whole = Tensor::From<float>(shape, std::vector<float>(numbers.begin(), numbers.end()));
      if (shape.size() != 2) {
        file.emplace_back(name, whole);
        continue;
      }
      const QuantizedMatrix blocks =
          QuantizeMatrix(whole, {.bits = name == "model.embed_tokens.weight" ? 8 : 4}).value();
      file.emplace_back(name + ".q", blocks.q);
      file.emplace_back(name + ".scale", blocks.scale);
      if (blocks.zero.valid()) file.emplace_back(name + ".zero", blocks.zero);
      for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = NumberOf(blocks, i);
    }
    for (const auto& [name, tensor] : file) bytes += tensor.bytes();
    EXPECT_EQ(WriteSafetensors(Path("model.safetensors"), file), absl::OkStatus());
    return weights;
  }

  static double NumberOf(const QuantizedMatrix& blocks, size_t i) {
    const size_t block = i / 32, at = i % 32;
    const double scale = blocks.scale.values<Float16>()[block];
    if (!blocks.zero.valid()) return scale * blocks.q.values<int8_t>()[i];
    const uint8_t pair = blocks.q.values<uint8_t>()[block * 16 + at % 16];
    return scale * (at < 16 ? pair % 16 : pair / 16) + blocks.zero.values<Float16>()[block];
  }

  // All of its matrices have rows of whole blocks, two for each of two devices.
  static LlamaConfig InBlocks() {
    LlamaConfig c = Small();
    c.units = 64;
    c.hidden = 128;
    c.heads = 4;
    c.kv_heads = 2;
    c.head = 32;
    return c;
  }
};

TEST_F(TextLossTest, PerplexityIsThatOfLoopsOnEveryMesh) {
  const Weights weights = Write(Small());
  const std::vector<int32_t> text =
      Text(40);  // 5 parts of 7, the last one in a batch of its own; 4 are left out
  const double wanted = PerplexityByLoops(Small(), weights, text, 5, 7);
  for (const char* mesh : {"model=1", "model=3", "batch=2,model=2"})
    EXPECT_NEAR(Perplexity(mesh, text), wanted, 1e-4 * wanted) << mesh;
}

TEST_F(TextLossTest, WeightsInBlocksAreTheNumbersThatTheyStandFor) {
  LlamaConfig untied = InBlocks();
  untied.tied = false;
  for (const LlamaConfig& small : {InBlocks(), untied}) {
    const std::vector<int32_t> text = Text(40);
    const Weights whole = Write(small);
    int64_t bytes = 0;
    const Weights weights = PutIntoBlocks(whole, bytes);
    const double wanted = PerplexityByLoops(small, weights, text, 5, 7);
    EXPECT_GT(std::abs(PerplexityByLoops(small, whole, text, 5, 7) / wanted - 1), 1e-2)
        << "nothing was rounded";
    std::vector<int32_t> prompt = {3, 22, 0, 7, 7}, tokens = prompt, answer;
    for (int i = 0; i < 5; ++i) {
      answer.push_back(ArgmaxOf(LogitsOf(small, weights, tokens).back()));
      tokens.push_back(answer.back());
    }
    for (const char* mesh : {"model=1", "model=2", "batch=2,model=2"}) {
      SCOPED_TRACE(fmt::format("{}, tied {}", mesh, small.tied));
      EXPECT_NEAR(Perplexity(mesh, text), wanted, 1e-4 * wanted);
      absl::StatusOr<Generator> generator = Generator::Create(
          Loaded(), Mesh::VirtualCpus(mesh).value(), dir(), {.session = {.workers = 1, .own_cores = false}});
      ASSERT_TRUE(generator.ok()) << generator.status();
      std::vector<int32_t> written = {generator->Begin(0, prompt).value()};
      while (written.size() < answer.size()) written.push_back(generator->Next().value()[0]);
      EXPECT_EQ(written, answer);
      EXPECT_EQ(generator->loaded().bytes_read, bytes) << "nothing but what is stored is read";
    }
  }
}

// Adapters beside weights in blocks are those beside the numbers that the blocks stand for.
TEST_F(TextLossTest, AdaptersFitWeightsInBlocks) {
  int64_t bytes = 0;
  Weights weights = PutIntoBlocks(Write(InBlocks()), bytes);
  const std::string blocks = ReadFile(Path("model.safetensors")).value();
  std::vector<std::pair<std::string, Tensor>> whole;
  for (const auto& [name, tensor] : weights.tensors)
    whole.emplace_back(name, Tensor::From<float>(tensor.first, {tensor.second.begin(), tensor.second.end()}));
  ASSERT_EQ(WriteSafetensors(Path("model.safetensors"), whole), absl::OkStatus());
  FineTuneOptions tune{.text = {.batch = 2, .length = 7}, .steps = 3, .rate = 0.02};
  tune.session = {.workers = 1, .own_cores = false};
  const Mesh mesh = Mesh::VirtualCpus("model=2").value();
  absl::StatusOr<FineTuned> tuned = FineTune(Loaded(), mesh, dir(), Text(100), tune);
  ASSERT_TRUE(tuned.ok()) << tuned.status();
  std::filesystem::create_directories(Path("adapters"));
  ASSERT_EQ(SaveAdapters(tuned->session, Path("adapters"), tune.adapters, Loaded(), dir()), absl::OkStatus());
  const auto perplexity = [&](const std::string& adapters) {
    return PerplexityOf(Loaded(), mesh, dir(), Text(40),
                        {.text = tune.text, .adapters = adapters, .session = tune.session})
        .value()
        .value;
  };
  const double plain = perplexity(""), with_adapters = perplexity(Path("adapters"));
  File("model.safetensors", blocks);
  EXPECT_NEAR(perplexity(""), plain, 1e-5 * plain);
  EXPECT_NEAR(perplexity(Path("adapters")), with_adapters, 1e-5 * with_adapters);
  EXPECT_GT(std::abs(with_adapters / plain - 1), 1e-3) << "the adapters do nothing";
}

TEST_F(TextLossTest, ComputesInBf16) {
  const Weights weights = Write(Small());
  const std::vector<int32_t> text = Text(40);
  const double wanted = PerplexityByLoops(Small(), weights, text, 5, 7);
  const absl::StatusOr<meshwork::Perplexity> perplexity =
      PerplexityOf(Loaded(), Mesh::VirtualCpus("model=2").value(), dir(), text,
                   {.text = {.batch = 2, .length = 7, .precision = {.compute = BF16}},
                    .session = {.workers = 1, .own_cores = false}});
  ASSERT_TRUE(perplexity.ok()) << perplexity.status();
  EXPECT_NEAR(perplexity->value, wanted, 0.2 * wanted);
}

TEST_F(TextLossTest, SaysWhatIsWrong) {
  Write(Small());
  const auto message = [&](const std::vector<int32_t>& text, const TextLossOptions& options) {
    return std::string(
        PerplexityOf(Loaded(), Mesh::VirtualCpus("model=1").value(), dir(), text, {.text = options})
            .status()
            .message());
  };
  EXPECT_EQ(message(Text(40), {.batch = 0}), "batch=0; give 1 or more.");
  EXPECT_EQ(message(Text(40), {.length = 65}), "length=65; the model was made for 1 to 64 tokens.");
  EXPECT_EQ(
      message(Text(7), {.batch = 2, .length = 7}),
      "The text has 7 tokens: 0 parts of 7 tokens, and one more; a perplexity takes 1 parts. Give a longer text, or shorter parts.");
  // A cut along k that does not divide the blocks.
  int64_t bytes = 0;
  PutIntoBlocks(Write(InBlocks()), bytes);
  const absl::StatusOr<meshwork::Perplexity> uneven = PerplexityOf(
      Loaded(), Mesh::VirtualCpus("model=3").value(), dir(), Text(40), {.text = {.batch = 2, .length = 7}});
  EXPECT_THAT(uneven.status().message(), HasSubstr("axes that cut it must divide these"));
  EXPECT_THAT(uneven.status().message(), HasSubstr("or import the model without --keep-blocks"));
  const absl::StatusOr<FineTuned> tuned =
      FineTune(Loaded(), Mesh::VirtualCpus("model=1").value(), dir(), Text(1000), {.text = {.length = 7}});
  EXPECT_THAT(tuned.status().message(), HasSubstr("has weights in blocks"));
}

}  // namespace
}  // namespace meshwork::llama_test
