// Losses that leave rows out, in microbatches: loss and gradient are those of the whole batch, however it is cut.
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "meshwork.h"
#include "meshwork/base/random.h"
#include "runtime/plan/programs.h"
#include "train/classifier.h"

namespace meshwork::means_of_parts_test {
namespace {

using Values = std::vector<Value>;

constexpr int64_t kSteps = 5, kClasses = 3;

// A loss of logits [b,t,c], labels [b,t] and weights [b].
struct Loss {
  const char* name;
  std::function<Value(const Value& logits, const Value& labels, const Value& weights)> of;
};

Value Ignoring(const Value& logits, const Value& labels) {
  return SparseSoftmaxCrossEntropy(logits, labels, {.ignore_label = -1});
}

const std::vector<Loss>& AllLosses() {
  static const auto* all = new std::vector<Loss>{
      {"ignored labels", [](const Value& z, const Value& y, const Value&) { return Ignoring(z, y); }},
      {"a mask of rows",
       [](const Value& z, const Value&, const Value& w) {
         return MeanSquaredError(z, z * 0.5 + 1.0, {.weights = Greater(w, 0.0)});
       }},
      {"ignored labels and a mask of rows",
       [](const Value& z, const Value& y, const Value& w) {
         return SparseSoftmaxCrossEntropy(z, y, {.weights = Greater(w, 0.0), .ignore_label = -1});
       }},
      {"a weighted mean",
       [](const Value& z, const Value& y, const Value& w) {
         return SparseSoftmaxCrossEntropy(
             z, y, {.reduction = Reduction::kWeightedMean, .weights = w, .ignore_label = -1});
       }},
      {"weights, by rows",
       [](const Value& z, const Value& y, const Value& w) {
         return SparseSoftmaxCrossEntropy(z, y, {.weights = w, .ignore_label = -1});
       }},
      {"a sum by its weight",
       [](const Value& z, const Value&, const Value& w) {
         return MeanOver(ReduceSum(ReduceMean(Square(z), {1, 2}) * w), ReduceSum(w));
       }},
      {"more terms, scaled, and a regularization",
       [](const Value& z, const Value& y, const Value& w) {
         const Value mask = MeanAbsoluteError(z, z * z, {.weights = Greater(w, 0.0)});
         return (Ignoring(z, y) * 0.5 - mask / 3.0 + ReduceMean(Square(z))) * 2.0 + 0.25;
       }},
      {"another dtype",
       [](const Value& z, const Value& y, const Value&) { return Cast(Cast(Ignoring(z, y), F64), F64); }},
  };
  return *all;
}

Graph Program(const std::string& mesh, const Loss& loss, const std::vector<int64_t>& parts,
              int64_t batch = 8) {
  Graph g(Mesh::VirtualCpus(mesh).value());
  const Value x = g.Input("x", F64, {batch, kSteps, 4}, {"batch", UNSHARDED, UNSHARDED});
  const Value y = g.Input("y", I32, {batch, kSteps}, {"batch", UNSHARDED}),
              weights = g.Input("weights", F64, {batch}, {"batch"});
  const Variable w = g.Var("w", GlorotUniform({4, kClasses}, F64));
  std::function<Value(const Values&, size_t)> loss_of = [&](const Values& rows, size_t level) {
    if (level == parts.size()) return loss.of(MatMul(rows[0], w), rows[1], rows[2]);
    return MeanOverMicrobatches(parts[level], rows,
                                [&](const Values& part) { return loss_of(part, level + 1); });
  };
  const Value mean = loss_of({x, y, weights}, 0);
  g.Output("loss", mean);
  g.Output("gradient", Gradients(mean, {w})[0]);
  EXPECT_TRUE(g.status().ok()) << g.status();
  return g;
}

struct LossAndGradient {
  double loss;
  std::vector<double> gradient;
};

LossAndGradient StepOf(const Graph& graph, const Feeds& feeds) {
  Session session = Session::Create(graph).value();
  const StepResult result = session.Run(feeds).value();
  const Tensor gradient = result.Get("gradient").value();
  return {result.scalar("loss").value(),
          {gradient.values<double>().begin(), gradient.values<double>().end()}};
}

void ExpectSame(const LossAndGradient& got, const LossAndGradient& want) {
  EXPECT_NEAR(got.loss, want.loss, 1e-12);
  ASSERT_EQ(got.gradient.size(), want.gradient.size());
  for (size_t i = 0; i < want.gradient.size(); ++i)
    EXPECT_NEAR(got.gradient[i], want.gradient[i], 1e-12) << i;
}

// Draws feeds of `rows` rows. `kept`: of ten labels, about this many count.
Feeds Draw(Random& random, int64_t rows, uint64_t kept) {
  std::vector<int32_t> y;
  std::vector<double> weights;
  for (int64_t i = 0; i < kSteps * rows; ++i)
    y.push_back(random.Below(10) < kept ? static_cast<int32_t>(random.Below(kClasses)) : -1);
  for (int64_t i = 0; i < rows; ++i) weights.push_back(random.Below(10) < kept ? random.Uniform(0.5, 2) : 0);
  return {{"x", Rough(Type{F64, {rows, kSteps, 4}})},
          {"y", Tensor::From<int32_t>({rows, kSteps}, y)},
          {"weights", Tensor::From<double>({rows}, weights)}};
}

TEST(MeansOfPartsTest, AreThoseOfTheRowsThatCount) {
  Random random(5);
  for (const Loss& loss : AllLosses()) {
    const Graph whole = Program("batch=1", loss, {});
    const std::vector<std::pair<const char*, std::vector<int64_t>>> trials = {
        {"batch=1", {1}}, {"batch=1", {8}}, {"batch=2", {2}}, {"batch=2", {4}}, {"batch=2", {2, 2}}};
    for (const auto& [mesh, parts] : trials) {
      const uint64_t kept = std::vector<uint64_t>{0, 2, 5, 10}[random.Below(4)];
      SCOPED_TRACE(
          fmt::format("{} on {} in {}, {} of 10 count", loss.name, mesh, fmt::join(parts, " "), kept));
      const Feeds feeds = Draw(random, 8, kept);
      ExpectSame(StepOf(Program(mesh, loss, parts), feeds), StepOf(whole, feeds));
    }
  }
}

TEST(MeansOfPartsTest, OfShortBatchesToo) {
  Random random(6);
  for (const Loss& loss : AllLosses()) {
    for (int64_t rows : {7, 6, 1}) {
      SCOPED_TRACE(fmt::format("{} of {} rows", loss.name, rows));
      const Feeds feeds = Draw(random, rows, 5);
      ExpectSame(StepOf(Program("batch=2", loss, {4}), feeds),
                 StepOf(Program("batch=1", loss, {}, rows), feeds));
    }
  }
}

// A mask from outside of the loop, which all parts share, counts the same in each part.
TEST(MeansOfPartsTest, TakeWeightsOfTheProgramAround) {
  const auto run = [](int64_t parts) {
    Graph g(Mesh::VirtualCpus("batch=2").value());
    const Value x = g.Input("x", F64, {8, 4}, {"batch", UNSHARDED}), columns = g.Input("columns", F64, {4});
    const Variable w = g.Var("w", GlorotUniform({4}, F64));
    const auto loss_of = [&](const Values& part) {
      return MeanOver(ReduceSum(ReduceMean(Square(part[0] * w), {0}) * columns), ReduceSum(columns));
    };
    const Value loss = parts == 0 ? loss_of({x}) : MeanOverMicrobatches(parts, {x}, loss_of);
    g.Output("loss", loss);
    g.Output("gradient", Gradients(loss, {w})[0]);
    EXPECT_TRUE(g.status().ok()) << g.status();
    return StepOf(g, {{"x", Rough(Type{F64, {8, 4}})}, {"columns", Tensor::From<double>({4}, {1, 0, 2, 0})}});
  };
  ExpectSame(run(4), run(0));
}

// The loop that adds up gradients keeps nothing of a part, whatever the loss leaves out.
TEST(MeansOfPartsTest, NothingIsKeptOfAPart) {
  for (const Loss& loss : AllLosses()) {
    const Graph g = Program("batch=1", loss, {4});
    for (const Node& node : g.nodes()) {
      if (node.row->name != "scan") continue;
      EXPECT_EQ(node.results.size(), static_cast<size_t>(node.attrs.Get<int64_t>("sums"))) << loss.name;
    }
  }
}

}  // namespace
}  // namespace meshwork::means_of_parts_test
