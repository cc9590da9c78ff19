#include "meshwork/train/nn/layers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork.h"

namespace meshwork::layers_test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

Graph OnFour() { return Graph(Mesh::VirtualCpus("batch=2,model=2").value()); }

TEST(DenseTest, IsXTimesKernelPlusBias) {
  Graph g = OnFour();
  Value x = g.Input("x", F32, {3, 2}, {"batch", UNSHARDED});
  Dense dense(g, "dense", 2, 3, {.kernel_layout = {UNSHARDED, "model"}, .bias_layout = {"model"}});
  g.Output("y", dense(x));
  Session session = Session::Create(g).value();
  ASSERT_TRUE(session.Set("dense/kernel", Tensor::From<float>({2, 3}, {1, 2, 3, 4, 5, 6})).ok());
  ASSERT_TRUE(session.Set("dense/bias", Tensor::From<float>({3}, {100, 200, 300})).ok());
  const Tensor y = session.Run({{"x", Tensor::From<float>({3, 2}, {1, 0, 0, 1, 1, 1})}})->Get("y").value();
  EXPECT_EQ(y.shape(), (Shape{3, 3}));
  EXPECT_THAT(y.values<float>(), ElementsAre(101, 202, 303, 104, 205, 306, 105, 207, 309));
}

TEST(DenseTest, AddsItsBiasOnceWhereTheContractionIsSharded) {
  Graph g = OnFour();
  Value x = g.Input("x", F64, {1, 4}, {UNSHARDED, UNSHARDED});
  Dense dense(
      g, "dense", 4, 2,
      {.kernel_layout = {"model", UNSHARDED}, .dtype = F64, .kernel_initializer = Filled(1, {4, 2}, F64)});
  g.Output("y", dense(x));
  Session session = Session::Create(g).value();
  ASSERT_TRUE(session.Set("dense/bias", Tensor::From<double>({2}, {100, 200})).ok());
  const Tensor y = session.Run({{"x", Tensor::From<double>({1, 4}, {1, 2, 3, 4})}})->Get("y").value();
  EXPECT_THAT(y.values<double>(), ElementsAre(110, 210));
}

// The weights of two layers and a norm after three steps of Adam.
std::vector<Tensor> Trained(const std::string& mesh, Gathering gather, std::string* explained) {
  Graph g(Mesh::VirtualCpus(mesh).value());
  const DimSpec batch = g.mesh().num_axes() == 0 ? DimSpec(UNSHARDED) : DimSpec("batch");
  Value x = g.Input("x", F64, {6, 5}, {batch, UNSHARDED});
  const DenseOptions options{
      .kernel_layout = {batch, UNSHARDED}, .bias_layout = {batch}, .dtype = F64, .gather = gather};
  Dense dense1(g, "dense1", 5, 7, options);
  LayerNormalization norm(g, "norm", 7, {.layout = {batch}, .dtype = F64, .gather = gather});
  Dense dense2(g, "dense2", 7, 3, options);
  Adam({.learning_rate = 0.1}).Minimize(ReduceMean(Square(dense2(norm(Tanh(dense1(x))))), {0, 1}));
  Session session = Session::Create(g, {.executor = {.poison_padding = true}}).value();
  *explained = session.Explain();
  std::vector<double> numbers;
  for (int i = 0; i < 30; ++i) numbers.push_back(i % 7 - 3);
  for (int step = 0; step < 3; ++step)
    EXPECT_TRUE(session.Run({{"x", Tensor::From<double>({6, 5}, numbers)}}).ok());
  std::vector<Tensor> weights;
  for (const std::string& name : session.variable_names()) weights.push_back(session.Get(name).value());
  return weights;
}

TEST(DenseTest, LearnsTheSameWhereItsWeightsAreGatheredOnUse) {
  std::string kept, whole;
  const std::vector<Tensor> a = Trained("batch=4", Gathering::kOnUse, &kept),
                            b = Trained("", Gathering::kWithinBudget, &whole);
  EXPECT_NE(kept.find("uses %dense1/kernel, which is gathered on use"), std::string::npos) << kept;
  EXPECT_NE(kept.find("reduce_scatter"), std::string::npos) << kept;
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].dtype() != F64) continue;  // the optimizer's count of steps
    EXPECT_THAT(a[i].values<double>(), testing::Pointwise(testing::DoubleNear(1e-9), b[i].values<double>()));
  }
}

// A layer with an activation equals the layer followed by the op.
TEST(LayersTest, AnActivationIsTheOpBehindTheLayer) {
  const auto dense = [](Graph& g, const Activation& activation) {
    return Dense(g, "dense", 3, {.activation = activation})(g.Input("x", F32, {2, 4}));
  };
  const auto images = [](Graph& g) { return g.Input("x", F32, {2, 5, 5, 4}); };
  const auto conv = [&](Graph& g, const Activation& activation) {
    return Conv2D(g, "conv", 3, {3, 3}, {.activation = activation})(images(g));
  };
  const auto transposed = [&](Graph& g, const Activation& activation) {
    return Conv2DTranspose(g, "conv", 3, {3, 3}, {.bias = false, .activation = activation})(images(g));
  };
  const auto depthwise = [&](Graph& g, const Activation& activation) {
    return DepthwiseConv2D(g, "conv", {3, 3}, {.activation = activation})(images(g));
  };
  const auto separable = [&](Graph& g, const Activation& activation) {
    return SeparableConv2D(g, "conv", 3, {3, 3}, {.activation = activation})(images(g));
  };
  for (const std::function<Value(Graph&, const Activation&)>& layer :
       {std::function<Value(Graph&, const Activation&)>(dense),
        {conv},
        {transposed},
        {depthwise},
        {separable}}) {
    for (const Activation& activation :
         {Activation(Relu), Activation([](const Operand& x) { return LeakyRelu(x, 0.2); })}) {
      Graph within{Mesh()}, behind{Mesh()};
      within.Output("y", layer(within, activation));
      behind.Output("y", activation(layer(behind, nullptr)));
      ASSERT_TRUE(within.status().ok()) << within.status();
      EXPECT_EQ(PrintGraph(within), PrintGraph(behind));
      EXPECT_NE(PrintGraph(within).find("relu"), std::string::npos);
    }
  }
}

TEST(DenseTest, StartsWithAGlorotKernelAndAZeroBias) {
  Graph g = OnFour();
  Dense dense(g, "a/b", 30, 20);
  EXPECT_EQ(dense.kernel().type(), (Type{F32, {30, 20}}));
  EXPECT_EQ(dense.bias().type(), (Type{F32, {20}}));
  Session session = Session::Create(g).value();
  EXPECT_THAT(session.variable_names(), ElementsAre("a/b/kernel", "a/b/bias"));
  EXPECT_THAT(session.Get("a/b/bias")->values<float>(), Each(0));
  const Tensor kernel = session.Get("a/b/kernel").value();
  const auto [low, high] = std::ranges::minmax(kernel.values<float>());
  const float limit = std::sqrt(6.f / 50);
  EXPECT_THAT(kernel.values<float>(), Each(testing::AllOf(testing::Ge(-limit), testing::Le(limit))));
  EXPECT_LT(low, -0.95f * limit);
  EXPECT_GT(high, 0.95f * limit);
}

TEST(DenseTest, ReportsMistakesWhereItIsBuiltAndCalled) {
  Graph g = OnFour();
  const int line = __LINE__ + 1;
  Value x = g.Input("x", F32, {3, 2}, {"batch", UNSHARDED});
  Dense dense(g, "dense", 5, 3);
  Value y = dense(x);
  Dense twice(g, "dense", 5, 3);
  Dense mistyped(g, "mistyped", 2, 3, {.kernel_layout = {UNSHARDED, "modle"}});
  Dense other(g, "other", 2, 3, {.kernel_initializer = Zeros({3, 2})});
  Value z = other(x);
  EXPECT_FALSE(y.valid());
  EXPECT_FALSE(z.valid());
  EXPECT_EQ(
      MessageOf(g.status()),
      fmt::format(
          "matmul (layers_test.cc:{} in dense): k differs: a is f32[3,2] (k=2), b is f32[5,3] (k=5); "
          "make a's columns as many as b's rows.\n"
          "Var \"dense/kernel\" (layers_test.cc:{}): the name is already taken; names of inputs and "
          "variables must be unique: give another name, or open a NameScope.\n"
          "Var \"dense/bias\" (layers_test.cc:{}): the name is already taken; names of inputs and "
          "variables must be unique: give another name, or open a NameScope.\n"
          "Var \"mistyped/kernel\" (layers_test.cc:{}): Layout {{_,modle}}: mesh [batch=2, model=2] has "
          "no axis \"modle\"; did you mean \"model\"?\n"
          "matmul (layers_test.cc:{} in other): k differs: a is f32[3,2] (k=2), b is f32[3,2] (k=3); "
          "transpose_b=true takes it transposed.",
          line + 2, line + 3, line + 3, line + 4, line + 6));
}

// All layers that have inputs, with the number of inputs given or not. The mean square of the result is trained.
Session AllLayers(bool told) {
  Graph made(Mesh::VirtualCpus("batch=2,model=2").value());
  const auto layer = [&](auto with, auto without) { return told ? with() : without(); };
  std::optional<Sequential> model;
  {
    Graph& g = made;
    const NameScope scope(g, "outer");
    const FeedForwardOptions cut{.hidden = "model"};
    model.emplace(
        layer([&] { return Conv1D(g, "conv", 3, 4, {2}); }, [&] { return Conv1D(g, "conv", 4, {2}); }));
    model  // in sequence: arguments of one call may be evaluated in any order
        ->Add(layer([&] { return DepthwiseConv1D(g, "depthwise", 4, {2}, {.multiplier = 2}); },
                    [&] { return DepthwiseConv1D(g, "depthwise", {2}, {.multiplier = 2}); }))
        .Add(layer([&] { return SeparableConv1D(g, "separable", 8, 6, {2}); },
                   [&] { return SeparableConv1D(g, "separable", 6, {2}); }))
        .Add(layer([&] { return Conv1DTranspose(g, "up", 6, 4, {2}); },
                   [&] { return Conv1DTranspose(g, "up", 4, {2}); }))
        .Add(layer([&] { return BatchNormalization(g, "batch", 4); },
                   [&] { return BatchNormalization(g, "batch"); }))
        .Add(layer([&] { return GroupNormalization(g, "group", 4, 2); },
                   [&] { return GroupNormalization(g, "group", 2); }))
        .Add(layer([&] { return LayerNormalization(g, "layer", 4); },
                   [&] { return LayerNormalization(g, "layer"); }))
        .Add(layer([&] { return RmsNormalization(g, "rms", 4); }, [&] { return RmsNormalization(g, "rms"); }))
        .Add(layer([&] { return MultiHeadAttention(g, "attention", 4, 2); },
                   [&] { return MultiHeadAttention(g, "attention", 2); }))
        .Add(layer([&] { return FeedForward(g, "mlp", 4, 8, cut); },
                   [&] { return FeedForward(g, "mlp", 8, cut); }))
        .Add([lstm = layer([&] { return Bidirectional<Lstm>(g, "lstm", 4, 5); },
                           [&] { return Bidirectional<Lstm>(g, "lstm", 5); })](const Value& x) {
          return lstm(x).sequence;
        })
        .Add([gru = layer([&] { return Gru(g, "gru", 10, 3); }, [&] { return Gru(g, "gru", 3); })](
                 const Value& x) { return gru(x).state; })
        .Add(layer([&] { return Dense(g, "dense", 3, 2); }, [&] { return Dense(g, "dense", 2); }));
  }
  Graph g = std::move(made);  // layers that wait for their first call follow
  const Value x = g.Input("x", F32, {4, 7, 3}, {"batch", UNSHARDED, UNSHARDED});
  // Called twice, and a copy of it: the variables are the same.
  const Sequential copy = *model;
  const Value loss = ReduceMean(Square((*model)(x))) + ReduceMean(copy(2.0 * x));
  Sgd({.learning_rate = 0.1}).Minimize(loss);
  g.Output("loss", loss);
  return Session::Create(g).value();
}

TEST(LayersTest, TheFirstCallTellsHowManyInputsThereAre) {
  Session told = AllLayers(true), inferred = AllLayers(false);
  EXPECT_EQ(inferred.variable_names(), told.variable_names());
  EXPECT_THAT(inferred.variable_names(), testing::Contains("outer/mlp/out/kernel"));
  std::vector<float> numbers;
  for (int i = 0; i < 84; ++i) numbers.push_back(static_cast<float>(i % 11) / 4 - 1);
  const Feeds feeds = {{"x", Tensor::From<float>({4, 7, 3}, numbers)}};
  for (int step = 0; step < 3; ++step)
    EXPECT_EQ(inferred.Run(feeds)->scalar("loss").value(), told.Run(feeds)->scalar("loss").value());
}

// The layer's result for x [s][units], in doubles and by the definition: softmax over the positions that are seen.
std::vector<double> AttentionOf(const std::vector<double>& x, const std::vector<std::vector<double>>& kernels,
                                size_t s, size_t units, size_t heads, bool causal) {
  const auto times = [&](const std::vector<double>& a, const std::vector<double>& kernel) {
    std::vector<double> y(s * units, 0);
    for (size_t i = 0; i < s; ++i)
      for (size_t k = 0; k < units; ++k)
        for (size_t j = 0; j < units; ++j) y[i * units + j] += a[i * units + k] * kernel[k * units + j];
    return y;
  };
  const std::vector<double> q = times(x, kernels[0]), k = times(x, kernels[1]), v = times(x, kernels[2]);
  const size_t width = units / heads;
  std::vector<double> y(s * units, 0);
  for (size_t h = 0; h < heads; ++h)
    for (size_t i = 0; i < s; ++i) {
      const size_t seen = causal ? i + 1 : s;
      std::vector<double> share(seen, 0);
      double sum = 0;
      for (size_t t = 0; t < seen; ++t) {
        for (size_t d = h * width; d < (h + 1) * width; ++d) share[t] += q[i * units + d] * k[t * units + d];
        sum += share[t] = std::exp(share[t] / std::sqrt(static_cast<double>(width)));
      }
      for (size_t t = 0; t < seen; ++t)
        for (size_t d = h * width; d < (h + 1) * width; ++d)
          y[i * units + d] += share[t] / sum * v[t * units + d];
    }
  return times(y, kernels[3]);
}

// By default every position sees the whole sequence, as with the op. With `causal`, none sees a later position.
TEST(MultiHeadAttentionTest, IsCausalOnlyWhereItIsAskedFor) {
  EXPECT_EQ(MultiHeadAttentionOptions().causal, AttentionOptions().causal);
  constexpr size_t kLength = 5, kUnits = 6, kHeads = 3;
  const auto numbers = [](size_t count, size_t seed) {
    std::vector<double> drawn;
    for (size_t i = 0; i < count; ++i)
      drawn.push_back(static_cast<double>((i * 37 + seed * 11) % 23) / 11 - 1);
    return drawn;
  };
  const std::vector<double> x = numbers(kLength * kUnits, 9);
  for (const std::optional<bool> asked : {std::optional<bool>(), std::optional(false), std::optional(true)}) {
    for (const char* mesh : {"batch=1,model=1", "batch=2,model=3"}) {
      Graph g(Mesh::VirtualCpus(mesh).value());
      MultiHeadAttentionOptions options{.heads = "model", .dtype = F64};
      if (asked.has_value()) options.causal = *asked;
      const MultiHeadAttention attention(g, "attention", kUnits, kHeads, options);
      g.Output("y", attention(g.Input("x", F64, {1, kLength, kUnits})));
      Session session = Session::Create(g).value();
      std::vector<std::vector<double>> kernels;
      for (const char* name : {"query", "key", "value", "out"}) {
        kernels.push_back(numbers(kUnits * kUnits, kernels.size()));
        ASSERT_TRUE(session
                        .Set(fmt::format("attention/{}", name),
                             Tensor::From<double>({kUnits, kUnits}, kernels.back()))
                        .ok());
      }
      const Tensor y = session.Run({{"x", Tensor::From<double>({1, kLength, kUnits}, x)}})->Get("y").value();
      const std::vector<double> expected =
          AttentionOf(x, kernels, kLength, kUnits, kHeads, asked.value_or(false));
      for (size_t i = 0; i < expected.size(); ++i)
        EXPECT_NEAR(y.values<double>()[i], expected[i], 1e-12) << mesh;
    }
  }
}

// The numbers of a variable, drawn by its place and name.
Tensor DrawnFor(const std::string& name, const Shape& shape) {
  std::vector<double> drawn;
  for (int64_t i = 0; i < NumElements(shape); ++i)
    drawn.push_back(
        static_cast<double>((i * 37 + static_cast<int64_t>(name.size()) * 11 + name.back()) % 23) / 11 - 1);
  return Tensor::From<double>(shape, drawn);
}

// The output "y" of a program, with drawn variables and these feeds.
std::vector<double> YOf(Graph& g, const Feeds& feeds) {
  absl::StatusOr<Session> session = Session::Create(g, {.workers = 1, .own_cores = false});
  EXPECT_TRUE(session.ok()) << session.status();
  for (const std::string& name : session->variable_names()) {
    if (!name.starts_with("a/")) continue;
    EXPECT_TRUE(session->Set(name, DrawnFor(name, session->Get(name)->shape())).ok());
  }
  const Tensor y = session->Evaluate(feeds, {"y"})->Get("y").value();
  return {y.values<double>().begin(), y.values<double>().end()};
}

void ExpectNear(const std::vector<double>& have, const std::vector<double>& want, double tolerance = 1e-11) {
  ASSERT_EQ(have.size(), want.size());
  for (size_t i = 0; i < have.size(); ++i) EXPECT_NEAR(have[i], want[i], tolerance) << i;
}

constexpr const char* kMeshes[] = {"batch=1,model=1", "batch=2,model=2", "batch=1,model=3"};

// Every option of the layer is the same as what it says, written out by ops.
TEST(MultiHeadAttentionTest, OptionsAreWhatTheySay) {
  constexpr int64_t kB = 2, kS = 5, kUnits = 8, kHeads = 4, kKv = 2, kHead = 6;
  const Feeds feeds = {{"x", DrawnFor("x", {kB, kS, kUnits})}, {"m", DrawnFor("memory", {kB, 3, 7})}};
  struct Case {
    const char* name;
    MultiHeadAttentionOptions options;
    bool has_memory = false;
  };
  const Case cases[] = {
      {"biases", {.bias = true, .out_bias = true}},
      {"grouped", {.causal = true, .kv_heads = kKv, .head = kHead}},
      {"rotary",
       {.causal = true,
        .rotary = RotaryOptions{.base = 50, .pairs = RotaryPairs::kNeighbours, .dims = 4},
        .kv_heads = kKv,
        .head = kHead}},
      {"window", {.causal = true, .kv_heads = kKv, .window = 2}},
      {"cap", {.scale = 0.7, .soft_cap = 1.5}},
      {"memory", {.kv_heads = kKv, .memory_units = 7}, true},
  };
  for (const Case& of : cases) {
    const MultiHeadAttentionOptions& o = of.options;
    const int64_t kv = o.kv_heads == 0 ? kHeads : o.kv_heads, head = o.head == 0 ? kUnits / kHeads : o.head;
    Graph plain{Mesh()};
    {
      const Value x = plain.Input("x", F64, {kB, kS, kUnits}), m = plain.Input("m", F64, {kB, 3, 7});
      const Value memory = of.has_memory ? m : x;
      const auto projected = [&](const char* name, const Value& from, int64_t heads) {
        Value y =
            MatMul(from, plain.Var(fmt::format("a/{}", name), Zeros({from.shape()[2], heads * head}, F64)));
        if (o.bias) y = y + plain.Var(fmt::format("a/{}_bias", name), Zeros({heads * head}, F64));
        return Reshape(y, {kB, from.shape()[1], heads, head});
      };
      Value q = projected("query", x, kHeads), k = projected("key", memory, kv),
            v = projected("value", memory, kv);
      if (o.rotary.has_value()) q = RotaryPositions(q, *o.rotary), k = RotaryPositions(k, *o.rotary);
      k = Repeat(k, kHeads / kv, 2), v = Repeat(v, kHeads / kv, 2);
      Value scores =
          Einsum("bshd,bthd->bhst", {q, k}) * o.scale.value_or(1 / std::sqrt(static_cast<double>(head)));
      if (o.soft_cap > 0) scores = Tanh(scores / o.soft_cap) * o.soft_cap;
      if (o.causal) {
        const Value i = Iota(plain, {I32, {kS, kS}}, 0), j = Iota(plain, {I32, {kS, kS}}, 1);
        Value sees = GreaterEqual(i, j);
        if (o.window > 0) sees = And(sees, Less(i - j, static_cast<double>(o.window)));
        scores = Select(sees, scores, -std::numeric_limits<double>::infinity());
      }
      Value y = Reshape(Einsum("bhst,bthd->bshd", {Softmax(scores), v}), {kB, kS, kHeads * head});
      y = MatMul(y, plain.Var("a/out", Zeros({kHeads * head, kUnits}, F64)));
      if (o.out_bias) y = y + plain.Var("a/out_bias", Zeros({kUnits}, F64));
      plain.Output("y", y);
    }
    const std::vector<double> want = YOf(plain, feeds);
    for (const char* mesh : kMeshes) {
      SCOPED_TRACE(fmt::format("{} on {}", of.name, mesh));
      Graph g(Mesh::VirtualCpus(mesh).value());
      const Value x = g.Input("x", F64, {kB, kS, kUnits}, {"batch", UNSHARDED, UNSHARDED});
      const Value m = g.Input("m", F64, {kB, 3, 7});
      MultiHeadAttentionOptions options = o;
      options.heads = "model";
      options.dtype = F64;
      const MultiHeadAttention attention(g, "a", kHeads, options);
      g.Output("y", attention(x, {.memory = of.has_memory ? m : Value()}));
      ExpectNear(YOf(g, feeds), want);
    }
  }
}

// Steps one after the other with a cache give what all steps give at once, for rows at places of their own.
TEST(MultiHeadAttentionTest, ACacheRemembersTheStepsBefore) {
  constexpr int64_t kB = 2, kS = 6, kUnits = 8, kHeads = 4, kC = 9;
  const MultiHeadAttentionOptions options{
      .causal = true, .rotary = RotaryOptions(), .kv_heads = 2, .heads = "model", .dtype = F64};
  const Tensor x = DrawnFor("x", {kB, kS, kUnits});
  Graph whole{Mesh()};
  MultiHeadAttentionOptions on_one = options;
  on_one.heads = UNSHARDED;
  whole.Output("y", MultiHeadAttention(whole, "a", kHeads, on_one)(whole.Input("x", F64, {kB, kS, kUnits})));
  const std::vector<double> want = YOf(whole, {{"x", x}});
  for (const char* mesh : kMeshes) {
    SCOPED_TRACE(mesh);
    Graph g(Mesh::VirtualCpus(mesh).value());
    const MultiHeadAttention attention(g, "a", kHeads, options);
    // Row 1 is a step behind row 0; steps before a row's first one are written to place 0, which its first one overwrites.
    const Value in = g.Input("x", F64, {kB, kS, kUnits});
    AttentionCache cache{Constant(g, 9, {F64, {kB, kC, 2, 2}}), Constant(g, 9, {F64, {kB, kC, 2, 2}}),
                         Constant(g, 0, {I32, {kB}})};
    std::vector<Value> rows0, rows1;
    for (int64_t t = 0; t <= kS; ++t) {
      const Value row0 = Slice(in, {0, std::min(t, kS - 1), 0}, {1, std::min(t, kS - 1) + 1, kUnits});
      const Value row1 =
          Slice(in, {1, std::max<int64_t>(t - 1, 0), 0}, {2, std::max<int64_t>(t - 1, 0) + 1, kUnits});
      cache.places = Constant(g, std::vector<int64_t>{t, std::max<int64_t>(t - 1, 0)}, {I32, {kB}});
      const Value y = attention(Concat({row0, row1}, 0), {.cache = &cache});
      if (t < kS) rows0.push_back(SliceDim(y, 0, 0, 1));
      if (t > 0) rows1.push_back(SliceDim(y, 0, 1, 2));
    }
    g.Output("y", Concat({Concat(rows0, 1), Concat(rows1, 1)}, 0));
    ExpectNear(YOf(g, {{"x", x}}), want);
  }
}

TEST(MultiHeadAttentionTest, DropsSharesInTraining) {
  Graph g{Mesh()};
  const Value x = g.Input("x", F64, {1, 64, 8});
  const MultiHeadAttention attention(g, "a", 2, {.dropout = 0.5, .dtype = F64});
  const MultiHeadAttention all(g, "b", 2, {.dtype = F64});
  g.Output("y", attention(x));
  g.Output("all", all(x));
  Session session = Session::Create(g).value();
  for (const char* name : {"query", "key", "value", "out"})
    ASSERT_TRUE(session.Set(fmt::format("b/{}", name), session.Get(fmt::format("a/{}", name)).value()).ok());
  const Feeds feeds = {{"x", DrawnFor("x", {1, 64, 8})}};
  const StepResult evaluated = session.Evaluate(feeds).value(), trained = session.Run(feeds).value();
  const auto numbers = [](const StepResult& result, const char* name) {
    const Tensor y = result.Get(name).value();
    return std::vector<double>(y.values<double>().begin(), y.values<double>().end());
  };
  ExpectNear(numbers(evaluated, "y"), numbers(evaluated, "all"));
  double difference = 0;
  for (size_t i = 0; i < 64 * 8; ++i)
    difference = std::max(difference, std::abs(numbers(trained, "y")[i] - numbers(trained, "all")[i]));
  EXPECT_GT(difference, 0.01);
}

TEST(FeedForwardTest, MayBeGatedAndWithoutBiases) {
  const Feeds feeds = {{"x", DrawnFor("x", {3, 4})}};
  Graph plain{Mesh()};
  {
    const Value x = plain.Input("x", F64, {3, 4});
    const auto weight = [&](const char* name, const Shape& shape) {
      return plain.Var(fmt::format("a/{}/kernel", name), Zeros(shape, F64));
    };
    const Value gate = MatMul(x, weight("gate", {4, 6}));
    plain.Output("y",
                 MatMul(gate / (1.0 + Exp(-gate)) * MatMul(x, weight("in", {4, 6})), weight("out", {6, 4})));
  }
  const std::vector<double> want = YOf(plain, feeds);
  for (const char* mesh : kMeshes) {
    Graph g(Mesh::VirtualCpus(mesh).value());
    const FeedForward layer(
        g, "a", 6, {.hidden = "model", .activation = Silu, .gated = true, .bias = false, .dtype = F64});
    g.Output("y", layer(g.Input("x", F64, {3, 4})));
    ExpectNear(YOf(g, feeds), want);
  }
}

TEST(LayersTest, VariablesAreNotValidBeforeTheFirstCall) {
  Graph g = OnFour();
  const Dense dense(g, "dense", 3);
  EXPECT_FALSE(dense.kernel().valid());
  EXPECT_EQ(g.FindArgument("dense/kernel"), -1);
  dense(g.Input("x", F32, {2, 5}));
  EXPECT_EQ(dense.kernel().shape(), (Shape{5, 3}));
  EXPECT_EQ(dense.bias().shape(), (Shape{3}));
}

TEST(LayersTest, TheFirstCallMayBeInTheBodyOfALoop) {
  Graph g = OnFour();
  const Dense dense(g, "dense", 3, {.kernel_initializer = Filled(0.5), .bias = false});
  const Value x = g.Input("x", F32, {4, 2, 3});
  const ScanResult y = Scan(g, {Constant(g, 1, {F32, {2, 3}})}, {x},
                            [&](Graph&, const std::vector<Value>& carries, const std::vector<Value>& slices) {
                              return ScanStep{.carries = {dense(carries[0]) + slices[0]}, .stacked = {}};
                            });
  g.Output("y", y.carries[0]);
  Session session = Session::Create(g).value();
  // 1 -> 1.5 · 1 and so on: the sum of three halves, four times.
  EXPECT_THAT(session.Run({{"x", Tensor::Zeros({F32, {4, 2, 3}})}})->Get("y")->values<float>(),
              Each(1.5f * 1.5f * 1.5f * 1.5f));
}

TEST(LayersTest, OptionsTakeInitializersWithoutAShape) {
  Graph g = OnFour();
  const LayerInitializer by_column = [](const Shape& shape, DType dtype) {
    return Initializer{{dtype, shape}, [](Graph& graph, const Type& type, int64_t, int64_t) {
                         return Cast(Iota(graph, {I64, type.shape}, type.rank() - 1), type.dtype);
                       }};
  };
  Dense(g, "dense", 2, 3, {.dtype = F64, .kernel_initializer = by_column, .bias_initializer = Filled(7)});
  Conv2D(g, "conv", 16, 32, {3, 3}, {.kernel_initializer = HeNormal()});
  Lstm(g, "lstm", 2, 2, {.kernel_initializer = by_column, .bias_initializer = Filled(5)});
  Embedding(g, "embedding", 4, 2, {.initializer = by_column});
  BatchNormalization(g, "norm", 2, {.scale_initializer = Filled(3), .offset_initializer = by_column});
  Session session = Session::Create(g).value();
  EXPECT_THAT(session.Get("dense/kernel")->values<double>(), ElementsAre(0, 1, 2, 0, 1, 2));
  EXPECT_THAT(session.Get("dense/bias")->values<double>(), Each(7));
  // The kernel is a matrix [inputs, gates · units]. The forget gate's bias starts at 1.
  EXPECT_THAT(session.Get("lstm/kernel")->values<float>(),
              ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(session.Get("lstm/bias")->values<float>(), ElementsAre(5, 5, 1, 1, 5, 5, 5, 5));
  EXPECT_THAT(session.Get("embedding/table")->values<float>(), ElementsAre(0, 1, 0, 1, 0, 1, 0, 1));
  EXPECT_THAT(session.Get("norm/scale")->values<float>(), Each(3));
  EXPECT_THAT(session.Get("norm/offset")->values<float>(), ElementsAre(0, 1));
  // The mean square of 4608 numbers with variance 2 / (3 · 3 · 16).
  double squares = 0;
  const Tensor kernel = session.Get("conv/kernel").value();
  for (float w : kernel.values<float>()) squares += w * w;
  EXPECT_NEAR(squares / 4608, 2. / 144, 0.1 * 2. / 144);
}

TEST(LayerNormalizationTest, StandardizesRowsThenScalesAndShifts) {
  Graph g = OnFour();
  Value x = g.Input("x", F64, {2, 3}, {"batch", "model"});
  LayerNormalization norm(g, "norm", 3, {.layout = {"model"}, .dtype = F64, .epsilon = 2});
  g.Output("y", norm(x));
  Session session = Session::Create(g).value();
  EXPECT_THAT(session.variable_names(), ElementsAre("norm/scale", "norm/offset"));
  EXPECT_THAT(session.Get("norm/scale")->values<double>(), Each(1));
  EXPECT_THAT(session.Get("norm/offset")->values<double>(), Each(0));
  ASSERT_TRUE(session.Set("norm/scale", Tensor::From<double>({3}, {1, 2, 4})).ok());
  ASSERT_TRUE(session.Set("norm/offset", Tensor::From<double>({3}, {10, 20, 30})).ok());
  // Rows 1, 4, 4 and -2, 1, 1: mean 3 or 0, variance 2; with epsilon, the root is 2.
  const Tensor y = session.Run({{"x", Tensor::From<double>({2, 3}, {1, 4, 4, -2, 1, 1})}})->Get("y").value();
  EXPECT_THAT(y.values<double>(), ElementsAre(9, 21, 32, 9, 21, 32));
}

TEST(LayerNormalizationTest, ReportsMistakesWhereItIsCalled) {
  Graph g = OnFour();
  LayerNormalization norm(g, "norm", 3);
  Value y = norm(g.Input("x", F32, {2, 4}, {UNSHARDED, UNSHARDED}));
  const int line = __LINE__ - 1;
  EXPECT_FALSE(y.valid());
  EXPECT_EQ(
      MessageOf(g.status()),
      fmt::format("layer_norm (layers_test.cc:{}): x is f32[2,4], scale f32[3], offset f32[3]; x must be "
                  "floats, scale and offset as x's last dims.",
                  line));
}

}  // namespace
}  // namespace meshwork::layers_test
