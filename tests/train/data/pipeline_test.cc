// Results of stages: the order of elements, their sizes, and laws between stages.
#include "meshwork/train/data/pipeline.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <numeric>
#include <set>
#include <thread>

#include "gmock/gmock.h"
#include "meshwork/base/status.h"
#include "train/data/counting.h"
#include "train/data/pipeline_values.h"

namespace meshwork::pipeline_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAreArray;

Example Tripled(const Example& e) { return Number(3 * NumberOf(e)); }
bool IsOdd(const Example& e) { return NumberOf(e) % 2 == 1; }

std::vector<int64_t> UpTo(int64_t n) {
  std::vector<int64_t> all(static_cast<size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

TEST(PipelineTest, SourcesGiveTheirElementsInOrder) {
  EXPECT_THAT(Flat(Pipeline()), IsEmpty());
  EXPECT_THAT(Flat(Numbers(4)), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(Flat(Numbers(0)), IsEmpty());
  EXPECT_THAT(Flat(Numbers({}).Take(3)), ElementsAre(0, 1, 2));
  int64_t next = 0;
  for (const Example& e : Pipeline::Range(5)) {
    EXPECT_EQ(e["index"].type(), (Type{I64, {}}));
    EXPECT_EQ(e["index"].values<int64_t>()[0], next++);
  }
  EXPECT_EQ(next, 5);
  // Each walk has a generator of its own.
  const Pipeline generated = Pipeline::Generate([] {
    return [i = int64_t{0}]() mutable -> absl::StatusOr<std::optional<Example>> {
      if (i == 3) return std::nullopt;
      return Number(i++ * 10);
    };
  });
  EXPECT_THAT(Flat(generated), ElementsAre(0, 10, 20));
  EXPECT_THAT(Flat(generated), ElementsAre(0, 10, 20));
}

TEST(PipelineTest, DatasetsComeRowByRow) {
  for (int64_t n : {0, 1, 7}) {
    int64_t i = 0;
    for (const Example& e : Pipeline::From(Counting(n))) {
      EXPECT_EQ(e["x"].type(), (Type{F32, {3}}));
      EXPECT_EQ(e["x"].values<float>()[1], static_cast<float>(i) + 0.25f);
      EXPECT_EQ(e["y"].values<int64_t>()[0], 10 * i++);
    }
    EXPECT_EQ(i, n);
  }
  std::vector<Dataset::Part> parts;
  for (int64_t p = 0; p < 3; ++p)
    parts.push_back({4, [p]() -> absl::StatusOr<Columns> { return CountingColumns(4 * p, 4 * p + 4); }});
  int64_t i = 0;
  for (const Example& e : Pipeline::From(Dataset::FromParts(parts).value()))
    EXPECT_EQ(e["y"].values<int64_t>()[0], 10 * i++);
  EXPECT_EQ(i, 12);
}

// Batches of a dataset are those of Dataset::Batches.
TEST(PipelineTest, BatchesAreThoseOfTheDataset) {
  const Dataset data = Counting(20);
  for (int64_t n : {1, 3, 5, 20, 50}) {
    std::vector<std::vector<int64_t>> batches;
    for (const Example& e : Pipeline::From(data).Batch(n)) batches.push_back(ExamplesOf(Batch(e.columns())));
    EXPECT_EQ(batches, Walk(data, {.batch_size = n}));
  }
}

TEST(PipelineTest, Laws) {
  for (int64_t n : {0, 1, 2, 5, 12}) {
    const Pipeline p = Numbers(n);
    for (int64_t k : {0, 1, 3, 12, 20}) {
      EXPECT_EQ(Walk(p.Map(Tripled).Take(k)), Walk(p.Take(k).Map(Tripled)));
      EXPECT_EQ(Walk(p.Map(Tripled).Skip(k)), Walk(p.Skip(k).Map(Tripled)));
      EXPECT_EQ(Walk(Pipeline::Interleave({p.Take(k), p.Skip(k)}, {.cycle = 1})), Walk(p));
      EXPECT_EQ(Walk(p.Take(k).Take(3)), Walk(p.Take(std::min<int64_t>(k, 3))));
      EXPECT_EQ(Walk(p.Skip(k).Skip(3)), Walk(p.Skip(k + 3)));
      EXPECT_EQ(Walk(p.Repeat(3).Map(Tripled)), Walk(p.Map(Tripled).Repeat(3)));
      EXPECT_EQ(Walk(p.Repeat(k)), Walk(p.Repeat().Take(k * n)));
      EXPECT_EQ(Walk(p.Filter(IsOdd).Map(Tripled)), Walk(p.Map(Tripled).Filter(IsOdd)));  // 3x is odd as x is
      EXPECT_EQ(Walk(p.Cache()), Walk(p));
      EXPECT_EQ(Walk(p.Prefetch(k + 1)), Walk(p));
      EXPECT_EQ(Walk(p.Shuffle(1, k)), Walk(p));
      if (k == 0) continue;
      std::vector<Pipeline> shards;
      for (int64_t i = 0; i < k; ++i) shards.push_back(p.Shard(i, k));
      EXPECT_EQ(Walk(Pipeline::Interleave(shards, {.cycle = k})), Walk(p));
      EXPECT_EQ(Flat(p.Batch(k)), Flat(p));
      EXPECT_EQ(Flat(p.Batch(k, {.drop_remainder = true})), Flat(p.Take(n / k * k)));
      // Skip and Take of batches skip and take whole blocks of elements.
      EXPECT_EQ(Walk(p.Batch(k).Skip(1)), Walk(p.Skip(k).Batch(k)));
      EXPECT_EQ(Walk(p.Batch(k).Take(2)), Walk(p.Take(2 * k).Batch(k)));
    }
  }
}

// Skip and Shard leave out elements without making them. Every stage must skip the right ones.
TEST(PipelineTest, SkippedElementsAreThoseThatWouldHaveCome) {
  const Pipeline p = Numbers(23);
  const std::vector<Pipeline> all = {
      p,
      Pipeline::From(Counting(9)).Map([](const Example& e) {
        return Example{{"x", e["y"]}};
      }),
      p.Map(Tripled, {.threads = 2}),
      p.Filter(IsOdd),
      p.Shuffle(5, 1),
      p.Repeat(2),
      p.Filter([](const Example&) { return false; }).Repeat(),
      p.Batch(4),
      p.Batch(4, {.drop_remainder = true}),
      p.Shard(1, 4),
      p.Take(11),
      p.Skip(4),
      p.Prefetch(3),
      p.Cache(),
      Pipeline::Interleave({p, p.Take(2), p.Map(Tripled)}),
      Pipeline::Zip({p, Numbers(9).Map([](const Example& e) {
                       return Example{{"y", e["x"]}};
                     })}),
      p.Batch(2).Shard(1, 3),
      p.Take(10).Repeat(3).Shard(2, 7),
      p.Shard(0, 2).Batch(5),
  };
  for (const Pipeline& pipeline : all) {
    const Walked whole = Walk(pipeline);
    for (size_t k = 0; k <= whole.size() + 1; ++k) {
      const auto from = whole.begin() + static_cast<std::ptrdiff_t>(std::min(k, whole.size()));
      EXPECT_EQ(Walk(pipeline.Skip(static_cast<int64_t>(k))), Walked(from, whole.end()))
          << pipeline.ToString();
    }
    for (int64_t count : {1, 2, 3, 30}) {
      for (int64_t index = 0; index < count; ++index) {
        Walked expected;
        for (size_t i = static_cast<size_t>(index); i < whole.size(); i += static_cast<size_t>(count))
          expected.push_back(whole[i]);
        EXPECT_EQ(Walk(pipeline.Shard(index, count)), expected) << pipeline.ToString();
        EXPECT_EQ(Walk(pipeline.Shard(index, count).Skip(1)),
                  Walked(expected.begin() + (expected.empty() ? 0 : 1), expected.end()));
      }
    }
  }
}

TEST(PipelineTest, SizesAreTheNumbersOfElements) {
  const Pipeline p = Numbers(10), f = p.Filter(IsOdd), y = Pipeline::Range(4);
  for (const Pipeline& pipeline : {Pipeline(),
                                   p,
                                   p.Map(Tripled),
                                   p.Shuffle(3, 1),
                                   p.Cache(),
                                   p.Repeat(3),
                                   p.Repeat(0),
                                   p.Batch(3),
                                   p.Batch(5),
                                   p.Batch(3, {.drop_remainder = true}),
                                   p.Batch(20, {.drop_remainder = true}),
                                   p.Shard(0, 3),
                                   p.Shard(2, 3),
                                   p.Shard(11, 12),
                                   p.Take(4),
                                   p.Take(40),
                                   p.Take(0),
                                   f.Take(0),
                                   p.Skip(4),
                                   p.Skip(40),
                                   p.Prefetch(2),
                                   Pipeline::Zip({p, y}),
                                   Pipeline::Zip({f, Pipeline()}),
                                   Pipeline::Interleave({p, y, p}),
                                   Numbers(0).Repeat(),
                                   f.Repeat(0),
                                   Pipeline::From(Counting(6))}) {
    int64_t n = 0;
    for (const Example& e : pipeline) {
      (void)e;
      ++n;
    }
    EXPECT_EQ(pipeline.size(), n) << pipeline.ToString();
  }
  for (const Pipeline& pipeline : {f, p.Repeat(), Numbers({}), f.Batch(2), Pipeline::Zip({f, p}),
                                   Pipeline::Interleave({f, p}), Numbers({}).Skip(3)})
    EXPECT_EQ(pipeline.size(), std::nullopt) << pipeline.ToString();
}

TEST(PipelineTest, RepeatEndsWhereThereIsNothingToRepeat) {
  EXPECT_THAT(Flat(Numbers(0).Repeat()), IsEmpty());
  EXPECT_THAT(Flat(Numbers(5).Filter([](const Example&) { return false; }).Repeat()), IsEmpty());
  EXPECT_THAT(Flat(Numbers(5).Take(0).Repeat().Repeat()), IsEmpty());
  EXPECT_THAT(Flat(Numbers(2).Repeat().Take(5)), ElementsAre(0, 1, 0, 1, 0));
}

TEST(PipelineTest, ZipPutsColumnsTogether) {
  const Pipeline other = Numbers(3).Map([](const Example& e) {
    Example renamed{{"y", e["x"]}};
    renamed.SetText("name", "n" + std::to_string(NumberOf(e)));
    return renamed;
  });
  int64_t i = 0;
  for (const Example& e : Pipeline::Zip({Numbers(5), other})) {
    EXPECT_EQ(e.columns().size(), 2u);
    EXPECT_EQ(NumberOf(e), i);
    EXPECT_EQ(e["y"].values<int64_t>()[0], i);
    EXPECT_EQ(e.text("name"), "n" + std::to_string(i));
    ++i;
  }
  EXPECT_EQ(i, 3);
}

TEST(PipelineTest, InterleaveTakesTurns) {
  const auto numbers = [](int64_t first, int64_t n) {
    return Pipeline::FromFunction(n, [first](int64_t i) { return Number(first + i); });
  };
  const std::vector<Pipeline> inputs = {numbers(10, 3), numbers(20, 1), numbers(30, 2), numbers(40, 2)};
  EXPECT_THAT(Flat(Pipeline::Interleave(inputs)), ElementsAre(10, 20, 30, 40, 11, 31, 41, 12));
  EXPECT_THAT(Flat(Pipeline::Interleave(inputs, {.cycle = 2})), ElementsAre(10, 20, 11, 30, 12, 31, 40, 41));
  EXPECT_THAT(Flat(Pipeline::Interleave(inputs, {.block = 2})), ElementsAre(10, 11, 20, 30, 31, 40, 41, 12));
  EXPECT_THAT(Flat(Pipeline::Interleave(inputs, {.cycle = 1})), ElementsAre(10, 11, 12, 20, 30, 31, 40, 41));
}

TEST(PipelineTest, BatchesHoldTheElementsOfAllTypes) {
  const auto element = [](int64_t i) {
    const auto f = static_cast<float>(i);
    return Example{{"image", Tensor::From<float>({2, 1}, {f, f + 0.5f})},
                   {"label", Tensor::From<int32_t>({}, {static_cast<int32_t>(-i)})},
                   {"flag", Tensor::From<bool>({1}, {i % 2 == 0})},
                   {"nothing", Tensor::From<double>({0, 3}, {})}};
  };
  std::vector<Example> batches;
  for (const Example& e : Pipeline::FromFunction(5, element).Batch(3)) batches.push_back(e);
  ASSERT_EQ(batches.size(), 2u);
  EXPECT_EQ(batches[0]["image"].type(), (Type{F32, {3, 2, 1}}));
  EXPECT_EQ(batches[1]["image"].type(), (Type{F32, {2, 2, 1}}));
  EXPECT_THAT(batches[0]["image"].values<float>(), ElementsAre(0, 0.5f, 1, 1.5f, 2, 2.5f));
  EXPECT_THAT(batches[1]["image"].values<float>(), ElementsAre(3, 3.5f, 4, 4.5f));
  EXPECT_THAT(batches[1]["label"].values<int32_t>(), ElementsAre(-3, -4));
  EXPECT_THAT(batches[0]["flag"].values<bool>(), ElementsAre(true, false, true));
  EXPECT_EQ(batches[0]["nothing"].type(), (Type{F64, {3, 0, 3}}));
  // Batches of batches.
  EXPECT_THAT(Walk(Numbers(6).Batch(3).Batch(2)), ElementsAre(ElementsAre(0, 1, 2, 3, 4, 5)));
}

TEST(PipelineTest, ABatchStaysAsItIsWhileTheCallerHasIt) {
  std::vector<Example> kept;
  std::set<const void*> seen;
  int64_t batches = 0;
  for (const Example& e : Numbers(100).Batch(5)) {
    if (batches % 7 == 0) kept.push_back(e);
    seen.insert(e["x"].raw());
    ++batches;
  }
  EXPECT_EQ(batches, 20);
  for (size_t k = 0; k < kept.size(); ++k) EXPECT_EQ(ValuesOf(kept[k])[4], static_cast<int64_t>(35 * k + 4));
  // Memory is reused: three batches are kept, and the others use one or two buffers in turns.
  EXPECT_LE(seen.size(), 5u);
}

TEST(PipelineTest, ShuffleIsAPermutationThatReadsAheadByItsBuffer) {
  for (int64_t n : {0, 1, 2, 10, 100}) {
    for (int64_t buffer : {1, 2, 7, 100, 1000}) {
      const std::vector<int64_t> order = Flat(Numbers(n).Shuffle(buffer, 3));
      EXPECT_THAT(order, UnorderedElementsAreArray(UpTo(n)));
      for (size_t i = 0; i < order.size(); ++i) EXPECT_LT(order[i], static_cast<int64_t>(i) + buffer);
      EXPECT_EQ(Flat(Numbers(n).Shuffle(buffer, 3)), order);
      if (n == 100 && buffer > 1) {
        EXPECT_NE(order, UpTo(n));
        EXPECT_NE(Flat(Numbers(n).Shuffle(buffer, 4)), order);
      }
    }
  }
}

// Pearson's test: with 23 degrees of freedom, chi² is above 49.7 in one of 1000 cases.
TEST(PipelineTest, AShuffleOfAllGivesEachOrderAsOften) {
  std::map<std::vector<int64_t>, int> orders;
  constexpr int kTries = 24000;
  for (uint64_t seed = 0; seed < kTries; ++seed) ++orders[Flat(Numbers(4).Shuffle(4, seed))];
  EXPECT_EQ(orders.size(), 24u);
  double chi2 = 0;
  for (const auto& [order, times] : orders) chi2 += (times - 1000.0) * (times - 1000.0) / 1000;
  EXPECT_LT(chi2, 49.7);
}

TEST(PipelineTest, EachEpochHasAnOrderOfItsOwn) {
  const std::vector<int64_t> all = Flat(Numbers(20).Shuffle(20, 5).Repeat(3).Repeat(2));
  std::set<std::vector<int64_t>> epochs;
  for (auto it = all.begin(); it != all.end(); it += 20) {
    const std::vector<int64_t> epoch(it, it + 20);
    EXPECT_THAT(epoch, UnorderedElementsAreArray(UpTo(20)));
    epochs.insert(epoch);
  }
  EXPECT_EQ(epochs.size(), 6u);
  EXPECT_EQ(Flat(Numbers(20).Shuffle(20, 5).Repeat().Take(60)),
            std::vector<int64_t>(all.begin(), all.begin() + 60));
  EXPECT_EQ(Flat(Numbers(20).Shuffle(20, 5)), std::vector<int64_t>(all.begin(), all.begin() + 20));
}

TEST(PipelineTest, CacheReadsItsInputOnce) {
  std::atomic<int> calls = 0;
  const Pipeline cached = Pipeline::FromFunction(10,
                                                 [&](int64_t i) {
                                                   ++calls;
                                                   return Number(i);
                                                 })
                              .Shuffle(10, 1)
                              .Cache();
  (void)Walk(cached.Take(3));
  const int partly = calls.exchange(0);
  EXPECT_EQ(partly, 10);  // as many as the shuffle's buffer holds
  const std::vector<int64_t> epochs = Flat(cached.Repeat(3));
  EXPECT_EQ(calls, 10);
  const std::vector<int64_t> first(epochs.begin(), epochs.begin() + 10);
  EXPECT_EQ(std::vector<int64_t>(epochs.begin() + 10, epochs.begin() + 20), first);
  EXPECT_EQ(std::vector<int64_t>(epochs.begin() + 20, epochs.end()), first);
  EXPECT_EQ(Flat(cached), first);
  EXPECT_EQ(calls, 10);
}

TEST(PipelineTest, AShardMakesItsOwnElementsOnly) {
  std::set<int64_t> made;
  const Pipeline shard = Pipeline::FromFunction(1000,
                                                [&](int64_t i) {
                                                  made.insert(i);
                                                  return Number(i);
                                                })
                             .Shard(3, 10)
                             .Skip(2)
                             .Batch(4);
  EXPECT_THAT(Walk(shard.Take(1)), ElementsAre(ElementsAre(23, 33, 43, 53)));
  EXPECT_THAT(made, ElementsAre(23, 33, 43, 53));
}

TEST(PipelineTest, TakeReadsNoMoreThanItGives) {
  int64_t made = 0;
  const Pipeline taken = Pipeline::FromFunction({}, [&](int64_t i) {
                           ++made;
                           return Number(i);
                         }).Take(4);
  EXPECT_EQ(Flat(taken).size(), 4u);
  EXPECT_EQ(made, 4);
}

TEST(PipelineTest, AnIteratorAndALoopOverIt) {
  PipelineIterator walk = Numbers(5).Begin();
  EXPECT_EQ(NumberOf(**walk.Next()), 0);
  int64_t next = 1;
  for (const Example& e : walk) {
    EXPECT_EQ(NumberOf(e), next++);
    if (next == 3) break;
  }
  EXPECT_EQ(NumberOf(**walk.Next()), 3);
  EXPECT_EQ(NumberOf(**walk.Next()), 4);
  EXPECT_FALSE(walk.Next()->has_value());
  EXPECT_FALSE(walk.Next()->has_value());
  EXPECT_EQ(walk.stats().elements, 5);
}

TEST(PipelineTest, SaysHowLongItsCallerWaited) {
  const Pipeline slow = Pipeline::FromFunction(4, [](int64_t i) {
    if (i % 2 == 1) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return Number(i);
  });
  PipelineIterator walk = slow.Begin();
  for (const Example& e : walk) {
    EXPECT_GE(walk.stats().last_seconds, NumberOf(e) % 2 == 1 ? 0.002 : 0);
    EXPECT_GE(walk.stats().longest, walk.stats().last_seconds);
  }
  EXPECT_EQ(walk.stats().elements, 4);
  EXPECT_GE(walk.stats().waits, 2);
  EXPECT_GE(walk.stats().seconds, 0.004);
}

TEST(PipelineTest, SaysWhatItIs) {
  EXPECT_EQ(Pipeline().ToString(), "range(0)");
  EXPECT_EQ(Numbers(9)
                .Filter(IsOdd)
                .Shuffle(5, 7)
                .Repeat()
                .Batch(4, {.drop_remainder = true})
                .Prefetch(2)
                .ToString(),
            "range(9) | map | filter | shuffle(5, seed 7) | repeat | batch(4, drop_remainder)");
  EXPECT_EQ(Pipeline::Interleave({Numbers(9), Numbers(9), Numbers({})}, {.cycle = 2}).Repeat(2).ToString(),
            "interleave(cycle 2, block 1: 2 x range(9) | map; range | map) | repeat(2)");
  EXPECT_EQ(
      Pipeline::Zip({Pipeline::From(Counting(3)).Cache(), Numbers(2).Shard(0, 2).Skip(1).Take(8)}).ToString(),
      "zip(dataset(3) | cache; range(2) | map | shard(0 of 2) | skip(1) | take(8))");
}

TEST(PipelineTest, ExamplesHaveColumnsAndTexts) {
  Example e{{"a", Tensor::Zeros({F32, {2}})}};
  e.Set("b", Tensor::Zeros({I32, {}}));
  e.SetText("t", "old");
  const Example before = e;
  e.SetText("t", "new");
  e.Set("a", Tensor::Zeros({F64, {}}));
  EXPECT_EQ(before.text("t"), "old");
  EXPECT_EQ(before["a"].dtype(), F32);
  EXPECT_EQ(e.text("t"), "new");
  EXPECT_EQ(e["a"].dtype(), F64);
  EXPECT_TRUE(e.Has("t") && e.Has("b") && !e.Has("c"));
  EXPECT_EQ(*e.GetText("t"), "new");
  e.Remove("t");
  e.Remove("a");
  e.Remove("c");
  EXPECT_FALSE(e.Has("t") || e.Has("a"));
  EXPECT_EQ(e.text("t"), "");
  EXPECT_FALSE(e["a"].valid());
  EXPECT_EQ(e.columns().size(), 1u);
}

}  // namespace
}  // namespace meshwork::pipeline_test
