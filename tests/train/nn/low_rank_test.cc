// Low-rank adapters beside products: what they compute, their gradients, what is trained, and how they become weights.
#include "meshwork/train/nn/low_rank.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "meshwork/ir/row.h"
#include "support/safetensors_bytes.h"

namespace meshwork::low_rank_test {
namespace {

using ::testing::ElementsAre;

constexpr double kScale = 1.5;  // alpha 3, rank 2

Tensor Drawn(const Shape& shape, uint64_t seed) {
  Tensor tensor({F64, shape});
  Random random(seed);
  for (double& value : tensor.mutable_values<double>()) value = random.Uniform(-1, 1);
  return tensor;
}

SessionOptions Options() {
  SessionOptions options{.workers = 1, .own_cores = false, .seed = 4};
  options.executor.check_replicas = true;
  options.executor.poison_padding = true;
  return options;
}

// y = gelu(x up + bias) down; back = y downᵀ; loss = mean of back². In f64. `down` is read twice, once transposed.
struct Model {
  Graph graph;
  LowRankAdapters adapters;
};
Model Made(const std::string& mesh, const std::vector<std::string>& patterns, bool trains) {
  Graph g(Mesh::VirtualCpus(mesh).value());
  g.SetLayouts({.layouts = {{"x", {"batch", UNSHARDED}},
                            {"up", {UNSHARDED, "model"}},
                            {"down", {"model", UNSHARDED}},
                            {"bias", {"model"}}},
                .missing_axes = MissingAxes::kShardNothing});
  const Value x = g.Input("x", F64, {4, 6});
  const Variable up = g.Var("up", GlorotUniform({6, 7}, F64)),
                 down = g.Var("down", GlorotUniform({7, 5}, F64)),
                 bias = g.Var("bias", Filled(0.1, {7}, F64));
  const Value y = MatMul(Gelu(MatMul(x, up) + bias), down);
  const Value back = MatMul(y, down, false, /*transpose_b=*/true);
  const Value loss = ReduceMean(Square(back));
  g.Output("y", y);
  g.Output("back", back);
  g.Output("loss", loss);
  LowRankAdapters adapters;
  if (!patterns.empty()) adapters = AddLowRankAdapters(g, {.patterns = patterns, .rank = 2, .alpha = 3});
  if (trains) Adam({.learning_rate = 0.01}).Minimize(loss, adapters.variables);
  return {std::move(g), std::move(adapters)};
}

std::map<std::string, Tensor> VariablesOf(const Session& session) {
  std::map<std::string, Tensor> variables;
  for (const std::string& name : session.variable_names()) variables[name] = session.Get(name).value();
  return variables;
}

double MostOff(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.type(), b.type());
  double most = 0;
  for (int64_t i = 0; i < a.num_elements(); ++i)
    most = std::max(most, std::abs(a.values<double>()[static_cast<size_t>(i)] -
                                   b.values<double>()[static_cast<size_t>(i)]));
  return most;
}

Tensor CopyOf(const Tensor& a) {
  return Tensor::From<double>(a.shape(), {a.values<double>().begin(), a.values<double>().end()});
}

// a + scale b
Tensor Plus(const Tensor& a, double scale, const Tensor& b) {
  Tensor sum = CopyOf(a);
  for (int64_t i = 0; i < a.num_elements(); ++i)
    sum.mutable_values<double>()[static_cast<size_t>(i)] +=
        scale * b.values<double>()[static_cast<size_t>(i)];
  return sum;
}
Tensor Times(const Tensor& a, const Tensor& b) {
  const int64_t m = a.shape()[0], k = a.shape()[1], n = b.shape()[1];
  Tensor product({F64, {m, n}});
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l) sum += a.At({i, l}).value() * b.At({l, j}).value();
      product.mutable_values<double>()[static_cast<size_t>(i * n + j)] = sum;
    }
  return product;
}

TEST(LowRankTest, BeginsAsTheModelIs) {
  const Feeds feeds = {{"x", Drawn({4, 6}, 1)}};
  Session plain = Session::Create(Made("model=1", {}, false).graph, Options()).value();
  Model model = Made("batch=2,model=2", {"up", "down"}, false);
  EXPECT_EQ(model.adapters.scale, kScale);
  EXPECT_THAT(model.adapters.weights, ElementsAre("up", "down"));
  Session adapted = Session::Create(model.graph, Options()).value();
  EXPECT_THAT(adapted.variable_names(),
              ElementsAre("up", "down", "bias", "up.lora_a", "up.lora_b", "down.lora_a", "down.lora_b"));
  const auto of = [&](Session& session) { return session.Evaluate(feeds)->Get("back").value(); };
  EXPECT_LT(MostOff(of(plain), of(adapted)), 1e-13);
  EXPECT_EQ(adapted.Get("up.lora_b").value().At({1, 3}).value(), 0);
  EXPECT_NE(adapted.Get("up.lora_a").value().At({1, 1}).value(), 0);
}

// Any A and B on any mesh: the model computes as with W + scale A B, also where W stands transposed.
TEST(LowRankTest, AddsTheProductOfAAndB) {
  const Feeds feeds = {{"x", Drawn({4, 6}, 1)}};
  for (const std::string mesh : {"model=1", "model=2", "model=3", "batch=2,model=2", "batch=4"}) {
    SCOPED_TRACE(mesh);
    Session adapted = Session::Create(Made(mesh, {"up", "d*n"}, false).graph, Options()).value();
    Session plain = Session::Create(Made("model=1", {}, false).graph, Options()).value();
    uint64_t seed = 10;
    for (const std::string weight : {"up", "down"}) {
      const Tensor w = adapted.Get(weight).value();
      const Tensor a = Drawn({w.shape()[0], 2}, ++seed), b = Drawn({2, w.shape()[1]}, ++seed);
      ASSERT_TRUE(adapted.Set(weight + ".lora_a", a).ok());
      ASSERT_TRUE(adapted.Set(weight + ".lora_b", b).ok());
      ASSERT_TRUE(plain.Set(weight, Plus(w, kScale, Times(a, b))).ok());
    }
    for (const char* output : {"y", "back", "loss"})
      EXPECT_LT(
          MostOff(adapted.Evaluate(feeds)->Get(output).value(), plain.Evaluate(feeds)->Get(output).value()),
          1e-12)
          << output;
  }
}

// The program as it is read: A lies as the rows of W, B as its columns, and what they add waits for the same sum.
TEST(LowRankTest, StandsBesideTheProduct) {
  Graph g(Mesh::VirtualCpus("batch=2,model=2").value());
  const Value x = g.Input("x", BF16, {4, 2, 6}, {"batch", UNSHARDED, UNSHARDED});
  const Dense up(g, "ff/up", 6, 8,
                 {.kernel_layout = {UNSHARDED, "model"}, .dtype = F32, .compute = BF16, .bias = false});
  const Dense down(g, "ff/down", 8, 4,
                   {.kernel_layout = {"model", UNSHARDED}, .dtype = F32, .compute = BF16, .bias = false});
  g.Output("y", down(up(x)));
  AddLowRankAdapters(g, {.patterns = {"ff/*"}, .rank = 2, .alpha = 6});
  EXPECT_EQ(PrintGraph(g), R"(mesh [batch=2, model=2]
func step(%x: bf16[4,2,6] {batch,_,_},
     var %ff/up/kernel: f32[6,8] {_,model},
     var %ff/down/kernel: f32[8,4] {model,_},
     var %ff/up/kernel.lora_a: f32[6,2] {_,_},
     var %ff/up/kernel.lora_b: f32[2,8] {_,model},
     var %ff/down/kernel.lora_a: f32[8,2] {model,_},
     var %ff/down/kernel.lora_b: f32[2,4] {_,_}) {
  %0 = cast %ff/up/kernel dtype=bf16 : bf16[6,8]
  %1 = matmul %x, %0 : bf16[4,2,8]
  %2 = cast %ff/up/kernel.lora_a dtype=bf16 : bf16[6,2]
  %3 = cast %ff/up/kernel.lora_b dtype=bf16 : bf16[2,8]
  %4 = matmul %x, %2 : bf16[4,2,2]
  %5 = constant value=3 dtype=bf16 shape=[] : bf16[]
  %6 = mul %4, %5 : bf16[4,2,2]
  %7 = matmul %6, %3 : bf16[4,2,8]
  %8 = add %1, %7 : bf16[4,2,8]
  %9 = cast %ff/down/kernel dtype=bf16 : bf16[8,4]
  %10 = matmul %8, %9 : bf16[4,2,4]
  %11 = cast %ff/down/kernel.lora_a dtype=bf16 : bf16[8,2]
  %12 = cast %ff/down/kernel.lora_b dtype=bf16 : bf16[2,4]
  %13 = matmul %8, %11 : bf16[4,2,2]
  %14 = constant value=3 dtype=bf16 shape=[] : bf16[]
  %15 = mul %13, %14 : bf16[4,2,2]
  %16 = matmul %15, %12 : bf16[4,2,4]
  %17 = add %10, %16 : bf16[4,2,4]
  return y=%17
}
)");
  const Program program = Compile(g).value();
  int reductions = 0;
  for (const Node& node : program.body.nodes()) {
    if (node.row->name == "all_reduce") ++reductions;
    EXPECT_NE(node.row->name, "all_gather") << PrintGraph(program.body);
  }
  EXPECT_EQ(reductions, 1) << PrintGraph(program.body);
}

// Gradients of A and B beside differences, where B is not zero.
TEST(LowRankTest, GradientsAreSlopes) {
  Model model = Made("batch=2,model=2", {"up", "down"}, false);
  Graph& g = model.graph;
  Value loss;
  for (const OutputInfo& output : g.outputs())
    if (output.name == "loss") loss = Value(&g, output.value);
  std::vector<Variable> variables;
  for (const Variable& variable : g.variables())
    if (g.value(variable.id()).name.find(".lora_") != std::string::npos) variables.push_back(variable);
  for (const VariableGradient& gradient : VariableGradients(loss, variables))
    g.Output("d/" + g.value(gradient.variable.id()).name, gradient.gradient);
  Session session = Session::Create(g, Options()).value();
  const Feeds feeds = {{"x", Drawn({4, 6}, 1)}};
  ASSERT_TRUE(session.Set("up.lora_b", Drawn({2, 7}, 2)).ok());
  ASSERT_TRUE(session.Set("down.lora_b", Drawn({2, 5}, 3)).ok());
  const StepResult at = session.Evaluate(feeds).value();
  constexpr double kStep = 1e-5;
  for (const std::string name : {"up.lora_a", "up.lora_b", "down.lora_a", "down.lora_b"}) {
    const Tensor value = session.Get(name).value(), gradient = at.Get("d/" + name).value();
    ASSERT_EQ(gradient.type(), value.type());
    for (size_t i = 0; i < static_cast<size_t>(value.num_elements()); ++i) {
      double losses[2];
      for (const int side : {0, 1}) {
        Tensor moved = CopyOf(value);
        moved.mutable_values<double>()[i] = value.values<double>()[i] + (side == 0 ? -kStep : kStep);
        ASSERT_TRUE(session.Set(name, moved).ok());
        losses[side] = session.Evaluate(feeds, {"loss"})->scalar("loss").value();
      }
      EXPECT_NEAR(gradient.values<double>()[i], (losses[1] - losses[0]) / (2 * kStep), 1e-8)
          << name << " " << i;
    }
    ASSERT_TRUE(session.Set(name, value).ok());
  }
}

TEST(LowRankTest, TrainsTheAdaptersAlone) {
  const Feeds feeds = {{"x", Drawn({4, 6}, 1)}};
  std::vector<std::map<std::string, Tensor>> trained;
  for (const std::string mesh : {"model=1", "batch=2,model=2", "model=3"}) {
    Session session = Session::Create(Made(mesh, {"up", "down"}, true).graph, Options()).value();
    const std::map<std::string, Tensor> before = VariablesOf(session);
    const double first = session.Run(feeds)->scalar("loss").value();
    for (int step = 0; step < 10; ++step) ASSERT_TRUE(session.Run(feeds).ok());
    EXPECT_LT(session.Run(feeds)->scalar("loss").value(), first);
    trained.push_back(VariablesOf(session));
    for (const auto& [name, tensor] : trained.back()) {
      const bool is_weight = name.find('.') == std::string::npos && name != "adam/step";
      EXPECT_EQ(is_weight, RawBytes(tensor) == RawBytes(before.at(name))) << name;
      if (!is_weight && name != "adam/step") {
        EXPECT_LT(MostOff(tensor, trained[0].at(name)), 1e-10) << name;
      }
    }
    EXPECT_EQ(trained.back().size(), 3u + 4u + 8u + 1u);
  }
}

TEST(LowRankTest, MergedTheyComputeTheSame) {
  const Feeds feeds = {{"x", Drawn({4, 6}, 1)}};
  for (const std::string mesh : {"model=1", "batch=2,model=2", "model=3"}) {
    Model model = Made(mesh, {"up", "down"}, true);
    Session session = Session::Create(model.graph, Options()).value();
    for (int step = 0; step < 5; ++step) ASSERT_TRUE(session.Run(feeds).ok());
    const std::map<std::string, Tensor> before = VariablesOf(session);
    const Tensor back = session.Evaluate(feeds)->Get("back").value();
    ASSERT_EQ(MessageOf(MergeLowRankAdapters(session, model.adapters)), "");
    EXPECT_LT(MostOff(session.Evaluate(feeds)->Get("back").value(), back), 1e-13);
    for (const auto& [name, tensor] : VariablesOf(session)) {
      if (name == "up.lora_b" || name == "down.lora_b") {
        EXPECT_EQ(MostOff(tensor, Tensor::Zeros(tensor.type())), 0) << name;
      } else if (name == "up" || name == "down") {
        EXPECT_LT(MostOff(tensor, Plus(before.at(name), kScale,
                                       Times(before.at(name + ".lora_a"), before.at(name + ".lora_b")))),
                  1e-13);
        EXPECT_GT(MostOff(tensor, before.at(name)), 1e-4);
      } else {
        EXPECT_EQ(RawBytes(tensor), RawBytes(before.at(name))) << name;
      }
    }
    EXPECT_TRUE(session.Run(feeds).ok());  // it may be trained on
  }
}

TEST(LowRankTest, PeftNamesThemByTheWeight) {
  std::vector<std::string> rules;
  for (const WeightRule& rule : PeftRules({{.variable = "block*/attention/query",
                                .tensor = "model.layers.*.self_attn.q_proj.weight",
                                .transpose = true},
                                           {.variable = "table", .tensor = "h.wte.weight"},
                                           {.variable = "bias", .tensor = "h.bias"},
                                           {.variable = "q", .tensor = "qkv.weight", .rows = Extent{0, 4}}}))
    rules.push_back(fmt::format("{} {}{}", rule.variable, rule.tensor, rule.transpose ? " transposed" : ""));
  EXPECT_THAT(
      rules,
      ElementsAre(
          "block*/attention/query.lora_a base_model.model.model.layers.*.self_attn.q_proj.lora_A.weight transposed",
          "block*/attention/query.lora_b base_model.model.model.layers.*.self_attn.q_proj.lora_B.weight transposed",
          "table.lora_a base_model.model.h.wte.lora_B.weight",
          "table.lora_b base_model.model.h.wte.lora_A.weight"));
}

}  // namespace
}  // namespace meshwork::low_rank_test
