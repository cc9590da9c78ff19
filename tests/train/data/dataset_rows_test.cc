// Several processes that walk over one dataset: each gathers its rows, and lanes say which examples these are.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "meshwork/base/debug.h"
#include "meshwork/base/status.h"
#include "meshwork/train/data/dataset.h"
#include "meshwork/train/data/epoch_order.h"
#include "train/data/counting.h"

namespace meshwork::dataset_rows_test {
namespace {

using ::testing::ElementsAre;

// The rows of a batch that process `p` of `processes` reads: blocks of ⌈rows / processes⌉, as a mesh cuts them.
std::function<RowRange(int64_t)> RowsOf(int64_t p, int64_t processes) {
  return [=](int64_t rows) {
    const int64_t block = (rows + processes - 1) / processes;
    return RowRange{std::min(p * block, rows), std::min((p + 1) * block, rows)};
  };
}

// Seeds, sizes and lanes over which the tests loop.
struct Case {
  int64_t n, batch_size, lanes;
  std::optional<uint64_t> seed;
  std::string Name() const {
    return fmt::format("{} examples in batches of {} from {} lanes, {}", n, batch_size, lanes,
                       seed.has_value() ? "shuffled" : "in order");
  }
  BatchesOptions options() const {
    return {.batch_size = batch_size, .shuffle_seed = seed, .epoch = 3, .lanes = lanes};
  }
};
std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (int64_t n : {1, 5, 12, 127, 128, 129, 250})
    for (auto [batch_size, lanes] : std::vector<std::pair<int64_t, int64_t>>{
             {1, 1}, {6, 1}, {6, 2}, {6, 3}, {6, 6}, {12, 4}, {128, 8}, {500, 4}})
      for (std::optional<uint64_t> seed : {std::optional<uint64_t>(), std::optional<uint64_t>(7)})
        cases.push_back({n, batch_size, lanes, seed});
  return cases;
}

TEST(DatasetRowsTest, TheRowsOfAllProcessesAreTheBatchesOfOne) {
  for (const Case& c : Cases()) {
    SCOPED_TRACE(c.Name());
    const Dataset dataset = Counting(c.n);
    const std::vector<std::vector<int64_t>> whole = Walk(dataset, c.options());
    for (int64_t processes : {1, 2, 3, 4}) {
      std::vector<std::vector<int64_t>> joined(whole.size());
      for (int64_t p = 0; p < processes; ++p) {
        BatchesOptions options = c.options();
        options.rows = RowsOf(p, processes);
        size_t batch = 0;
        for (const Batch& b : dataset.Batches(options)) {
          ASSERT_LT(batch, whole.size());
          ASSERT_EQ(b.rows(), std::ssize(whole[batch])) << "a batch keeps its shape";
          const std::vector<int64_t> part = ExamplesOf(b, options.rows(b.rows()));
          joined[batch].insert(joined[batch].end(), part.begin(), part.end());
          ++batch;
        }
        EXPECT_EQ(batch, whole.size());
      }
      EXPECT_EQ(joined, whole) << processes << " processes";
    }
  }
}

TEST(DatasetRowsTest, EveryExampleComesOnceWithAnyLanes) {
  for (const Case& c : Cases()) {
    SCOPED_TRACE(c.Name());
    const auto batches = Walk(Counting(c.n), c.options());
    EXPECT_EQ(std::ssize(batches), (c.n + c.batch_size - 1) / c.batch_size);
    for (size_t i = 0; i + 1 < batches.size(); ++i) EXPECT_EQ(std::ssize(batches[i]), c.batch_size);
    std::vector<int64_t> all = Joined(batches), expected(static_cast<size_t>(c.n));
    std::sort(all.begin(), all.end());
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(all, expected);
  }
}

TEST(DatasetRowsTest, ARowComesFromItsLane) {
  for (const Case& c : Cases()) {
    SCOPED_TRACE(c.Name());
    // The first n % lanes runs have one example more.
    const auto lane_of = [&](int64_t example) {
      int64_t lane = 0;
      for (int64_t end = 0; lane < c.lanes; ++lane) {
        end += c.n / c.lanes + (lane < c.n % c.lanes ? 1 : 0);
        if (example < end) break;
      }
      return lane;
    };
    for (const std::vector<int64_t>& batch : Walk(Counting(c.n), c.options())) {
      const int64_t rows = std::ssize(batch);
      for (int64_t r = 0; r < rows; ++r) {
        if (rows == c.batch_size || c.n % c.lanes == 0) {
          EXPECT_EQ(lane_of(batch[r]), r * c.lanes / rows) << "row " << r << " of " << rows;
        } else if (r > 0) {
          EXPECT_GE(lane_of(batch[r]), lane_of(batch[r - 1])) << "what remains comes run by run";
        }
      }
    }
  }
}

TEST(DatasetRowsTest, OneLaneIsTheOrderWithoutLanes) {
  EXPECT_EQ(Joined(Walk(Counting(50), {.batch_size = 6, .shuffle_seed = 7, .epoch = 2, .lanes = 1})),
            ShuffledOrder(50, 7, 2));
  EXPECT_EQ(Walk(Counting(7), {.batch_size = 4, .lanes = 2}),
            (std::vector<std::vector<int64_t>>{{0, 1, 4, 5}, {2, 3, 6}}));
}

TEST(DatasetRowsTest, LanesAreShuffledBySeedEpochAndLane) {
  // The order of each of 3 lanes of 20 examples, counted from the lane's first.
  const auto orders = [](uint64_t seed, int64_t epoch) {
    std::vector<std::vector<int64_t>> lanes(3);
    for (int64_t example :
         Joined(Walk(Counting(60), {.batch_size = 3, .shuffle_seed = seed, .epoch = epoch, .lanes = 3})))
      lanes[static_cast<size_t>(example / 20)].push_back(example % 20);
    return lanes;
  };
  std::set<std::vector<int64_t>> seen;
  for (uint64_t seed : {7, 8, 9})
    for (int64_t epoch : {0, 1, 2})
      for (const std::vector<int64_t>& order : orders(seed, epoch)) seen.insert(order);
  EXPECT_EQ(seen.size(), 27u);
  EXPECT_EQ(orders(7, 1)[0], ShuffledOrder(20, 7, 1));
}

TEST(DatasetRowsTest, SizesThatNoMemoryCouldHoldAreOrdered) {
  constexpr int64_t kHuge = int64_t{1} << 62;
  internal::EpochOrder order(kHuge + 3, {.batch_size = kHuge, .lanes = kHuge / 4});
  EXPECT_EQ(order.RowsOf(0), kHuge);
  EXPECT_EQ(order.RowsOf(1), 3);
  EXPECT_THAT(order.ExamplesOf(0, {kHuge - 2, kHuge}), ElementsAre(kHuge + 1, kHuge + 2));
  EXPECT_THAT(order.ExamplesOf(0, {0, 5}), ElementsAre(0, 1, 2, 3, 5));
  EXPECT_THAT(order.ExamplesOf(1, {0, 3}), ElementsAre(4, 9, 14));
  internal::EpochOrder short_one(5, {.batch_size = kHuge, .lanes = kHuge});
  EXPECT_THAT(short_one.ExamplesOf(0, {1, 5}), ElementsAre(1, 2, 3, 4));
}

TEST(DatasetRowsTest, RowsAreAskedForOncePerSize) {
  std::vector<int64_t> asked;
  const auto thread = std::this_thread::get_id();
  BatchesOptions options{.batch_size = 4, .shuffle_seed = 1};
  options.rows = [&](int64_t rows) {
    EXPECT_EQ(std::this_thread::get_id(), thread);
    asked.push_back(rows);
    return RowRange{0, rows};
  };
  const Pipeline batches = Counting(10).Batches(options);
  EXPECT_THAT(asked, ElementsAre(4, 2));
  for (int walk = 0; walk < 2; ++walk)
    for (const Batch& batch : batches) ExamplesOf(batch);
  EXPECT_THAT(asked, ElementsAre(4, 2));
  asked.clear();
  (void)Counting(8).Batches(options);
  EXPECT_THAT(asked, ElementsAre(4));
  asked.clear();
  (void)Counting(3).Batches(options);
  EXPECT_THAT(asked, ElementsAre(3));
}

TEST(DatasetRowsTest, NoRowsMayBeWanted) {
  int64_t rows = 0;
  for (const Batch& b : Counting(10).Batches(
           {.batch_size = 4, .shuffle_seed = 1, .rows = [](int64_t) { return RowRange{}; }})) {
    EXPECT_EQ(b["x"].shape(), Shape({b.rows(), 3}));
    rows += b.rows();
  }
  EXPECT_EQ(rows, 10);
}

// How many bytes, from `data` on, are resident in memory.
int64_t ResidentBytes(const void* data, int64_t bytes) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t begin = reinterpret_cast<uintptr_t>(data) / page * page;
  std::vector<unsigned char> pages((reinterpret_cast<uintptr_t>(data) + bytes - begin + page - 1) / page);
  EXPECT_EQ(mincore(reinterpret_cast<void*>(begin), pages.size() * page, pages.data()), 0);
  return std::count_if(pages.begin(), pages.end(), [](unsigned char flags) { return (flags & 1) != 0; }) *
         static_cast<int64_t>(page);
}

TEST(DatasetRowsTest, OtherRowsTakeNoMemory) {
  if (kDebugBuild) GTEST_SKIP() << "debug builds fill them";
  const Dataset dataset = Dataset::Create({{"x", Tensor::Zeros({F32, {64, 1 << 18}})}}).value();  // 64 MiB
  for (const Batch& b : dataset.Batches({.batch_size = 64, .shuffle_seed = 1, .rows = RowsOf(2, 4)})) {
    const int64_t bytes = b["x"].bytes(), resident = ResidentBytes(b["x"].raw(), bytes);
    EXPECT_GE(resident, bytes / 4);
    EXPECT_LE(resident, bytes / 4 + (int64_t{4} << 20)) << "its ends lie in huge pages";
  }
}

TEST(DatasetRowsTest, WalksInOrderAreViewsWithRowsToo) {
  const Dataset dataset = Counting(7);
  const auto* data = static_cast<const char*>(dataset.column("x")->raw());
  int64_t rows = 0;
  for (const Batch& b : dataset.Batches({.batch_size = 3, .rows = RowsOf(1, 2)})) {
    EXPECT_EQ(b["x"].raw(), data + rows * 3 * sizeof(float));
    rows += b.rows();
  }
}

TEST(DatasetRowsTest, RejectsRowsThatABatchDoesNotHave) {
  for (const RowRange wrong :
       {RowRange{-1, 2}, RowRange{2, 1}, RowRange{0, 5}, RowRange{INT64_MIN, INT64_MAX}}) {
    const Pipeline range = Counting(10).Batches({.batch_size = 4, .rows = [=](int64_t) { return wrong; }});
    EXPECT_EQ(MessageOf(range.status()),
              fmt::format(
                  "Batches: options.rows gives rows {} to {} of a batch of 4; give a range that lies within "
                  "the batch.",
                  wrong.begin, wrong.end));
    EXPECT_EQ(range.size(), 0);
    EXPECT_THROW(range.begin(), absl::BadStatusOrAccess);
  }
  // The short batch has fewer.
  EXPECT_FALSE(Counting(10)
                   .Batches({.batch_size = 4,
                             .rows =
                                 [](int64_t) {
                                   return RowRange{0, 4};
                                 }})
                   .status()
                   .ok());
}

TEST(DatasetRowsTest, RejectsLanesThatDoNotDivideTheBatch) {
  for (int64_t lanes : {INT64_MIN, int64_t{-1}, int64_t{0}, int64_t{3}, int64_t{8}, INT64_MAX}) {
    const Pipeline range = Counting(10).Batches({.batch_size = 4, .lanes = lanes});
    EXPECT_EQ(MessageOf(range.status()),
              fmt::format(
                  "Batches: lanes is {} and batch_size is 4; lanes must be at least 1 and divide batch_size.",
                  lanes));
    EXPECT_THROW(range.begin(), absl::BadStatusOrAccess);
  }
}

}  // namespace
}  // namespace meshwork::dataset_rows_test
