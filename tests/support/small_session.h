// A small network to train in a session, and functions that compare sessions.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "meshwork.h"

namespace meshwork {

inline constexpr int64_t kMlpRows = 8;

// x: f32[8,5], y: i32[8] -> loss, accuracy, logits. Momentum, a metric, averages of the weights.
inline Graph SmallMlp(const std::string& mesh = "batch=2,model=2") {
  Graph g(Mesh::VirtualCpus(mesh).value());
  const Value x = g.Input("x", F32, {kMlpRows, 5}, {"batch", UNSHARDED});
  const Value y = g.Input("y", I32, {kMlpRows}, {"batch"});
  const Dense first(g, "first", 5, 6, {.kernel_layout = {UNSHARDED, "model"}, .bias_layout = {"model"}});
  const Dense second(g, "second", 6, 3, {.kernel_layout = {"model", UNSHARDED}});
  const Value logits = second(Tanh(first(x)));
  const Value loss = SparseSoftmaxCrossEntropy(logits, y);
  Momentum({.learning_rate = 0.2}).Minimize(loss);
  AverageWeights(g, {.decay = 0.9});
  AccuracyMetric accuracy(g, "accuracy");
  g.Output("accuracy", accuracy.Update(logits, y));
  g.Output("loss", loss);
  g.Output("logits", logits);
  return g;
}

inline Feeds MlpRows(int64_t rows, int64_t first = 0) {
  std::vector<float> x;
  std::vector<int32_t> y;
  for (int64_t i = first; i < first + rows; ++i) {
    for (int64_t j = 0; j < 5; ++j) x.push_back(static_cast<float>((i * 7 + j * 3) % 11 - 5) / 5);
    y.push_back(static_cast<int32_t>(i * 5 % 3));
  }
  return {{"x", Tensor::From<float>({rows, 5}, x)}, {"y", Tensor::From<int32_t>({rows}, y)}};
}

inline void ExpectNear(const Tensor& actual, const Tensor& expected) {
  ASSERT_EQ(actual.type(), expected.type());
  const Tensor a = actual.Cast(F64), e = expected.Cast(F64);
  for (size_t i = 0; i < static_cast<size_t>(a.num_elements()); ++i)
    EXPECT_NEAR(a.values<double>()[i], e.values<double>()[i], 1e-5) << i;
}

inline void ExpectNear(const absl::StatusOr<StepResult>& actual, const absl::StatusOr<StepResult>& expected) {
  ASSERT_TRUE(expected.ok()) << expected.status();
  ASSERT_TRUE(actual.ok()) << actual.status();
  ASSERT_EQ(actual->outputs().size(), expected->outputs().size());
  for (const auto& [name, tensor] : expected->outputs()) {
    SCOPED_TRACE(name);
    ExpectNear(actual->Get(name).value(), tensor);
  }
}

inline std::map<std::string, Tensor> ValuesOf(const Session& session) {
  std::map<std::string, Tensor> values;
  for (const std::string& name : session.variable_names()) values[name] = session.Get(name).value();
  return values;
}

inline void ExpectStateNear(const Session& actual, const std::map<std::string, Tensor>& expected) {
  for (const auto& [name, tensor] : expected) {
    SCOPED_TRACE(name);
    ExpectNear(actual.Get(name).value(), tensor);
  }
}
inline void ExpectStateNear(const Session& actual, const Session& expected) {
  ExpectStateNear(actual, ValuesOf(expected));
}

inline void ExpectSameState(const Session& actual, const std::map<std::string, Tensor>& expected) {
  EXPECT_EQ(actual.variable_names().size(), expected.size());
  for (const auto& [name, tensor] : expected)
    EXPECT_TRUE(AllEqual(actual.Get(name).value(), tensor).ok()) << name;
}

inline Session OnCpu(const Graph& graph, SessionOptions options = {}) {
  options.workers = 2;
  return Session::Create(graph, std::move(options)).value();
}

// Four steps of SmallMlp, of which the third has fewer rows: their results, and the variables after them.
struct MlpTraining {
  std::vector<absl::StatusOr<StepResult>> steps;
  std::map<std::string, Tensor> state;
};

inline Feeds RowsOfStep(int64_t step) { return MlpRows(step == 2 ? 5 : kMlpRows, 3 * step); }

inline MlpTraining TrainMlp(Session session) {
  MlpTraining training;
  for (int64_t step = 0; step < 4; ++step) training.steps.push_back(session.Run(RowsOfStep(step)));
  training.state = ValuesOf(session);
  return training;
}

inline void ExpectTrainsAs(Session& session, const MlpTraining& expected) {
  for (int64_t step = 0; step < 4; ++step)
    ExpectNear(session.Run(RowsOfStep(step)), expected.steps[static_cast<size_t>(step)]);
  ExpectStateNear(session, expected.state);
}

}  // namespace meshwork
