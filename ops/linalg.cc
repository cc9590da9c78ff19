// Linear algebra of batches of matrices, […,n,n]: cholesky, triangular_solve, qr. Every matrix is whole on a
// device; batches are sharded as they are. Kernels: ops/kernels/blas.
#include <algorithm>

#include "meshwork/base/status.h"
#include "meshwork/ir/builder.h"
#include "meshwork/ops/families.h"
#include "meshwork/ops/ops.h"

namespace meshwork {
namespace {

// ---- Inference, rules.

absl::Status CheckMatrices(const Type& x) {
  if ((x.dtype == F32 || x.dtype == F64) && x.rank() >= 2) return absl::OkStatus();
  return InvalidArgument("takes f32 or f64 […,m,n], got {}.", x.ToString());
}

int64_t RowsOf(const Type& x) { return x.shape[x.shape.size() - 2]; }
int64_t ColumnsOf(const Type& x) { return x.shape.back(); }

absl::Status CheckSquare(const Type& x) {
  MESHWORK_RETURN_IF_ERROR(CheckMatrices(x));
  if (RowsOf(x) == ColumnsOf(x)) return absl::OkStatus();
  return InvalidArgument("takes square matrices, got {}.", x.ToString());
}

// `x` with matrices of [rows, columns].
Type WithMatrix(Type x, int64_t rows, int64_t columns) {
  x.shape[x.shape.size() - 2] = rows;
  x.shape.back() = columns;
  return x;
}

absl::StatusOr<std::vector<Type>> InferCholesky(const OpView& view) {
  MESHWORK_RETURN_IF_ERROR(CheckSquare(view.operands[0]));
  return std::vector<Type>{view.operands[0]};
}

absl::StatusOr<std::vector<Type>> InferTriangularSolve(const OpView& view) {
  const Type &a = view.operands[0], &b = view.operands[1];
  MESHWORK_RETURN_IF_ERROR(CheckSquare(a));
  MESHWORK_RETURN_IF_ERROR(CheckMatrices(b));
  if (a.dtype != b.dtype || a.rank() != b.rank() || a != WithMatrix(b, RowsOf(a), ColumnsOf(a)) ||
      RowsOf(b) != RowsOf(a))
    return InvalidArgument("a is {}, b {}; b must be as a but for its columns.", a.ToString(), b.ToString());
  return std::vector<Type>{b};
}

absl::StatusOr<std::vector<Type>> InferQr(const OpView& view) {
  const Type& x = view.operands[0];
  MESHWORK_RETURN_IF_ERROR(CheckMatrices(x));
  const int64_t m = RowsOf(x), n = ColumnsOf(x), k = std::min(m, n);
  return std::vector<Type>{WithMatrix(x, m, k), WithMatrix(x, k, n)};
}

// Letters of the batch, then `matrix`.
std::string BatchTerm(const Type& x, std::string_view matrix) {
  std::string term;
  for (int d = 0; d + 2 < x.rank(); ++d) term += static_cast<char>('a' + d);
  return term + std::string(matrix);
}

Rule CholeskyRule(const OpView& view) {
  const std::string term = BatchTerm(view.operands[0], "11");
  return MakeRule(term + "->" + term, view.operands, view.results);
}

// Each column of b is solved by itself.
Rule TriangularSolveRule(const OpView& view) {
  const std::string b = BatchTerm(view.operands[1], "1Z");
  return MakeRule(BatchTerm(view.operands[0], "11") + "," + b + "->" + b, view.operands, view.results,
                  Linear(Which::kOneButFirst));
}

Rule QrRule(const OpView& view) {
  const std::string term = BatchTerm(view.operands[0], "11");
  return MakeRule(term + "->" + term + "," + term, view.operands, view.results);
}

// ---- Gradients.

Value Transposed(const Value& x) {
  std::vector<int64_t> permutation(static_cast<size_t>(x.rank()));
  for (size_t d = 0; d < permutation.size(); ++d) permutation[d] = static_cast<int64_t>(d);
  std::swap(permutation[permutation.size() - 2], permutation.back());
  return Transpose(x, permutation);
}

// 1 on and below the diagonal (`offset` 0), or below it (-1): bool [m,n].
Value LowerMask(const Value& x, int64_t offset) {
  const Shape shape = {RowsOf(x.type()), ColumnsOf(x.type())};
  const Value row = Iota(*x.graph(), {I32, shape}, 0), column = Iota(*x.graph(), {I32, shape}, 1);
  return LessEqual(column, row + static_cast<double>(offset));
}

Value Lower(const Value& x, int64_t offset = 0) { return Select(LowerMask(x, offset), x, 0.0); }

// The diagonal halved.
Value HalfDiagonal(const Value& x) { return (Lower(x) + Lower(x, -1)) * 0.5; }

// With x = l lᵀ, l' = l Φ(l⁻¹ x' l⁻ᵀ), Φ the lower triangle with half the diagonal (Murray, arXiv 1602.07527,
// section 3). Only the lower triangle is read, so an element below the diagonal stands for two of x.
std::vector<Value> CholeskyGrad(const GradView& view) {
  const Value &l = view.results[0], &g = view.result_grads[0];
  const Value phi = HalfDiagonal(MatMul(l, Lower(g), /*transpose_a=*/true));
  const auto solve = [&](const Value& b) { return TriangularSolve(l, b, {.transpose_a = true}); };
  const Value s = solve(Transposed(solve(Transposed(phi))));  // l⁻ᵀ Φ l⁻¹
  const Value whole = s + Transposed(s);
  return {HalfDiagonal(whole)};
}

// x = op(a)⁻¹ b: the gradient of b is gb = op(a)⁻ᵀ g; that of op(a) is -gb xᵀ, of which only the triangle
// counts.
std::vector<Value> TriangularSolveGrad(const GradView& view) {
  const Value &a = view.operands[0], &x = view.results[0], &g = view.result_grads[0];
  TriangularOptions options{.lower = view.attrs.Get<bool>("lower"),
                            .transpose_a = view.attrs.Get<bool>("transpose_a"),
                            .unit_diagonal = view.attrs.Get<bool>("unit_diagonal")};
  const bool transposed = options.transpose_a;
  options.transpose_a = !transposed;
  const Value by_b = TriangularSolve(a, g, options);
  const Value full = Neg(transposed ? MatMul(x, by_b, false, /*transpose_b=*/true)
                                    : MatMul(by_b, x, false, /*transpose_b=*/true));
  const int64_t own = options.unit_diagonal ? -1 : 0;
  const Value by_a = options.lower ? Lower(full, own) : Transposed(Lower(Transposed(full), own));
  return {by_a, by_b};
}

// For m >= n (Walter and Lehmann, "Algorithmic Differentiation of Linear Algebra Functions", 2012, section
// 3.2): with M = R gRᵀ - gQᵀ Q, (gQ + Q (tril(M) with what lies below the diagonal mirrored above)) R⁻ᵀ. For
// m < n the first m columns of x are such a matrix, and the other columns of r are Qᵀ times those of x.
std::vector<Value> QrGrad(const GradView& view) {
  const Value &x = view.operands[0], &q = view.results[0], &r = view.results[1];
  const int64_t m = RowsOf(x.type()), n = ColumnsOf(x.type()), last = x.rank() - 1;
  const auto or_zeros = [](const Value& g, const Value& of) {
    return g.valid() ? g : Constant(*of.graph(), 0.0, Type(of.type()));
  };
  Value gq = or_zeros(view.result_grads[0], q), gr = or_zeros(view.result_grads[1], r), rest;
  Value square = r;
  if (m < n) {
    const Value right = SliceDim(gr, last, m, n);
    // r = qᵀ x on the right: x takes q gr, and q takes x grᵀ.
    gq = gq + MatMul(SliceDim(x, last, m, n), right, false, /*transpose_b=*/true);
    rest = MatMul(q, right);
    gr = SliceDim(gr, last, 0, m);
    square = SliceDim(r, last, 0, m);
  }
  const Value inner = MatMul(square, gr, false, /*transpose_b=*/true) - MatMul(gq, q, /*transpose_a=*/true);
  const Value mirrored = Lower(inner) + Transposed(Lower(inner, -1));
  const Value left = gq + MatMul(q, mirrored);
  // left R⁻ᵀ = (R⁻¹ leftᵀ)ᵀ
  const Value grad = Transposed(TriangularSolve(square, Transposed(left), {.lower = false}));
  return {m < n ? Concat({grad, rest}, last) : grad};
}

double CholeskyFlops(const OpView& view) {
  return static_cast<double>(view.operands[0].num_elements()) *
         static_cast<double>(RowsOf(view.operands[0])) / 3;
}
double TriangularSolveFlops(const OpView& view) {
  return static_cast<double>(view.operands[1].num_elements()) * static_cast<double>(RowsOf(view.operands[0]));
}
double QrFlops(const OpView& view) {
  const Type& x = view.operands[0];
  return 4.0 * static_cast<double>(x.num_elements()) * static_cast<double>(std::min(RowsOf(x), ColumnsOf(x)));
}

}  // namespace

// ---- Rows.

std::span<const OpRow> LinalgOps() {
  static const auto* rows = new std::vector<OpRow>{
      {.name = "cholesky",
       .doc = "the lower triangle l of x = l lᵀ, of each matrix; the lower triangle of x is read; NaN where "
              "x is "
              "not positive definite",
       .infer = InferCholesky,
       .rule = CholeskyRule,
       .grad = CholeskyGrad,
       .flops = CholeskyFlops,
       .samples = {"f32[4,2,2]", "f64[6,3,2,2]", "f64[2,2]"},
       .sample_low = 0.75,
       .sample_high = 2},
      {.name = "triangular_solve",
       .doc = "op(a)⁻¹ b of each matrix, a a triangle of which the other one is not read",
       .num_operands = 2,
       .attrs = {{"lower", AttrKind::kBool, true},
                 {"transpose_a", AttrKind::kBool, false},
                 {"unit_diagonal", AttrKind::kBool, false}},
       .infer = InferTriangularSolve,
       .rule = TriangularSolveRule,
       .grad = TriangularSolveGrad,
       .flops = TriangularSolveFlops,
       .samples = {"f32[4,2,2], f32[4,2,6]", "f64[3,3], f64[3,4]; lower=false",
                   "f64[2,3,3], f64[2,3,1]; transpose_a=true",
                   "f32[4,3,3], f32[4,3,2]; lower=false transpose_a=true unit_diagonal=true"},
       .sample_low = 0.75,
       .sample_high = 1.5},
      {.name = "qr",
       .doc = "q, whose columns are orthonormal, and the upper triangle r of x = q r, of each matrix",
       .num_results = 2,
       .infer = InferQr,
       .rule = QrRule,
       .grad = QrGrad,
       .flops = QrFlops,
       .samples = {"f32[4,3,2]", "f64[6,2,2,3]", "f64[3,3]", "f32[4,2,4]"}},
  };
  return *rows;
}

Value Cholesky(const Operand& x) { return AddOp("cholesky", {x}); }
Value TriangularSolve(const Operand& a, const Operand& b, const TriangularOptions& options) {
  return AddOp("triangular_solve", {a, b},
               {{"lower", options.lower},
                {"transpose_a", options.transpose_a},
                {"unit_diagonal", options.unit_diagonal}});
}
QrResult Qr(const Operand& x) {
  const ResolvedOperands at = Resolve({x});
  if (at.graph == nullptr) return {};
  const std::vector<Value> results = at.graph->Add("qr", at.values, {}, at.location);
  return {results[0], results[1]};
}

}  // namespace meshwork
