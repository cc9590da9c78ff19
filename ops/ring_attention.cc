#include "meshwork/ops/ring_attention.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>

#include "meshwork/ir/builder.h"
#include "meshwork/ops/blockwise.h"
#include "meshwork/ops/ops.h"

namespace meshwork {
namespace {

constexpr int kBatch = 0, kSequence = 1, kHeads = 2;
constexpr double kInf = std::numeric_limits<double>::infinity();
// A ring is written out turn by turn, with some 20 nodes per turn.
constexpr int64_t kMaxRing = 1024;

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
  if (view.count > kMaxRing) return false;
  const Shape &q = view.operands[0].shape(), &k = view.operands[1].shape();
  if (std::min({q[kBatch], q[kSequence], k[kSequence]}) == 0) return false;
  return view.layouts.empty() || LieAlike(view.layouts, q[kBatch]);
}

// Tensors as [n·b,size,..]: the n blocks of their sequence, each on a device of its own, count as more
// examples for the row, those of block 0 first. Elements beyond the ends of the sequences are 0, and not
// seen.
class Ring {
 public:
  // `seen`: the index of the operand with the number of keys that each query sees; there is none if there are
  // fewer operands.
  Ring(const BlockwiseView& view, size_t seen)
      : view_(view),
        graph_(*view.operands[0].graph()),
        batch_(view.operands[0].shape()[kBatch]),
        s_(view.operands[0].shape()[kSequence]),
        t_(view.operands[1].shape()[kSequence]),
        query_size_(Blocks(view, view.operands[0], kSequence).size()),
        key_size_(Blocks(view, view.operands[1], kSequence).size()),
        has_seen_(view.operands.size() > seen) {}

  int64_t count() const { return view_.count; }

  // Each [b,s,..] -> [n·b,size,..].
  std::vector<Value> SplitOperands() const {
    std::vector<Value> blocks;
    for (const Value& x : view_.operands) blocks.push_back(Split(x));
    return blocks;
  }
  Value Split(const Value& x) const {
    return Merged(Swapped(Blocks(view_, x, kSequence).Split(x, /*fill=*/0)), 0);
  }
  // The inverse, in `dtype`, of a sequence of queries or of keys.
  Value Join(const Value& x, DType dtype, bool of_keys = false) const {
    const Value joined = Merged(Swapped(ByDevice(InDType(x, dtype))), kSequence);
    const int64_t size = of_keys ? t_ : s_;
    return joined.shape()[kSequence] == size ? joined : SliceDim(joined, kSequence, 0, size);
  }

  // The blocks of device i go to device i + 1.
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

  // The row's results for each device's blocks alone. Device i has the queries of block i + `queries_from`
  // and the keys of block i + `keys_from`, modulo n. The operands are the first `num_tensors` blocks and,
  // where needed, the number of keys that each query sees.
  std::vector<Value> Run(std::string_view row, const std::vector<Value>& blocks, size_t num_tensors,
                         int64_t queries_from, int64_t keys_from) const {
    std::vector<Operand> operands(blocks.begin(), blocks.begin() + static_cast<int64_t>(num_tensors));
    if (IsPartlySeen() || s_ % count() != 0) {
      const Value keys = BlockFrom(keys_from), queries = BlockFrom(queries_from);
      operands.emplace_back(Seen(has_seen_ ? blocks[num_tensors] : Value(), queries, keys, query_size_));
    }
    const ResolvedOperands at = Resolve(operands);
    return at.graph->Add(row, at.values, {{"scale", view_.attrs.Get<double>("scale")}}, at.location);
  }

  // The row's results for every query and the keys of each device's block: [n·b,s,..].
  std::vector<Value> RunWhole(std::string_view row) const {
    std::vector<Operand> operands = {OnEach(view_.operands[0]), Split(view_.operands[1]),
                                     Split(view_.operands[2])};
    if (IsPartlySeen()) {
      const Value keys = BlockFrom(0);
      const Value seen = has_seen_ ? OnEach(view_.operands[3]) : Value();
      operands.emplace_back(Seen(seen, Value(), keys, s_));
    }
    const ResolvedOperands at = Resolve(operands);
    return at.graph->Add(row, at.values, {{"scale", view_.attrs.Get<double>("scale")}}, at.location);
  }

  // [n·b,size,..] -> [n,b,size,..].
  Value ByDevice(const Value& x) const {
    Shape shape = x.shape();
    shape[0] = batch_;
    shape.insert(shape.begin(), count());
    return Reshape(x, shape);
  }

 private:
  // Whether some query sees some keys of a block and not all.
  bool IsPartlySeen() const { return view_.attrs.Get<bool>("causal") || has_seen_ || t_ % count() != 0; }

  // Per device, the number of the block that is `from` blocks further on in the ring, as i32[n,1,1].
  Value BlockFrom(int64_t from) const {
    const Value device = Iota(graph_, {I32, {count(), 1, 1}}, 0);
    const int64_t ahead = (from % count() + count()) % count();
    if (ahead == 0) return device;
    const auto moved = [&](int64_t by) { return Add(device, static_cast<double>(by)); };
    const Value beyond = moved(ahead - count()), within = moved(ahead);
    return Select(Less(device, static_cast<double>(count() - ahead)), within, beyond);
  }

  // The number of keys of block `keys` that each query sees, as i32[n·b,size]. `seen`: the number that it
  // sees in the whole sequence; invalid: all. `queries`: the block of the queries, where queries beyond the
  // end see nothing; invalid: the queries are the whole sequence. `size`: the number of queries.
  Value Seen(const Value& seen, const Value& queries, const Value& keys, int64_t size) const {
    Value limit = Constant(graph_, static_cast<double>(t_), {I32, {1, 1, 1}});
    Value position = Iota(graph_, {I32, {1, 1, size}}, 2);
    if (queries.valid()) position = Add(Mul(queries, static_cast<double>(size)), position);
    if (view_.attrs.Get<bool>("causal")) limit = Minimum(Add(position, 1.0), limit);
    if (queries.valid() && s_ % count() != 0)
      limit = Select(Less(position, static_cast<double>(s_)), limit, 0.0);
    if (seen.valid()) limit = Minimum(Maximum(ByDevice(seen), 0.0), limit);
    limit = Sub(limit, Mul(keys, static_cast<double>(key_size_)));
    return Merged(BroadcastTo(limit, {count(), batch_, size}, {0, 1, 2}), 0);
  }

  // [b,..], the same for each device: [n·b,..].
  Value OnEach(const Value& x) const {
    Shape shape = x.shape();
    shape.insert(shape.begin(), count());
    std::vector<int64_t> dims(static_cast<size_t>(x.rank()));
    std::iota(dims.begin(), dims.end(), 1);
    LayoutSpec spec(shape.size(), MATCH);
    spec[0] = view_.cut;
    return Merged(Relayout(BroadcastTo(x, shape, dims), spec), 0);
  }

  // x with dims `dim` and dim + 1 joined.
  static Value Merged(const Value& x, int dim) {
    Shape shape = x.shape();
    shape[dim] *= shape[dim + 1];
    shape.erase(shape.begin() + dim + 1);
    return Reshape(x, shape);
  }
  // x with its first two dims swapped.
  static Value Swapped(const Value& x) {
    std::vector<int64_t> permutation(static_cast<size_t>(x.rank()));
    std::iota(permutation.begin(), permutation.end(), 0);
    std::swap(permutation[0], permutation[1]);
    return Transpose(x, permutation);
  }

  const BlockwiseView& view_;
  Graph& graph_;
  const int64_t batch_, s_, t_;
  const int64_t query_size_, key_size_;  // of blocks
  const bool has_seen_;
};

// The result of attention over some keys: o, the mean weighted by shares, and l, the logarithm of the shares'
// denominator, as [n·b,size,h,1]; both in l's dtype.
struct Shares {
  Value o, l;
};

Shares SharesOf(const std::vector<Value>& results) {
  return {InDType(results[0], results[1].dtype()), ExpandDims(results[1], {results[1].rank()})};
}

// The number that weights are relative to. A maximum of -inf, of a query that sees no keys, gives weights of
// 0.
Value Reference(const Value& l) { return Select(Equal(l, -kInf), 0.0, l); }

Shares MergedShares(const Shares& a, const Shares& b) {
  const Value l = LogAddExp(a.l, b.l), reference = Reference(l);
  const Value of_b = Mul(b.o, Exp(Sub(b.l, reference)));
  return {Add(Mul(a.o, Exp(Sub(a.l, reference))), of_b), l};
}

std::vector<Value> RingAttention(const BlockwiseView& view) {
  const Ring ring(view, 3);
  std::vector<Value> in = ring.SplitOperands();
  const std::span<Value> kv = std::span(in).subspan(1, 2);
  Shares sum = SharesOf(ring.Run("attention", in, 3, 0, 0));
  for (int64_t r = 1; r < ring.count(); ++r) {
    ring.Turn(kv);
    sum = MergedShares(sum, SharesOf(ring.Run("attention", in, 3, 0, -r)));
  }
  const Value log_sums = Squeeze(sum.l, {sum.l.rank() - 1});
  return {ring.Join(sum.o, view.operands[0].dtype()), ring.Join(log_sums, log_sums.dtype())};
}

// Each device attends to its own keys; the results are added up, with weights from the log-sums.
std::vector<Value> MergedAttention(const BlockwiseView& view) {
  const Ring ring(view, 3);
  const std::vector<Value> results = ring.RunWhole("attention");
  const DType wide = results[1].dtype();
  const Value o = ring.ByDevice(InDType(results[0], wide)), l = ring.ByDevice(results[1]);
  const Value reference = Reference(ReduceMax(l, {0}));
  const Value weights = Exp(Sub(l, ExpandDims(reference, {0})));
  const Value total = ReduceSum(weights, {0});
  // Reduced here, although the reduction could wait: so one collective reduces it together with `total`.
  const int rank = view.operands[0].rank();
  const Value sum = Relayout(ReduceSum(Mul(o, ExpandDims(weights, {rank})), {0}), LayoutSpec(rank, MATCH));
  const Value share = Div(1.0, total);
  const Value part = Select(Equal(total, 0.0), 0.0, share);
  return {InDType(Mul(sum, ExpandDims(part, {rank - 1})), view.operands[0].dtype()),
          Add(reference, Log(total))};
}

// The number of parts into which these dims are cut; dims with an axis of `but` do not count.
int64_t NumParts(const Layout& layout, std::span<const int> dims, AxisSet but) {
  int64_t parts = 1;
  for (int d : dims)
    if (!layout.IsStrided(d) && !AxisSet(layout.dim(d)).Intersects(but)) parts *= layout.NumShards(d);
  return parts;
}

// Whether merging sends less than bringing the keys and values together: all of them on every device, or by
// an all-to-all those of some examples or heads.
bool MergingPays(const BlockwiseView& view) {
  const Layout &q = view.layouts[0], &k = view.layouts[1], &v = view.layouts[2];
  const AxisSet axes(k.dim(kSequence));
  if (v.IsStrided(kSequence) || v.dim(kSequence) != k.dim(kSequence)) return false;
  const Shape& shape = view.operands[0].shape();
  for (const Layout* layout : {&q, &k, &v})
    if (layout->IsStrided(kBatch) || shape[kBatch] % layout->NumShards(kBatch) != 0) return false;
  const double n = static_cast<double>(view.count), away = (n - 1) / n;
  constexpr int kDims[] = {kBatch, kSequence, kHeads, 3};
  const std::span<const int> all(kDims);
  const int64_t examples = std::max(NumParts(q, all.first(1), axes), NumParts(k, all.first(1), axes));
  // [b,s,h] of q, or [b,s,h,g].
  const std::span<const int> of_rows = all.first(shape.size() - 1);
  const int64_t heads =
      std::max(NumParts(q, of_rows.subspan(kHeads), axes), NumParts(k, all.subspan(kHeads, 1), axes));
  const auto bytes = [](const Value& x, int64_t parts) {
    return static_cast<double>(x.type().bytes()) / static_cast<double>(parts);
  };
  const double rows = static_cast<double>(NumElements(Shape(shape.begin(), shape.end() - 1)));
  const double results =
      rows *
      static_cast<double>((view.operands[2].shape()[3] + 2) * (view.operands[0].dtype() == F64 ? 8 : 4)) /
      static_cast<double>(examples * heads * NumParts(q, all.subspan(kSequence, 1), axes));
  const bool gathers_q = q.ShardedAxes().Intersects(axes);
  const double merged =
      away * (2 * results + (gathers_q ? bytes(view.operands[0], NumParts(q, of_rows, axes)) : 0));
  constexpr int kOfKeys[] = {kBatch, kHeads}, kOfValues[] = {kBatch, kHeads, 3};
  double keys = bytes(view.operands[1], NumParts(k, kOfKeys, axes)) +
                bytes(view.operands[2], NumParts(v, kOfValues, axes));
  const int64_t all_heads = NumElements(Shape(shape.begin() + kHeads, shape.end() - 1));
  if (shape[kBatch] >= view.count * examples || all_heads >= view.count * heads) keys /= n;
  return merged < away * keys;
}

}  // namespace

std::optional<OperandDim> KeysDim(const Attrs& /*attrs*/) {
  return OperandDim{.operand = 1, .dim = kSequence};
}
std::optional<OperandDim> RingDim(const Attrs& attrs) {
  if (!attrs.Get<bool>("ring")) return std::nullopt;
  return KeysDim(attrs);
}

std::vector<Value> AttentionBlockwise(const BlockwiseView& view) {
  const Shape &q = view.operands[0].shape(), &k = view.operands[1].shape();
  if (std::min({q[kBatch], q[kSequence], k[kSequence]}) == 0) return {};
  std::vector<Value> results;
  if (view.attrs.Get<bool>("ring") && CanGoRound(view)) results = RingAttention(view);
  if (view.layouts.empty() || (results.empty() && MergingPays(view))) {
    const std::vector<Value> merged = MergedAttention(view);
    results.insert(results.end(), merged.begin(), merged.end());
  }
  return results;
}

std::vector<Value> RingGradQ(const BlockwiseView& view) {
  if (!CanGoRound(view)) return {};
  const Ring ring(view, 6);
  std::vector<Value> in = ring.SplitOperands();
  const std::span<Value> kv = std::span(in).subspan(1, 2);
  const DType wide = in[4].dtype();
  Value sum = InDType(ring.Run("attention_grad_q", in, 6, 0, 0)[0], wide);
  for (int64_t r = 1; r < ring.count(); ++r) {
    ring.TurnBack(kv);
    sum = Add(sum, InDType(ring.Run("attention_grad_q", in, 6, 0, r)[0], wide));
  }
  return {ring.Join(sum, view.operands[0].dtype())};
}

std::vector<Value> RingGradKv(const BlockwiseView& view) {
  if (!CanGoRound(view)) return {};
  const Ring ring(view, 6);
  std::vector<Value> in = ring.SplitOperands();
  const DType wide = in[4].dtype();
  std::vector<Value> sums;
  for (const Value& x : ring.Run("attention_grad_kv", in, 6, 0, 0)) sums.push_back(InDType(x, wide));
  for (int64_t r = 1; r < ring.count(); ++r) {
    ring.Turn(std::span(in).first(1));
    ring.Turn(std::span(in).subspan(3));
    const std::vector<Value> terms = ring.Run("attention_grad_kv", in, 6, -r, 0);
    for (size_t i = 0; i < sums.size(); ++i) sums[i] = Add(sums[i], InDType(terms[i], wide));
  }
  return {ring.Join(sums[0], view.operands[1].dtype(), /*of_keys=*/true),
          ring.Join(sums[1], view.operands[2].dtype(), /*of_keys=*/true)};
}

}  // namespace meshwork
