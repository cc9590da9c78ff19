// A small training for tests that save and resume it: uneven dims, Adam's state, blocks over two axes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "meshwork.h"
#include "meshwork/base/random.h"
#include "meshwork/base/status.h"
#include "support/in_domains.h"
#include "support/tensors.h"

namespace meshwork {

// x: f64[12,6], y: i32[12] -> loss. Weights f64[6,7] and f64[7,5] are sharded over `model` if the mesh has it. Dropout
// draws a new mask in each step. predicts: it draws none outside of training, and there are logits: f64[12,5] and hidden:
// f64[12,7].
inline Graph SavedTraining(const std::string& mesh, bool predicts = false) {
  Graph g(Mesh::VirtualCpus(mesh).value());
  const bool has_model = mesh.find("model") != std::string::npos;
  const DimSpec model = has_model ? DimSpec("model") : UNSHARDED;
  Value x = g.Input("x", F64, {12, 6}, {"batch", UNSHARDED});
  Value y = g.Input("y", I32, {12}, {"batch"});
  Variable w = g.Var("w", GlorotUniform({6, 7}, F64), {UNSHARDED, model});
  Variable v = g.Var("v", GlorotUniform({7, 5}, F64), {model, UNSHARDED});
  Variable count = g.Var("count", Zeros({}, I64), {});
  g.Update(count, count + 1);
  const Value kept = Relu(MatMul(x, w));
  Value hidden = StatelessDropout(kept, 0.25, /*seed=*/3, /*stream=*/1, count);
  if (predicts) hidden = WhenTraining(hidden, kept);
  const Value logits = MatMul(hidden, v);
  Value loss = SparseSoftmaxCrossEntropy(logits, y);
  Adam({.learning_rate = 0.05}).Minimize(loss);
  g.Output("loss", loss);
  if (predicts) g.Output("logits", logits);
  if (predicts) g.Output("hidden", hidden);
  return g;
}

inline Feeds SavedFeeds(int64_t step) {
  Tensor x(Type{F64, {12, 6}}), y(Type{I32, {12}});
  Random random(/*seed=*/5, static_cast<uint64_t>(step));
  for (double& value : x.mutable_values<double>()) value = random.Uniform(-1, 1);
  for (int32_t& value : y.mutable_values<int32_t>()) value = static_cast<int32_t>(random.Below(5));
  return {{"x", x}, {"y", y}};
}

inline SessionOptions SavedOptions(Transport* transport, bool shards_state = false) {
  SessionOptions options{.workers = 1, .own_cores = false};
  options.compile.deterministic = true;
  options.compile.shard_weight_update = shards_state;
  options.executor.transport = transport;
  return options;
}

// Steps `from` to `to` - 1, and their losses.
inline std::vector<double> TrainSteps(Session& session, int64_t from, int64_t to) {
  std::vector<double> losses;
  for (int64_t step = from; step < to; ++step) {
    const absl::StatusOr<StepResult> result = session.Run(SavedFeeds(step));
    EXPECT_TRUE(result.ok()) << result.status();
    if (!result.ok()) break;
    losses.push_back(result->scalar("loss").value());
  }
  return losses;
}

// All variables, whole.
inline std::map<std::string, std::vector<double>> ValuesOf(Session& session) {
  std::map<std::string, std::vector<double>> values;
  for (const std::string& name : session.variable_names()) {
    const absl::StatusOr<Tensor> value = session.Get(name);
    EXPECT_TRUE(value.ok()) << name << ": " << value.status();
    if (value.ok()) values[name] = NumbersOf(*value);
  }
  return values;
}

}  // namespace meshwork
