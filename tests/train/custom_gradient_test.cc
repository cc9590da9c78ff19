// Custom gradients in training: on meshes, in microbatches, short batches and the view of a replica, compared with
// the same model with the gradients of its ops.
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "meshwork/base/random.h"

namespace meshwork::custom_gradient_test {
namespace {

using Values = std::vector<Value>;

Value Softplus(const Value& x, bool is_custom) {
  const Value e = Exp(x), y = Log(1.0 + e);
  if (!is_custom) return y;
  return CustomGradient(y, {x}, [&](const Value& dy) { return Values{dy * (1.0 - 1.0 / (1.0 + e))}; });
}

Value Product(const Value& x, const Value& w, bool is_custom) {
  if (!is_custom) return MatMul(x, w);
  return CustomGradient(MatMul(x, w), {x, w}, [&](const Value& dy) {
    return Values{MatMul(dy, Transpose(w, {1, 0})), MatMul(Transpose(x, {1, 0}), dy)};
  });
}

std::vector<double> Drawn(int64_t count, uint64_t seed) {
  Random random(seed);
  std::vector<double> numbers;
  for (int64_t i = 0; i < count; ++i) numbers.push_back(random.Uniform(-1, 1));
  return numbers;
}

enum class Form { kWhole, kMicrobatches };

Graph Model(const Mesh& mesh, Form form, bool is_custom) {
  const DimSpec model = mesh.num_axes() > 1 ? DimSpec("model") : DimSpec(UNSHARDED);
  Graph g(mesh);
  const Value x = g.Input("x", F64, {12, 6}, {"batch", UNSHARDED});
  const Variable w = g.Var("w", GlorotUniform({6, 8}, F64), {UNSHARDED, model});
  const Variable v = g.Var("v", GlorotUniform({8, 5}, F64), {model, UNSHARDED});
  const auto loss_of = [&](const Values& part) {
    const Value hidden = Softplus(Product(part[0], w, is_custom), is_custom);
    return ReduceMean(Square(Product(hidden, v, is_custom)));
  };
  const Value loss = form == Form::kWhole ? loss_of({x}) : MeanOverMicrobatches(3, {x}, loss_of);
  Sgd({.learning_rate = 0.1}).Minimize(loss);
  g.Output("loss", loss);
  return g;
}

// Returns the losses of a full batch, a short one and a full one, then the weights.
std::vector<double> Trained(const Graph& graph) {
  std::vector<double> numbers;
  absl::StatusOr<Session> session = Session::Create(graph);
  if (!session.ok()) {
    ADD_FAILURE() << MessageOf(session.status());
    return numbers;
  }
  for (const int64_t rows : {12, 7, 12}) {
    const auto result = session->Run({{"x", Tensor::From<double>({rows, 6}, Drawn(rows * 6, 3))}});
    if (!result.ok()) {
      ADD_FAILURE() << MessageOf(result.status());
      return numbers;
    }
    numbers.push_back(result->scalar("loss").value());
  }
  for (const char* name : {"w", "v"}) {
    const Tensor weights = session->Get(name).value();
    numbers.insert(numbers.end(), weights.values<double>().begin(), weights.values<double>().end());
  }
  return numbers;
}

TEST(CustomGradientTest, TrainsAsTheGradientsOfTheOpsDo) {
  const std::vector<double> want = Trained(Model(Mesh::Parse("batch=1").value(), Form::kWhole, false));
  ASSERT_EQ(want.size(), 3u + 48 + 40);
  for (const char* mesh : {"batch=1", "batch=4", "batch=2,model=2"}) {
    for (const Form form : {Form::kWhole, Form::kMicrobatches}) {
      SCOPED_TRACE(fmt::format("{} {}", mesh, form == Form::kWhole ? "whole" : "in parts"));
      const std::vector<double> got = Trained(Model(Mesh::Parse(mesh).value(), form, true));
      ASSERT_EQ(got.size(), want.size());
      for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-12) << i;
    }
  }
}

// Rows that only fill up a replica's part do not count, as with the gradients of the ops.
TEST(CustomGradientTest, ServesReplicas) {
  const Strategy strategy = MirroredStrategy({.num_devices = 3}).value();
  std::vector<std::vector<double>> trained;
  for (const bool is_custom : {false, true}) {
    Graph g = strategy.NewGraph();
    const Value x = g.Input("x", F64, {4, 6});
    const Variable w = g.Var("w", GlorotUniform({6, 2}, F64));
    const auto losses = strategy.Run(g, {x}, [&](ReplicaContext& replica, const Values& part) -> Values {
      const Value hidden = Softplus(Product(part[0], w, is_custom), is_custom);
      const Value loss = replica.AverageLoss(ReduceSum(Square(hidden), {1}));
      replica.Minimize(Sgd({.learning_rate = 0.1}), loss);
      return {loss};
    });
    g.Output("loss", strategy.Reduce(ReplicaReduce::kSum, losses[0]));
    ASSERT_EQ(MessageOf(g.status()), "");
    Session session = Session::Create(g).value();
    std::vector<double>& numbers = trained.emplace_back();
    for (int step = 0; step < 3; ++step)
      numbers.push_back(
          session.Run({{"x", Tensor::From<double>({4, 6}, Drawn(24, 3))}})->scalar("loss").value());
    EXPECT_NE(numbers[0], numbers[2]);
  }
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(trained[0][i], trained[1][i], 1e-12);
}

}  // namespace
}  // namespace meshwork::custom_gradient_test
