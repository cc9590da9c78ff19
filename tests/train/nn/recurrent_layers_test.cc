// tests/fixtures/layers_test.cc compares recurrent layers with PyTorch. Here: variables, trainings, short batches.
#include "meshwork/train/nn/recurrent_layers.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "support/tensors.h"
#include "train/classifier.h"

namespace meshwork::recurrent_layers_test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

constexpr const char* kRecurrentMeshes[] = {"batch=1", "batch=2", "model=2", "batch=3,model=2",
                                            "batch=4,model=2"};

// The state after the last step, of a layer "l" of 3 inputs and 4 units.
using Call = std::function<Value(Graph& g, const Value& x, const RecurrentOptions& options)>;
const std::map<std::string, Call>& Calls() {
  static const auto* const calls = new std::map<std::string, Call>{
      {"rnn", [](Graph& g, const Value& x,
                 const RecurrentOptions& options) { return SimpleRnn(g, "l", 3, 4, options)(x).state; }},
      {"lstm", [](Graph& g, const Value& x,
                  const RecurrentOptions& options) { return Lstm(g, "l", 3, 4, options)(x).state; }},
      {"gru", [](Graph& g, const Value& x,
                 const RecurrentOptions& options) { return Gru(g, "l", 3, 4, options)(x).state; }},
  };
  return *calls;
}

// x: [6,5,3] -> classes of the last state; trained.
Graph Network(const std::string& mesh, const Call& call, Gathering gather) {
  Graph g(Mesh::VirtualCpus(mesh).value());
  const DimSpec batch = AxisOrWhole(g.mesh(), "batch"), model = AxisOrWhole(g.mesh(), "model");
  const Value x = g.Input("x", F64, {6, 5, 3}, {batch, UNSHARDED, UNSHARDED});
  const Value y = g.Input("y", I32, {6}, {batch});
  const Value h = call(g, x, {.units = model, .recurrent_rows = batch, .dtype = F64, .gather = gather});
  const Value logits = Dense(g, "dense", 4, 3, {.kernel_layout = {model, UNSHARDED}, .dtype = F64})(h);
  const Value loss = SparseSoftmaxCrossEntropy(logits, y);
  Momentum({.learning_rate = 0.5}).Minimize(loss);
  g.Output("loss", loss);
  g.Output("logits", logits);
  return g;
}

Feeds Sequences(int64_t rows) {
  return {{"x", Rough(Type{F64, {6, 5, 3}}).Rows(0, rows)},
          {"y", Tensor::From<int32_t>({6}, {0, 1, 2, 2, 1, 0}).Rows(0, rows)}};
}

TEST(RecurrentLayersTest, TrainTheSameOnEveryMeshWithShortBatches) {
  for (const auto& [name, call] : Calls()) {
    std::vector<double> losses;
    Tensors state;
    Tensor predicted;
    for (const char* mesh : {"", "batch=1", "batch=2", "model=2", "batch=3,model=2", "batch=4,model=2"}) {
      SCOPED_TRACE(name + " on " + mesh);
      const Gathering gather = mesh[0] == 'b' ? Gathering::kOnUse : Gathering::kWithinBudget;
      Session session =
          Session::Create(Network(mesh, call, gather), {.executor = {.poison_padding = true}}).value();
      std::vector<double> got;
      for (int64_t rows : {6, 4, 1, 6}) got.push_back(session.Run(Sequences(rows))->scalar("loss").value());
      const Tensor logits =
          session.Predict({{"x", Rough(Type{F64, {9, 5, 3}})}}, {"logits"})->Get("logits").value();
      if (losses.empty()) {
        losses = got;
        state = StateOf(session);
        predicted = logits;
        continue;
      }
      EXPECT_THAT(got, testing::Pointwise(testing::DoubleNear(1e-9), losses));
      ExpectNear(logits, predicted, 1e-9);
      for (const auto& [variable, tensor] : StateOf(session)) ExpectNear(tensor, state.at(variable), 1e-9);
    }
  }
}

// The sum of the states of all steps, and its gradient by the recurrent kernel. x: [2,steps,1], in f32 or, `is_exact`,
// in f64.
template <typename Layer>
Graph SumOfStates(const std::string& mesh, int64_t steps, bool is_exact) {
  Graph g(Mesh::VirtualCpus(mesh).value());
  if (!is_exact) g.SetPrecision({.compute = BF16});
  const DType dtype = is_exact ? F64 : F32;
  const Layer layer(g, "l", 1, 4, {.dtype = dtype});
  const Value x = g.Input("x", dtype, {2, steps, 1}, {AxisOrWhole(g.mesh(), "batch"), UNSHARDED, UNSHARDED});
  const Value sum = ReduceSum(Cast(layer(x).sequence, dtype));
  g.Output("gradient", Gradients(sum, {layer.recurrent()})[0]);
  return g;
}

// If gradients of many steps were added up in bf16, the sum would stop growing.
template <typename Layer>
void ExpectGradientInBf16(const char* name) {
  for (const int64_t steps : {500, 2000}) {
    std::vector<float> x;
    for (int64_t i = 0; i < 2 * steps; ++i) x.push_back(0.5f + 0.25f * static_cast<float>(i % 3));
    const Tensor sequences = Tensor::From<float>({2, steps, 1}, x);
    Session exact = Session::Create(SumOfStates<Layer>("", steps, true)).value();
    const std::vector<double> want =
        NumbersOf(exact.Run({{"x", sequences.Cast(F64)}})->Get("gradient").value());
    for (const char* mesh : {"", "batch=2"}) {
      SCOPED_TRACE(fmt::format("{} of {} steps on \"{}\"", name, steps, mesh));
      Session session = Session::Create(SumOfStates<Layer>(mesh, steps, false)).value();
      for (const std::string& variable : session.variable_names())
        ASSERT_TRUE(session.Set(variable, exact.Get(variable)->Cast(F32)).ok());
      const std::vector<double> got = NumbersOf(session.Run({{"x", sequences}})->Get("gradient").value());
      double error = 0, size = 0;
      for (size_t i = 0; i < want.size(); ++i) {
        error += (got[i] - want[i]) * (got[i] - want[i]);
        size += want[i] * want[i];
      }
      EXPECT_LT(std::sqrt(error / size), 0.03);
    }
  }
}

TEST(RecurrentLayersTest, GradientsOfManyStepsInBf16AreThoseOfF64) {
  ExpectGradientInBf16<SimpleRnn>("rnn");
  ExpectGradientInBf16<Lstm>("lstm");
  ExpectGradientInBf16<Gru>("gru");
}

TEST(RecurrentLayersTest, VariablesStartAsInKeras) {
  Graph g(Mesh::VirtualCpus("model=2").value());
  const Lstm lstm(g, "lstm", 50, 20, {.units = "model", .dtype = F64});
  const Lstm plain(g, "plain", 5, 2, {.unit_forget_bias = false});
  const Gru gru(g, "gru", 5, 3, {.dtype = F64});
  const Gru before(g, "before", 5, 3, {.reset_after = false});
  const SimpleRnn rnn(g, "rnn", 5, 3, {.bias = false});
  EXPECT_EQ(lstm.kernel().type(), (Type{F64, {50, 4, 20}}));
  EXPECT_EQ(lstm.recurrent().type(), (Type{F64, {20, 4, 20}}));
  EXPECT_EQ(rnn.kernel().type(), (Type{F32, {5, 1, 3}}));
  Session session = Session::Create(g).value();
  EXPECT_THAT(session.variable_names(),
              ElementsAre("lstm/kernel", "lstm/recurrent", "lstm/bias", "plain/kernel", "plain/recurrent",
                          "plain/bias", "gru/kernel", "gru/recurrent", "gru/bias", "gru/recurrent_bias",
                          "before/kernel", "before/recurrent", "before/bias", "rnn/kernel", "rnn/recurrent"));
  const Tensor bias = session.Get("lstm/bias").value();
  for (int64_t i = 0; i < 80; ++i) EXPECT_EQ(bias.values<double>()[i], i / 20 == 1 ? 1 : 0) << i;
  EXPECT_THAT(session.Get("plain/bias")->values<float>(), Each(0));
  EXPECT_THAT(session.Get("gru/bias")->values<double>(), Each(0));
  EXPECT_THAT(session.Get("gru/recurrent_bias")->values<double>(), Each(0));
  // Glorot uniform of [50, 80].
  const double limit = std::sqrt(6. / 130);
  double largest = 0;
  const Tensor kernel = session.Get("lstm/kernel").value();
  for (double x : kernel.values<double>()) largest = std::max(largest, std::abs(x));
  EXPECT_LE(largest, limit);
  EXPECT_GT(largest, 0.99 * limit);
  // The rows of [20, 80] are orthonormal.
  const Tensor recurrent = session.Get("lstm/recurrent").value();
  for (int64_t i = 0; i < 20; ++i) {
    for (int64_t j = 0; j < 20; ++j) {
      double product = 0;
      for (int64_t k = 0; k < 80; ++k)
        product += recurrent.values<double>()[i * 80 + k] * recurrent.values<double>()[j * 80 + k];
      EXPECT_NEAR(product, i == j ? 1 : 0, 1e-12);
    }
  }
}

TEST(RecurrentLayersTest, ASequenceInTwoPartsIsTheWhole) {
  for (const char* mesh : kRecurrentMeshes) {
    SCOPED_TRACE(mesh);
    Graph g(Mesh::VirtualCpus(mesh).value());
    const Value x = g.Input("x", F64, {4, 6, 3}, {AxisOrWhole(g.mesh(), "batch"), UNSHARDED, UNSHARDED});
    const Lstm lstm(g, "lstm", 3, 4, {.units = AxisOrWhole(g.mesh(), "model"), .dtype = F64});
    const LstmResult whole = lstm(x), first = lstm(SliceDim(x, 1, 0, 2)),
                     second = lstm(SliceDim(x, 1, 2, 6), {first.state, first.cell});
    g.Output("whole", whole.sequence);
    g.Output("parts", Concat({first.sequence, second.sequence}, 1));
    g.Output("last", whole.state);
    g.Output("last_of_parts", second.state);
    Session session = Session::Create(g).value();
    const StepResult result = session.Run({{"x", Rough(Type{F64, {4, 6, 3}})}}).value();
    ExpectNear(result.Get("parts").value(), result.Get("whole").value());
    ExpectNear(result.Get("last_of_parts").value(), result.Get("last").value());
    ExpectNear(result.Get("last").value(), Tensor::From<double>({4, 4}, [&] {
                 const Tensor sequence = result.Get("whole").value();
                 std::vector<double> last;
                 for (int64_t b = 0; b < 4; ++b)
                   for (int64_t u = 0; u < 4; ++u)
                     last.push_back(sequence.values<double>()[(b * 6 + 5) * 4 + u]);
                 return last;
               }()));
  }
}

TEST(RecurrentLayersTest, NoStepsLeaveTheInitialState) {
  Graph g(Mesh::VirtualCpus("batch=2").value());
  const Value x = g.Input("x", F64, {2, 0, 3}, {"batch", UNSHARDED, UNSHARDED});
  const Value state = g.Input("state", F64, {2, 2}, {"batch", UNSHARDED});
  const RecurrentResult h = Gru(g, "gru", 3, 2, {.dtype = F64})(x, state);
  EXPECT_EQ(h.sequence.shape(), (Shape{2, 0, 2}));
  g.Output("state", h.state);
  Session session = Session::Create(g).value();
  const Tensor given = Tensor::From<double>({2, 2}, {1, 2, 3, 4});
  ExpectNear(session.Run({{"x", Tensor::Zeros({F64, {2, 0, 3}})}, {"state", given}})->Get("state").value(),
             given, 0);
}

}  // namespace
}  // namespace meshwork::recurrent_layers_test
