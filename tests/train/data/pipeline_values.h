// Pipelines of numbers, and what comes out of pipelines as lists of numbers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "meshwork/train/data/pipeline.h"

namespace meshwork {

// Examples with one column, "x": i64[].
inline Example Number(int64_t x) { return Example{{"x", Tensor::From<int64_t>({}, {x})}}; }
inline int64_t NumberOf(const Example& example) { return example["x"].values<int64_t>()[0]; }
inline Pipeline Numbers(std::optional<int64_t> n, MapOptions options = {}) {
  return Pipeline::FromFunction(n, Number, options);
}

// Examples with one column, "x": i64[length], of numbers from 1000 i on; lengths 0 to 8.
inline Example Ragged(int64_t i) {
  const int64_t length = (i * 7 + i / 3) % 9;
  Tensor x(Type{I64, {length}});
  for (int64_t k = 0; k < length; ++k) x.mutable_values<int64_t>()[k] = 1000 * i + k;
  return Example{{"x", x}};
}
inline int64_t LengthOf(const Example& example) { return example["x"].shape()[0]; }

// The numbers of the column "x" of one element.
inline std::vector<int64_t> ValuesOf(const Example& example) {
  const auto values = example["x"].values<int64_t>();
  return {values.begin(), values.end()};
}
using Walked = std::vector<std::vector<int64_t>>;
inline Walked RestOf(PipelineIterator walk) {
  Walked all;
  for (const Example& example : walk) all.push_back(ValuesOf(example));
  return all;
}
inline Walked Walk(const Pipeline& pipeline) { return RestOf(pipeline.Begin()); }
// The column "x" of all elements of a pipeline, in one list.
inline std::vector<int64_t> Flat(const Pipeline& pipeline) {
  std::vector<int64_t> all;
  for (const std::vector<int64_t>& values : Walk(pipeline))
    all.insert(all.end(), values.begin(), values.end());
  return all;
}

}  // namespace meshwork
