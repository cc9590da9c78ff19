// Windows that slide over a tensor: pooling, running sums.
#include <algorithm>

#include "meshwork/base/status.h"
#include "meshwork/ir/builder.h"
#include "meshwork/ops/operators.h"
#include "meshwork/ops/ops.h"
#include "meshwork/stablehlo/read/reader.h"

namespace meshwork::mlir {
namespace {

struct Windows {
  Ints size, strides, dilation, low, high;  // per dim

  bool is_trivial(size_t d) const { return size[d] == 1 && strides[d] == 1 && low[d] == 0 && high[d] == 0; }
  Ints Dims(bool trivial) const {
    Ints dims;
    for (size_t d = 0; d < size.size(); ++d)
      if (is_trivial(d) == trivial) dims.push_back(static_cast<int64_t>(d));
    return dims;
  }
};

absl::StatusOr<Windows> WindowsOf(const OpView& view) {
  const size_t rank = view.type(0).shape.size();
  if (view.result().shape.size() != rank)
    return view.Fail("its result has another number of dims than its operand.");
  const Ints ones(rank, 1);
  Windows windows;
  MESHWORK_ASSIGN_OR_RETURN(windows.size, view.Ints("window_dimensions"));
  MESHWORK_ASSIGN_OR_RETURN(windows.strides, view.Ints("window_strides", ones));
  MESHWORK_ASSIGN_OR_RETURN(windows.dilation, view.Ints("window_dilations", ones));
  MESHWORK_ASSIGN_OR_RETURN(const Ints padding, view.Ints("padding", Ints(2 * rank, 0)));
  if (windows.size.size() != rank || windows.strides.size() != rank || windows.dilation.size() != rank ||
      padding.size() != 2 * rank)
    return view.Fail("its windows are to have a number for each dim.");
  for (size_t d = 0; d < rank; ++d) {
    windows.low.push_back(padding[2 * d]);
    windows.high.push_back(padding[2 * d + 1]);
  }
  return windows;
}

// A tensor as the ops of pooling take it: [n, space.., c], where windows slide over space alone.
class Pooled {
 public:
  // Error: windows slide over more than three dims.
  static absl::StatusOr<Pooled> Create(const OpView& view, const Windows& windows) {
    Pooled pooled;
    pooled.windows_ = windows;
    pooled.space_ = windows.Dims(false);
    pooled.order_ = windows.Dims(true);
    const auto rank = std::ssize(windows.size);
    // As it is: the first and the last dim trivial, and those between them not too many.
    if (rank >= 3 && rank <= 5 && windows.is_trivial(0) &&
        windows.is_trivial(static_cast<size_t>(rank) - 1)) {
      pooled.is_direct_ = true;
      pooled.space_.clear();
      for (int64_t d = 1; d + 1 < rank; ++d) pooled.space_.push_back(d);
    }
    if (pooled.space_.size() > 3) return view.Fail("windows over more than three dims are not read.");
    if (pooled.space_.empty()) return view.Fail("windows of one element are not read.");
    pooled.order_.insert(pooled.order_.end(), pooled.space_.begin(), pooled.space_.end());
    return pooled;
  }

  // x with dims in the order (n, space, c).
  Value To(const Value& x) const {
    if (is_direct_ || !x.valid()) return x;
    const size_t outside = order_.size() - space_.size();
    Shape shape = {1};
    for (size_t i = 0; i < order_.size(); ++i) {
      const int64_t size = x.shape()[static_cast<size_t>(order_[i])];
      if (i < outside) shape[0] *= size;
      else shape.push_back(size);
    }
    shape.push_back(1);
    return Reshape(Transpose(x, order_), shape);
  }
  // The other way, to this shape.
  Value From(const Value& y, const Shape& to) const {
    if (is_direct_ || !y.valid()) return y;
    Shape shape;
    for (const int64_t d : order_) shape.push_back(to[static_cast<size_t>(d)]);
    return Transpose(Reshape(y, shape), InverseOf(order_));
  }
  Attrs attrs() const {
    return {{"window", OfSpace(windows_.size)},
            {"strides", OfSpace(windows_.strides)},
            {"low", OfSpace(windows_.low)},
            {"high", OfSpace(windows_.high)},
            {"dilation", OfSpace(windows_.dilation)}};
  }

 private:
  Ints OfSpace(const Ints& of_all) const {
    Ints picked;
    for (const int64_t d : space_) picked.push_back(of_all[static_cast<size_t>(d)]);
    return picked;
  }

  Windows windows_;
  Ints space_, order_;
  bool is_direct_ = false;
};

// The dim along which each window has all elements up to its own (from its own on): a running sum.
struct Running {
  int64_t dim;
  bool reverse;
};
std::optional<Running> RunningOf(const OpView& view, const Windows& windows) {
  const Ints dims = windows.Dims(false);
  if (dims.size() != 1) return std::nullopt;
  const auto d = static_cast<size_t>(dims[0]);
  const int64_t n = view.type(0).shape[d];
  if (windows.size[d] != n || windows.strides[d] != 1 || windows.dilation[d] != 1) return std::nullopt;
  if (windows.low[d] == n - 1 && windows.high[d] == 0) return Running{dims[0], false};
  if (windows.low[d] == 0 && windows.high[d] == n - 1) return Running{dims[0], true};
  return std::nullopt;
}

absl::StatusOr<Bounds> ReadReduceWindow(const OpView& view) {
  MESHWORK_RETURN_IF_ERROR(view.Expect(2, 1, 1));
  MESHWORK_ASSIGN_OR_RETURN(const Windows windows, WindowsOf(view));
  MESHWORK_ASSIGN_OR_RETURN(const Ints base, view.Ints("base_dilations", Ints(windows.size.size(), 1)));
  const std::optional<Combiner> combiner = CombinerOf(view.op.regions[0]);
  if (!combiner.has_value() || !IsIdentity(view.operands[1], *combiner))
    return view.Fail("its function is not read, or its first value changes the result.");
  if (std::any_of(base.begin(), base.end(), [](int64_t b) { return b != 1; }))
    return view.Fail("base_dilations are not read.");
  const Value numbers = ToArithmetic(view.Arg(0));
  const bool is_extremum = *combiner == Combiner::kMaximum || *combiner == Combiner::kMinimum;
  const Value x = is_extremum ? InSignedOrder(view, numbers) : numbers;
  if (windows.Dims(false).empty()) return Bounds{view.Arg(0)};
  if (const auto running = RunningOf(view, windows); running.has_value()) {
    switch (*combiner) {
      case Combiner::kAdd:
        return Bounds{FromArithmetic(view, Cumsum(x, running->dim, false, running->reverse))};
      case Combiner::kMultiply:
        return Bounds{FromArithmetic(view, Cumprod(x, running->dim, false, running->reverse))};
      case Combiner::kMaximum:
        return Bounds{
            FromArithmetic(view, InSignedOrder(view, Cummax(x, running->dim, false, running->reverse)))};
      case Combiner::kMinimum:
        return Bounds{
            FromArithmetic(view, InSignedOrder(view, Cummin(x, running->dim, false, running->reverse)))};
      default: break;
    }
  }
  MESHWORK_ASSIGN_OR_RETURN(const Pooled pooled, Pooled::Create(view, windows));
  // Whole numbers of 32 bits as reals, which hold them and their sums; back through 64 bits, so that a sum wraps around.
  const bool is_whole = x.valid() && x.dtype() == I32;
  const Value images = pooled.To(is_whole ? Cast(x, F64) : x);
  Value y;
  if (*combiner == Combiner::kAdd) y = AddOp("sum_pool", {images}, pooled.attrs());
  else if (*combiner == Combiner::kMaximum) y = AddOp("max_pool", {images}, pooled.attrs());
  else if (*combiner == Combiner::kMinimum) y = Neg(AddOp("max_pool", {Neg(images)}, pooled.attrs()));
  else return view.Fail("of its function only a sum, a maximum and a minimum are read.");
  y = pooled.From(is_whole ? Cast(Cast(y, I64), I32) : y, view.result().shape);
  return Bounds{FromArithmetic(view, is_extremum ? InSignedOrder(view, y) : y)};
}

// The gradient of max-pooling: each element of the source goes to the largest element of its window.
absl::StatusOr<Bounds> ReadSelectAndScatter(const OpView& view) {
  MESHWORK_RETURN_IF_ERROR(view.Expect(3, 1, 2));
  MESHWORK_ASSIGN_OR_RETURN(const Windows windows, WindowsOf(view));
  const Region& select = view.op.regions[0];
  const Attribute* const direction = select.ops.size() == 2 && select.ops[0].name == "stablehlo.compare" &&
                                             select.arguments.size() == 2 &&
                                             select.ops[0].operands.size() == 2 &&
                                             select.ops[0].operands[0].name == select.arguments[0].name &&
                                             select.ops[0].operands[1].name == select.arguments[1].name
                                         ? select.ops[0].attributes.Find("comparison_direction")
                                         : nullptr;
  const bool is_minimum = direction != nullptr && direction->text.ends_with(" LE>");
  if (direction == nullptr || (!is_minimum && !direction->text.ends_with(" GE>")) ||
      CombinerOf(view.op.regions[1]) != Combiner::kAdd || !IsIdentity(view.operands[2], Combiner::kAdd))
    return view.Fail("only the sum, from 0 on, at the largest or the least elements is read.");
  MESHWORK_ASSIGN_OR_RETURN(const Pooled pooled, Pooled::Create(view, windows));
  if (view.type(1).rank() != view.type(0).rank())
    return view.Fail("its source has another number of dims than its operand.");
  const Value x = ToArithmetic(view.Arg(0));
  const Value images = pooled.To(is_minimum ? Neg(x) : x);
  if (!images.valid()) return Bounds{images};
  const std::vector<Value> largest = view.graph.Add("max_pool", std::vector{images}, pooled.attrs(), {});
  Attrs attrs = pooled.attrs();
  attrs.Set("shape", ToInts(images.shape()));
  const Value source = pooled.To(ToArithmetic(view.Arg(1)));
  const Value y = AddOp("max_pool_grad", {source, largest[1]}, attrs);
  return Bounds{FromArithmetic(view, pooled.From(y, view.result().shape))};
}

constexpr NamedReadOp kWindowOps[] = {
    {"stablehlo.reduce_window", ReadReduceWindow},
    {"stablehlo.select_and_scatter", ReadSelectAndScatter},
};

}  // namespace

std::span<const NamedReadOp> WindowOps() { return kWindowOps; }

}  // namespace meshwork::mlir
