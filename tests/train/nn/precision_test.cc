// Results of layers in mixed precision, compared with loops over rounded numbers.
#include "meshwork/train/nn/precision.h"

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "meshwork/ir/text.h"

namespace meshwork::precision_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr Precision kMixed{.compute = BF16};
const std::vector<std::string> kPrecisionMeshes = {"batch=1", "batch=4", "model=3", "batch=2,model=2",
                                                   "batch=3,model=2"};

// x rounded to the 8 digits of bf16, ties to even.
double Rounded(double x) {
  int exponent = 0;
  const double fraction = std::frexp(x, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(fraction, 8)), exponent - 8);
}

// Numbers of more than 8 digits, whose products, rounded, add up in f32 without an error.
double InputAt(int64_t i, int64_t k) {
  return static_cast<double>((i * 7 + k * 13) % 97 - 48) * (1 + 0x1p-9);
}
double KernelAt(int64_t k, int64_t j) {
  return static_cast<double>((k * 5 + j * 11) % 61 - 30) * (1 - 0x1p-10);
}
double BiasAt(int64_t j) { return static_cast<double>(j) + 0x1p-9; }

Tensor Made(const Shape& shape, const std::function<double(int64_t, int64_t)>& at) {
  Tensor x(Type{F32, shape});
  const int64_t columns = shape.back();
  for (int64_t i = 0; i < x.num_elements(); ++i)
    x.mutable_values<float>()[static_cast<size_t>(i)] = static_cast<float>(at(i / columns, i % columns));
  return x;
}

constexpr int64_t kRows = 12, kInputs = 10, kUnits = 6;

TEST(PrecisionTest, DenseRoundsWhatItReadsAndItsResult) {
  for (const std::string& mesh : kPrecisionMeshes) {
    SCOPED_TRACE(mesh);
    Graph g(Mesh::VirtualCpus(mesh).value());
    const auto axis = [&](const char* name) {
      return g.mesh().FindAxes(name).ok() ? DimSpec(name) : DimSpec(UNSHARDED);
    };
    g.SetPrecision(kMixed);
    const Value x = g.Input("x", F32, {kRows, kInputs}, {axis("batch"), UNSHARDED});
    const Dense dense(g, "dense", kInputs, kUnits,
                      {.kernel_layout = {UNSHARDED, axis("model")}, .bias_layout = {axis("model")}});
    const Value y = dense(x);
    EXPECT_EQ(dense.kernel().dtype(), F32);
    EXPECT_EQ(y.dtype(), BF16);
    g.Output("y", y);
    Session session = Session::Create(g).value();
    ASSERT_TRUE(session.Set("dense/kernel", Made({kInputs, kUnits}, KernelAt)).ok());
    ASSERT_TRUE(session.Set("dense/bias", Made({kUnits}, [](int64_t, int64_t j) { return BiasAt(j); })).ok());
    const Tensor result = session.Run({{"x", Made({kRows, kInputs}, InputAt)}})->Get("y")->Cast(F64);
    for (int64_t i = 0; i < kRows; ++i) {
      for (int64_t j = 0; j < kUnits; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < kInputs; ++k) sum += Rounded(InputAt(i, k)) * Rounded(KernelAt(k, j));
        EXPECT_EQ(result.At({i, j}).value(), Rounded(Rounded(sum) + Rounded(BiasAt(j)))) << i << " " << j;
      }
    }
  }
}

TEST(PrecisionTest, GradientsArriveInTheDtypeOfTheVariable) {
  Graph g(Mesh::VirtualCpus("batch=2").value());
  g.SetPrecision(kMixed);
  const Value x = g.Input("x", F32, {4, 6}, {"batch", UNSHARDED}),
              labels = g.Input("labels", I32, {4}, {"batch"});
  const Dense hidden(g, "hidden", 6, 8);
  const LayerNormalization norm(g, "norm", 8);
  const Value logits = Dense(g, "head", 8, 3)(Relu(norm(hidden(x))));
  EXPECT_EQ(logits.dtype(), BF16);
  const Value loss = SparseSoftmaxCrossEntropy(logits, labels);
  EXPECT_EQ(loss.dtype(), F32);
  const std::vector<VariableGradient> gradients = VariableGradients(loss);
  EXPECT_EQ(gradients.size(), 6u);
  for (const VariableGradient& gradient : gradients) EXPECT_EQ(gradient.gradient.dtype(), F32);
  EXPECT_TRUE(g.status().ok()) << g.status();
}

TEST(PrecisionTest, ALayerMaySayOtherwise) {
  Graph g(Mesh::VirtualCpus("batch=2").value());
  const Value x = g.Input("x", F32, {4, 6}, {"batch", UNSHARDED});
  EXPECT_EQ(Dense(g, "plain", 6, 6)(x).dtype(), F32);
  g.SetPrecision(kMixed);
  EXPECT_EQ(Dense(g, "mixed", 6, 6)(x).dtype(), BF16);
  EXPECT_EQ(Dense(g, "wide", 6, 6, {.compute = F32})(x).dtype(), F32);
  const Dense narrow(g, "narrow", 6, 6, {.dtype = BF16});
  EXPECT_EQ(narrow.kernel().dtype(), BF16);
  EXPECT_EQ(narrow(Cast(x, BF16)).dtype(), BF16);
  // Each layer can read the result of a layer with another compute type.
  EXPECT_EQ(narrow(Dense(g, "first", 6, 6, {.compute = F32})(Dense(g, "inner", 6, 6)(x))).dtype(), BF16);
  g.SetPrecision({});
  EXPECT_EQ(Dense(g, "own", 6, 6, {.compute = BF16})(x).dtype(), BF16);
  EXPECT_TRUE(g.status().ok()) << g.status();
}

TEST(PrecisionTest, AllLayersTakeTheGraphsPrecision) {
  Graph g(Mesh::VirtualCpus("batch=2").value());
  g.SetPrecision(kMixed);
  const Value tokens = g.Input("tokens", I32, {2, 5}, {"batch", UNSHARDED});
  const Value x = Embedding(g, "embedding", 11, 8)(tokens);
  EXPECT_EQ(x.dtype(), BF16);
  EXPECT_EQ(RmsNormalization(g, "rms", 8)(x).dtype(), BF16);
  EXPECT_EQ(MultiHeadAttention(g, "attention", 8, 2, {.rotary = RotaryOptions()})(x).dtype(), BF16);
  EXPECT_EQ(FeedForward(g, "mlp", 8, 16)(x).dtype(), BF16);
  const Value images = g.Input("images", F32, {2, 6, 6, 1}, {"batch", UNSHARDED, UNSHARDED, UNSHARDED});
  EXPECT_EQ(Conv2D(g, "conv", 1, 4, {3, 3})(images).dtype(), BF16);
  for (const Variable& variable : g.variables()) EXPECT_EQ(variable.dtype(), F32);
  EXPECT_TRUE(g.status().ok()) << g.status();
}

// The lines of the local program that have this op.
std::vector<std::string> LinesOf(const Session& session, const std::string& op) {
  std::vector<std::string> lines;
  std::string text = PrintGraph(session.program().body);
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    const std::string line = text.substr(begin, end - begin);
    if (line.find(" " + op + " ") != std::string::npos) lines.push_back(line);
    begin = end == std::string::npos ? text.size() : end + 1;
  }
  return lines;
}

Session Trained(const std::string& mesh, const Precision& precision, Gathering gather, int64_t rows = 16) {
  Graph g(Mesh::VirtualCpus(mesh).value());
  g.SetPrecision(precision);
  const Value x = g.Input("x", F32, {rows, 64}, {"batch", UNSHARDED});
  const Value labels = g.Input("labels", I32, {rows}, {"batch"});
  const Dense hidden(g, "hidden", 64, 64, {.kernel_layout = {"batch", UNSHARDED}, .gather = gather});
  const Dense head(g, "head", 64, 8, {.kernel_layout = {"batch", UNSHARDED}, .gather = gather});
  const Value loss = SparseSoftmaxCrossEntropy(head(Relu(hidden(Relu(hidden(x))))), labels);
  Adam({.learning_rate = 0.01}).Minimize(loss);
  g.Output("loss", loss);
  return Session::Create(g).value();
}

TEST(PrecisionTest, BlocksAreCastBeforeTheyAreGathered) {
  for (const Gathering gather : {Gathering::kOnUse, Gathering::kAllowed}) {
    // With this many rows, weights are gathered; rows are not sent to where the weights lie.
    const Session mixed = Trained("batch=4", kMixed, gather, 1024),
                  full = Trained("batch=4", {}, gather, 1024);
    SCOPED_TRACE(PrintGraph(mixed.program().body));
    int64_t gathers = 0;
    for (const std::string& line : LinesOf(mixed, "all_gather")) {
      if (line.find("[64,") == std::string::npos) continue;
      ++gathers;
      EXPECT_THAT(line, HasSubstr(": bf16[64,")) << line;
    }
    EXPECT_GE(gathers, 2);
    for (const std::string& line : LinesOf(full, "all_gather")) EXPECT_THAT(line, Not(HasSubstr("bf16")));
  }
}

TEST(PrecisionTest, AWeightThatIsUsedTwiceIsCastOnce) {
  const Session session = Trained("batch=4", kMixed, Gathering::kAllowed);
  int64_t casts = 0;
  for (const std::string& line : LinesOf(session, "cast"))
    casts += line.find("cast %hidden/kernel") != std::string::npos ? 1 : 0;
  EXPECT_EQ(casts, 1);
}

TEST(PrecisionTest, TrainsAsFullPrecisionDoes) {
  const Tensor x =
      Made({16, 64}, [](int64_t i, int64_t k) { return std::sin(static_cast<double>(3 * i + 5 * k)); });
  Tensor labels(Type{I32, {16}});
  for (int i = 0; i < 16; ++i) labels.mutable_values<int32_t>()[static_cast<size_t>(i)] = i % 8;
  const auto losses = [&](const std::string& mesh, const Precision& precision) {
    Session session = Trained(mesh, precision, Gathering::kAllowed);
    std::vector<double> all;
    for (int step = 0; step < 20; ++step)
      all.push_back(session.Run({{"x", x}, {"labels", labels}})->scalar("loss").value());
    return all;
  };
  const std::vector<double> full = losses("batch=1", {});
  EXPECT_LT(full.back(), 0.5 * full.front());
  for (const char* mesh : {"batch=1", "batch=4"}) {
    const std::vector<double> mixed = losses(mesh, kMixed);
    for (size_t i = 0; i < full.size(); ++i)
      EXPECT_NEAR(mixed[i], full[i], 0.02 * full.front()) << mesh << " " << i;
    EXPECT_NE(mixed, full);
  }
}

// Statistics in bf16 would be off by several digits, here by all of them.
TEST(PrecisionTest, NormsRoundOnce) {
  constexpr int64_t kWidth = 96;
  Graph g(Mesh::VirtualCpus("model=2").value());
  const Value x = g.Input("x", BF16, {3, kWidth}, {UNSHARDED, "model"});
  const Value scale = g.Input("scale", F32, {kWidth}, {"model"}),
              offset = g.Input("offset", F32, {kWidth}, {"model"});
  g.Output("layer", LayerNorm(x, scale, offset));
  g.Output("rms", RmsNorm(x, scale));
  Session session = Session::Create(g).value();
  const auto at = [](int64_t i, int64_t j) {
    return 256.0 + static_cast<double>(2 * ((i * 31 + j * 17) % 5));
  };
  const auto scale_at = [](int64_t, int64_t j) { return 1 + static_cast<double>(j) / 128; };
  const auto offset_at = [](int64_t, int64_t j) { return static_cast<double>(j % 7) / 64; };
  const StepResult result = session
                                .Run({{"x", Made({3, kWidth}, at).Cast(BF16)},
                                      {"scale", Made({kWidth}, scale_at)},
                                      {"offset", Made({kWidth}, offset_at)}})
                                .value();
  const Tensor layer = result.Get("layer")->Cast(F64), rms = result.Get("rms")->Cast(F64);
  for (int64_t i = 0; i < 3; ++i) {
    double mean = 0, variance = 0, square = 0;
    for (int64_t j = 0; j < kWidth; ++j) mean += at(i, j) / kWidth;
    for (int64_t j = 0; j < kWidth; ++j) {
      variance += std::pow(at(i, j) - mean, 2) / kWidth;
      square += std::pow(at(i, j), 2) / kWidth;
    }
    for (int64_t j = 0; j < kWidth; ++j) {
      const double y = (at(i, j) - mean) / std::sqrt(variance + 1e-5) * scale_at(0, j) + offset_at(0, j);
      const double z = at(i, j) / std::sqrt(square + 1e-5) * scale_at(0, j);
      // Half of the last digit of bf16, plus the rounding error of f32.
      const auto half = [](double number) { return std::ldexp(1, std::ilogb(number) - 8) + 1e-5; };
      EXPECT_LE(std::abs(layer.At({i, j}).value() - y), half(y));
      EXPECT_LE(std::abs(rms.At({i, j}).value() - z), half(z));
    }
  }
}

TEST(PrecisionTest, LossesOfBf16AreThoseOfF32) {
  Graph g(Mesh::VirtualCpus("batch=2").value());
  const Value logits = g.Input("logits", BF16, {4, 6}, {"batch", UNSHARDED});
  const Value labels = g.Input("labels", I32, {4}, {"batch"});
  const Value targets = g.Input("targets", F32, {4, 6}, {"batch", UNSHARDED});
  const Value wide = Cast(logits, F32);
  const std::vector<std::pair<Value, Value>> pairs = {
      {SparseSoftmaxCrossEntropy(logits, labels), SparseSoftmaxCrossEntropy(wide, labels)},
      {SoftmaxCrossEntropy(logits, targets), SoftmaxCrossEntropy(wide, targets)},
      {MeanSquaredError(logits, targets), MeanSquaredError(wide, targets)},
      {HuberLoss(logits, targets), HuberLoss(wide, targets)},
      {CosineDistance(logits, targets), CosineDistance(wide, targets)}};
  for (size_t i = 0; i < pairs.size(); ++i) {
    EXPECT_EQ(pairs[i].first.dtype(), F32);
    g.Output("narrow" + std::to_string(i), pairs[i].first);
    g.Output("wide" + std::to_string(i), pairs[i].second);
  }
  Session session = Session::Create(g).value();
  const StepResult result =
      session
          .Run({{"logits",
                 Made({4, 6}, [](int64_t i, int64_t j) { return std::cos(static_cast<double>(i + 5 * j)); })
                     .Cast(BF16)},
                {"labels", Tensor::From<int32_t>({4}, {0, 5, 3, 2})},
                {"targets",
                 Made({4, 6}, [](int64_t i, int64_t j) { return static_cast<double>((i + j) % 2); })}})
          .value();
  for (size_t i = 0; i < pairs.size(); ++i)
    EXPECT_EQ(result.scalar("narrow" + std::to_string(i)).value(),
              result.scalar("wide" + std::to_string(i)).value());
}

// ---- Optimizers of weights in bf16.

// w of this dtype and loss = sum(c w²) / 2 with c = 1, 2, 3, in f32.
Session OfParabola(DType dtype, const Optimizer& optimizer) {
  Graph g(Mesh::VirtualCpus("model=2").value());
  const Variable w = g.Var("w", Filled(2, {3}, dtype), {"model"});
  const Value wide = InDType(w, F32), c = Iota(g, {F32, {3}}, 0) + 1.0;
  optimizer.Minimize(ReduceSum(c * wide * wide, {0}) / 2.0);
  return Session::Create(g).value();
}

std::vector<double> ValuesOf(const Session& session, const std::string& name) {
  const Tensor x = session.Get(name)->Cast(F64);
  return {x.values<double>().begin(), x.values<double>().end()};
}

TEST(NarrowWeightsTest, AdamKeepsItsMomentsInF32) {
  Session session = OfParabola(BF16, Adam({.learning_rate = 0.1, .beta2 = 0.999}));
  EXPECT_EQ(session.Get("w")->dtype(), BF16);
  EXPECT_EQ(session.Get("adam/m/w")->dtype(), F32);
  EXPECT_EQ(session.Get("adam/v/w")->dtype(), F32);
  std::vector<double> w(3, 2), m(3, 0), v(3, 0);
  for (int t = 1; t <= 8; ++t) {
    ASSERT_TRUE(session.Run({}).ok());
    for (size_t i = 0; i < 3; ++i) {
      const double g = Rounded(static_cast<double>(i + 1) * w[i]);
      m[i] = 0.9 * m[i] + 0.1 * g;
      v[i] = 0.999 * v[i] + 0.001 * g * g;  // in bf16 it would not grow after the first step
      const double move =
          0.1 * m[i] / (1 - std::pow(0.9, t)) / (std::sqrt(v[i] / (1 - std::pow(0.999, t))) + 1e-8);
      w[i] = Rounded(w[i] - move);
      EXPECT_EQ(ValuesOf(session, "w")[i], w[i]) << t;
      EXPECT_NEAR(ValuesOf(session, "adam/m/w")[i], m[i], 1e-6 * m[i]);
      EXPECT_NEAR(ValuesOf(session, "adam/v/w")[i], v[i], 1e-6 * v[i]);
    }
  }
}

TEST(NarrowWeightsTest, EveryOptimizerRoundsTheStepOfF32) {
  const std::vector<std::pair<std::string, Optimizer>> optimizers = {
      {"sgd", Sgd({.learning_rate = 0.01, .weight_decay = 0.1})},
      {"momentum", Momentum({.learning_rate = 0.01})},
      {"nesterov", Nesterov({.learning_rate = 0.01})},
      {"adagrad", Adagrad({.learning_rate = 0.01})},
      {"rmsprop", RmsProp({.learning_rate = 0.01, .momentum = 0.5, .centered = true})},
      {"adamw", AdamW({.learning_rate = CosineDecay({.initial = 0.01, .steps = 10})})},
      {"lamb", Lamb({.learning_rate = 0.01})}};
  for (const auto& [name, optimizer] : optimizers) {
    SCOPED_TRACE(name);
    Session narrow = OfParabola(BF16, optimizer), wide = OfParabola(F32, optimizer);
    ASSERT_TRUE(narrow.Run({}).ok() && wide.Run({}).ok());
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(ValuesOf(narrow, "w")[i], Rounded(ValuesOf(wide, "w")[i]));
    for (const std::string& variable : wide.variable_names()) {
      if (variable == "w") continue;
      EXPECT_EQ(narrow.Get(variable)->type(), wide.Get(variable)->type()) << variable;
      EXPECT_EQ(ValuesOf(narrow, variable), ValuesOf(wide, variable)) << variable;
    }
  }
}

}  // namespace
}  // namespace meshwork::precision_test
