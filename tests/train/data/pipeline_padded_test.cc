// Padded batches and buckets, against loops.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "meshwork/base/random.h"
#include "meshwork/train/data/pipeline.h"
#include "support/tensors.h"
#include "train/data/pipeline_values.h"

namespace meshwork::pipeline_padded_test {
namespace {

using ::testing::ElementsAre;

// An element with random columns: "x", of any shape, and "n".
Example Drawn(Random& random, DType dtype, int rank) {
  Shape shape;
  for (int d = 0; d < rank; ++d) shape.push_back(static_cast<int64_t>(random.Below(5)));
  Tensor x(Type{F64, shape});
  for (double& value : x.mutable_values<double>()) value = static_cast<double>(1 + random.Below(2));
  return Example{{"x", dtype == BOOL ? x.Cast(I32).Cast(BOOL) : x.Cast(dtype)},
                 {"n", Tensor::From<int64_t>({}, {x.num_elements()})}};
}

// The index of the element at `place` of a tensor of this shape; nothing if there is none.
std::optional<int64_t> IndexOf(const Shape& shape, const std::vector<int64_t>& place) {
  int64_t index = 0;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (place[d] >= shape[d]) return std::nullopt;
    index = index * shape[d] + place[d];
  }
  return index;
}

TEST(PipelinePaddedTest, RowsHaveTheirElementsAndPadding) {
  Random random(5);
  for (const DType dtype : {F32, F64, BF16, I32, I64, BOOL, U8}) {
    for (int rank = 0; rank <= 3; ++rank) {
      SCOPED_TRACE(fmt::format("{} rank {}", DTypeName(dtype), rank));
      std::vector<Example> elements;
      for (int i = 0; i < 7; ++i) elements.push_back(Drawn(random, dtype, rank));
      const double padding = dtype == BOOL ? 1 : 3;
      const Pipeline pipeline = Pipeline::FromFunction(7, [&](int64_t i) {
                                  return elements[static_cast<size_t>(i)];
                                }).PaddedBatch(3, {.values = {{"x", padding}}});
      EXPECT_EQ(pipeline.size(), 3);
      int64_t first = 0;
      for (const Example& batch : pipeline) {
        const int64_t rows = std::min<int64_t>(3, 7 - first);
        Shape longest(static_cast<size_t>(rank), 0);
        for (int64_t r = 0; r < rows; ++r)
          for (int d = 0; d < rank; ++d)
            longest[d] = std::max(longest[d], elements[static_cast<size_t>(first + r)]["x"].shape()[d]);
        Shape shape = longest;
        shape.insert(shape.begin(), rows);
        ASSERT_EQ(batch["x"].type(), (Type{dtype, shape}));
        ASSERT_EQ(batch["n"].type(), (Type{I64, {rows}}));
        const std::vector<double> got = NumbersOf(batch["x"]);
        for (size_t i = 0; i < got.size(); ++i) {
          std::vector<int64_t> place(shape.size());
          auto rest = static_cast<int64_t>(i);
          for (int d = rank; d >= 0; --d) {
            place[d] = rest % shape[d];
            rest /= shape[d];
          }
          const Tensor& x = elements[static_cast<size_t>(first + place[0])]["x"];
          const std::optional<int64_t> at = IndexOf(x.shape(), {place.begin() + 1, place.end()});
          ASSERT_EQ(got[i], at.has_value() ? NumbersOf(x)[static_cast<size_t>(*at)] : padding) << i;
        }
        first += rows;
      }
      EXPECT_EQ(first, 7);
    }
  }
}

TEST(PipelinePaddedTest, ShapesMayBeGiven) {
  const Pipeline pipeline = Pipeline::FromFunction(5, [](int64_t i) {
    Tensor x(Type{I64, {i % 3, 2}});
    for (int64_t k = 0; k < x.num_elements(); ++k) x.mutable_values<int64_t>()[k] = 10 * i + k;
    return Example{{"x", x}};
  });
  const auto shapes = [&](PaddingOptions options) {
    std::vector<Shape> all;
    for (const Example& batch : pipeline.PaddedBatch(2, std::move(options)))
      all.push_back(batch["x"].shape());
    return all;
  };
  EXPECT_THAT(shapes({}), ElementsAre(Shape{2, 1, 2}, Shape{2, 2, 2}, Shape{1, 1, 2}));
  EXPECT_THAT(shapes({.shapes = {{"x", {4, -1}}}}),
              ElementsAre(Shape{2, 4, 2}, Shape{2, 4, 2}, Shape{1, 4, 2}));
  EXPECT_THAT(shapes({.shapes = {{"x", {-1, 3}}}, .drop_remainder = true}),
              ElementsAre(Shape{2, 1, 3}, Shape{2, 2, 3}));
  EXPECT_THAT(
      Walk(pipeline.PaddedBatch(2, {.shapes = {{"x", {2, 3}}}, .values = {{"x", -7}}}).Skip(1).Take(1)),
      ElementsAre(ElementsAre(20, 21, -7, 22, 23, -7, -7, -7, -7, -7, -7, -7)));
}

// Reused memory still holds old values; a batch keeps the values that it was made with.
TEST(PipelinePaddedTest, BatchesKeepTheirNumbers) {
  const Pipeline pipeline = Pipeline::FromFunction(40, Ragged).PaddedBatch(3, {.values = {{"x", -1}}});
  std::vector<Example> kept;
  Walked all;
  for (const Example& batch : pipeline) {
    all.push_back(ValuesOf(batch));
    if (kept.size() < 3) kept.push_back(batch);
  }
  for (size_t i = 0; i < kept.size(); ++i) EXPECT_EQ(ValuesOf(kept[i]), all[i]);
  EXPECT_EQ(all, Walk(pipeline));
}

// ---- Buckets.

TEST(PipelinePaddedTest, BucketsHaveElementsOfTheirLengths) {
  Random random(11);
  for (int trial = 0; trial < 40; ++trial) {
    std::vector<int64_t> boundaries, sizes;
    int64_t boundary = 0;
    for (uint64_t b = 1 + random.Below(3); b > 0; --b)
      boundaries.push_back(boundary += 1 + static_cast<int64_t>(random.Below(4)));
    const bool to_boundary = random.Below(2) == 1, drops = random.Below(2) == 1;
    if (to_boundary) boundaries.push_back(std::max<int64_t>(boundary + 1, 9));
    for (size_t b = 0; b < boundaries.size() + (to_boundary ? 0 : 1); ++b)
      sizes.push_back(1 + static_cast<int64_t>(random.Below(5)));
    const auto n = static_cast<int64_t>(random.Below(60));
    SCOPED_TRACE(fmt::format("boundaries {} sizes {} of {} {} {}", fmt::join(boundaries, ","),
                             fmt::join(sizes, ","), n, to_boundary, drops));
    // The reference: lists of elements, one batch after the other.
    Walked want;
    std::vector<std::vector<Example>> buckets(sizes.size());
    const auto flush = [&](size_t b) {
      int64_t length = to_boundary ? boundaries[b] - 1 : 0;
      if (!to_boundary)
        for (const Example& e : buckets[b]) length = std::max(length, LengthOf(e));
      want.emplace_back();
      for (const Example& e : buckets[b])
        for (int64_t k = 0; k < length; ++k)
          want.back().push_back(k < LengthOf(e) ? e["x"].values<int64_t>()[k] : -5);
      buckets[b].clear();
    };
    for (int64_t i = 0; i < n; ++i) {
      const Example e = Ragged(i);
      size_t b = 0;
      while (b < boundaries.size() && LengthOf(e) >= boundaries[b]) ++b;
      buckets[b].push_back(e);
      if (std::ssize(buckets[b]) == sizes[b]) flush(b);
    }
    for (size_t b = 0; b < buckets.size() && !drops; ++b)
      if (!buckets[b].empty()) flush(b);
    const Pipeline pipeline = Pipeline::FromFunction(n, Ragged).BucketBySequenceLength(
        LengthOf, boundaries, sizes, {{.values = {{"x", -5}}, .drop_remainder = drops}, to_boundary});
    EXPECT_EQ(Walk(pipeline), want);
  }
}

// Options that change the elements are in the description, and so in positions and fingerprints.
TEST(PipelinePaddedTest, DescriptionsAreFingerprints) {
  const Pipeline p = Pipeline::FromFunction(9, Ragged);
  EXPECT_EQ(
      p.PaddedBatch(4, {.shapes = {{"x", {-1}}}, .values = {{"x", 1.5}}, .drop_remainder = true}).ToString(),
      "range(9) | map | padded_batch(4, x [-1], x = 1.5, drop_remainder)");
  EXPECT_EQ(p.BucketBySequenceLength(LengthOf, {3, 9}, {4, 2}, {{.values = {{"x", 1}}}, true}).ToString(),
            "range(9) | map | bucket_by_sequence_length([3,9], [4,2], pad_to_boundary, x = 1)");
  EXPECT_NE(p.PaddedBatch(4).Fingerprint(), p.PaddedBatch(4, {.values = {{"x", 1}}}).Fingerprint());
}

}  // namespace
}  // namespace meshwork::pipeline_padded_test
