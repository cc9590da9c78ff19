#include "meshwork/spmd/local/fit_memory.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/ir/plan/memory_report.h"
#include "meshwork/ir/row.h"
#include "meshwork/ir/text.h"
#include "meshwork/spmd/local/localize.h"
#include "meshwork/spmd/local/recompute.h"
#include "meshwork/spmd/local/reorder.h"

namespace meshwork {
namespace {

// So many limits are tried for buckets, and for relayouts.
constexpr size_t kTries = 16;

// If there are many numbers, which descend: the first ones and the last.
std::vector<int64_t> SomeOf(std::vector<int64_t> numbers) {
  if (numbers.size() > kTries) numbers.erase(numbers.begin() + kTries - 1, numbers.end() - 1);
  return numbers;
}

// Limits for buckets: the largest bucket halved again and again, down to the smallest value in a bucket, and 1. Bytes
// are counted as BucketReductions does.
std::vector<int64_t> BucketLimits(const Graph& local) {
  int64_t bucket = 0, smallest = std::numeric_limits<int64_t>::max();
  for (const Node& node : local.nodes()) {
    if (node.row->kind != OpKind::kCollective || node.results.size() < 2) continue;
    int64_t in = 0, out = 0;
    for (size_t i = 0; i < node.operands.size(); ++i) {
      const int64_t from = local.value(node.operands[i]).type.bytes(),
                    to = local.value(node.results[i]).type.bytes();
      in += from;
      out += to;
      smallest = std::min(smallest, std::max(from, to));
    }
    bucket = std::max({bucket, in, out});
  }
  std::set<int64_t> limits;
  for (int64_t limit = bucket / 2; limit > 0 && limit >= smallest; limit /= 2) limits.insert(limit);
  if (bucket > 0) limits.insert(1);
  return SomeOf({limits.rbegin(), limits.rend()});
}

using MakeLocal = std::function<Graph(const Graph& placed, const LocalOptions& options)>;

class Fitter {
 public:
  Fitter(const Graph& placed, const Graph& local, const LocalOptions& options, int64_t budget,
         const MakeLocal& make_local)
      : placed_(placed),
        budget_(budget),
        make_local_(make_local),
        options_(options),
        best_(local),
        peak_(LogicalPeakBytes(local)) {}

  Graph Run() && {
    Keep(Reorder(best_));
    Try(BucketLimits(best_), &LocalOptions::bucket_bytes);
    if (!Fits())
      Try(SomeOf(
              RelayoutLimits(placed_, {.topology = options_.topology, .narrow_sums = options_.narrow_sums})),
          &LocalOptions::relayout_bytes);
    if (!Fits()) Keep(Recompute(best_, budget_));
    return std::move(best_);
  }

 private:
  bool Fits() const { return peak_ <= budget_; }

  bool Keep(Graph graph) {
    const int64_t peak = LogicalPeakBytes(graph);
    if (peak >= peak_) return false;
    best_ = std::move(graph);
    peak_ = peak;
    return true;
  }

  // Lowers one limit, as little as fits.
  void Try(const std::vector<int64_t>& limits, int64_t LocalOptions::*option) {
    LocalOptions best = options_;
    for (int64_t limit : limits) {
      if (Fits()) break;
      LocalOptions options = options_;
      options.*option = limit;
      if (Keep(Reorder(make_local_(placed_, options)))) best = options;
    }
    options_ = best;
  }

  const Graph& placed_;
  const int64_t budget_;
  const MakeLocal& make_local_;
  LocalOptions options_;
  Graph best_;
  int64_t peak_;
};

// ---- The error.

// A layout that cuts the value by one more axis, and its bytes then.
struct FurtherCut {
  Layout layout;
  int64_t bytes;
};

// Cuts the value by one more axis: the one that makes it smallest, the first of equals. Nothing if no axis makes it
// smaller.
std::optional<FurtherCut> CutFurther(const ValueInfo& info) {
  const Layout& layout = *info.layout;
  if (layout.is_strided()) return std::nullopt;
  std::optional<FurtherCut> best;
  const AxisSet used = layout.ShardedAxes().Union(layout.PartialAxes());
  for (int axis = 0; axis < layout.mesh().num_axes(); ++axis) {
    if (layout.mesh().axis(axis).size == 1) continue;
    AxisList run;  // parts of one axis that follow each other
    for (int last = axis; last < layout.mesh().num_axes() && !used.Contains(last); ++last) {
      run.push_back(last);
      if (layout.mesh().NamesOf(run).size() > 1) break;
      for (int d = 0; d < layout.rank(); ++d) {
        AxisList axes = layout.dim(d);
        axes.insert(axes.end(), run.begin(), run.end());
        Layout cut = layout.WithDim(d, axes);
        const int64_t bytes = Type{info.global.dtype, cut.LocalShape(info.global.shape)}.bytes();
        if (bytes < (best.has_value() ? best->bytes : info.type.bytes()))
          best = FurtherCut{std::move(cut), bytes};
      }
    }
  }
  return best;
}

std::string Advice(const Graph& local, const MemoryReport& report) {
  for (const LiveValue& live : report.largest) {
    const ValueInfo& info = local.value(live.value);
    const std::optional<FurtherCut> cut = CutFurther(info);
    if (!cut.has_value()) continue;
    return fmt::format("Shard {} more, as {} instead of {}: it takes {} B then.",
                       ValueNames(local)[live.value], cut->layout.ToString(), info.layout->ToString(),
                       cut->bytes);
  }
  return "All axes cut these values already; take a larger mesh, or smaller tensors.";
}

}  // namespace

Graph FitMemory(const Graph& placed, const Graph& local, const LocalOptions& options, int64_t budget,
                const MakeLocal& make_local) {
  return Fitter(placed, local, options, budget, make_local).Run();
}

absl::Status CheckMemory(const Graph& local, int64_t budget) {
  const MemoryReport report = ReportMemory(local);
  if (report.peak_bytes <= budget) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      fmt::format("Compile: {} does not fit into the memory budget of {} B. With another order, smaller "
                  "buckets, relayouts that hold less and cheap values computed again, the least is {}{}",
                  local.name, budget, PrintMemoryReport(local, report), Advice(local, report)));
}

}  // namespace meshwork
