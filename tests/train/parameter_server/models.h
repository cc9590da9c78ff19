// Trainings that the tests of this room split.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "meshwork/ops/ops.h"
#include "meshwork/runtime/tensor/tensor_compare.h"
#include "meshwork/session/session.h"
#include "meshwork/train/nn/initializers.h"
#include "meshwork/train/optim/optimizers.h"
#include "meshwork/train/parameter_server/served_session.h"
#include "meshwork/train/parameter_server/shard_store.h"
#include "meshwork/train/parameter_server/split.h"

namespace meshwork {

// Adds the update (optimizer and so on) for the loss.
using AddUpdate = std::function<void(const Value& loss)>;

// 6 examples of 5 numbers through 7 hidden units to 3, all in f64; the output "loss" is a mean of squares.
inline Graph Regression(const AddUpdate& update, const std::string& mesh = "batch=2", DType dtype = F64) {
  Graph g(Mesh::VirtualCpus(mesh).value());
  const Value x = g.Input("x", dtype, {6, 5}, {"batch", UNSHARDED}),
              y = g.Input("y", dtype, {6, 3}, {"batch", UNSHARDED});
  const Variable w1 = g.Var("hidden/kernel", GlorotUniform({5, 7}, dtype)),
                 b1 = g.Var("hidden/bias", Zeros({7}, dtype));
  const Variable w2 = g.Var("out/kernel", GlorotUniform({7, 3}, dtype)),
                 b2 = g.Var("out/bias", Zeros({3}, dtype));
  const Value h = Tanh(MatMul(x, w1) + b1);
  const Value loss = ReduceMean(Square(MatMul(h, w2) + b2 - y));
  g.Output("loss", loss);
  update(loss);
  return g;
}

inline double Wave(int64_t i) { return std::sin(0.7 * static_cast<double>(i) + 0.3); }

// Batch number `step`, of `rows` rows.
inline Feeds RegressionBatch(int64_t step, int64_t rows = 6, DType dtype = F64) {
  std::vector<double> x, y;
  for (int64_t i = 0; i < rows * 5; ++i) x.push_back(Wave(i + 31 * step));
  for (int64_t i = 0; i < rows * 3; ++i) y.push_back(2 * Wave(3 * i + 17 * step) + 1);
  return {{"x", Tensor::From<double>({rows, 5}, x).Cast(dtype)},
          {"y", Tensor::From<double>({rows, 3}, y).Cast(dtype)}};
}

// At most `n` pieces, and no empty ones: uneven if `n` does not divide the rows.
inline Partitioner InPieces(int64_t n) { return FixedShardsPartitioner(n); }

struct Served {
  TrainingSplit split;
  std::vector<std::shared_ptr<ParameterStore>> stores;
  std::vector<ShardStore*> shards;  // the objects in `stores`
};

inline Served Serve(const Graph& graph, const SplitOptions& options,
                    const ShardStoreOptions& store_options = {}) {
  absl::StatusOr<TrainingSplit> split = SplitTraining(graph, options);
  EXPECT_TRUE(split.ok()) << split.status();
  Served served{.split = *std::move(split), .stores = {}, .shards = {}};
  for (int64_t s = 0; s < options.num_servers; ++s) {
    ShardStoreOptions own = store_options;
    own.server = s;
    own.session.workers = 1;
    absl::StatusOr<std::unique_ptr<ShardStore>> store = ShardStore::Create(served.split, own);
    EXPECT_TRUE(store.ok()) << store.status();
    served.shards.push_back(store->get());
    served.stores.push_back(*std::move(store));
  }
  return served;
}

inline ServedSession SessionOf(const Served& served, ServedSessionOptions options = {}) {
  options.session.workers = 1;
  return ServedSession::Create(served.split, served.stores, options).value();
}

inline void ExpectSameVariables(ServedSession& parts, const Session& whole, double tolerance) {
  for (const std::string& name : whole.variable_names())
    EXPECT_EQ(
        AllClose(parts.Get(name).value(), whole.Get(name).value(), {.rtol = tolerance, .atol = tolerance}),
        absl::OkStatus())
        << name;
}

// Trains the graph whole, and split, on these batches. All outputs, and the variables at the end, agree in `tolerance`.
inline void ExpectSame(const Graph& graph, const SplitOptions& options, const std::vector<Feeds>& batches,
                       double tolerance) {
  Session whole = Session::Create(graph, {.workers = 1}).value();
  const Served served = Serve(graph, options);
  ServedSession parts = SessionOf(served);
  for (size_t step = 0; step < batches.size(); ++step) {
    const absl::StatusOr<StepResult> want = whole.Run(batches[step]), got = parts.Run(batches[step]);
    ASSERT_TRUE(want.ok() && got.ok()) << want.status() << got.status();
    ASSERT_EQ(got->outputs().size(), want->outputs().size());
    for (const auto& [name, value] : want->outputs())
      EXPECT_EQ(AllClose(got->Get(name).value(), value, {.rtol = tolerance, .atol = tolerance}),
                absl::OkStatus())
          << "step " << step << ", " << name;
  }
  ExpectSameVariables(parts, whole, tolerance);
  for (const ShardStore* store : served.shards) EXPECT_EQ(store->version(), std::ssize(batches));
}

// Trains the graph whole, and split with three synchronous workers, each with 2 of the 6 rows of each batch. The
// variables at the end agree in `tolerance`.
inline void ExpectWorkersTakeTheSameSteps(const Graph& graph, const std::vector<Feeds>& batches,
                                          double tolerance) {
  const Served served = Serve(graph, {.num_servers = 2, .partitioner = InPieces(2)}, {.gather = 3});
  std::vector<std::thread> threads;
  for (int64_t w = 0; w < 3; ++w) {
    threads.emplace_back([&, w] {
      ServedSession session = SessionOf(served, {.synchronous = true});
      for (const Feeds& whole_batch : batches) {
        Feeds part;
        for (const auto& [name, batch] : whole_batch) part[name] = batch.Rows(2 * w, 2 * w + 2);
        EXPECT_TRUE(session.Run(part).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Session whole = Session::Create(graph, {.workers = 1}).value();
  for (const Feeds& batch : batches) ASSERT_TRUE(whole.Run(batch).ok());
  ServedSession parts = SessionOf(served);
  ExpectSameVariables(parts, whole, tolerance);
}

}  // namespace meshwork
