// SmolLM2-135M-Instruct by the example llama: 30 layers, 9 heads of queries and 3 of keys, weights of 4 and 8 bits in a GGUF file.
#include <string>
#include <vector>

#include "examples/llama/generator.h"
#include "examples/llama/llama.h"
#include "examples/llama/llama_config.h"
#include "examples/llama/tokenizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "pretrained/pretrained.h"

namespace meshwork::smollm2_test {
namespace {

using ::testing::ElementsAre;

constexpr const char* kQuestion = "What is the capital of France?";
constexpr int32_t kEnd = 2;  // <|im_end|>

class SmolLm2Test : public PretrainedTest {
 protected:
  SmolLm2Test() : PretrainedTest("smollm2") {}

  LlamaConfig Config() const {
    absl::StatusOr<LlamaConfig> config = LlamaConfig::Load(dir() + "/config.json");
    EXPECT_TRUE(config.ok()) << config.status();
    return *std::move(config);
  }
};

// In f32, a product over k <= 1536 has an error of about sqrt(k) 2^-24 = 2.3e-6 of its largest result. The residual of a text
// takes 2 branches from each of 30 layers, of 3 and 3 products; errors of 180 products whose signs are independent add up to
// sqrt(180) · 2.3e-6 = 3.1e-5.
TEST_F(SmolLm2Test, LogitsAreThoseOfNumPyOnEveryMesh) {
  const LlamaConfig config = Config();
  for (const char* mesh : {"model=1", "model=3", "batch=2,model=3"}) {
    SCOPED_TRACE(mesh);
    Graph g(Mesh::VirtualCpus(mesh).value());
    LayoutRules layouts = LlamaLayouts(config);
    layouts.layouts.push_back({"tokens", {"batch", UNSHARDED}});
    g.SetLayouts(layouts);
    const Llama llama(g, config);
    std::vector<AttentionCache> none;
    g.Output("logits", llama.Logits(llama(g.Input("tokens", I32, Expected("tokens").shape()), none)));
    absl::StatusOr<Session> session = Session::Create(g);
    ASSERT_TRUE(session.ok()) << session.status();
    const absl::StatusOr<LoadedWeights> loaded = LoadWeights(*session, dir(), LlamaWeights(config));
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    const absl::StatusOr<StepResult> result = session->Predict({{"tokens", Expected("tokens")}});
    ASSERT_TRUE(result.ok()) << result.status();
    ExpectNear(mesh, "logits", result->Get("logits").value(), 1e-4);
  }
}

TEST_F(SmolLm2Test, AnswersTheSameOnEveryMesh) {
  const LlamaConfig config = Config();
  const absl::StatusOr<Tokenizer> tokenizer = Tokenizer::Load(dir() + "/tokenizer.json");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_THAT(tokenizer->Encode(kQuestion), ElementsAre(1780, 314, 260, 3575, 282, 4649, 47));
  const std::vector<int32_t> prompt = tokenizer->Encode(
      fmt::format("<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n", kQuestion), {.add_bos = true});
  for (const char* mesh : {"model=1", "model=2", "model=3", "model=4", "batch=2,model=3"}) {
    SCOPED_TRACE(mesh);
    absl::StatusOr<Generator> generator =
        Generator::Create(config, Mesh::VirtualCpus(mesh).value(), dir(), {.context = 64});
    ASSERT_TRUE(generator.ok()) << generator.status();
    std::vector<int32_t> answer;
    for (int32_t token = generator->Begin(0, prompt).value(); token != kEnd && answer.size() < 20;
         token = generator->Next().value()[0])
      answer.push_back(token);
    EXPECT_THAT(answer, ElementsAre(504, 3575, 282, 4649, 314, 7042, 30));
  }
}

}  // namespace
}  // namespace meshwork::smollm2_test
