// Reductions, and what orders elements.
#include <algorithm>

#include "meshwork/base/status.h"
#include "meshwork/ir/row.h"
#include "meshwork/ops/operators.h"
#include "meshwork/ops/ops.h"
#include "meshwork/stablehlo/read/reader.h"

namespace meshwork::mlir {
namespace {

absl::StatusOr<Value> Reduced(const OpView& view, Combiner combiner, const Value& x, const Ints& dims) {
  const bool is_bool = x.dtype() == BOOL;
  switch (combiner) {
    case Combiner::kAdd: return ReduceSum(x, dims);
    case Combiner::kMultiply: return ReduceProd(x, dims);
    case Combiner::kMaximum: return InSignedOrder(view, ReduceMax(InSignedOrder(view, x), dims));
    case Combiner::kMinimum: return InSignedOrder(view, ReduceMin(InSignedOrder(view, x), dims));
    case Combiner::kAnd:
      if (is_bool) return ReduceAll(x, dims);
      break;
    case Combiner::kOr:
      if (is_bool) return ReduceAny(x, dims);
      break;
    case Combiner::kSecond: break;
  }
  return view.Fail(
      "its function is not read for these elements: and, or of bools; add, multiply, maximum, minimum of numbers.");
}

Value Combined(Combiner combiner, const Value& a, const Value& b) {
  switch (combiner) {
    case Combiner::kAdd: return Add(a, b);
    case Combiner::kMultiply: return Mul(a, b);
    case Combiner::kMaximum: return Maximum(a, b);
    case Combiner::kMinimum: return Minimum(a, b);
    case Combiner::kAnd: return And(a, b);
    default: return Or(a, b);
  }
}

// The dim along which operand 1 counts, if it is an iota; -1: it is none.
int64_t IotaDim(const Value& x) {
  if (!x.valid()) return -1;
  const ValueInfo& info = x.graph()->value(x.id());
  if (info.node < 0) return -1;
  const Node& node = x.graph()->nodes()[static_cast<size_t>(info.node)];
  return node.row->name == "iota" ? node.attrs.Get<int64_t>("dim") : -1;
}

absl::StatusOr<Bounds> ReadExtremum(const OpView& view, const Ints& dims) {
  const std::optional<Order> order = ExtremumOf(view.op.regions[0]);
  if (!order.has_value() || dims.size() != 1 || IotaDim(view.operands[1].value) != dims[0])
    return view.Fail(
        "of two values together it reads the extremum along one dim and its index, which an iota along that dim counts.");
  const bool is_largest = *order == Order::kDescending;
  const Combiner combiner = is_largest ? Combiner::kMaximum : Combiner::kMinimum;
  if (!IsIdentity(view.operands[2], combiner) || !view.operands[3].known.is_splat() ||
      view.operands[3].known.bits < 0)
    return view.Fail("its first value is to change nothing, and its first index not to be below 0.");
  const bool is_bool = view.type(0).element == "i1";
  const Value x = is_bool ? Cast(view.Arg(0), I32) : InSignedOrder(view, ToArithmetic(view.Arg(0)));
  const Value index = is_largest ? Argmax(x, dims[0]) : Argmin(x, dims[0]);
  const Value extremum = is_largest ? ReduceMax(x, dims) : ReduceMin(x, dims);
  return Bounds{is_bool ? Cast(extremum, BOOL) : FromArithmetic(view, InSignedOrder(view, extremum)),
                InDType(index, view.result_type(1).dtype)};
}

TensorType WithoutDims(const TensorType& type, const Ints& dims) {
  TensorType less{.element = type.element};
  for (int64_t d = 0; d < type.rank(); ++d)
    if (!Contains(dims, d)) less.shape.push_back(type.shape[static_cast<size_t>(d)]);
  return less;
}

absl::StatusOr<Bounds> ReadReduce(const OpView& view) {
  const size_t count = view.op.result_types.size();
  MESHWORK_RETURN_IF_ERROR(view.Expect(2 * count, count, 1));
  MESHWORK_ASSIGN_OR_RETURN(const Ints dims, view.Ints("dimensions"));
  if (count == 2) return ReadExtremum(view, dims);
  const std::optional<Combiner> combiner = count == 1 ? CombinerOf(view.op.regions[0]) : std::nullopt;
  if (!combiner.has_value()) return view.Fail("its function is not read: one op of its two arguments is.");
  const Known& known = view.operands[0].known;
  const bool is_logic = *combiner == Combiner::kAnd || *combiner == Combiner::kOr;
  if (view.type(1).rank() != 0 || view.type(1).element != view.type(0).element)
    return view.Fail("its first value is to be a scalar of the operand's element type.");
  if (is_logic && known.is_splat() && NumElements(view.type(0).shape) > 0 &&
      IsIdentity(view.operands[1], *combiner) && view.result() == WithoutDims(view.type(0), dims))
    return Bounds{Bound(view.result(), known)};
  MESHWORK_ASSIGN_OR_RETURN(const Value reduced, Reduced(view, *combiner, ToArithmetic(view.Arg(0)), dims));
  if (IsIdentity(view.operands[1], *combiner)) return Bounds{FromArithmetic(view, reduced)};
  const bool is_extremum = *combiner == Combiner::kMaximum || *combiner == Combiner::kMinimum;
  if (IsUnsigned(view.type(0)) && is_extremum)
    return view.Fail(
        "the first value of an extremum of numbers without a sign is to be the least (largest).");
  return Bounds{FromArithmetic(view, Combined(*combiner, reduced, ToArithmetic(view.Light(1))))};
}

constexpr size_t kMostSorted = 64;

absl::StatusOr<Bounds> ReadSort(const OpView& view) {
  const size_t count = view.op.result_types.size();
  if (count == 0) return view.Fail("there is nothing to sort.");
  MESHWORK_RETURN_IF_ERROR(view.Expect(count, count, 1));
  MESHWORK_ASSIGN_OR_RETURN(const int64_t dim, view.Int("dimension", -1));
  if (count > kMostSorted)
    return view.Fail(fmt::format("more than {} operands are not sorted together.", kMostSorted));
  const std::vector<SortKey> keys = SortKeysOf(view.op.regions[0], view.op.operand_types);
  if (keys.empty())
    return view.Fail(
        "its comparator is not read: an order of up to three operands, of which the first that differs decides, is.");
  std::vector<Value> values = view.Args();
  // By the last key first; each sort keeps the order of what is equal.
  for (size_t k = keys.size(); k-- > 0;) {
    const size_t operand = keys[k].operand;
    const Value key = InSignedOrder(view, ToArithmetic(values[operand]), operand);
    const bool is_bool = key.dtype() == BOOL;
    const Ordered ordered = Sort(is_bool ? Cast(key, I32) : key, dim, keys[k].order == Order::kDescending);
    for (size_t i = 0; i < count; ++i) {
      if (i != operand) values[i] = TakeAlongDim(values[i], ordered.indices, dim);
      else if (is_bool) values[i] = Cast(ordered.values, BOOL);
      else values[i] = FromArithmetic(view, InSignedOrder(view, ordered.values, i), i);
    }
  }
  return Bounds(values.begin(), values.end());
}

absl::StatusOr<Bounds> ReadTopK(const OpView& view) {
  MESHWORK_RETURN_IF_ERROR(view.Expect(1, 2));
  MESHWORK_ASSIGN_OR_RETURN(const int64_t k, view.Int("k"));
  const Ordered top = TopK(InSignedOrder(view, ToArithmetic(view.Arg(0))), k, -1);
  return Bounds{FromArithmetic(view, InSignedOrder(view, top.values)),
                InDType(top.indices, view.result_type(1).dtype)};
}

constexpr NamedReadOp kReductionOps[] = {
    {"stablehlo.reduce", ReadReduce},
    {"stablehlo.sort", ReadSort},
    {"chlo.top_k", ReadTopK},
};

}  // namespace

std::span<const NamedReadOp> ReductionOps() { return kReductionOps; }

}  // namespace meshwork::mlir
