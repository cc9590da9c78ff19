// The slicing family: slice and pad, which are each other's transposes. If a dim that they cut or pad is sharded,
// devices exchange elements along it.
#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include "fmt/ranges.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/builder.h"
#include "meshwork/ir/exchange.h"
#include "meshwork/ops/families.h"
#include "meshwork/ops/kernels/copy.h"
#include "meshwork/ops/kernels/stack.h"
#include "meshwork/ops/ops.h"

namespace meshwork {
namespace {

using Ints = std::vector<int64_t>;

absl::Status CheckEntries(std::string_view name, const Ints& list, const Type& x, bool may_be_empty = false) {
  if (list.size() == x.shape.size() || (may_be_empty && list.empty())) return absl::OkStatus();
  return InvalidArgument("{}=[{}] has {} entr{} for {}; give one per dim.", name, fmt::join(list, ","),
                         list.size(), list.size() == 1 ? "y" : "ies", x.ToString());
}

// ---- slice

struct Cut {
  int64_t start, limit, stride;

  std::string ToString() const { return fmt::format("start={} limit={} stride={}", start, limit, stride); }
  bool Keeps(int64_t size) const { return start == 0 && limit == size && stride == 1; }
  int64_t count() const { return (limit - start) / stride + ((limit - start) % stride != 0); }
};

Cut CutOf(const Attrs& attrs, size_t d) {
  return {attrs.Get<Ints>("start")[d], attrs.Get<Ints>("limit")[d], EntryOr(attrs.Get<Ints>("stride"), d, 1)};
}

absl::StatusOr<std::vector<Type>> InferSlice(const OpView& view) {
  const Type& x = view.operands[0];
  MESHWORK_RETURN_IF_ERROR(CheckEntries("start", view.attrs.Get<Ints>("start"), x));
  MESHWORK_RETURN_IF_ERROR(CheckEntries("limit", view.attrs.Get<Ints>("limit"), x));
  MESHWORK_RETURN_IF_ERROR(CheckEntries("stride", view.attrs.Get<Ints>("stride"), x, /*may_be_empty=*/true));
  Type result{x.dtype, {}};
  for (size_t d = 0; d < x.shape.size(); ++d) {
    const Cut cut = CutOf(view.attrs, d);
    auto fail = [&](std::string_view rule) {
      return InvalidArgument("dim {} of {} has size {}: {}; {}", d, x.ToString(), x.shape[d], cut.ToString(),
                             rule);
    };
    if (cut.stride < 1) return fail("strides are at least 1.");
    if (cut.limit > x.shape[d]) return fail("limits go up to the size.");
    if (cut.start < 0 || cut.start > cut.limit) return fail("starts go from 0 to the limit.");
    result.shape.push_back(cut.count());
  }
  return std::vector<Type>{result};
}

Exchange SliceExchange(const OpView& view) {
  Exchange exchange;
  for (size_t d = 0; d < view.operands[0].shape.size(); ++d) {
    const Cut cut = CutOf(view.attrs, d);
    // One element has no step: strides may be as large as there are numbers.
    exchange.dims.push_back({.stride = cut.count() > 1 ? cut.stride : 1, .offsets = {cut.start}});
  }
  return exchange;
}

Rule SliceRule(const OpView& view) { return MoveRule(view, SliceExchange(view), MovesElements()); }

// Whether the cut is one element at a place that counts from the front: x[i]. The last element may be meant as x[-1],
// and one of two elements as a half.
bool IsPlace(const Cut& cut, int64_t size) { return cut.count() == 1 && cut.start + 1 < size && size > 2; }

// If a dim that is cut changes its size, the new start and limit are not known; but x[i] stays x[i].
absl::StatusOr<Attrs> ResizeSlice(const OpView& view, const std::vector<Type>& operands) {
  const Type& x = view.operands[0];
  Ints limit = view.attrs.Get<Ints>("limit");
  for (size_t d = 0; d < limit.size(); ++d) {
    const int64_t size = operands[0].shape[d];
    if (size == x.shape[d]) continue;
    const Cut cut = CutOf(view.attrs, d);
    if (IsPlace(cut, x.shape[d]) && cut.start < size) {
      limit[d] = cut.start + 1;
      continue;
    }
    if (!cut.Keeps(x.shape[d]))
      return InvalidArgument(
          "dim {} of {} is cut at {}, so it cannot be of size {}; take elements at fixed places by gather.",
          d, x.ToString(), cut.ToString(), size);
    limit[d] = size;
  }
  Attrs attrs = view.attrs;
  attrs.Set("limit", std::move(limit));
  return attrs;
}

std::vector<Value> SliceGrad(const GradView& view) {
  const Shape& from = view.operands[0].shape();
  Ints low, high, interior;
  for (size_t d = 0; d < from.size(); ++d) {
    const Cut cut = CutOf(view.attrs, d);
    const int64_t count = cut.count();
    low.push_back(cut.start);
    interior.push_back(count > 1 ? cut.stride - 1 : 0);
    high.push_back(from[d] - (count == 0 ? cut.start : cut.start + (count - 1) * cut.stride + 1));
  }
  return {Pad(view.result_grads[0], low, high, 0, interior)};
}

Kernel SliceCpu(const KernelSpec& spec) {
  Shape strides = DenseStrides(spec.operands[0].local.shape);
  int64_t offset = 0;
  for (size_t d = 0; d < strides.size(); ++d) {
    const Cut cut = CutOf(spec.attrs, d);
    offset += cut.start * strides[d];
    if (spec.results[0].local.shape[d] > 1) strides[d] *= cut.stride;
  }
  Kernel kernel = StridedCopy(spec, strides, offset);
  // Slices of the places along the first dims, which are kept.
  int64_t places = 1;
  for (size_t d = 0; d < strides.size() && CutOf(spec.attrs, d).Keeps(spec.operands[0].local.shape[d]); ++d)
    places *= spec.operands[0].local.shape[d];
  if (places > 1) kernel.parts = {std::max(kernel.PartsOf(0), places)};
  return kernel;
}

std::optional<KernelSpec> StackSlice(const KernelSpec& spec, const StackDims& dims) {
  if (IsReduced(dims)) return std::nullopt;
  KernelSpec stacked = Stacked(spec, dims);
  const auto lead = [&](std::string_view name, const Ints& leading) {
    Ints list = spec.attrs.Get<Ints>(name);
    if (!list.empty() || spec.operands[0].local.shape.empty())
      list.insert(list.begin(), leading.begin(), leading.end());
    stacked.attrs.Set(name, list);
  };
  Ints sizes;
  for (const StackDim& dim : dims) sizes.push_back(dim.size);
  lead("start", Ints(dims.size(), 0));
  lead("limit", sizes);
  lead("stride", Ints(dims.size(), 1));
  return stacked;
}

// ---- pad

struct Padding {
  int64_t low, high, interior;

  std::string ToString() const { return fmt::format("low={} high={} interior={}", low, high, interior); }
  bool Crops() const { return low <= 0 && high <= 0 && interior == 0; }
};

Padding PaddingOf(const Attrs& attrs, size_t d) {
  return {attrs.Get<Ints>("low")[d], attrs.Get<Ints>("high")[d], EntryOr(attrs.Get<Ints>("interior"), d, 0)};
}

// Amounts up to the most elements there can be, so that sums of them do not overflow.
bool IsAmount(const Padding& p, int64_t size) {
  constexpr int64_t kMost = int64_t{1} << 40;
  return std::abs(p.low) <= kMost && std::abs(p.high) <= kMost &&
         p.interior <= kMost / std::max<int64_t>(size, 1);
}

absl::StatusOr<std::vector<Type>> InferPad(const OpView& view) {
  const Type& x = view.operands[0];
  MESHWORK_RETURN_IF_ERROR(CheckEntries("low", view.attrs.Get<Ints>("low"), x));
  MESHWORK_RETURN_IF_ERROR(CheckEntries("high", view.attrs.Get<Ints>("high"), x));
  MESHWORK_RETURN_IF_ERROR(
      CheckEntries("interior", view.attrs.Get<Ints>("interior"), x, /*may_be_empty=*/true));
  MESHWORK_RETURN_IF_ERROR(CheckElement(view.attrs.Get<double>("value"), x.dtype));
  Type result{x.dtype, {}};
  for (size_t d = 0; d < x.shape.size(); ++d) {
    const Padding p = PaddingOf(view.attrs, d);
    const int64_t n = x.shape[d];
    auto fail = [&](std::string_view rule) {
      return InvalidArgument("dim {} of {} has size {}: {}; {}", d, x.ToString(), n, p.ToString(), rule);
    };
    if (p.interior < 0) return fail("only low and high may be negative.");
    if (p.low == std::numeric_limits<int64_t>::min() || p.high == std::numeric_limits<int64_t>::min() ||
        !IsAmount(p, n))
      return fail("no dim may have more than 2^40 elements.");
    const int64_t size = p.low + n + std::max<int64_t>(n - 1, 0) * p.interior + p.high;
    if (size < 0) return fail("no more can be cropped than there is.");
    result.shape.push_back(size);
  }
  return std::vector<Type>{result};
}

// Padding around the terms of a reduction is reduced, too.
Passes PadPasses(double value) {
  Passes passes;
  for (const PartialPass& pass : MovesElements())
    if (ReducesToItself(value, pass.in)) passes.push_back(pass);
  return passes;
}

Exchange PadExchange(const OpView& view) {
  Exchange exchange{.value = view.attrs.Get<double>("value")};
  for (size_t d = 0; d < view.operands[0].shape.size(); ++d) {
    const Padding p = PaddingOf(view.attrs, d);
    exchange.dims.push_back({.spacing = p.interior + 1, .offsets = {-p.low}});
  }
  return exchange;
}

Rule PadRule(const OpView& view) {
  bool crops = true;
  for (size_t d = 0; d < view.operands[0].shape.size(); ++d) crops &= PaddingOf(view.attrs, d).Crops();
  return MoveRule(view, PadExchange(view),
                  crops ? MovesElements() : PadPasses(view.attrs.Get<double>("value")));
}

// Crops the padding, then takes every (interior + 1)th element. It contains no size, so it holds for every batch.
std::vector<Value> PadGrad(const GradView& view) {
  Ints low, high, stride;
  for (size_t d = 0; d < view.operands[0].shape().size(); ++d) {
    const Padding p = PaddingOf(view.attrs, d);
    low.push_back(-p.low);
    high.push_back(-p.high);
    stride.push_back(p.interior + 1);
  }
  const Value cropped = Pad(view.result_grads[0], low, high);
  if (!cropped.valid() || std::all_of(stride.begin(), stride.end(), [](int64_t s) { return s == 1; }))
    return {cropped};
  return {Slice(cropped, Ints(stride.size(), 0), ToInts(cropped.shape()), stride)};
}

// One dim of a padding: element i of `from` lies at low + i * step of `to`.
struct PadDim {
  int64_t from, to, low, step;

  bool keeps() const { return from == to && low == 0 && step == 1; }
};

// Major to minor; inner dims that stay are merged into the dim around them.
std::vector<PadDim> PadDims(const KernelSpec& spec) {
  const Shape &from = spec.operands[0].local.shape, &to = spec.results[0].local.shape;
  std::vector<PadDim> dims = {{1, 1, 0, 1}};
  for (size_t d = from.size(); d-- > 0;) {
    const Padding p = PaddingOf(spec.attrs, d);
    const PadDim dim{from[d], to[d], p.low, p.interior + 1};
    PadDim& inner = dims.back();
    if (inner.keeps() && dim.step == 1) {
      const int64_t size = inner.to;
      inner = {dim.from * size, dim.to * size, dim.low * size, 1};
    } else {
      dims.push_back(dim);
    }
  }
  std::reverse(dims.begin(), dims.end());
  return dims;
}

// The row of the operand that lies in row `row` of the result, or -1 for one of padding.
int64_t SourceRow(const std::vector<PadDim>& dims, int64_t row) {
  int64_t source = 0, stride = 1;
  for (size_t d = dims.size() - 1; d-- > 0;) {
    const PadDim& dim = dims[d];
    const int64_t at = row % dim.to - dim.low;
    row /= dim.to;
    if (at < 0 || at % dim.step != 0 || at / dim.step >= dim.from) return -1;
    source += at / dim.step * stride;
    stride *= dim.from;
  }
  return source;
}

// Columns [begin, end) of a row, to out.
template <typename T>
void PadRow(const PadDim& dim, const T* row, T value, int64_t begin, int64_t end, T* out) {
  if (dim.step != 1) {
    std::fill_n(out, end - begin, value);
    const int64_t skipped = std::max<int64_t>(begin - dim.low, 0);
    for (int64_t i = (skipped + dim.step - 1) / dim.step; i < dim.from && dim.low + i * dim.step < end; ++i)
      out[dim.low + i * dim.step - begin] = row[i];
    return;
  }
  const int64_t first = std::clamp(dim.low, begin, end), last = std::clamp(dim.low + dim.from, first, end);
  std::fill_n(out, first - begin, value);
  if (last > first) std::copy_n(row + (first - dim.low), last - first, out + (first - begin));
  std::fill_n(out + (last - begin), end - last, value);
}

template <typename T>
Kernel PadKernel(const KernelSpec& spec, T value) {
  return {.run =
              [dims = PadDims(spec), value](const KernelArgs& args) {
                const PadDim& inner = dims.back();
                for (int64_t at = args.begin; at < args.end;) {
                  const int64_t row = at / inner.to, begin = at % inner.to;
                  const int64_t end = std::min(inner.to, begin + args.end - at);
                  const int64_t source = SourceRow(dims, row);
                  T* out = args.Out<T>(0) + at;
                  if (source < 0) std::fill_n(out, end - begin, value);
                  else PadRow(inner, args.In<T>(0) + source * inner.from, value, begin, end, out);
                  at += end - begin;
                }
              },
          .units = spec.results[0].local.num_elements(),
          .by_rows = true};
}

Kernel PadCpu(const KernelSpec& spec) {
  const double value = spec.attrs.Get<double>("value");
  return DispatchAny(spec.results[0].local.dtype, [&](auto zero) {
    using T = Stored<decltype(zero)>;
    return PadKernel<T>(spec, static_cast<T>(value));
  });
}

// ---- Rows.

}  // namespace

std::span<const OpRow> SlicingOps() {
  static const auto* rows = new std::vector<OpRow>{
      {.name = "slice",
       .doc = "x[start:limit:stride] per dim; no stride is 1 everywhere",
       .attrs = {{"start", AttrKind::kInts}, {"limit", AttrKind::kInts}, {"stride", AttrKind::kInts, Ints()}},
       .takes_storage = true,
       .infer = InferSlice,
       .rule = SliceRule,
       .resize = ResizeSlice,
       .exchange = SliceExchange,
       .grad = SliceGrad,
       .cpu = SliceCpu,
       .stack = StackSlice,
       .samples = {"f32[4,6]; start=[0,2] limit=[4,5]", "f64[4,6]; start=[1,0] limit=[4,6] stride=[2,1]",
                   "bf16[4,6]; start=[0,0] limit=[4,6]", "i32[5]; start=[4] limit=[5]",
                   "i64[2,3,4]; start=[0,1,0] limit=[2,2,4]",
                   "bool[4,6]; start=[0,1] limit=[4,6] stride=[1,2]", "f32[]; start=[] limit=[]"}},
      {.name = "pad",
       .doc =
           "x with low and high elements of value around each dim and interior between; negative ones crop",
       .attrs = {{"low", AttrKind::kInts},
                 {"high", AttrKind::kInts},
                 {"interior", AttrKind::kInts, Ints()},
                 {"value", AttrKind::kFloat, 0.0}},
       .takes_storage = true,
       .infer = InferPad,
       .rule = PadRule,
       .exchange = PadExchange,
       .grad = PadGrad,
       .cpu = PadCpu,
       .samples = {"f32[4,6]; low=[0,1] high=[0,2]", "f64[4,6]; low=[1,0] high=[0,0] value=2.5",
                   "u8[4,6]; low=[1,0] high=[0,0] value=255", "bf16[4,6]; low=[0,-1] high=[0,-2] value=-1",
                   "f32[4,6]; low=[-1,0] high=[2,0] interior=[2,0]", "i32[5]; low=[2] high=[0] value=7",
                   "i64[2,3,4]; low=[0,1,0] high=[0,1,0] interior=[0,1,0] value=1",
                   "bool[4,6]; low=[0,1] high=[0,0] value=1", "f32[]; low=[] high=[]"}},
  };
  return *rows;
}

// Appends ops on `x` on behalf of a builder function, or records why not.
struct Builder {
  ResolvedOperands at;
  std::string_view op;

  Builder(const Operand& x, std::string_view op) : at(Resolve({x})), op(op) {}
  bool valid() const { return at.graph != nullptr; }
  const Value& x() const { return at.values[0]; }
  bool Check(const absl::Status& status) const {
    if (status.ok()) return true;
    at.graph->RecordError(
        std::string(MessageOf(Annotate(status, at.graph->Describe(op, at.location) + ": "))));
    return false;
  }
  // Whether there is such a dim; counts it from 0.
  bool Counts(int64_t& dim) const {
    const std::optional<int64_t> d = CountDim(at, op, dim);
    dim = d.value_or(dim);
    return d.has_value();
  }
};

std::vector<Value> SplitAt(const Operand& x, const Ints& sizes, int64_t dim) {
  std::vector<Value> parts;
  int64_t start = 0;
  for (int64_t size : sizes) {
    parts.push_back(SliceDim(x, dim, start, start + size));
    start += size;
  }
  return parts;
}

Value Slice(const Operand& x, const Ints& start, const Ints& limit, const Ints& stride) {
  return AddOp("slice", {x}, {{"start", start}, {"limit", limit}, {"stride", stride}});
}

Value SliceDim(const Operand& x, int64_t dim, int64_t start, int64_t limit, int64_t stride) {
  const Builder builder(x, "slice");
  if (!builder.valid() || !builder.Counts(dim)) return {};
  Ints starts(builder.x().shape().size(), 0), limits = ToInts(builder.x().shape()), strides(starts.size(), 1);
  starts[dim] = start;
  limits[dim] = limit;
  strides[dim] = stride;
  return Slice(x, starts, limits, stride == 1 ? Ints() : strides);
}

Value Pad(const Operand& x, const Ints& low, const Ints& high, double value, const Ints& interior) {
  return AddOp("pad", {x}, {{"low", low}, {"high", high}, {"interior", interior}, {"value", value}});
}

std::vector<Value> Split(const Operand& x, int64_t parts, int64_t dim) {
  const Builder builder(x, "split");
  constexpr int64_t kMostParts = int64_t{1} << 20;
  const auto invalid = [&] {
    return std::vector<Value>(static_cast<size_t>(std::clamp<int64_t>(parts, 0, kMostParts)));
  };
  if (!builder.valid() || !builder.Counts(dim)) return invalid();
  const int64_t size = builder.x().shape()[dim];
  if (parts > kMostParts) {
    builder.Check(InvalidArgument("parts={} is beyond 2^20, the most there can be.", parts));
    return invalid();
  }
  if (parts < 1 || size % parts != 0) {
    builder.Check(InvalidArgument(
        "dim {} of {} has size {}, which is no multiple of parts={}; SplitSizes makes parts of any sizes.",
        dim, builder.x().type().ToString(), size, parts));
    return invalid();
  }
  return SplitAt(x, Ints(static_cast<size_t>(parts), size / parts), dim);
}

std::vector<Value> SplitSizes(const Operand& x, const Ints& sizes, int64_t dim) {
  const Builder builder(x, "split");
  if (!builder.valid() || !builder.Counts(dim)) return std::vector<Value>(sizes.size());
  const int64_t size = builder.x().shape()[dim];
  int64_t rest = size;
  for (int64_t s : sizes) rest = s < 0 || s > rest || rest < 0 ? -1 : rest - s;
  if (rest != 0) {
    builder.Check(InvalidArgument("dim {} of {} has size {}; sizes=[{}] must add up to it.", dim,
                                  builder.x().type().ToString(), size, fmt::join(sizes, ",")));
    return std::vector<Value>(sizes.size());
  }
  return SplitAt(x, sizes, dim);
}

}  // namespace meshwork
