// Constants and shapes.
#include <algorithm>

#include "meshwork/base/status.h"
#include "meshwork/ir/builder.h"
#include "meshwork/ir/row.h"
#include "meshwork/ops/ops.h"
#include "meshwork/stablehlo/read/reader.h"

namespace meshwork::mlir {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 16;  // of a constant (ops/generate.h)

absl::StatusOr<Bounds> ReadConstant(const OpView& view) {
  MESHWORK_RETURN_IF_ERROR(view.Expect(0));
  const Attribute* const value = view.FindAttribute("value");
  if (value == nullptr || value->kind != Attribute::Kind::kDense || value->type != view.result())
    return view.Fail(
        "its value is to be a dense<…> of the type of the result; large ones may have been left out "
        "of the text: print all of it.");
  MESHWORK_ASSIGN_OR_RETURN(const DenseElements elements,
                            ReadDense(*value, view.reader.text(), view.reader.file()));
  if (elements.is_splat) return Bounds{Bound(view.result(), Known::Splat(elements.bits[0]))};
  MESHWORK_RETURN_IF_ERROR(view.reader.CountOp(view.op, std::ssize(elements.bits)));
  const Type type = view.result_type();
  if (std::ssize(elements.bits) > kMostElements)
    return view.Fail(
        fmt::format("a constant of {} elements; more than {} are to be an argument of the function.",
                    elements.bits.size(), kMostElements));
  if (!IsReal(type.dtype)) {
    const Type held{IsStorage(type.dtype) ? I32 : type.dtype, type.shape};
    std::vector<int64_t> wholes = elements.bits;  // of ui32 those of the same bits
    if (held.dtype == I32)
      for (int64_t& whole : wholes) whole = static_cast<int32_t>(whole);
    return Bounds{InDType(Constant(view.graph, ElementList(wholes), held), type.dtype)};
  }
  std::vector<double> numbers;
  for (const int64_t bits : elements.bits)
    numbers.push_back(NumberOf(Bound(view.result(), Known::Splat(bits))));
  const Type held{type.dtype == F16 ? F32 : type.dtype, type.shape};
  return Bounds{InDType(Constant(view.graph, ElementList(numbers), held), type.dtype)};
}

absl::StatusOr<Bounds> ReadIota(const OpView& view) {
  MESHWORK_RETURN_IF_ERROR(view.Expect(0));
  MESHWORK_ASSIGN_OR_RETURN(const int64_t dim, view.Int("iota_dimension"));
  return Bounds{Iota(view.graph, view.result_type(), dim)};
}

// What a Squeeze (an ExpandDims) of the same dims was made of, if x is one; else an invalid value.
Value Undone(const Value& x, std::string_view by, const Ints& dims) {
  const ValueInfo& info = x.graph()->value(x.id());
  if (info.node < 0 || info.layout.has_value()) return {};
  const Node& node = x.graph()->nodes()[static_cast<size_t>(info.node)];
  if (node.row->name != by || node.attrs.Get<Ints>("dims") != dims) return {};
  return Value(x.graph(), node.operands[0]);
}

absl::StatusOr<Bounds> ReadReshape(const OpView& view) {
  MESHWORK_RETURN_IF_ERROR(view.Expect(1));
  return Bounds{WithSizesOfOne(view.Arg(0), view.result().shape)};
}

absl::StatusOr<Bounds> ReadBroadcast(const OpView& view) {
  MESHWORK_RETURN_IF_ERROR(view.Expect(1));
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<int64_t> dims, view.Ints("broadcast_dimensions"));
  const Shape& from = view.type(0).shape;
  const Shape& to = view.result().shape;
  for (size_t i = 0; i < std::max(from.size(), dims.size()); ++i) {
    const int64_t d = i < dims.size() && i < from.size() ? dims[i] : -1;
    const bool is_there = d >= 0 && d < view.result().rank() && std::count(dims.begin(), dims.end(), d) == 1;
    if (!is_there || (from[i] != 1 && from[i] != to[static_cast<size_t>(d)]))
      return view.Fail(
          "broadcast_dimensions are to name a dim of the result, of its size, for each dim of the operand.");
  }
  if (!std::is_sorted(dims.begin(), dims.end())) {
    // The dims in the order of the result first.
    std::vector<int64_t> permutation(dims.size()), sorted = dims;
    for (size_t i = 0; i < dims.size(); ++i) permutation[i] = static_cast<int64_t>(i);
    std::sort(permutation.begin(), permutation.end(), [&](int64_t a, int64_t b) {
      return dims[static_cast<size_t>(a)] < dims[static_cast<size_t>(b)];
    });
    std::sort(sorted.begin(), sorted.end());
    return Bounds{BroadcastTo(Transpose(view.Arg(0), permutation), to, sorted)};
  }
  if (NumElements(from) == NumElements(to)) return Bounds{WithSizesOfOne(view.Arg(0), to)};
  return Bounds{BroadcastTo(view.Arg(0), to, dims)};
}

absl::StatusOr<Bounds> ReadTranspose(const OpView& view) {
  MESHWORK_RETURN_IF_ERROR(view.Expect(1));
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<int64_t> permutation, view.Ints("permutation"));
  return Bounds{Transpose(view.Arg(0), permutation)};
}

absl::StatusOr<Bounds> ReadSlice(const OpView& view) {
  MESHWORK_RETURN_IF_ERROR(view.Expect(1));
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<int64_t> start, view.Ints("start_indices"));
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<int64_t> limit, view.Ints("limit_indices"));
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<int64_t> stride,
                            view.Ints("strides", std::vector<int64_t>(start.size(), 1)));
  return Bounds{Slice(view.Arg(0), start, limit, stride)};
}

absl::StatusOr<Bounds> ReadPad(const OpView& view) {
  MESHWORK_RETURN_IF_ERROR(view.Expect(2));
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<int64_t> low, view.Ints("edge_padding_low"));
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<int64_t> high, view.Ints("edge_padding_high"));
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<int64_t> interior,
                            view.Ints("interior_padding", std::vector<int64_t>(low.size(), 0)));
  const Known& filling = view.operands[1].known;
  const bool is_zero = filling == Known::Splat(0);
  const Value padded = Pad(view.Arg(0), low, high, 0, interior);
  if (is_zero || !padded.valid()) return Bounds{padded};
  // Where there is padding.
  const Value is_inside =
      Pad(Constant(view.graph, 1, Type{BOOL, view.type(0).shape}), low, high, 0, interior);
  return Bounds{Select(is_inside, padded, view.Light(1))};
}

absl::StatusOr<Bounds> ReadConcat(const OpView& view) {
  MESHWORK_RETURN_IF_ERROR(view.Expect(view.operands.size()));
  if (view.operands.empty()) return view.Fail("there is nothing to join.");
  MESHWORK_ASSIGN_OR_RETURN(const int64_t dim, view.Int("dimension"));
  return Bounds{Concat(view.Args(), dim)};
}

absl::StatusOr<Bounds> ReadReverse(const OpView& view) {
  MESHWORK_RETURN_IF_ERROR(view.Expect(1));
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<int64_t> dims, view.Ints("dimensions"));
  return Bounds{dims.empty() ? view.Arg(0) : Reverse(view.Arg(0), DimList(dims))};
}

constexpr NamedReadOp kShapeOps[] = {
    {"stablehlo.constant", ReadConstant},
    {"chlo.constant", ReadConstant},
    {"stablehlo.iota", ReadIota},
    {"stablehlo.reshape", ReadReshape},
    {"stablehlo.broadcast_in_dim", ReadBroadcast},
    {"stablehlo.transpose", ReadTranspose},
    {"stablehlo.slice", ReadSlice},
    {"stablehlo.pad", ReadPad},
    {"stablehlo.concatenate", ReadConcat},
    {"stablehlo.reverse", ReadReverse},
};

}  // namespace

Value WithSizesOfOne(const Value& x, const Shape& shape) {
  std::vector<int64_t> gone, come;
  const Shape& from = x.shape();
  size_t i = 0, j = 0;
  while (i < from.size() || j < shape.size()) {
    if (i < from.size() && j < shape.size() && from[i] == shape[j]) ++i, ++j;
    else if (i < from.size() && from[i] == 1) gone.push_back(static_cast<int64_t>(i++));
    else if (j < shape.size() && shape[j] == 1) come.push_back(static_cast<int64_t>(j++));
    else return Reshape(x, shape);
  }
  if (!x.valid()) return x;
  if (come.empty() || gone.empty()) {
    const Value undone = gone.empty() ? Undone(x, "squeeze", come) : Undone(x, "expand_dims", gone);
    if (undone.valid()) return undone;
  }
  const Value less = gone.empty() ? x : Squeeze(x, DimList(gone));
  return come.empty() ? less : ExpandDims(less, DimList(come));
}

std::span<const NamedReadOp> ShapeOps() { return kShapeOps; }

}  // namespace meshwork::mlir
