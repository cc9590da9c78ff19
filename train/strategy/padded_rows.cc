#include "meshwork/train/strategy/padded_rows.h"

#include <algorithm>
#include <cstdint>

#include "meshwork/ir/regions.h"
#include "meshwork/ir/row.h"
#include "meshwork/ir/rule.h"

namespace meshwork {
namespace {

// The padding of a value: the rows that fill a part up.
struct PaddedDims {
  std::vector<bool> dims = {};  // per dim: it has padding
  bool is_zero = false;         // all elements of the padding are 0
  bool knows_rows = false;      // the value depends on the number of real rows

  bool any() const { return std::find(dims.begin(), dims.end(), true) != dims.end(); }
};

class PaddingFinder {
 public:
  PaddingFinder(const Graph& body, const std::vector<Value>& parts, const Value& rows,
                const std::vector<Value>& means)
      : body_(body), padding_(body.values().size()), is_mean_(body.values().size(), false) {
    for (const Value& mean : means)
      if (mean.valid()) is_mean_[static_cast<size_t>(mean.id())] = true;
    for (size_t v = 0; v < padding_.size(); ++v)
      padding_[v].dims.resize(static_cast<size_t>(body.value(static_cast<ValueId>(v)).type.rank()), false);
    for (const Value& part : parts) {
      if (part.rank() == 0) continue;
      At(part.id()).dims[0] = true;
      At(part.id()).is_zero = true;
    }
    At(rows.id()).knows_rows = true;
  }

  std::optional<int> Find() {
    for (size_t n = 0; n < body_.nodes().size(); ++n)
      if (!Follow(body_.nodes()[n])) return static_cast<int>(n);
    return std::nullopt;
  }

 private:
  PaddedDims& At(ValueId id) { return padding_[static_cast<size_t>(id)]; }

  // False if the node puts padding together with real rows.
  bool Follow(const Node& node) {
    const auto& operands = node.operands;
    if (is_mean_[static_cast<size_t>(node.results[0])]) return true;
    if (std::any_of(operands.begin(), operands.end(), [&](ValueId id) { return At(id).knows_rows; })) {
      for (ValueId id : node.results) At(id).knows_rows = true;
      return true;
    }
    if (std::none_of(operands.begin(), operands.end(), [&](ValueId id) { return At(id).any(); })) return true;
    if (node.row->name == "dimension_size") {
      for (int64_t dim : node.attrs.Get<std::vector<int64_t>>("dims"))
        if (At(operands[0]).dims[static_cast<size_t>(dim)]) return false;
      return true;
    }
    return node.row->rule == nullptr ? FollowDeviceOp(node) : FollowRule(node, RuleOf(body_, node));
  }

  // A collective. A gather puts blocks, and so their rows, one after the other. A reduction adds padding of one
  // replica to real rows of others, which is right only for sums with zeros.
  bool FollowDeviceOp(const Node& node) {
    const PaddedDims& given = At(node.operands[0]);
    const bool combines = node.row->collective == CollectiveKind::kAllReduce ||
                          node.row->collective == CollectiveKind::kReduceScatter;
    if (combines && !(given.is_zero && node.attrs.Get<ReduceOp>("op") == ReduceOp::kSum)) return false;
    At(node.results[0]).dims = given.dims;
    At(node.results[0]).is_zero = given.is_zero;
    return true;
  }

  // Whether the node is linear in operand o alone.
  static bool IsLinearIn(const Rule& rule, size_t o) {
    const PartialSet sum = {{0, ReduceOp::kSum}};
    std::vector<PartialSet> owed(rule.operands.size());
    owed[o] = sum;
    return rule.PassOn(owed, AxisSet()) == sum;
  }

  bool FollowRule(const Node& node, const Rule& rule) {
    bool all_zero = true, times_zero = node.row->name == "cast";
    std::vector<bool> padded(rule.letters.size(), false), adds_zeros = padded;
    for (size_t o = 0; o < ComputedFrom(node).size(); ++o) {
      const PaddedDims& operand = At(node.operands[o]);
      all_zero &= operand.is_zero;
      const bool is_factor = operand.is_zero && node.row->name != "reduce_mean" && IsLinearIn(rule, o);
      times_zero |= is_factor;
      for (size_t d = 0; d < operand.dims.size(); ++d) {
        if (!operand.dims[d]) continue;
        const int letter = rule.operands[o][d];
        if (letter == kNoLetter || rule.letters[letter].whole || rule.letters[letter].windowed) return false;
        padded[letter] = true;
        if (is_factor && rule.reduce == ReduceOp::kSum) adds_zeros[letter] = true;
      }
    }
    for (size_t l = 0; l < padded.size(); ++l)
      if (padded[l] && rule.letters[l].reduced && !adds_zeros[l]) return false;
    for (size_t r = 0; r < node.results.size(); ++r) {
      PaddedDims& result = At(node.results[r]);
      for (size_t d = 0; d < result.dims.size(); ++d)
        result.dims[d] = rule.results[r][d] != kNoLetter && padded[rule.results[r][d]];
      result.is_zero = times_zero || (all_zero && IsSum(rule));
    }
    return true;
  }

  // Whether the node is linear in its operands together.
  static bool IsSum(const Rule& rule) {
    const PartialSet sum = {{0, ReduceOp::kSum}};
    return rule.PassOn(std::vector<PartialSet>(rule.operands.size(), sum), AxisSet()) == sum;
  }

  const Graph& body_;
  std::vector<PaddedDims> padding_;  // per value
  std::vector<bool> is_mean_;        // likewise
};

}  // namespace

std::optional<int> FindUseOfPadding(const Graph& body, const std::vector<Value>& parts, const Value& rows,
                                    const std::vector<Value>& means) {
  return PaddingFinder(body, parts, rows, means).Find();
}

}  // namespace meshwork
