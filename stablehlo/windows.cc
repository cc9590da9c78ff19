// The forms of windows that slide over images: convolution and pooling. Of a gradient, a dim may be `windowed` (ir/sliding.h):
// where its block begins between two windows depends on the device.
#include <algorithm>
#include <limits>

#include "fmt/ranges.h"
#include "meshwork/ir/sliding.h"
#include "meshwork/ops/kernels/conv_shape.h"
#include "meshwork/stablehlo/forms.h"

namespace meshwork::stablehlo {
namespace {

using WindowInts = std::vector<int64_t>;

// Along one spatial dim of x and y.
struct WindowDim {
  int64_t in, out;
  Sliding sliding;

  // y with its elements `stride` apart.
  int64_t spread() const { return out == 0 ? 0 : (out - 1) * sliding.stride + 1; }
};
using WindowDims = std::vector<WindowDim>;

// x, y: [n,…,c]
WindowDims WindowDimsOf(const Slidings& slidings, const Shape& x, const Shape& y) {
  WindowDims dims;
  for (size_t d = 0; d < slidings.size(); ++d) dims.push_back({x[1 + d], y[1 + d], slidings[d]});
  return dims;
}

// numbers(dim) of each spatial dim.
template <typename F>
WindowInts OfEach(const WindowDims& dims, F&& number) {
  WindowInts numbers;
  for (const WindowDim& dim : dims) numbers.push_back(number(dim));
  return numbers;
}

// For [n,…,c]: `outer`, the numbers, `outer`.
Shape WithOuter(const WindowInts& numbers, int64_t outer) {
  Shape all = {outer};
  all.insert(all.end(), numbers.begin(), numbers.end());
  all.push_back(outer);
  return all;
}

int64_t StrideOf(const WindowDim& d) { return d.sliding.stride; }
int64_t DilationOf(const WindowDim& d) { return d.sliding.dilation; }
int64_t FilterOf(const WindowDim& d) { return d.sliding.filter; }
int64_t LowOf(const WindowDim& d) { return d.sliding.low; }
// Of x, so that it has as many windows as y has elements and no more.
int64_t HighOf(const WindowDim& d) {
  return d.out == 0 ? d.sliding.high : d.spread() + d.sliding.extent() - 1 - d.in - d.sliding.low;
}
// Of y, in gradients by x.
int64_t LowOfSpread(const WindowDim& d) { return d.sliding.extent() - 1 - d.sliding.low; }
int64_t HighOfSpread(const WindowDim& d) {
  return d.in + d.sliding.extent() - 1 - d.spread() - LowOfSpread(d);
}

// ---- Blocks of x that begin anywhere.

// Per device, LowAt of a windowed dim of the result.
HloValue LowOfThisDevice(const FormView& v, const WindowDims& dims, size_t d) {
  WindowInts lows;
  const ValueInfo& x = v.result_info();
  for (int64_t device = 0; device < v.mesh().num_devices(); ++device) {
    const bool is_cut = x.layout.has_value();
    lows.push_back(
        dims[d].sliding.LowAt(is_cut ? x.layout->BlockOf(x.global.shape, device)[1 + d].start : 0));
  }
  return v.text.OfThisDevice(lows);
}

// The dims of a frame that begins where a window begins; the block is a part of it.
WindowDims FrameOf(WindowDims dims) {
  for (WindowDim& dim : dims) {
    Sliding& s = dim.sliding;
    if (!s.windowed) continue;
    s.low = s.extent() - s.stride;
    dim.in += s.stride - 1;
  }
  return dims;
}

// The block of the result in its frame, [n,…,c]. `dims`: those of the block.
HloValue BlockInFrame(const FormView& v, const WindowDims& dims, const HloValue& frame) {
  const Type type{frame.dtype(), v.result().shape};
  if (frame.type == type) return frame;
  const HloValue zero = v.text.WholeConstant(0, {I64, {}});
  HloValues operands = {frame, zero};
  for (size_t d = 0; d < dims.size(); ++d) {
    const Sliding& s = dims[d].sliding;
    const HloValue first = v.text.WholeConstant(s.extent() - s.stride, {I64, {}});
    operands.push_back(s.windowed ? v.text.Subtract(LowOfThisDevice(v, dims, d), first) : zero);
  }
  operands.push_back(zero);
  return v.text.Op("stablehlo.dynamic_slice", operands, type, "slice_sizes = " + Array(type.shape));
}

// ---- Convolution.

// What each dim of a tensor is: 'b' batch, 'f' features, 'i' and 'o' features of a filter, 's' the next spatial dim.
std::string ConvDims(std::string_view letters) {
  std::string text;
  int spatial = 0;
  for (const char letter : letters)
    text += fmt::format("{}{}", text.empty() ? "" : ", ",
                        letter == 's' ? fmt::to_string(spatial++) : std::string(1, letter));
  return "[" + text + "]";
}

struct ConvParts {
  std::string image, filter, result;  // for ConvDims
  WindowInts strides, low, high, image_dilation, filter_dilation;
  int64_t groups = 1, batch_groups = 1;
};

// Sums of 16 bits are made in f32.
HloValue ConvolutionOf(HloText& text, const HloValue& image, const HloValue& filter, Shape shape,
                       const ConvParts& parts) {
  std::vector<std::string> padding;
  for (size_t d = 0; d < parts.low.size(); ++d)
    padding.push_back(fmt::format("[{}, {}]", parts.low[d], parts.high[d]));
  const DType dtype = image.dtype() == F64 ? F64 : F32;
  return text.Op(
      "stablehlo.convolution", {image, filter}, {dtype, std::move(shape)},
      fmt::format(
          "window_strides = {}, padding = dense<[{}]> : tensor<{}x2xi64>, lhs_dilation = {}, rhs_dilation = {}, "
          "dimension_numbers = #stablehlo.conv<{}x{}->{}>, feature_group_count = {} : i64, batch_group_count = {} : "
          "i64, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]",
          Array(parts.strides), fmt::join(padding, ", "), padding.size(), Array(parts.image_dilation),
          Array(parts.filter_dilation), ConvDims(parts.image), ConvDims(parts.filter), ConvDims(parts.result),
          parts.groups, parts.batch_groups));
}

// w: [filter…, c / groups, o]
WindowDims ConvDimsOf(const FormView& v, const Shape& x, const Shape& w, const Shape& y) {
  return WindowDimsOf(SlidingsOf(v.attrs(), w.size() - 2, FilterSizes(w)), x, y);
}

std::string SpatialBetween(std::string_view before, size_t spatial, std::string_view after) {
  return fmt::format("{}{}{}", before, std::string(spatial, 's'), after);
}

absl::StatusOr<HloValues> Conv(const FormView& v) {
  const HloValue &x = v.operands[0], &w = v.operands[1];
  const WindowDims dims = ConvDimsOf(v, x.shape(), w.shape(), v.result().shape);
  const std::string image = SpatialBetween("b", dims.size(), "f");
  const ConvParts parts{.image = image,
                        .filter = SpatialBetween("", dims.size(), "io"),
                        .result = image,
                        .strides = OfEach(dims, StrideOf),
                        .low = OfEach(dims, LowOf),
                        .high = OfEach(dims, HighOf),
                        .image_dilation = WindowInts(dims.size(), 1),
                        .filter_dilation = OfEach(dims, DilationOf),
                        .groups = v.attrs().Get<int64_t>("groups")};
  return HloValues{v.text.Convert(ConvolutionOf(v.text, x, w, v.result().shape, parts), v.result().dtype)};
}

// w: [filter…, c / groups, o] -> [filter…, c, o / groups]
HloValue ChannelsOfAllGroups(HloText& text, const HloValue& w, int64_t groups) {
  if (groups == 1) return w;
  const int64_t spatial = w.rank() - 2;
  Shape split = w.shape();
  split.back() /= groups;
  Shape joined = split;
  joined[spatial] *= groups;
  split.insert(split.end() - 1, groups);
  WindowInts order;
  for (int64_t d = 0; d < spatial; ++d) order.push_back(d);
  order.insert(order.end(), {spatial + 1, spatial, spatial + 2});
  return text.Reshape(text.Transpose(text.Reshape(w, split), order), joined);
}

absl::StatusOr<HloValues> ConvInputGrad(const FormView& v) {
  const HloValue &y = v.operands[0], &w = v.operands[1];
  const int64_t groups = v.attrs().Get<int64_t>("groups");
  const WindowDims dims = ConvDimsOf(v, v.result().shape, w.shape(), y.shape()), frame = FrameOf(dims);
  const std::string image = SpatialBetween("b", dims.size(), "f");
  const ConvParts parts{.image = image,
                        .filter = SpatialBetween("", dims.size(), "oi"),
                        .result = image,
                        .strides = WindowInts(dims.size(), 1),
                        .low = OfEach(frame, LowOfSpread),
                        .high = OfEach(frame, HighOfSpread),
                        .image_dilation = OfEach(dims, StrideOf),
                        .filter_dilation = OfEach(dims, DilationOf),
                        .groups = groups};
  WindowInts spatial;
  for (size_t d = 0; d < dims.size(); ++d) spatial.push_back(static_cast<int64_t>(d));
  const HloValue filter = v.text.Reverse(ChannelsOfAllGroups(v.text, w, groups), spatial);
  Shape shape = v.result().shape;
  for (size_t d = 0; d < dims.size(); ++d) shape[1 + d] = frame[d].in;
  const HloValue x = ConvolutionOf(v.text, y, filter, std::move(shape), parts);
  return HloValues{v.text.Convert(BlockInFrame(v, dims, x), v.result().dtype)};
}

// The images are features that are summed over, and y is the filter.
absl::StatusOr<HloValues> ConvFilterGrad(const FormView& v) {
  const HloValue &x = v.operands[0], &y = v.operands[1];
  const WindowDims dims = ConvDimsOf(v, x.shape(), v.result().shape, y.shape());
  const ConvParts parts{.image = SpatialBetween("f", dims.size(), "b"),
                        .filter = SpatialBetween("i", dims.size(), "o"),
                        .result = SpatialBetween("", dims.size(), "bf"),
                        .strides = OfEach(dims, DilationOf),
                        .low = OfEach(dims, LowOf),
                        .high = OfEach(dims, HighOf),
                        .image_dilation = WindowInts(dims.size(), 1),
                        .filter_dilation = OfEach(dims, StrideOf),
                        .batch_groups = v.attrs().Get<int64_t>("groups")};
  return HloValues{v.text.Convert(ConvolutionOf(v.text, x, y, v.result().shape, parts), v.result().dtype)};
}

// ---- Pooling.

WindowDims PoolDimsOf(const FormView& v, const Shape& x, const Shape& y) {
  return WindowDimsOf(SlidingsOf(v.attrs(), x.size() - 2, v.attrs().Get<WindowInts>("window")), x, y);
}

// Of windows that slide over [n,…,c], which is padded already.
std::string WindowAttrs(const WindowDims& dims, bool has_strides) {
  const Shape ones = WithOuter(WindowInts(dims.size(), 1), 1);
  return fmt::format("window_dimensions = {}, window_strides = {}, window_dilations = {}",
                     Array(WithOuter(OfEach(dims, FilterOf), 1)),
                     Array(has_strides ? WithOuter(OfEach(dims, StrideOf), 1) : ones),
                     Array(WithOuter(OfEach(dims, DilationOf), 1)));
}

HloValue PaddedForWindows(HloText& text, const WindowDims& dims, const HloValue& x, const HloValue& value) {
  const Shape low = WithOuter(OfEach(dims, LowOf), 0), high = WithOuter(OfEach(dims, HighOf), 0);
  const auto is_zero = [](int64_t size) { return size == 0; };
  if (std::all_of(low.begin(), low.end(), is_zero) && std::all_of(high.begin(), high.end(), is_zero))
    return x;
  return text.Pad(x, value, low, high);
}

HloValue WindowSums(HloText& text, const HloValue& x, Shape shape, const std::string& attrs) {
  const HloValue operands[] = {x, text.Constant(0, {x.dtype(), {}})};
  const std::string region = text.Reduction(ReduceOp::kSum, x.dtype());
  return text.Ops("stablehlo.reduce_window", operands, {{x.dtype(), std::move(shape)}}, attrs,
                  {&region, 1})[0];
}

absl::StatusOr<HloValues> SumPool(const FormView& v) {
  const HloValue x = v.Wide(0);
  const WindowDims dims = PoolDimsOf(v, x.shape(), v.result().shape);
  const HloValue padded = PaddedForWindows(v.text, dims, x, v.text.Constant(0, {x.dtype(), {}}));
  const HloValue sums = WindowSums(v.text, padded, v.result().shape, WindowAttrs(dims, true));
  return HloValues{v.text.Convert(sums, v.result().dtype)};
}

absl::StatusOr<HloValues> SumPoolGrad(const FormView& v) {
  const HloValue y = v.Wide(0);
  const WindowDims dims = PoolDimsOf(v, v.result().shape, y.shape()), frame = FrameOf(dims);
  const HloValue spread =
      v.text.Pad(y, v.text.Constant(0, {y.dtype(), {}}), WithOuter(OfEach(frame, LowOfSpread), 0),
                 WithOuter(OfEach(frame, HighOfSpread), 0),
                 WithOuter(OfEach(dims, [](const WindowDim& d) { return d.sliding.stride - 1; }), 0));
  Shape shape = v.result().shape;
  for (size_t d = 0; d < dims.size(); ++d) shape[1 + d] = frame[d].in;
  const HloValue x = WindowSums(v.text, spread, std::move(shape), WindowAttrs(dims, false));
  return HloValues{v.text.Convert(BlockInFrame(v, dims, x), v.result().dtype)};
}

// ---- Pooling by the largest element. An element's place is its number among the positions of x, row by row, which go up
// within a window as its taps do.

constexpr int64_t kNoPlace = std::numeric_limits<int32_t>::max();

// REQUIRES: an image has fewer than 2^31 positions.
Type PlaceType(const Shape& shape) { return {I32, shape}; }

// The larger one of each two elements, or NaN, with its place; of equal ones the first.
std::string LargerElement(HloText& text, DType dtype) {
  const Type real{dtype, {}}, place = PlaceType({}), truth{BOOL, {}};
  const auto either = [&](const HloValue& a, const HloValue& b) {
    return text.Op("stablehlo.or", {a, b}, truth);
  };
  const auto both = [&](const HloValue& a, const HloValue& b) {
    return text.Op("stablehlo.and", {a, b}, truth);
  };
  return text.Region({real, place, real, place}, [&](const HloValues& in) {
    const HloValue &a = in[0], &a_place = in[1], &b = in[2], &b_place = in[3];
    const HloValue a_is_nan = text.Compare("NE", a, a), b_is_nan = text.Compare("NE", b, b);
    const HloValue a_is_number = text.Compare("EQ", a, a);
    const HloValue alike = either(text.Compare("EQ", a, b), both(a_is_nan, b_is_nan));
    const HloValue is_later = text.Compare("LT", b_place, a_place);
    const HloValue b_wins =
        either(either(text.Compare("GT", b, a), both(b_is_nan, a_is_number)), both(alike, is_later));
    return HloValues{text.Select(b_wins, b, a), text.Select(b_wins, b_place, a_place)};
  });
}

HloValue IntegerOf(HloText& text, std::string_view op, const HloValue& x, int64_t number) {
  return text.Op(op, {x, text.WholeConstant(number, x.type)}, x.type);
}

// The place of each element of x: i32 [n,…,c]
HloValue PlacesOfElements(HloText& text, const Shape& shape, const WindowDims& dims) {
  HloValue places = text.WholeConstant(0, PlaceType(shape));
  for (size_t d = 0; d < dims.size(); ++d)
    places = text.Add(IntegerOf(text, "stablehlo.multiply", places, dims[d].in),
                      text.Iota(PlaceType(shape), static_cast<int64_t>(1 + d)));
  return places;
}

// The taps at which windows see their places; -1 for no place.
HloValue TapsOfPlaces(HloText& text, const HloValue& places, const WindowDims& dims) {
  HloValue tap = text.WholeConstant(0, places.type);
  int64_t behind = 1;
  for (const WindowDim& dim : dims) behind *= dim.in;
  for (size_t d = 0; d < dims.size(); ++d) {
    const Sliding& s = dims[d].sliding;
    behind /= std::max<int64_t>(dims[d].in, 1);
    const HloValue line = IntegerOf(text, "stablehlo.divide", places, std::max<int64_t>(behind, 1));
    const HloValue at = IntegerOf(text, "stablehlo.remainder", line, std::max<int64_t>(dims[d].in, 1));
    const HloValue result = text.Iota(places.type, static_cast<int64_t>(1 + d));
    const HloValue first =
        IntegerOf(text, "stablehlo.subtract", IntegerOf(text, "stablehlo.multiply", result, s.stride), s.low);
    const HloValue along = IntegerOf(text, "stablehlo.divide", text.Subtract(at, first), s.dilation);
    tap = text.Add(IntegerOf(text, "stablehlo.multiply", tap, s.filter), along);
  }
  const HloValue none = text.Compare("EQ", places, text.WholeConstant(kNoPlace, places.type));
  return text.Select(none, text.WholeConstant(-1, tap.type), tap);
}

absl::StatusOr<HloValues> MaxPool(const FormView& v) {
  HloText& text = v.text;
  const HloValue x = v.Wide(0);
  const WindowDims dims = PoolDimsOf(v, x.shape(), v.result().shape);
  const Type scalar{x.dtype(), {}};
  const HloValue lowest = text.Constant(-std::numeric_limits<double>::infinity(), scalar);
  const HloValue nowhere = text.WholeConstant(kNoPlace, PlaceType({}));
  HloValue places = PlacesOfElements(text, x.shape(), dims);
  places = text.Select(text.Compare("EQ", x, text.Broadcast(lowest, x.shape())),
                       text.Broadcast(nowhere, x.shape()), places);
  const HloValue operands[] = {PaddedForWindows(text, dims, x, lowest),
                               PaddedForWindows(text, dims, places, nowhere), lowest, nowhere};
  const std::string region = LargerElement(text, x.dtype());
  const HloValues most = text.Ops("stablehlo.reduce_window", operands,
                                  {{x.dtype(), v.result().shape}, PlaceType(v.result().shape)},
                                  WindowAttrs(dims, true), {&region, 1});
  return HloValues{text.Convert(most[0], v.result().dtype), TapsOfPlaces(text, most[1], dims)};
}

// Where the windows of y see x by their taps: places in [n,positions,c], -1 where a tap is none or sees padding.
// lows: of each dim, a scalar i32.
HloValue PlacesOfTaps(HloText& text, const HloValue& taps, const WindowDims& dims, const HloValues& lows) {
  const Type type = taps.type, truth{BOOL, type.shape};
  int64_t behind = 1;
  for (const WindowDim& dim : dims) behind *= dim.sliding.filter;
  const HloValue zero = text.WholeConstant(0, type);
  HloValue is_seen = text.Op(
      "stablehlo.and",
      {text.Compare("GE", taps, zero), text.Compare("LT", taps, text.WholeConstant(behind, type))}, truth);
  HloValue places = zero;
  for (size_t d = 0; d < dims.size(); ++d) {
    const Sliding& s = dims[d].sliding;
    behind /= s.filter;
    const HloValue along =
        IntegerOf(text, "stablehlo.remainder", IntegerOf(text, "stablehlo.divide", taps, behind), s.filter);
    const HloValue result = text.Iota(type, static_cast<int64_t>(1 + d));
    const HloValue first = text.Subtract(IntegerOf(text, "stablehlo.multiply", result, s.stride),
                                         text.Broadcast(lows[d], type.shape));
    const HloValue at = text.Add(first, IntegerOf(text, "stablehlo.multiply", along, s.dilation));
    for (const HloValue& holds :
         {text.Compare("GE", at, zero), text.Compare("LT", at, text.WholeConstant(dims[d].in, type))})
      is_seen = text.Op("stablehlo.and", {is_seen, holds}, truth);
    places = text.Add(IntegerOf(text, "stablehlo.multiply", places, dims[d].in), at);
  }
  return text.Select(is_seen, places, text.WholeConstant(-1, type));
}

// [n,…,c] -> [n,positions,c]
HloValue WithOnePosition(HloText& text, const HloValue& x) {
  int64_t positions = 1;
  for (int d = 1; d + 1 < x.rank(); ++d) positions *= x.shape()[d];
  return text.Reshape(x, {x.shape().front(), positions, x.shape().back()});
}

// [n,positions,c] -> [n,positions,c,1]
HloValue AsIndices(HloText& text, const HloValue& places) {
  Shape shape = WithOnePosition(text, places).shape();
  shape.push_back(1);
  return text.Reshape(places, shape);
}

absl::StatusOr<HloValues> MaxPoolAt(const FormView& v) {
  HloText& text = v.text;
  const HloValue &x = v.operands[0], &taps = v.operands[1];
  const WindowDims dims = PoolDimsOf(v, x.shape(), taps.shape());
  if (x.type.num_elements() == 0) return HloValues{text.Constant(0, v.result())};
  HloValues lows;
  for (const WindowDim& dim : dims) lows.push_back(text.WholeConstant(dim.sliding.low, PlaceType({})));
  const HloValue places = PlacesOfTaps(text, taps, dims, lows);
  const HloValue from = WithOnePosition(text, x), indices = AsIndices(text, places);
  const Shape gathered = {indices.shape()[0], indices.shape()[1], indices.shape()[2]};
  const HloValue found = text.Op(
      "stablehlo.gather", {from, indices}, {x.dtype(), gathered},
      "dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [1], operand_batching_dims = [0, 2], "
      "start_indices_batching_dims = [0, 2], start_index_map = [1], index_vector_dim = 3>, slice_sizes = array<i64: 1, 1, 1>, "
      "indices_are_sorted = false");
  const HloValue is_seen = text.Compare("GE", places, text.WholeConstant(0, places.type));
  return HloValues{text.Select(is_seen, text.Reshape(found, v.result().shape), text.Constant(0, v.result()))};
}

absl::StatusOr<HloValues> MaxPoolGrad(const FormView& v) {
  HloText& text = v.text;
  const HloValue y = v.Wide(0), &taps = v.operands[1];
  const WindowDims dims = PoolDimsOf(v, v.result().shape, y.shape());
  HloValues lows;
  for (size_t d = 0; d < dims.size(); ++d) lows.push_back(text.Convert(LowOfThisDevice(v, dims, d), I32));
  const HloValue from = WithOnePosition(text, y),
                 indices = AsIndices(text, PlacesOfTaps(text, taps, dims, lows));
  const HloValue zeros = WithOnePosition(text, text.Constant(0, {y.dtype(), v.result().shape}));
  const HloValue operands[] = {zeros, indices, from};
  const std::string region = text.Reduction(ReduceOp::kSum, y.dtype());
  const HloValue sums =
      text.Ops("stablehlo.scatter", operands, {zeros.type},
               "scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [1], "
               "input_batching_dims = [0, 2], scatter_indices_batching_dims = [0, 2], "
               "scatter_dims_to_operand_dims = [1], index_vector_dim = 3>, indices_are_sorted = false, "
               "unique_indices = false",
               {&region, 1})[0];
  return HloValues{text.Convert(text.Reshape(sums, v.result().shape), v.result().dtype)};
}

constexpr NamedForm kWindowForms[] = {
    {"conv", Conv},        {"conv_input_grad", ConvInputGrad}, {"conv_filter_grad", ConvFilterGrad},
    {"max_pool", MaxPool}, {"max_pool_grad", MaxPoolGrad},     {"max_pool_at", MaxPoolAt},
    {"sum_pool", SumPool}, {"sum_pool_grad", SumPoolGrad},
};

}  // namespace

std::span<const NamedForm> WindowForms() { return kWindowForms; }

}  // namespace meshwork::stablehlo
