#include "meshwork/session/quantize_weights.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "meshwork/ir/row.h"
#include "meshwork/ir/text.h"
#include "support/in_domains.h"
#include "support/temp_dir.h"

namespace meshwork::quantize_weights_test {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kUnits = 64, kInner = 192, kTokens = 40;

// A table of tokens that is also what logits are made by, two kernels, one of them cast, and a norm.
Graph Model(const Mesh& mesh, DType compute = F32, bool open = false) {
  Graph g(mesh);
  if (open) g.SetLayouts({.open = true});
  const auto pin = [&](LayoutSpec spec) { return open ? LayoutSpec() : spec; };
  const Value tokens = g.Input("tokens", I32, {6}, {"batch"});
  const Variable table = g.Var("table", GlorotUniform({kTokens, kUnits}), pin({"model", UNSHARDED}));
  const Variable up = g.Var("up/kernel", GlorotUniform({kUnits, kInner}), pin({UNSHARDED, "model"}));
  const Variable down = g.Var("down/kernel", GlorotUniform({kInner, kUnits}), pin({"model", UNSHARDED}));
  const Variable norm = g.Var("norm", Filled(2, {kUnits}));
  Value x = InDType(Gather(table, tokens, 0) * norm, compute);
  x = x + MatMul(Relu(MatMul(x, InDType(up, compute))), InDType(down, compute));
  g.Output("logits", InDType(MatMul(x, InDType(table, compute), false, /*transpose_b=*/true), F32));
  return g;
}

Mesh Devices(const std::string& text) { return Mesh::VirtualCpus(text).value(); }

Feeds Tokens() { return {{"tokens", Tensor::From<int32_t>({6}, {3, 1, 4, 1, 39, 9})}}; }

std::vector<float> Logits(Session& session) {
  const Tensor logits = session.Run(Tokens())->Get("logits").value();
  return {logits.values<float>().begin(), logits.values<float>().end()};
}

double Distance(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) most = std::max<double>(most, std::abs(a[i] - b[i]));
  return most;
}

QuantizeWeightsOptions All(int bits) { return {.weights = {"*/kernel", "table"}, .bits = bits}; }

// The weights as the blocks round them, so that only sums differ.
void RoundWeights(Session& session, int bits) {
  for (const std::string name : {"table", "up/kernel", "down/kernel"}) {
    const bool is_transposed = name != "table";
    Tensor w = session.Get(name).value();
    if (is_transposed) w = w.Transposed();
    const QuantizedMatrix rounded = QuantizeMatrix(w, {.bits = bits}).value();
    Graph g{Mesh()};
    const auto input = [&](const char* part, const Tensor& tensor) {
      return g.Input(part, tensor.dtype(), tensor.shape());
    };
    const Value zero = rounded.zero.valid() ? input("zero", rounded.zero) : Value();
    g.Output("w", DequantizeMatrix(input("q", rounded.q), input("scale", rounded.scale), zero));
    Feeds feeds = {{"q", rounded.q}, {"scale", rounded.scale}};
    if (rounded.zero.valid()) feeds["zero"] = rounded.zero;
    w = Session::Create(g, {.workers = 1, .own_cores = false})->Run(feeds)->Get("w").value();
    ASSERT_EQ(session.Set(name, is_transposed ? w.Transposed() : w), absl::OkStatus());
  }
}

TEST(QuantizeWeightsTest, ASessionComputesWithRoundedWeights) {
  for (const char* mesh : {"batch=1,model=1", "batch=1,model=2", "batch=2,model=2"}) {
    for (const int bits : {8, 4}) {
      SCOPED_TRACE(fmt::format("{}, {} bits", mesh, bits));
      Session session = Session::Create(Model(Devices(mesh)), {.workers = 2, .seed = 7}).value();
      const std::vector<float> whole = Logits(session);
      Session small = QuantizeSession(session, All(bits), {.workers = 2}).value();
      EXPECT_GT(Distance(Logits(small), whole), 1e-5) << "nothing was rounded";
      RoundWeights(session, bits);
      EXPECT_LT(Distance(Logits(small), Logits(session)), 1e-5);
    }
  }
}

TEST(QuantizeWeightsTest, LayoutsMayBeOpen) {
  Session session =
      Session::Create(Model(Devices("batch=2,model=2"), F32, /*open=*/true), {.workers = 2, .seed = 7})
          .value();
  Session small = QuantizeSession(session, All(4), {.workers = 2}).value();
  RoundWeights(session, 4);
  EXPECT_LT(Distance(Logits(small), Logits(session)), 1e-5);
}

TEST(QuantizeWeightsTest, DomainsRoundAlike) {
  SessionOptions options{.workers = 1, .own_cores = false, .seed = 7, .gather_outputs = true};
  Session one = Session::Create(Model(Devices("batch=1,model=1")), options).value();
  Session rounded = QuantizeSession(one, All(4), options).value();
  const std::vector<float> expected = Logits(rounded);
  InDomains(2, [&](Transport& end) {
    SessionOptions mine = options;
    mine.executor.transport = &end;
    Session session = Session::Create(Model(Devices("model=2,batch=2")), mine).value();
    absl::StatusOr<Session> small = QuantizeSession(session, All(4), mine);
    ASSERT_TRUE(small.ok()) << small.status();
    EXPECT_LT(Distance(Logits(*small), expected), 1e-5);
  });
}

TEST(QuantizeWeightsTest, ComputesInBf16AsTheProgramDid) {
  Session session =
      Session::Create(Model(Devices("batch=2,model=2"), BF16), {.workers = 2, .seed = 7}).value();
  Session small = QuantizeSession(session, All(8), {.workers = 2}).value();
  RoundWeights(session, 8);
  // Weights are not rounded to bf16 now.
  EXPECT_LT(Distance(Logits(small), Logits(session)), 0.1);
  int products = 0;
  for (const Node& node : small.graph().nodes()) {
    if (node.row->name != "matmul_q") continue;
    EXPECT_EQ(small.graph().value(node.results[0]).type.dtype, BF16);
    ++products;
  }
  EXPECT_EQ(products, 3);
}

// Weights that a file has in blocks, as "meshwork import gguf --keep-blocks" writes them.
using QuantizedWeightsFileTest = TempDirTest;
TEST_F(QuantizedWeightsFileTest, LoadWeightsReadsBlocks) {
  const Graph graph = Model(Devices("batch=1,model=2"));
  Session session = Session::Create(graph, {.workers = 2, .seed = 7}).value();
  Session small = QuantizeSession(session, All(4), {.workers = 2}).value();
  std::vector<std::pair<std::string, Tensor>> tensors = {{"norm", small.Get("norm").value()}};
  for (const std::string name : {"table", "up/kernel", "down/kernel"}) {
    for (const std::string part : {".q", ".scale", ".zero"})
      tensors.emplace_back("model." + name.substr(0, name.find('/')) + ".weight" + part,
                           small.Get(name + part).value());
  }
  ASSERT_EQ(WriteSafetensors(Path("model.safetensors"), tensors), absl::OkStatus());
  const std::vector<WeightRule> rules = {
      {.variable = "table", .tensor = "model.table.weight"},
      {.variable = "*/kernel", .tensor = "model.*.weight", .transpose = true}};
  const auto stored = StoredInBlocks(graph, Path("model.safetensors"), rules);
  ASSERT_TRUE(stored.ok()) << stored.status();
  ASSERT_EQ(stored->size(), 1u);
  EXPECT_EQ(stored->front().bits, 4);
  EXPECT_THAT(stored->front().weights, ElementsAre("table", "up/kernel", "down/kernel"));
  Session loaded =
      Session::Create(QuantizeWeights(graph, stored->front())->graph, {.workers = 2, .seed = 8}).value();
  const auto read = LoadWeights(loaded, Path("model.safetensors"), {.rules = WithBlockRules(rules)});
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->variables.size(), 10u);
  EXPECT_EQ(Logits(loaded), Logits(small));
}

TEST_F(QuantizedWeightsFileTest, WholeWeightsAreNotStoredInBlocks) {
  const Graph graph = Model(Devices("batch=1,model=2"));
  const Tensor halves = Tensor::Full({F16, {2, 4}}, 1);
  ASSERT_EQ(WriteSafetensors(Path("model.safetensors"), {{"table", Tensor::Full({F32, {kTokens, kUnits}}, 1)},
                                                         {"up/kernel.q", Tensor::Full({I8, {2, 2, 32}}, 1)},
                                                         {"up/kernel.scale", halves},
                                                         {"down/kernel.q", halves}}),
            absl::OkStatus());
  const auto stored = StoredInBlocks(graph, Path("model.safetensors"), {});
  ASSERT_TRUE(stored.ok()) << stored.status();
  ASSERT_EQ(stored->size(), 1u);
  EXPECT_EQ(stored->front().bits, 8);
  EXPECT_THAT(stored->front().weights, ElementsAre("up/kernel"));
}

TEST(QuantizeWeightsTest, LayoutsAreCarriedOver) {
  const QuantizedProgram program = QuantizeWeights(Model(Devices("batch=2,model=3")), All(4)).value();
  const Graph& g = program.graph;
  std::vector<std::string> names, variables;
  for (const QuantizedWeight& weight : program.weights)
    names.push_back(weight.name + (weight.is_transposed ? " transposed" : ""));
  EXPECT_THAT(names, ElementsAre("table", "up/kernel transposed", "down/kernel transposed"));
  for (const Argument& argument : g.arguments()) {
    const ValueInfo& info = g.value(argument.value);
    variables.push_back(fmt::format("{} {} {}", info.name, info.type.ToString(), info.layout->ToString()));
  }
  EXPECT_THAT(variables,
              ElementsAre("tokens i32[6] {batch}", "table.q u8[40,2,16] {model,_,_}",
                          "table.scale f16[40,2] {model,_}", "table.zero f16[40,2] {model,_}",
                          "up/kernel.q u8[192,2,16] {model,_,_}", "up/kernel.scale f16[192,2] {model,_}",
                          "up/kernel.zero f16[192,2] {model,_}", "down/kernel.q u8[64,6,16] {_,model,_}",
                          "down/kernel.scale f16[64,6] {_,model}", "down/kernel.zero f16[64,6] {_,model}",
                          "norm f32[64] {_}"));
  // Cut along k, a product is a sum over the devices.
  EXPECT_TRUE(Session::Create(g, {.workers = 1, .own_cores = false}).ok());
}

TEST(QuantizeWeightsTest, AProgramMayHaveWeightsOf4AndOf8Bits) {
  const Graph graph = Model(Devices("batch=1,model=2"));
  QuantizedProgram program = QuantizeWeights(graph, {.weights = {"*/kernel"}, .bits = 4}).value();
  program = QuantizeWeights(program.graph, {.weights = {"table"}, .bits = 8}).value();
  EXPECT_GE(program.graph.FindArgument("table.q"), 0);
  EXPECT_LT(program.graph.FindArgument("table.zero"), 0);
  EXPECT_GE(program.graph.FindArgument("up/kernel.zero"), 0);
  EXPECT_TRUE(Session::Create(program.graph, {.workers = 1, .own_cores = false}).ok());
}

TEST(QuantizeWeightsTest, KeepsPinsAndTextForms) {
  Graph g(Devices("model=2"));
  const Value x = g.Input("x", F32, {64, 3});
  const Value y = MatMul(x, g.Var("w", Zeros({64, 6}), {UNSHARDED, OPEN}), /*transpose_a=*/true);
  g.Pin(y, {UNSHARDED, "model"});
  g.Output("y", y);
  const Graph quantized = QuantizeWeights(g, {.weights = {"w"}, .bits = 8})->graph;
  const ValueId result = quantized.outputs()[0].value;
  EXPECT_EQ(quantized.value(result).layout->ToString(), "{_,model}");
  EXPECT_EQ(PrintGraph(ParseGraph(PrintGraph(quantized)).value()), PrintGraph(quantized));
  EXPECT_TRUE(Session::Create(quantized, {.workers = 1, .own_cores = false}).ok());
}

}  // namespace
}  // namespace meshwork::quantize_weights_test
