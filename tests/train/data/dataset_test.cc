#include "meshwork/train/data/dataset.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <ranges>
#include <set>
#include <thread>

#include "gmock/gmock.h"
#include "support/temp_dir.h"
#include "train/data/counting.h"

namespace meshwork::dataset_test {
namespace {

static_assert(std::input_iterator<PipelineCursor>);
static_assert(std::ranges::input_range<const Pipeline>);

TEST(DatasetTest, KnowsItsColumns) {
  const Dataset dataset = Counting(5);
  EXPECT_EQ(dataset.size(), 5);
  EXPECT_EQ(dataset.columns()->size(), 2u);
  EXPECT_EQ(dataset.column("x")->type().ToString(), "f32[5,3]");
  EXPECT_EQ(Dataset().size(), 0);
}

TEST(DatasetTest, AMissingColumnIsNoTensor) {
  for (const Batch& b : Counting(2).Batches({})) {
    EXPECT_TRUE(b.Get("x").ok());
    EXPECT_TRUE(b["x"].valid());
    EXPECT_FALSE(b["weight"].valid());
  }
}

TEST(DatasetTest, TakesTheFirstExamples) {
  const Dataset dataset = Counting(5);
  EXPECT_EQ(Joined(Walk(dataset.Take(3), {})), (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(dataset.Take(9).size(), 5);
  EXPECT_EQ(dataset.Take(0).size(), 0);
  EXPECT_EQ(dataset.Take(-1).size(), 0);
  EXPECT_EQ(Dataset().Take(3).size(), 0);
}

TEST(DatasetTest, WalksInOrderAndKeepsTheShortBatch) {
  EXPECT_EQ(Walk(Counting(7), {.batch_size = 3}),
            (std::vector<std::vector<int64_t>>{{0, 1, 2}, {3, 4, 5}, {6}}));
  EXPECT_EQ(Walk(Counting(6), {.batch_size = 3}), (std::vector<std::vector<int64_t>>{{0, 1, 2}, {3, 4, 5}}));
  EXPECT_EQ(Walk(Counting(2), {.batch_size = INT64_MAX}), (std::vector<std::vector<int64_t>>{{0, 1}}));
}

TEST(DatasetTest, BatchesInOrderAreViews) {
  const Dataset dataset = Counting(7);
  const auto* data = static_cast<const char*>(dataset.column("x")->raw());
  int64_t rows = 0;
  for (const Batch& b : dataset.Batches({.batch_size = 3})) {
    EXPECT_EQ(b["x"].raw(), data + rows * 3 * sizeof(float));
    rows += b.rows();
  }
}

TEST(DatasetTest, EveryExampleComesOncePerShuffledEpoch) {
  for (int64_t n : {1, 2, 5, 127, 128, 129}) {
    for (int64_t batch_size : {1, 2, 3, 64, 128, 1000}) {
      const auto batches = Walk(Counting(n), {.batch_size = batch_size, .shuffle_seed = 7});
      EXPECT_EQ(static_cast<int64_t>(batches.size()), (n + batch_size - 1) / batch_size);
      for (size_t i = 0; i + 1 < batches.size(); ++i) {
        EXPECT_EQ(static_cast<int64_t>(batches[i].size()), batch_size);
      }
      std::vector<int64_t> all = Joined(batches);
      EXPECT_EQ(all, ShuffledOrder(n, 7, 0));
      std::sort(all.begin(), all.end());
      std::vector<int64_t> expected(n);
      std::iota(expected.begin(), expected.end(), 0);
      EXPECT_EQ(all, expected);
    }
  }
}

TEST(DatasetTest, TheOrderIsAFunctionOfSizeSeedAndEpoch) {
  EXPECT_EQ(ShuffledOrder(10, 7, 0), (std::vector<int64_t>{4, 2, 9, 0, 1, 6, 8, 3, 7, 5}));
  EXPECT_EQ(ShuffledOrder(10, 7, 1), (std::vector<int64_t>{3, 4, 0, 8, 5, 6, 7, 1, 9, 2}));
  EXPECT_EQ(ShuffledOrder(10, 8, 0), (std::vector<int64_t>{2, 5, 4, 6, 7, 8, 9, 0, 1, 3}));
  EXPECT_EQ(ShuffledOrder(0, 7, 0), (std::vector<int64_t>{}));
  std::set<std::vector<int64_t>> orders;
  for (int64_t seed = 0; seed < 10; ++seed)
    for (int64_t epoch = -1; epoch < 10; ++epoch) orders.insert(ShuffledOrder(100, seed, epoch));
  EXPECT_EQ(orders.size(), 110u);
}

TEST(DatasetTest, AllOrdersAreEquallyLikely) {
  std::map<std::vector<int64_t>, int> count;
  for (uint64_t seed = 0; seed < 6000; ++seed) ++count[ShuffledOrder(3, seed, 0)];
  EXPECT_EQ(count.size(), 6u);
  for (const auto& [order, n] : count) EXPECT_NEAR(n, 1000, 120);
}

TEST(DatasetTest, AnEmptyDatasetHasNoBatches) {
  for (const Dataset& dataset : {Dataset(), Counting(0)}) {
    EXPECT_TRUE(Walk(dataset, {}).empty());
    EXPECT_TRUE(Walk(dataset, {.shuffle_seed = 1}).empty());
    EXPECT_EQ(dataset.Batches({}).size(), 0);
  }
}

TEST(DatasetTest, RejectsABatchSizeBelowOne) {
  for (const BatchesOptions& options :
       {BatchesOptions{.batch_size = 0}, BatchesOptions{.batch_size = 0, .shuffle_seed = 1}}) {
    const Pipeline range = Counting(3).Batches(options);
    ExpectInvalid(range.status(), "", "Batches: batch_size is 0; it must be at least 1.");
    EXPECT_EQ(range.size(), 0);
    EXPECT_THROW(range.begin(), absl::BadStatusOrAccess);
  }
}

TEST(DatasetTest, CountsItsBatches) {
  EXPECT_TRUE(Counting(7).Batches({.batch_size = 3}).status().ok());
  EXPECT_EQ(Counting(7).Batches({.batch_size = 3}).size(), 3);
  EXPECT_EQ(Counting(6).Batches({.batch_size = 3}).size(), 2);
  EXPECT_EQ(Counting(6).Batches({.batch_size = INT64_MAX}).size(), 1);
}

TEST(DatasetTest, AWalkMayBeginAtAnyBatch) {
  for (const std::optional<uint64_t> seed : {std::optional<uint64_t>(), std::optional<uint64_t>(7)}) {
    const std::vector<std::vector<int64_t>> all =
        Walk(Counting(11), {.batch_size = 3, .shuffle_seed = seed, .epoch = 2});
    for (int64_t first = 0; first <= 5; ++first) {
      const BatchesOptions options = {
          .batch_size = 3, .shuffle_seed = seed, .epoch = 2, .first_batch = first};
      const int64_t rest = std::max<int64_t>(4 - first, 0);
      EXPECT_EQ(Walk(Counting(11), options),
                (std::vector<std::vector<int64_t>>(all.end() - rest, all.end())));
      EXPECT_EQ(Counting(11).Batches(options).size(), rest);
    }
  }
  EXPECT_EQ(Counting(2).Batches({.batch_size = INT64_MAX, .first_batch = INT64_MAX}).size(), 0);
  EXPECT_TRUE(Walk(Counting(2), {.batch_size = INT64_MAX, .first_batch = INT64_MAX}).empty());
}

// The epochs of a Repeat follow each other as walks over the epochs do, and a walk goes on at any position.
TEST(DatasetTest, BatchesAreAPipeline) {
  const Dataset dataset = Counting(11);
  const auto of_epoch = [&](int64_t epoch) -> BatchesOptions {
    return {.batch_size = 3, .shuffle_seed = 7, .epoch = epoch, .lanes = 3};
  };
  const Pipeline repeated = dataset.Batches(of_epoch(2)).Repeat(2);
  EXPECT_EQ(repeated.ToString(), "dataset(11) | batches(3, seed 7, epoch 2, lanes 3) | repeat(2)");
  EXPECT_EQ(repeated.size(), 8);
  std::vector<std::vector<int64_t>> expected = Walk(dataset, of_epoch(2));
  for (std::vector<int64_t>& batch : Walk(dataset, of_epoch(3))) expected.push_back(std::move(batch));
  for (size_t taken = 0; taken <= 8; ++taken) {
    PipelineIterator walk = repeated.Begin();
    for (size_t i = 0; i < taken; ++i) ASSERT_TRUE(walk.Next().ok());
    EXPECT_EQ(ExamplesOf(repeated.Begin(walk.Save().value()).value()),
              std::vector(expected.begin() + static_cast<std::ptrdiff_t>(taken), expected.end()));
  }
  BatchesOptions some = of_epoch(2);
  some.rows = [](int64_t rows) { return RowRange{0, rows / 3}; };
  EXPECT_EQ(dataset.Batches(some).Fingerprint(), dataset.Batches(of_epoch(2)).Fingerprint());
}

TEST(DatasetTest, AWalkMayBeLeftEarly) {
  const Dataset dataset = Counting(1000);
  for (int64_t steps = 1; steps < 20; ++steps) {
    int64_t seen = 0;
    for (const Batch& b : dataset.Batches({.batch_size = 10, .shuffle_seed = 1})) {
      ExamplesOf(b);
      if (++seen == steps) break;
    }
    EXPECT_EQ(seen, steps);
  }
  { const PipelineCursor unused = dataset.Batches({.shuffle_seed = 1}).begin(); }
}

TEST(DatasetTest, AWalkOutlivesItsDatasetAndRange) {
  PipelineCursor it = Counting(5).Batches({.batch_size = 2, .shuffle_seed = 3}).begin();
  std::vector<int64_t> all;
  for (; it != std::default_sentinel; ++it) {
    for (int64_t i : ExamplesOf(*it)) all.push_back(i);
  }
  EXPECT_EQ(all, ShuffledOrder(5, 3, 0));
}

TEST(DatasetTest, ARangeStartsAnewEachTime) {
  const Pipeline range = Counting(5).Batches({.batch_size = 2, .shuffle_seed = 3});
  for (int i = 0; i < 2; ++i) {
    std::vector<int64_t> all;
    for (const Batch& b : range)
      for (int64_t example : ExamplesOf(b)) all.push_back(example);
    EXPECT_EQ(all, ShuffledOrder(5, 3, 0));
  }
}

TEST(DatasetTest, KeptBatchesStayAsTheyWere) {
  std::vector<Batch> kept;
  std::vector<Tensor> labels;
  for (const Batch& b : Counting(100).Batches({.batch_size = 7, .shuffle_seed = 5})) {
    kept.push_back(b);
    labels.push_back(b["y"].Rows(0, 1));
  }
  std::vector<std::vector<int64_t>> batches;
  for (const Batch& b : kept) batches.push_back(ExamplesOf(b));
  EXPECT_EQ(Joined(batches), ShuffledOrder(100, 5, 0));
  for (size_t i = 0; i < kept.size(); ++i) EXPECT_EQ(labels[i].values<int64_t>()[0], 10 * batches[i][0]);
}

TEST(DatasetTest, BuffersOfDroppedBatchesAreFilledAgain) {
  const Dataset dataset = Counting(1000);
  std::set<const void*> buffers;
  std::vector<Batch> kept;  // their buffers must not be
  for (const Batch& b : dataset.Batches({.batch_size = 10, .shuffle_seed = 5})) {
    if (kept.size() < 3) kept.push_back(b);
    buffers.insert(b["x"].raw());
  }
  // The kept ones; then the current one, and two ahead.
  EXPECT_LE(buffers.size(), 3u + 3u);
  std::vector<int64_t> first;
  for (const Batch& b : kept)
    for (int64_t example : ExamplesOf(b)) first.push_back(example);
  const std::vector<int64_t> order = ShuffledOrder(1000, 5, 0);
  EXPECT_EQ(first, std::vector<int64_t>(order.begin(), order.begin() + 30));
}

TEST(DatasetTest, ConcurrentWalksDoNotDisturbEachOther) {
  const Dataset dataset = Counting(200);
  std::vector<std::thread> walkers;
  for (int64_t epoch = 0; epoch < 4; ++epoch) {
    walkers.emplace_back([&dataset, epoch] {
      EXPECT_EQ(Joined(Walk(dataset, {.batch_size = 9, .shuffle_seed = 1, .epoch = epoch})),
                ShuffledOrder(200, 1, epoch));
    });
  }
  for (std::thread& walker : walkers) walker.join();
}

class LoadMnistTest : public TempDirTest {
 protected:
  LoadMnistTest() {
    Put("train-images-idx3-ubyte", {3, 28, 28}, 3 * 784);
    Put("train-labels-idx1-ubyte", {3}, 3);
    Put("t10k-images-idx3-ubyte", {2, 28, 28}, 2 * 784);
    Put("t10k-labels-idx1-ubyte", {2}, 2);
  }

  // An IDX file of bytes 0, 1, 2, ….
  void Put(std::string_view name, const std::vector<int>& dims, size_t elements, int change_at = -1,
           int to = 0) {
    std::string file = {0, 0, 8, static_cast<char>(dims.size())};
    for (int dim : dims) file.append({0, 0, static_cast<char>(dim >> 8), static_cast<char>(dim)});
    for (size_t i = 0; i < elements; ++i)
      file += static_cast<char>(static_cast<int>(i) == change_at ? to : i);
    File(name, file);
  }
  // Expects this error of loading; it begins with "LoadMnist: ".
  void ExpectLoadError(std::string_view message) {
    ExpectInvalid(LoadMnist(dir(), F32).status(), dir(), message);
  }
};

TEST_F(LoadMnistTest, ReadsImagesAndLabels) {
  for (DType dtype : {F32, F64}) {
    const MnistData mnist = LoadMnist(dir(), dtype).value();
    EXPECT_EQ(mnist.train.column("image")->type(), (Type{dtype, {3, 784}}));
    EXPECT_EQ(mnist.test.column("image")->type(), (Type{dtype, {2, 784}}));
    EXPECT_EQ(mnist.train.column("label")->type().ToString(), "i32[3]");
    EXPECT_EQ(mnist.train.column("label")->values<int32_t>()[2], 2);
    EXPECT_EQ(mnist.test.column("label")->values<int32_t>()[1], 1);
  }
  const Tensor f32 = LoadMnist(dir(), F32)->train.column("image").value();
  const Tensor f64 = LoadMnist(dir(), F64)->train.column("image").value();
  for (int i = 0; i < 3 * 784; ++i) {
    EXPECT_EQ(f64.values<double>()[i], (i % 256) / 255.0);
    EXPECT_EQ(f32.values<float>()[i], static_cast<float>(i % 256) / 255.0f);
  }
}

TEST_F(LoadMnistTest, KeepsTheFirstExamplesOfEachPart) {
  const MnistData all = LoadMnist(dir(), F32).value();
  const MnistData some = LoadMnist(dir(), F32, {.train = 2, .test = 9}).value();
  EXPECT_EQ(some.test.size(), 2);
  ASSERT_EQ(some.train.size(), 2);
  EXPECT_THAT(some.train.column("image")->values<float>(),
              ::testing::ElementsAreArray(all.train.Take(2).column("image")->values<float>()));
  EXPECT_THAT(some.train.column("label")->values<int32_t>(), ::testing::ElementsAre(0, 1));
  EXPECT_EQ(LoadMnist(dir(), F64, {.train = 0})->train.size(), 0);
  Put("train-labels-idx1-ubyte", {3}, 3, /*change_at=*/2, /*to=*/10);
  EXPECT_FALSE(LoadMnist(dir(), F32, {.train = 2}).ok());
}

TEST_F(LoadMnistTest, FallsBackToTheGzippedFile) {
  std::filesystem::rename(Path("train-labels-idx1-ubyte"), Path("train-labels-idx1-ubyte.gz"));
  EXPECT_EQ(LoadMnist(dir(), F32)->train.size(), 3);  // its content decides, not its name
  File("train-labels-idx1-ubyte.gz", "\x1f\x8b");
  ExpectLoadError(
      "LoadMnist: $/train-labels-idx1-ubyte.gz: the gzip data is cut off after 0 unpacked bytes; the file is "
      "incomplete, fetch it again.");
}

}  // namespace
}  // namespace meshwork::dataset_test
