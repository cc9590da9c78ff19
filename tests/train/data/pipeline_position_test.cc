// Positions of pipelines: a walk that is saved anywhere resumes with the same elements.
#include <atomic>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "meshwork/base/hash.h"
#include "meshwork/base/status.h"
#include "meshwork/train/data/pipeline.h"
#include "train/data/counting.h"
#include "train/data/pipeline_values.h"

namespace meshwork::pipeline_position_test {
namespace {

// Finite pipelines: one of each kind of stage, and some with several stages. Maps have `threads` threads. The
// last stage is a Prefetch if `threads` > 0.
std::vector<Pipeline> SmallPipelines(int threads) {
  const MapOptions on = {.threads = threads};
  const auto negative = [](const Example& e) { return Number(-NumberOf(e)); };
  const auto odd = [](const Example& e) { return NumberOf(e) % 2 != 0; };
  const auto as_y = [](const Example& e) { return Example{{"y", e["x"]}}; };
  const Pipeline p = Numbers(13, on), q = Numbers(4, on).Map(negative, on);
  const Pipeline generated = Pipeline::Generate([] {
    return [i = int64_t{0}]() mutable -> absl::StatusOr<std::optional<Example>> {
      if (i == 9) return std::nullopt;
      ++i;
      return Number(i * i);
    };
  });
  const Pipeline ragged = Pipeline::FromFunction(31, Ragged, on);
  std::vector<Pipeline> all = {
      Pipeline(),
      p,
      Pipeline::From(Counting(9))
          .Map(
              [](const Example& e) {
                return Example{{"x", e["y"]}};
              },
              on),
      generated,
      generated.Shuffle(4, 1).Repeat(2),
      p.Map(negative, on).Filter(odd).Map(negative, on),
      p.Shuffle(1, 9),
      p.Shuffle(2, 9),
      p.Shuffle(5, 9),
      p.Shuffle(13, 9),
      p.Shuffle(100, 9),
      p.Shuffle(3, 9).Repeat(3),
      Numbers(6).Shuffle(3, 1).Shuffle(4, 2).Map(negative, on).Shuffle(2, 3),
      q.Shuffle(3, 9).Repeat(2).Repeat(3).Batch(3),
      p.Cache().Shuffle(4, 2).Repeat(3),
      p.Shuffle(4, 2).Cache().Repeat(3).Batch(5),
      p.Batch(4),
      p.Batch(4, {.drop_remainder = true}).Repeat(3),
      p.Repeat(2).Batch(4).Shuffle(3, 1),
      ragged.PaddedBatch(4),
      ragged.Shuffle(5, 2).PaddedBatch(3, {.shapes = {{"x", {8}}}, .drop_remainder = true}).Repeat(2),
      ragged.BucketBySequenceLength(LengthOf, {3, 6}, {2, 3, 4}),
      ragged.BucketBySequenceLength(LengthOf, {5}, {1, 6}, {.padding = {.drop_remainder = true}}).Repeat(2),
      ragged.Shuffle(6, 1)
          .BucketBySequenceLength(LengthOf, {3, 6, 9}, {7, 2, 3}, {.pad_to_boundary = true})
          .Repeat(3),
      ragged.Filter([](const Example& e) { return LengthOf(e) != 4; })
          .BucketBySequenceLength(LengthOf, {2, 8}, {3, 3, 20})
          .Shuffle(2, 1),
      p.Shard(1, 3),
      p.Shuffle(4, 8).Shard(2, 3).Repeat(3).Batch(2),
      p.Take(5).Repeat(2),
      p.Skip(5).Repeat(2),
      p.Repeat().Take(30).Shuffle(6, 3).Batch(4),
      p.Prefetch(3).Map(negative, on).Prefetch(1).Skip(2),
      Pipeline::Zip({p.Shuffle(5, 1), generated.Map(as_y)}),
      Pipeline::Zip({q.Repeat(), p.Map(as_y, on)}).Shuffle(3, 2),
      Pipeline::Interleave({p, q, generated, q.Filter(odd)}),
      Pipeline::Interleave({p, q, generated.Take(0), q.Filter(odd), generated}, {.cycle = 2, .block = 3})
          .Repeat(2),
      Pipeline::Interleave({p.Shuffle(3, 1).Prefetch(2), q.Shuffle(3, 2)}, {.cycle = 1})
          .Shuffle(4, 1)
          .Repeat(2),
      Pipeline::Interleave({p, q, q, q}, {.cycle = 3}).Cache().Shuffle(6, 3).Repeat(2).Batch(4),
  };
  if (threads > 0)
    for (Pipeline& pipeline : all) pipeline = pipeline.Prefetch(threads);
  return all;
}

TEST(PipelinePositionTest, GoesOnAnywhereWithTheSameElements) {
  const std::vector<Pipeline> pipelines = SmallPipelines(0), threaded = SmallPipelines(2);
  for (size_t i = 0; i < pipelines.size(); ++i) {
    const Walked whole = Walk(pipelines[i]);
    for (const Pipeline& saved_by : {pipelines[i], threaded[i]}) {
      PipelineIterator walk = saved_by.Begin();
      for (size_t k = 0; k <= whole.size() + 1; ++k) {
        const std::string position = walk.Save().value();
        const auto behind = whole.begin() + static_cast<std::ptrdiff_t>(std::min(k, whole.size()));
        const Walked rest(behind, whole.end());
        for (const Pipeline& restored_by : {pipelines[i], threaded[i]}) {
          const absl::StatusOr<PipelineIterator> restored = restored_by.Begin(position);
          ASSERT_TRUE(restored.ok()) << restored.status() << "\n" << position;
          EXPECT_EQ(RestOf(*restored), rest) << position;
        }
        ASSERT_TRUE(walk.Next().ok());
      }
    }
  }
}

// A walk that was resumed from a position can be saved again.
TEST(PipelinePositionTest, GoesOnAfterEveryElement) {
  for (const Pipeline& pipeline : SmallPipelines(0)) {
    Walked all;
    std::string position;
    for (;;) {
      PipelineIterator walk = pipeline.Begin(position).value();
      const std::optional<Example> element = walk.Next().value();
      if (!element.has_value()) break;
      all.push_back(ValuesOf(*element));
      position = walk.Save().value();
    }
    EXPECT_EQ(all, Walk(pipeline)) << pipeline.ToString();
  }
}

TEST(PipelinePositionTest, ALoopsPositionIsBehindItsElement) {
  const Pipeline pipeline = Numbers(10).Shuffle(4, 1);
  PipelineIterator walk = pipeline.Begin();
  std::string position;
  for (const Example& e : walk) {
    position = walk.Save().value();
    if (NumberOf(e) == 5) break;
  }
  EXPECT_EQ(RestOf(pipeline.Begin(position).value()), RestOf(walk));
}

// Saves `pipeline` behind 500 elements. A walk from there goes on with the same element, and its Begin makes at most
// `most_calls` elements, which `calls` counts.
void ExpectReadsAgain(const Pipeline& pipeline, std::atomic<int64_t>& calls, int64_t most_calls) {
  std::string position;
  std::vector<int64_t> next;
  {
    PipelineIterator walk = pipeline.Begin();
    for (int i = 0; i < 500; ++i) ASSERT_TRUE(walk.Next().ok());
    position = walk.Save().value();
    next = ValuesOf(**walk.Next());
  }
  EXPECT_LT(position.size(), 200u);
  calls = 0;
  PipelineIterator restored = pipeline.Begin(position).value();
  EXPECT_LE(calls, most_calls);
  EXPECT_EQ(ValuesOf(**restored.Next()), next);
}

// The cost of resuming: only the elements in a buffer are made again.
TEST(PipelinePositionTest, ReadsAgainWhatIsInBuffers) {
  std::atomic<int64_t> calls = 0;
  const Pipeline pipeline = Pipeline::FromFunction({},
                                                   [&](int64_t i) {
                                                     ++calls;
                                                     return Number(i);
                                                   })
                                .Shuffle(50, 3)
                                .Batch(8)
                                .Prefetch(2);
  ExpectReadsAgain(pipeline, calls, 50);
}

// For buckets: elements since the oldest one in a bucket are read again, but no more than the buckets hold before it.
TEST(PipelinePositionTest, ReadsAgainWhatWasReadSinceTheOldestInABucket) {
  std::atomic<int64_t> calls = 0;
  const Pipeline pipeline =
      Pipeline::FromFunction({}, [&](int64_t i) {
        ++calls;
        return Ragged(i);
      }).BucketBySequenceLength(LengthOf, {3, 6, 9}, {8, 8, 8}, {.pad_to_boundary = true});
  ExpectReadsAgain(pipeline, calls, 2 * 24);
}

TEST(PipelinePositionTest, DamagedPositionsAreRefused) {
  const Pipeline pipeline = Numbers(20).Shuffle(4, 1).Repeat(2).Batch(3);
  PipelineIterator walk = pipeline.Begin();
  for (int i = 0; i < 9; ++i) ASSERT_TRUE(walk.Next().ok());
  const std::string position = walk.Save().value();
  for (size_t at = 0; at < position.size(); ++at) {
    EXPECT_EQ(pipeline.Begin(position.substr(0, at)).ok(), at == 0);  // "" is the beginning of the walk
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = position;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      EXPECT_FALSE(pipeline.Begin(damaged).ok()) << damaged;
    }
  }
}

// A position that somebody has made up: any counters, and the right hash. It is refused, or there is such a place.
TEST(PipelinePositionTest, NoCountersDoHarm) {
  for (const Pipeline& pipeline : SmallPipelines(0)) {
    PipelineIterator walk = pipeline.Begin();
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(walk.Next().ok());
    std::string text = walk.Save().value();
    text.resize(text.rfind("; "));
    const size_t counters = text.rfind("; ") + 2;
    std::vector<std::string> numbers = {""};
    for (char c : text.substr(counters)) {
      if (c == ',') numbers.emplace_back();
      else numbers.back() += c;
    }
    for (size_t changed = 0; changed < numbers.size(); ++changed) {
      for (const char* number : {"-1", "0", "1", "2", "3", "7", "14", "40", "4611686018427387904",
                                 "9223372036854775807", "x", ""}) {
        std::string position = text.substr(0, counters);
        for (size_t i = 0; i < numbers.size(); ++i)
          position += (i == 0 ? "" : ",") + (i == changed ? std::string(number) : numbers[i]);
        position += fmt::format("; {:016x}", StableHash(position));
        absl::StatusOr<PipelineIterator> restored = pipeline.Begin(position);
        if (!restored.ok()) continue;
        for (int i = 0; i < 200; ++i) {
          const auto element = restored->Next();
          if (!element.ok() || !element->has_value()) break;
        }
      }
    }
  }
}

}  // namespace
}  // namespace meshwork::pipeline_position_test
