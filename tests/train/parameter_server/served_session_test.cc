// Workers that share servers.
#include "meshwork/train/parameter_server/served_session.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "train/parameter_server/models.h"

namespace meshwork::served_session_test {
namespace {

Graph Adaptive() {
  return Regression([](const Value& loss) { Adam({.learning_rate = 0.02, .clip_norm = 1}).Minimize(loss); });
}

TEST(ServedSessionTest, OneWorkerIsASession) {
  for (int64_t servers : {1, 2, 3}) {
    std::vector<Feeds> batches;
    for (int64_t step = 0; step < 40; ++step) batches.push_back(RegressionBatch(step, step % 3 == 2 ? 5 : 6));
    ExpectSame(Adaptive(), {.num_servers = servers, .partitioner = InPieces(servers)}, batches, 1e-9);
  }
}

// Implements PushRequest::next as a remote store does, and counts pulls.
class FarStore : public ParameterStore {
 public:
  explicit FarStore(std::shared_ptr<ParameterStore> store) : store_(std::move(store)) {}
  absl::StatusOr<Pulled> Pull(const PullRequest& request) override {
    ++pulls;
    return store_->Pull(request);
  }
  absl::StatusOr<Pushed> Push(const PushRequest& request) override {
    absl::StatusOr<Pushed> pushed = store_->Push(request);
    if (!pushed.ok() || request.next.empty()) return pushed;
    PullRequest next;
    for (const std::string& piece : request.next) next.pieces.push_back({piece});
    pushed->next = [pulled = store_->Pull(next)] { return pulled; };
    return pushed;
  }
  absl::StatusOr<SequenceSet> TakenFrom(const std::string& pusher) override {
    return store_->TakenFrom(pusher);
  }
  absl::StatusOr<int64_t> Save() override { return store_->Save(); }
  void Stop() override { store_->Stop(); }

  int64_t pulls = 0;

 private:
  const std::shared_ptr<ParameterStore> store_;
};

// Sessions in turns see each other's updates by the versions. A single session has its own in the values pulled ahead.
TEST(ServedSessionTest, ValuesPulledAheadAreNotOlderThanAskedFor) {
  constexpr int64_t kSteps = 40;
  for (const size_t sessions : {1, 2}) {
    Session whole = Session::Create(Adaptive(), {.workers = 1}).value();
    Served served = Serve(Adaptive(), {.num_servers = 1});
    const auto far = std::make_shared<FarStore>(served.stores[0]);
    served.stores[0] = far;
    std::vector<ServedSession> each;
    for (size_t i = 0; i < sessions; ++i) each.push_back(SessionOf(served, {.pull_ahead = true}));
    std::vector<int64_t> versions = {0};
    for (int64_t step = 0; step < kSteps; ++step) {
      const size_t i = static_cast<size_t>(step) % sessions;
      const absl::StatusOr<StepResult> got =
          each[i].Run(RegressionBatch(step), {"step", step + 1}, /*at_least=*/versions);
      ASSERT_EQ(got.status(), absl::OkStatus());
      EXPECT_NEAR(got->scalar("loss").value(), whole.Run(RegressionBatch(step))->scalar("loss").value(),
                  1e-9);
      versions = each[i].versions_pushed();
      EXPECT_EQ(versions[0], step + 1);
      EXPECT_EQ(each[i].versions()[0], step);
    }
    EXPECT_EQ(far->pulls == kSteps, sessions == 2);
  }
}

// A push asks for the values of the next step, unless the store would have to keep more of them than it should.
TEST(ServedSessionTest, OnlySmallValuesArePulledAhead) {
  for (const bool is_large : {false, true}) {
    Graph graph(Mesh::VirtualCpus("batch=1").value());
    const Value x = graph.Input("x", F32, {2, 512});
    const Variable w = graph.Var("w", GlorotUniform({512, is_large ? 513 : 512}));
    const Value loss = ReduceMean(Square(MatMul(x, w)));
    Sgd({.learning_rate = 0.1}).Minimize(loss);
    Served served = Serve(graph, {.num_servers = 1});
    const auto far = std::make_shared<FarStore>(served.stores[0]);
    served.stores[0] = far;
    ServedSession session = SessionOf(served, {.pull_ahead = true});
    for (int step = 0; step < 20; ++step)
      ASSERT_TRUE(session.Run({{"x", Tensor::Full({F32, {2, 512}}, 0.5)}}).ok());
    EXPECT_EQ(far->pulls == 20, is_large);
  }
}

TEST(ServedSessionTest, Evaluates) {
  const Graph graph = Adaptive();
  const Served served = Serve(graph, {.num_servers = 2});
  ServedSession session = SessionOf(served), other = SessionOf(served);
  const double before = session.Evaluate(RegressionBatch(0))->scalar("loss").value();
  for (int64_t step = 0; step < 20; ++step) ASSERT_TRUE(session.Run(RegressionBatch(0)).ok());
  EXPECT_LT(other.Evaluate(RegressionBatch(0), {"loss"})->scalar("loss").value(), before);
  EXPECT_EQ(other.Evaluate(RegressionBatch(0))->outputs().size(), 1u);
  EXPECT_EQ(served.shards[0]->version(), 20);
}

// 3 workers, each with batches of its own.
std::vector<int64_t> RunWorkers(const Served& served, int64_t steps, const ServedSessionOptions& options) {
  std::vector<std::thread> threads;
  std::vector<int64_t> applied(3, 0);
  for (int64_t w = 0; w < 3; ++w) {
    threads.emplace_back([&, w] {
      ServedSession session = SessionOf(served, options);
      for (int64_t step = 0; step < steps; ++step) {
        const absl::StatusOr<StepResult> result = session.Run(RegressionBatch(3 * (step % 4) + w));
        EXPECT_TRUE(result.ok()) << result.status();
        applied[static_cast<size_t>(w)] += session.num_applied();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return applied;
}

double LossOf(const Served& served) {
  ServedSession session = SessionOf(served);
  double sum = 0;
  for (int64_t i = 0; i < 12; ++i) sum += session.Evaluate(RegressionBatch(i))->scalar("loss").value();
  return sum;
}

TEST(ServedSessionTest, WorkersOnTheirOwnLoseNoUpdate) {
  const Served served = Serve(Adaptive(), {.num_servers = 2, .partitioner = InPieces(2)});
  const double before = LossOf(served);
  EXPECT_EQ(RunWorkers(served, 40, {}), (std::vector<int64_t>{80, 80, 80}));
  for (const ShardStore* store : served.shards) EXPECT_EQ(store->version(), 120);
  EXPECT_LT(LossOf(served), before);
}

TEST(ServedSessionTest, GradientsThatAreTooOldAreComputedAnew) {
  const Served served =
      Serve(Adaptive(), {.num_servers = 2, .partitioner = InPieces(2)}, {.max_staleness = 0});
  const std::vector<int64_t> applied = RunWorkers(served, 15, {.retries = 10000});
  EXPECT_EQ(applied, (std::vector<int64_t>{30, 30, 30}));
  for (const ShardStore* store : served.shards) EXPECT_EQ(store->version(), 45);
}

// Two of three workers suffice: nobody waits for the slowest, and each update is made of two pushes.
TEST(ServedSessionTest, SynchronousWorkersWithABackup) {
  const Served served = Serve(Adaptive(), {.num_servers = 2, .partitioner = InPieces(2)}, {.gather = 2});
  const double before = LossOf(served);
  std::atomic<int64_t> applied{0};
  std::vector<std::thread> threads;
  for (int64_t w = 0; w < 3; ++w) {
    threads.emplace_back([&, w] {
      ServedSession session = SessionOf(served, {.synchronous = true});
      for (bool is_ok = true; is_ok;) {
        is_ok = session.Run(RegressionBatch(w)).ok();
        applied += session.num_applied();
        if (session.versions()[0] < 20) continue;
        for (ShardStore* store : served.shards) store->Stop();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(served.shards[0]->version(), 20);
  // Each server may still keep one push, which waits for a second.
  const int64_t updates = served.shards[0]->version() + served.shards[1]->version();
  EXPECT_GE(applied, 2 * updates);
  EXPECT_LE(applied, 2 * updates + 2);
  EXPECT_LT(LossOf(served), before);
}

// The mean of the gradients of three parts is that of the whole batch.
TEST(ServedSessionTest, SynchronousWorkersComputeOneStep) {
  const Graph graph = Regression([](const Value& loss) { Momentum({.learning_rate = 0.1}).Minimize(loss); });
  std::vector<Feeds> batches;
  for (int64_t step = 0; step < 10; ++step) batches.push_back(RegressionBatch(step));
  ExpectWorkersTakeTheSameSteps(graph, batches, 1e-12);
}

}  // namespace
}  // namespace meshwork::served_session_test
