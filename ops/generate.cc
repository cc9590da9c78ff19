// Values made from nothing: constant, iota, linspace, eye, one_hot. Every device makes its own block, so any
// layout is free. Random ones are in random.cc.
#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/ir/builder.h"
#include "meshwork/ops/families.h"
#include "meshwork/ops/kernels/block_rows.h"
#include "meshwork/ops/kernels/elementwise.h"
#include "meshwork/ops/ops.h"

namespace meshwork {
namespace {

using Ints = std::vector<int64_t>;

const AttrSpec kShape{"shape", AttrKind::kInts, std::nullopt, /*is_result_shape=*/true};
const AttrSpec kDType{"dtype", AttrKind::kDType, F32};

absl::StatusOr<std::vector<Type>> InferGenerated(const OpView& view) {
  return std::vector<Type>{{view.attrs.Get<DType>("dtype"), ToShape(view.attrs.Get<Ints>("shape"))}};
}

absl::StatusOr<std::vector<Type>> InferConstant(const OpView& view) {
  MESHWORK_RETURN_IF_ERROR(CheckElement(view.attrs.Get<double>("value"), view.attrs.Get<DType>("dtype")));
  return InferGenerated(view);
}

absl::StatusOr<std::vector<Type>> InferIota(const OpView& view) {
  MESHWORK_ASSIGN_OR_RETURN(std::vector<Type> types, InferGenerated(view));
  MESHWORK_RETURN_IF_ERROR(CheckDim("dim", view.attrs.Get<int64_t>("dim"), types[0]));
  if (types[0].dtype == BOOL) return InvalidArgument("makes numbers; dtype=bool is not one.");
  return types;
}

absl::StatusOr<std::vector<Type>> InferLinspace(const OpView& view) {
  const double start = view.attrs.Get<double>("start"), stop = view.attrs.Get<double>("stop");
  MESHWORK_ASSIGN_OR_RETURN(std::vector<Type> types, InferGenerated(view));
  if (!IsFloat(types[0].dtype) || types[0].rank() != 1)
    return InvalidArgument("makes a vector of f32, f64 or bf16, not {}.", types[0].ToString());
  if (!std::isfinite(start) || !std::isfinite(stop))
    return InvalidArgument("start={} stop={} is no range; both are finite.", start, stop);
  return types;
}

absl::StatusOr<std::vector<Type>> InferEye(const OpView& view) {
  MESHWORK_ASSIGN_OR_RETURN(std::vector<Type> types, InferGenerated(view));
  if (types[0].rank() < 2)
    return InvalidArgument("makes matrices, not {}; give shape at least two dims.", types[0].ToString());
  constexpr int64_t kFarthest = int64_t{1} << 40;  // no tensor reaches farther
  const int64_t offset = view.attrs.Get<int64_t>("offset");
  if (offset < -kFarthest || offset > kFarthest) return InvalidArgument("offset={} is beyond 2^40.", offset);
  return types;
}

absl::StatusOr<std::vector<Type>> InferOneHot(const OpView& view) {
  const Type& x = view.operands[0];
  const int64_t depth = view.attrs.Get<int64_t>("depth");
  if (!IsInteger(x.dtype)) return InvalidArgument("takes i32 or i64, got {}; cast it.", x.ToString());
  if (depth < 0) return InvalidArgument("depth={} is negative; it is the number of classes.", depth);
  Type result{view.attrs.Get<DType>("dtype"), x.shape};
  result.shape.push_back(depth);
  return std::vector<Type>{result};
}

constexpr int64_t kMostElements = int64_t{1} << 16;

// The result may be smaller than what `bits` holds: the first rows of a shorter batch, or a block.
absl::StatusOr<std::vector<Type>> InferElements(const OpView& view) {
  const Ints &bits = view.attrs.Get<Ints>("bits"), &of = view.attrs.Get<Ints>("of");
  MESHWORK_ASSIGN_OR_RETURN(std::vector<Type> types, InferGenerated(view));
  const Type all{types[0].dtype, ToShape(of)};
  MESHWORK_RETURN_IF_ERROR(CheckSize(all));
  if (std::ssize(bits) != all.num_elements() || std::ssize(bits) > kMostElements)
    return InvalidArgument("{} in bits, {} has {}; each needs one, and there are at most 2^16.",
                           Count(std::ssize(bits), "number"), all.ToString(), all.num_elements());
  const Shape& shape = types[0].shape;
  bool fits = shape.size() == of.size();
  for (size_t d = 0; fits && d < of.size(); ++d) fits = shape[d] <= of[d];
  if (!fits)
    return InvalidArgument("the result {} does not lie within {}; no dim may be longer.", types[0].ToString(),
                           all.ToString());
  return types;
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
  return DispatchAny(spec.results[0].local.dtype, [&](auto zero) -> Kernel {
    using T = decltype(zero);
    return {.run =
                [x = static_cast<T>(value)](const KernelArgs& args) {
                  std::fill(args.Out<T>(0) + args.begin, args.Out<T>(0) + args.end, x);
                },
            .units = spec.results[0].local.num_elements(),
            .by_rows = true};
  });
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
            .units = NumElements(local),
            .by_rows = true};
  });
}

// Elements as whole numbers: those of whole dtypes themselves, of real ones the bits.
template <typename T>
int64_t ToBits(T x) {
  if constexpr (std::is_same_v<T, float>) return std::bit_cast<int32_t>(x);
  else if constexpr (std::is_same_v<T, double>) return std::bit_cast<int64_t>(x);
  else if constexpr (std::is_same_v<T, BFloat16>) return std::bit_cast<uint16_t>(x);
  else return static_cast<int64_t>(x);
}
template <typename T>
T FromBits(int64_t bits) {
  if constexpr (std::is_same_v<T, float>) return std::bit_cast<float>(static_cast<int32_t>(bits));
  else if constexpr (std::is_same_v<T, double>) return std::bit_cast<double>(bits);
  else if constexpr (std::is_same_v<T, BFloat16>) return std::bit_cast<BFloat16>(static_cast<uint16_t>(bits));
  else return static_cast<T>(bits);
}

Kernel ElementsCpu(const KernelSpec& spec) {
  const Shape local = spec.results[0].local.shape, of = ToShape(spec.attrs.Get<Ints>("of"));
  return Dispatch(spec.results[0].local.dtype, [&](auto zero) -> Kernel {
    using T = decltype(zero);
    auto all = std::make_shared<std::vector<Stored<T>>>();
    for (int64_t bits : spec.attrs.Get<Ints>("bits")) all->push_back(FromBits<T>(bits));
    return {.run =
                [=](const KernelArgs& args) {
                  for (int64_t i = args.begin; i < args.end && !all->empty(); ++i) {
                    int64_t at = 0, rest = i, stride = 1;
                    for (size_t d = local.size(); d-- > 0; stride *= of[d], rest /= local[d]) {
                      // Padding takes any element.
                      const int64_t place = args.out_blocks[0][d].start + rest % local[d];
                      at += std::min(place, of[d] - 1) * stride;
                    }
                    args.Out<Stored<T>>(0)[i] = (*all)[static_cast<size_t>(at)];
                  }
                },
            .units = NumElements(local),
            .by_rows = true};
  });
}

// Element i is a function of the global index alone; the last is `stop` itself.
Kernel LinspaceCpu(const KernelSpec& spec) {
  const double start = spec.attrs.Get<double>("start"), stop = spec.attrs.Get<double>("stop");
  const int64_t last = spec.results[0].global.shape[0] - 1;
  const double step = last > 0 ? (stop - start) / static_cast<double>(last) : 0;
  return Dispatch(spec.results[0].local.dtype, [&](auto zero) -> Kernel {
    using T = decltype(zero);
    return {.run =
                [=](const KernelArgs& args) {
                  for (int64_t i = args.begin; i < args.end; ++i) {
                    const int64_t at = args.out_blocks[0][0].start + i;
                    const double x = at > 0 && at == last ? stop : start + static_cast<double>(at) * step;
                    args.Out<T>(0)[i] = static_cast<T>(x);
                  }
                },
            .units = spec.results[0].local.num_elements(),
            .by_rows = true};
  });
}

Kernel EyeCpu(const KernelSpec& spec) {
  const Shape local = spec.results[0].local.shape;
  const int64_t offset = spec.attrs.Get<int64_t>("offset"), rows = local.end()[-2], columns = local.back();
  return Dispatch(spec.results[0].local.dtype, [&](auto zero) -> Kernel {
    using T = decltype(zero);
    return {.run =
                [=](const KernelArgs& args) {
                  const Extent &down = args.out_blocks[0].end()[-2], &across = args.out_blocks[0].back();
                  for (int64_t r = args.begin; r < args.end; ++r) {
                    T* row = args.Out<T>(0) + r * columns;
                    std::fill_n(row, columns, T(0));
                    const int64_t one = down.start + r % rows + offset - across.start;
                    if (one >= 0 && one < across.size) row[one] = T(1);
                  }
                },
            .units = NumRows(local),
            .by_rows = true};
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
              .units = spec.operands[0].local.num_elements(),
              .by_rows = true,
              .parts = {spec.operands[0].local.num_elements()}};
    });
  });
}

}  // namespace

std::span<const OpRow> GenerateOps() {
  static const auto* rows = new std::vector<OpRow>{
      {.name = "constant",
       .doc = "every element is value",
       .num_operands = 0,
       .attrs = {{"value", AttrKind::kFloat}, kDType, kShape},
       .takes_storage = true,
       .infer = InferConstant,
       .rule = GeneratedRule,
       .cpu = ConstantCpu,
       .samples = {"; value=1.5 shape=[4,6]", "; value=3 dtype=i32 shape=[]",
                   "; value=0.1 dtype=bf16 shape=[5]", "; value=1 dtype=bool shape=[4]",
                   "; value=7 dtype=u8 shape=[4,6]"}},
      {.name = "elements",
       .doc = "the elements in bits, row by row: whole numbers, or the bits of reals; of: their shape",
       .num_operands = 0,
       .attrs = {{"bits", AttrKind::kInts}, {"of", AttrKind::kInts}, kDType, kShape},
       .infer = InferElements,
       .rule = GeneratedRule,
       .cpu = ElementsCpu,
       .reads_block = true,
       .samples = {"; bits=[3,1,-4,1,5,9] of=[2,3] dtype=i32 shape=[2,3]",
                   "; bits=[1065353216,-1082130432,1073741824] of=[3] shape=[3]",
                   "; bits=[1,2,3,4,5,6] of=[3,2] dtype=i64 shape=[2,2]",
                   "; bits=[16256,16384] of=[2] dtype=bf16 shape=[2]",
                   "; bits=[1,0,1] of=[3] dtype=bool shape=[3]"}},
      {.name = "iota",
       .doc = "0, 1, 2, … along dim",
       .num_operands = 0,
       .attrs = {{"dim", AttrKind::kInt}, kDType, kShape},
       .infer = InferIota,
       .rule = GeneratedRule,
       .cpu = IotaCpu,
       .reads_block = true,
       .samples = {"; dim=0 shape=[6]", "; dim=1 dtype=i32 shape=[4,6]", "; dim=0 dtype=bf16 shape=[5]"}},
      {.name = "linspace",
       .doc = "numbers from start to stop, both included, at equal distances; computed in f64",
       .num_operands = 0,
       .attrs = {{"start", AttrKind::kFloat}, {"stop", AttrKind::kFloat}, kDType, kShape},
       .infer = InferLinspace,
       .rule = GeneratedRule,
       .cpu = LinspaceCpu,
       .reads_block = true,
       .samples = {"; start=-1 stop=2 shape=[6]", "; start=1 stop=0 dtype=f64 shape=[5]",
                   "; start=0 stop=8 dtype=bf16 shape=[4]"}},
      {.name = "eye",
       .doc = "1 where the last index is the one before plus offset, else 0",
       .num_operands = 0,
       .attrs = {{"offset", AttrKind::kInt, int64_t{0}}, kDType, kShape},
       .infer = InferEye,
       .rule = GeneratedRule,
       .cpu = EyeCpu,
       .reads_block = true,
       .samples = {"; shape=[6,4]", "; offset=2 dtype=i32 shape=[4,6]",
                   "; offset=-1 dtype=bool shape=[2,4,6]", "; dtype=bf16 shape=[5,5]"}},
      {.name = "one_hot",
       .doc = "1 where the last index equals x, else 0; out of range: all 0",
       .attrs = {{"depth", AttrKind::kInt, std::nullopt, /*is_result_shape=*/true}, kDType},
       .infer = InferOneHot,
       .rule = OneHotRule,
       .cpu = OneHotCpu,
       .reads_block = true,
       .samples = {"i32[4]; depth=6", "i64[2,3]; depth=4 dtype=f64", "i32[4]; depth=6 dtype=bool",
                   "i32[4]; depth=6 dtype=bf16"}},
  };
  return *rows;
}

Value Constant(Graph& graph, double value, const Type& type, CallSite loc) {
  return graph.Add("constant", {}, {{"value", value}, {"dtype", type.dtype}, {"shape", ToInts(type.shape)}},
                   loc)[0];
}
Value Constant(Graph& graph, const ElementList& values, const Type& type, CallSite loc) {
  const auto fail = [&](std::string_view message) {
    graph.RecordError(fmt::format("{}: {}", graph.Describe("constant", loc), message));
    return Value();
  };
  if (const absl::Status status = CheckSize(type); !status.ok()) return fail(MessageOf(status));
  if (values.size() != type.num_elements())
    return fail(fmt::format("{} for {}, which has {}; give one for each element.",
                            Count(values.size(), "value"), type.ToString(), type.num_elements()));
  if (values.size() > kMostElements)
    return fail(
        fmt::format("{} has {}; a program holds at most 2^16 of a constant. Feed the tensor, or set a "
                    "variable.",
                    type.ToString(), Count(values.size(), "element")));
  Ints bits;
  for (double value : values.reals()) {
    if (const absl::Status status = CheckElement(value, type.dtype); !status.ok())
      return fail(MessageOf(status));
    Dispatch(type.dtype, [&](auto zero) { bits.push_back(ToBits(static_cast<decltype(zero)>(value))); });
  }
  for (int64_t value : values.wholes()) {
    if (const absl::Status status = CheckElement(static_cast<double>(value), type.dtype);
        !status.ok() && type.dtype != I64)
      return fail(MessageOf(status));
    Dispatch(type.dtype, [&](auto zero) { bits.push_back(ToBits(static_cast<decltype(zero)>(value))); });
  }
  const Ints shape = ToInts(type.shape);
  return graph.Add("elements", {}, {{"bits", bits}, {"of", shape}, {"dtype", type.dtype}, {"shape", shape}},
                   loc)[0];
}
Value Iota(Graph& graph, const Type& type, int64_t dim, CallSite loc) {
  return graph.Add(
      "iota", {},
      {{"dim", FromFront(dim, type.rank())}, {"dtype", type.dtype}, {"shape", ToInts(type.shape)}}, loc)[0];
}
Value Linspace(Graph& graph, double start, double stop, const Type& type, CallSite loc) {
  return graph.Add("linspace", {},
                   {{"start", start}, {"stop", stop}, {"dtype", type.dtype}, {"shape", ToInts(type.shape)}},
                   loc)[0];
}
Value Eye(Graph& graph, const Type& type, int64_t offset, CallSite loc) {
  return graph.Add("eye", {}, {{"offset", offset}, {"dtype", type.dtype}, {"shape", ToInts(type.shape)}},
                   loc)[0];
}
Value OneHot(const Operand& x, int64_t depth, DType dtype) {
  return AddOp("one_hot", {x}, {{"depth", depth}, {"dtype", dtype}});
}

}  // namespace meshwork
