// Datasets of several files: which are loaded when, and what happens if one cannot be.
#include <algorithm>
#include <atomic>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "meshwork/base/status.h"
#include "meshwork/train/data/dataset.h"
#include "train/data/counting.h"

namespace meshwork::dataset_parts_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// The examples of Counting in parts of these sizes, and how often each was loaded.
struct Parts {
  explicit Parts(const std::vector<int64_t>& sizes) : loads(sizes.size()) {
    std::vector<Dataset::Part> parts;
    int64_t first = 0;
    for (size_t p = 0; p < sizes.size(); ++p) {
      parts.push_back({sizes[p], [this, p, first, end = first + sizes[p]]() -> absl::StatusOr<Columns> {
                         ++loads[p];
                         return CountingColumns(first, end);
                       }});
      first += sizes[p];
    }
    dataset = Dataset::FromParts(std::move(parts)).value();
  }
  std::set<int64_t> Loaded() const {
    std::set<int64_t> loaded;
    for (size_t p = 0; p < loads.size(); ++p)
      if (loads[p] > 0) loaded.insert(static_cast<int64_t>(p));
    return loaded;
  }

  std::vector<std::atomic<int>> loads;
  Dataset dataset;
};

TEST(DatasetPartsTest, WalksAsOneInMemoryDoes) {
  for (const std::vector<int64_t>& sizes :
       {std::vector<int64_t>{20}, {10, 10}, {0, 7, 0, 0, 13, 0}, {1, 2, 3, 4, 10}, {19, 1}}) {
    for (const BatchesOptions& options :
         {BatchesOptions{.batch_size = 6}, BatchesOptions{.batch_size = 6, .shuffle_seed = 7},
          BatchesOptions{.batch_size = 6, .shuffle_seed = 7, .lanes = 3},
          BatchesOptions{.batch_size = 64, .lanes = 4}}) {
      for (int64_t n : {20, 15, 0}) {
        const Parts parts(sizes);
        EXPECT_EQ(Walk(parts.dataset.Take(n), options), Walk(Counting(n), options));
        for (const std::atomic<int>& loads : parts.loads) EXPECT_LE(loads, 1);
      }
    }
  }
}

TEST(DatasetPartsTest, LoadsAPartWhenItsFirstExampleIsRead) {
  const Parts parts({4, 4, 4, 4, 4, 4, 4, 4});
  EXPECT_EQ(parts.dataset.size(), 32);
  EXPECT_EQ(parts.dataset.Batches({.batch_size = 8}).size(), 4);
  EXPECT_THAT(parts.Loaded(), IsEmpty());
  // Two batches are gathered ahead, and one is on its way.
  { const PipelineCursor first = parts.dataset.Batches({.batch_size = 4}).begin(); }
  EXPECT_THAT(parts.Loaded(), ::testing::IsSubsetOf({0, 1, 2, 3}));
  EXPECT_THAT(parts.Loaded(), ::testing::Contains(0));
  EXPECT_THAT(Walk(parts.dataset.Take(18), {.batch_size = 5}), Walk(Counting(18), {.batch_size = 5}));
  EXPECT_THAT(parts.Loaded(), ElementsAre(0, 1, 2, 3, 4));
}

TEST(DatasetPartsTest, SkippedBatchesAreNotLoaded) {
  PipelineIterator walk = Counting(16).Batches({.batch_size = 4}).Begin();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(walk.Next().ok());
  const std::string position = walk.Save().value();
  const auto last_of = [](const Pipeline& pipeline, const std::string& from) {
    return ExamplesOf(pipeline.Begin(from).value());
  };
  const std::vector<std::vector<int64_t>> last = {{12, 13, 14, 15}};
  const Parts skipped({4, 4, 4, 4}), continued({4, 4, 4, 4}), begun({4, 4, 4, 4});
  EXPECT_EQ(last_of(skipped.dataset.Batches({.batch_size = 4}).Skip(3), ""), last);
  EXPECT_EQ(last_of(continued.dataset.Batches({.batch_size = 4}), position), last);
  EXPECT_EQ(last_of(begun.dataset.Batches({.batch_size = 4, .first_batch = 3}), ""), last);
  for (const Parts* const parts : {&skipped, &continued, &begun})
    EXPECT_THAT(parts->Loaded(), ElementsAre(3));
}

TEST(DatasetPartsTest, AProcessLoadsThePartsOfItsLanesOnly) {
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>(8, 10), std::vector<int64_t>(8, 9)}) {
    const Parts whole(sizes);
    for (int64_t processes : {1, 2, 4, 8}) {
      for (int64_t p = 0; p < processes; ++p) {
        const Parts parts(sizes);
        // 8 divides the number of examples, so the last, short batch keeps to the lanes, too.
        BatchesOptions options{.batch_size = 16, .shuffle_seed = 7, .lanes = 8};
        const auto expected = Walk(whole.dataset, options);
        options.rows = [=](int64_t rows) {
          return RowRange{p * rows / processes, (p + 1) * rows / processes};
        };
        for (int64_t epoch : {0, 1}) {
          options.epoch = epoch;
          size_t batch = 0;
          for (const Batch& b : parts.dataset.Batches(options)) {
            const RowRange rows = options.rows(b.rows());
            const std::vector<int64_t> examples = ExamplesOf(b, rows);
            if (epoch == 0) {
              EXPECT_TRUE(std::equal(examples.begin(), examples.end(), expected[batch].begin() + rows.begin));
            }
            ++batch;
          }
        }
        std::set<int64_t> own;
        for (int64_t lane = p * 8 / processes; lane < (p + 1) * 8 / processes; ++lane) own.insert(lane);
        EXPECT_EQ(parts.Loaded(), own) << "process " << p << " of " << processes;
        for (const std::atomic<int>& loads : parts.loads) EXPECT_LE(loads, 1);
      }
    }
  }
}

TEST(DatasetPartsTest, CopiesShareWhatIsLoaded) {
  const Parts parts({100, 100, 100});
  std::vector<std::thread> walkers;
  for (int64_t epoch = 0; epoch < 4; ++epoch) {
    walkers.emplace_back([copy = parts.dataset, epoch] {
      EXPECT_EQ(Joined(Walk(copy, {.batch_size = 9, .shuffle_seed = 1, .epoch = epoch})),
                ShuffledOrder(300, 1, epoch));
    });
  }
  for (std::thread& walker : walkers) walker.join();
  for (const std::atomic<int>& loads : parts.loads) EXPECT_EQ(loads, 1);
}

TEST(DatasetPartsTest, ColumnsAreThoseOfAllParts) {
  const Parts parts({3, 0, 4, 5});
  const Dataset expected = Counting(12);
  EXPECT_THAT(parts.dataset.column("x")->values<float>(),
              ::testing::ElementsAreArray(expected.column("x")->values<float>()));
  EXPECT_THAT(parts.Loaded(), ElementsAre(0, 2, 3));
  for (int64_t n : {12, 9, 5, 3, 1, 0}) {
    const Parts fresh({3, 0, 4, 5});
    const Columns columns = fresh.dataset.Take(n).columns().value(),
                  of_memory = expected.Take(n).columns().value();
    ASSERT_EQ(columns.size(), 2u);
    for (size_t c = 0; c < 2; ++c) {
      EXPECT_EQ(columns[c].first, of_memory[c].first);
      EXPECT_EQ(columns[c].second.type(), of_memory[c].second.type());
    }
    EXPECT_THAT(columns[1].second.values<int64_t>(),
                ::testing::ElementsAreArray(of_memory[1].second.values<int64_t>()));
    EXPECT_EQ(fresh.Loaded().contains(3), n > 7);
  }
  EXPECT_EQ(parts.dataset.column("z").status().code(), absl::StatusCode::kNotFound);
}

TEST(DatasetPartsTest, ALoadedPartLetsGoOfItsLoader) {
  auto held = std::make_shared<int>(0);
  const Dataset dataset =
      Dataset::FromParts({{2, [held]() -> absl::StatusOr<Columns> { return CountingColumns(0, 2); }}})
          .value();
  EXPECT_EQ(held.use_count(), 2);
  EXPECT_EQ(Joined(Walk(dataset, {})), (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(held.use_count(), 1);
}

// A walk that reaches a part which cannot be loaded gives the batches before it, and then throws.
TEST(DatasetPartsTest, AWalkThrowsWhereAPartFails) {
  std::atomic<bool> fails = true;
  const auto load = [&fails](int64_t first, int64_t end, bool may_fail) -> absl::StatusOr<Columns> {
    if (may_fail && fails) return absl::NotFoundError("digits-1: no such file.");
    return CountingColumns(first, end);
  };
  const Dataset dataset = Dataset::FromParts({{4, [=] { return load(0, 4, false); }},
                                              {4, [=] { return load(4, 8, true); }},
                                              {4, [=] { return load(8, 12, false); }}})
                              .value();
  std::vector<int64_t> seen;
  absl::Status status;
  const auto walk = [&](const BatchesOptions& options) {
    seen.clear();
    status = absl::OkStatus();
    try {
      for (const Batch& b : dataset.Batches(options)) {
        const RowRange rows = options.rows == nullptr ? RowRange{0, b.rows()} : options.rows(b.rows());
        for (int64_t example : ExamplesOf(b, rows)) seen.push_back(example);
      }
    } catch (const absl::BadStatusOrAccess& error) {
      status = error.status();
    }
  };
  walk({.batch_size = 2});
  EXPECT_THAT(seen, ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(MessageOf(status), "Dataset: part 1: digits-1: no such file.");
  walk({.batch_size = 12});  // where begin() throws
  EXPECT_THAT(seen, IsEmpty());
  EXPECT_FALSE(status.ok());
  EXPECT_FALSE(dataset.column("x").ok());
  EXPECT_EQ(dataset.columns().status().code(), absl::StatusCode::kNotFound);
  walk({.batch_size = 6, .lanes = 3, .rows = [](int64_t rows) { return RowRange{0, rows / 3}; }});
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(seen, ElementsAre(0, 1, 2, 3)) << "of part 0";

  PipelineCursor it = dataset.Batches({.batch_size = 4}).begin();
  for (int again = 0; again < 2; ++again) EXPECT_THROW(++it, absl::BadStatusOrAccess);
  EXPECT_TRUE(it == std::default_sentinel);

  fails = false;  // the part is loaded again
  walk({.batch_size = 5});
  EXPECT_EQ(seen.size(), 12u);
  EXPECT_TRUE(status.ok()) << status;
}

TEST(DatasetPartsTest, WhatALoaderThrowsIsAnError) {
  const auto throwing = [](const auto& exception) {
    return Dataset::FromParts({{4, [=]() -> absl::StatusOr<Columns> { throw exception; }}}).value();
  };
  const Dataset failing = throwing(std::runtime_error("disk"));
  const absl::Status expected = absl::InternalError("Dataset: part 0: a library failed: disk.");
  EXPECT_EQ(failing.Batches({}).Begin().Next().status(), expected);
  EXPECT_EQ(failing.column("x").status(), expected);
  EXPECT_EQ(throwing(absl::BadStatusOrAccess(absl::NotFoundError("no file."))).columns().status(),
            absl::NotFoundError("Dataset: part 0: no file."));
}

TEST(DatasetPartsTest, AnEmptyDatasetOfPartsHasNoBatches) {
  const Parts parts({0, 0});
  EXPECT_EQ(parts.dataset.size(), 0);
  EXPECT_TRUE(Walk(parts.dataset, {.shuffle_seed = 1}).empty());
  EXPECT_THAT(parts.Loaded(), IsEmpty());
  EXPECT_EQ(parts.dataset.column("x")->type().ToString(), "f32[0,3]");
}

}  // namespace
}  // namespace meshwork::dataset_parts_test
