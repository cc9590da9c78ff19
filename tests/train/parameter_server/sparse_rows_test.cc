// Tables of which each batch names only some rows.
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/train/nn/transformer_layers.h"
#include "train/parameter_server/models.h"

namespace meshwork::sparse_rows_test {
namespace {

using ::testing::ElementsAre;

struct TableOptions {
  int64_t rows = 40, width = 3, batch = 4, ids = 2;
  DType dtype = F64;
  bool has_dense = true;  // a layer behind the table
};

// The mean of the rows that an example names goes through a layer and is compared with a target.
Graph Lookups(const AddUpdate& update, const TableOptions& o = {}) {
  Graph g(Mesh::VirtualCpus("batch=2").value());
  const Value ids = g.Input("ids", I32, {o.batch, o.ids}, {"batch", UNSHARDED});
  const Value y = g.Input("y", o.dtype, {o.batch, o.width}, {"batch", UNSHARDED});
  const Variable table = g.Var("table", GlorotUniform({o.rows, o.width}, o.dtype));
  Value h = ReduceMean(Gather(table, ids * 3.0 - 3.0, 0), 1);
  if (o.has_dense) h = MatMul(h, g.Var("kernel", GlorotUniform({o.width, o.width}, o.dtype)));
  const Value loss = ReduceMean(Square(h - y));
  g.Output("loss", loss);
  g.Output("h", h);
  update(loss);
  return g;
}

// Some ids twice, some out of range.
Feeds LookupBatch(int64_t step, const TableOptions& o = {}, int64_t rows = -1) {
  if (rows < 0) rows = o.batch;
  std::vector<int32_t> ids;
  std::vector<double> y;
  for (int64_t i = 0; i < rows * o.ids; ++i)
    ids.push_back(static_cast<int32_t>((step * 7 + i * i) % (o.rows / 2)));
  for (int64_t i = 0; i < rows * o.width; ++i) y.push_back(Wave(i + 5 * step));
  return {{"ids", Tensor::From<int32_t>({rows, o.ids}, ids)},
          {"y", Tensor::From<double>({rows, o.width}, y).Cast(o.dtype)}};
}

std::vector<Feeds> LookupBatches(int64_t n) {
  std::vector<Feeds> batches;
  for (int64_t step = 0; step < n; ++step) batches.push_back(LookupBatch(step, {}, step % 3 == 2 ? 3 : 4));
  return batches;
}

TEST(SparseRowsTest, IsWhatTheWholeTableGives) {
  const AddUpdate updates[] = {
      [](const Value& loss) { Sgd({.learning_rate = 0.5}).Minimize(loss); },
      [](const Value& loss) {
        Sgd({.learning_rate = CosineDecay({.initial = 0.5, .steps = 9}), .clip_norm = 0.1}).Minimize(loss);
      },
      [](const Value& loss) { Adagrad({.learning_rate = 0.5, .initial_accumulator = 0.1}).Minimize(loss); }};
  for (const AddUpdate& update : updates) {
    const Graph graph = Lookups(update);
    for (int64_t pieces : {1, 3}) {
      const SplitOptions options{.num_servers = pieces == 1 ? 1 : 2, .partitioner = InPieces(pieces)};
      const TrainingSplit split = SplitTraining(graph, options).value();
      ASSERT_EQ(split.sparse.size(), 1u);
      EXPECT_EQ(split.sparse[0].variable, "table");
      EXPECT_EQ(split.sparse[0].capacity, 8);
      ExpectSame(graph, options, LookupBatches(20), 1e-9);
    }
  }
}

// Whether all gradients are finite depends only on the rows of the batch.
TEST(SparseRowsTest, LossScalesAreThoseOfTheWholeTable) {
  const TableOptions o{.dtype = F32};
  const Graph graph = Lookups(
      [](const Value& loss) {
        Sgd({.learning_rate = 0.5, .loss_scale = LossScale{.initial = 64, .growth_steps = 3}}).Minimize(loss);
      },
      o);
  EXPECT_EQ(SplitTraining(graph)->sparse.size(), 1u);
  std::vector<Feeds> batches;
  for (int64_t step = 0; step < 9; ++step) batches.push_back(LookupBatch(step, o));
  batches[4]["y"] = Tensor::Full({F32, {4, 3}}, std::numeric_limits<double>::infinity());
  ExpectSame(graph, {.num_servers = 2, .partitioner = InPieces(2)}, batches, 1e-5);
}

TEST(SparseRowsTest, AdamIsLazy) {
  const Graph graph = Lookups([](const Value& loss) { Adam({.learning_rate = 0.1}).Minimize(loss); });
  ExpectSame(graph, {.partitioner = InPieces(2), .sparse_rows = false}, LookupBatches(6), 1e-9);
  EXPECT_TRUE(SplitTraining(graph, {.sparse_rows = false})->sparse.empty());
  const Served served = Serve(graph, {.num_servers = 2, .partitioner = InPieces(2)});
  ServedSession session = SessionOf(served);
  Session whole = Session::Create(graph, {.workers = 1}).value();
  // The first step is the same. In the second, rows that the batch does not name keep their values.
  const Feeds first = LookupBatch(0), second = LookupBatch(1);
  ASSERT_TRUE(session.Run(first).ok() && whole.Run(first).ok());
  const Tensor before = session.Get("table").value();
  EXPECT_EQ(AllClose(before, whole.Get("table").value(), {.rtol = 1e-12, .atol = 1e-12}), absl::OkStatus());
  ASSERT_TRUE(session.Run(second).ok());
  const Tensor after = session.Get("table").value();
  EXPECT_EQ(AllEqual(after.Rows(0, 1), before.Rows(0, 1)), absl::OkStatus());
  EXPECT_NE(AllEqual(after, before), absl::OkStatus());
  EXPECT_EQ(session.Get("adam/step")->Scalar().value(), 2);
}

TEST(SparseRowsTest, OnlyTheRowsOfABatchCross) {
  const TableOptions o{.rows = 3000, .width = 64, .batch = 10, .ids = 3, .dtype = F32, .has_dense = false};
  const Graph graph = Lookups([](const Value& loss) { Sgd({.learning_rate = 0.1}).Minimize(loss); }, o);
  const Served served = Serve(graph, {.num_servers = 3, .partitioner = InPieces(3)});
  ServedSession session = SessionOf(served);
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < 30; ++i) ids.push_back(31 * i + 1);
  ASSERT_TRUE(
      session.Run({{"ids", Tensor::From<int32_t>({10, 3}, ids)}, {"y", Tensor::Zeros({F32, {10, 64}})}})
          .ok());
  const double rows = 30 * 64 * 4;  // 1 % of the table
  EXPECT_LE(static_cast<double>(session.traffic().pulled), 1.2 * rows);
  EXPECT_LE(static_cast<double>(session.traffic().pushed), 1.2 * rows);
  EXPECT_GE(static_cast<double>(session.traffic().pushed), rows);
}

TEST(SparseRowsTest, EvaluatesWithoutWhatIsNotNeeded) {
  const Graph graph = Lookups([](const Value& loss) { Sgd({}).Minimize(loss); });
  const Served served = Serve(graph, {});
  ServedSession session = SessionOf(served);
  Session whole = Session::Create(graph, {.workers = 1}).value();
  Feeds feeds = LookupBatch(3);
  feeds.erase("y");
  EXPECT_EQ(AllClose(*session.Evaluate(feeds, {"h"})->Get("h"), *whole.Evaluate(feeds, {"h"})->Get("h")),
            absl::OkStatus());
  EXPECT_FALSE(session.Run(feeds).ok());
}

// A table is pulled whole if it is read as a whole, if its ids depend on variables, or if a batch names all its rows.
TEST(SparseRowsTest, OtherTablesAreWhole) {
  const auto is_sparse = [](const std::function<Value(const Variable& table, const Value& ids)>& read,
                            const std::function<void(const Value& loss)>& update) {
    Graph g(Mesh::VirtualCpus("batch=2").value());
    const Value ids = g.Input("ids", I32, {4});
    const Variable table = g.Var("table", GlorotUniform({9, 2}));
    const Value loss = ReduceMean(Square(read(table, ids)));
    g.Output("loss", loss);
    update(loss);
    return !SplitTraining(g)->sparse.empty();
  };
  const auto gather = [](const Variable& table, const Value& ids) { return Gather(table, ids, 0); };
  const auto sgd = [](const Value& loss) { Sgd({}).Minimize(loss); };
  EXPECT_TRUE(is_sparse(gather, sgd));
  EXPECT_FALSE(
      is_sparse([](const Variable& t, const Value& ids) { return Gather(t, ids, 0) + ReduceSum(t); }, sgd));
  EXPECT_FALSE(is_sparse([](const Variable& t, const Value& ids) { return Gather(t * 2.0, ids, 0); }, sgd));
  EXPECT_FALSE(is_sparse(
      [](const Variable& t, const Value& ids) {
        return Gather(t, Concat({ids, ids, ids}, 0), 0);
      },
      sgd));
  EXPECT_FALSE(
      is_sparse([](const Variable& t,
                   const Value& ids) { return Gather(t, ids + Cast(Gather(t, ids, 0)[0][0], I32), 0); },
                sgd));
  EXPECT_FALSE(is_sparse(gather, [](const Value& loss) { Lamb({}).Minimize(loss); }));
  EXPECT_FALSE(is_sparse(gather, [](const Value& loss) {
    const Minimized minimized = Sgd({}).Minimize(loss);
    loss.graph()->Output("gradient", minimized.gradients()[0].gradient);
  }));
}

// Two tables of one shape are read at the same ids, and their gradients enter one norm.
TEST(SparseRowsTest, TablesOfOneShapeAreToldApart) {
  Graph g(Mesh::VirtualCpus("batch=1").value());
  const Value first = g.Input("first", I32, {3}), second = g.Input("second", I32, {3});
  const Variable a = g.Var("a", GlorotUniform({30, 2}, F64)), b = g.Var("b", GlorotUniform({30, 2}, F64));
  const Value loss =
      ReduceMean(Square(Gather(a, first, 0) * Gather(a, second, 0) + Gather(b, second, 0) * 2.0 - 1.0));
  g.Output("loss", loss);
  Sgd({.learning_rate = 0.4, .clip_norm = 0.2}).Minimize(loss);
  EXPECT_EQ(SplitTraining(g)->sparse.size(), 2u);
  std::vector<Feeds> batches;
  for (int32_t step = 0; step < 12; ++step)
    batches.push_back({{"first", Tensor::From<int32_t>({3}, {step, 2 * step, 7})},
                       {"second", Tensor::From<int32_t>({3}, {29 - step, 29 - step, step})}});
  ExpectSame(g, {.num_servers = 2, .partitioner = InPieces(2)}, batches, 1e-12);
}

// A gradient that updates two tables cannot have the rows of one.
TEST(SparseRowsTest, AGradientOfTwoTablesIsPushedWhole) {
  Graph g(Mesh::VirtualCpus("batch=1").value());
  const Value ids = g.Input("ids", I32, {3});
  const Variable a = g.Var("a", GlorotUniform({30, 2}, F64)), b = g.Var("b", GlorotUniform({30, 2}, F64));
  const Value loss = ReduceMean(Square(Gather(a, ids, 0) + Gather(b, ids, 0) - 1.0));
  g.Output("loss", loss);
  const Value gradient = VariableGradients(loss, {a})[0].gradient;
  g.Update(a, a - gradient);
  g.Update(b, b - gradient * 0.5);
  EXPECT_TRUE(SplitTraining(g)->sparse.empty());
  std::vector<Feeds> batches;
  for (int32_t step = 0; step < 6; ++step)
    batches.push_back({{"ids", Tensor::From<int32_t>({3}, {step, 2 * step, 7})}});
  ExpectSame(g, {.num_servers = 2, .partitioner = InPieces(2)}, batches, 1e-12);
}

// Also where a batch has as many ids as examples.
TEST(SparseRowsTest, ShortBatchesGiveWhatTheWholeTableGives) {
  for (const int64_t batch : {2, 4, 6})
    for (const int64_t ids : {1, 2, 3})
      for (const bool has_dense : {true, false}) {
        SCOPED_TRACE(fmt::format("{} examples of {} ids, has_dense {}", batch, ids, has_dense));
        const TableOptions o{.batch = batch, .ids = ids, .has_dense = has_dense};
        const Graph graph =
            Lookups([](const Value& loss) { Adagrad({.learning_rate = 0.3}).Minimize(loss); }, o);
        ASSERT_FALSE(SplitTraining(graph)->sparse.empty());
        std::vector<Feeds> batches;
        for (int64_t rows = batch; rows >= 1; --rows) batches.push_back(LookupBatch(rows, o, rows));
        ExpectSame(graph, {.num_servers = 2, .partitioner = InPieces(2)}, batches, 1e-12);
      }
}

TEST(SparseRowsTest, MeansOfRowsAreThoseOfTheWholeBatch) {
  const TableOptions o{.batch = 6};
  const Graph graph = Lookups([](const Value& loss) { Adagrad({.learning_rate = 0.3}).Minimize(loss); }, o);
  std::vector<Feeds> batches;
  for (int64_t step = 0; step < 8; ++step) batches.push_back(LookupBatch(step, o));
  ExpectWorkersTakeTheSameSteps(graph, batches, 1e-9);
}

}  // namespace
}  // namespace meshwork::sparse_rows_test
