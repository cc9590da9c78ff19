// The forms of linear algebra on batches of matrices: each matrix is whole on a device.
#include <algorithm>
#include <functional>
#include <limits>
#include <string>

#include "fmt/format.h"
#include "meshwork/stablehlo/forms.h"

namespace meshwork::stablehlo {
namespace {

// Batches of matrices as a form works with them.
class Matrices {
 public:
  Matrices(HloText& text, const Type& type) : text_(text), batch_(type.shape.begin(), type.shape.end() - 2) {}

  int64_t row_dim() const { return std::ssize(batch_); }
  int64_t column_dim() const { return row_dim() + 1; }
  Type TypeOf(DType dtype, int64_t rows, int64_t columns) const {
    Type type{dtype, batch_};
    type.shape.push_back(rows);
    type.shape.push_back(columns);
    return type;
  }
  // The index of each element's row, or column.
  HloValue RowsOf(const HloValue& x) { return text_.Iota({I64, x.shape()}, row_dim()); }
  HloValue ColumnsOf(const HloValue& x) { return text_.Iota({I64, x.shape()}, column_dim()); }
  // The matrices of [rows,columns] of x at (row, column), and x with y there. i64[] both.
  HloValue PartAt(const HloValue& x, const HloValue& row, const HloValue& column, int64_t rows,
                  int64_t columns) {
    const Type type = TypeOf(x.dtype(), rows, columns);
    return text_.Op("stablehlo.dynamic_slice", WithPlace({x}, row, column), type,
                    "slice_sizes = " + Array(type.shape));
  }
  HloValue WithPart(const HloValue& x, const HloValue& y, const HloValue& row, const HloValue& column) {
    return text_.Op("stablehlo.dynamic_update_slice", WithPlace({x, y}, row, column), x.type);
  }
  // Of each column: one row.
  HloValue ReduceRows(ReduceOp op, const HloValue& x) {
    return text_.Reshape(text_.Reduce(op, x, {row_dim()}), TypeOf(x.dtype(), 1, x.shape().back()).shape);
  }
  // aᵀ b
  HloValue TransposedProduct(const HloValue& a, const HloValue& b) {
    std::vector<int64_t> batch;
    for (int64_t d = 0; d < row_dim(); ++d) batch.push_back(d);
    return text_.DotGeneral(a, b, batch, batch, {row_dim()}, {row_dim()}, a.dtype());
  }

 private:
  HloValues WithPlace(HloValues operands, const HloValue& row, const HloValue& column) {
    for (size_t d = 0; d < batch_.size(); ++d) operands.push_back(text_.WholeConstant(0, {I64, {}}));
    operands.push_back(row);
    operands.push_back(column);
    return operands;
  }

  HloText& text_;
  const Shape batch_;
};

// ---- cholesky, triangular_solve.

absl::StatusOr<HloValues> CholeskyForm(const FormView& v) {
  const Type& type = v.result();
  HloText& text = v.text;
  Matrices matrices(text, type);
  const HloValue l = text.Op("stablehlo.cholesky", {v.operands[0]}, type, "lower = true");
  const HloValue zero = text.Constant(0, type), row = matrices.RowsOf(l), column = matrices.ColumnsOf(l);
  const HloValue lower = text.Select(text.Compare("GE", row, column), l, zero);
  // A matrix that is not positive definite is NaN in all elements.
  const HloValue is_fine = text.Op(
      "stablehlo.or", {text.Compare("NE", row, column), text.Compare("GT", l, zero)}, {BOOL, type.shape});
  const int64_t r = matrices.row_dim(), c = matrices.column_dim();
  std::vector<int64_t> batch;
  for (int64_t d = 0; d < r; ++d) batch.push_back(d);
  const HloValue all = text.BroadcastInDim(text.Reduce(ReduceOp::kAnd, is_fine, {r, c}), type.shape, batch);
  return HloValues{text.Select(all, lower, text.Constant(std::numeric_limits<double>::quiet_NaN(), type))};
}

absl::StatusOr<HloValues> TriangularSolveForm(const FormView& v) {
  const Type& type = v.result();
  const auto attr = [&](std::string_view name) { return v.attrs().Get<bool>(name); };
  const std::string attrs =
      fmt::format("left_side = true, lower = {}, unit_diagonal = {}, transpose_a = #stablehlo<transpose {}>",
                  attr("lower"), attr("unit_diagonal"), attr("transpose_a") ? "TRANSPOSE" : "NO_TRANSPOSE");
  return HloValues{v.text.Op("stablehlo.triangular_solve", v.operands, type, attrs)};
}

// ---- qr.

// values = body(i, values) for i in [0, count).
HloValues RepeatSteps(HloText& text, int64_t count, HloValues values,
                      const std::function<HloValues(const HloValue& i, const HloValues& values)>& body) {
  const Type scalar{I64, {}};
  values.insert(values.begin(), text.WholeConstant(0, scalar));
  std::vector<Type> types;
  for (const HloValue& value : values) types.push_back(value.type);
  const std::string regions[] = {
      text.Region(types,
                  [&](const HloValues& in) {
                    return HloValues{text.Compare("LT", in[0], text.WholeConstant(count, scalar))};
                  }),
      text.Region(types, [&](const HloValues& in) {
        HloValues out = body(in[0], HloValues(in.begin() + 1, in.end()));
        out.insert(out.begin(), text.Add(in[0], text.WholeConstant(1, scalar)));
        return out;
      })};
  HloValues results = text.Ops("stablehlo.while", values, types, {}, regions);
  results.erase(results.begin());
  return results;
}

// 1 - tau v vᵀ: v is 0 above row j, where it is 1; the image of the column is (…, r, 0, …), r in row j.
struct Reflection {
  HloValue v, tau, r;
};

// Whether the number is negative, -0 too.
HloValue HasMinusSign(HloText& text, const HloValue& x) {
  const Type bits{x.dtype() == F64 ? I64 : I32, x.shape()};
  return text.Compare("LT", text.Op("stablehlo.bitcast_convert", {x}, bits), text.WholeConstant(0, bits));
}

// x with 1 instead of 0, as divisor.
HloValue WithoutZeros(HloText& text, const HloValue& x) {
  return text.Select(text.Compare("EQ", x, text.Constant(0, x.type)), text.Constant(1, x.type), x);
}

// Of column j of w, from row j on, with the signs of LAPACK's larfg.
Reflection ReflectionOf(HloText& text, Matrices& matrices, const HloValue& w, const HloValue& j) {
  const int64_t rows = w.shape()[static_cast<size_t>(matrices.row_dim())];
  const HloValue zero = text.WholeConstant(0, {I64, {}});
  const HloValue column = matrices.PartAt(w, zero, j, rows, 1), alpha = matrices.PartAt(w, j, j, 1, 1);
  const HloValue nothing = text.Constant(0, column.type), none = text.Constant(0, alpha.type);
  const HloValue row = matrices.RowsOf(column), top = text.Broadcast(j, row.shape());
  const auto for_rows = [&](const HloValue& x) { return text.Broadcast(x, column.shape()); };

  const HloValue tail = text.Select(text.Compare("GE", row, top), column, nothing);
  const HloValue largest = matrices.ReduceRows(ReduceOp::kMax, text.Op("stablehlo.abs", {tail}, tail.type));
  const HloValue scaled = text.Divide(tail, for_rows(WithoutZeros(text, largest)));
  const HloValue sum = matrices.ReduceRows(ReduceOp::kSum, text.Multiply(scaled, scaled));
  const HloValue norm = text.Multiply(largest, text.Op("stablehlo.sqrt", {sum}, sum.type));
  const HloValue beta = text.Select(HasMinusSign(text, alpha), norm, text.Negate(norm));

  const HloValue divisor = WithoutZeros(text, text.Subtract(alpha, beta));
  const HloValue below =
      text.Select(text.Compare("GT", row, top), text.Divide(column, for_rows(divisor)), nothing);
  const HloValue size = matrices.ReduceRows(ReduceOp::kMax, text.Op("stablehlo.abs", {below}, below.type));
  const HloValue squares = matrices.ReduceRows(ReduceOp::kSum, text.Multiply(below, below));
  // Nothing is reflected where there is nothing below row j.
  const HloValue stays = text.Compare("EQ", size, none);
  const HloValue tau =
      text.Select(stays, none, text.Divide(text.Constant(2, none.type), text.Add(squares, 1)));
  const HloValue v = text.Select(text.Compare("EQ", row, top), text.Constant(1, column.type), below);
  return {v, tau, text.Select(stays, alpha, beta)};
}

// (1 - tau v vᵀ) x
HloValue Reflected(HloText& text, Matrices& matrices, const HloValue& v, const HloValue& tau,
                   const HloValue& x) {
  const HloValue scaled = text.Multiply(v, text.Broadcast(tau, v.shape()));
  const HloValue dots = matrices.TransposedProduct(v, x);
  return text.Subtract(x, text.Multiply(text.Broadcast(scaled, x.shape()), text.Broadcast(dots, x.shape())));
}

// Column j of the reflected w, exactly: what is above row j, r, and zeros.
HloValue TakenColumn(HloText& text, Matrices& matrices, const HloValue& w, const HloValue& j,
                     const HloValue& r) {
  const int64_t rows = w.shape()[static_cast<size_t>(matrices.row_dim())];
  const HloValue column = matrices.PartAt(w, text.WholeConstant(0, {I64, {}}), j, rows, 1);
  const HloValue row = matrices.RowsOf(column), top = text.Broadcast(j, row.shape());
  const HloValue from_top = text.Select(text.Compare("EQ", row, top), text.Broadcast(r, column.shape()),
                                        text.Constant(0, column.type));
  return text.Select(text.Compare("LT", row, top), column, from_top);
}

// Householder's reflections: x becomes r column by column, then the reflections from the last one on make q of the unit
// matrix.
absl::StatusOr<HloValues> QrForm(const FormView& v) {
  HloText& text = v.text;
  const Type &q_type = v.result(0), &r_type = v.result(1);
  if (v.operands[0].type.num_elements() == 0)
    return HloValues{text.Constant(0, q_type), text.Constant(0, r_type)};
  Matrices matrices(text, q_type);
  const int64_t m = q_type.shape.end()[-2], k = q_type.shape.back();
  const HloValue zero = text.WholeConstant(0, {I64, {}});

  const HloValues start = {v.operands[0], text.Constant(0, q_type),
                           text.Constant(0, matrices.TypeOf(q_type.dtype, 1, k))};
  const HloValues found = RepeatSteps(text, k, start, [&](const HloValue& j, const HloValues& in) {
    const Reflection reflection = ReflectionOf(text, matrices, in[0], j);
    const HloValue w = Reflected(text, matrices, reflection.v, reflection.tau, in[0]);
    return HloValues{matrices.WithPart(w, TakenColumn(text, matrices, in[0], j, reflection.r), zero, j),
                     matrices.WithPart(in[1], reflection.v, zero, j),
                     matrices.WithPart(in[2], reflection.tau, zero, j)};
  });
  const HloValue unit =
      text.Convert(text.Compare("EQ", matrices.RowsOf(found[1]), matrices.ColumnsOf(found[1])), q_type.dtype);
  const HloValues q = RepeatSteps(text, k, {unit}, [&](const HloValue& i, const HloValues& in) {
    const HloValue j = text.Subtract(text.WholeConstant(k - 1, i.type), i);
    return HloValues{Reflected(text, matrices, matrices.PartAt(found[1], zero, j, m, 1),
                               matrices.PartAt(found[2], zero, j, 1, 1), in[0])};
  });
  const HloValue r = found[0].shape() == r_type.shape
                         ? found[0]
                         : text.Slice(found[0], Shape(r_type.shape.size(), 0), r_type.shape);
  return HloValues{q[0], r};
}

constexpr NamedForm kLinalgForms[] = {
    {"cholesky", CholeskyForm}, {"triangular_solve", TriangularSolveForm}, {"qr", QrForm}};

}  // namespace

std::span<const NamedForm> LinalgForms() { return kLinalgForms; }

}  // namespace meshwork::stablehlo
