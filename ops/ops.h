// The builder functions: how a user's C++ writes nodes. One function per op row, and composites
// (Softmax, LayerNorm, losses) written in terms of them.
//
//   Value h = Relu(MatMul(x, w) + b);      // b: [n] broadcasts against [m,n], aligned at the right
//   Value loss = SparseSoftmaxCrossEntropy(h, labels);
//
// Every function keeps the caller's source line. Mistakes are recorded in the graph (see Graph); an
// invalid operand gives an invalid result.
#pragma once

#include <span>
#include <vector>

#include "ops/graph.h"

namespace meshwork {

// An operand of an elementwise op: a Value, or a number that becomes a scalar of the other
// operand's dtype. Converting keeps the caller's line, so that even `a + b` knows where it stands.
class Operand {
 public:
  Operand(const Value& value, CallSite loc = CallSite::Current())  // NOLINT
      : value_(value), location_(loc) {}
  Operand(double number, CallSite loc = CallSite::Current())  // NOLINT
      : number_(number), location_(loc) {}
  const Value& value() const { return value_; }
  bool is_number() const { return number_.has_value(); }
  double number() const { return *number_; }
  const SourceLocation& location() const { return location_; }

 private:
  Value value_;
  std::optional<double> number_;
  SourceLocation location_;
};

enum class GeluForm { kErf, kTanh };  // exact; approximated by tanh

// ---- Elementwise, with right-aligned broadcast: [m,n] with [n], [1,n], [m,1] or [].
// Numbers are f32, f64, bf16 (reals; bf16 is computed in f32 and rounded once), i32, i64 (whole; overflow
// wraps around). NaN in, NaN out, but for comparisons, tests and casts. Gradients are those of calculus;
// where there is none (a tie, a corner), the comment says what is taken. Errors: shapes that do not
// broadcast, dtypes that differ or that the op does not take.

Value Add(const Operand& a, const Operand& b);
Value Sub(const Operand& a, const Operand& b);
Value Mul(const Operand& a, const Operand& b);
Value Div(const Operand& a, const Operand& b);        // whole: towards zero, x/0 is 0
Value Remainder(const Operand& a, const Operand& b);  // a - trunc(a/b) b, with the sign of a; whole by 0: a
// Reals as std::pow; whole a^-b is 1/a^b towards zero, 0^-b is 0. By b, the gradient is 0 where a <= 0.
Value Pow(const Operand& a, const Operand& b);
Value Maximum(const Operand& a, const Operand& b);  // NaN if either is; of equals a takes the gradient
Value Minimum(const Operand& a, const Operand& b);
Value SquaredDifference(const Operand& a, const Operand& b);  // (a - b)²
Value Atan2(const Operand& y, const Operand& x);              // reals: the angle of (x, y), in (-π, π]
Value Neg(const Operand& x);
Value Abs(const Operand& x);   // gradient 0 at 0
Value Sign(const Operand& x);  // -1, 0, 1; ±0 and NaN stay
Value Square(const Operand& x);
Value Reciprocal(const Operand& x);  // reals
// min(max(x, low), high), whose gradient is 1 from low to high, both included. low, high may be ±infinity.
// Between bounds that are Values, write Minimum(Maximum(x, low), high): the same values and gradients.
// Errors: low above high, NaN, or not whole while x is.
Value Clip(const Operand& x, double low, double high);

// ---- Comparisons, of any dtype, to bool. false < true; NaN is unequal to all, and neither above nor below
// any.
Value Equal(const Operand& a, const Operand& b);
Value NotEqual(const Operand& a, const Operand& b);
Value Less(const Operand& a, const Operand& b);
Value LessEqual(const Operand& a, const Operand& b);
Value Greater(const Operand& a, const Operand& b);
Value GreaterEqual(const Operand& a, const Operand& b);
// Reals -> bool.
Value IsFinite(const Operand& x);  // neither infinite nor NaN
Value IsInf(const Operand& x);
Value IsNan(const Operand& x);

// ---- Elementwise, bools, and whole numbers bit by bit.
Value And(const Operand& a, const Operand& b);
Value Or(const Operand& a, const Operand& b);
Value Xor(const Operand& a, const Operand& b);
Value Not(const Operand& x);
// Whole numbers. An amount that is negative or not below the width shifts all bits out: what is left is 0, or
// -1 where a negative number is shifted right arithmetically.
Value ShiftLeft(const Operand& a, const Operand& b);
Value ShiftRightArithmetic(const Operand& a, const Operand& b);
Value ShiftRightLogical(const Operand& a, const Operand& b);

// where(condition, a, b), of any dtype; condition: bool.
Value Select(const Value& condition, const Operand& a, const Operand& b);

// ---- Elementwise, reals.
Value Exp(const Operand& x);
Value Expm1(const Operand& x);  // exp(x) - 1, exact near 0
Value Log(const Operand& x);
Value Log1p(const Operand& x);  // log(1 + x), exact near 0
Value Sqrt(const Operand& x);
Value Rsqrt(const Operand& x);  // 1 / sqrt(x)
Value Cbrt(const Operand& x);
Value Erf(const Operand& x);
Value Erfc(const Operand& x);
Value Sin(const Operand& x);
Value Cos(const Operand& x);
Value Tan(const Operand& x);
Value Asin(const Operand& x);
Value Acos(const Operand& x);
Value Atan(const Operand& x);
Value Sinh(const Operand& x);
Value Cosh(const Operand& x);
Value Tanh(const Operand& x);
Value Asinh(const Operand& x);
Value Acosh(const Operand& x);
Value Atanh(const Operand& x);
Value Floor(const Operand& x);  // of these four the gradient is 0
Value Ceil(const Operand& x);
Value Round(const Operand& x);  // to the nearest, halves to the even one
Value Trunc(const Operand& x);  // towards zero

// ---- Activations, of reals. At ±infinity they and their gradients have their limits.
Value Relu(const Operand& x);                            // gradient 0 at 0
Value Relu6(const Operand& x);                           // min(max(x, 0), 6); gradient 0 at 0 and 6
Value LeakyRelu(const Operand& x, double alpha = 0.01);  // x > 0 ? x : alpha x; gradient alpha at 0
Value Elu(const Operand& x, double alpha = 1);  // x > 0 ? x : alpha (exp(x) - 1); gradient alpha at 0
Value Selu(const Operand& x);
Value Sigmoid(const Operand& x);
Value Softplus(const Operand& x);  // log(1 + exp(x))
Value Silu(const Operand& x);      // x sigmoid(x), swish
Value Gelu(const Operand& x, GeluForm form = GeluForm::kErf);
Value Mish(const Operand& x);         // x tanh(softplus(x))
Value HardSigmoid(const Operand& x);  // min(max(x + 3, 0), 6) / 6; gradient 0 at ±3
Value HardSilu(const Operand& x);     // x hard_sigmoid(x); gradient -1/2 at -3 and 3/2 at 3

// x as another dtype, rounded once, to the nearest. Real to whole: towards zero, clamped to the range, NaN is
// 0. Between whole numbers high bits are dropped. To bool: x != 0. The gradient passes between reals.
Value Cast(const Operand& x, DType dtype);
// The same value, a constant to gradients.
Value StopGradient(const Operand& x);

inline Value operator+(const Operand& a, const Operand& b) { return Add(a, b); }
inline Value operator-(const Operand& a, const Operand& b) { return Sub(a, b); }
inline Value operator*(const Operand& a, const Operand& b) { return Mul(a, b); }
inline Value operator/(const Operand& a, const Operand& b) { return Div(a, b); }
inline Value operator%(const Operand& a, const Operand& b) { return Remainder(a, b); }
inline Value operator-(const Operand& x) { return Neg(x); }
inline Value operator&(const Operand& a, const Operand& b) { return And(a, b); }
inline Value operator|(const Operand& a, const Operand& b) { return Or(a, b); }
inline Value operator^(const Operand& a, const Operand& b) { return Xor(a, b); }
inline Value operator~(const Operand& x) { return Not(x); }

// ---- Shapes.
// Result dim dims[i] takes operand dim i; the others repeat it. An operand dim of size 1 stretches.
Value BroadcastTo(const Operand& x, const Shape& shape, const std::vector<int64_t>& dims);
Value Reshape(const Operand& x, const Shape& shape);
// Without `dims`, which are of size 1 and increase: [4,1,6] without [1] is [4,6]. Unlike a Reshape it says
// which dim of the result is which of x's, so that every dim stays sharded as it is.
Value Squeeze(const Operand& x, const std::vector<int64_t>& dims);
// With dims of size 1 at `dims` of the result, which increase: [4,6] with [1] is [4,1,6].
Value ExpandDims(const Operand& x, const std::vector<int64_t>& dims);
// Result dim i is operand dim permutation[i].
Value Transpose(const Operand& x, const std::vector<int64_t>& permutation);
// The number of elements of x along `dims`, as a scalar.
Value DimensionSize(const Operand& x, const std::vector<int64_t>& dims, DType dtype);
// x, whose layout is pinned where it is computed; OPEN dims are the compiler's to choose.
// Errors: x is pinned already, a layout that does not fit.
Value WithLayout(const Value& x, const LayoutSpec& layout, CallSite loc = CallSite::Current());
// x, which the compiler may gather whole on every device, however large it is, where an op needs it so. See
// CompileOptions::replication_budget.
Value AllowGather(const Value& x);
// x taken to a layout in the middle of a program; OPEN dims are the compiler's to choose, MATCH dims lie as
// x's do.
Value Relayout(const Operand& x, const LayoutSpec& layout);

// ---- Slices. Dims that are left as they are stay sharded as they are; a dim that is cut, padded or joined
// is gathered first.
// x[start:limit:stride] per dim; stride defaults to 1. Errors: lists that are not one entry per dim, a
// start above its limit, a limit above the size, a stride below 1.
Value Slice(const Operand& x, const std::vector<int64_t>& start, const std::vector<int64_t>& limit,
            const std::vector<int64_t>& stride = {});
// The same along one dim; the others are left as they are.
Value SliceDim(const Operand& x, int64_t dim, int64_t start, int64_t limit, int64_t stride = 1);
// x with low[d] elements of `value` before it along dim d, high[d] after it and interior[d] between each
// two of its own; interior defaults to 0. A negative low or high crops instead, after the interior is laid.
// Errors: lists that are not one entry per dim, more cropped than there is, a value that the dtype lacks.
Value Pad(const Operand& x, const std::vector<int64_t>& low, const std::vector<int64_t>& high,
          double value = 0, const std::vector<int64_t>& interior = {});
// xs one after the other along `dim`; their other dims are equal.
Value Concat(const std::vector<Value>& xs, int64_t dim, CallSite loc = CallSite::Current());
// x backwards along each of `dims`.
Value Reverse(const Operand& x, const std::vector<int64_t>& dims);
// xs along a new dim: n of [a,b], stacked at dim 1, are [a,n,b].
Value Stack(const std::vector<Value>& xs, int64_t dim, CallSite loc = CallSite::Current());
// `parts` slices of equal size along `dim`. Error: the size is no multiple of parts.
std::vector<Value> Split(const Operand& x, int64_t parts, int64_t dim);
// Slices of these sizes along `dim`. Error: they do not add up to its size.
std::vector<Value> SplitSizes(const Operand& x, const std::vector<int64_t>& sizes, int64_t dim);

// ---- Elements by index. indices: i32 or i64, of any shape; one below 0 counts as 0, one beyond the end as
// the last.
// x: [a,n,b] at dim 1, indices: [i,j] -> [a,i,j,b], that is x[:, indices, :]. Sharded along n, each device
// looks up the indices it owns, and the result is their sum.
Value Gather(const Operand& x, const Operand& indices, int64_t dim);
// The transpose of Gather. updates: [a,i,j,b], indices: [i,j] -> zeros of `shape` [a,n,b] to which
// updates[:, i, j, :] is added at [:, indices[i,j], :], in the order of the indices. Numbers only.
Value ScatterAdd(const Operand& updates, const Operand& indices, const Shape& shape, int64_t dim);

// ---- Reductions over `dims`; keep_dims leaves them with size 1. Over no element: the identity, a mean is
// NaN. bf16 is summed and multiplied in float and rounded once; whole numbers wrap around.
Value ReduceSum(const Operand& x, const std::vector<int64_t>& dims, bool keep_dims = false);
Value ReduceMean(const Operand& x, const std::vector<int64_t>& dims, bool keep_dims = false);
// NaN if one is. Elements equal to the extremum share its gradient equally.
Value ReduceMax(const Operand& x, const std::vector<int64_t>& dims, bool keep_dims = false);
Value ReduceMin(const Operand& x, const std::vector<int64_t>& dims, bool keep_dims = false);
// The gradient of a factor is the product of the others, also if some are 0; it is NaN or 0 where the product
// of the factors other than 0 over- or underflows. A gradient of the gradient takes zeros for constants.
Value ReduceProd(const Operand& x, const std::vector<int64_t>& dims, bool keep_dims = false);
// Of bools.
Value ReduceAll(const Operand& x, const std::vector<int64_t>& dims, bool keep_dims = false);
Value ReduceAny(const Operand& x, const std::vector<int64_t>& dims, bool keep_dims = false);
// Index (i32) of the largest (smallest) element along `dim`; ties go to the lowest index, the first NaN wins.
// Error: no element, or more than an i32 counts.
Value Argmax(const Operand& x, int64_t dim);
Value Argmin(const Operand& x, int64_t dim);

// ---- Matrix product: a: […,m,k] ([…,k,m] if transpose_a), b: […,k,n] ([…,n,k] if transpose_b) -> […,m,n].
// The dims before the last two are a batch of matrices and broadcast, right-aligned: [8,1,m,k] and [4,k,n]
// give [8,4,m,n]. bf16 is multiplied and summed in float and rounded once. Errors: a vector, sizes that
// differ.
Value MatMul(const Operand& a, const Operand& b, bool transpose_a = false, bool transpose_b = false);

// ---- Values made in place; any layout, no communication.
Value Constant(Graph& graph, double value, const Type& type, CallSite loc = CallSite::Current());
// 0, 1, 2, … along `dim`.
Value Iota(Graph& graph, const Type& type, int64_t dim, CallSite loc = CallSite::Current());
// x: integers [..] -> [.., depth], 1 where the last index equals x, else 0.
Value OneHot(const Operand& x, int64_t depth, DType dtype);
// Numbers of real `type` [n] from start to stop, both included, at equal distances; a single one is start.
Value Linspace(Graph& graph, double start, double stop, const Type& type, CallSite loc = CallSite::Current());
// type: […,n,m]; 1 where column - row is `offset`, else 0.
Value Eye(Graph& graph, const Type& type, int64_t offset = 0, CallSite loc = CallSite::Current());

// ---- Random numbers keyed by (seed, stream, global element index): bitwise the same in every layout; those
// of bf16 are those of f32, rounded (uniform ones to below high). With `step`, an i64[] that changes from
// step to step, every step has numbers of its own; without it, every step has the same. Errors: a type that
// is not real (bernoulli takes any), bounds that are no distribution, a step that is no i64[].
Value RandomUniform(Graph& graph, const Type& type, int64_t seed, int64_t stream, double low, double high,
                    const Value& step = {}, CallSite loc = CallSite::Current());  // of [low, high)
Value RandomNormal(Graph& graph, const Type& type, int64_t seed, int64_t stream, double mean, double stddev,
                   const Value& step = {}, CallSite loc = CallSite::Current());
// Normal, but never further than 2 stddev from the mean.
Value RandomTruncatedNormal(Graph& graph, const Type& type, int64_t seed, int64_t stream, double mean,
                            double stddev, const Value& step = {}, CallSite loc = CallSite::Current());
// 1 (true) with probability p, else 0.
Value RandomBernoulli(Graph& graph, const Type& type, int64_t seed, int64_t stream, double p,
                      const Value& step = {}, CallSite loc = CallSite::Current());

// ---- Optimizers: the update rules that are rows; train/optimizers.h has them all.
struct AdamResult {
  Value weight, first_moment, second_moment;
};
// w' = w - learning_rate (m̂ / (sqrt(v̂) + epsilon) + weight_decay w), see Adam and AdamW there.
// step: i64 scalar, 1 at the first update.
AdamResult AdamUpdate(const Value& weight, const Value& gradient, const Value& first_moment,
                      const Value& second_moment, const Value& step, double learning_rate, double beta1,
                      double beta2, double epsilon, double weight_decay = 0,
                      CallSite loc = CallSite::Current());

// ---- Composites: written in terms of rows.
// In `dim`s, negative numbers count from the end: -1 is the last dim.

// exp(x) / sum(exp(x)) along `dim`, shifted by the maximum, so that logits of any size are fine. An element
// of -inf has share 0 (a mask); NaN where all are -inf or one is +inf or NaN. Sharded along `dim`: two
// all-reduces of one element per row, and one for the gradient. Errors: no such dim.
Value Softmax(const Operand& x, int64_t dim = -1);
// log(Softmax(x, dim)), without computing the share first: exact where that is 0.
Value LogSoftmax(const Operand& x, int64_t dim = -1);

// ---- Losses. Each is a scalar, the mean over all rows (elements, where there are none).
// Errors: shapes or dtypes that do not fit, which are never broadcast.

// logits: [..,c], labels: integers [..] in [0,c) -> mean of -log_softmax(logits)[label]. A row whose label is
// out of range counts as 0; LoadMnist refuses such labels.
Value SparseSoftmaxCrossEntropy(const Operand& logits, const Operand& labels);
// logits, labels: [..,c], labels are probabilities -> mean over rows of -sum(labels · log_softmax(logits)).
// A class that is masked by -inf adds 0 where its label is 0, and to gradients by the labels the lowest
// number of the dtype.
Value SoftmaxCrossEntropy(const Operand& logits, const Operand& labels);
// logits, labels: [..], labels in [0,1] -> mean of -y log(sigmoid(z)) - (1-y) log(1-sigmoid(z)), as
// max(z,0) - z y + log1p(exp(-|z|)): finite for every finite z, its gradient is sigmoid(z) - y.
Value BinaryCrossEntropyWithLogits(const Operand& logits, const Operand& labels);
// predictions, targets: [..] -> mean of (p - t)².
Value MeanSquaredError(const Operand& predictions, const Operand& targets);
// logits: [..,c], labels: integers [..] -> scalar: the share of rows whose argmax is the label.
Value Accuracy(const Operand& logits, const Operand& labels, DType dtype = F32);

// ---- Dropout and norms.

// Real x, each element 0 with probability `rate`, else x / (1 - rate). The mask is a random_bernoulli of x's
// shape: bitwise the same in every layout, new at every step if there is a `step`; see RandomUniform. Give
// every dropout of a program a stream of its own. Error: rate is not in [0, 1).
Value Dropout(const Operand& x, double rate, int64_t seed, int64_t stream, const Value& step = {});
// (x - mean) / sqrt(variance + epsilon) over `dims`: the mean first, then the mean of the squared deviations
// (mean(x²) - mean² would cancel). Sharded along `dims`: two all-reduces of one element per row, and two
// for the gradient, one after the other. epsilon = 0 makes constant rows NaN. Errors: as ReduceMean's;
// epsilon negative or not finite.
Value Standardize(const Operand& x, const std::vector<int64_t>& dims, double epsilon);
// x: [..,c..], scale, offset: [c..], any number of dims -> Standardize(x, last dims) · scale + offset (Ba et
// al., arXiv 1607.06450, section 3.1).
Value LayerNorm(const Operand& x, const Operand& scale, const Operand& offset, double epsilon = 1e-5);
// x: [..,c..], scale: [c..] -> x / sqrt(mean(x²) + epsilon) · scale (Zhang and Sennrich, arXiv 1910.07467).
Value RmsNorm(const Operand& x, const Operand& scale, double epsilon = 1e-5);

// sqrt of the sum of the squares of all elements of all tensors: a scalar, f64 if a tensor is, else f32.
// Its gradient at 0 is NaN. Errors: a tensor that is not of floats. No tensors, no value.
Value GlobalNorm(std::span<const Value> tensors, CallSite loc = CallSite::Current());
// Every gradient times clip_norm / max(norm, clip_norm), with norm = GlobalNorm(gradients) (Pascanu et al.,
// arXiv 1211.5063, section 3.2). A norm of 0 changes nothing. Where the norm is infinite (its squares
// overflow, too) or NaN all results are NaN, as in TensorFlow: the step shows that it failed.
// Errors: GlobalNorm's; clip_norm not finite or not above 0.
std::vector<Value> ClipByGlobalNorm(std::span<const Value> gradients, double clip_norm,
                                    CallSite loc = CallSite::Current());

}  // namespace meshwork
