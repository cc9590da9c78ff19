#include "meshwork/runtime/plan/plan_exchange.h"

#include <algorithm>
#include <cstring>

#include "meshwork/base/status.h"
#include "meshwork/ir/exchange.h"
#include "meshwork/ir/row.h"
#include "meshwork/ops/kernels/elementwise.h"
#include "meshwork/runtime/tensor/box.h"

namespace meshwork {
namespace {

using Steps = absl::InlinedVector<BoxSteps, 4>;

// Every `step`th position from `first` on.
struct Places {
  int64_t first = 0, count = 0, step = 1;
};
using PlacesList = std::vector<Places>;

class ExchangePlanner {
 public:
  ExchangePlanner(const Graph& local, const Node& node, const std::vector<ValueBuffers>& buffers)
      : local_(local),
        node_(node),
        buffers_(buffers),
        to_(local.value(node.results[0])),
        exchange_(Exchange::Of(node.attrs, static_cast<int>(node.operands.size()))) {}

  std::vector<Transfer> Run() {
    const ValueBuffers& to = buffers_[node_.results[0]];
    for (int64_t i = 0; i < to.instances.count(); ++i) {
      const int64_t device = to.instances.Representative(i);
      for (int o = 0; o < static_cast<int>(node_.operands.size()); ++o) AddCopies(device, o);
      AddFills(device);
    }
    return std::move(transfers_);
  }

 private:
  Extent BlockOf(size_t d, int64_t device) const {
    return ExchangedExtent(exchange_.dims[d], *to_.layout, to_.global.shape, static_cast<int>(d), device);
  }

  Transfer NewTransfer(int64_t device) const {
    Transfer transfer;
    transfer.dtype = to_.type.dtype;
    transfer.to = buffers_[node_.results[0]].Of(device);
    return transfer;
  }

  // Adds the copies of the elements of operand o that the block of `device` needs, from each device that
  // holds some.
  void AddCopies(int64_t device, int o) {
    const ValueId id = node_.operands[static_cast<size_t>(o)];
    const ValueInfo& from = local_.value(id);
    const AxisGroup group(local_.mesh(), from.layout->ShardedAxes().ToList());
    for (int64_t m = 0; m < group.size(); ++m) {
      const int64_t source = group.Member(device, m);
      const Block held = from.layout->BlockOf(from.global.shape, source);
      Steps steps;
      for (size_t d = 0; d < held.size(); ++d) {
        const ExchangeRun run = RunOf(exchange_.dims[d], o, BlockOf(d, device), held[d]);
        steps.push_back({run.count, run.from - held[d].start, run.from_step, run.to, run.to_step});
      }
      Transfer transfer = NewTransfer(device);
      transfer.box = BoxCopy(steps, from.type.shape, to_.type.shape);
      if (transfer.box.elements() == 0) continue;
      transfer.from.push_back(buffers_[id].Of(source));
      transfers_.push_back(std::move(transfer));
    }
  }

  // The places along dim d of the block that operand o fills.
  Places Filled(size_t d, int o, int64_t device) const {
    const int64_t size = local_.value(node_.operands[static_cast<size_t>(o)]).global.shape[d];
    const ExchangeRun run = RunOf(exchange_.dims[d], o, BlockOf(d, device), {0, size});
    return {run.to, run.count, run.to_step};
  }

  // The number of places along dim d of the device's buffer that are filled: all that a kernel reads.
  int64_t Wanted(size_t d, int64_t device) const {
    return exchange_.dims[d].is_windows() ? to_.type.shape[d] : BlockOf(d, device).size;
  }

  // The places in [0, wanted) that are in none of `filled`. The entries of `filled` do not overlap, and are
  // one list of steps or runs without gaps.
  static PlacesList Complement(PlacesList filled, int64_t wanted) {
    std::sort(filled.begin(), filled.end(),
              [](const Places& a, const Places& b) { return a.first < b.first; });
    PlacesList rest;
    int64_t at = 0;
    for (const Places& places : filled) {
      if (places.count == 0) continue;
      if (places.first > at) rest.push_back({at, places.first - at, 1});
      for (int64_t skipped = 1; skipped < places.step && places.count > 1; ++skipped)
        rest.push_back({places.first + skipped, places.count - 1, places.step});
      at = places.first + (places.count - 1) * places.step + 1;
    }
    if (at < wanted) rest.push_back({at, wanted - at, 1});
    return rest;
  }

  // Adds the fills of the places that no operand fills. Operands are joined along at most one dim, which
  // comes first. In the other dims all operands fill the same places.
  void AddFills(int64_t device) {
    const size_t rank = exchange_.dims.size();
    const int joined = JoinedDim(local_, node_, exchange_);
    Filling filling{.filled = std::vector<PlacesList>(rank)};
    Steps steps;
    for (size_t d = 0; d < rank; ++d) {
      const bool joins = static_cast<int>(d) == joined;
      for (size_t o = 0; o < (joins ? node_.operands.size() : 1); ++o)
        filling.filled[d].push_back(Filled(d, static_cast<int>(o), device));
      filling.order.insert(joins ? filling.order.begin() : filling.order.end(), d);
      steps.push_back({.count = Wanted(d, device)});
    }
    FillAround(device, filling, 0, steps);
  }

  struct Filling {
    std::vector<PlacesList> filled;  // per dim
    std::vector<size_t> order = {};  // of dims
  };

  // Fills the places beside the filled places of the k-th dim and then, at the filled places, those that the
  // further dims leave.
  void FillAround(int64_t device, const Filling& filling, size_t k, Steps steps) {
    if (k == filling.order.size()) return;
    const size_t d = filling.order[k];
    auto at = [&](const Places& places) {
      steps[d] = {.count = places.count, .to = places.first, .to_step = places.step};
      return steps;
    };
    for (const Places& places : Complement(filling.filled[d], Wanted(d, device))) AddFill(device, at(places));
    for (const Places& places : filling.filled[d])
      if (places.count > 0) FillAround(device, filling, k + 1, at(places));
  }

  void AddFill(int64_t device, Steps steps) {
    // A fill has no source: its places are read as those of the target.
    for (BoxSteps& dim : steps) {
      dim.from = dim.to;
      dim.from_step = dim.to_step;
    }
    Transfer transfer = NewTransfer(device);
    transfer.box = BoxCopy(steps, to_.type.shape, to_.type.shape);
    if (transfer.box.elements() == 0) return;
    transfer.fill = Element();
    transfers_.push_back(std::move(transfer));
  }

  std::array<std::byte, 8> Element() const {
    std::array<std::byte, 8> element = {};
    DispatchAny(to_.type.dtype, [&](auto zero) {
      const auto value = static_cast<Stored<decltype(zero)>>(exchange_.value);
      std::memcpy(element.data(), &value, sizeof(value));
      return 0;
    });
    return element;
  }

  const Graph& local_;
  const Node& node_;
  const std::vector<ValueBuffers>& buffers_;
  const ValueInfo& to_;
  const Exchange exchange_;
  std::vector<Transfer> transfers_;
};

}  // namespace

absl::StatusOr<std::vector<Transfer>> PlanExchange(const Graph& local, int node,
                                                   const std::vector<ValueBuffers>& buffers) {
  if (absl::Status status = CheckExchange(local, local.nodes()[node]); !status.ok())
    return Annotate(status, local.Describe(node) + ": ");
  return ExchangePlanner(local, local.nodes()[node], buffers).Run();
}

}  // namespace meshwork
