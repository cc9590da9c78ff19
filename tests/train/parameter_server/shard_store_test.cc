// One server: versions, pushes that come twice or late, updates of several pushes, checkpoints.
#include "meshwork/train/parameter_server/shard_store.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "support/temp_dir.h"
#include "train/parameter_server/models.h"

namespace meshwork::shard_store_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// w: f64[4,1] in two pieces on one server, with Sgd of rate 1: a push of g takes g away.
Graph Line() {
  Graph g(Mesh::VirtualCpus("batch=1").value());
  const Value x = g.Input("x", F64, {2, 4});
  const Variable w = g.Var("w", Zeros({4, 1}, F64));
  const Value loss = ReduceSum(MatMul(x, w));
  g.Output("loss", loss);
  Sgd({.learning_rate = 1}).Minimize(loss);
  return g;
}

std::unique_ptr<ShardStore> NewStore(ShardStoreOptions options = {}) {
  options.session.workers = 1;
  return ShardStore::Create(SplitTraining(Line(), {.partitioner = InPieces(2)}).value(), options).value();
}

PushRequest PushOf(std::string pusher, int64_t sequence, int64_t version, double g) {
  const Tensor rows = Tensor::Full({F64, {2, 1}}, g);
  return {.pusher = std::move(pusher),
          .sequence = sequence,
          .version = version,
          .gradients = {{{"w/part_0"}, rows}, {{"w/part_1"}, rows}}};
}

std::vector<double> ValuesOf(ShardStore& store) {
  const Pulled pulled = store.Pull({.pieces = {{"w/part_0"}, {"w/part_1"}}}).value();
  const Tensor all = Tensor::Concat(pulled.values, 0);
  return {all.values<double>().begin(), all.values<double>().end()};
}

TEST(ShardStoreTest, PiecesStartAsPartsOfTheWhole) {
  const Graph graph = Regression([](const Value& loss) { Sgd({}).Minimize(loss); });
  for (int64_t seed : {0, 7}) {
    const Session whole = Session::Create(graph, {.workers = 1, .seed = seed}).value();
    const Served served = Serve(graph, {.num_servers = 2, .partitioner = InPieces(3)}, {.seed = seed});
    ServedSession parts = SessionOf(served);
    for (const std::string& name : whole.variable_names())
      EXPECT_EQ(AllEqual(parts.Get(name).value(), whole.Get(name).value()), absl::OkStatus()) << name;
  }
}

TEST(ShardStoreTest, PullsRows) {
  const std::unique_ptr<ShardStore> store = NewStore();
  PushRequest push = PushOf("a", 1, 0, 0);
  push.gradients[0].gradient = Tensor::From<double>({2, 1}, {3, 5});
  EXPECT_EQ(store->Push(push)->version, 1);
  const Pulled pulled =
      store->Pull({.pieces = {{"w/part_0", Tensor::From<int64_t>({2}, {1, 0})}, {"w/part_1"}}}).value();
  EXPECT_EQ(pulled.version, 1);
  EXPECT_THAT(pulled.values[0].values<double>(), ElementsAre(-5, -3));
  EXPECT_THAT(pulled.values[1].values<double>(), ElementsAre(0, 0));
}

TEST(ShardStoreTest, StartsWithWhatItIsGiven) {
  const Graph graph = Regression([](const Value& loss) { Adam({}).Minimize(loss); });
  const Tensor given = Tensor::From<double>({7}, {1, 2, 3, 4, 5, 6, 7});
  const SplitOptions options{.num_servers = 2, .partitioner = InPieces(2)};
  ServedSession session = SessionOf(Serve(graph, options, {.initial = {{"hidden/bias", given}}}));
  EXPECT_EQ(AllEqual(session.Get("hidden/bias").value(), given), absl::OkStatus());
  EXPECT_EQ(
      AllEqual(session.Get("out/kernel").value(), SessionOf(Serve(graph, options)).Get("out/kernel").value()),
      absl::OkStatus());
}

TEST(ShardStoreTest, APushThatComesAgainChangesNothing) {
  const std::unique_ptr<ShardStore> store = NewStore();
  EXPECT_TRUE(store->Push(PushOf("a", 1, 0, 1))->applied);
  const Pushed again = store->Push(PushOf("a", 1, 0, 1)).value();
  EXPECT_FALSE(again.applied);
  EXPECT_EQ(again.version, 1);
  EXPECT_TRUE(store->Push(PushOf("b", 1, 0, 1))->applied);
  EXPECT_TRUE(store->Push(PushOf("a", 3, 1, 1))->applied);
  // A push that a later one has overtaken counts, too.
  EXPECT_TRUE(store->Push(PushOf("a", 2, 1, 1))->applied);
  EXPECT_FALSE(store->Push(PushOf("a", 3, 1, 1))->applied);
  EXPECT_EQ(store->TakenFrom("a")->ToString(), "3");
  EXPECT_EQ(store->TakenFrom("c")->ToString(), "0");
  EXPECT_THAT(ValuesOf(*store), ElementsAre(-4, -4, -4, -4));
}

TEST(ShardStoreTest, GradientsOlderThanAllowedAreRefused) {
  const std::unique_ptr<ShardStore> store = NewStore({.max_staleness = 1});
  for (int64_t i = 1; i <= 2; ++i) EXPECT_TRUE(store->Push(PushOf("a", i, i - 1, 1))->applied);
  EXPECT_TRUE(store->Push(PushOf("b", 1, 1, 1))->applied);
  EXPECT_EQ(store->Push(PushOf("b", 2, 1, 1)).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(store->version(), 3);
  EXPECT_TRUE(store->Push(PushOf("b", 2, 2, 1))->applied);
}

TEST(ShardStoreTest, TheFirstPushesMakeOneUpdate) {
  const std::unique_ptr<ShardStore> store = NewStore({.gather = 2});
  PushRequest first = PushOf("a", 1, 0, 1);
  const Pushed of_a = store->Push(first).value();
  EXPECT_TRUE(of_a.applied);
  EXPECT_EQ(of_a.version, 0);
  EXPECT_EQ(store->TakenFrom("a")->ToString(), "1");
  EXPECT_THAT(ValuesOf(*store), ElementsAre(0, 0, 0, 0));
  // The store has copied the gradient.
  for (PieceGradient& given : first.gradients)
    for (double& element : given.gradient.mutable_values<double>()) element = 1000;
  const Pushed of_b = store->Push(PushOf("b", 1, 0, 4)).value();
  EXPECT_TRUE(of_b.applied);
  EXPECT_EQ(of_b.version, 1);
  EXPECT_THAT(ValuesOf(*store), ElementsAre(-2.5, -2.5, -2.5, -2.5));
  // The third worker is a backup, and came too late.
  EXPECT_EQ(store->Push(PushOf("c", 1, 0, 100)).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(ValuesOf(*store), ElementsAre(-2.5, -2.5, -2.5, -2.5));
}

// The answer to a push may be lost, so that the push comes again.
TEST(ShardStoreTest, APushThatComesAgainWhileItIsKeptCountsOnce) {
  const std::unique_ptr<ShardStore> store = NewStore({.gather = 2});
  EXPECT_TRUE(store->Push(PushOf("a", 1, 0, 1))->applied);
  EXPECT_FALSE(store->Push(PushOf("a", 1, 0, 1))->applied);
  EXPECT_EQ(store->version(), 0);
  EXPECT_TRUE(store->Push(PushOf("b", 1, 0, 3))->applied);
  EXPECT_EQ(store->version(), 1);
  EXPECT_THAT(ValuesOf(*store), ElementsAre(-2, -2, -2, -2));
}

TEST(ShardStoreTest, StopEndsAllPushes) {
  const std::unique_ptr<ShardStore> store = NewStore({.gather = 2});
  EXPECT_TRUE(store->Push(PushOf("a", 1, 0, 1)).ok());
  store->Stop();
  EXPECT_EQ(store->Push(PushOf("b", 1, 0, 1)).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(store->version(), 0);
}

using ShardStoreFilesTest = TempDirTest;

TEST_F(ShardStoreFilesTest, GoesOnFromWhatWasSaved) {
  const Graph graph = Regression([](const Value& loss) { Adam({.learning_rate = 0.1}).Minimize(loss); });
  const SplitOptions options{.num_servers = 2, .partitioner = InPieces(2)};
  std::vector<Tensor> expected;
  {
    const Served served = Serve(graph, options, {.folder = dir()});
    ServedSession session = SessionOf(served, {.pusher = "a"});
    for (int64_t step = 0; step < 4; ++step) ASSERT_TRUE(session.Run(RegressionBatch(step)).ok());
    for (ShardStore* store : served.shards) EXPECT_EQ(store->Save().value(), 4);
    for (int64_t step = 4; step < 6; ++step) ASSERT_TRUE(session.Run(RegressionBatch(step)).ok());
    for (const char* name : {"hidden/kernel", "adam/v/out/kernel", "adam/step"})
      expected.push_back(session.Get(name).value());
  }
  const Served served = Serve(graph, options, {.seed = 5, .folder = dir()});
  EXPECT_EQ(served.shards[0]->version(), 4);
  EXPECT_EQ(served.shards[1]->version(), 4);
  ServedSession old = SessionOf(served, {.pusher = "a"}),
                session = SessionOf(served, {.pusher = "a second life"});
  // The sequence of the first worker's pushes was saved: a push that it repeats is not applied again.
  ASSERT_TRUE(old.Run(RegressionBatch(0)).ok());
  EXPECT_EQ(old.num_applied(), 0);
  for (int64_t step = 4; step < 6; ++step) ASSERT_TRUE(session.Run(RegressionBatch(step)).ok());
  EXPECT_EQ(session.num_applied(), 2);
  size_t next = 0;
  for (const char* name : {"hidden/kernel", "adam/v/out/kernel", "adam/step"})
    EXPECT_EQ(AllEqual(session.Get(name).value(), expected[next++]), absl::OkStatus()) << name;
}

TEST_F(ShardStoreFilesTest, GradientsOfAVersionThatWasLostAreRefused) {
  int64_t old_life = 0;
  {
    const std::unique_ptr<ShardStore> store = NewStore({.folder = dir()});
    old_life = store->Pull({})->life;
    EXPECT_EQ(store->Save().value(), 0);
    for (int64_t i = 1; i <= 3; ++i) ASSERT_TRUE(store->Push(PushOf("a", i, i - 1, 1)).ok());
  }
  const std::unique_ptr<ShardStore> store = NewStore({.folder = dir()});
  EXPECT_EQ(store->Push(PushOf("a", 4, 3, 1)).status().code(), absl::StatusCode::kOutOfRange);
  // The store may reach the same version number again, but that is not the version that was lost.
  PushRequest of_old_life = PushOf("a", 5, 0, 1);
  of_old_life.life = old_life;
  EXPECT_EQ(store->Push(of_old_life).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_TRUE(store->Push(PushOf("a", 4, 0, 1))->applied);
}

TEST_F(ShardStoreFilesTest, AWriterThatWasKilledLeavesTheLastCheckpoint) {
  {
    const std::unique_ptr<ShardStore> store = NewStore({.folder = dir()});
    ASSERT_TRUE(store->Push(PushOf("a", 1, 0, 1)).ok());
    ASSERT_TRUE(store->Save().ok());
  }
  std::filesystem::create_directories(Path("server-0-of-1/partial-5f3a-7"));
  File("server-0-of-1/partial-5f3a-7/shard-00000-of-00001.safetensors", "half");
  const std::unique_ptr<ShardStore> store = NewStore({.folder = dir()});
  EXPECT_EQ(store->version(), 1);
  EXPECT_THAT(ValuesOf(*store), ElementsAre(-1, -1, -1, -1));
}

// A pull sees one version, whatever is pushed meanwhile.
TEST(ShardStoreTest, PullsAreOfOneVersion) {
  const std::unique_ptr<ShardStore> store = NewStore();
  std::thread pushes([&] {
    for (int64_t i = 1; i <= 200; ++i) EXPECT_TRUE(store->Push(PushOf("a", i, 0, 1)).ok());
  });
  for (int i = 0; i < 200; ++i) {
    const Pulled pulled = store->Pull({.pieces = {{"w/part_0"}, {"w/part_1"}}}).value();
    for (const Tensor& value : pulled.values)
      for (double element : value.values<double>()) EXPECT_EQ(element, -static_cast<double>(pulled.version));
  }
  pushes.join();
}

}  // namespace
}  // namespace meshwork::shard_store_test
