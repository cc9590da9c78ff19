// The builder functions: how a user's C++ writes nodes. One function per op row, and composites
// (LogSoftmax, SparseSoftmaxCrossEntropy) written in terms of them.
//
//   Value h = Relu(MatMul(x, w) + b);      // b: [n] broadcasts against [m,n], aligned at the right
//   Value loss = SparseSoftmaxCrossEntropy(h, labels);
//
// Every function keeps the caller's source line. Mistakes are recorded in the graph (see Graph); an
// invalid operand gives an invalid result.
#pragma once

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

// ---- Elementwise, with right-aligned broadcast: [m,n] with [n], [1,n], [m,1] or [].
// Errors: shapes that do not broadcast, dtypes that differ or that the op does not take.
Value Add(const Operand& a, const Operand& b);
Value Sub(const Operand& a, const Operand& b);
Value Mul(const Operand& a, const Operand& b);
Value Div(const Operand& a, const Operand& b);
Value Maximum(const Operand& a, const Operand& b);  // NaN if either is
Value Minimum(const Operand& a, const Operand& b);
Value Equal(const Operand& a, const Operand& b);  // results are bool
Value NotEqual(const Operand& a, const Operand& b);
Value Less(const Operand& a, const Operand& b);
Value LessEqual(const Operand& a, const Operand& b);
Value Greater(const Operand& a, const Operand& b);
Value GreaterEqual(const Operand& a, const Operand& b);
// where(condition, a, b); condition: bool.
Value Select(const Value& condition, const Operand& a, const Operand& b);

Value Neg(const Operand& x);
Value Exp(const Operand& x);
Value Log(const Operand& x);
Value Sqrt(const Operand& x);
Value Rsqrt(const Operand& x);
Value Tanh(const Operand& x);
Value Relu(const Operand& x);
Value Cast(const Operand& x, DType dtype);
// The same value, a constant to gradients.
Value StopGradient(const Operand& x);

inline Value operator+(const Operand& a, const Operand& b) { return Add(a, b); }
inline Value operator-(const Operand& a, const Operand& b) { return Sub(a, b); }
inline Value operator*(const Operand& a, const Operand& b) { return Mul(a, b); }
inline Value operator/(const Operand& a, const Operand& b) { return Div(a, b); }
inline Value operator-(const Operand& x) { return Neg(x); }

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

// ---- Reductions over `dims`; keep_dims leaves them with size 1.
Value ReduceSum(const Operand& x, const std::vector<int64_t>& dims, bool keep_dims = false);
Value ReduceMean(const Operand& x, const std::vector<int64_t>& dims, bool keep_dims = false);
Value ReduceMax(const Operand& x, const std::vector<int64_t>& dims, bool keep_dims = false);
// Index (i32) of the largest element along `dim`; ties go to the lowest index.
Value Argmax(const Operand& x, int64_t dim);

// ---- Matrix product: a: [m,k] ([k,m] if transpose_a), b: [k,n] ([n,k] if transpose_b) -> [m,n].
Value MatMul(const Operand& a, const Operand& b, bool transpose_a = false, bool transpose_b = false);

// ---- Values made in place; any layout, no communication.
Value Constant(Graph& graph, double value, const Type& type, CallSite loc = CallSite::Current());
// 0, 1, 2, … along `dim`.
Value Iota(Graph& graph, const Type& type, int64_t dim, CallSite loc = CallSite::Current());
// x: integers [..] -> [.., depth], 1 where the last index equals x, else 0.
Value OneHot(const Operand& x, int64_t depth, DType dtype);
// Random numbers keyed by (seed, stream, global element index): bitwise the same in every layout.
Value RandomUniform(Graph& graph, const Type& type, int64_t seed, int64_t stream, double low, double high,
                    CallSite loc = CallSite::Current());
Value RandomNormal(Graph& graph, const Type& type, int64_t seed, int64_t stream, double mean, double stddev,
                   CallSite loc = CallSite::Current());

// ---- Optimizers (see ops/optimizer.cc for the formulas).
struct AdamResult {
  Value weight, first_moment, second_moment;
};
// step: i64 scalar, 1 at the first update.
AdamResult AdamUpdate(const Value& weight, const Value& gradient, const Value& first_moment,
                      const Value& second_moment, const Value& step, double learning_rate, double beta1,
                      double beta2, double epsilon, CallSite loc = CallSite::Current());

// ---- Composites.
// Over the last dim: x - log(sum(exp(x))), shifted by the maximum.
Value LogSoftmax(const Operand& x);
// logits: [b,c], labels: integers [b] in [0,c) -> scalar mean over b of -log_softmax(logits)[label]. A row
// whose label is out of range counts as 0; LoadMnist refuses such labels.
Value SparseSoftmaxCrossEntropy(const Operand& logits, const Operand& labels);
// logits: [b,c], labels: integers [b] -> scalar: the share of rows whose argmax is the label.
Value Accuracy(const Operand& logits, const Operand& labels, DType dtype = F32);

}  // namespace meshwork
