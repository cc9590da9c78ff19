#include "meshwork/ir/exchange.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "meshwork/base/divide.h"
#include "meshwork/base/status.h"

namespace meshwork {
namespace {

using Ints = std::vector<int64_t>;

int64_t FloorDiv(int64_t a, int64_t b) { return a / b - (a % b != 0 && a < 0 ? 1 : 0); }

// `list`, or an empty list if all entries are `usual`.
Ints OrNone(Ints list, int64_t usual) {
  const bool is_usual = std::all_of(list.begin(), list.end(), [&](int64_t x) { return x == usual; });
  return is_usual ? Ints() : list;
}

// Positions t in [0, count) with first + t * step in [held.start, held.start + held.size).
std::pair<int64_t, int64_t> Within(int64_t first, int64_t step, int64_t count, const Extent& held) {
  const int64_t low = held.start - first, high = held.start + held.size - 1 - first;
  int64_t begin = step > 0 ? CeilDiv(low, step) : CeilDiv(-high, -step);
  int64_t end = (step > 0 ? FloorDiv(high, step) : FloorDiv(-low, -step)) + 1;
  begin = std::max<int64_t>(begin, 0);
  end = std::min(end, count);
  return {begin, std::max(begin, end)};
}

ExchangeRun WindowRun(const ExchangeDim& dim, int operand, const Extent& block, const Extent& held) {
  const Extent need = WindowOf({dim.stride, dim.offsets[operand], dim.extent, dim.spacing}, block);
  const int64_t first = std::max(need.start, held.start);
  const int64_t end = std::min(need.start + need.size, held.start + held.size);
  if (first >= end) return {};
  return {end - first, first - need.start, 1, first, 1};
}

// Positions of operands do not overflow.
absl::Status CheckAmounts(const ExchangeDim& dim, size_t d, int64_t size) {
  constexpr int64_t kMost = int64_t{1} << 60;
  const int64_t positions = std::max<int64_t>({size, dim.size, 1});
  const int64_t stride = kMost / positions;
  bool fits = dim.stride >= -stride && dim.stride <= stride && dim.spacing <= kMost && dim.extent <= kMost;
  for (int64_t offset : dim.offsets) fits = fits && offset >= -kMost && offset <= kMost;
  if (fits) return absl::OkStatus();
  return InvalidArgument("dim {}: positions of the operand lie beyond 2^60.", d);
}

// Whether operands begin at different places along dim d, or have different sizes.
bool JoinsAlong(const Graph& local, const Node& node, const Exchange& exchange, size_t d) {
  const ExchangeDim& dim = exchange.dims[d];
  auto size = [&](size_t o) { return local.value(node.operands[o]).global.shape[d]; };
  for (size_t o = 1; o < node.operands.size(); ++o)
    if (dim.offsets[o] != dim.offsets[0] || size(o) != size(0)) return true;
  return false;
}

// Several operands are joined along one dim, each at places of its own. Empty operands take no place.
absl::Status CheckJoin(const Graph& local, const Node& node, const Exchange& exchange) {
  const int joined = JoinedDim(local, node, exchange);
  for (size_t d = 0; d < exchange.dims.size(); ++d) {
    const ExchangeDim& dim = exchange.dims[d];
    if (!JoinsAlong(local, node, exchange, d)) continue;
    if (static_cast<int>(d) != joined || dim.stride != 1 || dim.spacing != 1 || dim.is_windows())
      return InvalidArgument("dim {}: operands are joined along one dim, element by element.", d);
  }
  std::vector<Extent> places;
  for (size_t o = 0; o < node.operands.size(); ++o) {
    const Shape& shape = local.value(node.operands[o]).global.shape;
    if (NumElements(shape) == 0) continue;
    const auto d = static_cast<size_t>(joined);
    if (joined < 0) places.push_back({0, 1});
    else places.push_back({-exchange.dims[d].offsets[o], shape[d]});
  }
  std::sort(places.begin(), places.end(), [](const Extent& a, const Extent& b) { return a.start < b.start; });
  if (joined < 0 && places.size() > 1)
    return InvalidArgument("{} operands are filled in at the same places.", node.operands.size());
  for (size_t o = 1; o < places.size(); ++o)
    if (places[o - 1].start + places[o - 1].size > places[o].start)
      return InvalidArgument("dim {}: two operands are filled in at place {}.", joined, places[o].start);
  return absl::OkStatus();
}

// x with a * x = 1 modulo m. REQUIRES: a and m have no common divisor; 0 <= a < m.
int64_t InverseModulo(int64_t a, int64_t m) {
  // Euclid's algorithm, which keeps remainder = factor * a modulo m.
  int64_t remainder = m, next_remainder = a, factor = 0, next_factor = 1;
  while (next_remainder != 0) {
    const int64_t quotient = remainder / next_remainder;
    remainder = std::exchange(next_remainder, remainder - quotient * next_remainder);
    factor = std::exchange(next_factor, factor - quotient * next_factor);
  }
  return factor < 0 ? factor + m : factor;
}

// a * b modulo m, without overflow. REQUIRES: 0 <= a, b < m <= 2^62.
int64_t MultiplyModulo(int64_t a, int64_t b, int64_t m) {
  int64_t product = 0;
  for (; b > 0; b /= 2) {
    if (b % 2 != 0) product = (product + a) % m;
    a = 2 * a % m;
  }
  return product;
}

int64_t Modulo(int64_t a, int64_t m) { return a % m < 0 ? a % m + m : a % m; }

// The first position from `start` on whose source is a whole position: i * stride + offset is a multiple of
// `spacing`. Nothing if there is none.
std::optional<int64_t> FirstWhole(int64_t start, int64_t stride, int64_t offset, int64_t spacing) {
  const int64_t common = std::gcd(stride, spacing), step = spacing / common;
  if (offset % common != 0) return std::nullopt;
  const int64_t inverse = InverseModulo(Modulo(stride / common, step), step);
  const int64_t first = MultiplyModulo(Modulo(-(offset / common), step), inverse, step);
  return start + Modulo(first - start, step);
}

}  // namespace

bool ExchangeDim::IsIdentity() const {
  return !is_windows() && stride == 1 && spacing == 1 &&
         std::all_of(offsets.begin(), offsets.end(), [](int64_t offset) { return offset == 0; });
}

Exchange Exchange::Of(const Attrs& attrs, int num_operands) {
  const auto &offset = attrs.Get<Ints>("offset"), &stride = attrs.Get<Ints>("stride"),
             &spacing = attrs.Get<Ints>("spacing"), &size = attrs.Get<Ints>("size"),
             &extent = attrs.Get<Ints>("extent");
  Exchange exchange{.value = attrs.Get<double>("value")};
  const size_t rank = offset.size() / static_cast<size_t>(num_operands);
  for (size_t d = 0; d < rank; ++d) {
    ExchangeDim dim{.stride = EntryOr(stride, d, 1),
                    .spacing = EntryOr(spacing, d, 1),
                    .size = EntryOr(size, d, -1),
                    .extent = EntryOr(extent, d, 1)};
    for (int o = 0; o < num_operands; ++o) dim.offsets.push_back(offset[static_cast<size_t>(o) * rank + d]);
    exchange.dims.push_back(std::move(dim));
  }
  return exchange;
}

Attrs Exchange::ToAttrs() const {
  Ints offset, stride, spacing, size, extent;
  const size_t num_operands = dims.empty() ? 0 : dims[0].offsets.size();
  for (size_t o = 0; o < num_operands; ++o)
    for (const ExchangeDim& dim : dims) offset.push_back(dim.offsets[o]);
  for (const ExchangeDim& dim : dims) {
    stride.push_back(dim.stride);
    spacing.push_back(dim.spacing);
    size.push_back(dim.size);
    extent.push_back(dim.extent);
  }
  return {{"offset", std::move(offset)},
          {"stride", OrNone(std::move(stride), 1)},
          {"spacing", OrNone(std::move(spacing), 1)},
          {"size", OrNone(std::move(size), -1)},
          {"extent", OrNone(std::move(extent), 1)},
          {"value", value}};
}

bool ReducesToItself(double value, ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum: return value == 0;
    case ReduceOp::kProd: return value == 1 || (value == 0 && !std::signbit(value));  // -0 is 0 twice
    case ReduceOp::kMax:
    case ReduceOp::kMin:
    case ReduceOp::kAnd:
    case ReduceOp::kOr: return true;
  }
  return false;
}

int JoinedDim(const Graph& local, const Node& node, const Exchange& exchange) {
  for (size_t d = 0; d < exchange.dims.size(); ++d)
    if (JoinsAlong(local, node, exchange, d)) return static_cast<int>(d);
  return -1;
}

ExchangeRun RunOf(const ExchangeDim& dim, int operand, const Extent& block, const Extent& held) {
  if (block.size == 0 || held.size == 0) return {};
  if (dim.is_windows()) return WindowRun(dim, operand, block, held);
  // From the first position with a whole source on, every `step`th position has one.
  const int64_t common = std::gcd(dim.stride, dim.spacing), step = dim.spacing / common;
  const int64_t offset = dim.offsets[operand];
  const std::optional<int64_t> whole = FirstWhole(block.start, dim.stride, offset, dim.spacing);
  if (!whole.has_value() || *whole >= block.start + block.size) return {};
  const int64_t first = *whole;
  const int64_t from = (first * dim.stride + offset) / dim.spacing, from_step = dim.stride / common;
  const int64_t count = (block.start + block.size - first + step - 1) / step;
  const auto [begin, end] = Within(from, from_step, count, held);
  return {end - begin, first + begin * step - block.start, step, from + begin * from_step, from_step};
}

Extent WindowOf(const Window& window, const Extent& block) {
  const int64_t first = CeilDiv(block.start * window.stride + window.offset, window.spacing);
  if (block.size == 0) return {first, 0};
  const int64_t last = FloorDiv(
      (block.start + block.size - 1) * window.stride + window.offset + window.extent - 1, window.spacing);
  return {first, std::max<int64_t>(last - first + 1, 0)};
}

int64_t WindowSize(const Window& window, int64_t block) {
  if (block == 0) return 0;
  return ((block - 1) * window.stride + window.extent - 1) / window.spacing + 1;
}

Extent ExchangedExtent(const ExchangeDim& dim, const Layout& to, const Shape& to_shape, int d,
                       int64_t device) {
  return ExtentOf(to.mesh(), to.dim(d), dim.is_windows() ? dim.size : to_shape[d], device);
}

Rule MoveRule(const OpView& view, const Exchange& exchange, Passes passes) {
  const Shape& to = view.results[0].shape;
  std::string text, result;
  for (size_t d = 0; d < to.size(); ++d) result += static_cast<char>('a' + d);
  auto stays = [&](size_t o, size_t d) {
    const ExchangeDim& dim = exchange.dims[d];
    // An operand may occur more than once in the exchange, as in a roll; it stays only if all its offsets are
    // 0.
    for (size_t i = 0; i < dim.offsets.size(); ++i)
      if (MovedOperand(i, view.operands.size()) == o && dim.offsets[i] != 0) return false;
    return dim.stride == 1 && dim.spacing == 1 && view.operands[o].shape[d] == to[d];
  };
  for (size_t o = 0; o < view.operands.size(); ++o) {
    if (o > 0) text += ',';
    for (size_t d = 0; d < to.size(); ++d) text += stays(o, d) ? result[d] : '1';
  }
  Rule rule = MakeRule(text + "->" + result, view.operands, view.results, std::move(passes));
  for (size_t o = 0; o < view.operands.size(); ++o) {
    for (size_t d = 0; d < to.size(); ++d) {
      const ExchangeDim& dim = exchange.dims[d];
      if (!stays(o, d))
        rule.AddWindow(static_cast<int>(o), static_cast<int>(d), result[d],
                       {.stride = dim.stride, .offset = dim.offsets[o], .spacing = dim.spacing});
    }
  }
  return rule;
}

bool AreBlocks(const Window& window, const Mesh& mesh, const AxisList& axes, int64_t size, int64_t held) {
  // The letter's first position needs the dim's first position; the last position of a block needs nothing
  // behind the dim's block; no needed position lies beyond the end.
  if (CeilDiv(window.offset, window.spacing) != 0 || window.offset + window.extent > window.stride)
    return false;
  const Extent needed = WindowOf(window, {0, size});
  if (needed.start + needed.size > held) return false;
  AxisList outer;
  for (int axis : axes) {
    outer.push_back(axis);
    if (BlockSize(mesh, outer, held) * window.spacing != BlockSize(mesh, outer, size) * window.stride)
      return false;
  }
  return true;
}

absl::Status CheckExchange(const Graph& local, const Node& node) {
  const ValueInfo& to = local.value(node.results[0]);
  const auto rank = static_cast<size_t>(to.global.rank());
  if (to.layout->is_strided())
    return InvalidArgument("the result is {}; an exchange works on plain dims.", to.layout->ToString());
  for (ValueId id : node.operands) {
    const ValueInfo& from = local.value(id);
    if (from.layout->is_strided() || from.global.dtype != to.global.dtype ||
        from.global.rank() != to.global.rank() || from.layout->partials() != to.layout->partials())
      return InvalidArgument(
          "{} {} is exchanged to {} {}; dtype, rank and what is owed are the same, and dims are plain.",
          from.global.ToString(), from.layout->ToString(), to.global.ToString(), to.layout->ToString());
  }
  if (node.attrs.Get<Ints>("offset").size() != rank * node.operands.size())
    return InvalidArgument("offset has {} entries; it needs one per operand and dim, {}.",
                           node.attrs.Get<Ints>("offset").size(), rank * node.operands.size());
  for (std::string_view name : {"stride", "spacing", "size", "extent"}) {
    const Ints& list = node.attrs.Get<Ints>(name);
    if (!list.empty() && list.size() != rank)
      return InvalidArgument("{} has {} entries; give one per dim, {}, or none.", name, list.size(), rank);
  }
  const Exchange exchange = Exchange::Of(node.attrs, static_cast<int>(node.operands.size()));
  for (size_t d = 0; d < rank; ++d) {
    const ExchangeDim& dim = exchange.dims[d];
    if (dim.stride == 0 || dim.spacing < 1 || dim.extent < 1 || (dim.is_windows() && dim.stride < 1))
      return InvalidArgument(
          "dim {}: stride={} spacing={} extent={}; strides are not 0, and of windows above it, the others at "
          "least 1.",
          d, dim.stride, dim.spacing, dim.extent);
    MESHWORK_RETURN_IF_ERROR(CheckAmounts(dim, d, to.global.shape[d]));
    if (!dim.is_windows()) continue;
    const AxisList& axes = to.layout->dim(static_cast<int>(d));
    const int64_t blocks = local.mesh().GroupSize(axes);
    const int64_t size = blocks * WindowSize({dim.stride, 0, dim.extent, dim.spacing},
                                             BlockSize(local.mesh(), axes, dim.size));
    if (to.global.shape[d] != size)
      return InvalidArgument("dim {} of the result {} has size {}; {} windows have {}.", d,
                             to.global.ToString(), to.global.shape[d], blocks, size);
  }
  return CheckJoin(local, node, exchange);
}

AxisList ExchangeAxes(const Graph& local, const Node& node) {
  const Exchange exchange = Exchange::Of(node.attrs, static_cast<int>(node.operands.size()));
  const ValueInfo& result = local.value(node.results[0]);
  const Layout& to = *result.layout;
  AxisSet axes;
  for (int d = 0; d < to.rank(); ++d) {
    for (ValueId id : node.operands) {
      const Layout& from = *local.value(id).layout;
      if (exchange.dims[d].IsIdentity() && from.dim(d) == to.dim(d) &&
          local.value(id).global.shape[d] == result.global.shape[d])
        continue;
      axes = axes.Union(AxisSet(from.dim(d))).Union(AxisSet(to.dim(d)));
    }
  }
  return axes.ToList();
}

namespace {

// At most this many devices are examined.
constexpr int64_t kMostLookedAt = 1024;
// Up to this many blocks along a dim are counted one by one.
constexpr int64_t kMaxCounted = 64;

class TrafficCounter {
 public:
  TrafficCounter(const Graph& local, const Node& node)
      : mesh_(local.mesh()),
        to_(local.value(node.results[0])),
        exchange_(Exchange::Of(node.attrs, static_cast<int>(node.operands.size()))) {
    for (ValueId id : node.operands) from_.push_back(&local.value(id));
  }

  Traffic Count(const AxisList& axes) const {
    Traffic most;
    for (int64_t device : LookedAt(axes)) {
      Traffic traffic;
      for (int o = 0; o < static_cast<int>(from_.size()); ++o) {
        const Traffic part = OfOperand(o, device);
        traffic.sent += part.sent;
        traffic.received += part.received;
      }
      most = {std::max(most.sent, traffic.sent), std::max(most.received, traffic.received)};
    }
    return most;
  }

 private:
  Extent BlockOf(int d, int64_t device) const {
    return ExchangedExtent(exchange_.dims[static_cast<size_t>(d)], *to_.layout, to_.global.shape, d, device);
  }
  int64_t TakenBy(int o, int d, int64_t device, const Extent& held) const {
    return RunOf(exchange_.dims[static_cast<size_t>(d)], o, BlockOf(d, device), held).count;
  }

  // received: the elements of operand `o` that `device` needs and other devices hold. sent: the elements that
  // other devices take from `device`.
  Traffic OfOperand(int o, int64_t device) const {
    const ValueInfo& from = *from_[static_cast<size_t>(o)];
    const Block has = from.layout->BlockOf(from.global.shape, device);
    const AxisSet asking = from.layout->ShardedAxes();
    int64_t needed = 1, own = 1, asked = mesh_.GroupSize(asking.Minus(to_.layout->ShardedAxes()).ToList());
    for (int d = 0; d < to_.layout->rank(); ++d) {
      const Extent& held = has[static_cast<size_t>(d)];
      needed *= TakenBy(o, d, device, {0, from.global.shape[static_cast<size_t>(d)]});
      own *= TakenBy(o, d, device, held);
      asked *= Asked(o, d, device, held, asking);
    }
    return {.sent = asked - own, .received = needed - own};
  }

  // The number of positions `held` of dim d that each device needs, summed over the devices that differ from
  // `device` on the axes `asking` alone.
  int64_t Asked(int o, int d, int64_t device, const Extent& held, AxisSet asking) const {
    const ExchangeDim& dim = exchange_.dims[static_cast<size_t>(d)];
    const AxisList& axes = to_.layout->dim(d);
    AxisList varying;
    for (int axis : axes)
      if (asking.Contains(axis)) varying.push_back(axis);
    const AxisGroup group(mesh_, varying);
    int64_t begin = 0, end = group.size();
    if (varying == axes) {
      if (!dim.is_windows()) return RunOf(dim, o, {0, to_.global.shape[static_cast<size_t>(d)]}, held).count;
      // The windows of a later block begin and end later, even if the block is empty.
      const Window window{dim.stride, dim.offsets[static_cast<size_t>(o)], dim.extent, dim.spacing};
      const auto block = [&](int64_t m) { return BlockOf(d, group.Member(device, m)); };
      const auto first = [&](const Extent& x) { return WindowOf(window, {x.start, 1}).start; };
      const auto behind = [&](const Extent& x) {
        const Extent last = WindowOf(window, {x.start + x.size - 1, 1});
        return last.start + last.size;
      };
      begin = FirstOf(end, [&](int64_t m) { return behind(block(m)) > held.start; });
      end = FirstOf(end, [&](int64_t m) { return first(block(m)) >= held.start + held.size; });
    }
    int64_t asked = 0;
    if (end - begin <= kMaxCounted) {
      for (int64_t m = begin; m < end; ++m) asked += TakenBy(o, d, group.Member(device, m), held);
      return asked;
    }
    const int64_t block =
        BlockSize(mesh_, axes, dim.is_windows() ? dim.size : to_.global.shape[static_cast<size_t>(d)]);
    const int64_t each =
        dim.is_windows() ? WindowSize({dim.stride, 0, dim.extent, dim.spacing}, block) : block;
    return (end - begin) * std::min(each, held.size);
  }

  // The first number below `end` from which on f is true.
  template <typename F>
  static int64_t FirstOf(int64_t end, F&& f) {
    int64_t begin = 0;
    while (begin < end) {
      const int64_t middle = begin + (end - begin) / 2;
      if (f(middle)) end = middle;
      else begin = middle + 1;
    }
    return begin;
  }

  std::vector<int64_t> LookedAt(const AxisList& axes) const {
    std::vector<int64_t> devices = SomeDevices(mesh_, axes, kMostLookedAt);
    if (static_cast<int64_t>(devices.size()) < mesh_.GroupSize(axes))
      for (int o = 0; o < static_cast<int>(from_.size()); ++o) AddHolders(o, devices);
    return devices;
  }

  // The devices that hold the first, the middle and the last position of operand o that the result takes, in
  // every dim that is cut.
  void AddHolders(int o, std::vector<int64_t>& devices) const {
    const ValueInfo& from = *from_[static_cast<size_t>(o)];
    std::vector<Shape> places = {Shape(from.global.shape.size(), 0)};
    for (size_t d = 0; d < exchange_.dims.size(); ++d) {
      const ExchangeDim& dim = exchange_.dims[d];
      const Extent whole{0, dim.is_windows() ? dim.size : to_.global.shape[d]};
      const ExchangeRun run = RunOf(dim, o, whole, {0, from.global.shape[d]});
      if (run.count == 0) return;
      if (from.layout->dim(static_cast<int>(d)).empty()) continue;
      // If there are many places already, only the first position along this dim.
      std::vector<int64_t> some = {0};
      if (static_cast<int64_t>(places.size()) * 3 <= kMostLookedAt)
        some.insert(some.end(), {run.count / 2, run.count - 1});
      std::vector<Shape> more;
      for (Shape& place : places) {
        for (int64_t i : some) {
          place[d] = run.from + i * run.from_step;
          more.push_back(place);
        }
      }
      places = std::move(more);
    }
    for (const Shape& place : places) devices.push_back(from.layout->Locate(from.global.shape, place).device);
  }

  const Mesh& mesh_;
  const ValueInfo& to_;
  const Exchange exchange_;
  std::vector<const ValueInfo*> from_;
};

}  // namespace

Traffic ExchangeTraffic(const Graph& local, const Node& node) {
  return TrafficCounter(local, node).Count(ExchangeAxes(local, node));
}

}  // namespace meshwork
