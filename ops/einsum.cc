// Einsum in terms of rows: sums, transposes and one matrix product per pair of operands. What may be sharded,
// and what it costs, follows from these.
#include <algorithm>
#include <array>
#include <bitset>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "fmt/ranges.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/builder.h"
#include "meshwork/ops/ops.h"

namespace meshwork {
namespace {

// A dim of an equation: 0 to 25 are a to z, 26 to 51 A to Z, and 52 on the dims of "...", from the right.
using Label = int;
using Labels = std::vector<Label>;
constexpr Label kEllipsis = 52;
constexpr size_t kLabels = kEllipsis + kMaxRank;
using LabelSet = std::bitset<kLabels>;

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
Label LabelOf(char c) { return c >= 'a' ? c - 'a' : 26 + (c - 'A'); }
std::string NameOf(Label label) {
  if (label >= kEllipsis) return "...";
  return std::string(1, static_cast<char>(label < 26 ? 'a' + label : 'A' + (label - 26)));
}

LabelSet SetOf(const Labels& labels) {
  LabelSet set;
  for (Label label : labels) set.set(label);
  return set;
}

// ---- The equation.

// The subscripts of one operand: the letters before and behind "...", if it is there.
struct Subscripts {
  std::string text;
  Labels before, behind;
  bool has_ellipsis = false;
};

absl::StatusOr<Subscripts> ParseSubscripts(std::string_view text) {
  Subscripts subscripts{.text = std::string(text)};
  for (size_t i = 0; i < text.size(); ++i) {
    if (IsLetter(text[i])) {
      (subscripts.has_ellipsis ? subscripts.behind : subscripts.before).push_back(LabelOf(text[i]));
      continue;
    }
    if (text.substr(i, 3) != "...")
      return InvalidArgument("'{}' in \"{}\" is no letter; dims are a to z, A to Z and \"...\".", text[i],
                             text);
    if (subscripts.has_ellipsis) return InvalidArgument("\"{}\" has \"...\" twice.", text);
    subscripts.has_ellipsis = true;
    i += 2;
  }
  return subscripts;
}

struct Equation {
  std::vector<Subscripts> operands;
  std::optional<Subscripts> result;  // if there is an arrow
};

absl::StatusOr<Equation> ParseEquation(std::string_view text, size_t operands) {
  std::string dense;
  for (char c : text)
    if (c != ' ') dense += c;
  Equation equation;
  std::string_view rest = dense;
  if (const size_t arrow = rest.find("->"); arrow != std::string_view::npos) {
    MESHWORK_ASSIGN_OR_RETURN(equation.result, ParseSubscripts(rest.substr(arrow + 2)));
    rest = rest.substr(0, arrow);
  }
  for (size_t comma = 0; comma != std::string_view::npos;) {
    comma = rest.find(',');
    MESHWORK_ASSIGN_OR_RETURN(Subscripts subscripts, ParseSubscripts(rest.substr(0, comma)));
    equation.operands.push_back(std::move(subscripts));
    if (comma != std::string_view::npos) rest.remove_prefix(comma + 1);
  }
  if (equation.operands.size() != operands)
    return InvalidArgument(
        "it names the dims of {} operands, and there are {}; write one term, such as ij, for "
        "each.",
        equation.operands.size(), operands);
  return equation;
}

// An operand, or a product of some, and what its dims are called.
struct Factor {
  Value value;
  Labels labels;
};

// Appends the labels that "..." stands for, if it is `dims` dims.
void AppendEllipsis(int dims, Labels& labels) {
  for (int i = dims; i-- > 0;) labels.push_back(kEllipsis + i);
}

class Einsummer {
 public:
  // Reads the equation. Errors: it is malformed or does not fit the operands.
  static absl::StatusOr<Einsummer> Create(std::string_view text, const std::vector<Value>& operands) {
    Einsummer made;
    MESHWORK_ASSIGN_OR_RETURN(const Equation equation, ParseEquation(text, operands.size()));
    for (size_t i = 0; i < operands.size(); ++i)
      MESHWORK_RETURN_IF_ERROR(made.AddOperand(equation.operands[i], operands[i], i));
    if (equation.result.has_value()) MESHWORK_RETURN_IF_ERROR(made.SetResult(*equation.result));
    else made.ImplyResult();
    return made;
  }

  Value Build() {
    for (Factor& factor : factors_) factor = Prepared(std::move(factor));
    for (size_t i = 0; i < factors_.size(); ++i)
      factors_[i] = SumBut(std::move(factors_[i]), NeededBeside({i}));
    while (factors_.size() > 1) {
      const auto [i, j] = NextPair();
      Factor product = Multiply(factors_[i], factors_[j], NeededBeside({i, j}));
      factors_.erase(factors_.begin() + static_cast<int64_t>(j));
      factors_[i] = std::move(product);
    }
    return Arranged(factors_[0], result_).value;
  }

 private:
  // ---- Reading.

  absl::Status AddOperand(const Subscripts& subscripts, const Value& value, size_t i) {
    const int letters = static_cast<int>(subscripts.before.size() + subscripts.behind.size());
    const int others = value.rank() - letters;
    if (others < 0 || (others > 0 && !subscripts.has_ellipsis))
      return InvalidArgument("\"{}\" names {} dims of operand {}, which is {}.", subscripts.text, letters, i,
                             value.type().ToString());
    Factor factor{value, subscripts.before};
    if (subscripts.has_ellipsis) AppendEllipsis(others, factor.labels);
    ellipsis_dims_ = std::max(ellipsis_dims_, others);
    has_ellipsis_ = has_ellipsis_ || subscripts.has_ellipsis;
    factor.labels.insert(factor.labels.end(), subscripts.behind.begin(), subscripts.behind.end());
    for (size_t d = 0; d < factor.labels.size(); ++d)
      MESHWORK_RETURN_IF_ERROR(AddSize(factor.labels[d], value.shape()[d], i, value));
    factors_.push_back(std::move(factor));
    return absl::OkStatus();
  }

  // Dims of "..." broadcast.
  absl::Status AddSize(Label label, int64_t size, size_t operand, const Value& value) {
    int64_t& known = sizes_[label];
    const bool is_free = label >= kEllipsis;
    if (!seen_.test(label) || (is_free && known == 1)) known = size;
    else if (size != known && !(is_free && size == 1))
      return InvalidArgument(
          "{} is {} in operand {}, which is {}, and {} in one before it; a letter has one size, give one of the dims "
          "another letter.",
          NameOf(label), size, operand, value.type().ToString(), known);
    if (seen_.test(label)) repeated_.set(label);
    seen_.set(label);
    return absl::OkStatus();
  }

  absl::Status SetResult(const Subscripts& result) {
    if (result.has_ellipsis && !has_ellipsis_)
      return InvalidArgument("the result has \"...\", and no operand has.");
    if (has_ellipsis_ && !result.has_ellipsis)
      return InvalidArgument("an operand has \"...\", and the result \"{}\" has not.", result.text);
    result_ = result.before;
    if (result.has_ellipsis) AppendEllipsis(ellipsis_dims_, result_);
    result_.insert(result_.end(), result.behind.begin(), result.behind.end());
    LabelSet there;
    for (Label label : result_) {
      if (!seen_.test(label))
        return InvalidArgument("{} of the result is in no operand; name dims that one has.", NameOf(label));
      if (there.test(label)) return InvalidArgument("{} is in the result twice.", NameOf(label));
      there.set(label);
    }
    return absl::OkStatus();
  }

  // As in NumPy: "...", then the letters that occur once, capitals first.
  void ImplyResult() {
    AppendEllipsis(ellipsis_dims_, result_);
    for (Label first : {26, 0})
      for (Label label = first; label < first + 26; ++label)
        if (seen_.test(label) && !repeated_.test(label)) result_.push_back(label);
  }

  // ---- Building.

  // The labels of the result and of all factors but these.
  LabelSet NeededBeside(std::initializer_list<size_t> some) const {
    LabelSet needed = SetOf(result_);
    for (size_t i = 0; i < factors_.size(); ++i)
      if (std::find(some.begin(), some.end(), i) == some.end()) needed |= SetOf(factors_[i].labels);
    return needed;
  }

  double Product(const LabelSet& labels) const {
    double product = 1;
    for (size_t label = 0; label < kLabels; ++label)
      if (labels.test(label)) product *= static_cast<double>(sizes_[label]);
    return product;
  }

  // The factor with every label once, and without dims that are to be repeated.
  Factor Prepared(Factor factor) const {
    std::vector<int64_t> dropped;
    Labels kept;
    for (size_t d = 0; d < factor.labels.size(); ++d) {
      if (factor.labels[d] >= kEllipsis && factor.value.shape()[d] == 1 && sizes_[factor.labels[d]] != 1)
        dropped.push_back(static_cast<int64_t>(d));
      else kept.push_back(factor.labels[d]);
    }
    if (!dropped.empty()) factor = {Squeeze(factor.value, dropped), kept};
    for (size_t d = 0; d < factor.labels.size(); ++d) {
      for (size_t e = factor.labels.size(); --e > d;)
        if (factor.labels[e] == factor.labels[d]) factor = Diagonal(std::move(factor), d, e);
    }
    return factor;
  }

  // x[i,i] along dims d < e as x[i]: the others are left out of the sum over e.
  static Factor Diagonal(Factor factor, size_t d, size_t e) {
    Graph& graph = *factor.value.graph();
    auto index = [&](size_t dim) {
      Shape shape(factor.labels.size(), 1);
      shape[dim] = factor.value.shape()[dim];
      return Iota(graph, {I64, shape}, static_cast<int64_t>(dim));
    };
    const Value on_it = Equal(index(d), index(e));
    factor.value = ReduceSum(Select(on_it, factor.value, 0.0), {static_cast<int64_t>(e)});
    factor.labels.erase(factor.labels.begin() + static_cast<int64_t>(e));
    return factor;
  }

  static Factor SumBut(Factor factor, const LabelSet& needed) {
    std::vector<int64_t> dims;
    Labels kept;
    for (size_t d = 0; d < factor.labels.size(); ++d) {
      if (needed.test(factor.labels[d])) kept.push_back(factor.labels[d]);
      else dims.push_back(static_cast<int64_t>(d));
    }
    if (dims.empty()) return factor;
    return {ReduceSum(factor.value, dims), kept};
  }

  // ---- The order of the products.

  // The first pair of the cheapest order: of all orders for few factors, of a greedy one for many.
  std::pair<size_t, size_t> NextPair() const {
    constexpr size_t kMostTried = 6;
    std::vector<LabelSet> sets;
    for (const Factor& factor : factors_) sets.push_back(SetOf(factor.labels));
    std::pair<size_t, size_t> first{0, 1};
    if (sets.size() <= kMostTried) Cheapest(sets, std::numeric_limits<double>::infinity(), &first);
    else first = CheapestPair(sets);
    return first;
  }

  // The labels of the product of factors i and j that the result or another factor needs.
  LabelSet LeftOf(const std::vector<LabelSet>& sets, size_t i, size_t j) const {
    LabelSet needed = SetOf(result_);
    for (size_t k = 0; k < sets.size(); ++k)
      if (k != i && k != j) needed |= sets[k];
    return (sets[i] | sets[j]) & needed;
  }

  // Multiplications of the cheapest order, or `below` if none takes fewer; its first pair.
  double Cheapest(const std::vector<LabelSet>& sets, double below, std::pair<size_t, size_t>* first) const {
    if (sets.size() == 1) return 0;
    double best = below;
    for (size_t i = 0; i < sets.size(); ++i) {
      for (size_t j = i + 1; j < sets.size(); ++j) {
        const double here = Product(sets[i] | sets[j]);
        if (here >= best) continue;
        std::vector<LabelSet> rest = sets;
        rest[i] = LeftOf(sets, i, j);
        rest.erase(rest.begin() + static_cast<int64_t>(j));
        const double all = here + Cheapest(rest, best - here, nullptr);
        if (all >= best) continue;
        best = all;
        if (first != nullptr) *first = {i, j};
      }
    }
    return best;
  }

  std::pair<size_t, size_t> CheapestPair(const std::vector<LabelSet>& sets) const {
    std::pair<size_t, size_t> cheapest{0, 1};
    for (size_t i = 0; i < sets.size(); ++i)
      for (size_t j = i + 1; j < sets.size(); ++j)
        if (Product(sets[i] | sets[j]) < Product(sets[cheapest.first] | sets[cheapest.second]))
          cheapest = {i, j};
    return cheapest;
  }

  // ---- One product.

  // The labels of two factors: of both and needed, of both and summed, of one.
  struct Roles {
    Labels batch, summed, of_a, of_b;
  };

  static Roles RolesOf(const Factor& a, const Factor& b, const LabelSet& needed) {
    const LabelSet in_a = SetOf(a.labels), in_b = SetOf(b.labels);
    Roles roles;
    for (Label label : a.labels)
      (!in_b.test(label) ? roles.of_a : needed.test(label) ? roles.batch : roles.summed).push_back(label);
    for (Label label : b.labels)
      if (!in_a.test(label)) roles.of_b.push_back(label);
    return roles;
  }

  Factor Multiply(const Factor& a, const Factor& b, const LabelSet& needed) const {
    const Roles roles = RolesOf(a, b, needed);
    if (roles.summed.empty() || (roles.of_a.empty() && roles.of_b.empty())) return ByElement(a, b, roles);
    // Dims of b alone are joined to one, those of a need not be.
    if (roles.of_b.size() > 1 && roles.of_a.size() <= 1) return ByMatrix(b, a, RolesOf(b, a, needed));
    return ByMatrix(a, b, roles);
  }

  static Factor ByElement(const Factor& a, const Factor& b, const Roles& roles) {
    Labels all = roles.batch;
    for (const Labels* more : {&roles.of_a, &roles.of_b, &roles.summed})
      all.insert(all.end(), more->begin(), more->end());
    auto spread = [&](const Factor& factor) {
      Labels own;
      std::vector<int64_t> missing;
      for (size_t d = 0; d < all.size(); ++d) {
        if (std::find(factor.labels.begin(), factor.labels.end(), all[d]) != factor.labels.end())
          own.push_back(all[d]);
        else missing.push_back(static_cast<int64_t>(d));
      }
      const Value value = Arranged(factor, own).value;
      return missing.empty() ? value : ExpandDims(value, missing);
    };
    LabelSet kept = SetOf(all);
    for (Label label : roles.summed) kept.reset(label);
    return SumBut({Mul(spread(a), spread(b)), all}, kept);
  }

  // a as [batch, of a but the last, m, k], b as [batch, 1, …, k, n], where m is the last dim of a alone, k
  // are those that are summed, and n those of b alone.
  Factor ByMatrix(const Factor& a, const Factor& b, const Roles& roles) const {
    Labels lead = roles.batch, m;
    for (Label label : roles.of_a) (label == roles.of_a.back() ? m : lead).push_back(label);
    const size_t own_lead = lead.size() - roles.batch.size();
    const Matrices left = MatricesOf(a, lead, m, roles.summed);
    const Matrices right = MatricesOf(b, roles.batch, roles.summed, roles.of_b, own_lead);
    Value product = MatMul(left.value, right.value, left.is_transposed, right.is_transposed);
    Factor result{product, lead};
    result.labels.insert(result.labels.end(), m.begin(), m.end());
    result.labels.insert(result.labels.end(), roles.of_b.begin(), roles.of_b.end());
    result.value = Shaped(product, result.labels);
    return result;
  }

  struct Matrices {
    Value value;  // [lead, 1, …, rows, columns], or columns before rows
    bool is_transposed;
  };

  // Labels of rows and columns are joined to a dim each; `ones` dims of size 1 follow the leading ones.
  Matrices MatricesOf(const Factor& factor, const Labels& lead, const Labels& rows, const Labels& columns,
                      size_t ones = 0) const {
    auto joined = [&](const Labels& first, const Labels& second) {
      Labels all = lead;
      all.insert(all.end(), first.begin(), first.end());
      all.insert(all.end(), second.begin(), second.end());
      return all;
    };
    const bool is_transposed =
        factor.labels != joined(rows, columns) && factor.labels == joined(columns, rows);
    const Labels &first = is_transposed ? columns : rows, &second = is_transposed ? rows : columns;
    Value value = Arranged(factor, joined(first, second)).value;
    if (ones == 0 && first.size() == 1 && second.size() == 1) return {value, is_transposed};
    Shape shape = SizesOf(lead);
    shape.insert(shape.end(), ones, 1);
    shape.push_back(NumElements(SizesOf(first)));
    shape.push_back(NumElements(SizesOf(second)));
    if (first.size() > 1 || second.size() > 1) return {Reshape(value, shape), is_transposed};
    std::vector<int64_t> added;  // dims of size 1
    auto at = static_cast<int64_t>(lead.size());
    for (size_t i = 0; i < ones; ++i) added.push_back(at++);
    if (first.empty()) added.push_back(at);
    if (second.empty()) added.push_back(at + 1);
    return {ExpandDims(value, added), is_transposed};
  }

  Shape SizesOf(const Labels& labels) const {
    Shape shape;
    for (Label label : labels) shape.push_back(sizes_[label]);
    return shape;
  }

  // A product [.., m, n] whose dims have these labels: without rows or columns that stand for none, and n cut
  // into the dims that were joined.
  Value Shaped(const Value& product, const Labels& labels) const {
    const Shape shape = SizesOf(labels);
    if (!product.valid() || product.shape() == shape) return product;
    return Reshape(product, shape);
  }

  // The same with its dims in this order.
  static Factor Arranged(const Factor& factor, const Labels& order) {
    if (factor.labels == order) return factor;
    std::vector<int64_t> permutation;
    for (Label label : order)
      permutation.push_back(std::find(factor.labels.begin(), factor.labels.end(), label) -
                            factor.labels.begin());
    return {Transpose(factor.value, permutation), order};
  }

  std::vector<Factor> factors_;
  Labels result_;
  std::array<int64_t, kLabels> sizes_ = {};
  LabelSet seen_, repeated_;
  int ellipsis_dims_ = 0;
  bool has_ellipsis_ = false;
};

absl::Status CheckTypes(const std::vector<Value>& operands) {
  std::string all;
  bool fits = true;
  for (const Value& operand : operands) {
    fits = fits && IsFloat(operand.dtype()) && operand.dtype() == operands[0].dtype();
    all += (all.empty() ? "" : ", ") + operand.type().ToString();
  }
  if (fits) return absl::OkStatus();
  return InvalidArgument("it takes f32, f64 or bf16, all alike, got {}.", all);
}

}  // namespace

Value Einsum(std::string_view equation, const std::vector<Value>& operands, CallSite loc) {
  if (operands.empty()) return {};
  for (const Value& operand : operands)
    if (!operand.valid()) return {};
  Graph& graph = *operands[0].graph();
  const LocationScope scope(graph, loc);
  absl::StatusOr<Einsummer> einsum = Einsummer::Create(equation, operands);
  absl::Status status = einsum.ok() ? CheckTypes(operands) : einsum.status();
  if (status.ok()) return einsum->Build();
  graph.RecordError(
      fmt::format("{}: \"{}\": {}", graph.Describe("einsum", loc), equation, MessageOf(status)));
  return {};
}

}  // namespace meshwork
