// The forms of collectives and of what devices do to their own blocks. A group's members are in the order of their ranks. Their
// blocks side by side are the tensor's elements in order, or, where blocks of blocks are uneven, are put in order by index; what is
// beyond the tensor is cut off. Blocks that move in parts (exchange,
// all_to_all_v) are taken, by index, from dims that are gathered whole: right, but more is sent than by meshwork's own backends.
#include <algorithm>
#include <functional>
#include <optional>

#include "fmt/ranges.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/collective_spec.h"
#include "meshwork/ir/exchange.h"
#include "meshwork/ir/program_cost.h"
#include "meshwork/ir/row.h"
#include "meshwork/stablehlo/forms.h"

namespace meshwork::stablehlo {
namespace {

using Ints = std::vector<int64_t>;
using FormResult = absl::StatusOr<HloValues>;

// "replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>"
std::string Groups(const Mesh& mesh, const AxisList& axes) {
  const AxisGroup group(mesh, axes);
  std::vector<std::string> groups;
  for (int64_t device = 0; device < mesh.num_devices(); ++device) {
    if (group.RankOf(device) != 0) continue;
    Ints members;
    for (int64_t rank = 0; rank < group.size(); ++rank) members.push_back(group.Member(device, rank));
    groups.push_back(fmt::format("[{}]", fmt::join(members, ", ")));
  }
  return fmt::format("replica_groups = dense<[{}]> : tensor<{}x{}xi64>", fmt::join(groups, ", "),
                     groups.size(), group.size());
}

// The first `size` elements along dim d.
HloValue FirstAlong(HloText& text, const HloValue& x, int64_t d, int64_t size) {
  if (x.shape()[d] == size) return x;
  Shape limit = x.shape();
  limit[d] = size;
  return text.Slice(x, Shape(limit.size(), 0), limit);
}

// x with `more` elements, which may be anything, behind those along dim d.
HloValue WithMoreAlong(HloText& text, const HloValue& x, int64_t d, int64_t more) {
  if (more <= 0) return x;
  Shape none(x.shape().size(), 0), high = none;
  high[d] = more;
  return text.Pad(x, text.Constant(0, {x.dtype(), {}}), none, high);
}

// The blocks of a group put together along dim d.
HloValue Gathered(const FormView& v, const HloValue& x, const AxisList& axes, int64_t d) {
  Type type = x.type;
  type.shape[d] *= v.mesh().GroupSize(axes);
  return v.text.Op("stablehlo.all_gather", {x}, type,
                   fmt::format("all_gather_dim = {} : i64, {}", d, Groups(v.mesh(), axes)));
}

// The elements of x along dim d that this device takes: result i is element table[device][i], or
// `value` where that is -1.
HloValue TakeAlong(const FormView& v, const HloValue& x, int d, const std::vector<Ints>& table,
                   const HloValue& value) {
  HloText& text = v.text;
  Ints flat, masks;
  for (const Ints& row : table) {
    for (const int64_t index : row) {
      flat.push_back(std::max<int64_t>(index, 0));
      masks.push_back(index >= 0 ? 1 : 0);
    }
  }
  const auto devices = std::ssize(table), size = std::ssize(table[0]);
  Ints numbers;
  for (int64_t device = 0; device < devices; ++device) numbers.push_back(device);
  const HloValue device = text.OfThisDevice(numbers), zero = text.WholeConstant(0, {I64, {}});
  const auto of_device = [&](const Ints& all) {
    const HloValue row =
        text.Op("stablehlo.dynamic_slice", {text.Table(all, {I64, {devices, size}}), device, zero},
                {I64, {1, size}}, "slice_sizes = " + Array({1, size}));
    return text.Reshape(row, {size});
  };
  Type type = x.type;
  type.shape[d] = size;
  Ints offsets;
  for (int i = 0; i < x.rank(); ++i)
    if (i != d) offsets.push_back(i);
  Shape slice = x.shape();
  slice[d] = 1;
  const HloValue taken = text.Op(
      "stablehlo.gather", {x, of_device(flat)}, type,
      fmt::format("dimension_numbers = #stablehlo.gather<offset_dims = [{}], collapsed_slice_dims = [{}], "
                  "start_index_map = [{}], index_vector_dim = 1>, slice_sizes = {}",
                  fmt::join(offsets, ", "), d, d, Array(slice)));
  if (std::find(masks.begin(), masks.end(), 0) == masks.end()) return taken;
  const HloValue ones = text.WholeConstant(1, {I64, {size}});
  const HloValue mask = text.BroadcastInDim(text.Compare("EQ", of_device(masks), ones), type.shape, {d});
  return text.Select(mask, taken, text.BroadcastInDim(value, type.shape, {}));
}

// ---- Blocks of a group side by side. A block of b elements has member r's at r b; where blocks of blocks are uneven, they do not
// follow each other in the tensor.

// Per device and element of its block of `whole`: where the element lies among the blocks of `cut` side by side; 0 for padding.
std::vector<Ints> PlacesSideBySide(const ValueInfo& whole, const ValueInfo& cut, const AxisGroup& group,
                                   int64_t d) {
  std::vector<Ints> places;
  for (int64_t device = 0; device < whole.layout->mesh().num_devices(); ++device) {
    const Extent all = FormView::ExtentOn(whole, d, device);
    Ints row(static_cast<size_t>(whole.type.shape[d]), 0);
    for (int64_t rank = 0; rank < group.size(); ++rank) {
      const Extent part = FormView::ExtentOn(cut, d, group.Member(device, rank));
      for (int64_t i = 0; i < part.size; ++i) row[part.start + i - all.start] = rank * cut.type.shape[d] + i;
    }
    places.push_back(std::move(row));
  }
  return places;
}

// Whether each block of the whole lies in order, on all devices, but for padding.
bool AreInOrder(const ValueInfo& whole, const std::vector<Ints>& places, int64_t d) {
  for (size_t device = 0; device < places.size(); ++device)
    for (int64_t i = 0; i < FormView::ExtentOn(whole, d, static_cast<int64_t>(device)).size; ++i)
      if (places[device][i] != i) return false;
  return true;
}

// The block of `whole` that these blocks of `cut`, side by side in x, make.
HloValue Joined(const FormView& v, const HloValue& x, const ValueInfo& whole, const ValueInfo& cut,
                const AxisList& axes, int64_t d) {
  const std::vector<Ints> places = PlacesSideBySide(whole, cut, AxisGroup(v.mesh(), axes), d);
  if (AreInOrder(whole, places, d)) return FirstAlong(v.text, x, d, whole.type.shape[d]);
  return TakeAlong(v, x, static_cast<int>(d), places, {});
}

// The blocks of `cut` side by side, of the block x of `whole`; their padding may be anything.
HloValue SideBySide(const FormView& v, const HloValue& x, const ValueInfo& whole, const ValueInfo& cut,
                    const AxisList& axes, int64_t d) {
  const AxisGroup group(v.mesh(), axes);
  const int64_t size = group.size() * cut.type.shape[d];
  const std::vector<Ints> places = PlacesSideBySide(whole, cut, group, d);
  if (AreInOrder(whole, places, d)) return WithMoreAlong(v.text, x, d, size - x.shape()[d]);
  std::vector<Ints> table;
  for (size_t device = 0; device < places.size(); ++device) {
    Ints row(static_cast<size_t>(size), 0);
    for (int64_t i = 0; i < FormView::ExtentOn(whole, d, static_cast<int64_t>(device)).size; ++i)
      row[places[device][i]] = i;
    table.push_back(std::move(row));
  }
  return TakeAlong(v, x, static_cast<int>(d), table, {});
}

FormResult StridedIsMissing(const FormView& v) {
  return absl::UnimplementedError(
      fmt::format("{} of strided layouts has no form in StableHLO yet.", v.node.row->name));
}
bool IsStrided(const FormView& v) {
  const auto strided = [&](ValueId id) { return v.graph.value(id).layout->is_strided(); };
  return std::any_of(v.node.operands.begin(), v.node.operands.end(), strided) ||
         std::any_of(v.node.results.begin(), v.node.results.end(), strided);
}

// One result after the other, each from the operand of the same number.
FormResult EachOperand(const FormView& v, const std::function<HloValue(const HloValue& x, size_t i)>& form) {
  if (IsStrided(v)) return StridedIsMissing(v);
  HloValues results;
  for (size_t i = 0; i < v.operands.size(); ++i) results.push_back(form(v.operands[i], i));
  return results;
}

FormResult AllReduce(const FormView& v) {
  const CollectiveSpec spec = CollectiveOf(v.node);
  HloValues results;
  for (const HloValue& x : v.operands) {
    const std::string region = v.text.Reduction(spec.op, x.dtype());
    results.push_back(
        v.text.Ops("stablehlo.all_reduce", {&x, 1}, {x.type}, Groups(v.mesh(), spec.axes), {&region, 1})[0]);
  }
  return results;
}

FormResult AllGather(const FormView& v) {
  const CollectiveSpec spec = CollectiveOf(v.node);
  return EachOperand(v, [&](const HloValue& x, size_t i) {
    return Joined(v, Gathered(v, x, spec.axes, spec.dim), v.result_info(i), v.operand_info(i), spec.axes,
                  spec.dim);
  });
}

FormResult ReduceScatter(const FormView& v) {
  const CollectiveSpec spec = CollectiveOf(v.node);
  return EachOperand(v, [&](const HloValue& x, size_t i) {
    const HloValue blocks = SideBySide(v, x, v.operand_info(i), v.result_info(i), spec.axes, spec.dim);
    const std::string region = v.text.Reduction(spec.op, x.dtype());
    return v.text.Ops("stablehlo.reduce_scatter", {&blocks, 1}, {v.result(i)},
                      fmt::format("scatter_dimension = {} : i64, {}", spec.dim, Groups(v.mesh(), spec.axes)),
                      {&region, 1})[0];
  });
}

FormResult AllToAll(const FormView& v) {
  const CollectiveSpec spec = CollectiveOf(v.node);
  return EachOperand(v, [&](const HloValue& x, size_t) {
    const int64_t count = v.mesh().GroupSize(spec.axes), gathered = spec.dim, cut = spec.to_dim;
    const HloValue blocks = SideBySide(v, x, v.operand_info(0), v.result_info(), spec.axes, cut);
    Type type = blocks.type;
    type.shape[cut] /= count;
    type.shape[gathered] *= count;
    // XLA (API 0.81 to 0.115) cuts what is sent into a value per device, simplifies each by itself, and then refuses them if one,
    // such as a constant, is laid out in another way than the rest. It does not look behind a barrier.
    const HloValue whole = v.text.Op("stablehlo.optimization_barrier", {blocks}, blocks.type);
    const HloValue moved = v.text.Op(
        "stablehlo.all_to_all", {whole}, type,
        fmt::format("split_dimension = {} : i64, concat_dimension = {} : i64, split_count = {} : i64, {}",
                    cut, gathered, count, Groups(v.mesh(), spec.axes)));
    return Joined(v, moved, v.result_info(), v.operand_info(0), spec.axes, gathered);
  });
}

// For each device, the one whose block it receives; empty if blocks cannot be paired.
Ints SourcesOfBlocks(const FormView& v) {
  const ValueInfo &from = v.operand_info(0), &to = v.result_info();
  const AxisGroup group(v.mesh(), GroupAxes(v.graph, v.node));
  std::vector<bool> taken(static_cast<size_t>(v.mesh().num_devices()), false);
  Ints sources;
  for (int64_t device = 0; device < v.mesh().num_devices(); ++device) {
    const Block wanted = to.layout->BlockOf(to.global.shape, device);
    std::optional<int64_t> source;
    for (int64_t rank = 0; rank < group.size() && !source.has_value(); ++rank) {
      const int64_t other = group.Member(device, rank);
      if (!taken[other] && from.layout->BlockOf(from.global.shape, other) == wanted) source = other;
    }
    if (!source.has_value()) return {};
    taken[*source] = true;
    sources.push_back(*source);
  }
  return sources;
}

FormResult Permute(const FormView& v) {
  const Ints sources = SourcesOfBlocks(v);
  if (sources.empty())
    return absl::UnimplementedError(
        "collective_permute of blocks that several devices need has no form in StableHLO yet.");
  std::vector<std::string> pairs;
  for (size_t device = 0; device < sources.size(); ++device)
    pairs.push_back(fmt::format("[{}, {}]", sources[device], device));
  return HloValues{v.text.Op("stablehlo.collective_permute", {v.operands[0]}, v.result(),
                             fmt::format("source_target_pairs = dense<[{}]> : tensor<{}x2xi64>",
                                         fmt::join(pairs, ", "), pairs.size()))};
}

// Where the elements of a dim lie once its blocks are put together: element g at at[g].
Ints PlacesInGathered(const ValueInfo& value, int d) {
  const Mesh& mesh = value.layout->mesh();
  const AxisGroup group(mesh, value.layout->dim(d));
  Ints at(static_cast<size_t>(value.global.shape[d]), 0);
  for (int64_t device = 0; device < mesh.num_devices(); ++device) {
    const Extent held = FormView::ExtentOn(value, static_cast<size_t>(d), device);
    for (int64_t i = 0; i < held.size; ++i)
      at[held.start + i] = group.RankOf(device) * value.type.shape[d] + i;
  }
  return at;
}

// Operand i with the elements that this device's block of the result takes from it, and elsewhere `value`.
HloValue Exchanged(const FormView& v, const Exchange& exchange, size_t i, const HloValue& value) {
  const ValueInfo &from = v.operand_info(i), &to = v.result_info();
  HloValue x = v.operands[i];
  std::vector<int> moved;
  for (int d = 0; d < x.rank(); ++d)
    if (!exchange.dims[d].IsIdentity() || from.layout->dim(d) != to.layout->dim(d) ||
        from.global.shape[d] != to.global.shape[d])
      moved.push_back(d);
  // Dims are gathered before any is taken from: what a device takes along one differs from what another takes that holds a part
  // of another dim.
  for (const int d : moved)
    if (!from.layout->dim(d).empty()) x = Gathered(v, x, from.layout->dim(d), d);
  for (const int d : moved) {
    const Ints places = PlacesInGathered(from, d);
    std::vector<Ints> table;
    for (int64_t device = 0; device < v.mesh().num_devices(); ++device) {
      Ints row(static_cast<size_t>(to.type.shape[d]), -1);
      const Extent block = ExchangedExtent(exchange.dims[d], *to.layout, to.global.shape, d, device);
      const ExchangeRun run = RunOf(exchange.dims[d], static_cast<int>(i), block, {0, from.global.shape[d]});
      for (int64_t k = 0; k < run.count; ++k)
        row[run.to + k * run.to_step] = places[run.from + k * run.from_step];
      table.push_back(row);
    }
    x = TakeAlong(v, x, d, table, value);
  }
  return x;
}

FormResult ExchangeForm(const FormView& v) {
  if (IsStrided(v)) return StridedIsMissing(v);
  const Exchange exchange = Exchange::Of(v.attrs(), static_cast<int>(v.operands.size()));
  const HloValue value = v.text.Constant(exchange.value, {v.result().dtype, {}});
  HloValue result = Exchanged(v, exchange, 0, value);
  for (size_t i = 1; i < v.operands.size(); ++i) {
    // Which elements come from this operand, by the same way of ones.
    FormView ones = v;
    ones.operands[i] = v.text.WholeConstant(1, {BOOL, v.operands[i].shape()});
    const HloValue held = Exchanged(ones, exchange, i, v.text.WholeConstant(0, {BOOL, {}}));
    result = v.text.Select(held, Exchanged(v, exchange, i, value), result);
  }
  return HloValues{result};
}

FormResult AllToAllV(const FormView& v) {
  if (IsStrided(v)) return StridedIsMissing(v);
  Exchange identity;
  identity.dims.resize(v.operands[0].shape().size());
  for (ExchangeDim& dim : identity.dims) dim.offsets = {0};
  return HloValues{Exchanged(v, identity, 0, v.text.Constant(0, {v.result().dtype, {}}))};
}

FormResult ShardSlice(const FormView& v) {
  if (IsStrided(v)) return StridedIsMissing(v);
  const auto d = static_cast<size_t>(v.attrs().Get<int64_t>("dim"));
  Ints starts;
  for (int64_t device = 0; device < v.mesh().num_devices(); ++device) {
    const ValueInfo &from = v.operand_info(0), &to = v.result_info();
    starts.push_back(to.layout->BlockOf(to.global.shape, device)[d].start -
                     from.layout->BlockOf(from.global.shape, device)[d].start);
  }
  const HloValue zero = v.text.WholeConstant(0, {I64, {}});
  // A device whose part is short, or empty, takes what is behind it along.
  HloValues operands = {WithMoreAlong(v.text, v.operands[0], static_cast<int64_t>(d), v.result().shape[d])};
  for (size_t i = 0; i < v.result().shape.size(); ++i)
    operands.push_back(i == d ? v.text.OfThisDevice(starts) : zero);
  return HloValues{
      v.text.Op("stablehlo.dynamic_slice", operands, v.result(), "slice_sizes = " + Array(v.result().shape))};
}

FormResult MaskPadding(const FormView& v) {
  if (IsStrided(v)) return StridedIsMissing(v);
  HloText& text = v.text;
  HloValue x = v.operands[0];
  const HloValue identity =
      text.BroadcastInDim(text.Identity(v.attrs().Get<ReduceOp>("op"), x.dtype()), x.shape(), {});
  for (const int64_t d : v.attrs().Get<Ints>("dims")) {
    const HloValue size =
        text.BroadcastInDim(v.SizeOf(v.result_info(), static_cast<size_t>(d)), x.shape(), {});
    x = text.Select(text.Compare("LT", text.Iota({I64, x.shape()}, d), size), x, identity);
  }
  return HloValues{x};
}

FormResult Rounding(const FormView& v) { return HloValues{v.text.Convert(v.operands[0], v.result().dtype)}; }

FormResult KeepFirst(const FormView& v) {
  const AxisGroup group(v.mesh(), v.attrs().Get<AxisList>("axes"));
  Ints ranks;
  for (int64_t device = 0; device < v.mesh().num_devices(); ++device) ranks.push_back(group.RankOf(device));
  HloText& text = v.text;
  const HloValue is_first = text.Compare("EQ", text.OfThisDevice(ranks), text.WholeConstant(0, {I64, {}}));
  const HloValue& x = v.operands[0];
  return HloValues{text.Select(text.BroadcastInDim(is_first, x.shape(), {}), x,
                               text.Constant(IsReal(x.dtype()) ? -0.0 : 0, x.type))};
}

constexpr NamedForm kCollectiveForms[] = {
    {"all_reduce", AllReduce},     {"reduce_scatter", ReduceScatter},
    {"all_gather", AllGather},     {"all_to_all", AllToAll},
    {"all_to_all_v", AllToAllV},   {"collective_permute", Permute},
    {"exchange", ExchangeForm},    {"shard_slice", ShardSlice},
    {"mask_padding", MaskPadding}, {"widen", Rounding},
    {"narrow", Rounding},          {"keep_first", KeepFirst},
};

}  // namespace

std::span<const NamedForm> CollectiveForms() { return kCollectiveForms; }

}  // namespace meshwork::stablehlo
