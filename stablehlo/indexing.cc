// The forms of ops that read and write elements by index, at places that are values; of order, and of what accumulates along a
// dim.
//
// Indices are clamped to the whole dim. Along a sharded dim a device reads the places that its block holds, and gives -0 for the
// others, as what is owed is a sum; it writes none of the others.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fmt/ranges.h"
#include "meshwork/stablehlo/forms.h"

namespace meshwork::stablehlo {
namespace {

using Ints = std::vector<int64_t>;

Ints CountUp(int64_t begin, int64_t end) {
  Ints numbers;
  for (int64_t i = begin; i < end; ++i) numbers.push_back(i);
  return numbers;
}
Ints AllBut(int64_t rank, const Ints& left_out) {
  Ints dims = CountUp(0, rank);
  std::erase_if(dims,
                [&](int64_t d) { return std::find(left_out.begin(), left_out.end(), d) != left_out.end(); });
  return dims;
}

// ---- Places in the block of a value that a device holds.

bool IsCutAlong(const FormView& v, const ValueInfo& value, int64_t d) {
  const Extent whole{0, value.global.shape[d]};
  for (int64_t device = 0; device < v.mesh().num_devices(); ++device)
    if (FormView::ExtentOn(value, static_cast<size_t>(d), device) != whole) return true;
  return false;
}
bool IsCutAlong(const FormView& v, const ValueInfo& value, const Ints& dims) {
  return std::any_of(dims.begin(), dims.end(), [&](int64_t d) { return IsCutAlong(v, value, d); });
}

// [.., k] of k scalars. REQUIRES: k >= 1.
HloValue AlongLast(HloText& text, const HloValues& scalars, const Shape& shape) {
  HloValues parts;
  for (const HloValue& scalar : scalars) parts.push_back(text.Reshape(scalar, {1}));
  return text.Broadcast(text.Concatenate(parts, 0), shape);
}

// Where windows of these sizes begin in a block of `value`, given where they should begin in the value, `starts` [.., k], along
// its k dims. i64, negative before the block.
HloValue PlacesInBlock(const FormView& v, const HloValue& starts, const ValueInfo& value, const Ints& dims,
                       const Ints& sizes) {
  const HloValue asked = v.text.Convert(starts, I64);
  if (dims.empty()) return asked;
  Ints most;
  for (size_t i = 0; i < dims.size(); ++i)
    most.push_back(std::max<int64_t>(0, value.global.shape[dims[i]] - sizes[i]));
  const HloValue limits = v.text.Broadcast(v.text.Table(most, {I64, {std::ssize(most)}}), asked.shape());
  const HloValue places =
      v.text.Op("stablehlo.clamp", {v.text.WholeConstant(0, asked.type), asked, limits}, asked.type);
  if (!IsCutAlong(v, value, dims)) return places;
  HloValues begins;
  for (const int64_t d : dims) begins.push_back(v.StartOf(value, static_cast<size_t>(d)));
  return v.text.Subtract(places, AlongLast(v.text, begins, places.shape()));
}

// Whether the block holds each of the places [.., k].
HloValue IsInBlock(const FormView& v, const HloValue& places, const ValueInfo& value, const Ints& dims) {
  HloValues sizes;
  for (const int64_t d : dims) sizes.push_back(v.SizeOf(value, static_cast<size_t>(d)));
  const HloValue begins = v.text.Compare("GE", places, v.text.WholeConstant(0, places.type));
  const HloValue ends = v.text.Compare("LT", places, AlongLast(v.text, sizes, places.shape()));
  return v.text.Reduce(ReduceOp::kAnd, v.text.Op("stablehlo.and", {begins, ends}, begins.type),
                       {places.rank() - 1});
}

// What adds nothing to an owed sum.
HloValue NothingOwed(const FormView& v, const Type& type) {
  return v.text.Broadcast(v.text.Identity(ReduceOp::kSum, type.dtype), type.shape);
}

// ---- Reading and writing at places.

// How x: [batch, indexed, rest], in any order of the dims, and places: [places, k] fit what lies at the places.
struct PlacedDims {
  Ints batch;                 // of x
  Ints batch_of_places;       // as many
  Ints indexed;               // the k dims of x
  Ints window;                // of what lies at the places: the dims that are x's rest
  bool whole_window = false;  // whether the window has the indexed dims too
};

// x[:, indices, :] along dim.
PlacedDims RowsAlong(int64_t dim, int64_t rank_of_indices, int64_t rank_of_x) {
  return {.indexed = {dim},
          .window = AllBut(rank_of_x - 1 + rank_of_indices, CountUp(dim, dim + rank_of_indices))};
}
PlacedDims ElementsAlong(int64_t dim, int64_t rank) {
  return {.batch = AllBut(rank, {dim}), .batch_of_places = AllBut(rank, {dim}), .indexed = {dim}};
}
// The last dim of the indices has one per indexed dim.
PlacedDims PlacesOf(const Shape& indices, int64_t batch, int64_t rank_of_x) {
  const int64_t k = indices.back(), places = std::ssize(indices) - 1;
  return {.batch = CountUp(0, batch),
          .batch_of_places = CountUp(0, batch),
          .indexed = CountUp(batch, batch + k),
          .window = CountUp(places, places + rank_of_x - batch - k)};
}
// A window for each row of x.
PlacedDims WindowPerRow(const Ints& dims, int64_t rank) {
  return {.batch = {0},
          .batch_of_places = {0},
          .indexed = dims,
          .window = CountUp(1, rank),
          .whole_window = true};
}

Ints DimsLeftOut(const PlacedDims& dims) { return dims.whole_window ? Ints() : dims.indexed; }

// The indices, one each, as places of one dim.
HloValue AsPlaces(const FormView& v, const HloValue& indices) {
  Shape shape = indices.shape();
  shape.push_back(1);
  return v.text.Reshape(indices, shape);
}

// Windows of x, of these sizes along all its dims.
HloValue WindowsAt(const FormView& v, const HloValue& x, const HloValue& places, const PlacedDims& dims,
                   const Shape& sizes, const Type& result) {
  return v.text.Op(
      "stablehlo.gather", {x, places}, result,
      fmt::format(
          "dimension_numbers = #stablehlo.gather<offset_dims = [{}], collapsed_slice_dims = [{}], operand_batching_dims = "
          "[{}], start_indices_batching_dims = [{}], start_index_map = [{}], index_vector_dim = {}>, slice_sizes = {}, "
          "indices_are_sorted = false",
          fmt::join(dims.window, ", "), fmt::join(DimsLeftOut(dims), ", "), fmt::join(dims.batch, ", "),
          fmt::join(dims.batch_of_places, ", "), fmt::join(dims.indexed, ", "), places.rank() - 1,
          Array(sizes)));
}

HloValue Scattered(const FormView& v, const HloValue& into, const HloValue& places, const HloValue& updates,
                   const PlacedDims& dims, const std::string& region) {
  const HloValue operands[] = {into, places, updates};
  return v.text.Ops(
      "stablehlo.scatter", operands, {into.type},
      fmt::format(
          "scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [{}], inserted_window_dims = [{}], "
          "input_batching_dims = [{}], scatter_indices_batching_dims = [{}], scatter_dims_to_operand_dims = [{}], "
          "index_vector_dim = {}>, indices_are_sorted = false, unique_indices = false",
          fmt::join(dims.window, ", "), fmt::join(DimsLeftOut(dims), ", "), fmt::join(dims.batch, ", "),
          fmt::join(dims.batch_of_places, ", "), fmt::join(dims.indexed, ", "), places.rank() - 1),
      {&region, 1})[0];
}

// `into` with the updates at the places; `region` makes an element of the one that is there and its update. What lies outside is
// left out, as StableHLO has it, but for XLA on CPUs (API 0.81 to 0.115), which may write a single window that lies outside to the
// nearest place; so whether it does is asked here.
HloValue WrittenAt(const FormView& v, const HloValue& into, const HloValue& places, const HloValue& updates,
                   const PlacedDims& dims, const std::string& region) {
  const bool is_single = places.type.num_elements() == places.shape().back();
  if (!is_single || dims.indexed.empty() || dims.whole_window)
    return Scattered(v, into, places, updates, dims, region);
  Ints last, all_dims = CountUp(0, places.rank());
  for (const int64_t d : dims.indexed) last.push_back(into.shape()[d] - 1);
  const HloValue limits = v.text.Broadcast(v.text.Table(last, {I64, {std::ssize(last)}}), places.shape());
  const HloValue inside =
      v.text.Op("stablehlo.clamp", {v.text.WholeConstant(0, places.type), places, limits}, places.type);
  const HloValue is_inside = v.text.Reduce(ReduceOp::kAnd, v.text.Compare("EQ", places, inside), all_dims);
  return v.text.Select(v.text.Broadcast(is_inside, into.shape()),
                       Scattered(v, into, inside, updates, dims, region), into);
}

// The region of a write that replaces what is there.
std::string Replacing(HloText& text, DType dtype) {
  return text.Region({{dtype, {}}, {dtype, {}}},
                     [](const HloValues& values) { return HloValues{values[1]}; });
}

// Elements or rows of operand 0 at the indices [.., k].
absl::StatusOr<HloValues> Taken(const FormView& v, const HloValue& indices, const PlacedDims& dims) {
  const HloValue& x = v.operands[0];
  const ValueInfo& value = v.operand_info(0);
  const HloValue places = PlacesInBlock(v, indices, value, dims.indexed, Ints(dims.indexed.size(), 1));
  Shape sizes = x.shape();
  for (const Ints& list : {dims.batch, dims.indexed})
    for (const int64_t d : list) sizes[d] = 1;
  const HloValue taken = WindowsAt(v, x, places, dims, sizes, v.result());
  if (!IsCutAlong(v, value, dims.indexed)) return HloValues{taken};
  const HloValue is_in = v.text.BroadcastInDim(IsInBlock(v, places, value, dims.indexed), taken.shape(),
                                               AllBut(taken.rank(), dims.window));
  return HloValues{v.text.Select(is_in, taken, NothingOwed(v, taken.type))};
}

// The reduction of the updates, operand 0, at each place of the result.
absl::StatusOr<HloValues> Scattered(const FormView& v, ReduceOp op, const HloValue& indices,
                                    const PlacedDims& dims) {
  const HloValue updates = v.Wide(0);
  const Type type{updates.dtype(), v.result().shape};
  const HloValue none = op == ReduceOp::kSum ? v.text.Constant(0, type)
                                             : v.text.Broadcast(v.text.Identity(op, type.dtype), type.shape);
  if (updates.type.num_elements() == 0) return HloValues{v.text.Convert(none, v.result().dtype)};
  const HloValue places =
      PlacesInBlock(v, indices, v.result_info(0), dims.indexed, Ints(dims.indexed.size(), 1));
  const HloValue reduced = WrittenAt(v, none, places, updates, dims, v.text.Reduction(op, type.dtype));
  return HloValues{v.text.Convert(reduced, v.result().dtype)};
}

absl::StatusOr<HloValues> GatherForm(const FormView& v) {
  return Taken(v, AsPlaces(v, v.operands[1]),
               RowsAlong(v.attrs().Get<int64_t>("dim"), v.operands[1].rank(), v.operands[0].rank()));
}
absl::StatusOr<HloValues> GatherNdForm(const FormView& v) {
  return Taken(v, v.operands[1],
               PlacesOf(v.operands[1].shape(), v.attrs().Get<int64_t>("batch_dims"), v.operands[0].rank()));
}
absl::StatusOr<HloValues> TakeAlongDimForm(const FormView& v) {
  return Taken(v, AsPlaces(v, v.operands[1]),
               ElementsAlong(v.attrs().Get<int64_t>("dim"), v.operands[0].rank()));
}

template <ReduceOp op>
absl::StatusOr<HloValues> ScatterForm(const FormView& v) {
  return Scattered(v, op, AsPlaces(v, v.operands[1]),
                   RowsAlong(v.attrs().Get<int64_t>("dim"), v.operands[1].rank(), v.result().rank()));
}
absl::StatusOr<HloValues> ScatterNdAddForm(const FormView& v) {
  return Scattered(v, ReduceOp::kSum, v.operands[1],
                   PlacesOf(v.operands[1].shape(), v.attrs().Get<int64_t>("batch_dims"), v.result().rank()));
}
absl::StatusOr<HloValues> ScatterAddAlongDimForm(const FormView& v) {
  return Scattered(v, ReduceOp::kSum, AsPlaces(v, v.operands[1]),
                   ElementsAlong(v.attrs().Get<int64_t>("dim"), v.result().rank()));
}

// Of the places [count, 1] of a dim of `size`, those that another follows at are moved beyond the end, so that no order matters.
HloValue LastPlacesOnly(const FormView& v, const HloValue& places, int64_t size) {
  const int64_t count = places.shape()[0];
  const PlacedDims dims = RowsAlong(0, 1, 1);
  const HloValue numbers = v.text.Iota({I64, {count}}, 0);
  const HloValue last = WrittenAt(v, v.text.WholeConstant(-1, {I64, {size}}), places, numbers, dims,
                                  v.text.Reduction(ReduceOp::kMax, I64));
  const HloValue last_there = WindowsAt(v, last, places, dims, {1}, numbers.type);
  const HloValue is_last = v.text.Reshape(v.text.Compare("EQ", numbers, last_there), places.shape());
  return v.text.Select(is_last, places, v.text.WholeConstant(size, places.type));
}

absl::StatusOr<HloValues> ScatterUpdateForm(const FormView& v) {
  const HloValue &indices = v.operands[0], &x = v.operands[1], &updates = v.operands[2];
  if (updates.type.num_elements() == 0) return HloValues{x};
  const int64_t dim = v.attrs().Get<int64_t>("dim"), count = indices.type.num_elements();
  HloValue places = PlacesInBlock(v, v.text.Reshape(indices, {count, 1}), v.result_info(0), {dim}, {1});
  if (count > 1) places = LastPlacesOnly(v, places, x.shape()[dim]);
  Shape shape = indices.shape();
  shape.push_back(1);
  return HloValues{WrittenAt(v, x, v.text.Reshape(places, shape), updates,
                             RowsAlong(dim, indices.rank(), x.rank()), Replacing(v.text, x.dtype()))};
}

// ---- Windows at a place that is a value.

// A block with room for the window on both sides, where the window may lie outside of it.
struct Roomy {
  Shape room;  // per dim

  Roomy(const FormView& v, const ValueInfo& value, const Ints& dims, const Shape& window)
      : room(window.size(), 0) {
    for (const int64_t d : dims)
      if (IsCutAlong(v, value, d) || window[d] > value.type.shape[d]) room[d] = window[d];
  }
  bool is_none() const {
    return std::all_of(room.begin(), room.end(), [](int64_t size) { return size == 0; });
  }

  HloValue Widened(const FormView& v, const HloValue& x) const {
    return is_none() ? x : v.text.Pad(x, v.text.Identity(ReduceOp::kSum, x.dtype()), room, room);
  }
  HloValue Narrowed(const FormView& v, const HloValue& x) const {
    if (is_none()) return x;
    Shape limit = x.shape();
    for (size_t d = 0; d < limit.size(); ++d) limit[d] -= room[d];
    return v.text.Slice(x, room, limit);
  }
  // Where the window begins in the wider block, along `dims`: [.., k].
  HloValue Places(const FormView& v, const HloValue& starts, const ValueInfo& value, const Ints& dims,
                  const Shape& window) const {
    Ints sizes, before;
    for (const int64_t d : dims) {
      sizes.push_back(window[d]);
      before.push_back(room[d]);
    }
    const HloValue places = PlacesInBlock(v, starts, value, dims, sizes);
    if (is_none()) return places;
    return v.text.Add(places,
                      v.text.Broadcast(v.text.Table(before, {I64, {std::ssize(before)}}), places.shape()));
  }
};

// The block with -0 where it is padding along `dims`.
HloValue WithoutPadding(const FormView& v, HloValue x, const ValueInfo& value, const Ints& dims) {
  for (const int64_t d : dims) {
    if (!IsCutAlong(v, value, d)) continue;
    const Type places{I64, x.shape()};
    const HloValue is_in =
        v.text.Compare("LT", v.text.Iota(places, d),
                       v.text.Broadcast(v.SizeOf(value, static_cast<size_t>(d)), places.shape));
    x = v.text.Select(is_in, x, NothingOwed(v, x.type));
  }
  return x;
}

// One scalar per dim of a value: of places [k] along `dims`, and 0 elsewhere.
HloValues StartPerDim(const FormView& v, const HloValue& places, const Ints& dims, int64_t rank) {
  HloValues starts(static_cast<size_t>(rank), v.text.WholeConstant(0, {I64, {}}));
  for (size_t i = 0; i < dims.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    starts[dims[i]] = v.text.Reshape(v.text.SliceDim(places, 0, at, at + 1), {});
  }
  return starts;
}

absl::StatusOr<HloValues> DynamicSliceForm(const FormView& v) {
  const Ints& dims = v.attrs().Get<Ints>("dims");
  const ValueInfo& value = v.operand_info(0);
  Shape window = v.result().shape;
  const Roomy roomy(v, value, dims, window);
  const HloValue x = roomy.Widened(v, WithoutPadding(v, v.operands[0], value, dims));
  const HloValue places = roomy.Places(v, v.operands[1], value, dims, window);
  if (places.rank() == 2) {
    window[0] = 1;
    return HloValues{WindowsAt(v, x, places, WindowPerRow(dims, x.rank()), window, v.result())};
  }
  HloValues operands = {x};
  for (const HloValue& start : StartPerDim(v, places, dims, x.rank())) operands.push_back(start);
  return HloValues{
      v.text.Op("stablehlo.dynamic_slice", operands, v.result(), "slice_sizes = " + Array(window))};
}

absl::StatusOr<HloValues> DynamicUpdateSliceForm(const FormView& v) {
  const Ints& dims = v.attrs().Get<Ints>("dims");
  const HloValue& update = v.operands[2];
  if (update.type.num_elements() == 0) return HloValues{v.operands[1]};
  const Roomy roomy(v, v.result_info(0), dims, update.shape());
  const HloValue x = roomy.Widened(v, v.operands[1]);
  const HloValue places = roomy.Places(v, v.operands[0], v.result_info(0), dims, update.shape());
  if (places.rank() == 2) {
    const PlacedDims per_row = WindowPerRow(dims, x.rank());
    return HloValues{
        roomy.Narrowed(v, WrittenAt(v, x, places, update, per_row, Replacing(v.text, x.dtype())))};
  }
  HloValues operands = {x, update};
  for (const HloValue& start : StartPerDim(v, places, dims, x.rank())) operands.push_back(start);
  return HloValues{roomy.Narrowed(v, v.text.Op("stablehlo.dynamic_update_slice", operands, x.type))};
}

// ---- Order.

// Operand 0 in order along a dim, and the indices that its elements had.
HloValues Sorted(const FormView& v, bool descending) {
  const HloValue& x = v.operands[0];
  const int64_t dim = v.attrs().Get<int64_t>("dim");
  const Type number{x.dtype(), {}}, index{I32, {}};
  const auto comes_before = [&](const HloValues& values) {
    const HloValue &a = descending ? values[1] : values[0], &b = descending ? values[0] : values[1];
    const HloValue is_less = v.text.Compare("LT", a, b);
    if (!IsReal(x.dtype())) return HloValues{is_less};
    const HloValue b_is_nan = v.text.Compare("NE", b, b), a_is_number = v.text.Compare("EQ", a, a);
    const HloValue is_below_nan = v.text.Op("stablehlo.and", {b_is_nan, a_is_number}, is_less.type);
    return HloValues{v.text.Op("stablehlo.or", {is_less, is_below_nan}, is_less.type)};
  };
  const HloValue operands[] = {x, v.text.Iota({I32, x.shape()}, dim)};
  const std::string region = v.text.Region({number, number, index, index}, comes_before);
  return v.text.Ops("stablehlo.sort", operands, {x.type, {I32, x.shape()}},
                    fmt::format("dimension = {} : i64, is_stable = true", dim), {&region, 1});
}

absl::StatusOr<HloValues> SortForm(const FormView& v) { return Sorted(v, v.attrs().Get<bool>("descending")); }

absl::StatusOr<HloValues> TopKForm(const FormView& v) {
  const int64_t dim = v.attrs().Get<int64_t>("dim"), k = v.attrs().Get<int64_t>("k");
  HloValues results = Sorted(v, /*descending=*/true);
  for (HloValue& result : results) result = v.text.SliceDim(result, dim, 0, k);
  return results;
}

// ---- Cumulative.

// What accumulates along a dim, from the start or, if `reverse`, from the end: `join` takes values of earlier elements and of
// those right behind them. In log2(n) steps, each of which doubles how many elements a value stands for; so a product of some
// elements may be infinite, where the CPU, which goes element by element, meets a 0 before.
HloValues Accumulated(const FormView& v, HloValues values, bool reverse,
                      const std::function<HloValues(const HloValues&, const HloValues&)>& join) {
  const int64_t dim = v.attrs().Get<int64_t>("dim"), n = v.result().shape[dim];
  const auto part = [&](int64_t begin, int64_t end) {
    HloValues parts;
    for (const HloValue& value : values)
      parts.push_back(reverse ? v.text.SliceDim(value, dim, n - end, n - begin)
                              : v.text.SliceDim(value, dim, begin, end));
    return parts;
  };
  for (int64_t shift = 1; shift < n; shift *= 2) {
    const HloValues first = part(0, shift), joined = join(part(0, n - shift), part(shift, n));
    for (size_t i = 0; i < values.size(); ++i) {
      const HloValue both[] = {reverse ? joined[i] : first[i], reverse ? first[i] : joined[i]};
      values[i] = v.text.Concatenate(both, dim);
    }
  }
  return values;
}

// x moved away from where the run begins, by one element, which is what reducing nothing gives.
HloValue ShiftedByOne(const FormView& v, const HloValue& x, int64_t dim, bool reverse, ReduceOp op) {
  if (x.shape()[dim] == 0) return x;
  Shape low(x.shape().size(), 0), high = low;
  low[dim] = reverse ? -1 : 1;
  high[dim] = -low[dim];
  return v.text.Pad(
      x, op == ReduceOp::kSum ? v.text.Constant(0, {x.dtype(), {}}) : v.text.Identity(op, x.dtype()), low,
      high);
}

template <ReduceOp op>
absl::StatusOr<HloValues> CumulativeForm(const FormView& v) {
  const bool reverse = v.attrs().Get<bool>("reverse");
  HloValue x = v.Wide(0);
  if (v.attrs().Get<bool>("exclusive")) x = ShiftedByOne(v, x, v.attrs().Get<int64_t>("dim"), reverse, op);
  const HloValues results = Accumulated(v, {x}, reverse, [&](const HloValues& a, const HloValues& b) {
    if constexpr (op == ReduceOp::kSum) return HloValues{v.text.Add(a[0], b[0])};
    else if constexpr (op == ReduceOp::kProd) return HloValues{v.text.Multiply(a[0], b[0])};
    else if constexpr (op == ReduceOp::kMax) return HloValues{v.text.Maximum(a[0], b[0])};
    else return HloValues{v.text.Minimum(a[0], b[0])};
  });
  return HloValues{v.text.Convert(results[0], v.result().dtype)};
}

// Values are the steps h -> a h + b: after one with (a, b), one with (a', b') is (a' a, a' b + b').
absl::StatusOr<HloValues> LinearRecurrenceForm(const FormView& v) {
  const auto join = [&](const HloValues& first, const HloValues& second) {
    return HloValues{v.text.Multiply(second[0], first[0]),
                     v.text.Add(v.text.Multiply(second[0], first[1]), second[1])};
  };
  const HloValues steps = Accumulated(v, {v.Wide(0), v.Wide(1)}, v.attrs().Get<bool>("reverse"), join);
  return HloValues{v.text.Convert(steps[1], v.result().dtype)};
}

constexpr NamedForm kIndexForms[] = {
    {"dynamic_slice", DynamicSliceForm},
    {"dynamic_update_slice", DynamicUpdateSliceForm},
    {"gather", GatherForm},
    {"scatter_add", ScatterForm<ReduceOp::kSum>},
    {"gather_nd", GatherNdForm},
    {"scatter_nd_add", ScatterNdAddForm},
    {"take_along_dim", TakeAlongDimForm},
    {"scatter_add_along_dim", ScatterAddAlongDimForm},
    {"scatter_max", ScatterForm<ReduceOp::kMax>},
    {"scatter_min", ScatterForm<ReduceOp::kMin>},
    {"scatter_update", ScatterUpdateForm},
    {"sort", SortForm},
    {"top_k", TopKForm},
    {"cumsum", CumulativeForm<ReduceOp::kSum>},
    {"cumprod", CumulativeForm<ReduceOp::kProd>},
    {"cummax", CumulativeForm<ReduceOp::kMax>},
    {"cummin", CumulativeForm<ReduceOp::kMin>},
    {"linear_recurrence", LinearRecurrenceForm},
};

}  // namespace

std::span<const NamedForm> IndexForms() { return kIndexForms; }

}  // namespace meshwork::stablehlo
