// The forms of attention and its gradients, with all scores in memory: [b,h,s,t] or [b,h,s,g,t], where g heads of queries share
// a head of keys. Computed in f32 and rounded once, or in f64.
//
// Keys that no query of the batch sees add nothing, even if they are infinite or NaN; neither do queries that see no key.
#include <limits>
#include <optional>

#include "meshwork/stablehlo/forms.h"

namespace meshwork::stablehlo {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Where the blocks of a sequence, dim 1 of a value, begin and end on each device.
struct SequenceBlocks {
  std::vector<int64_t> starts, ends;
  bool is_full = true;  // no block has padding
};

SequenceBlocks SequenceBlocksOf(const ValueInfo& value, const Mesh& mesh) {
  SequenceBlocks blocks;
  for (int64_t device = 0; device < mesh.num_devices(); ++device) {
    Extent extent{0, value.type.shape[1]};
    if (value.layout.has_value()) extent = value.layout->BlockOf(value.global.shape, device)[1];
    blocks.starts.push_back(extent.start);
    blocks.ends.push_back(extent.start + extent.size);
    blocks.is_full &= extent.size == value.type.shape[1];
  }
  return blocks;
}

class AttentionForm {
 public:
  // `seen`: the index of the operand that has the number of keys that each query sees.
  AttentionForm(const FormView& view, size_t seen)
      : v_(view),
        text_(view.text),
        dtype_(view.operands[0].dtype() == F64 ? F64 : F32),
        is_grouped_(view.operands[0].rank() == 5) {
    const Shape &q = view.operands[0].shape(), &k = view.operands[1].shape();
    scores_ = {dtype_, {q[0], q[2], q[1]}};
    if (is_grouped_) scores_.shape.push_back(q[3]);
    scores_.shape.push_back(k[1]);
    if (const std::optional<HloValue> sees = Sees(seen); sees.has_value()) {
      sees_ = SpreadToScores(*sees, {0, 2, scores_.rank() - 1});
      sees_key_ = text_.Reduce(ReduceOp::kOr, *sees, {1});
      sees_query_ = text_.Reduce(ReduceOp::kOr, *sees, {2});
    }
  }

  HloValues Attend() const {
    const HloValue scores = Seen(Scores(), -kInfinity);
    const HloValue top = text_.Reduce(ReduceOp::kMax, scores, {last()});
    const HloValue lowest = text_.Constant(-kInfinity, top.type), zero = text_.Constant(0, top.type);
    // The difference to a maximum of -inf would be NaN.
    const HloValue shift = text_.Select(text_.Compare("EQ", top, lowest), zero, top);
    const HloValue shares = Seen(Exp(text_.Subtract(scores, OfEachKey(shift))), 0);
    const HloValue total = text_.Reduce(ReduceOp::kSum, shares, {last()});
    const HloValue part = text_.Select(text_.Compare("EQ", total, zero), zero,
                                       text_.Divide(text_.Constant(1, total.type), total));
    const HloValue sums = OverKeys(shares, 2);
    const HloValue result = text_.Multiply(sums, OfEachKey(part, sums.shape().back()));
    const HloValue log_sums = text_.Add(top, text_.Op("stablehlo.log", {total}, total.type));
    return {Result(result, 0), Result(log_sums, 1)};
  }

  HloValues GradQ() const { return {Result(OverKeys(Slopes(Shares()), 1), 0)}; }

  HloValues GradKv() const {
    const HloValue shares = Shares();
    return {Result(OverQueries(Slopes(shares), 0), 0), Result(OverQueries(shares, 3), 1)};
  }

 private:
  int64_t last() const { return scores_.rank() - 1; }
  HloValue Exp(const HloValue& x) const { return text_.Op("stablehlo.exponential", {x}, x.type); }
  HloValue SpreadToScores(const HloValue& x, const std::vector<int64_t>& dims) const {
    return text_.BroadcastInDim(x, scores_.shape, dims);
  }
  // x [b,h,s,(g)] -> [b,h,s,(g),size], as many as there are keys.
  HloValue OfEachKey(const HloValue& x, int64_t size) const {
    Shape shape = x.shape();
    std::vector<int64_t> dims;
    for (int64_t d = 0; d < x.rank(); ++d) dims.push_back(d);
    shape.push_back(size);
    return text_.BroadcastInDim(x, shape, dims);
  }
  HloValue OfEachKey(const HloValue& x) const { return OfEachKey(x, scores_.shape.back()); }

  // ---- What sees what.

  // Per device, a number that is broadcast to `type`.
  HloValue Positions(const std::vector<int64_t>& numbers, const Type& type) const {
    return text_.Broadcast(text_.Convert(text_.OfThisDevice(numbers), type.dtype), type.shape);
  }
  // The smaller one, where there is one already.
  void Limit(std::optional<HloValue>& limit, const HloValue& by) const {
    limit = limit.has_value() ? text_.Minimum(*limit, by) : by;
  }

  // Which keys each query sees, as bool [b,s,t]; nothing if all see all. A query sees the keys before its limit. Padding of a
  // block sees nothing and is not seen.
  std::optional<HloValue> Sees(size_t seen) const {
    const Type type{I32, {scores_.shape[0], scores_.shape[2], scores_.shape.back()}};
    const SequenceBlocks queries = SequenceBlocksOf(v_.operand_info(0), v_.mesh());
    const SequenceBlocks keys = SequenceBlocksOf(v_.operand_info(1), v_.mesh());
    const bool is_causal = v_.attrs().Get<bool>("causal"), is_full = queries.is_full && keys.is_full;
    std::optional<HloValue> limit;
    if (!is_full) limit = Positions(keys.ends, type);
    if (v_.operands.size() > seen) Limit(limit, text_.BroadcastInDim(v_.operands[seen], type.shape, {0, 1}));
    if (!limit.has_value() && !is_causal) return std::nullopt;
    const HloValue query = text_.Add(text_.Iota(type, 1), Positions(queries.starts, type));
    if (is_causal) Limit(limit, text_.Add(query, text_.WholeConstant(1, type)));
    const HloValue key = text_.Add(text_.Iota(type, 2), Positions(keys.starts, type));
    const HloValue sees = text_.Compare("LT", key, *limit);
    if (is_full) return sees;
    return text_.Op("stablehlo.and", {sees, text_.Compare("LT", query, Positions(queries.ends, type))},
                    sees.type);
  }

  // Scores, with `number` for keys that are not seen.
  HloValue Seen(const HloValue& scores, double number) const {
    return sees_.has_value() ? text_.Select(*sees_, scores, text_.Constant(number, scores.type)) : scores;
  }
  // Operand i, 0 in rows [b,row] that are not `seen`.
  HloValue SeenRows(size_t i, const std::optional<HloValue>& seen) const {
    const HloValue x = v_.Wide(i);
    if (!seen.has_value()) return x;
    return text_.Select(text_.BroadcastInDim(*seen, x.shape(), {0, 1}), x, text_.Constant(0, x.type));
  }

  // ---- Products.

  // Operand `of_queries` times operand `of_keys`, over their last dim: scores.
  HloValue Products(size_t of_queries, size_t of_keys) const {
    const HloValue &a = v_.operands[of_queries], &b = v_.operands[of_keys];
    return text_.DotGeneral(a, b, {0, 2}, {0, 2}, {a.rank() - 1}, {3}, dtype_);
  }
  HloValue Scores() const {
    const HloValue products = Products(0, 1);
    return text_.Multiply(products, Scale());
  }
  HloValue Scale() const { return text_.Constant(v_.attrs().Get<double>("scale"), scores_); }
  // Weights of the keys times operand i, which has a row for each: [b,h,s,(g),·]
  HloValue OverKeys(const HloValue& weights, size_t i) const {
    return text_.DotGeneral(weights, SeenRows(i, sees_key_), {0, 1}, {0, 2}, {last()}, {1}, dtype_);
  }
  // Weights of the queries times operand i, which has a row for each: [b,h,t,·]
  HloValue OverQueries(const HloValue& weights, size_t i) const {
    const std::vector<int64_t> of_weights =
        is_grouped_ ? std::vector<int64_t>{2, 3} : std::vector<int64_t>{2};
    const std::vector<int64_t> of_rows = is_grouped_ ? std::vector<int64_t>{1, 3} : std::vector<int64_t>{1};
    return text_.DotGeneral(weights, SeenRows(i, sees_query_), {0, 1}, {0, 2}, of_weights, of_rows, dtype_);
  }

  // ---- Gradients: operands q, k, v, the gradient of the result, log-sums, shifts.

  // Operand i [b,s,h,(g)] for each key.
  HloValue OfEachQuery(size_t i) const {
    std::vector<int64_t> dims = {0, 2, 1};
    if (is_grouped_) dims.push_back(3);
    return SpreadToScores(v_.operands[i], dims);
  }
  HloValue Shares() const {
    const HloValue log_sums = OfEachQuery(4);
    const HloValue lowest = text_.Constant(-kInfinity, scores_), highest = text_.Constant(kInfinity, scores_);
    // Of a query without shares.
    const HloValue sums = text_.Select(text_.Compare("EQ", log_sums, lowest), highest, log_sums);
    return Seen(Exp(text_.Subtract(Scores(), sums)), 0);
  }
  // The gradients of the scores.
  HloValue Slopes(const HloValue& shares) const {
    const HloValue slopes = text_.Subtract(Products(3, 2), OfEachQuery(5));
    return Seen(text_.Multiply(text_.Multiply(shares, slopes), Scale()), 0);
  }

  // [b,h,rows,..] as result r, [b,rows,h,..].
  HloValue Result(const HloValue& x, size_t r) const {
    std::vector<int64_t> order = {0, 2, 1};
    for (int64_t d = 3; d < x.rank(); ++d) order.push_back(d);
    return text_.Convert(text_.Transpose(x, order), v_.result(r).dtype);
  }

  const FormView& v_;
  HloText& text_;
  const DType dtype_;
  const bool is_grouped_;
  Type scores_;
  std::optional<HloValue> sees_;  // of the shape of the scores; nothing if all see all
  std::optional<HloValue> sees_key_,
      sees_query_;  // [b,t]: whether a query sees the key; [b,s]: whether the query sees a key
};

absl::StatusOr<HloValues> AttentionValue(const FormView& v) { return AttentionForm(v, 3).Attend(); }
absl::StatusOr<HloValues> AttentionGradQ(const FormView& v) { return AttentionForm(v, 6).GradQ(); }
absl::StatusOr<HloValues> AttentionGradKv(const FormView& v) { return AttentionForm(v, 6).GradKv(); }

constexpr NamedForm kAttentionForms[] = {
    {"attention", AttentionValue},
    {"attention_grad_q", AttentionGradQ},
    {"attention_grad_kv", AttentionGradKv},
};

}  // namespace

std::span<const NamedForm> AttentionForms() { return kAttentionForms; }

}  // namespace meshwork::stablehlo
