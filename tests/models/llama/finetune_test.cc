// A small Llama that is tuned: on any mesh and in several domains as on one device, without a change of its weights; adapters
// that are saved and loaded; and a model with the adapters in its weights.
#include "examples/llama/finetune.h"

#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "examples/llama/adapters.h"
#include "examples/llama/generator.h"
#include "examples/llama/llama.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "models/llama/small_model.h"
#include "support/in_domains.h"
#include "support/safetensors_bytes.h"
#include "tools/cli/process.h"

namespace meshwork::llama_test {
namespace {

using ::testing::HasSubstr;

FineTuneOptions Options(Transport* transport = nullptr) {
  FineTuneOptions options{
      .adapters = {.rank = 2,
                   .alpha = 6,
                   .modules = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}},
      .text = {.batch = 4, .length = 7},
      .steps = 8,
      .rate = 0.02};
  options.session = {.workers = 1, .own_cores = false, .seed = 3};
  options.session.executor.transport = transport;
  options.session.executor.check_replicas = true;
  return options;
}

class FineTuneTest : public SmallLlamaTest {
 protected:
  FineTuneTest() { Write(Small()); }

  FineTuned Tuned(const std::string& mesh, const FineTuneOptions& options) {
    absl::StatusOr<FineTuned> tuned =
        FineTune(Loaded(), Mesh::VirtualCpus(mesh).value(), dir(), Text(100), options);
    EXPECT_TRUE(tuned.ok()) << tuned.status();
    return *std::move(tuned);
  }

  // What the model in a folder, with the adapters in another one, gives as logits of the first tokens of the text.
  Tensor LogitsOf(const std::string& model, const std::string& adapters) {
    Graph g(Mesh::VirtualCpus("model=2").value());
    g.SetLayouts(LlamaLayouts(Loaded()));
    const Llama llama(g, Loaded());
    std::vector<AttentionCache> none;
    g.Output("logits", llama.Logits(llama(g.Input("tokens", I32, {1, 8}), none)));
    if (!adapters.empty())
      AddLowRankAdapters(g, LowRankOptionsOf(LlamaAdapters::Load(adapters).value(), Loaded()).value());
    Session session = Session::Create(g, {.workers = 1, .own_cores = false}).value();
    EXPECT_EQ(MessageOf(LoadWeights(session, model, LlamaWeights(Loaded())).status()), "");
    if (!adapters.empty()) {
      EXPECT_EQ(MessageOf(LoadAdapters(session, adapters, Loaded())), "");
    }
    return session.Evaluate({{"tokens", Tensor::From<int32_t>({1, 8}, Text(8))}})->Get("logits").value();
  }
};

std::map<std::string, Tensor> VariablesOf(const Session& session) {
  std::map<std::string, Tensor> variables;
  for (const std::string& name : session.variable_names()) variables[name] = session.Get(name).value();
  return variables;
}

double MostOff(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.type(), b.type());
  const Tensor x = a.Cast(F64), y = b.Cast(F64);
  double most = 0;
  for (int64_t i = 0; i < x.num_elements(); ++i)
    most = std::max(most, std::abs(x.values<double>()[static_cast<size_t>(i)] -
                                   y.values<double>()[static_cast<size_t>(i)]));
  return most;
}

TEST_F(FineTuneTest, OnEveryMeshAsOnOneDevice) {
  FineTuneOptions options = Options();
  options.text.precision = {.compute = F64, .variables = F64};
  const std::map<std::string, Tensor> expected = VariablesOf(Tuned("model=1", options).session);
  for (const std::string mesh : {"batch=2,model=2", "model=3", "batch=4"}) {
    for (const int64_t domains : {1, 2}) {
      if (domains == 2 && mesh == "model=3") continue;
      SCOPED_TRACE(fmt::format("{} in {}", mesh, domains));
      InDomainsOf(domains, [&](Transport* end) {
        FineTuneOptions mine = Options(end);
        mine.text.precision = options.text.precision;
        const FineTuned tuned = Tuned(mesh, mine);
        const std::map<std::string, Tensor> variables = VariablesOf(tuned.session);
        ASSERT_EQ(variables.size(), expected.size());
        for (const auto& [name, tensor] : variables)
          EXPECT_LT(MostOff(tensor, expected.at(name)), 1e-10) << name;
      });
    }
  }
}

TEST_F(FineTuneTest, TrainsTheAdaptersAlone) {
  const FineTuned tuned = Tuned("batch=2,model=2", Options());
  std::map<std::string, Tensor> before, after = VariablesOf(tuned.session);
  {
    FineTuneProgram program =
        MakeFineTuneProgram(Loaded(), Mesh::VirtualCpus("batch=2,model=2").value(), Options()).value();
    Session session = Session::Create(program.graph, Options().session).value();
    ASSERT_TRUE(LoadWeights(session, dir(), LlamaWeights(Loaded())).ok());
    before = VariablesOf(session);
  }
  int adapters = 0, states = 0;
  for (const auto& [name, tensor] : after) {
    const bool is_adapter = name.ends_with(".lora_a") || name.ends_with(".lora_b");
    if (is_adapter) ++adapters;
    if (name.starts_with("adam/")) {
      EXPECT_TRUE(is_adapter || name == "adam/step") << name;
      ++states;
    }
    EXPECT_EQ(RawBytes(tensor) == RawBytes(before.at(name)), !is_adapter && name != "adam/step") << name;
  }
  EXPECT_EQ(adapters, 2 * 2 * 7 * 3);  // A and B of the products of 2 layers, each with two slots of Adam
  EXPECT_EQ(states, 2 * 2 * 7 * 2 + 1);
  EXPECT_LT(tuned.history.Of("loss").back(), tuned.history.Of("loss").front());
}

TEST_F(FineTuneTest, SavedAdaptersAndMergedWeightsGiveTheSame) {
  FineTuned tuned = Tuned("batch=2,model=2", Options());
  const std::string base = Path("base");
  std::filesystem::create_directories(base);
  for (const char* file : {"config.json", "model.safetensors"})
    std::filesystem::copy(Path(file), base + "/" + file);
  ASSERT_EQ(MessageOf(SaveAdapters(tuned.session, Path("adapters"), Options().adapters, Loaded(), base)), "");
  ASSERT_EQ(MessageOf(MergeLowRankAdapters(tuned.session, tuned.adapters)), "");
  ASSERT_EQ(MessageOf(SaveModel(tuned.session, Path("merged"), Loaded(), base)), "");
  EXPECT_EQ(Contents(Path("merged/config.json")), Contents(Path("config.json")));

  const Tensor plain = LogitsOf(base, ""), adapted = LogitsOf(base, Path("adapters")),
               merged = LogitsOf(Path("merged"), "");
  EXPECT_LT(MostOff(adapted, merged), 1e-5);
  EXPECT_GT(MostOff(adapted, plain), 0.1);
  // Merged once, the session's adapters add nothing.
  ASSERT_EQ(MessageOf(MergeLowRankAdapters(tuned.session, tuned.adapters)), "");
  ASSERT_EQ(MessageOf(SaveModel(tuned.session, Path("again"), Loaded(), base)), "");
  EXPECT_TRUE(Contents(Path("again/model.safetensors")) == Contents(Path("merged/model.safetensors")));

  // Both write the same.
  std::vector<std::vector<int32_t>> written;
  for (const auto& [model, adapters] : {std::pair(base, Path("adapters")), {Path("merged"), std::string()}}) {
    GeneratorOptions options{.adapters = adapters};
    options.session.workers = 1;
    Generator generator =
        Generator::Create(Loaded(), Mesh::VirtualCpus("model=2").value(), model, options).value();
    std::vector<int32_t>& text = written.emplace_back();
    text.push_back(generator.Begin(0, Text(5)).value());
    while (text.size() < 12) text.push_back(generator.Next().value()[0]);
  }
  EXPECT_EQ(written[0], written[1]);
}

// Several domains write the files that one writes, but for the order of sums.
TEST_F(FineTuneTest, DomainsSaveTogether) {
  const FineTuneOptions options = Options();
  {
    FineTuned tuned = Tuned("batch=2,model=2", options);
    ASSERT_EQ(MessageOf(SaveAdapters(tuned.session, Path("one"), options.adapters, Loaded(), "base")), "");
    ASSERT_EQ(MessageOf(MergeLowRankAdapters(tuned.session, tuned.adapters)), "");
    ASSERT_EQ(MessageOf(SaveModel(tuned.session, Path("one"), Loaded(), dir())), "");
  }
  InDomains(2, [&](Transport& end) {
    FineTuneOptions mine = options;
    mine.session.executor.transport = &end;
    mine.session.executor.coalesce = false;
    FineTuned tuned = Tuned("model=2,batch=2", mine);
    EXPECT_EQ(MessageOf(SaveAdapters(tuned.session, Path("two"), options.adapters, Loaded(), "base")), "");
    EXPECT_EQ(MessageOf(MergeLowRankAdapters(tuned.session, tuned.adapters)), "");
    EXPECT_EQ(MessageOf(SaveModel(tuned.session, Path("two"), Loaded(), dir())), "");
  });
  for (const char* file : {"model.safetensors", "adapter_model.safetensors"}) {
    const auto one = ReadSafetensors(Path("one/") + file).value(),
               two = ReadSafetensors(Path("two/") + file).value();
    ASSERT_EQ(one.size(), two.size());
    for (size_t t = 0; t < one.size(); ++t) {
      EXPECT_EQ(one[t].first, two[t].first);
      EXPECT_LT(MostOff(one[t].second, two[t].second), 1e-5) << one[t].first;
    }
  }
  EXPECT_EQ(Contents(Path("one/adapter_config.json")), Contents(Path("two/adapter_config.json")));
}

// The files as Python's safetensors reads them. PEFT's product is lora_B · lora_A.
constexpr const char* kScript = R"(
import sys
try:
    from safetensors.numpy import load_file
except ImportError:
    sys.exit(77)
import json, numpy
base, adapters, merged = sys.argv[1:]
config = json.load(open(adapters + "/adapter_config.json"))
scale = config["lora_alpha"] / config["r"]
w = load_file(base + "/model.safetensors")
lora = load_file(adapters + "/adapter_model.safetensors")
m = load_file(merged + "/model.safetensors")
assert w.keys() == m.keys(), w.keys() ^ m.keys()
for name in w:
    module = "base_model.model." + name.removesuffix(".weight")
    expected = w[name].astype("f8")
    if name.split(".")[-2] in config["target_modules"]:
        expected += scale * lora.pop(module + ".lora_B.weight").astype("f8") @ lora.pop(module + ".lora_A.weight")
        assert abs(expected - w[name]).max() > 1e-3, name
    assert abs(expected - m[name]).max() < 1e-6, name
assert not lora, lora.keys()
print("the same")
)";

TEST_F(FineTuneTest, PythonReadsTheFiles) {
  FineTuned tuned = Tuned("batch=2,model=2", Options());
  ASSERT_EQ(MessageOf(SaveAdapters(tuned.session, Path("adapters"), Options().adapters, Loaded(), dir())),
            "");
  ASSERT_EQ(MessageOf(MergeLowRankAdapters(tuned.session, tuned.adapters)), "");
  ASSERT_EQ(MessageOf(SaveModel(tuned.session, Path("merged"), Loaded(), dir())), "");
  const char* const named = std::getenv("MESHWORK_PYTHON");
  const Finished python = RunProcess(
      "/usr/bin/env",
      {named == nullptr ? "python3" : named, "-c", kScript, dir(), Path("adapters"), Path("merged")},
      Path("python"));
  if (python.code == 77 || python.code == 127)
    GTEST_SKIP() << "there is no Python with safetensors and NumPy; MESHWORK_PYTHON may name one";
  EXPECT_EQ(python.code, 0) << python.err;
  EXPECT_EQ(python.out, "the same\n");
}

TEST_F(FineTuneTest, RefusesWhatItCannotDo) {
  const auto message = [&](const std::vector<int32_t>& text, const FineTuneOptions& options) {
    return std::string(FineTune(Loaded(), Mesh(), dir(), text, options).status().message());
  };
  FineTuneOptions options = Options();
  EXPECT_EQ(
      message({}, options),
      "The text has 0 tokens: 0 parts of 7 tokens, and one more; a batch takes 4 parts. Give a longer text, or shorter parts.");
  EXPECT_EQ(
      message(Text(28), options),
      "The text has 28 tokens: 3 parts of 7 tokens, and one more; a batch takes 4 parts. Give a longer text, or shorter parts.");
  std::vector<int32_t> text = Text(29);
  text[7] = 23;
  EXPECT_EQ(message(text, options), "Token 23; the model has 23 tokens, from 0 on.");
  options.text.length = 65;
  EXPECT_EQ(message(text, options), "length=65; the model was made for 1 to 64 tokens.");
  options = Options();
  options.steps = 0;
  EXPECT_EQ(message(text, options), "steps=0; give 1 or more.");
  options = Options();
  options.adapters.modules = {"embed_tokens"};
  EXPECT_EQ(
      message(text, options),
      "Adapters of \"embed_tokens\"; those of a Llama are of q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj and "
      "down_proj.");
  const auto load = [&](const std::string& config) {
    std::filesystem::create_directories(Path("a"));
    File("a/adapter_config.json", config);
    return std::string(LlamaAdapters::Load(Path("a")).status().message());
  };
  EXPECT_THAT(load(R"({"peft_type": "IA3"})"),
              HasSubstr("peft_type is \"IA3\"; it must be \"LORA\". Nothing else is supported."));
  EXPECT_THAT(load(R"({"peft_type": "LORA", "use_dora": true})"),
              HasSubstr("use_dora is true; it must be false. Nothing else is supported."));
  EXPECT_THAT(load(R"({"peft_type": "LORA", "layers_to_transform": [0]})"),
              HasSubstr("it must be null. Nothing else is supported."));
  EXPECT_THAT(load(R"({"peft_type": "LORA", "bias": "all"})"),
              HasSubstr("bias is \"all\"; it must be \"none\". Nothing else is supported."));
  EXPECT_THAT(load(R"({"peft_type": "LORA", "rank_pattern": {"q_proj": 4}})"),
              HasSubstr("it must be empty. Nothing else is supported."));
}

}  // namespace
}  // namespace meshwork::llama_test
