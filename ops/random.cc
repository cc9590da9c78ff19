// Random values: uniform, normal, truncated normal, bernoulli, whole numbers. Every device draws its own
// block, keyed by the global element index, so any layout is free and bitwise the same.
//
// The operands are numbers of steps and iterations, i64[] each; there may be any number of them. Each value of such a
// number has a seed of its own; streams and indices are used in the same way with every seed. If `placed` is set, the
// last three operands give the place of the result in a whole tensor (RandomPlace, ir/graph.h): the block, the part,
// the number of parts.
#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <limits>

#include "meshwork/base/status.h"
#include "meshwork/ir/builder.h"
#include "meshwork/ir/regions.h"
#include "meshwork/ops/families.h"
#include "meshwork/ops/kernels/block_rows.h"
#include "meshwork/ops/kernels/elementwise.h"
#include "meshwork/ops/kernels/indexing.h"
#include "meshwork/ops/kernels/philox.h"
#include "meshwork/ops/kernels/portable/philox.h"
#include "meshwork/ops/ops.h"

namespace meshwork {
namespace {

constexpr size_t kPlaceOperands = 3;

absl::StatusOr<std::vector<Type>> InferAny(const OpView& view) {
  for (const Type& operand : view.operands)
    if (operand != Type{I64, {}})
      return InvalidArgument("the step must be i64[], got {}; give a variable that counts steps.",
                             operand.ToString());
  if (view.attrs.Get<bool>("placed") && view.operands.size() < kPlaceOperands)
    return InvalidArgument(
        "placed=true takes at least {}, the last ones the block, the part and the number of parts; got {}.",
        Count(kPlaceOperands, "operand"), view.operands.size());
  return std::vector<Type>{
      {view.attrs.Get<DType>("dtype"), ToShape(view.attrs.Get<std::vector<int64_t>>("shape"))}};
}

absl::StatusOr<std::vector<Type>> InferReal(const OpView& view) {
  const DType dtype = view.attrs.Get<DType>("dtype");
  if (!IsFloat(dtype)) return InvalidArgument("dtype={} is not f32, f64 or bf16.", DTypeName(dtype));
  return InferAny(view);
}

// Whether all numbers are finite in the dtype that they are computed with.
bool AreFinite(DType dtype, std::initializer_list<double> numbers) {
  const double most = dtype == F64 ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max();
  return std::all_of(numbers.begin(), numbers.end(), [&](double x) { return std::abs(x) <= most; });
}

absl::StatusOr<std::vector<Type>> InferNormal(const OpView& view) {
  const double mean = view.attrs.Get<double>("mean"), stddev = view.attrs.Get<double>("stddev");
  if (!AreFinite(view.attrs.Get<DType>("dtype"), {mean, stddev}) || stddev < 0)
    return InvalidArgument(
        "mean={} stddev={} is no distribution; both are finite and stddev is not negative.", mean, stddev);
  return InferReal(view);
}

absl::StatusOr<std::vector<Type>> InferUniform(const OpView& view) {
  const double low = view.attrs.Get<double>("low"), high = view.attrs.Get<double>("high");
  if (!(low <= high) || !AreFinite(view.attrs.Get<DType>("dtype"), {low, high, high - low}))
    return InvalidArgument("low={} high={} is not a range; both are finite and low is at most high.", low,
                           high);
  return InferReal(view);
}

absl::StatusOr<std::vector<Type>> InferBernoulli(const OpView& view) {
  const double p = view.attrs.Get<double>("p");
  if (!(p >= 0 && p <= 1)) return InvalidArgument("p={} is no probability; it lies in [0, 1].", p);
  return InferAny(view);
}

absl::StatusOr<std::vector<Type>> InferInt(const OpView& view) {
  const DType dtype = view.attrs.Get<DType>("dtype");
  const int64_t low = view.attrs.Get<int64_t>("low"), high = view.attrs.Get<int64_t>("high");
  if (!IsInteger(dtype)) return InvalidArgument("dtype={} is not i32 or i64.", DTypeName(dtype));
  if (low >= high) return InvalidArgument("low={} high={} has no number; high is above low.", low, high);
  if (dtype == I32 &&
      (low < std::numeric_limits<int32_t>::min() || high - 1 > int64_t{std::numeric_limits<int32_t>::max()}))
    return InvalidArgument("low={} high={} does not fit dtype=i32.", low, high);
  return InferAny(view);
}

Rule RandomRule(const OpView& view) {
  std::string text(view.operands.empty() ? 0 : view.operands.size() - 1, ',');
  text += "->";
  for (int d = 0; d < view.results[0].rank(); ++d) text += static_cast<char>('a' + d);
  return MakeRule(text, view.operands, view.results);
}

// ---- Kernels.

// The place of a draw: the seed, and for each drawn element its index in the whole tensor.
class DrawnPlace {
 public:
  // Without the values of the operands.
  explicit DrawnPlace(const KernelSpec& spec)
      : seed_(static_cast<uint64_t>(spec.attrs.Get<int64_t>("seed"))),
        is_placed_(spec.attrs.Get<bool>("placed")),
        keys_(spec.operands.size() - (is_placed_ ? kPlaceOperands : 0)) {
    const Shape& global = spec.results[0].global.shape;
    rows_ = global.empty() ? 1 : static_cast<uint64_t>(global[0]);
    row_size_ = 1;
    for (size_t d = 1; d < global.size(); ++d)
      row_size_ *= std::max<uint64_t>(static_cast<uint64_t>(global[d]), 1);
    has_long_rows_ = global.size() > 1;
  }

  // The place with the values of the operands.
  DrawnPlace At(const KernelArgs& args) const {
    const auto number = [&](size_t o) { return static_cast<uint64_t>(*args.In<int64_t>(o)); };
    DrawnPlace place = *this;
    for (size_t o = 0; o < keys_; ++o) place.seed_ = portable::SeedOfStep(place.seed_, number(o));
    if (!is_placed_) return place;
    place.first_row_ = number(keys_) * rows_;
    place.part_ = number(keys_ + 1);
    place.parts_ = number(keys_ + 2);
    return place;
  }
  uint64_t seed() const { return seed_; }

  // f(first index, elements before, number) for runs of `n` elements from `index` on, which lie in one row.
  template <typename F>
  void ForEachRun(uint64_t index, size_t n, F&& f) const {
    if (!is_placed_) return f(index, size_t{0}, n);
    if (has_long_rows_ || parts_ == 1) return f(Whole(index), size_t{0}, n);
    for (size_t i = 0; i < n; ++i) f(Whole(index + i), i, size_t{1});
  }

 private:
  uint64_t Whole(uint64_t index) const {
    return ((first_row_ + index / row_size_) * parts_ + part_) * row_size_ + index % row_size_;
  }

  uint64_t seed_;
  bool is_placed_;
  size_t keys_;  // operands that give a seed
  uint64_t rows_, row_size_;
  bool has_long_rows_;
  uint64_t first_row_ = 0, part_ = 0, parts_ = 1;
};

// draw(seed, first index in the whole, span of Drawn) draws a run; store makes elements of T of them.
template <typename T, typename Drawn, typename Draw, typename Store>
Kernel RandomKernel(const KernelSpec& spec, Draw draw, Store store) {
  const Shape local = spec.results[0].local.shape, global = spec.results[0].global.shape;
  const DrawnPlace of_spec(spec);
  return {.run =
              [=](const KernelArgs& args) {
                const DrawnPlace place = of_spec.At(args);
                const auto draw_run = [&](Stored<T>* out, uint64_t index, size_t n) {
                  if constexpr (std::is_same_v<Stored<T>, Drawn>) {
                    draw(place.seed(), index, std::span<Drawn>(out, n));
                  } else {
                    std::array<Drawn, 256> tile;
                    for (size_t done = 0; done < n; done += tile.size()) {
                      const size_t count = std::min(n - done, tile.size());
                      draw(place.seed(), index + done, std::span<Drawn>(tile.data(), count));
                      for (size_t i = 0; i < count; ++i) out[done + i] = store(tile[i]);
                    }
                  }
                };
                ForEachRow(local, global, args.out_blocks[0], args.begin, args.end,
                           [&](int64_t at, int64_t index, int64_t n) {
                             auto* out = args.Out<Stored<T>>(0) + at;
                             place.ForEachRun(static_cast<uint64_t>(index), static_cast<size_t>(n),
                                              [&](uint64_t first, size_t before, size_t count) {
                                                draw_run(out + before, first, count);
                                              });
                           });
              },
          .units = NumRows(local),
          .by_rows = true};
}

// make(zero, store) for a real dtype, where zero is of the type that is drawn: float for bf16.
template <typename Make>
Kernel DispatchReal(const KernelSpec& spec, Make make) {
  return Dispatch(spec.results[0].local.dtype, [&](auto zero) -> Kernel {
    using T = decltype(zero);
    if constexpr (kIsReal<T>) return make(zero, Compute<T>{});
    else return {};
  });
}

// The largest bf16 below x. REQUIRES: x is finite.
BFloat16 Below(BFloat16 x) {
  if (x == 0) x.bits = 0x8001;
  else x.bits = static_cast<uint16_t>(x > 0 ? x.bits - 1 : x.bits + 1);
  return x;
}

Kernel UniformCpu(const KernelSpec& spec) {
  const auto stream = static_cast<uint64_t>(spec.attrs.Get<int64_t>("stream"));
  const double low = spec.attrs.Get<double>("low"), high = spec.attrs.Get<double>("high");
  return DispatchReal(spec, [&]<typename T, typename A>(T, A) {
    const T first = static_cast<T>(low), end = static_cast<T>(high);
    // Rounded to bf16, a value may reach the upper end, which it cannot in the dtype that is drawn.
    return RandomKernel<T, A>(
        spec,
        [=](uint64_t seed, uint64_t index, std::span<A> out) {
          FillUniform(seed, stream, index, static_cast<A>(first), static_cast<A>(end), out);
        },
        [=](A x) {
          const T rounded = static_cast<T>(x);
          if constexpr (std::is_same_v<T, BFloat16>)
            return rounded >= end && first < end ? Below(end) : rounded;
          else return rounded;
        });
  });
}

template <bool truncated>
Kernel NormalCpu(const KernelSpec& spec) {
  const auto stream = static_cast<uint64_t>(spec.attrs.Get<int64_t>("stream"));
  const double mean = spec.attrs.Get<double>("mean"), stddev = spec.attrs.Get<double>("stddev");
  return DispatchReal(spec, [&]<typename T, typename A>(T, A) {
    return RandomKernel<T, A>(
        spec,
        [=](uint64_t seed, uint64_t index, std::span<A> out) {
          const A m = static_cast<A>(mean), s = static_cast<A>(stddev);
          if constexpr (truncated) FillTruncatedNormal(seed, stream, index, m, s, out);
          else FillNormal(seed, stream, index, m, s, out);
        },
        [](A x) { return static_cast<T>(x); });
  });
}

Kernel BernoulliCpu(const KernelSpec& spec) {
  const auto stream = static_cast<uint64_t>(spec.attrs.Get<int64_t>("stream"));
  const double p = spec.attrs.Get<double>("p");
  return Dispatch(spec.results[0].local.dtype, [&](auto zero) {
    using T = decltype(zero);
    return RandomKernel<T, uint8_t>(
        spec,
        [=](uint64_t seed, uint64_t index, std::span<uint8_t> out) {
          FillBernoulli(seed, stream, index, p, out);
        },
        [](uint8_t x) { return static_cast<T>(x); });
  });
}

Kernel IntCpu(const KernelSpec& spec) {
  const auto stream = static_cast<uint64_t>(spec.attrs.Get<int64_t>("stream"));
  const int64_t low = spec.attrs.Get<int64_t>("low"), high = spec.attrs.Get<int64_t>("high");
  return DispatchIndex(spec.results[0].local.dtype, [&](auto zero) {
    using T = decltype(zero);
    return RandomKernel<T, int64_t>(
        spec,
        [=](uint64_t seed, uint64_t index, std::span<int64_t> out) {
          FillInt(seed, stream, index, low, high, out);
        },
        [](int64_t x) { return static_cast<T>(x); });
  });
}

// ---- Rows.

OpRow RandomRow(std::string_view name, std::string_view doc, std::vector<AttrSpec> parameters, DType dtype,
                absl::StatusOr<std::vector<Type>> (*infer)(const OpView&), KernelFactory cpu,
                std::vector<std::string_view> samples) {
  OpRow row{.name = name,
            .doc = doc,
            .num_operands = 0,
            .optional_operands = 1 + kMaxNesting + static_cast<int>(kPlaceOperands),
            .attrs = {{"seed", AttrKind::kInt},
                      {"stream", AttrKind::kInt, int64_t{0}},
                      {"placed", AttrKind::kBool, false}},
            .infer = infer,
            .rule = RandomRule,
            .cpu = cpu,
            .reads_block = true,
            .samples = std::move(samples)};
  row.attrs.insert(row.attrs.end(), parameters.begin(), parameters.end());
  row.attrs.push_back({"dtype", AttrKind::kDType, dtype});
  row.attrs.push_back({"shape", AttrKind::kInts, std::nullopt, /*is_result_shape=*/true});
  return row;
}

}  // namespace

std::span<const OpRow> RandomOps() {
  const AttrSpec mean{"mean", AttrKind::kFloat, 0.0}, stddev{"stddev", AttrKind::kFloat, 1.0};
  static const auto* rows = new std::vector<OpRow>{
      RandomRow("random_uniform", "uniform in [low, high), Philox4x32-10 by (seed, stream, global index)",
                {{"low", AttrKind::kFloat, 0.0}, {"high", AttrKind::kFloat, 1.0}}, F32, InferUniform,
                UniformCpu,
                {"; seed=7 shape=[4,6]", "; seed=7 stream=2 low=-1 high=3 dtype=f64 shape=[5]",
                 "i64[]; seed=7 shape=[4,6]", "; seed=7 dtype=bf16 shape=[4,6]",
                 "i64[], i64[], i64[], i64[], i64[]; seed=7 placed=true shape=[4,6]"}),
      RandomRow("random_normal", "normal, Philox4x32-10 by (seed, stream, global index), Box-Muller",
                {mean, stddev}, F32, InferNormal, NormalCpu<false>,
                {"; seed=7 shape=[4,6]", "; seed=7 stream=2 mean=1 stddev=3 dtype=f64 shape=[5]",
                 "i64[]; seed=7 dtype=f64 shape=[5]", "; seed=7 dtype=bf16 shape=[4,6]",
                 "i64[], i64[]; seed=7 shape=[4,6]"}),
      RandomRow("random_truncated_normal",
                "normal within 2 stddev of the mean, Philox4x32-10 by (seed, stream, global index), by the "
                "inverse of the distribution function",
                {mean, stddev}, F32, InferNormal, NormalCpu<true>,
                {"; seed=7 shape=[4,6]", "; seed=7 stream=2 mean=1 stddev=3 dtype=f64 shape=[5]",
                 "i64[]; seed=7 shape=[]", "; seed=7 dtype=bf16 shape=[4,6]",
                 "i64[], i64[], i64[]; seed=7 placed=true shape=[]"}),
      RandomRow("random_bernoulli",
                "1 with probability p, else 0, Philox4x32-10 by (seed, stream, global index)",
                {{"p", AttrKind::kFloat}}, BOOL, InferBernoulli, BernoulliCpu,
                {"; seed=7 p=0.5 shape=[4,6]", "; seed=7 stream=1 p=0.25 dtype=f32 shape=[5]",
                 "i64[]; seed=7 p=0.75 shape=[4,6]", "; seed=7 p=0.5 dtype=bf16 shape=[4,6]",
                 "; seed=7 p=0.5 dtype=i32 shape=[5]",
                 "i64[], i64[], i64[], i64[]; seed=7 p=0.5 placed=true shape=[5]"}),
      RandomRow("random_int", "whole numbers of [low, high), Philox4x32-10 by (seed, stream, global index)",
                {{"low", AttrKind::kInt, int64_t{0}}, {"high", AttrKind::kInt}}, I32, InferInt, IntCpu,
                {"; seed=7 high=10 shape=[4,6]", "; seed=7 stream=1 low=-5 high=5 dtype=i64 shape=[5]",
                 "i64[]; seed=7 high=100 shape=[4,6]"}),
  };
  return *rows;
}

// Adds the op with the operands that give the place of the numbers.
Value AddPlaced(Graph& graph, std::string_view op, Attrs attrs, const Value& step, CallSite loc) {
  std::vector<Value> operands(step.valid() ? 1 : 0, step);
  const RandomPlace place = graph.random_place();
  operands.insert(operands.end(), place.iterations.begin(), place.iterations.end());
  if (place.block.valid() || place.parts.valid()) {
    attrs.Set("placed", true);
    const auto add = [&](const Value& value, double otherwise) {
      operands.push_back(value.valid() ? value : Constant(graph, otherwise, {I64, {}}));
    };
    add(place.block, 0);
    add(place.part, 0);
    add(place.parts, 1);
  }
  return graph.Add(op, operands, attrs, loc)[0];
}

Value AddRandom(Graph& graph, std::string_view op, const Type& type, int64_t seed, int64_t stream,
                std::initializer_list<std::pair<std::string_view, double>> parameters, const Value& step,
                CallSite loc) {
  Attrs attrs = {{"seed", seed}, {"stream", stream}, {"dtype", type.dtype}, {"shape", ToInts(type.shape)}};
  for (const auto& [name, value] : parameters) attrs.Set(name, value);
  return AddPlaced(graph, op, std::move(attrs), step, loc);
}

Value RandomUniform(Graph& graph, const Type& type, int64_t seed, int64_t stream, double low, double high,
                    const Value& step, CallSite loc) {
  return AddRandom(graph, "random_uniform", type, seed, stream, {{"low", low}, {"high", high}}, step, loc);
}
Value RandomNormal(Graph& graph, const Type& type, int64_t seed, int64_t stream, double mean, double stddev,
                   const Value& step, CallSite loc) {
  return AddRandom(graph, "random_normal", type, seed, stream, {{"mean", mean}, {"stddev", stddev}}, step,
                   loc);
}
Value RandomTruncatedNormal(Graph& graph, const Type& type, int64_t seed, int64_t stream, double mean,
                            double stddev, const Value& step, CallSite loc) {
  return AddRandom(graph, "random_truncated_normal", type, seed, stream, {{"mean", mean}, {"stddev", stddev}},
                   step, loc);
}
Value RandomBernoulli(Graph& graph, const Type& type, int64_t seed, int64_t stream, double p,
                      const Value& step, CallSite loc) {
  return AddRandom(graph, "random_bernoulli", type, seed, stream, {{"p", p}}, step, loc);
}

Value RandomInt(Graph& graph, const Type& type, int64_t seed, int64_t stream, int64_t low, int64_t high,
                const Value& step, CallSite loc) {
  return AddPlaced(graph, "random_int",
                   {{"seed", seed},
                    {"stream", stream},
                    {"low", low},
                    {"high", high},
                    {"dtype", type.dtype},
                    {"shape", ToInts(type.shape)}},
                   step, loc);
}

}  // namespace meshwork
