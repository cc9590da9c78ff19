// The example llama as several processes: they say what one process says, and tune as one does.
#include "processes/launched.h"

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "models/llama/small_model.h"
#include "models/tokenizer/small_file.h"
#include "support/tensors.h"

namespace meshwork::llama_test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

#ifdef LLAMA

// A model whose tokens are bytes.
class LlamaProgramTest : public SmallLlamaTest {
 protected:
  LlamaProgramTest() {
    LlamaConfig config = Small();
    config.vocabulary = 256;
    Write(config);
    File("tokenizer.json", tokenizer_test::SmallFile({}).dump());
    std::string text;
    while (text.size() < 1000) text += "All work and no play makes Jack a dull boy.\n";
    File("text.txt", text);
  }
  std::vector<std::string> Writing(const std::string& mesh) const {
    return {"--model",   dir(), "--mesh",        mesh, "--prompt", "All work", "--tokens", "12",
            "--workers", "1",   "--temperature", "1",  "--seed",   "5"};
  }
  std::vector<std::string> Tuning(const std::string& mesh, const std::string& to) const {
    return {"--model",      dir(),
            "--mesh",       mesh,
            "--finetune",   Path("text.txt"),
            "--adapters",   Path(to),
            "--merge",      Path(to + ".merged"),
            "--steps",      "4",
            "--length",     "16",
            "--batch-size", "4",
            "--workers",    "1",
            "--rate",       "0.01"};
  }
  Finished Run(const std::vector<std::string>& args) const { return RunProcess(LLAMA, args, Path("run")); }

  static double Difference(const std::string& path, const std::string& other) {
    const auto tensors = ReadSafetensors(path).value(), others = ReadSafetensors(other).value();
    EXPECT_EQ(tensors.size(), others.size());
    double most = 0;
    for (size_t t = 0; t < tensors.size(); ++t) {
      EXPECT_EQ(tensors[t].first, others[t].first);
      const std::vector<double> a = NumbersOf(tensors[t].second), b = NumbersOf(others[t].second);
      for (size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
    }
    return most;
  }
};

TEST_F(LlamaProgramTest, TunesAndWrites) {
  const Finished tuned = Run(Tuning("model=2", "tuned"));
  EXPECT_EQ(tuned.code, 0) << tuned.err;
  EXPECT_THAT(tuned.out, HasSubstr("adapters: " + Path("tuned")));
  EXPECT_THAT(tuned.err, HasSubstr("epoch 4/4  1 step"));
  std::vector<std::string> with_adapters = Writing("model=3"), merged = Writing("model=1");
  with_adapters.insert(with_adapters.end(), {"--adapters", Path("tuned")});
  merged[1] = Path("tuned.merged");
  const Finished by_adapters = Run(with_adapters), by_weights = Run(merged), plain = Run(Writing("model=1"));
  EXPECT_EQ(by_adapters.code, 0) << by_adapters.err;
  EXPECT_EQ(by_weights.code, 0) << by_weights.err;
  EXPECT_EQ(by_adapters.out, by_weights.out);
  EXPECT_NE(by_adapters.out, plain.out);
}

TEST_F(LlamaProgramTest, SaysWhatIsWrong) {
  const auto error = [&](std::vector<std::string> args) {
    const Finished finished = Run(args);
    EXPECT_EQ(finished.code, 2) << finished.err;
    EXPECT_THAT(finished.out, IsEmpty());
    return finished.err;
  };
  EXPECT_EQ(error({}), "llama: --model is missing; see --help.\n");
  EXPECT_EQ(error({"--model", dir()}),
            "llama: give one of --prompt, --finetune and --perplexity, not none; see --help.\n");
  EXPECT_EQ(
      error({"--model", dir(), "--finetune", "a"}),
      "llama: --finetune without --adapters and --merge keeps nothing; name a folder by one of them.\n");
  EXPECT_EQ(error({"--model", dir(), "--finetune", "a", "--prompt", "b"}),
            "llama: give one of --prompt, --finetune and --perplexity, not several; see --help.\n");
  EXPECT_EQ(error({"--model", dir(), "--finetune", Path("model.safetensors"), "--merge", dir()}),
            fmt::format("llama: --merge={} is the folder of the model; give another one.\n", dir()));
  EXPECT_EQ(error({"--model", dir(), "--prompt", "a", "--merge", "b"}),
            "llama: --merge without --finetune; give a text.\n");
  EXPECT_EQ(error({"--model", dir(), "--prompt", "a", "--recover", "wait"}),
            "llama: --recover=wait; nothing is kept to go on from, so a lost process ends the others.\n");
  File("short.txt", "Too short.");
  std::vector<std::string> args = Tuning("model=2", "tuned");
  args[5] = Path("short.txt");
  EXPECT_EQ(
      error(args),
      "llama: " + Path("short.txt") +
          ": The text has 10 tokens: 0 parts of 16 tokens, and one more; a batch takes 4 parts. Give a longer text, or shorter parts.\n");
}

class LaunchedLlamaTest : public LlamaProgramTest, public testing::WithParamInterface<Launcher> {
 protected:
  Finished Launch(const std::vector<std::string>& args) const {
    return RunLaunched(GetParam().command(2), LLAMA, args, Path("launched"));
  }
};

// Process 0 alone prints.
TEST_P(LaunchedLlamaTest, WritesAsOneProcess) {
  const Finished alone = Run(Writing("model=1"));
  ASSERT_EQ(alone.code, 0) << alone.err;
  for (const char* mesh : {"model=2", "batch=2", "batch=2,model=2"}) {
    const Finished launched = Launch(Writing(mesh));
    EXPECT_EQ(launched.code, 0) << launched.err;
    EXPECT_THAT(launched.out, testing::EndsWith(alone.out)) << mesh;
    EXPECT_EQ(launched.out.find(alone.out), launched.out.rfind(alone.out)) << mesh;
  }
}

TEST_P(LaunchedLlamaTest, TunesAsOneProcess) {
  ASSERT_EQ(Run(Tuning("model=1", "one")).code, 0);
  const Finished launched = Launch(Tuning("model=2,batch=2", "two"));
  ASSERT_EQ(launched.code, 0) << launched.err;
  EXPECT_LT(Difference(Path("one/adapter_model.safetensors"), Path("two/adapter_model.safetensors")), 1e-4);
  EXPECT_LT(Difference(Path("one.merged/model.safetensors"), Path("two.merged/model.safetensors")), 1e-4);
}

INSTANTIATE_TEST_SUITE_P(By, LaunchedLlamaTest, testing::ValuesIn(Launchers()),
                         [](const auto& info) { return info.param.name; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(LaunchedLlamaTest);

#endif

}  // namespace
}  // namespace meshwork::llama_test
