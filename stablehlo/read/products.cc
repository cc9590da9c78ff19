// Products of matrices, convolutions, solvers.
#include <algorithm>
#include <charconv>
#include <numeric>

#include "meshwork/base/status.h"
#include "meshwork/ir/builder.h"
#include "meshwork/ops/operators.h"
#include "meshwork/ops/ops.h"
#include "meshwork/stablehlo/read/reader.h"

namespace meshwork::mlir {
namespace {

// ---- dot_general.

struct Dot {
  Ints left_batch, right_batch, left_sum, right_sum;
};

absl::StatusOr<Dot> DotOf(const OpView& view) {
  const Attribute* const numbers = view.FindAttribute("dot_dimension_numbers");
  if (numbers == nullptr) return view.Fail("there is no attribute dot_dimension_numbers.");
  Dot dot;
  MESHWORK_ASSIGN_OR_RETURN(dot.left_batch, view.IntsOf(*numbers, "lhs_batching_dimensions"));
  MESHWORK_ASSIGN_OR_RETURN(dot.right_batch, view.IntsOf(*numbers, "rhs_batching_dimensions"));
  MESHWORK_ASSIGN_OR_RETURN(dot.left_sum, view.IntsOf(*numbers, "lhs_contracting_dimensions"));
  MESHWORK_ASSIGN_OR_RETURN(dot.right_sum, view.IntsOf(*numbers, "rhs_contracting_dimensions"));
  const auto are_fine = [&](const Ints& a, const Ints& b) {
    if (a.size() != b.size()) return false;
    for (const Ints& dims : {a, b})
      for (const int64_t d : dims)
        if (std::count(dims.begin(), dims.end(), d) != 1) return false;
    for (size_t i = 0; i < a.size(); ++i)
      if (a[i] < 0 || a[i] >= view.type(0).rank() || b[i] < 0 || b[i] >= view.type(1).rank() ||
          view.type(0).shape[static_cast<size_t>(a[i])] != view.type(1).shape[static_cast<size_t>(b[i])])
        return false;
    return true;
  };
  if (!are_fine(dot.left_batch, dot.right_batch) || !are_fine(dot.left_sum, dot.right_sum))
    return view.Fail("its dimension numbers name dims that are not there, or not of the same size.");
  return dot;
}

// "abc,bcd->abd", of the letters that an Einsum takes.
std::string EquationOf(const OpView& view, const Dot& dot) {
  std::string left(view.type(0).shape.size(), ' '), right(view.type(1).shape.size(), ' '), result;
  int used = 0;
  const auto letter = [&] {
    const int n = used++;
    return static_cast<char>(n < 26 ? 'a' + n : 'A' + n - 26);
  };
  const auto pair = [&](const Ints& a, const Ints& b, bool is_kept) {
    for (size_t i = 0; i < a.size(); ++i) {
      const char c = letter();
      left[static_cast<size_t>(a[i])] = right[static_cast<size_t>(b[i])] = c;
      if (is_kept) result += c;
    }
  };
  pair(dot.left_batch, dot.right_batch, true);
  pair(dot.left_sum, dot.right_sum, false);
  for (std::string* side : {&left, &right})
    for (char& c : *side)
      if (c == ' ') result += c = letter();
  return fmt::format("{},{}->{}", left, right, result);
}

// The same for whole numbers, which are multiplied element by element: [batch.., m.., 1.., k..] [batch.., 1.., n.., k..].
Value WholeProduct(const Dot& dot, const Value& left, const Value& right) {
  const auto split = [](const Value& x, const Ints& batch, const Ints& sum) {
    Ints order = batch, rest;
    for (int64_t d = 0; d < x.rank(); ++d)
      if (!Contains(batch, d) && !Contains(sum, d)) rest.push_back(d);
    order.insert(order.end(), rest.begin(), rest.end());
    order.insert(order.end(), sum.begin(), sum.end());
    return std::pair(Transpose(x, order), std::ssize(rest));
  };
  const auto [a, rows] = split(left, dot.left_batch, dot.left_sum);
  const auto [b, columns] = split(right, dot.right_batch, dot.right_sum);
  const int64_t batch = std::ssize(dot.left_batch);
  Ints of_a(static_cast<size_t>(columns)), of_b(static_cast<size_t>(rows)), sums(dot.left_sum.size());
  std::iota(of_a.begin(), of_a.end(), batch + rows);
  std::iota(of_b.begin(), of_b.end(), batch);
  std::iota(sums.begin(), sums.end(), batch + rows + columns);
  return ReduceSum(Mul(ExpandDims(a, DimList(of_a)), ExpandDims(b, DimList(of_b))), DimList(sums));
}

absl::StatusOr<Bounds> ReadDot(const OpView& view) {
  MESHWORK_RETURN_IF_ERROR(view.Expect(2));
  MESHWORK_ASSIGN_OR_RETURN(const Dot dot, DotOf(view));
  const DType stated = view.result_type().dtype;
  const DType dtype = stated == F16 ? F32 : IsStorage(stated) || stated == BOOL ? I32 : stated;
  const auto as_factor = [&](size_t i) {
    const bool is_widened = view.type(i).element == "ui32" && dtype != I32;
    return InDType(is_widened ? Widened(view.Arg(i)) : view.Arg(i), dtype);
  };
  const Value left = as_factor(0), right = as_factor(1);
  const Value product =
      IsFloat(dtype) ? Einsum(EquationOf(view, dot), {left, right}) : WholeProduct(dot, left, right);
  return Bounds{stated == BOOL ? NotEqual(product, 0.0) : FromArithmetic(view, product)};
}

// ---- convolution.

// Which dim is what: the batch (of filters the input channels), the channels (the output channels), and those of space.
struct ConvDims {
  Ints space;
  int64_t first = -1, last = -1;

  // In the order in which Conv has them.
  Ints Images() const { return Order(first, last, false); }
  Ints Filters() const { return Order(first, last, true); }

 private:
  Ints Order(int64_t a, int64_t b, bool space_first) const {
    Ints order;
    if (!space_first) order.push_back(a);
    order.insert(order.end(), space.begin(), space.end());
    if (space_first) order.push_back(a);
    order.push_back(b);
    return order;
  }
};

// "b, 0, 1, f" with the names b and f.
std::optional<ConvDims> ParseDims(std::string_view text, char first, char last) {
  ConvDims dims;
  std::map<int, int64_t> space;
  int64_t d = 0;
  while (true) {
    const size_t comma = std::min(text.find(','), text.size());
    std::string_view word = text.substr(0, comma);
    while (word.starts_with(' ')) word.remove_prefix(1);
    while (word.ends_with(' ')) word.remove_suffix(1);
    int number = 0;
    if (word == std::string_view(&first, 1)) dims.first = d;
    else if (word == std::string_view(&last, 1)) dims.last = d;
    else if (std::from_chars(word.data(), word.data() + word.size(), number).ptr ==
                 word.data() + word.size() &&
             !word.empty())
      space[number] = d;
    else return std::nullopt;
    ++d;
    if (comma == text.size()) break;
    text.remove_prefix(comma + 1);
  }
  for (const auto& [number, dim] : space) {
    if (number != static_cast<int>(dims.space.size())) return std::nullopt;
    dims.space.push_back(dim);
  }
  if (dims.first < 0 || dims.last < 0 || d != std::ssize(dims.space) + 2) return std::nullopt;
  return dims;
}

struct ConvNumbers {
  ConvDims x, w, y;
};
// "stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>".
absl::StatusOr<ConvNumbers> ConvNumbersOf(const OpView& view) {
  const Attribute* const attribute = view.FindAttribute("dimension_numbers");
  if (attribute == nullptr) return view.Fail("there is no attribute dimension_numbers.");
  std::string_view text = attribute->text;
  std::vector<std::string_view> lists;
  for (size_t open = text.find('['); open != std::string_view::npos; open = text.find('[', open)) {
    const size_t close = text.find(']', open);
    if (close == std::string_view::npos) break;
    lists.push_back(text.substr(open + 1, close - open - 1));
    open = close;
  }
  const auto fail = [&] { return view.FailAt(attribute->at, "its dimension numbers are not read."); };
  if (lists.size() != 3) return fail();
  const auto x = ParseDims(lists[0], 'b', 'f'), w = ParseDims(lists[1], 'i', 'o'),
             y = ParseDims(lists[2], 'b', 'f');
  if (!x.has_value() || !w.has_value() || !y.has_value()) return fail();
  const size_t rank = x->space.size() + 2;
  if (w->space.size() + 2 != rank || y->space.size() + 2 != rank || view.type(0).shape.size() != rank ||
      view.type(1).shape.size() != rank || view.result().shape.size() != rank)
    return fail();
  return ConvNumbers{*x, *w, *y};
}

// The batch cut into groups, which become groups of channels: [g b, s.., c] -> [b, s.., g c].
Value BatchAsGroups(const Value& x, int64_t groups) {
  const int64_t rank = x.rank();
  Shape split = {groups, x.shape()[0] / groups};
  split.insert(split.end(), x.shape().begin() + 1, x.shape().end());
  Ints order;
  for (int64_t d = 1; d < rank; ++d) order.push_back(d);
  order.push_back(0);
  order.push_back(rank);
  Shape joined(x.shape().begin(), x.shape().end());
  joined[0] /= groups;
  joined.back() *= groups;
  return Reshape(Transpose(Reshape(x, split), order), joined);
}

absl::StatusOr<Bounds> ReadConvolution(const OpView& view) {
  MESHWORK_RETURN_IF_ERROR(view.Expect(2));
  MESHWORK_ASSIGN_OR_RETURN(const ConvNumbers numbers, ConvNumbersOf(view));
  const size_t space = numbers.x.space.size();
  const Ints ones(space, 1);
  MESHWORK_ASSIGN_OR_RETURN(const Ints strides, view.Ints("window_strides", ones));
  MESHWORK_ASSIGN_OR_RETURN(const Ints x_dilation, view.Ints("lhs_dilation", ones));
  MESHWORK_ASSIGN_OR_RETURN(const Ints dilation, view.Ints("rhs_dilation", ones));
  MESHWORK_ASSIGN_OR_RETURN(const Ints padding, view.Ints("padding", Ints(2 * space, 0)));
  MESHWORK_ASSIGN_OR_RETURN(const Ints reversal, view.Ints("window_reversal", Ints(space, 0)));
  MESHWORK_ASSIGN_OR_RETURN(const int64_t groups, view.Int("feature_group_count", 1));
  MESHWORK_ASSIGN_OR_RETURN(const int64_t batch_groups, view.Int("batch_group_count", 1));
  if (strides.size() != space || x_dilation.size() != space || dilation.size() != space ||
      reversal.size() != space || padding.size() != 2 * space)
    return view.Fail("its windows are to have a number for each dim of space.");
  Value x = Transpose(view.Arg(0), numbers.x.Images()), w = Transpose(view.Arg(1), numbers.w.Filters());
  if (!x.valid() || !w.valid()) return Bounds{x};
  const DType stated = view.result_type().dtype, dtype = stated == F16 ? F32 : stated;
  x = InDType(x, dtype), w = InDType(w, dtype);
  if (groups < 1) return view.Fail("feature_group_count is to be at least 1.");
  if (batch_groups < 1 || (batch_groups > 1 && (groups != 1 || x.shape()[0] % batch_groups != 0)))
    return view.Fail("batch_group_count does not divide the batch, or stands beside groups of features.");
  Ints low(space), high(space), interior(space + 2, 0), reversed;
  bool is_dilated = false;
  for (size_t s = 0; s < space; ++s) {
    low[s] = padding[2 * s], high[s] = padding[2 * s + 1];
    if (x_dilation[s] < 1) return view.Fail("lhs_dilation is to be at least 1.");
    interior[s + 1] = x_dilation[s] - 1;
    is_dilated |= x_dilation[s] > 1;
    if (reversal[s] != 0) reversed.push_back(static_cast<int64_t>(s));
  }
  if (is_dilated) x = Pad(x, Ints(space + 2, 0), Ints(space + 2, 0), 0, interior);
  if (!reversed.empty()) w = Reverse(w, DimList(reversed));
  if (batch_groups > 1) x = BatchAsGroups(x, batch_groups);
  const Value y = Conv(
      x, w,
      {.window = {.strides = strides, .padding = WindowPadding::Explicit(low, high), .dilation = dilation},
       .groups = std::max(groups, batch_groups)});
  return Bounds{FromArithmetic(view, Transpose(y, InverseOf(numbers.y.Images())))};
}

// ---- Solvers.

Value Swapped(const Value& x) {
  if (!x.valid() || x.rank() < 2) return x;
  Ints order(static_cast<size_t>(x.rank()));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return Transpose(x, order);
}

absl::StatusOr<Bounds> ReadCholesky(const OpView& view) {
  MESHWORK_RETURN_IF_ERROR(view.Expect(1));
  MESHWORK_ASSIGN_OR_RETURN(const bool lower, view.Bool("lower", false));
  return Bounds{lower ? Cholesky(view.Arg(0)) : Swapped(Cholesky(Swapped(view.Arg(0))))};
}

absl::StatusOr<Bounds> ReadTriangularSolve(const OpView& view) {
  MESHWORK_RETURN_IF_ERROR(view.Expect(2));
  MESHWORK_ASSIGN_OR_RETURN(const bool from_left, view.Bool("left_side", true));
  MESHWORK_ASSIGN_OR_RETURN(const bool lower, view.Bool("lower", true));
  MESHWORK_ASSIGN_OR_RETURN(const bool unit, view.Bool("unit_diagonal", false));
  MESHWORK_ASSIGN_OR_RETURN(const std::string transpose, view.Word("transpose_a", "NO_TRANSPOSE"));
  const bool transposed = transpose != "NO_TRANSPOSE";
  const Value a = view.Arg(0), b = view.Arg(1);
  // x op(a) = b is op(a)ᵀ xᵀ = bᵀ.
  if (!from_left)
    return Bounds{Swapped(
        TriangularSolve(a, Swapped(b), {.lower = lower, .transpose_a = !transposed, .unit_diagonal = unit}))};
  return Bounds{TriangularSolve(a, b, {.lower = lower, .transpose_a = transposed, .unit_diagonal = unit})};
}

constexpr NamedReadOp kProductOps[] = {
    {"stablehlo.dot_general", ReadDot},
    {"stablehlo.convolution", ReadConvolution},
    {"stablehlo.cholesky", ReadCholesky},
    {"stablehlo.triangular_solve", ReadTriangularSolve},
};

}  // namespace

std::span<const NamedReadOp> ProductOps() { return kProductOps; }

}  // namespace meshwork::mlir
