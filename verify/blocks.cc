#include "meshwork/verify/blocks.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/ir/collective_spec.h"
#include "meshwork/ir/row.h"

namespace meshwork {
namespace {

// Whether, along dim d, each block by `coarser` consists of the blocks by `finer` of a group of devices that
// differ on the axes `by` alone: `finer` has these axes last, in addition to those of `coarser`, and the
// blocks nest.
bool Refines(const Layout& finer, const Layout& coarser, int d, const AxisList& by, const Shape& shape) {
  if (finer.IsStrided(d) || coarser.IsStrided(d)) return false;
  const AxisList& fine = finer.dim(d);
  const AxisList& coarse = coarser.dim(d);
  return fine.size() == coarse.size() + by.size() && std::equal(coarse.begin(), coarse.end(), fine.begin()) &&
         std::equal(by.begin(), by.end(), fine.end() - static_cast<int64_t>(by.size())) &&
         Nests(finer.mesh(), fine, coarse.size(), shape[d]);
}

// Whether both layouts are plain, and all dims but `dims` lie alike.
bool AgreeBut(const Layout& a, const Layout& b, std::initializer_list<int> dims) {
  if (a.is_strided() || b.is_strided() || a.rank() != b.rank()) return false;
  for (int d = 0; d < a.rank(); ++d)
    if (std::find(dims.begin(), dims.end(), d) == dims.end() && a.dim(d) != b.dim(d)) return false;
  return true;
}

// `owed` without the reductions by `op` over `axes`; nothing if one of these is not owed.
std::optional<PartialSet> Paid(const PartialSet& owed, const AxisList& axes, ReduceOp op) {
  PartialSet rest;
  size_t paid = 0;
  for (const Partial& partial : owed) {
    if (std::find(axes.begin(), axes.end(), partial.axis) == axes.end()) {
      rest.push_back(partial);
    } else {
      if (partial.op != op) return std::nullopt;
      ++paid;
    }
  }
  if (paid != axes.size()) return std::nullopt;
  return rest;
}

// The least number of leading axes that cut `size` elements evenly into blocks which the other axes cut
// further; 0 if there is none.
size_t EvenCut(const Mesh& mesh, const AxisList& axes, int64_t size) {
  int64_t blocks = 1;
  for (size_t n = 1; n <= axes.size(); ++n) {
    blocks *= mesh.axis(axes[n - 1]).size;
    if (size % blocks == 0 && Nests(mesh, axes, n, size)) return n;
  }
  return 0;
}

// The order in which a device holds the elements of a tensor: digits of the index, major to minor. A digit is
// cut by axes, or counts the elements that a device holds. Where blocks are uneven, the rest of a factor is
// one digit.
struct Digit {
  int64_t size;
  AxisList axes;

  bool operator==(const Digit&) const = default;
};

std::vector<Digit> DigitsOf(const Layout& layout, const Shape& shape) {
  std::vector<Digit> digits;
  auto push = [&](int64_t size, AxisList axes) {
    if (size == 1 && axes.empty()) return;
    // Two digits that count, side by side, count as one.
    if (axes.empty() && !digits.empty() && digits.back().axes.empty()) digits.back().size *= size;
    else digits.push_back({size, std::move(axes)});
  };
  const Mesh& mesh = layout.mesh();
  for (int d = 0; d < layout.rank(); ++d) {
    for (const Factor& factor : layout.Factors(d, shape[d])) {
      int64_t size = factor.size;
      AxisList axes = factor.axes;
      for (size_t n = EvenCut(mesh, axes, size); n > 0; n = EvenCut(mesh, axes, size)) {
        for (size_t i = 0; i < n; ++i) {
          if (mesh.axis(axes[i]).size == 1) continue;
          push(mesh.axis(axes[i]).size, {axes[i]});
          size /= mesh.axis(axes[i]).size;
        }
        axes.erase(axes.begin(), axes.begin() + static_cast<int64_t>(n));
      }
      push(size, std::move(axes));
    }
  }
  return digits;
}

// If so, the devices with equal coordinates on all axes that do not cut `a` hold each element once between
// them, and the same term of owed reductions: axes over which both layouts owe cut nothing in `b`.
bool ArePlainAndOweAlike(const Layout& a, const Layout& b) {
  return !a.is_strided() && !b.is_strided() && a.partials() == b.partials();
}

// Whether every block of b is a whole block of a: dims lie alike, or are cut evenly into equally many blocks.
bool Permutes(const Layout& a, const Layout& b, const Shape& shape) {
  if (!ArePlainAndOweAlike(a, b)) return false;
  for (int d = 0; d < a.rank(); ++d) {
    if (a.dim(d) == b.dim(d)) continue;
    if (a.NumShards(d) != b.NumShards(d) || a.IsPadded(shape, d) || b.IsPadded(shape, d)) return false;
  }
  return true;
}

}  // namespace

bool Moves(const Node& node, const Layout& a, const Layout& b, const Shape& shape) {
  const CollectiveSpec collective = CollectiveOf(node);
  if (collective.kind == CollectiveKind::kPermute) return Permutes(a, b, shape);
  if (collective.kind == CollectiveKind::kAllToAllV) return ArePlainAndOweAlike(a, b);
  const AxisList& axes = node.attrs.Get<AxisList>("axes");
  if (AxisSet(axes).ToList().size() != axes.size()) return false;  // an axis named twice
  if (collective.kind == CollectiveKind::kAllReduce) {
    const auto rest = Paid(a.partials(), axes, collective.op);
    return rest.has_value() && b == a.WithPartials(*rest);
  }
  if (node.row->name == "keep_first") {
    const bool sums = std::all_of(b.partials().begin(), b.partials().end(),
                                  [](const Partial& p) { return p.op == ReduceOp::kSum; });
    const auto rest = Paid(b.partials(), axes, ReduceOp::kSum);
    return sums && rest.has_value() && a == b.WithPartials(*rest) &&
           !a.ShardedAxes().Intersects(AxisSet(axes));
  }
  const auto dim = [&](int64_t d) { return d >= 0 && d < a.rank() ? static_cast<int>(d) : -1; };
  if (collective.kind == CollectiveKind::kAllToAll) {
    const int from = dim(collective.dim), to = dim(collective.to_dim);
    return from >= 0 && to >= 0 && from != to && AgreeBut(a, b, {from, to}) && a.partials() == b.partials() &&
           Refines(a, b, from, axes, shape) && Refines(b, a, to, axes, shape);
  }
  const int d = dim(node.attrs.Get<int64_t>("dim"));
  if (d < 0 || !AgreeBut(a, b, {d})) return false;
  if (collective.kind == CollectiveKind::kAllGather)
    return a.partials() == b.partials() && Refines(a, b, d, axes, shape);
  if (!Refines(b, a, d, axes, shape)) return false;
  if (node.row->name == "shard_slice") return a.partials() == b.partials();
  MESHWORK_CHECK(collective.kind == CollectiveKind::kReduceScatter, "{} has no lemma", node.row->name);
  const auto rest = Paid(a.partials(), axes, collective.op);
  return rest.has_value() && b.partials() == *rest;
}

bool HoldAlike(const Layout& a, const Shape& a_shape, const Layout& b, const Shape& b_shape) {
  return NumElements(a_shape) == 0 || DigitsOf(a, a_shape) == DigitsOf(b, b_shape);
}

}  // namespace meshwork
