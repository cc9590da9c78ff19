// FitMemory plans a local program again if it needs more memory than a device has.
//
// It tries the following, the cheapest first, until the peak (ir/plan/memory_report.h) is within the budget.
// Each change is kept if it lowers the peak:
//
//   order       nodes run in another order (spmd/local/reorder.h), which costs nothing
//   buckets     collectives are joined in smaller buckets (spmd/local/bucket.h): more of them, no more bytes
//   relayouts   relayouts take steps that hold less (LocalizeOptions): more bytes on the wire
//   recompute   cheap values are computed again for late readers (spmd/local/recompute.h): more arithmetic
#pragma once

#include <cstdint>
#include <functional>
#include <limits>

#include "absl/status/status.h"
#include "meshwork/ir/graph.h"
#include "meshwork/mesh/topology.h"

namespace meshwork {

// Limits and options of the passes that make a program local.
struct LocalOptions {
  int64_t relayout_bytes = 0;                                  // see LocalizeOptions; 0: no limit
  int64_t bucket_bytes = std::numeric_limits<int64_t>::max();  // see BucketReductions
  Topology topology = {};
  bool place_gathers = false;  // see PlaceGathers
  bool narrow_sums = false;    // see CompileOptions
};

// A program that computes the same as `local` and needs at most `budget` bytes, or as few as possible.
// `placed`: the result of InsertRelayouts. `local` is make_local(placed, options).
// REQUIRES: budget > 0.
Graph FitMemory(const Graph& placed, const Graph& local, const LocalOptions& options, int64_t budget,
                const std::function<Graph(const Graph& placed, const LocalOptions& options)>& make_local);

// Error: RESOURCE_EXHAUSTED, `local` needs more than `budget`; says where, for which values, and which of
// these values could be cut by an axis that does not cut them now.
absl::Status CheckMemory(const Graph& local, int64_t budget);

}  // namespace meshwork
