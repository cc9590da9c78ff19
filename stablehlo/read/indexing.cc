// Elements and windows at places that the program computes.
//
// A gather has, for each place of its indices, a window of the operand. Here the operand's dims are brought into the order (batching,
// indexed, rest), the places into (batching, others), and windows of more than one element along an indexed dim become places of
// their own. Then it is one GatherNd; a scatter is the same the other way.
#include <algorithm>
#include <numeric>

#include "meshwork/base/status.h"
#include "meshwork/ir/builder.h"
#include "meshwork/ops/operators.h"
#include "meshwork/ops/ops.h"
#include "meshwork/stablehlo/read/reader.h"

namespace meshwork::mlir {
namespace {

int64_t PositionOf(const Ints& list, int64_t x) {
  return std::find(list.begin(), list.end(), x) - list.begin();
}
int64_t Size(const Shape& shape, int64_t d) { return shape[static_cast<size_t>(d)]; }

// The dims of the operand and of the indices, as both ops name them.
struct Places {
  Ints indexed;           // operand dims, in the order of the index vector
  Ints batching;          // operand dims
  Ints indices_batching;  // dims of the indices, one for each of these
  Ints dropped;           // operand dims that are not in the windows of the result (the updates)
  int64_t vector_dim = 0;
  Ints window;  // the size of the window along each operand dim

  bool is_in_window(int64_t d) const { return !Contains(dropped, d) && !Contains(batching, d); }
};

absl::Status CheckDims(const OpView& view, const Ints& dims, int64_t rank, std::string_view what) {
  Ints sorted = dims;
  std::sort(sorted.begin(), sorted.end());
  const bool is_fine = std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end() &&
                       (sorted.empty() || (sorted.front() >= 0 && sorted.back() < rank));
  return is_fine ? absl::OkStatus() : view.Fail(fmt::format("{}: dims that are not there, or twice.", what));
}

absl::Status CheckPlaces(const OpView& view, const Places& places, const TensorType& x,
                         const TensorType& indices) {
  MESHWORK_RETURN_IF_ERROR(CheckDims(view, places.indexed, x.rank(), "the indexed dims"));
  MESHWORK_RETURN_IF_ERROR(CheckDims(view, places.batching, x.rank(), "the batching dims"));
  MESHWORK_RETURN_IF_ERROR(CheckDims(view, places.dropped, x.rank(), "the collapsed dims"));
  MESHWORK_RETURN_IF_ERROR(
      CheckDims(view, places.indices_batching, indices.rank(), "the batching dims of the indices"));
  if (places.vector_dim < 0 || places.vector_dim > indices.rank() || std::ssize(places.window) != x.rank() ||
      places.batching.size() != places.indices_batching.size() ||
      Contains(places.indices_batching, places.vector_dim))
    return view.Fail("its dimension numbers contradict each other.");
  for (size_t i = 0; i < places.batching.size(); ++i)
    if (Contains(places.indexed, places.batching[i]) ||
        Size(x.shape, places.batching[i]) != Size(indices.shape, places.indices_batching[i]))
      return view.Fail("batching dims are to be of the same size, and not indexed.");
  const int64_t components = places.vector_dim == indices.rank() ? 1 : Size(indices.shape, places.vector_dim);
  if (components != std::ssize(places.indexed))
    return view.Fail("the index vector has another size than there are indexed dims.");
  for (int64_t d = 0; d < x.rank(); ++d) {
    const int64_t size = places.window[static_cast<size_t>(d)];
    if (size < 0 || size > Size(x.shape, d) || (size != 1 && !places.is_in_window(d)))
      return view.Fail(fmt::format("a window of {} along dim {}.", size, d));
  }
  return absl::OkStatus();
}

// The dims of the indices without that of the vectors: the batching ones first.
Ints OrderOfPlaces(const Places& places, int64_t rank) {
  Ints order = places.indices_batching;
  for (int64_t d = 0; d < rank; ++d)
    if (d != places.vector_dim && !Contains(order, d)) order.push_back(d);
  return order;
}
// The dims of the operand that are neither batching nor indexed.
Ints Rest(const Places& places, int64_t rank) {
  Ints rest;
  for (int64_t d = 0; d < rank; ++d)
    if (!Contains(places.batching, d) && !Contains(places.indexed, d)) rest.push_back(d);
  return rest;
}
Ints OrderOfOperand(const Places& places, int64_t rank) {
  Ints order = places.batching;
  order.insert(order.end(), places.indexed.begin(), places.indexed.end());
  const Ints rest = Rest(places, rank);
  order.insert(order.end(), rest.begin(), rest.end());
  return order;
}

Value Transposed(const Value& x, const Ints& order) {
  return std::is_sorted(order.begin(), order.end()) ? x : Transpose(x, order);
}

// Operand i as whole numbers with a sign that are the same.
Value AsIndices(const OpView& view, size_t i) {
  const Value given = view.Arg(i);
  return view.type(i).element == "ui32" ? Widened(given) : ToArithmetic(given);
}

// Indices as [batching.., others.., components].
Value IndicesInOrder(const Places& places, const Value& given) {
  Value indices = given;
  if (places.vector_dim == indices.rank()) indices = ExpandDims(indices, {-1});
  Ints order = OrderOfPlaces(places, indices.rank());
  order.push_back(places.vector_dim);
  return Transposed(indices, order);
}

// One number per component.
Value PerComponent(const OpView& view, const Ints& numbers, DType dtype) {
  return Constant(view.graph, ElementList(numbers), Type{dtype, {static_cast<int64_t>(numbers.size())}});
}

// The largest start of each component: [components].
Ints LargestStarts(const Places& places, const Shape& x) {
  Ints largest;
  for (const int64_t d : places.indexed)
    largest.push_back(Size(x, d) - places.window[static_cast<size_t>(d)]);
  return largest;
}

// The indexed dims along which windows have other than one element.
Ints Windowed(const Places& places) {
  Ints dims;
  for (const int64_t d : places.indexed)
    if (places.window[static_cast<size_t>(d)] != 1) dims.push_back(d);
  return dims;
}

// Starts [.., components] with a dim for each windowed dim: [.., windows.., components], the places of all elements of the windows.
Value WithWindows(const OpView& view, const Places& places, Value starts) {
  const Ints windowed = Windowed(places);
  if (windowed.empty()) return starts;
  const int64_t num_places = starts.rank() - 1, components = std::ssize(places.indexed);
  const int64_t rank = num_places + std::ssize(windowed) + 1;
  Shape shape(starts.shape().begin(), starts.shape().end() - 1);
  for (const int64_t d : windowed) shape.push_back(places.window[static_cast<size_t>(d)]);
  shape.push_back(components);
  Ints kept(static_cast<size_t>(num_places));
  std::iota(kept.begin(), kept.end(), 0);
  kept.push_back(rank - 1);
  Value all = BroadcastTo(starts, shape, kept);
  for (size_t w = 0; w < windowed.size(); ++w) {
    Ints is_component(static_cast<size_t>(components), 0);
    is_component[static_cast<size_t>(PositionOf(places.indexed, windowed[w]))] = 1;
    // [window,1,..,1] times [components], aligned at the right.
    const int64_t size = places.window[static_cast<size_t>(windowed[w])];
    Shape along(windowed.size() - w + 1, 1);
    along[0] = size;
    const Value steps = Reshape(Iota(view.graph, {starts.dtype(), {size}}, 0), along);
    all = all + steps * PerComponent(view, is_component, starts.dtype());
  }
  return all;
}

// ---- Gather.

absl::StatusOr<Places> GatherPlaces(const OpView& view, const Attribute& numbers) {
  Places places;
  MESHWORK_ASSIGN_OR_RETURN(places.indexed, view.IntsOf(numbers, "start_index_map"));
  MESHWORK_ASSIGN_OR_RETURN(places.batching, view.IntsOf(numbers, "operand_batching_dims"));
  MESHWORK_ASSIGN_OR_RETURN(places.indices_batching, view.IntsOf(numbers, "start_indices_batching_dims"));
  MESHWORK_ASSIGN_OR_RETURN(places.dropped, view.IntsOf(numbers, "collapsed_slice_dims"));
  MESHWORK_ASSIGN_OR_RETURN(places.vector_dim, view.IntOf(numbers, "index_vector_dim", 0));
  MESHWORK_ASSIGN_OR_RETURN(places.window, view.Ints("slice_sizes"));
  MESHWORK_RETURN_IF_ERROR(CheckPlaces(view, places, view.type(0), view.type(1)));
  return places;
}

// The dims of a value on the way to the result: those of the indices, and those of the operand's windows.
struct Labels {
  Ints of_places, of_operand;  // both as many as the value has dims; -1: the dim is of the other kind
  void AddPlace(int64_t d) { of_places.push_back(d), of_operand.push_back(-1); }
  void AddOperand(int64_t d) { of_places.push_back(-1), of_operand.push_back(d); }
};

// The value with the dims that the result has, in its order.
absl::StatusOr<Value> InOrderOfResult(const OpView& view, const Places& places, Value value, Labels labels,
                                      const Ints& offset_dims) {
  const int64_t x_rank = view.type(0).rank(), rank = view.result().rank();
  Ints gone;
  Labels kept;
  for (size_t i = 0; i < labels.of_operand.size(); ++i) {
    if (labels.of_operand[i] >= 0 && !places.is_in_window(labels.of_operand[i]))
      gone.push_back(static_cast<int64_t>(i));
    else if (labels.of_operand[i] >= 0) kept.AddOperand(labels.of_operand[i]);
    else kept.AddPlace(labels.of_places[i]);
  }
  if (!gone.empty()) value = Squeeze(value, DimList(gone));
  // Windows of one element along indexed dims.
  Ints come;
  for (int64_t d = 0; d < x_rank; ++d) {
    if (!places.is_in_window(d) || Contains(kept.of_operand, d)) continue;
    kept.AddOperand(d);
    come.push_back(std::ssize(kept.of_operand) - 1);
  }
  if (!come.empty()) value = ExpandDims(value, DimList(come));
  Ints window_dims, place_dims;
  for (int64_t d = 0; d < x_rank; ++d)
    if (places.is_in_window(d)) window_dims.push_back(d);
  for (int64_t d = 0; d < view.type(1).rank(); ++d)
    if (d != places.vector_dim) place_dims.push_back(d);
  if (offset_dims.size() != window_dims.size() || rank != std::ssize(window_dims) + std::ssize(place_dims))
    return view.Fail("the result has another number of dims.");
  MESHWORK_RETURN_IF_ERROR(CheckDims(view, offset_dims, rank, "offset_dims"));
  Ints order;
  size_t window = 0, place = 0;
  for (int64_t d = 0; d < rank; ++d) {
    const bool is_window = Contains(offset_dims, d);
    order.push_back(is_window ? PositionOf(kept.of_operand, window_dims[window++])
                              : PositionOf(kept.of_places, place_dims[place++]));
  }
  return Transposed(value, order);
}

// x with its rest dims cut to the windows, which begin at 0 there.
Value CutRest(const Places& places, const Value& x) {
  Ints start(static_cast<size_t>(x.rank()), 0), limit = ToInts(x.shape());
  for (const int64_t d : Rest(places, x.rank()))
    limit[static_cast<size_t>(d)] = places.window[static_cast<size_t>(d)];
  return limit == ToInts(x.shape()) ? x : Slice(x, start, limit);
}

absl::StatusOr<Bounds> ReadGather(const OpView& view) {
  MESHWORK_RETURN_IF_ERROR(view.Expect(2));
  const Attribute* const numbers = view.FindAttribute("dimension_numbers");
  if (numbers == nullptr) return view.Fail("there is no attribute dimension_numbers.");
  MESHWORK_ASSIGN_OR_RETURN(const Places places, GatherPlaces(view, *numbers));
  MESHWORK_ASSIGN_OR_RETURN(const Ints offset_dims, view.IntsOf(*numbers, "offset_dims"));
  const Value x = CutRest(places, view.Arg(0));
  const int64_t rank = x.rank();
  const Ints order_of_places = OrderOfPlaces(places, view.type(1).rank());
  Value starts = IndicesInOrder(places, AsIndices(view, 1));
  const bool is_windowed = !Windowed(places).empty();
  Labels labels;
  Value value;
  if (starts.rank() == 1 && view.operands[1].known.is_splat()) {
    value = x;
    for (const int64_t d : places.indexed) {
      const int64_t size = places.window[static_cast<size_t>(d)];
      const int64_t start = std::clamp<int64_t>(view.operands[1].known.bits, 0, Size(x.shape(), d) - size);
      value = SliceDim(value, d, start, start + size);
    }
    for (int64_t d = 0; d < rank; ++d) labels.AddOperand(d);
  } else if (places.indexed.size() == 1 && places.batching.empty() && !is_windowed) {
    const int64_t dim = places.indexed[0];
    value = Gather(x, Squeeze(starts, {-1}), dim);
    for (int64_t d = 0; d < rank; ++d) {
      if (d != dim) labels.AddOperand(d);
      else
        for (const int64_t place : order_of_places) labels.AddPlace(place);
    }
  } else if (starts.rank() == 1 && std::is_sorted(places.indexed.begin(), places.indexed.end()) &&
             !places.indexed.empty()) {
    Ints sizes;
    for (const int64_t d : places.indexed) sizes.push_back(places.window[static_cast<size_t>(d)]);
    value = DynamicSlice(x, starts, places.indexed, sizes);
    for (int64_t d = 0; d < rank; ++d) labels.AddOperand(d);
  } else {
    if (is_windowed)
      starts = Minimum(Maximum(starts, 0.0),
                       PerComponent(view, LargestStarts(places, view.type(0).shape), starts.dtype()));
    value = GatherNd(Transposed(x, OrderOfOperand(places, rank)), WithWindows(view, places, starts),
                     std::ssize(places.batching));
    for (const int64_t place : order_of_places) labels.AddPlace(place);
    for (const int64_t d : Windowed(places)) labels.AddOperand(d);
    for (const int64_t d : Rest(places, rank)) labels.AddOperand(d);
  }
  if (!value.valid()) return Bounds{value};
  MESHWORK_ASSIGN_OR_RETURN(const Value result, InOrderOfResult(view, places, value, labels, offset_dims));
  return Bounds{result};
}

// ---- Scatter.

absl::StatusOr<Places> ScatterPlaces(const OpView& view, const Attribute& numbers,
                                     const Ints& update_window) {
  Places places;
  const TensorType& x = view.type(0);
  const TensorType& updates = view.type(2);
  MESHWORK_ASSIGN_OR_RETURN(places.indexed, view.IntsOf(numbers, "scatter_dims_to_operand_dims"));
  MESHWORK_ASSIGN_OR_RETURN(places.batching, view.IntsOf(numbers, "input_batching_dims"));
  MESHWORK_ASSIGN_OR_RETURN(places.indices_batching, view.IntsOf(numbers, "scatter_indices_batching_dims"));
  MESHWORK_ASSIGN_OR_RETURN(places.dropped, view.IntsOf(numbers, "inserted_window_dims"));
  MESHWORK_ASSIGN_OR_RETURN(places.vector_dim, view.IntOf(numbers, "index_vector_dim", 0));
  MESHWORK_RETURN_IF_ERROR(CheckDims(view, update_window, updates.rank(), "update_window_dims"));
  size_t next = 0;
  for (int64_t d = 0; d < x.rank(); ++d) {
    if (places.is_in_window(d) && next >= update_window.size())
      return view.Fail("update_window_dims are too few.");
    places.window.push_back(places.is_in_window(d) ? Size(updates.shape, update_window[next++]) : 1);
  }
  const int64_t num_places = view.type(1).rank() - (places.vector_dim < view.type(1).rank() ? 1 : 0);
  if (next != update_window.size() || updates.rank() != num_places + std::ssize(update_window))
    return view.Fail("the updates have another number of dims.");
  MESHWORK_RETURN_IF_ERROR(CheckPlaces(view, places, x, view.type(1)));
  return places;
}

// Whether all of the window at a place lies in the operand: [places.., 1..] with a dim of size 1 for each of `more`. A window that
// does not is left out.
Value LiesWithin(const OpView& view, const Places& places, const Value& starts, int64_t more) {
  const Value largest = PerComponent(view, LargestStarts(places, view.type(0).shape), starts.dtype());
  const Value is_inside = ReduceAll(And(GreaterEqual(starts, 0.0), LessEqual(starts, largest)), {-1});
  Ints dims;
  for (int64_t i = 0; i < more; ++i) dims.push_back(is_inside.rank() + i);
  return dims.empty() ? is_inside : ExpandDims(is_inside, DimList(dims));
}

// Indices [batching.., others.., components] as places in the dims (batching, indexed) as one.
Value Linear(const OpView& view, const Places& places, const Value& given) {
  const Value indices = InDType(given, I64);  // places in all dims together may be more than an i32 counts
  const Shape& x = view.type(0).shape;
  const int64_t components = std::ssize(places.indexed);
  const Shape shape(indices.shape().begin(), indices.shape().end() - 1);
  Value linear = Constant(view.graph, 0, Type{indices.dtype(), shape});
  for (size_t b = 0; b < places.batching.size(); ++b)
    linear = linear * static_cast<double>(Size(x, places.batching[b])) +
             Iota(view.graph, {indices.dtype(), shape}, static_cast<int64_t>(b));
  for (int64_t k = 0; k < components; ++k)
    linear = linear * static_cast<double>(Size(x, places.indexed[static_cast<size_t>(k)])) +
             Squeeze(SliceDim(indices, -1, k, k + 1), {-1});
  return linear;
}

// The updates as [batching.., others.., windows.., rest..].
Value UpdatesInOrder(const OpView& view, const Places& places, const Ints& update_window) {
  Ints place_dims, indices_dims, order, gone;
  for (int64_t d = 0; d < view.type(2).rank(); ++d)
    if (!Contains(update_window, d)) place_dims.push_back(d);
  for (int64_t d = 0; d < view.type(1).rank(); ++d)
    if (d != places.vector_dim) indices_dims.push_back(d);
  for (const int64_t d : OrderOfPlaces(places, view.type(1).rank()))
    order.push_back(place_dims[static_cast<size_t>(PositionOf(indices_dims, d))]);
  Ints window_dims;
  for (int64_t d = 0; d < view.type(0).rank(); ++d)
    if (places.is_in_window(d)) window_dims.push_back(d);
  const auto add = [&](int64_t d) {
    order.push_back(update_window[static_cast<size_t>(PositionOf(window_dims, d))]);
  };
  for (const int64_t d : places.indexed)
    if (places.is_in_window(d) && places.window[static_cast<size_t>(d)] == 1) {
      gone.push_back(std::ssize(order));
      add(d);
    }
  for (const int64_t d : Windowed(places)) add(d);
  Ints come;
  for (const int64_t d : Rest(places, view.type(0).rank())) {
    if (places.is_in_window(d)) add(d);
    else come.push_back(std::ssize(order) - std::ssize(gone) + std::ssize(come));
  }
  Value updates = Transposed(view.Arg(2), order);
  if (!gone.empty()) updates = Squeeze(updates, DimList(gone));
  return come.empty() ? updates : ExpandDims(updates, DimList(come));
}

// Scatters `updates`, in order, at `indices` into x, in order.
absl::StatusOr<Value> Scattered(const OpView& view, const Places& places, Combiner combiner, const Value& x,
                                Value updates, const Value& starts) {
  const int64_t batching = std::ssize(places.batching), num_rest = std::ssize(Rest(places, x.rank()));
  const int64_t num_windows = std::ssize(Windowed(places));
  const Value indices = WithWindows(view, places, starts);
  const DType dtype = updates.dtype();
  if (combiner == Combiner::kAdd && dtype != BOOL) {
    updates =
        Select(LiesWithin(view, places, starts, num_windows + num_rest), updates, view.Number(0, dtype));
    if (batching == 0 && places.indexed.size() == 1)
      return x + ScatterAdd(updates, Squeeze(indices, {-1}), x.shape(), 0);
    return x + ScatterNdAdd(updates, indices, x.shape(), batching);
  }
  // All dims that are indexed as one, and one place more, which takes the updates that are left out.
  const auto num_indexed = static_cast<size_t>(batching) + places.indexed.size();
  const int64_t places_in_all =
      NumElements(Shape(x.shape().begin(), x.shape().begin() + static_cast<int64_t>(num_indexed)));
  Shape flat = {places_in_all};
  flat.insert(flat.end(), x.shape().begin() + static_cast<int64_t>(num_indexed), x.shape().end());
  const Value linear = Select(LiesWithin(view, places, starts, num_windows), Linear(view, places, indices),
                              view.Number(static_cast<double>(places_in_all), I64));
  Ints none(flat.size(), 0), high(flat.size(), 0);
  high[0] = 1;
  const Value whole = Pad(Reshape(x, flat), none, high);
  Value written;
  switch (combiner) {
    case Combiner::kSecond: written = ScatterUpdate(whole, updates, linear, 0); break;
    case Combiner::kMaximum:
    case Combiner::kMinimum: {
      const bool is_maximum = combiner == Combiner::kMaximum;
      const Value old = InSignedOrder(view, whole), given = InSignedOrder(view, updates);
      const Value extremum = is_maximum ? Maximum(old, ScatterMax(given, linear, whole.shape(), 0))
                                        : Minimum(old, ScatterMin(given, linear, whole.shape(), 0));
      written = InSignedOrder(view, extremum);
      break;
    }
    default:
      return view.Fail("of its function only a sum, a maximum, a minimum and the update itself are read.");
  }
  return Reshape(SliceDim(written, 0, 0, places_in_all), x.shape());
}

absl::StatusOr<Bounds> ReadScatter(const OpView& view) {
  MESHWORK_RETURN_IF_ERROR(view.Expect(3, 1, 1));
  const Attribute* const numbers = view.FindAttribute("scatter_dimension_numbers");
  if (numbers == nullptr) return view.Fail("there is no attribute scatter_dimension_numbers.");
  MESHWORK_ASSIGN_OR_RETURN(const Ints update_window, view.IntsOf(*numbers, "update_window_dims"));
  MESHWORK_ASSIGN_OR_RETURN(Places places, ScatterPlaces(view, *numbers, update_window));
  std::optional<Combiner> combiner = CombinerOf(view.op.regions[0]);
  if (!combiner.has_value()) return view.Fail("its function is not read.");
  Value starts = IndicesInOrder(places, AsIndices(view, 1));
  // Where the window is a part of a dim that is not indexed, the index is 0.
  for (const int64_t d : Rest(places, view.type(0).rank())) {
    if (places.window[static_cast<size_t>(d)] == Size(view.type(0).shape, d)) continue;
    places.indexed.push_back(d);
    Ints low(static_cast<size_t>(starts.rank()), 0), high = low;
    high.back() = 1;
    starts = Pad(starts, low, high);
  }
  const Ints order = OrderOfOperand(places, view.type(0).rank());
  // Of bools `or` is the maximum of 0 and 1.
  const bool is_logic = *combiner == Combiner::kAnd || *combiner == Combiner::kOr;
  if (is_logic) combiner = *combiner == Combiner::kOr ? Combiner::kMaximum : Combiner::kMinimum;
  const auto as_numbers = [&](const Value& x) { return is_logic ? Cast(x, I32) : ToArithmetic(x); };
  if (is_logic && view.type(0).element != "i1") return view.Fail("bits of numbers are not combined.");
  const Value updates = as_numbers(UpdatesInOrder(view, places, update_window));
  if (!starts.valid() || !updates.valid()) return Bounds{updates};
  MESHWORK_ASSIGN_OR_RETURN(
      const Value scattered,
      Scattered(view, places, *combiner, as_numbers(Transposed(view.Arg(0), order)), updates, starts));
  const Value written = Transposed(scattered, InverseOf(order));
  return Bounds{is_logic ? Cast(written, BOOL) : FromArithmetic(view, written)};
}

// ---- Dynamic slices.

// Of a window of these sizes, which begins at operands first, first + 1, …: the dims that it does not fill, with their starts.
struct Window {
  Ints dims;
  Value starts;          // [dims]
  bool is_known = true;  // all starts are numbers:
  Ints numbers;
};
absl::StatusOr<Window> WindowOf(const OpView& view, const Shape& sizes, size_t first) {
  const Shape& whole = view.type(0).shape;
  if (sizes.size() != whole.size() || view.operands.size() != first + whole.size())
    return view.Fail("it is to have a size and a start for each dim.");
  Window window;
  std::vector<Value> starts;
  for (size_t d = 0; d < whole.size(); ++d) {
    if (sizes[d] < 0 || sizes[d] > whole[d])
      return view.Fail(fmt::format("a window of {} along a dim of {}.", sizes[d], whole[d]));
    if (sizes[d] == whole[d]) continue;
    const Known& start = view.operands[first + d].known;
    window.dims.push_back(static_cast<int64_t>(d));
    window.is_known &= start.is_splat();
    window.numbers.push_back(std::clamp<int64_t>(start.bits, 0, whole[d] - sizes[d]));
  }
  if (window.is_known) return window;
  for (const int64_t d : window.dims) {
    if (view.type(first + static_cast<size_t>(d)).rank() != 0)
      return view.Fail("its starts are to be scalars.");
    starts.push_back(ExpandDims(AsIndices(view, first + static_cast<size_t>(d)), {0}));
  }
  window.starts = starts.size() == 1 ? starts[0] : Concat(starts, 0);
  return window;
}

// The row of a loop's value that the op reads or writes; null: it does neither.
CountedLoop* LoopOfRow(const OpView& view, const Shape& sizes, size_t first) {
  const Known& whole = view.operands[0].known;
  if (whole.kind != Known::Kind::kCarried) return nullptr;
  std::vector<Known> starts;
  for (size_t i = first; i < view.operands.size(); ++i) starts.push_back(view.operands[i].known);
  return RowIsBackward(*whole.loop, view.type(0).shape, sizes, starts).has_value() ? whole.loop : nullptr;
}

absl::StatusOr<Bounds> ReadDynamicSlice(const OpView& view) {
  if (view.operands.empty()) return view.Fail("it is to have operands.");
  MESHWORK_ASSIGN_OR_RETURN(const Ints slice_sizes, view.Ints("slice_sizes"));
  const Shape sizes = ToShape(slice_sizes);
  if (CountedLoop* const loop = LoopOfRow(view, sizes, 1); loop != nullptr)
    return Bounds{loop->rows[static_cast<size_t>(view.operands[0].known.carry)]};
  MESHWORK_ASSIGN_OR_RETURN(const Window window, WindowOf(view, sizes, 1));
  Value x = view.Arg(0);
  if (window.dims.empty()) return Bounds{x};
  Ints of_dims;
  for (size_t i = 0; i < window.dims.size(); ++i) {
    of_dims.push_back(Size(sizes, window.dims[i]));
    if (window.is_known)
      x = SliceDim(x, window.dims[i], window.numbers[i], window.numbers[i] + of_dims.back());
  }
  return Bounds{window.is_known ? x : DynamicSlice(x, window.starts, window.dims, of_dims)};
}

absl::StatusOr<Bounds> ReadDynamicUpdateSlice(const OpView& view) {
  if (view.operands.size() < 2) return view.Fail("it is to have operands.");
  const Shape& sizes = view.type(1).shape;
  if (CountedLoop* const loop = LoopOfRow(view, sizes, 2); loop != nullptr) {
    const Known& whole = view.operands[0].known;
    loop->rows[static_cast<size_t>(whole.carry)] =
        WithSizesOfOne(view.Arg(1), Shape(sizes.begin() + 1, sizes.end()));
    return Bounds{Bound(view.type(0), {.kind = Known::Kind::kWritten, .loop = loop, .carry = whole.carry})};
  }
  MESHWORK_ASSIGN_OR_RETURN(const Window window, WindowOf(view, sizes, 2));
  if (window.dims.empty()) return Bounds{view.Arg(1)};
  if (!window.is_known)
    return Bounds{DynamicUpdateSlice(view.Arg(0), view.Arg(1), window.starts, window.dims)};
  Ints start(sizes.size(), 0);
  for (size_t i = 0; i < window.dims.size(); ++i)
    start[static_cast<size_t>(window.dims[i])] = window.numbers[i];
  return Bounds{UpdateSlice(view.Arg(0), view.Arg(1), start)};
}

constexpr NamedReadOp kIndexOps[] = {
    {"stablehlo.gather", ReadGather},
    {"stablehlo.scatter", ReadScatter},
    {"stablehlo.dynamic_slice", ReadDynamicSlice},
    {"stablehlo.dynamic_update_slice", ReadDynamicUpdateSlice},
};

}  // namespace

std::span<const NamedReadOp> IndexOps() { return kIndexOps; }

}  // namespace meshwork::mlir
