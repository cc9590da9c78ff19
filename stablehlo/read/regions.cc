// What the functions of reductions, sorts and scatters compute. JAX writes an order as comparisons and choices, in several ways; a
// function of comparisons depends only on how its arguments are ordered, so trying all orders proves what it is.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <map>

#include "meshwork/stablehlo/read/reader.h"

namespace meshwork::mlir {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// In the total order of reals -0 is below 0, and NaN above all.
int CompareTotally(double a, double b) {
  const auto rank = [](double x) { return std::isnan(x) ? 1 : 0; };
  if (rank(a) != rank(b) || std::isnan(a)) return rank(a) - rank(b);
  if (a != b) return a < b ? -1 : 1;
  return static_cast<int>(std::signbit(b)) - static_cast<int>(std::signbit(a));
}

std::optional<bool> ComparesAs(const Op& op, double a, double b) {
  const std::string_view direction = WordOf(op.attributes.Find("comparison_direction"));
  const bool is_total = WordOf(op.attributes.Find("compare_type")) == "TOTALORDER";
  if (!is_total && (std::isnan(a) || std::isnan(b))) return direction == "NE";
  const int sign = is_total ? CompareTotally(a, b) : a < b ? -1 : a > b ? 1 : 0;
  if (direction == "EQ") return sign == 0;
  if (direction == "NE") return sign != 0;
  if (direction == "LT") return sign < 0;
  if (direction == "LE") return sign <= 0;
  if (direction == "GT") return sign > 0;
  if (direction == "GE") return sign >= 0;
  return std::nullopt;
}

// 0 and NaN: whether a number is one of these is an order that trying covers.
std::optional<double> ConstantOf(const Op& op) {
  const Attribute* const value = op.attributes.Find("value");
  if (value == nullptr || value->kind != Attribute::Kind::kDense) return std::nullopt;
  const auto elements = ReadDense(*value, value->text, "");
  if (!elements.ok() || !elements->is_splat) return std::nullopt;
  if (elements->bits[0] == 0) return 0;
  const double number = NumberOf(Bound(value->type, Known::Splat(elements->bits[0])));
  return std::isnan(number) ? std::optional(number) : std::nullopt;
}

// What a region of comparisons and choices returns for these arguments; nothing: it does other things, too.
std::optional<std::vector<double>> Evaluate(const Region& region, const std::vector<double>& arguments) {
  std::map<std::string, double> values;
  if (region.arguments.size() != arguments.size()) return std::nullopt;
  for (size_t a = 0; a < arguments.size(); ++a) values[region.arguments[a].name] = arguments[a];
  for (const Op& op : region.ops) {
    std::vector<double> operands;
    for (const ValueRef& ref : op.operands) {
      const auto found = values.find(ref.name);
      if (found == values.end() || ref.result != 0) return std::nullopt;
      operands.push_back(found->second);
    }
    if (op.name == "stablehlo.return") return operands;
    std::optional<double> result;
    if (op.name == "stablehlo.constant") {
      result = ConstantOf(op);
    } else if (op.name == "stablehlo.compare" && operands.size() == 2) {
      if (const auto compared = ComparesAs(op, operands[0], operands[1]); compared.has_value())
        result = *compared ? 1 : 0;
    } else if (op.name == "stablehlo.select" && operands.size() == 3) {
      result = operands[0] != 0 ? operands[1] : operands[2];
    } else if (op.operand_types.empty() || op.operand_types[0].element != "i1") {
      return std::nullopt;
    } else if (op.name == "stablehlo.and" && operands.size() == 2) {
      result = operands[0] != 0 && operands[1] != 0 ? 1 : 0;
    } else if (op.name == "stablehlo.or" && operands.size() == 2) {
      result = operands[0] != 0 || operands[1] != 0 ? 1 : 0;
    } else if (op.name == "stablehlo.not" && operands.size() == 1) {
      result = operands[0] != 0 ? 0 : 1;
    }
    if (!result.has_value()) return std::nullopt;
    values[op.result] = *result;
  }
  return std::nullopt;
}

// Numbers in all orders to each other, to 0 and to NaN.
std::vector<double> SamplesOf(std::string_view element) {
  if (element == "i1") return {0, 1};
  if (element.starts_with('u')) return {0, 1, 2};
  if (element.starts_with('i')) return {-2, -1, 0, 1, 2};
  return {-kInfinity, -2, -1, -0.0, 0, 1, 2, kInfinity, kNan};
}

// -1, 0, 1: how a and b are ordered; NaN is above all, and equal to itself.
int OrderOf(double a, double b, Order order) {
  const bool a_is_nan = std::isnan(a), b_is_nan = std::isnan(b);
  const int up = a_is_nan || b_is_nan ? static_cast<int>(a_is_nan) - static_cast<int>(b_is_nan)
                 : a < b              ? -1
                 : a > b              ? 1
                                      : 0;
  return order == Order::kAscending ? up : -up;
}

// Tries a comparator of so many operands.
class ComparatorTrial {
 public:
  ComparatorTrial(const Region& region, const std::vector<TensorType>& types)
      : region_(region), types_(types), arguments_(2 * types.size(), 0.0) {}

  void Set(size_t operand, double a, double b) {
    arguments_[2 * operand] = a;
    arguments_[2 * operand + 1] = b;
  }
  // Whether a comes first; nothing: the comparator does other things than compare.
  std::optional<bool> Try() const {
    const auto result = Evaluate(region_, arguments_);
    if (!result.has_value() || result->size() != 1) return std::nullopt;
    return (*result)[0] != 0;
  }

  // The operands that decide where all others are equal.
  std::vector<SortKey> Candidates() {
    std::vector<SortKey> keys;
    for (size_t i = 0; i < types_.size(); ++i) {
      Set(i, 0, 1);
      const bool up = Try().value_or(false);
      Set(i, 1, 0);
      const bool down = Try().value_or(false);
      Set(i, 0, 0);
      if (up != down) keys.push_back({i, up ? Order::kAscending : Order::kDescending});
    }
    return keys;
  }
  // Whether x decides where both differ.
  bool GoesBefore(const SortKey& x, const SortKey& y) {
    const auto set = [&](const SortKey& key, bool a_first) {
      const bool up = a_first == (key.order == Order::kAscending);
      Set(key.operand, up ? 0 : 1, up ? 1 : 0);
    };
    set(x, true);
    set(y, false);
    const bool before = Try().value_or(false);
    Set(x.operand, 0, 0);
    Set(y.operand, 0, 0);
    return before;
  }
  void LeaveOutNan() { has_nan_ = false; }
  // Whether the keys, in their order, are what the comparator does, for numbers in all orders to each other, to 0 and to NaN, whatever
  // the other operands are.
  bool IsOrder(const std::vector<SortKey>& keys) {
    for (const bool others_ascend : {false, true}) {
      for (size_t i = 0; i < types_.size(); ++i) Set(i, others_ascend ? 0 : 1, others_ascend ? 1 : 0);
      if (!IsOrderFrom(keys, 0, 0)) return false;
    }
    return true;
  }

 private:
  // `decided`: by the keys before this one.
  bool IsOrderFrom(const std::vector<SortKey>& keys, size_t at, int decided) {
    if (at == keys.size()) {
      const std::optional<bool> first = Try();
      return first.has_value() && *first == (decided < 0);
    }
    const std::vector<double> all = SamplesOf(types_[keys[at].operand].element);
    // One key is tried in full, several without what is equal to others in order.
    const std::vector<double> few = all.size() > 5   ? std::vector<double>{-2, -1, -0.0, 0, 1, kNan}
                                    : all.size() > 3 ? std::vector<double>{-2, -1, 0, 1}
                                                     : all;
    for (const double a : keys.size() == 1 ? all : few)
      for (const double b : keys.size() == 1 ? all : few) {
        Set(keys[at].operand, a, b);
        const int order = decided != 0 ? decided : OrderOf(a, b, keys[at].order);
        if (!has_nan_ && (std::isnan(a) || std::isnan(b))) continue;
        if (!IsOrderFrom(keys, at + 1, order)) return false;
      }
    return true;
  }

  const Region& region_;
  const std::vector<TensorType>& types_;
  std::vector<double> arguments_;
  bool has_nan_ = true;
};

}  // namespace

std::optional<Combiner> CombinerOf(const Region& region) {
  static constexpr std::pair<std::string_view, Combiner> kCombiners[] = {
      {"stablehlo.add", Combiner::kAdd},         {"stablehlo.multiply", Combiner::kMultiply},
      {"stablehlo.maximum", Combiner::kMaximum}, {"stablehlo.minimum", Combiner::kMinimum},
      {"stablehlo.and", Combiner::kAnd},         {"stablehlo.or", Combiner::kOr}};
  if (region.arguments.size() != 2 || region.ops.empty() || region.ops.back().operands.size() != 1)
    return std::nullopt;
  const std::string& returned = region.ops.back().operands[0].name;
  if (region.ops.size() == 1)
    return returned == region.arguments[1].name ? std::optional(Combiner::kSecond) : std::nullopt;
  const Op& op = region.ops[0];
  if (region.ops.size() != 2 || op.operands.size() != 2 || op.result != returned) return std::nullopt;
  const std::string &a = op.operands[0].name, &b = op.operands[1].name;
  const std::string &first = region.arguments[0].name, &second = region.arguments[1].name;
  if ((a != first || b != second) && (a != second || b != first)) return std::nullopt;
  for (const auto& [name, combiner] : kCombiners) {
    if (name != op.name) continue;
    if (region.arguments[0].type.element != "i1") return combiner;
    // Of bools a sum and a maximum are `or`.
    const bool is_or =
        combiner == Combiner::kAdd || combiner == Combiner::kMaximum || combiner == Combiner::kOr;
    return is_or ? Combiner::kOr : Combiner::kAnd;
  }
  return std::nullopt;
}

bool IsIdentity(const Bound& bound, Combiner combiner) {
  if (!bound.known.is_splat()) return false;
  const int64_t bits = bound.known.bits;
  const std::string& element = bound.type.element;
  const int width = element.ends_with("32") ? 32 : element.ends_with("64") ? 64 : 16;
  const bool is_real = IsRealElement(bound.type);
  const auto infinity = [&](bool negative) {
    if (element == "f64")
      return std::bit_cast<int64_t>(negative ? -std::numeric_limits<double>::infinity()
                                             : std::numeric_limits<double>::infinity());
    if (element == "f32")
      return static_cast<int64_t>(std::bit_cast<int32_t>(negative ? -std::numeric_limits<float>::infinity()
                                                                  : std::numeric_limits<float>::infinity()));
    if (element == "bf16") return static_cast<int64_t>(negative ? 0xFF80 : 0x7F80);
    if (element == "f16") return static_cast<int64_t>(negative ? 0xFC00 : 0x7C00);
    if (element == "i8") return static_cast<int64_t>(negative ? INT8_MIN : INT8_MAX);
    if (element == "ui8") return static_cast<int64_t>(negative ? 0 : UINT8_MAX);
    if (IsUnsigned(bound.type))
      return negative ? int64_t{0} : width == 32 ? int64_t{UINT32_MAX} : int64_t{-1};
    if (width == 32) return static_cast<int64_t>(negative ? INT32_MIN : INT32_MAX);
    return negative ? INT64_MIN : INT64_MAX;
  };
  const auto one = [&] {
    if (element == "f64") return std::bit_cast<int64_t>(1.0);
    if (element == "f32") return static_cast<int64_t>(std::bit_cast<int32_t>(1.0F));
    return element == "bf16" ? int64_t{0x3F80} : element == "f16" ? int64_t{0x3C00} : int64_t{1};
  };
  const auto negative_zero = [&] {
    if (element == "f64") return std::bit_cast<int64_t>(-0.0);
    return element == "f32" ? static_cast<int64_t>(std::bit_cast<int32_t>(-0.0F)) : int64_t{0x8000};
  };
  switch (combiner) {
    case Combiner::kAdd: return bits == 0 || (is_real && bits == negative_zero());
    case Combiner::kMultiply: return bits == one();
    case Combiner::kMaximum: return bits == (element == "i1" ? 0 : infinity(true));
    case Combiner::kMinimum: return bits == (element == "i1" ? 1 : infinity(false));
    case Combiner::kAnd: return element == "i1" && bits != 0;
    case Combiner::kOr: return element == "i1" && bits == 0;
    case Combiner::kSecond: return true;
  }
  return false;
}

std::vector<SortKey> SortKeysOf(const Region& region, const std::vector<TensorType>& types) {
  constexpr size_t kMostKeys = 3, kMostOps = 200;
  ComparatorTrial trial(region, types);
  std::vector<SortKey> keys = trial.Candidates();
  if (keys.empty() || keys.size() > kMostKeys || region.ops.size() > kMostOps) return {};
  // A key stands before those that it overrides. A comparator may contradict itself; then IsOrder says so.
  std::map<size_t, int> followers;
  for (const SortKey& a : keys)
    for (const SortKey& b : keys)
      if (a.operand != b.operand && trial.GoesBefore(a, b)) ++followers[a.operand];
  std::stable_sort(keys.begin(), keys.end(), [&](const SortKey& a, const SortKey& b) {
    return followers[a.operand] > followers[b.operand];
  });
  if (trial.IsOrder(keys)) return keys;
  // Comparisons that are false for NaN: where those come is not said.
  trial.LeaveOutNan();
  return trial.IsOrder(keys) ? keys : std::vector<SortKey>();
}

std::optional<Order> ExtremumOf(const Region& region) {
  const bool has_constants = std::any_of(region.ops.begin(), region.ops.end(),
                                         [](const Op& op) { return op.name == "stablehlo.constant"; });
  if (has_constants || region.arguments.size() != 4) return std::nullopt;
  const bool is_real = IsRealElement(region.arguments[0].type);
  for (const Order order : {Order::kDescending, Order::kAscending}) {
    bool is_order = true;
    for (const double a : {-1.0, 0.0, 1.0, kNan})
      for (const double b : {-1.0, 0.0, 1.0, kNan})
        for (const auto& [i, j] : {std::pair(1.0, 2.0), std::pair(2.0, 1.0)}) {
          const bool has_nan = std::isnan(a) || std::isnan(b);
          // Two NaN are met in the order of their indices.
          if ((has_nan && !is_real) || (std::isnan(a) && std::isnan(b) && i > j)) continue;
          const bool is_first = std::isnan(a)   ? true
                                : std::isnan(b) ? false
                                : a == b        ? i < j
                                                : (a > b) == (order == Order::kDescending);
          const auto result = Evaluate(region, {a, i, b, j});
          const std::array<double, 2> expected = {is_first ? a : b, is_first ? i : j};
          is_order &= result.has_value() && result->size() == 2 && (*result)[1] == expected[1] &&
                      ((*result)[0] == expected[0] || (std::isnan((*result)[0]) && std::isnan(expected[0])));
        }
    if (is_order) return order;
  }
  return std::nullopt;
}

}  // namespace meshwork::mlir
