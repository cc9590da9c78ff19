// FitMemory plans a local program again that needs more memory than there is on a device.
//
// What it tries, until the peak (plan/memory_report.h) is within the budget, in order of what it costs; each
// is kept if it lowers the peak:
//
//   order       nodes run in another order (spmd/reorder.h), which costs nothing
//   buckets     collectives are joined in smaller buckets (spmd/bucket.h): more of them, no more bytes
//   relayouts   relayouts take steps that hold less (LocalizeOptions): more bytes on the wire
//   recompute   cheap values are computed again for late readers (spmd/recompute.h): more arithmetic
#pragma once

#include <cstdint>
#include <functional>
#include <limits>

#include "absl/status/status.h"
#include "meshwork/ir/graph.h"
#include "meshwork/mesh/topology.h"

namespace meshwork {

// What the passes that make a program local are held to.
struct LocalOptions {
  int64_t relayout_bytes = 0;                                  // see LocalizeOptions; 0: no limit
  int64_t bucket_bytes = std::numeric_limits<int64_t>::max();  // see BucketReductions
  Topology topology = {};
  bool place_gathers = false;  // see PlaceGathers
  bool narrow_sums = false;    // see CompileOptions
};

// A program that computes the same as `local` and needs at most `budget` bytes, or the least that was found.
// `placed`: the result of InsertRelayouts. `make_local` makes it local; `local` was made so, with `options`.
// REQUIRES: budget > 0.
Graph FitMemory(const Graph& placed, const Graph& local, const LocalOptions& options, int64_t budget,
                const std::function<Graph(const Graph& placed, const LocalOptions& options)>& make_local);

// Error: RESOURCE_EXHAUSTED, `local` needs more than `budget`; says where, for which values, and which of
// them could be cut by an axis that they are whole along.
absl::Status CheckMemory(const Graph& local, int64_t budget);

}  // namespace meshwork
