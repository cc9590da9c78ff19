// Random numbers. Part of ops/ops.h, which says what holds for all ops.
#pragma once

#include <cstdint>

#include "meshwork/ir/graph.h"
#include "meshwork/ir/operand.h"

namespace meshwork {

// Random numbers keyed by (seed, stream, global element index): bitwise the same in every layout. bf16
// numbers are the f32 numbers, rounded (uniform ones to below high). With `step`, an i64[] that changes from
// step to step, every step has numbers of its own; without it, every step has the same numbers. In the body of a loop
// each iteration has its own numbers; in a part of a batch, a row has the numbers that it has in the whole batch
// (RandomPlace, ir/graph.h). Errors: a type that is not real (bernoulli takes any), bounds that are no distribution, a
// step that is no i64[].
Value RandomUniform(Graph& graph, const Type& type, int64_t seed, int64_t stream, double low, double high,
                    const Value& step = {}, CallSite loc = CallSite::Current());  // of [low, high)
Value RandomNormal(Graph& graph, const Type& type, int64_t seed, int64_t stream, double mean, double stddev,
                   const Value& step = {}, CallSite loc = CallSite::Current());
// Normal, but never further than 2 stddev from the mean.
Value RandomTruncatedNormal(Graph& graph, const Type& type, int64_t seed, int64_t stream, double mean,
                            double stddev, const Value& step = {}, CallSite loc = CallSite::Current());
// 1 (true) with probability p, else 0.
Value RandomBernoulli(Graph& graph, const Type& type, int64_t seed, int64_t stream, double p,
                      const Value& step = {}, CallSite loc = CallSite::Current());

// Whole numbers of [low, high). Errors: a type that is not whole, low >= high, bounds that do not fit it.
Value RandomInt(Graph& graph, const Type& type, int64_t seed, int64_t stream, int64_t low, int64_t high,
                const Value& step = {}, CallSite loc = CallSite::Current());
// 0, …, n - 1 in random order, i32[n]: sorted by keys of 53 random bits.
Value RandomPermutation(Graph& graph, int64_t n, int64_t seed, int64_t stream, const Value& step = {},
                        CallSite loc = CallSite::Current());
// x with its slices along dim in the order of a RandomPermutation.
Value Shuffle(const Operand& x, int64_t dim, int64_t seed, int64_t stream, const Value& step = {});

}  // namespace meshwork
