// Slices at a place that is computed: dynamic_slice reads a window of x, dynamic_update_slice writes one.
//
// The start is clamped so that the window lies within x, as in StableHLO. It may be one per row of x, for
// caches whose rows are at different places. `dims` are those that are cut; the others stay sharded as they
// are. Along a cut dim that is sharded each device gives what it owns of the window, which is the sum of
// these, and writes what it owns.
#include <algorithm>
#include <array>
#include <utility>

#include "fmt/ranges.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/builder.h"
#include "meshwork/ops/elementwise.h"
#include "meshwork/ops/families.h"
#include "meshwork/ops/kernels/identity.h"
#include "meshwork/ops/kernels/indexing.h"
#include "meshwork/ops/ops.h"

namespace meshwork {
namespace {

using Ints = std::vector<int64_t>;

bool IsCut(const Ints& dims, int64_t d) { return std::find(dims.begin(), dims.end(), d) != dims.end(); }

// Whether each row of x has a start of its own.
bool IsPerRow(const Type& start) { return start.rank() == 2; }

absl::Status CheckStart(const Type& start, const Ints& dims, const Type& x) {
  for (size_t i = 0; i < dims.size(); ++i) {
    MESHWORK_RETURN_IF_ERROR(CheckDim("dims", dims[i], x));
    if (i > 0 && dims[i] <= dims[i - 1])
      return InvalidArgument("dims=[{}] must increase.", fmt::join(dims, ","));
  }
  const auto size = static_cast<int64_t>(dims.size());
  const bool has_rows = x.rank() > 0 && !IsCut(dims, 0);
  if (IsInteger(start.dtype) &&
      (start.shape == Shape{size} || (has_rows && start.shape == Shape{x.shape[0], size})))
    return absl::OkStatus();
  if (!has_rows)
    return InvalidArgument("the start is {}; for dims=[{}] it must be i32[{}] or i64[{}].", start.ToString(),
                           fmt::join(dims, ","), size, size);
  return InvalidArgument(
      "the start is {}; for dims=[{}] it must be i32[{}] or i64[{}], or [{},{}] for a start per row.",
      start.ToString(), fmt::join(dims, ","), size, size, x.shape[0], size);
}

// "anb": a letter per dim; '1' for those that are cut, if `is_window`.
std::string TermOf(const Type& x, const Ints& dims, bool is_window) {
  std::string term;
  for (int64_t d = 0; d < x.rank(); ++d)
    term += is_window && IsCut(dims, d) ? '1' : static_cast<char>('a' + d);
  return term;
}

// The letters of the start.
std::string_view StartTerm(const Type& start) { return IsPerRow(start) ? "a1" : "1"; }

// ---- dynamic_slice: x, start

absl::StatusOr<std::vector<Type>> InferDynamicSlice(const OpView& view) {
  const Type& x = view.operands[0];
  const Ints &dims = view.attrs.Get<Ints>("dims"), &sizes = view.attrs.Get<Ints>("sizes");
  MESHWORK_RETURN_IF_ERROR(CheckStart(view.operands[1], dims, x));
  if (sizes.size() != dims.size())
    return InvalidArgument("sizes=[{}] dims=[{}]; give one size per dim.", fmt::join(sizes, ","),
                           fmt::join(dims, ","));
  Type result = x;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (sizes[i] < 0) return InvalidArgument("sizes=[{}]; no size is negative.", fmt::join(sizes, ","));
    result.shape[dims[i]] = sizes[i];
  }
  MESHWORK_RETURN_IF_ERROR(CheckSize(result));
  return std::vector<Type>{result};
}

Rule DynamicSliceRule(const OpView& view) {
  const Type& x = view.operands[0];
  const Ints& dims = view.attrs.Get<Ints>("dims");
  return MakeRule(
      fmt::format("{},{}->{}", TermOf(x, dims, false), StartTerm(view.operands[1]), TermOf(x, dims, true)),
      view.operands, view.results, MovesElements(Which::kFirst),
      x.dtype == BOOL ? ReduceOp::kOr : ReduceOp::kSum);
}

std::vector<Value> DynamicSliceGrad(const GradView& view) {
  const Value& x = view.operands[0];
  if (!IsFloat(x.dtype())) return {Value(), Value()};
  const Value zeros = Constant(*x.graph(), 0.0, Type(x.type()));
  return {DynamicUpdateSlice(zeros, view.result_grads[0], view.operands[1], view.attrs.Get<Ints>("dims")),
          Value()};
}

// One number per dim, for a value of up to kMaxRank dims; a scalar counts as a vector of one element.
using PerDim = std::array<int64_t, kMaxRank>;

// The place of a window in a device's block of a value.
class MovingWindow {
 public:
  MovingWindow(const Ints& dims, const TensorSpec& value, const TensorSpec& window) : dims_(dims) {
    for (int64_t d : dims)
      most_.push_back(std::max<int64_t>(0, value.global.shape[d] - window.global.shape[d]));
  }

  // Position 0 of the window along each dim, times `sign`: negative where it lies before the block.
  template <typename Index>
  PerDim OffsetsIn(const Block& block, const Index* start, int64_t sign) const {
    PerDim offsets = {};
    for (size_t i = 0; i < dims_.size(); ++i)
      offsets[dims_[i]] = sign * (std::clamp<int64_t>(start[i], 0, most_[i]) - block[dims_[i]].start);
    return offsets;
  }

 private:
  Ints dims_, most_;
};

// Two blocks, row by row of `to`: index i of `to` is index i + offset of `from`, if there is such a one.
struct CommonRows {
  Shape from, to;  // of at least one dim

  CommonRows(const Type& from, const Type& to)
      : from(AtLeastVector(from.shape)), to(AtLeastVector(to.shape)) {}

  int64_t rows() const { return to.back() == 0 ? 0 : NumElements(to) / to.back(); }

  // Calls f(i, begin, end) for the parts of rows [begin, end) of `to` with one index i along dim 0; once, with 0, if
  // !by_first or if there are no other dims.
  template <typename F>
  void ForEachFirst(bool by_first, int64_t begin, int64_t end, F&& f) const {
    if (!by_first || to.size() < 2) return f(0, begin, end);
    for (int64_t first = begin; first < end;) {
      const int64_t each = rows() / to[0], i = first / each, last = std::min(end, (i + 1) * each);
      f(i, first, last);
      first = last;
    }
  }

  // Narrows rows [begin, end) of `to` to a range with all that lie in `from`. first: their index along dim 0; -1: they may
  // have any.
  std::pair<int64_t, int64_t> InFrom(const PerDim& offsets, int64_t begin, int64_t end, int64_t first) const {
    int64_t least = 0, most = 0, stride = 1;
    for (size_t d = to.size() - 1; d-- > 0;) {
      int64_t low = std::max<int64_t>(0, -offsets[d]), high = std::min(to[d], from[d] - offsets[d]);
      if (d == 0 && first >= 0) low = first, high = first + 1;
      if (low >= high) return {begin, begin};
      least += low * stride;
      most += (high - 1) * stride;
      stride *= to[d];
    }
    return {std::max(begin, least), std::min(end, most + 1)};
  }

  // Calls f(row, first column, count, place in `from`) for the rows [begin, end) of `to`; count is at most 0
  // where they have nothing in common. `block`: the part of `from` that is not padding.
  template <typename F>
  void ForEach(const PerDim& offsets, const Block& block, int64_t begin, int64_t end, F&& f) const {
    const size_t last = to.size() - 1;
    const auto size_of = [&](size_t d) {
      return d < block.size() ? std::min(from[d], block[d].size) : from[d];
    };
    const int64_t first = std::max<int64_t>(0, -offsets[last]);
    const int64_t beyond = std::min(to[last], size_of(last) - offsets[last]);
    for (int64_t row = begin; row < end; ++row) {
      int64_t rest = row, at = 0, stride = from[last];
      bool is_in = true;
      for (size_t d = last; d-- > 0;) {
        const int64_t i = rest % to[d] + offsets[d];
        rest /= to[d];
        is_in = is_in && i >= 0 && i < size_of(d);
        at += i * stride;
        stride *= from[d];
      }
      f(row, first, is_in ? beyond - first : 0, at + first + offsets[last]);
    }
  }

 private:
  static Shape AtLeastVector(Shape shape) {
    if (shape.empty()) shape.push_back(1);
    return shape;
  }
};

template <typename T, typename Index>
Kernel DynamicSliceKernel(const KernelSpec& spec) {
  const Ints dims = spec.attrs.Get<Ints>("dims");
  const MovingWindow window(dims, spec.operands[0], spec.results[0]);
  const CommonRows rows(spec.operands[0].local, spec.results[0].local);
  const int64_t per_row = IsPerRow(spec.operands[1].local) ? std::ssize(dims) : 0;
  return {.run =
              [=](const KernelArgs& args) {
                const auto part = [&](int64_t i, int64_t begin, int64_t end) {
                  const Index* start = args.In<Index>(1) + i * per_row;
                  rows.ForEach(window.OffsetsIn(args.in_blocks[0], start, 1), args.in_blocks[0], begin, end,
                               [&](int64_t row, int64_t first, int64_t count, int64_t at) {
                                 T* out = args.Out<T>(0) + row * rows.to.back();
                                 std::fill_n(out, rows.to.back(), IdentityOf<T>(ReduceOp::kSum));
                                 if (count > 0) std::copy_n(args.In<T>(0) + at, count, out + first);
                               });
                };
                rows.ForEachFirst(per_row > 0, args.begin, args.end, part);
              },
          .units = rows.rows(),
          .by_rows = true};
}

Kernel DynamicSliceCpu(const KernelSpec& spec) {
  return DispatchAny(spec.results[0].local.dtype, [&](auto zero) {
    return DispatchIndex(spec.operands[1].local.dtype, [&](auto index) {
      return DynamicSliceKernel<Stored<decltype(zero)>, decltype(index)>(spec);
    });
  });
}

// ---- dynamic_update_slice: start, x, update

absl::StatusOr<std::vector<Type>> InferDynamicUpdateSlice(const OpView& view) {
  const Type &x = view.operands[1], &update = view.operands[2];
  const Ints& dims = view.attrs.Get<Ints>("dims");
  MESHWORK_RETURN_IF_ERROR(CheckStart(view.operands[0], dims, x));
  Type expected = x;
  if (update.rank() == x.rank())
    for (int64_t d : dims) expected.shape[d] = update.shape[d];
  if (update != expected)
    return InvalidArgument("x is {}, the update {}; all but dims=[{}] must be equal.", x.ToString(),
                           update.ToString(), fmt::join(dims, ","));
  return std::vector<Type>{x};
}

Rule DynamicUpdateSliceRule(const OpView& view) {
  const Type& x = view.operands[1];
  const Ints& dims = view.attrs.Get<Ints>("dims");
  const std::string term = TermOf(x, dims, false);
  return MakeRule(fmt::format("{},{},{}->{}", StartTerm(view.operands[0]), term, TermOf(x, dims, true), term),
                  view.operands, view.results,
                  MovesElements(Which::kAllButFirst) + Grows(Which::kOneButFirst, x.dtype, x.dtype));
}

std::vector<Value> DynamicUpdateSliceGrad(const GradView& view) {
  const Value &start = view.operands[0], &update = view.operands[2], &g = view.result_grads[0];
  if (!IsFloat(g.dtype())) return {Value(), Value(), Value()};
  const Ints& dims = view.attrs.Get<Ints>("dims");
  const Type type = update.type();
  Ints sizes;
  for (int64_t d : dims) sizes.push_back(type.shape[d]);
  return {Value(), DynamicUpdateSlice(g, Constant(*g.graph(), 0.0, type), start, dims),
          DynamicSlice(g, start, dims, sizes)};
}

template <typename T, typename Index>
Kernel DynamicUpdateSliceKernel(const KernelSpec& spec) {
  const Ints dims = spec.attrs.Get<Ints>("dims");
  const MovingWindow window(dims, spec.operands[1], spec.operands[2]);
  const CommonRows rows(spec.operands[2].local, spec.results[0].local);
  const int64_t per_row = IsPerRow(spec.operands[0].local) ? std::ssize(dims) : 0;
  // With one start for all rows of a matrix, those that are written are a range anyway.
  const bool by_first = !IsCut(dims, 0) && (per_row > 0 || rows.to.size() > 2);
  return {.run =
              [=](const KernelArgs& args) {
                const int64_t columns = rows.to.back();
                const T* x = args.In<T>(1);
                T* out = args.Out<T>(0);
                if (x != out)
                  std::copy(x + args.begin * columns, x + args.end * columns, out + args.begin * columns);
                const auto part = [&](int64_t i, int64_t begin, int64_t end) {
                  const Index* start = args.In<Index>(0) + i * per_row;
                  // Index i of the block is index i - offset of the update.
                  const PerDim offsets = window.OffsetsIn(args.out_blocks[0], start, -1);
                  const auto [first_row, last_row] = rows.InFrom(offsets, begin, end, by_first ? i : -1);
                  rows.ForEach(offsets, args.in_blocks[2], first_row, last_row,
                               [&](int64_t row, int64_t first, int64_t count, int64_t at) {
                                 if (count > 0)
                                   std::copy_n(args.In<T>(2) + at, count, out + row * columns + first);
                               });
                };
                rows.ForEachFirst(by_first, args.begin, args.end, part);
              },
          .units = rows.rows(),
          .by_rows = true,
          .parts = {1, rows.rows(), 1}};
}

Kernel DynamicUpdateSliceCpu(const KernelSpec& spec) {
  return DispatchAny(spec.results[0].local.dtype, [&](auto zero) {
    return DispatchIndex(spec.operands[0].local.dtype, [&](auto index) {
      return DynamicUpdateSliceKernel<Stored<decltype(zero)>, decltype(index)>(spec);
    });
  });
}

// ---- Rows.

}  // namespace

std::span<const OpRow> DynamicSliceOps() {
  static const auto* rows = new std::vector<OpRow>{
      {.name = "dynamic_slice",
       .doc =
           "x from start on along dims, of these sizes; the start is clamped so that the window lies in x; a "
           "start [b,dims]: one for each row of x",
       .num_operands = 2,
       .attrs = {{"dims", AttrKind::kInts}, {"sizes", AttrKind::kInts}},
       .takes_storage = true,
       .infer = InferDynamicSlice,
       .rule = DynamicSliceRule,
       .grad = DynamicSliceGrad,
       .cpu = DynamicSliceCpu,
       .reads_block = true,
       .samples = {"f32[4,6], i32[1]; dims=[1] sizes=[3]", "f64[4,6], i64[2]; dims=[0,1] sizes=[2,6]",
                   "bf16[2,4,3], i32[1]; dims=[1] sizes=[1]", "i32[6], i32[1]; dims=[0] sizes=[4]",
                   "f64[4,6,3], i32[4,1]; dims=[1] sizes=[2]", "f32[2,4,6], i64[2,2]; dims=[1,2] sizes=[3,2]",
                   "i64[2,6,2], i64[1]; dims=[1] sizes=[2]", "bool[4,6], i32[1]; dims=[0] sizes=[3]"},
       .sample_int_low = -2,
       .sample_int_high = 9},
      {.name = "dynamic_update_slice",
       .doc =
           "of start, x and update: x with the update from start on along dims; the start as dynamic_slice's",
       .num_operands = 3,
       .attrs = {{"dims", AttrKind::kInts}},
       .takes_storage = true,
       .infer = InferDynamicUpdateSlice,
       .rule = DynamicUpdateSliceRule,
       .grad = DynamicUpdateSliceGrad,
       .cpu = DynamicUpdateSliceCpu,
       .reads_block = true,
       .in_place = {1},
       .samples = {"i32[1], f32[4,6], f32[4,3]; dims=[1]", "i64[2], f64[4,6], f64[2,6]; dims=[0,1]",
                   "i32[1], bf16[2,4,3], bf16[2,1,3]; dims=[1]", "i32[1], i32[6], i32[4]; dims=[0]",
                   "i32[4,1], f64[4,6,3], f64[4,2,3]; dims=[1]",
                   "i64[2,2], f32[2,4,6], f32[2,3,2]; dims=[1,2]", "i64[1], i64[2,6,2], i64[2,2,2]; dims=[1]",
                   "i32[1], bool[4,6], bool[3,6]; dims=[0]"},
       .sample_int_low = -2,
       .sample_int_high = 9},
  };
  return *rows;
}

// Whether a window of these sizes fits x; records a mistake if not.
bool CheckWindow(const ResolvedOperands& at, std::string_view op, const Type& x, const Ints& dims,
                 const Ints& sizes) {
  for (size_t i = 0; i < std::min(dims.size(), sizes.size()); ++i) {
    if (dims[i] < 0 || dims[i] >= x.rank() || sizes[i] <= x.shape[dims[i]]) continue;
    RecordMistake(at, op, "dim {} of {} has size {}; a window of {} does not fit.", dims[i], x.ToString(),
                  x.shape[dims[i]], sizes[i]);
    return false;
  }
  return true;
}

Value DynamicSlice(const Operand& x, const Operand& start, const Ints& asked, const Ints& sizes) {
  const Ints dims = AllFromFront(asked, x.value().rank());
  const ResolvedOperands at = Resolve({x, start});
  if (at.graph == nullptr || !CheckWindow(at, "dynamic_slice", at.values[0].type(), dims, sizes)) return {};
  return AddOp("dynamic_slice", {x, start}, {{"dims", dims}, {"sizes", sizes}});
}

Value DynamicUpdateSlice(const Operand& x, const Operand& update, const Operand& start, const Ints& asked) {
  const Ints dims = AllFromFront(asked, x.value().rank());
  const ResolvedOperands at = Resolve({x, update, start});
  if (at.graph == nullptr) return {};
  Ints sizes;
  const Shape& shape = at.values[1].shape();
  for (int64_t d : dims) sizes.push_back(d >= 0 && d < at.values[1].rank() ? shape[d] : 0);
  if (!CheckWindow(at, "dynamic_update_slice", at.values[0].type(), dims, sizes)) return {};
  return AddOp("dynamic_update_slice", {start, x, update}, {{"dims", dims}});
}

}  // namespace meshwork
