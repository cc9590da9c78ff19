// The attention family: softmax(scale · q kᵀ) v by heads, and its gradients, in tiles
// (ops/kernels/blas/attention.h); with a mask, a window, a soft cap or dropout, in terms of other rows.
//
// q: [b,s,h,d], k: [b,t,h,d], v: [b,t,h,e] as projections leave them; q: [b,s,h,g,d] where g heads of queries
// share a head of keys. seen: [b,s], if it is there: the number of keys, the first ones, that each query
// sees. The sequence of queries may be sharded; positions count in the whole sequence. The sequence of keys
// is gathered, or stays sharded and the parts of the result are merged, or its blocks go round if the user
// asks for that (ops/ring_attention.h). Gradients are two rows: the gradient of q is a sum over the keys, the
// gradients of k and v are sums over the queries, and either sequence may be sharded. The gradients of these
// rows are written in terms of other rows.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "absl/strings/str_replace.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/builder.h"
#include "meshwork/ir/gradients.h"
#include "meshwork/ops/families.h"
#include "meshwork/ops/hyperparameters.h"
#include "meshwork/ops/kernels/attention_sizes.h"
#include "meshwork/ops/ops.h"
#include "meshwork/ops/ring_attention.h"

namespace meshwork {
namespace {

// Whether q is [b,s,h,g,d].
bool IsGrouped(const Type& q) { return q.rank() == 5; }

// Whether `heads` heads of queries share `of_keys` heads of keys.
bool CanGroup(int64_t heads, int64_t of_keys) {
  return heads != of_keys && of_keys > 0 && heads % of_keys == 0;
}

// q: [b,s,h·g,d] -> [b,s,h,g,d].
Type WithSplitHeads(Type q, int64_t of_keys) {
  const int64_t group = q.shape[2] / of_keys;
  q.shape[2] = of_keys;
  q.shape.insert(q.shape.begin() + 3, group);
  return q;
}

// Advice for shapes that do not fit.
std::string HowToFitHeads(const Type& q, const Type& k, const Type& v) {
  if ((q.rank() != 4 && !IsGrouped(q)) || k.rank() != 4 || v.rank() != 4)
    return "Reshape each to 4 dims, heads third";
  const bool can_group = !IsGrouped(q) && k.shape[2] == v.shape[2] && CanGroup(q.shape[2], k.shape[2]);
  const auto differs = [](const Type& a, const Type& b, int dim, std::string_view letter) {
    return a.shape[dim] == b.shape[dim]
               ? std::string()
               : fmt::format("make {} one size, not {} and {}", letter, a.shape[dim], b.shape[dim]);
  };
  for (const auto& told : {differs(q, k, 0, "b"), differs(k, v, 0, "b"), differs(k, v, 1, "t"),
                           can_group ? std::string() : differs(q, k, 2, "h"), differs(k, v, 2, "h")})
    if (!told.empty()) return told;
  if (q.shape.back() != k.shape[3])
    return fmt::format("make d one size, not {} and {}", q.shape.back(), k.shape[3]);
  if (can_group) return fmt::format("Reshape q to {}", WithSplitHeads(q, k.shape[2]).ToString());
  return "";
}

absl::Status CheckOperands(const OpView& view) {
  const Type &q = view.operands[0], &k = view.operands[1], &v = view.operands[2];
  const bool fits = (q.rank() == 4 || IsGrouped(q)) && k.rank() == 4 && v.rank() == 4 &&
                    q.shape[0] == k.shape[0] && k.shape[0] == v.shape[0] && k.shape[1] == v.shape[1] &&
                    q.shape[2] == k.shape[2] && k.shape[2] == v.shape[2] && q.shape.back() == k.shape[3];
  if (!fits)
    return InvalidArgument(
        "q is {}, k {}, v {}; they must be [b,s,h,d] or [b,s,h,g,d], [b,t,h,d] and [b,t,h,e]: {}.",
        q.ToString(), k.ToString(), v.ToString(), HowToFitHeads(q, k, v));
  if (!IsFloat(q.dtype) || k.dtype != q.dtype || v.dtype != q.dtype)
    return InvalidArgument("q is {}, k {}, v {}; they must be f32, f64 or bf16, all alike.", q.ToString(),
                           k.ToString(), v.ToString());
  return CheckFinite("scale", view.attrs.Get<double>("scale"));
}

// Checks operand `at`, if it is there: the number of keys that each query sees.
absl::Status CheckSeen(const OpView& view, size_t at) {
  if (view.operands.size() <= at) return absl::OkStatus();
  const Type& q = view.operands[0];
  const Type seen{I32, {q.shape[0], q.shape[1]}};
  if (view.operands[at] == seen) return absl::OkStatus();
  return InvalidArgument("how many keys a query sees is {}; it must be {}, one per query.",
                         view.operands[at].ToString(), seen.ToString());
}

// The type of the result, [b,s,h,e] or [b,s,h,g,e].
Type ResultType(const OpView& view) {
  Type type = view.operands[0];
  type.shape.back() = view.operands[2].shape[3];
  return type;
}

// The type of values with one element per query and head, [b,s,h] or [b,s,h,g].
Type RowType(const OpView& view) {
  Type type = view.operands[0];
  type.dtype = type.dtype == F64 ? F64 : F32;
  type.shape.pop_back();
  return type;
}

absl::StatusOr<std::vector<Type>> InferAttention(const OpView& view) {
  MESHWORK_RETURN_IF_ERROR(CheckOperands(view));
  MESHWORK_RETURN_IF_ERROR(CheckSeen(view, 3));
  return std::vector<Type>{ResultType(view), RowType(view)};
}

absl::Status CheckGradOperands(const OpView& view) {
  MESHWORK_RETURN_IF_ERROR(CheckOperands(view));
  const Type result = ResultType(view), row = RowType(view);
  if (view.operands[3] == result && view.operands[4] == row && view.operands[5] == row)
    return CheckSeen(view, 6);
  return InvalidArgument("the gradient is {}, log-sums are {}, shifts {}; they must be {}, {} and {}.",
                         view.operands[3].ToString(), view.operands[4].ToString(),
                         view.operands[5].ToString(), result.ToString(), row.ToString(), row.ToString());
}

absl::StatusOr<std::vector<Type>> InferGradQ(const OpView& view) {
  MESHWORK_RETURN_IF_ERROR(CheckGradOperands(view));
  return std::vector<Type>{view.operands[0]};
}

absl::StatusOr<std::vector<Type>> InferGradKv(const OpView& view) {
  MESHWORK_RETURN_IF_ERROR(CheckGradOperands(view));
  return std::vector<Type>{view.operands[1], view.operands[2]};
}

// The rule of `text`, where "bsh" stands for "bshg" if heads are grouped, and with the operand `seen` if it is there.
Rule SeenRule(const OpView& view, size_t seen, std::string_view operands, std::string_view results) {
  std::string text = fmt::format("{}{}->{}", operands, view.operands.size() > seen ? ",bs" : "", results);
  if (IsGrouped(view.operands[0])) text = absl::StrReplaceAll(text, {{"bsh", "bshg"}});
  return MakeRule(text, view.operands, view.results);
}
Rule AttentionRule(const OpView& view) { return SeenRule(view, 3, "bshd!,bt!hd,bthe", "bshe,bsh"); }

// Once the log-sums over all keys are known, the term of a query and a key depends on no other pair. The
// gradient of q sums over keys, those of k and v over queries.
Rule GradQRule(const OpView& view) { return SeenRule(view, 6, "bshd!,bthd,bthe!,bshe,bsh,bsh", "bshd"); }
Rule GradKvRule(const OpView& view) {
  return SeenRule(view, 6, "bshd!,bthd,bthe!,bshe,bsh,bsh", "bthd,bthe");
}

// The share p of a key is exp(score - log-sum). With g the gradient of the result and l that of the log-sum,
// the gradient of the score is p (g·v - shift), shift = g·result - l (Dao et al., arXiv 2205.14135, appendix
// B.4).
std::vector<Value> AttentionGrad(const GradView& view) {
  const Value &q = view.operands[0], &k = view.operands[1], &v = view.operands[2];
  const Value &out = view.results[0], &log_sums = view.results[1];
  Graph& graph = *q.graph();
  const DType dtype = log_sums.dtype();
  const Value g = view.result_grads[0].valid() ? view.result_grads[0] : Constant(graph, 0, Type(out.type()));
  Value shift = ReduceSum(Mul(InDType(g, dtype), InDType(out, dtype)), {out.rank() - 1});
  if (view.result_grads[1].valid()) shift = Sub(shift, view.result_grads[1]);
  std::vector<Value> operands = {q, k, v, g, log_sums, shift};
  operands.insert(operands.end(), view.operands.begin() + 3, view.operands.end());
  const Value dq = graph.Add("attention_grad_q", operands, view.attrs, view.location)[0];
  const std::vector<Value> dkv = graph.Add("attention_grad_kv", operands, view.attrs, view.location);
  std::vector<Value> grads = {dq, dkv[0], dkv[1]};
  grads.resize(view.operands.size());
  return grads;
}

// An einsum of attention for q: [b,s,h,d], in which h stands for h and g if q is [b,s,h,g,d]: "bshd,bthd->bhst" is
// "bshgd,bthd->bhgst" then, as keys have no g.
Value HeadsEinsum(const Value& q, std::string equation, const std::vector<Value>& operands) {
  if (IsGrouped(q.type())) absl::StrReplaceAll({{"bsh", "bshg"}, {"bhs", "bhgs"}}, &equation);
  return Einsum(equation, operands);
}

// Whether each query sees each key, as bool [1,1,s,t] or [b,1,s,t] for scores [b,h,s,t], and with one dim of 1 more for
// scores [b,h,g,s,t]; invalid if all queries see all keys. operands[seen], if it is there, is the number of keys that each
// query sees. window: of these keys, only so many, the last ones; 0: all.
Value IsSeen(std::span<const Value> operands, size_t seen, bool causal, int64_t window = 0) {
  if (window >= operands[1].shape()[1]) window = 0;
  if (!causal && operands.size() <= seen) return {};
  Graph& graph = *operands[0].graph();
  const int64_t s = operands[0].shape()[1], t = operands[1].shape()[1];
  const int rank = operands[0].rank();
  const auto along = [&](int64_t size, int dim) {
    Shape shape(static_cast<size_t>(rank), 1);
    shape[dim] = size;
    return Iota(graph, {I32, shape}, dim);
  };
  const Value key = along(t, rank - 1);
  Value sees;
  // end: where the keys end that a query sees.
  const auto within_window = [&](const Value& end) {
    const Value first = Sub(Minimum(end, static_cast<double>(t)), static_cast<double>(window));
    return And(sees, GreaterEqual(key, first));
  };
  const Value place = causal ? along(s, rank - 2) : Value();
  if (causal) sees = GreaterEqual(place, key);
  if (operands.size() <= seen) return window == 0 ? sees : within_window(Add(place, 1.0));
  // [b,s] -> [b,1,..,s,1]
  std::vector<int64_t> new_dims;
  for (int d = 1; d < rank; ++d)
    if (d != rank - 2) new_dims.push_back(d);
  const Value count = ExpandDims(operands[seen], new_dims), before = Less(key, count);
  sees = sees.valid() ? And(sees, before) : before;
  if (window == 0) return sees;
  return within_window(causal ? Minimum(count, Add(place, 1.0)) : count);
}

// The gradients' rows with all scores in memory: operands q, k, v, the gradient of the result, log-sums,
// shifts -> the gradients of q, k and v.
std::vector<Value> GradForm(const std::vector<Value>& in, const Attrs& attrs) {
  Graph& graph = *in[0].graph();
  const DType dtype = in[4].dtype();
  const Value q = InDType(in[0], dtype), k = InDType(in[1], dtype), v = InDType(in[2], dtype),
              g = InDType(in[3], dtype);
  const double scale = attrs.Get<double>("scale");
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const auto einsum = [&](const char* equation, const Value& a, const Value& b) {
    return HeadsEinsum(in[0], equation, {a, b});
  };
  // [b,s,h] -> [b,h,s,1], or [b,s,h,g] -> [b,h,g,s,1]
  const auto per_query = [](const Value& x) {
    return x.rank() == 3 ? ExpandDims(Transpose(x, {0, 2, 1}), {3})
                         : ExpandDims(Transpose(x, {0, 2, 3, 1}), {4});
  };
  const Value log_sums = Select(Equal(in[4], -kInf), kInf, in[4]);
  Value score = Sub(Mul(einsum("bshd,bthd->bhst", q, k), scale), per_query(log_sums));
  Value slope = Sub(einsum("bshe,bthe->bhst", g, v), per_query(in[5]));
  if (const Value sees = IsSeen(in, 6, attrs.Get<bool>("causal")); sees.valid()) {
    std::vector<int64_t> dims(static_cast<size_t>(score.rank()));
    std::iota(dims.begin(), dims.end(), 0);
    const Value all = BroadcastTo(sees, score.shape(), dims);
    score = Select(all, score, Constant(graph, -kInf, score.type()));
    slope = Select(all, slope, Constant(graph, 0, slope.type()));
  }
  const Value share = Exp(score);
  const Value of_score = Mul(Mul(share, slope), scale);
  const auto as = [](const Value& x, const Value& like) { return InDType(x, like.dtype()); };
  return {as(einsum("bhst,bthd->bshd", of_score, k), in[0]),
          as(einsum("bhst,bshd->bthd", of_score, q), in[1]), as(einsum("bhst,bshe->bthe", share, g), in[2])};
}
std::vector<Value> GradQGrad(const GradView& view) {
  return GradientOfForm(view, [&](const std::vector<Value>& operands) {
    return std::vector<Value>{GradForm(operands, view.attrs)[0]};
  });
}
std::vector<Value> GradKvGrad(const GradView& view) {
  return GradientOfForm(view, [&](const std::vector<Value>& operands) {
    const std::vector<Value> all = GradForm(operands, view.attrs);
    return std::vector<Value>{all[1], all[2]};
  });
}

// The operations of `with_d` products over d and `with_e` products over e, for every query and key; half as
// many if causal.
double Flops(const OpView& view, double with_d, double with_e) {
  const AttentionSizes z =
      AttentionSizesOf(view.operands[0], view.operands[1], view.operands[2], false, view.attrs);
  const double scores =
      static_cast<double>(z.b * z.h * z.g) * static_cast<double>(z.s) * static_cast<double>(z.t);
  const double each = 2 * (with_d * static_cast<double>(z.d) + with_e * static_cast<double>(z.e)) + 5;
  return scores * each * (z.causal ? 0.5 : 1.0);
}

double AttentionFlops(const OpView& view) { return Flops(view, 1, 1); }
double GradQFlops(const OpView& view) { return Flops(view, 2, 1); }
double GradKvFlops(const OpView& view) { return Flops(view, 2, 2); }

std::vector<AttrSpec> Attributes() {
  return {{"scale", AttrKind::kFloat}, {"causal", AttrKind::kBool, false}, {"ring", AttrKind::kBool, false}};
}

OpRow GradRow(std::string_view name, std::string_view doc, int num_results,
              absl::StatusOr<std::vector<Type>> (*infer)(const OpView&), Rule (*rule)(const OpView&),
              std::vector<Value> (*blockwise)(const BlockwiseView&),
              std::vector<Value> (*grad)(const GradView&), double (*flops)(const OpView&)) {
  return {
      .name = name,
      .doc = doc,
      .num_operands = 6,
      .optional_operands = 1,
      .num_results = num_results,
      .attrs = Attributes(),
      .infer = infer,
      .rule = rule,
      .blockwise = blockwise,
      .blockwise_at = RingDim,
      .grad = grad,
      .flops = flops,
      .is_product = true,
      .reads_block = true,
      .samples =
          {"f32[2,6,2,5], f32[2,4,2,5], f32[2,4,2,3], f32[2,6,2,3], f32[2,6,2], f32[2,6,2]; scale=0.5",
           "f64[2,6,2,4], f64[2,6,2,4], f64[2,6,2,4], f64[2,6,2,4], f64[2,6,2], f64[2,6,2], i32[2,6]; "
           "scale=0.5 causal=true",
           "bf16[2,4,2,4], bf16[2,6,2,4], bf16[2,6,2,4], bf16[2,4,2,4], f32[2,4,2], f32[2,4,2]; "
           "scale=0.5 causal=true",
           "f64[2,4,2,3,4], f64[2,6,2,4], f64[2,6,2,3], f64[2,4,2,3,3], f64[2,4,2,3], f64[2,4,2,3], i32[2,4]; "
           "scale=0.5 causal=true"},
      .sample_int_low = 0,
      .sample_int_high = 8};
}

}  // namespace

AttentionSizes AttentionSizesOf(const Type& q, const Type& k, const Type& v, bool has_seen,
                                const Attrs& attrs) {
  return {.b = q.shape[0],
          .s = q.shape[1],
          .t = k.shape[1],
          .h = q.shape[2],
          .g = IsGrouped(q) ? q.shape[3] : 1,
          .d = q.shape.back(),
          .e = v.shape[3],
          .causal = attrs.Get<bool>("causal"),
          .has_seen = has_seen,
          .scale = attrs.Get<double>("scale")};
}

std::span<const OpRow> AttentionOps() {
  static const auto* rows = new std::vector<OpRow>{
      {.name = "attention",
       .doc =
           "softmax over t of scale q[b,s,h,:]·k[b,t,h,:], times v[b,t,h,e]; and the logarithm of its "
           "denominator; q[b,s,h,g,:]: g heads share one of k and v; causal: t up to s; a 4th operand i32[b,s]: the "
           "first so many t; 0 and -inf where nothing is seen",
       .num_operands = 3,
       .optional_operands = 1,
       .num_results = 2,
       .attrs = Attributes(),
       .infer = InferAttention,
       .rule = AttentionRule,
       .blockwise = AttentionBlockwise,
       .blockwise_at = KeysDim,
       .grad = AttentionGrad,
       .flops = AttentionFlops,
       .is_product = true,
       .reads_block = true,
       .samples = {"f32[2,6,2,5], f32[2,4,2,5], f32[2,4,2,3]; scale=0.5",
                   "f64[2,6,2,4], f64[2,6,2,4], f64[2,6,2,4]; scale=0.5 causal=true",
                   "bf16[2,4,2,4], bf16[2,6,2,4], bf16[2,6,2,4]; scale=0.5 causal=true",
                   "f64[2,6,2,4], f64[2,6,2,4], f64[2,6,2,3]; scale=0.5 causal=true ring=true",
                   "f64[2,4,2,2], f64[2,6,2,2], f64[2,6,2,3], i32[2,4]; scale=0.5",
                   // Its keys are merged.
                   "f64[2,1,2,2], f64[2,9,2,2], f64[2,9,2,3], i32[2,1]; scale=0.5",
                   "f64[2,4,2,3,4], f64[2,6,2,4], f64[2,6,2,3], i32[2,4]; scale=0.5 causal=true"},
       .sample_int_low = 0,
       .sample_int_high = 8},
      GradRow("attention_grad_q",
              "q, k, v, the gradient of the result, log-sums, shifts -> the gradient of q; a 7th operand as "
              "attention's 4th",
              /*num_results=*/1, InferGradQ, GradQRule, RingGradQ, GradQGrad, GradQFlops),
      GradRow(
          "attention_grad_kv",
          "q, k, v, the gradient of the result, log-sums, shifts -> the gradients of k and v; a 7th operand "
          "as attention's 4th",
          /*num_results=*/2, InferGradKv, GradKvRule, RingGradKv, GradKvGrad, GradKvFlops),
  };
  return *rows;
}

// Checks the operands here, so that errors name attention and not the rows that it is composed of.
bool CheckComposite(const ResolvedOperands& at, double scale, const AttentionOptions& options) {
  std::vector<Type> operands;
  for (const Value& x : at.values) operands.push_back(x.type());
  const Attrs attrs = {{"scale", scale}};
  const OpView view{operands, {}, attrs};
  absl::Status status = CheckOperands(view);
  if (status.ok()) status = CheckSeen(view, 3);
  if (status.ok() && options.soft_cap != 0) status = CheckPositive("soft_cap", options.soft_cap);
  if (status.ok() && options.window < 0)
    status = InvalidArgument("window={}; give the number of keys that a query sees, or 0 for all.",
                             options.window);
  if (status.ok() && options.window > 0 && !options.causal && at.values.size() <= 3)
    status = InvalidArgument("window={} needs `causal` or `seen`, which say where a query's keys end.",
                             options.window);
  if (!status.ok()) {
    RecordMistake(at, "attention", "{}", MessageOf(status));
    return false;
  }
  if (!options.mask.valid()) return true;
  const Value& mask = options.mask;
  const Shape &q = operands[0].shape, &k = operands[1].shape;
  const Shape scores = {q[0], IsGrouped(operands[0]) ? q[2] * q[3] : q[2], q[1], k[1]};
  const absl::StatusOr<Shape> both = BroadcastShapes({mask.type(), {BOOL, scores}});
  if (mask.dtype() == BOOL && both.ok() && *both == scores) return true;
  RecordMistake(at, "attention", "the mask is {}; it must be bool and broadcast to {}.",
                mask.type().ToString(), Type{BOOL, scores}.ToString());
  return false;
}

// mask, which broadcasts to [b,h·g,s,t], for scores [b,h,g,s,t].
Value GroupedMask(const Value& mask, int64_t heads, int64_t group) {
  if (mask.rank() < 3) return mask;
  Shape shape = mask.shape();
  const size_t at = shape.size() - 3;
  if (shape[at] == 1) {
    shape.insert(shape.begin() + static_cast<int64_t>(at), 1);
  } else {
    shape[at] = group;
    shape.insert(shape.begin() + static_cast<int64_t>(at), heads);
  }
  return Reshape(mask, shape);
}

// Whether the row `attention` lacks something that is asked for.
bool IsComposite(const AttentionOptions& options) {
  return options.mask.valid() || options.window != 0 || options.soft_cap != 0 || options.drop != nullptr;
}

// Attention with all scores in memory.
Value CompositeAttention(const ResolvedOperands& at, double scale, const AttentionOptions& options) {
  if (!CheckComposite(at, scale, options)) return {};
  const Value& q = at.values[0];
  Value scores = Mul(HeadsEinsum(q, "bshd,bthd->bhst", {q, at.values[1]}), scale);
  if (options.soft_cap > 0) scores = Mul(Tanh(Div(scores, options.soft_cap)), options.soft_cap);
  const double unseen = -std::numeric_limits<double>::infinity();
  if (options.mask.valid()) {
    const Value mask =
        IsGrouped(q.type()) ? GroupedMask(options.mask, q.shape()[2], q.shape()[3]) : options.mask;
    scores = Select(mask, scores, unseen);
  }
  if (const Value sees = IsSeen(at.values, 3, options.causal, options.window); sees.valid())
    scores = Select(sees, scores, unseen);
  Value shares = Softmax(scores);
  if (options.drop != nullptr) shares = options.drop(shares);
  return HeadsEinsum(q, "bhst,bthe->bshe", {shares, at.values[2]});
}

// q: [b,s,h·g,d] -> [b,s,h,g,d], if k has h heads, g is not 1, and all operands fit.
bool SplitHeads(ResolvedOperands& at, const Attrs& attrs) {
  Value& q = at.values[0];
  const Type &of_q = q.type(), &of_k = at.values[1].type();
  if (of_q.rank() != 4 || of_k.rank() != 4 || !CanGroup(of_q.shape[2], of_k.shape[2])) return false;
  const Type split = WithSplitHeads(of_q, of_k.shape[2]);
  const std::vector<Type> operands = {split, of_k, at.values[2].type()};
  if (!CheckOperands({operands, {}, attrs}).ok()) return false;
  q = Reshape(q, split.shape);
  return true;
}

Value Attention(const Operand& q, const Operand& k, const Operand& v, const AttentionOptions& options) {
  std::vector<Operand> operands = {q, k, v};
  if (options.seen.valid()) operands.emplace_back(options.seen);
  ResolvedOperands at = Resolve(operands);
  if (at.graph == nullptr) return {};
  const LocationScope scope(*at.graph, at.location);
  const Type& type = at.values[0].type();
  const double dims = type.rank() == 0 ? 1 : static_cast<double>(std::max<int64_t>(type.shape.back(), 1));
  const double scale = options.scale.value_or(1 / std::sqrt(dims));
  const Attrs attrs = {{"scale", scale}, {"causal", options.causal}, {"ring", options.ring}};
  const bool is_split = SplitHeads(at, attrs);
  const Value y = IsComposite(options) ? CompositeAttention(at, scale, options)
                                       : at.graph->Add("attention", at.values, attrs, at.location)[0];
  if (!is_split || !y.valid()) return y;
  Shape shape = y.shape();  // [b,s,h,g,e]
  shape[2] *= shape[3];
  shape.erase(shape.begin() + 3);
  return Reshape(y, shape);
}

}  // namespace meshwork
