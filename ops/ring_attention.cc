#include "ops/ring_attention.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>

#include "ops/blockwise.h"
#include "ops/builder.h"

namespace meshwork {
namespace {

constexpr int kBatch = 0, kSequence = 1;

// Whether q, k and v lie so that each device has one block of each sequence.
bool LieAlike(std::span<const Layout> layouts, int64_t batch) {
  for (const Layout& layout : layouts.first(3)) {
    if (layout.IsStrided(kBatch) || layout.IsStrided(kSequence) ||
        layout.dim(kSequence) != layouts[0].dim(kSequence) || batch % layout.NumShards(kBatch) != 0)
      return false;
  }
  return true;
}

bool CanGoRound(const BlockwiseView& view) {
  const Shape &q = view.operands[0].shape(), &k = view.operands[1].shape();
  const int64_t s = q[kSequence], t = k[kSequence];
  if (std::min({q[kBatch], s, t}) == 0 || s % view.count != 0 || t % view.count != 0) return false;
  if (view.attrs.Get<bool>("causal") && s != t) return false;
  return view.layouts.empty() || LieAlike(view.layouts, q[kBatch]);
}

// Tensors as [n·b,size,..], the blocks of their sequence, each on a device of its own: as many examples, of
// block 0 first, to a row.
class Ring {
 public:
  explicit Ring(const BlockwiseView& view) : view_(view), batch_(view.operands[0].shape()[kBatch]) {}

  bool is_causal() const { return view_.attrs.Get<bool>("causal"); }
  int64_t count() const { return view_.count; }

  // Each [b,s,..] -> [n·b,size,..].
  std::vector<Value> SplitOperands() const {
    std::vector<Value> blocks;
    for (const Value& x : view_.operands)
      blocks.push_back(Merged(Swapped(Blocks(view_, x, kSequence).Split(x, /*fill=*/0)), 0));
    return blocks;
  }
  // The inverse, in `dtype`.
  Value Join(const Value& x, DType dtype) const {
    return Merged(Swapped(ByDevice(InDType(x, dtype))), kSequence);
  }

  // Those of device i go to device i + 1.
  void Turn(std::span<Value> xs) const {
    for (Value& x : xs) x = Merged(Roll(ByDevice(x), 1, 0), 0);
  }
  // To device i - 1. They are read as another shape, so that what the other way begins with is not kept for
  // this one.
  void TurnBack(std::span<Value> xs) const {
    for (Value& x : xs) {
      const Shape shape = x.shape();  // [n·b,size,..]
      Shape rows = shape;             // [n,b·size,..]
      rows[0] = count();
      rows[1] *= batch_;
      x = Reshape(Roll(Reshape(x, rows), count() - 1, 0), shape);
    }
  }

  // The row's results for each device's blocks by themselves.
  std::vector<Value> Run(std::string_view row, const std::vector<Value>& blocks, bool causal) const {
    const ResolvedOperands at = Resolve(std::vector<Operand>(blocks.begin(), blocks.end()));
    return at.graph->Add(row, at.values, {{"scale", view_.attrs.Get<double>("scale")}, {"causal", causal}},
                         at.location);
  }

  // Per block whether its device comes before device `end`, to be broadcast to `rank` dims.
  Value IsBefore(int64_t end, int rank) const {
    Shape shape(static_cast<size_t>(rank), 1);
    shape[0] = count() * batch_;
    return Less(Iota(*view_.operands[0].graph(), {I64, shape}, 0), static_cast<double>(end * batch_));
  }

  static Value InDType(const Value& x, DType dtype) { return x.dtype() == dtype ? x : Cast(x, dtype); }

 private:
  // [n·b,size,..] -> [n,b,size,..].
  Value ByDevice(const Value& x) const {
    Shape shape = x.shape();
    shape[0] = batch_;
    shape.insert(shape.begin(), count());
    return Reshape(x, shape);
  }
  // With dims `dim` and dim + 1 as one.
  static Value Merged(const Value& x, int dim) {
    Shape shape = x.shape();
    shape[dim] *= shape[dim + 1];
    shape.erase(shape.begin() + dim + 1);
    return Reshape(x, shape);
  }
  // Of the first two dims.
  static Value Swapped(const Value& x) {
    std::vector<int64_t> permutation(static_cast<size_t>(x.rank()));
    std::iota(permutation.begin(), permutation.end(), 0);
    std::swap(permutation[0], permutation[1]);
    return Transpose(x, permutation);
  }

  const BlockwiseView& view_;
  const int64_t batch_;
};

// What attention leaves of some keys: o, a mean in shares, and l, the logarithm of the shares' denominator,
// as [n·b,size,h,1]; both in l's dtype.
struct Shares {
  Value o, l;
};

Shares SharesOf(const std::vector<Value>& results) {
  return {Ring::InDType(results[0], results[1].dtype()), ExpandDims(results[1], {results[1].rank()})};
}

Shares MergedShares(const Shares& a, const Shares& b) {
  const Value l = LogAddExp(a.l, b.l);
  const Value of_b = Mul(b.o, Exp(Sub(b.l, l)));
  return {Add(Mul(a.o, Exp(Sub(a.l, l))), of_b), l};
}

}  // namespace

std::optional<OperandDim> RingDim(const Attrs& attrs) {
  if (!attrs.Get<bool>("ring")) return std::nullopt;
  return OperandDim{.operand = 1, .dim = kSequence};
}

std::vector<Value> RingAttention(const BlockwiseView& view) {
  if (!CanGoRound(view)) return {};
  const Ring ring(view);
  std::vector<Value> in = ring.SplitOperands();
  const std::span<Value> kv = std::span(in).subspan(1);
  Shares sum = SharesOf(ring.Run("attention", in, ring.is_causal()));
  for (int64_t r = 1; r < ring.count(); ++r) {
    ring.Turn(kv);
    Shares next = MergedShares(sum, SharesOf(ring.Run("attention", in, /*causal=*/false)));
    if (ring.is_causal()) {
      // Device i has the keys of block i - r: those of devices before r come after their queries.
      const Value is_ahead = ring.IsBefore(r, sum.o.rank());
      next = {Select(is_ahead, sum.o, next.o), Select(is_ahead, sum.l, next.l)};
    }
    sum = next;
  }
  const Value log_sums = Squeeze(sum.l, {sum.l.rank() - 1});
  return {ring.Join(sum.o, view.operands[0].dtype()), ring.Join(log_sums, log_sums.dtype())};
}

std::vector<Value> RingGradQ(const BlockwiseView& view) {
  if (!CanGoRound(view)) return {};
  const Ring ring(view);
  std::vector<Value> in = ring.SplitOperands();
  const std::span<Value> kv = std::span(in).subspan(1, 2);
  const DType wide = in[4].dtype();
  Value sum = Ring::InDType(ring.Run("attention_grad_q", in, ring.is_causal())[0], wide);
  for (int64_t r = 1; r < ring.count(); ++r) {
    ring.TurnBack(kv);
    Value term = Ring::InDType(ring.Run("attention_grad_q", in, /*causal=*/false)[0], wide);
    // Device i has the keys of block i + r, or i + r - n, which alone come before its queries.
    if (ring.is_causal()) term = Select(ring.IsBefore(ring.count() - r, term.rank()), 0.0, term);
    sum = Add(sum, term);
  }
  return {ring.Join(sum, view.operands[0].dtype())};
}

std::vector<Value> RingGradKv(const BlockwiseView& view) {
  if (!CanGoRound(view)) return {};
  const Ring ring(view);
  std::vector<Value> in = ring.SplitOperands();
  const DType wide = in[4].dtype();
  std::vector<Value> sums;
  for (const Value& x : ring.Run("attention_grad_kv", in, ring.is_causal()))
    sums.push_back(Ring::InDType(x, wide));
  for (int64_t r = 1; r < ring.count(); ++r) {
    ring.Turn(std::span(in).first(1));
    ring.Turn(std::span(in).subspan(3));
    const std::vector<Value> terms = ring.Run("attention_grad_kv", in, /*causal=*/false);
    for (size_t i = 0; i < sums.size(); ++i) {
      Value term = Ring::InDType(terms[i], wide);
      // Device i has the queries of block i - r, or i - r + n, which alone come after its keys.
      if (ring.is_causal()) term = Select(ring.IsBefore(r, term.rank()), term, 0.0);
      sums[i] = Add(sums[i], term);
    }
  }
  return {ring.Join(sums[0], view.operands[1].dtype()), ring.Join(sums[1], view.operands[2].dtype())};
}

}  // namespace meshwork
