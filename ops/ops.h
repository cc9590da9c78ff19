// The builder functions: how a user's C++ writes nodes. One function per op row, and composites
// (Softmax, LayerNorm, losses) written in terms of them.
//
//   Value h = Relu(MatMul(x, w) + b);      // b: [n] broadcasts against [m,n], aligned at the right
//   Value loss = SparseSoftmaxCrossEntropy(h, labels);
//
// Every function keeps the caller's source line. Mistakes are recorded in the graph (see Graph); an
// invalid operand gives an invalid result.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <utility>
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

// ---- Special functions of reals.
Value Exp2(const Operand& x);
Value Log2(const Operand& x);
Value Log10(const Operand& x);
Value LogGamma(const Operand& x);  // log |Γ(x)|
Value Digamma(const Operand& x);   // its derivative, Polygamma(x, 0)
// Its derivative of order + 1, order from 0 to 100. At 0, -1, …: ∞ where order is odd, else NaN.
Value Polygamma(const Operand& x, int64_t order);
Value ErfInv(const Operand& x);                       // ±∞ at ±1, NaN beyond
Value LogAddExp(const Operand& a, const Operand& b);  // log(exp(a) + exp(b)), for all sizes of a and b
Value Hypot(const Operand& a, const Operand& b);      // sqrt(a² + b²); gradient 0 at (0, 0)
Value XLogY(const Operand& x,
            const Operand& y);  // x log(y); 0 where x is 0 and y no NaN, and so its gradients
Value Sinc(const Operand& x);   // sin(πx) / (πx)
// ---- Quotients of other kinds.
Value FloorDiv(const Operand& a, const Operand& b);  // floor(a / b), of whole numbers, too (x/0 is 0)
Value FloorMod(const Operand& a, const Operand& b);  // a - floor(a/b) b, with the sign of b; whole by 0: a
Value DivNoNan(const Operand& a, const Operand& b);  // a / b; 0 where b is 0, and so its gradients
// ---- Bits.
Value Popcount(const Operand& x);           // whole: how many bits are set
Value CountLeadingZeros(const Operand& x);  // whole: how many bits are 0 before the first that is set
// The bits of x as those of another dtype of the same size: f32 and i32, f64 and i64.
Value Bitcast(const Operand& x, DType dtype);

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
Value LogSigmoid(const Operand& x);   // -softplus(-x)
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
// [n,a,b] -> [n, a · b]: the dims from `dim` on as one. Error: no such dim.
Value Flatten(const Operand& x, int64_t dim = 1);
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

// ---- Slices. Every dim may stay sharded: along one that is cut, padded or joined the devices exchange what
// their blocks of the result are put together of, and nothing else.
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
// x with element i along `dim` moved to i + shift; what leaves at one end comes in at the other.
Value Roll(const Operand& x, int64_t shift, int64_t dim);
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

// The largest (least) of the updates at each place; where there is none -∞ (∞), or the least (largest) whole
// number. Equal ones share the gradient equally.
Value ScatterMax(const Operand& updates, const Operand& indices, const Shape& shape, int64_t dim);
Value ScatterMin(const Operand& updates, const Operand& indices, const Shape& shape, int64_t dim);
// x: [a,n,b], updates: [a,i,j,b], indices: [i,j] -> x, whose [:, indices[i,j], :] is updates[:, i, j, :]. Of
// two updates of one place the last in the order of the indices stays; it alone has a gradient.
Value ScatterUpdate(const Operand& x, const Operand& updates, const Operand& indices, int64_t dim);
// x: [a,n,b], indices: [a,m,b] -> [a,m,b], that is x[a, indices[a,i,b], b] (NumPy's take_along_axis).
Value TakeAlongDim(const Operand& x, const Operand& indices, int64_t dim);
// The transpose of TakeAlongDim: zeros of `shape` [a,n,b] to which updates[a,i,b] is added at
// [a, indices[a,i,b], b], in the order of i.
Value ScatterAddAlongDim(const Operand& updates, const Operand& indices, const Shape& shape, int64_t dim);
// x: [batch.., n1,..,nk, rest..], indices: [batch.., places.., k] -> [batch.., places.., rest..]: what lies
// where an index for each of the k dims behind the batch_dims says. Errors: more indices than dims.
Value GatherNd(const Operand& x, const Operand& indices, int64_t batch_dims = 0);
// The transpose of GatherNd: zeros of `shape`, to which the updates are added at the places, in their order.
Value ScatterNdAdd(const Operand& updates, const Operand& indices, const Shape& shape,
                   int64_t batch_dims = 0);
// x[.., start : start + size, ..] along `dims`, which increase; start: i32 or i64, one number per dim,
// clamped so that all of the window lies in x (StableHLO's dynamic_slice). Error: a window larger than x.
Value DynamicSlice(const Operand& x, const Operand& start, const std::vector<int64_t>& dims,
                   const std::vector<int64_t>& sizes);
// x, whose window of the update's shape from `start` on is the update. Errors: as DynamicSlice's.
Value DynamicUpdateSlice(const Operand& x, const Operand& update, const Operand& start,
                         const std::vector<int64_t>& dims);

// ---- Along one dim, which is whole on every device; the others stay sharded as they are.

// Sums, products, maxima and minima of all elements up to each; with `reverse` from each to the last, with
// `exclusive` without the element itself (0, 1, -∞ and ∞ where none is left). bf16 is summed and multiplied
// in float. The gradient of a factor holds if some are 0; that of a maximum goes to the first element that is
// it.
Value Cumsum(const Operand& x, int64_t dim, bool exclusive = false, bool reverse = false);
Value Cumprod(const Operand& x, int64_t dim, bool exclusive = false, bool reverse = false);
Value Cummax(const Operand& x, int64_t dim, bool exclusive = false, bool reverse = false);
Value Cummin(const Operand& x, int64_t dim, bool exclusive = false, bool reverse = false);
// h[i] = a[i] h[i-1] + b[i], from h[0] = b[0] on; with `reverse` from the last. a and b are reals of one
// type.
Value LinearRecurrence(const Operand& a, const Operand& b, int64_t dim, bool reverse = false);
// What is in order, and the indices (i32) that its elements had along the dim.
struct Ordered {
  Value values, indices;
};
// Stable, ascending or descending; NaN is larger than every number. Error: more elements than an i32 counts.
Ordered Sort(const Operand& x, int64_t dim, bool descending = false);
// The k largest, the largest first; of equal ones that of the lowest index, NaN before all. Errors: Sort's; k
// below 0 or above the size.
Ordered TopK(const Operand& x, int64_t k, int64_t dim);

// Updates whose rows are of segments: x: [rows..,d..], segments: [rows..], numbers of [0, count) -> [count,
// d..], the sums of the rows of each segment. That is ScatterAdd along dim 0; ScatterMax and ScatterMin for
// extrema.
Value SegmentSum(const Operand& x, const Operand& segments, int64_t count);
// x: whole [n] -> i32[size], how many elements are 0, 1, …, size - 1; others are not counted.
Value Bincount(const Operand& x, int64_t size);
// The values of x: [n], n > 0, in order, each once, and how often it is there (i32): the first `size` of
// them. How many there are depends on the numbers, and types do not: where there are fewer, values and counts
// end with zeros. A NaN is a value of its own.
struct UniqueResult {
  Value values, counts;
};
UniqueResult UniqueCounts(const Operand& x, int64_t size);
// predictions: [..,c], targets: whole [..] -> bool [..]: whether fewer than k predictions of the row are
// larger than that of the target. False where that is not finite or the target none of [0, c).
Value InTopK(const Operand& predictions, const Operand& targets, int64_t k);
// The indices of Sort.
Value ArgSort(const Operand& x, int64_t dim, bool descending = false);

// ---- Repetitions and updates.
// x repeats[d] times along dim d, one x behind the other (NumPy's tile, of as many entries as x has dims).
Value Tile(const Operand& x, const std::vector<int64_t>& repeats);
// Every element `count` times along dim, one behind the other (NumPy's repeat).
Value Repeat(const Operand& x, int64_t count, int64_t dim);
// x, whose [start : : stride], as far as the update reaches, is the update. Error: it reaches beyond x.
Value UpdateSlice(const Operand& x, const Operand& update, const std::vector<int64_t>& start,
                  const std::vector<int64_t>& stride = {});

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
// Einstein's sums, as NumPy writes them: each dim of an operand has a letter (a to z, A to Z), the result is
// the sum over all letters that it does not name of the product of the operands. "bij,bjk->bik" are products
// of matrices, "ii->i" a diagonal, "...i->..." sums; what "..." stands for broadcasts. Without an arrow, the
// result has "..." and the letters that are there once, capitals first. A composite: sums and one MatMul (or
// Mul) per pair of operands, in the order that takes the fewest multiplications. Errors: a malformed
// equation, letters or sizes that do not fit, dtypes that are not floats, all alike. No operands, no value.
Value Einsum(std::string_view equation, const std::vector<Value>& operands,
             CallSite loc = CallSite::Current());

// ---- Convolution. Images are channels-last, x: [n, spatial…, c] with one to three spatial dims, and filters
// w: [spatial…, c / groups, o]: oneDNN computes on these as fast as on its own blocked layouts, and twice as
// fast as on [n, c, spatial…]. bf16 is multiplied and summed in float and rounded once.

// What lies around an image: zeros (of max_pool, what is below every number).
struct WindowPadding {
  enum class Kind { kValid, kSame, kExplicit };
  Kind kind = Kind::kValid;
  std::vector<int64_t> low = {}, high = {};  // of kExplicit, per spatial dim

  static WindowPadding Valid() { return {}; }  // none
  // As much as makes ceil(size / stride) results; where it is odd, one more at the high end.
  static WindowPadding Same() { return {Kind::kSame, {}, {}}; }
  // Negative numbers crop: windows do not see so many elements at the ends.
  static WindowPadding Explicit(std::vector<int64_t> low, std::vector<int64_t> high) {
    return {Kind::kExplicit, std::move(low), std::move(high)};
  }
};
// How windows slide, per spatial dim. An empty list is all ones.
struct WindowOptions {
  std::vector<int64_t> strides = {};
  WindowPadding padding = {};
  std::vector<int64_t> dilation = {};  // how far apart neighbours in a window lie
};
struct ConvOptions {
  WindowOptions window = {};
  // The channels of x and of the result are cut into so many groups, each of which sees its own alone. As
  // many as c: depthwise.
  int64_t groups = 1;
};
// x: [n, spatial…, c], w: [filter…, c / groups, o] -> [n, spatial…, o]. Sharded along a spatial dim, devices
// exchange the rows that windows of both need. Errors: sizes that do not fit, strides and dilations below 1,
// a filter that does not fit into an image and its padding.
Value Conv(const Operand& x, const Operand& w, const ConvOptions& options = {});
// The transpose of Conv with the same w and options, x: [n, spatial…, o] -> [n, spatial…, c]. Along each
// spatial dim it has (size - 1) stride + (filter - 1) dilation + 1 - low - high results, with
// WindowPadding::Same() size · stride. Errors: as Conv's.
Value ConvTranspose(const Operand& x, const Operand& w, const ConvOptions& options = {});

// ---- Pooling of x: [n, spatial…, c] over windows of `window`: [size per spatial dim]. Without strides,
// windows lie side by side. Errors: as Conv's.

// NaN if an element is. -inf counts as padding: a window that holds nothing else is -inf and has no gradient.
// Of equal elements the first takes the gradient.
Value MaxPool(const Operand& x, const std::vector<int64_t>& window, const WindowOptions& options = {});
// The mean of a window: of its elements, or, with count_padding, of all its places. Of padding alone: NaN, or
// 0.
Value AvgPool(const Operand& x, const std::vector<int64_t>& window, const WindowOptions& options = {},
              bool count_padding = false);

enum class ResizeForm { kNearest, kBilinear };
// x: [n, spatial…, c] -> [n, sizes…, c]: the middles of pixels lie where they lie in x, and beyond the outer
// ones x goes on as it ends. kNearest takes the nearest pixel, of two the higher one; kBilinear interpolates
// (along three dims trilinearly), also where it makes images smaller. Errors: no size for each spatial dim,
// sizes below 1.
Value Resize(const Operand& x, const std::vector<int64_t>& sizes, ResizeForm form);

// ---- Linear algebra, of batches of f32 or f64 matrices […,m,n], each of which is whole on a device.
// The lower triangle l of x = l lᵀ; x: […,n,n], of which the lower triangle is read, to which the gradient
// belongs alone. NaN where x is not positive definite.
Value Cholesky(const Operand& x);
struct TriangularOptions {
  bool lower = true;           // which triangle of a is meant; the other one is not read
  bool transpose_a = false;    // op(a) is aᵀ
  bool unit_diagonal = false;  // the diagonal is 1 and not read, either
};
// op(a)⁻¹ b; a: […,n,n], b: […,n,k]. A 0 on the diagonal gives infinities and NaN.
Value TriangularSolve(const Operand& a, const Operand& b, const TriangularOptions& options = {});
// x: […,m,n] = q r, with q: […,m,k], r: […,k,n], k the smaller of m and n; signs as LAPACK has them. The
// gradient needs an r whose first k columns are regular.
struct QrResult {
  Value q, r;
};
QrResult Qr(const Operand& x);
// The discrete Fourier transform along dim of re + i im, reals of one type: sum over j of x[j] exp(-2πi jk /
// n). `inverse`: with the other sign, divided by n. There is no complex dtype, so that parts are values of
// their own.
struct Complex {
  Value re, im;
};
Complex Fft(const Operand& re, const Operand& im, int64_t dim = -1, bool inverse = false);

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

// Whole numbers of [low, high). Errors: a type that is not whole, low >= high, bounds that do not fit it.
Value RandomInt(Graph& graph, const Type& type, int64_t seed, int64_t stream, int64_t low, int64_t high,
                const Value& step = {}, CallSite loc = CallSite::Current());
// 0, …, n - 1 in random order, i32[n]: the order of keys of 53 random bits.
Value RandomPermutation(Graph& graph, int64_t n, int64_t seed, int64_t stream, const Value& step = {},
                        CallSite loc = CallSite::Current());
// x, the slices along dim in the order of such a permutation.
Value Shuffle(const Operand& x, int64_t dim, int64_t seed, int64_t stream, const Value& step = {});

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
// Softmax over several dims at once: all elements of a slice along them add up to 1.
Value SoftmaxOver(const Operand& x, const std::vector<int64_t>& dims);
// log(sum(exp(x))) over dims, shifted by the maximum.
Value LogSumExp(const Operand& x, const std::vector<int64_t>& dims, bool keep_dims = false);
// sum((x - mean)²) / (n - correction), the mean first; correction = 1 is the estimate from a sample.
Value Variance(const Operand& x, const std::vector<int64_t>& dims, double correction = 0,
               bool keep_dims = false);
Value StandardDeviation(const Operand& x, const std::vector<int64_t>& dims, double correction = 0,
                        bool keep_dims = false);
// The norm over dims of order 1 (sum of sizes), 2 (root of the sum of squares; gradient 0 at 0) or infinity
// (largest size).
Value Norm(const Operand& x, const std::vector<int64_t>& dims, double order = 2, bool keep_dims = false);

// ---- Attention.
struct AttentionOptions {
  bool causal = false;               // query i sees keys 0 to i alone
  std::optional<double> scale = {};  // of q·k; 1 / sqrt(d)
  Value mask = {};                   // bool, broadcasts to [b,h,s,t]: where it is false, a key is not seen
  // i32[b,s]: each query sees the first so many keys, of which the others may be anything; 0: none. As a
  // cache that is not yet full has them. With `causal` the fewer of both.
  Value seen = {};
  // Where both sequences are sharded by the same axes, devices pass blocks of k and v on round a ring and
  // never hold more than two of each (Liu et al., arXiv 2310.01889). As many bytes are sent as would be
  // gathered, whole blocks where the last ones are short. For gradients k and v go round once more, and q
  // with the result's gradient; gathered k and v would be kept from the forward pass, and held all the while.
  // Of n devices one sees all blocks, so that a causal mask saves no time. A batch that its axes do not
  // divide, and more than 1024 blocks, gather as without it; with a mask it does nothing.
  bool ring = false;
};
// q: [b,s,h,d], k: [b,t,h,d], v: [b,t,h,e] -> [b,s,h,e]: of each query the mean of v over the keys, in shares
// Softmax(scale · q·k), head by head (Vaswani et al., arXiv 1706.03762, section 3.2). Without a mask it is
// one row that never has all scores in memory; b, h, s and e stay sharded as they are. Where k and v are
// sharded along t and the queries are not, as with a cache of keys, each device attends to its own keys and
// the results are merged, where that sends less; else k and v are gathered, unless options.ring. A key that a
// query does not see adds nothing, also where it is infinite; a query that sees none, or only scores of -inf,
// gives 0. Gradients of the gradients have all scores in memory. With a mask it is a composite of other rows:
// there a query that sees no key gives NaN, as does an infinity of v that is masked. Errors: shapes, dtypes,
// a mask that does not broadcast, a `seen` that is not i32[b,s].
Value Attention(const Operand& q, const Operand& k, const Operand& v, const AttentionOptions& options = {});
// x: [..,s,h,d], d even. Turns dims i and i + d/2 of the heads of position p by the angle p · base^(-2i/d),
// so that products of queries and keys depend on the distance of their positions (Su et al., arXiv
// 2104.09864, section 3.2, with halves for neighbours). Errors: fewer dims, an odd d, no floats, base not
// above 0.
Value RotaryPositions(const Operand& x, double base = 10000);

// ---- Mixtures of experts.
struct RoutingOptions {
  int64_t choices = 2;   // experts that a token goes to: 1 (Fedus et al., arXiv 2101.03961) or 2
  int64_t capacity = 1;  // tokens of a group that an expert takes; those beyond it are dropped
};
struct Routing {
  Value dispatch;  // [g,s,e,c]: 1 where the token goes to that place of the expert, else 0
  Value combine;   // [g,s,e,c]: there the weight of the expert's answer
  Value balance;   // scalar, at least 1: e times the mean over g of the sum over e of share of tokens · mean
                   // gate
};
// gates: [g,s,e], for each token of each group its shares of the experts, a Softmax. Takes each token to the
// experts with its largest gates; first choices before second ones, each in the order of the tokens (Lepikhin
// et al., arXiv 2006.16668, algorithm 1, without chance). With two choices their weights add up to 1.
//
//   Routing r = RouteToExperts(gates, {.choices = 1, .capacity = 2 * s / e});
//   Value inputs = Einsum("gsec,gsm->egcm", {r.dispatch, x});        // an all-to-all, if e and g share an
//   axis Value y = Einsum("gsec,egcm->gsm", {r.combine, Experts(inputs)});
//
// Errors: gates that are not floats [g,s,e]; choices other than 1 and 2 or more than e; capacity below 1.
Routing RouteToExperts(const Operand& gates, const RoutingOptions& options);

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
// The same -> mean of |p - t|.
Value MeanAbsoluteError(const Operand& predictions, const Operand& targets);
// The same -> mean of e²/2 where e = |p - t| is at most delta, delta (e - delta/2) beyond. Error: delta <= 0.
Value HuberLoss(const Operand& predictions, const Operand& targets, double delta = 1);
// scores, labels: [..], labels -1 or 1 -> mean of max(0, 1 - label · score); gradient 0 where that is 0.
Value HingeLoss(const Operand& scores, const Operand& labels);
// log_predictions, targets: [..,c], logarithms of shares and shares -> mean over rows of
// sum(t (log(t) - log_prediction)). A class without a share adds 0.
Value KlDivergence(const Operand& log_predictions, const Operand& targets);
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

// x: [..,c], scale, offset: [c] -> Standardize(x, all dims but the last) · scale + offset: over all devices'
// examples, and their mean and variance (biased), [c], for running statistics (Ioffe and Szegedy, arXiv
// 1502.03167).
struct BatchNormResult {
  Value y, mean, variance;
};
BatchNormResult BatchNorm(const Operand& x, const Operand& scale, const Operand& offset,
                          double epsilon = 1e-5);
// The same with given statistics: (x - mean) / sqrt(variance + epsilon) · scale + offset.
Value BatchNormInference(const Operand& x, const Operand& scale, const Operand& offset, const Operand& mean,
                         const Operand& variance, double epsilon = 1e-5);
// decay · average + (1 - decay) · value: what a running statistic holds after a step. No gradient flows into
// it.
Value MovingAverage(const Operand& average, const Operand& value, double decay = 0.99);
// x: [n, spatial…, c], scale, offset: [c] -> standardized over the spatial dims and each of `groups` runs of
// channels, · scale + offset (Wu and He, arXiv 1803.08494). Errors: groups that do not divide c.
Value GroupNorm(const Operand& x, const Operand& scale, const Operand& offset, int64_t groups,
                double epsilon = 1e-5);

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
