// Values made from nothing: constant, iota, one_hot, random. Every device makes its own block, so
// any layout is free. Random numbers are keyed by the global element index.
#include <cmath>

#include "base/status.h"
#include "ops/builder.h"
#include "ops/kernels/philox.h"
#include "ops/registry.h"

namespace meshwork {
namespace {

using Ints = std::vector<int64_t>;

const AttrSpec kShape{"shape", AttrKind::kInts, std::nullopt, /*is_result_shape=*/true};
const AttrSpec kDType{"dtype", AttrKind::kDType, F32};

absl::StatusOr<std::vector<Type>> InferGenerated(const OpView& view) {
  return std::vector<Type>{{view.attrs.Get<DType>("dtype"), ToShape(view.attrs.Get<Ints>("shape"))}};
}

absl::StatusOr<std::vector<Type>> InferConstant(const OpView& view) {
  RETURN_IF_ERROR(CheckElement(view.attrs.Get<double>("value"), view.attrs.Get<DType>("dtype")));
  return InferGenerated(view);
}

absl::StatusOr<std::vector<Type>> InferRandom(const OpView& view) {
  if (!IsFloat(view.attrs.Get<DType>("dtype")))
    return InvalidArgument("dtype={} is not f32 or f64.", DTypeName(view.attrs.Get<DType>("dtype")));
  return InferGenerated(view);
}

absl::StatusOr<std::vector<Type>> InferNormal(const OpView& view) {
  const double mean = view.attrs.Get<double>("mean"), stddev = view.attrs.Get<double>("stddev");
  if (!std::isfinite(mean) || !std::isfinite(stddev) || stddev < 0)
    return InvalidArgument(
        "mean={} stddev={} is no distribution; both are finite and stddev is not negative.", mean, stddev);
  return InferRandom(view);
}

absl::StatusOr<std::vector<Type>> InferUniform(const OpView& view) {
  const double low = view.attrs.Get<double>("low"), high = view.attrs.Get<double>("high");
  if (!(low <= high) || !std::isfinite(high - low))
    return InvalidArgument("low={} high={} is not a range; both are finite and low is at most high.", low,
                           high);
  return InferRandom(view);
}

absl::StatusOr<std::vector<Type>> InferIota(const OpView& view) {
  ASSIGN_OR_RETURN(std::vector<Type> types, InferGenerated(view));
  RETURN_IF_ERROR(CheckDim("dim", view.attrs.Get<int64_t>("dim"), types[0]));
  if (types[0].dtype == BOOL) return InvalidArgument("makes numbers; dtype=bool is not one.");
  return types;
}

absl::StatusOr<std::vector<Type>> InferOneHot(const OpView& view) {
  const Type& x = view.operands[0];
  const int64_t depth = view.attrs.Get<int64_t>("depth");
  if (!IsInteger(x.dtype)) return InvalidArgument("takes i32 or i64, got {}.", x.ToString());
  if (depth < 0) return InvalidArgument("depth={} is negative.", depth);
  Type result{view.attrs.Get<DType>("dtype"), x.shape};
  result.shape.push_back(depth);
  return std::vector<Type>{result};
}

Rule GeneratedRule(const OpView& view) {
  std::string term;
  for (int d = 0; d < view.results[0].rank(); ++d) term += static_cast<char>('a' + d);
  return MakeRule("->" + term, view.operands, view.results);
}

Rule OneHotRule(const OpView& view) {
  std::string term;
  for (int d = 0; d < view.operands[0].rank(); ++d) term += static_cast<char>('a' + d);
  return MakeRule(term + "->" + term + static_cast<char>('a' + view.operands[0].rank()), view.operands,
                  view.results);
}

// ---- Kernels.

Kernel ConstantCpu(const KernelSpec& spec) {
  const double value = spec.attrs.Get<double>("value");
  return Dispatch(spec.results[0].local.dtype, [&](auto zero) -> Kernel {
    using T = decltype(zero);
    return {.run =
                [x = static_cast<T>(value)](const KernelArgs& args) {
                  std::fill(args.Out<T>(0) + args.begin, args.Out<T>(0) + args.end, x);
                },
            .units = spec.results[0].local.num_elements()};
  });
}

// Calls f(element of the local buffer, global linear index, length) for the rows [begin, end) of a
// block: runs of elements whose global linear indices follow each other. Padding is left alone.
template <typename F>
void ForEachRow(const Shape& local, const Shape& global, const Block& block, int64_t begin, int64_t end,
                F&& f) {
  if (local.empty()) return f(0, 0, 1);
  for (int64_t r = begin; r < end; ++r) {
    int64_t rest = r, index = block.back().start, stride = global.back();
    bool padding = false;
    for (size_t d = local.size() - 1; d-- > 0;) {
      const int64_t at = rest % local[d];
      rest /= local[d];
      padding |= at >= block[d].size;
      index += (block[d].start + at) * stride;
      stride *= global[d];
    }
    if (!padding) f(r * local.back(), index, block.back().size);
  }
}

int64_t NumRows(const Shape& local) {
  return local.empty() ? 1 : (local.back() == 0 ? 0 : NumElements(local) / local.back());
}

Kernel IotaCpu(const KernelSpec& spec) {
  const auto dim = static_cast<size_t>(spec.attrs.Get<int64_t>("dim"));
  const Shape local = spec.results[0].local.shape;
  int64_t inner = 1;
  for (size_t d = dim + 1; d < local.size(); ++d) inner *= local[d];
  return Dispatch(spec.results[0].local.dtype, [&](auto zero) -> Kernel {
    using T = decltype(zero);
    return {.run =
                [=, size = local[dim]](const KernelArgs& args) {
                  const int64_t start = args.out_blocks[0][dim].start;
                  for (int64_t i = args.begin; i < args.end; ++i)
                    args.Out<T>(0)[i] = static_cast<T>(start + i / inner % size);
                },
            .units = NumElements(local)};
  });
}

Kernel OneHotCpu(const KernelSpec& spec) {
  const int64_t depth = spec.results[0].local.shape.back();
  return Dispatch(spec.results[0].local.dtype, [&](auto to) {
    return Dispatch(spec.operands[0].local.dtype, [&](auto from) -> Kernel {
      using To = decltype(to);
      using From = decltype(from);
      return {.run =
                  [depth](const KernelArgs& args) {
                    const Extent& extent = args.out_blocks[0].back();
                    for (int64_t i = args.begin; i < args.end; ++i) {
                      To* row = args.Out<To>(0) + i * depth;
                      std::fill_n(row, depth, To(0));
                      const auto hot = static_cast<int64_t>(args.In<From>(0)[i]);
                      if (hot >= extent.start && hot < extent.start + extent.size)
                        row[hot - extent.start] = To(1);
                    }
                  },
              .units = spec.operands[0].local.num_elements()};
    });
  });
}

// `fill` writes a run of values that follow each other in the global index.
template <typename T, typename Fill>
Kernel RandomKernel(const KernelSpec& spec, Fill fill) {
  const Shape local = spec.results[0].local.shape, global = spec.results[0].global.shape;
  return {.run =
              [=](const KernelArgs& args) {
                ForEachRow(local, global, args.out_blocks[0], args.begin, args.end,
                           [&](int64_t at, int64_t index, int64_t n) {
                             fill(static_cast<uint64_t>(index),
                                  std::span<T>(args.Out<T>(0) + at, static_cast<size_t>(n)));
                           });
              },
          .units = NumRows(local)};
}

template <bool normal>
Kernel RandomCpu(const KernelSpec& spec) {
  const auto seed = static_cast<uint64_t>(spec.attrs.Get<int64_t>("seed"));
  const auto stream = static_cast<uint64_t>(spec.attrs.Get<int64_t>("stream"));
  const double a = spec.attrs.Get<double>(normal ? "mean" : "low");
  const double b = spec.attrs.Get<double>(normal ? "stddev" : "high");
  auto make = [&](auto zero) {
    using T = decltype(zero);
    return RandomKernel<T>(spec, [=](uint64_t first, std::span<T> out) {
      if constexpr (normal) FillNormal(seed, stream, first, static_cast<T>(a), static_cast<T>(b), out);
      else FillUniform(seed, stream, first, static_cast<T>(a), static_cast<T>(b), out);
    });
  };
  return spec.results[0].local.dtype == F64 ? make(double{}) : make(float{});
}

const std::vector<OpRow>& Rows() {
  const AttrSpec seed{"seed", AttrKind::kInt}, stream{"stream", AttrKind::kInt, int64_t{0}};
  static const auto* rows = new std::vector<OpRow>{
      {.name = "constant",
       .doc = "every element is value",
       .num_operands = 0,
       .attrs = {{"value", AttrKind::kFloat}, kDType, kShape},
       .infer = InferConstant,
       .rule = GeneratedRule,
       .cpu = ConstantCpu,
       .samples = {"; value=1.5 shape=[4,6]", "; value=3 dtype=i32 shape=[]"}},
      {.name = "iota",
       .doc = "0, 1, 2, … along dim",
       .num_operands = 0,
       .attrs = {{"dim", AttrKind::kInt}, kDType, kShape},
       .infer = InferIota,
       .rule = GeneratedRule,
       .cpu = IotaCpu,
       .reads_block = true,
       .samples = {"; dim=0 shape=[6]", "; dim=1 dtype=i32 shape=[4,6]"}},
      {.name = "one_hot",
       .doc = "1 where the last index equals x, else 0; out of range: all 0",
       .attrs = {{"depth", AttrKind::kInt, std::nullopt, /*is_result_shape=*/true}, kDType},
       .infer = InferOneHot,
       .rule = OneHotRule,
       .cpu = OneHotCpu,
       .reads_block = true,
       .samples = {"i32[4]; depth=6", "i64[2,3]; depth=4 dtype=f64"}},
      {.name = "random_uniform",
       .doc = "uniform in [low, high), Philox4x32-10 by (seed, stream, global index)",
       .num_operands = 0,
       .attrs =
           {seed, stream, {"low", AttrKind::kFloat, 0.0}, {"high", AttrKind::kFloat, 1.0}, kDType, kShape},
       .infer = InferUniform,
       .rule = GeneratedRule,
       .cpu = RandomCpu<false>,
       .reads_block = true,
       .samples = {"; seed=7 shape=[4,6]", "; seed=7 stream=2 low=-1 high=3 dtype=f64 shape=[5]"}},
      {.name = "random_normal",
       .doc = "normal, Philox4x32-10 by (seed, stream, global index), Box-Muller",
       .num_operands = 0,
       .attrs =
           {seed, stream, {"mean", AttrKind::kFloat, 0.0}, {"stddev", AttrKind::kFloat, 1.0}, kDType, kShape},
       .infer = InferNormal,
       .rule = GeneratedRule,
       .cpu = RandomCpu<true>,
       .reads_block = true,
       .samples = {"; seed=7 shape=[4,6]", "; seed=7 stream=2 mean=1 stddev=3 dtype=f64 shape=[5]"}},
  };
  return *rows;
}

Attrs RandomAttrs(const Type& type, int64_t seed, int64_t stream, std::string_view a_name, double a,
                  std::string_view b_name, double b) {
  return {{"seed", seed},           {"stream", stream},    {std::string(a_name), a},
          {std::string(b_name), b}, {"dtype", type.dtype}, {"shape", ToInts(type.shape)}};
}

}  // namespace

std::span<const OpRow> GenerateOps() { return Rows(); }

Value Constant(Graph& graph, double value, const Type& type, CallSite loc) {
  return graph.Add("constant", {}, {{"value", value}, {"dtype", type.dtype}, {"shape", ToInts(type.shape)}},
                   loc)[0];
}
Value Iota(Graph& graph, const Type& type, int64_t dim, CallSite loc) {
  return graph.Add("iota", {}, {{"dim", dim}, {"dtype", type.dtype}, {"shape", ToInts(type.shape)}}, loc)[0];
}
Value OneHot(const Operand& x, int64_t depth, DType dtype) {
  return AddOp("one_hot", {x}, {{"depth", depth}, {"dtype", dtype}});
}
Value RandomUniform(Graph& graph, const Type& type, int64_t seed, int64_t stream, double low, double high,
                    CallSite loc) {
  return graph.Add("random_uniform", {}, RandomAttrs(type, seed, stream, "low", low, "high", high), loc)[0];
}
Value RandomNormal(Graph& graph, const Type& type, int64_t seed, int64_t stream, double mean, double stddev,
                   CallSite loc) {
  return graph.Add("random_normal", {}, RandomAttrs(type, seed, stream, "mean", mean, "stddev", stddev),
                   loc)[0];
}

}  // namespace meshwork
