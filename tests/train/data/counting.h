// A dataset whose examples hold their own number, and the example numbers of the rows of a batch.
#pragma once

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "meshwork/train/data/dataset.h"

namespace meshwork {

// Examples first to end - 1: x is f32[n,3] with [i, i+0.25, i+0.5], y is i64[n] with 10 i.
inline Columns CountingColumns(int64_t first, int64_t end) {
  const int64_t n = end - first;
  Tensor x(Type{F32, {n, 3}}), y(Type{I64, {n}});
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < 3; ++j)
      x.mutable_values<float>()[3 * i + j] = static_cast<float>(first + i) + 0.25f * j;
    y.mutable_values<int64_t>()[i] = 10 * (first + i);
  }
  return {{"x", x}, {"y", y}};
}

// Examples 0 to n - 1.
inline Dataset Counting(int64_t n) { return Dataset::Create(CountingColumns(0, n)).value(); }

// The numbers of the examples in these rows of a batch. Checks that the columns belong together.
inline std::vector<int64_t> ExamplesOf(const Batch& batch, RowRange rows) {
  std::vector<int64_t> examples;
  EXPECT_EQ(batch["x"].shape(), Shape({batch.rows(), 3}));
  EXPECT_EQ(batch["y"].shape(), Shape({batch.rows()}));
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const int64_t i = batch["y"].values<int64_t>()[row] / 10;
    for (int64_t j = 0; j < 3; ++j) EXPECT_EQ(batch["x"].values<float>()[3 * row + j], i + 0.25f * j);
    examples.push_back(i);
  }
  return examples;
}
inline std::vector<int64_t> ExamplesOf(const Batch& batch) { return ExamplesOf(batch, {0, batch.rows()}); }

inline std::vector<std::vector<int64_t>> ExamplesOf(PipelineIterator walk) {
  std::vector<std::vector<int64_t>> batches;
  for (const Batch& b : walk) batches.push_back(ExamplesOf(b));
  return batches;
}
inline std::vector<std::vector<int64_t>> Walk(const Dataset& dataset, const BatchesOptions& options) {
  return ExamplesOf(dataset.Batches(options).Begin());
}

inline std::vector<int64_t> Joined(const std::vector<std::vector<int64_t>>& batches) {
  std::vector<int64_t> all;
  for (const auto& batch : batches) all.insert(all.end(), batch.begin(), batch.end());
  return all;
}

}  // namespace meshwork
