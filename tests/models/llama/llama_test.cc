// The example llama: its logits beside loops over doubles, on several meshes, in parts of any size; and rows that join and leave.
#include "examples/llama/llama.h"

#include <cmath>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "examples/llama/generator.h"
#include "examples/llama/llama_config.h"
#include "fmt/format.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "models/llama/loops.h"
#include "models/llama/small_model.h"

namespace meshwork::llama_test {
namespace {

class LlamaTest : public SmallLlamaTest {
 protected:
  // What a generator with one row writes on a prompt: `count` tokens.
  static std::vector<int32_t> Written(Generator& generator, const std::vector<int32_t>& prompt,
                                      int64_t count) {
    std::vector<int32_t> written = {generator.Begin(0, prompt).value()};
    while (std::ssize(written) < count) written.push_back(generator.Next().value()[0]);
    return written;
  }
};

TEST_F(LlamaTest, LogitsAreThoseOfLoopsOnEveryMesh) {
  LlamaConfig with_bias = Small(), with_window = Small(), one_head = Small();
  with_bias.bias = true;
  with_bias.tied = false;
  with_window.window = 3;
  one_head.kv_heads = 1;
  const std::vector<int32_t> tokens = {3, 22, 0, 7, 7, 15, 1, 9};
  for (const LlamaConfig& small : {Small(), with_bias, with_window, one_head}) {
    const Weights weights = Write(small);
    const LlamaConfig config = Loaded();
    const std::vector<Doubles> wanted = LogitsOf(small, weights, tokens);
    for (const char* mesh : {"model=1", "model=3", "model=2", "model=4", "batch=2,model=3"}) {
      SCOPED_TRACE(
          fmt::format("{}, bias {} window {} kv_heads {}", mesh, small.bias, small.window, small.kv_heads));
      Graph g(Mesh::VirtualCpus(mesh).value());
      g.SetLayouts(LlamaLayouts(config));
      const Llama llama(g, config);
      std::vector<AttentionCache> none;
      g.Output("logits", llama.Logits(llama(g.Input("tokens", I32, {1, 8}), none)));
      absl::StatusOr<Session> session = Session::Create(g, {.workers = 1, .own_cores = false});
      ASSERT_TRUE(session.ok()) << session.status();
      const absl::StatusOr<LoadedWeights> loaded = LoadWeights(*session, Path(""), LlamaWeights(config));
      ASSERT_TRUE(loaded.ok()) << loaded.status();
      const Tensor logits =
          session->Predict({{"tokens", Tensor::From<int32_t>({1, 8}, tokens)}})->Get("logits").value();
      for (size_t p = 0; p < tokens.size(); ++p)
        for (size_t i = 0; i < wanted[p].size(); ++i)
          ASSERT_NEAR(logits.values<float>()[p * wanted[p].size() + i], wanted[p][i],
                      1e-4 * std::max(1.0, std::abs(wanted[p][i])));
    }
  }
}

TEST_F(LlamaTest, WritesTheMostLikelyTokens) {
  for (const int64_t window : {0, 3}) {
    LlamaConfig small = Small();
    small.window = window;
    const Weights weights = Write(small);
    const LlamaConfig config = Loaded();
    for (const size_t length : {1, 2, 17, 40}) {
      std::vector<int32_t> prompt;
      for (size_t i = 0; i < length; ++i) prompt.push_back(static_cast<int32_t>((5 * i * i + 3) % 23));
      std::vector<int32_t> text = prompt, wanted;
      for (int i = 0; i < 6; ++i) {
        wanted.push_back(ArgmaxOf(LogitsOf(small, weights, text).back()));
        text.push_back(wanted.back());
      }
      for (const char* mesh : {"model=1", "model=2", "model=3"}) {
        SCOPED_TRACE(fmt::format("{} window {} prompt {}", mesh, window, length));
        absl::StatusOr<Generator> generator =
            Generator::Create(config, Mesh::VirtualCpus(mesh).value(), Path(""), {.session = {.workers = 1}});
        ASSERT_TRUE(generator.ok()) << generator.status();
        EXPECT_EQ(generator->context(), 64);
        EXPECT_EQ(Written(*generator, prompt, 6), wanted);
        // A row that begins anew remembers nothing.
        EXPECT_EQ(Written(*generator, prompt, 6), wanted);
      }
    }
  }
}

// The keys and values that the last layer keeps of a row's first `length` tokens.
std::vector<float> Cached(Generator& generator, int64_t row, int64_t length) {
  std::vector<float> cached;
  for (const char* name : {"cache/1/keys", "cache/1/values"}) {
    const Tensor all = generator.session().Get(name).value();  // [rows,context,kv_heads,head]
    const int64_t place = all.shape()[2] * all.shape()[3];
    const float* const first = all.values<float>().data() + row * all.shape()[1] * place;
    cached.insert(cached.end(), first, first + length * place);
  }
  return cached;
}

// 64 random schedules of rows that begin and end: each row writes what it writes alone, bit for bit.
TEST_F(LlamaTest, RowsThatJoinAndLeaveDisturbNoOther) {
  constexpr int64_t kWritten = 8, kRows = 3;
  Write(Small());
  const LlamaConfig config = Loaded();
  for (const char* mesh : {"model=1", "batch=2,model=3"}) {
    const auto make = [&] {
      GeneratorOptions options{.rows = kRows};
      options.session.workers = 1;
      options.session.compile.deterministic = true;
      return Generator::Create(config, Mesh::VirtualCpus(mesh).value(), Path(""), options).value();
    };
    Generator alone = make(), together = make();
    // What each prompt gives in the first row, while the others have no text.
    std::vector<std::vector<int32_t>> prompts, answers;
    std::vector<std::vector<std::vector<float>>> caches;  // by prompt and by tokens written
    for (int32_t i = 0; i < 6; ++i) {
      std::vector<int32_t>& prompt = prompts.emplace_back();
      for (int32_t j = 0; j <= 4 * i; ++j) prompt.push_back((7 * j * j + 5 * i + j) % 23);
      answers.push_back({alone.Begin(0, prompt).value()});
      caches.push_back({Cached(alone, 0, alone.length(0))});
      for (int64_t t = 1; t < kWritten; ++t) {
        answers.back().push_back(alone.Next().value()[0]);
        caches.back().push_back(Cached(alone, 0, alone.length(0)));
      }
    }
    std::mt19937 random(7);
    for (int schedule = 0; schedule < 64; ++schedule) {
      struct Text {
        size_t prompt;
        size_t written;
      };
      std::vector<std::optional<Text>> texts(kRows);
      for (int64_t row = 0; row < kRows; ++row) together.End(row);
      for (int step = 0; step < 10; ++step) {
        for (int64_t row = 0; row < kRows; ++row) {
          std::optional<Text>& text = texts[static_cast<size_t>(row)];
          if (text.has_value() && (text->written == kWritten || random() % 6 == 0)) {
            together.End(row);
            text.reset();
          }
          if (text.has_value() || random() % 2 == 0) continue;
          text = Text{random() % prompts.size(), 1};
          ASSERT_EQ(together.Begin(row, prompts[text->prompt]).value(), answers[text->prompt][0]);
        }
        const std::vector<int32_t> next = together.Next().value();
        for (int64_t row = 0; row < kRows; ++row) {
          std::optional<Text>& text = texts[static_cast<size_t>(row)];
          if (!text.has_value() || text->written == kWritten) continue;
          SCOPED_TRACE(fmt::format("{} schedule {} step {} row {}", mesh, schedule, step, row));
          ASSERT_EQ(next[static_cast<size_t>(row)], answers[text->prompt][text->written]);
          if (step == 9) {
            ASSERT_EQ(Cached(together, row, together.length(row)), caches[text->prompt][text->written]);
          }
          ++text->written;
        }
      }
    }
  }
}

TEST_F(LlamaTest, DrawsTheSameOnEveryMesh) {
  Write(Small());
  const LlamaConfig config = Loaded();
  std::vector<std::vector<int32_t>> drawn;
  for (const char* mesh : {"model=1", "model=3", "batch=2,model=2"}) {
    GeneratorOptions options{.sampling = {.temperature = 2, .top_k = 15, .top_p = 0.95, .seed = 5}};
    options.session.workers = 1;
    Generator generator =
        Generator::Create(config, Mesh::VirtualCpus(mesh).value(), Path(""), options).value();
    drawn.push_back(Written(generator, {4, 2}, 20));
  }
  EXPECT_EQ(drawn[0], drawn[1]);
  EXPECT_EQ(drawn[0], drawn[2]);
}

TEST_F(LlamaTest, RefusesWhatItCannotDo) {
  const Weights weights = Write(Small());
  const LlamaConfig config = Loaded();
  const Mesh mesh;
  const auto message = [&](const GeneratorOptions& options) {
    return std::string(Generator::Create(config, mesh, Path(""), options).status().message());
  };
  EXPECT_EQ(message({.rows = 0}), "rows=0 is below 1.");
  EXPECT_EQ(message({.context = 65}), "context=65; the model was made for 1 to 64 tokens.");
  EXPECT_EQ(message({.sampling = {.temperature = -1}}), "temperature=-1; give 0, or a number from 0.001 on.");
  EXPECT_EQ(message({.sampling = {.top_k = -1}}), "top_k=-1 is below 0.");
  EXPECT_EQ(message({.sampling = {.top_p = 0}}), "top_p=0 is not in (0, 1].");
  Generator generator = Generator::Create(config, mesh, Path(""), {.context = 8}).value();
  const auto begin = [&](int64_t row, const std::vector<int32_t>& prompt) {
    return std::string(generator.Begin(row, prompt).status().message());
  };
  EXPECT_EQ(begin(1, {1}), "row 1; there are 1 rows, from 0 on.");
  EXPECT_EQ(begin(0, {}), "A prompt without tokens; give one at least, such as the model's first one.");
  EXPECT_EQ(begin(0, {23}), "Token 23; the model has 23 tokens, from 0 on.");
  EXPECT_EQ(begin(0, std::vector<int32_t>(8, 1)),
            "A prompt of 8 tokens; the context of 8 holds at most 7 and an answer.");
  ASSERT_TRUE(generator.Begin(0, std::vector<int32_t>(7, 1)).ok());
  EXPECT_TRUE(generator.Next().ok());
  EXPECT_EQ(generator.Next().status().message(),
            "The text of row 0 has 8 tokens, as many as the context holds.");
  generator.End(0);
  EXPECT_TRUE(generator.Next().ok());
}

TEST_F(LlamaTest, ReadsConfigs) {
  LlamaConfig small = Small();
  small.kv_heads = 2;
  Write(
      small,
      R"(, "rope_scaling": {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
"original_max_position_embeddings": 8192})");
  const LlamaConfig config = Loaded();
  EXPECT_EQ(config.rotary.scaling.form, RotaryScaling::Form::kLlama3);
  EXPECT_EQ(config.rotary.scaling.factor, 32);
  EXPECT_EQ(config.rotary.scaling.original_positions, 8192);
  EXPECT_EQ(config.ends, (std::vector<int32_t>{1, 2}));
  const auto message = [&](const std::string& more) {
    Write(small, more);
    return std::string(LlamaConfig::Load(Path("config.json")).status().message())
        .substr(Path("config.json").size());
  };
  EXPECT_EQ(
      message(R"(, "rope_scaling": {"type": "yarn", "factor": 2})"),
      ": rope_scaling.type is \"yarn\"; it must be default, linear or llama3. Nothing else is supported.");
  EXPECT_EQ(message(R"(, "partial_rotary_factor": 0.5)"),
            ": partial_rotary_factor is 0.5; it must be 1. Nothing else is supported.");
  Write(small, R"(, "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 500000.0})");
  EXPECT_EQ(LlamaConfig::Load(Path("config.json"))->rotary.base, 500000);
  EXPECT_EQ(LlamaConfig::Load(Path("config.json"))->rotary.scaling.form, RotaryScaling::Form::kLinear);
  EXPECT_EQ(message(R"(, "hidden_act": "gelu")"),
            ": hidden_act is \"gelu\"; it must be silu. Nothing else is supported.");
  EXPECT_EQ(message(R"(, "mlp_bias": true)"),
            ": mlp_bias is true; it must be false. Nothing else is supported.");
  small.kv_heads = 4;
  EXPECT_EQ(message(""), ": num_key_value_heads is 4; it must be a divisor of num_attention_heads.");
  small.layers = 0;
  EXPECT_EQ(message(""), ": num_hidden_layers is 0; it must be a size from 1 on.");
}

}  // namespace
}  // namespace meshwork::llama_test
