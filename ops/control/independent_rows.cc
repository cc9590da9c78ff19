#include "meshwork/ops/control/independent_rows.h"

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <numeric>
#include <optional>
#include <string_view>

#include "meshwork/base/status.h"
#include "meshwork/ir/row.h"
#include "meshwork/ops/control/loops.h"
#include "meshwork/ops/control/rebatch.h"

namespace meshwork {
namespace {

// Dim `dim` of a value has `size` elements for each row of the batch, row after row.
struct RowDim {
  int dim;
  int64_t size;
};

// How a value may depend on the batch, as its shapes for two batches tell.
struct Follows {
  std::optional<RowDim> rows = {};  // nothing: its shape is the same for every batch
  bool otherwise = false;           // in several dims, or not by whole rows
};

Follows Compare(const Shape& shape, int64_t rows, const Shape& other, int64_t other_rows) {
  if (shape.size() != other.size()) return {.otherwise = true};
  Follows follows;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == other[d]) continue;
    const int64_t size = shape[d] / rows;
    if (follows.rows.has_value() || size * rows != shape[d] || size * other_rows != other[d])
      return {.otherwise = true};
    follows.rows = RowDim{static_cast<int>(d), size};
  }
  return follows;
}

// Whether an element of the node's result, which has `rank` dims, may depend on its place along dim `dim`. Kernels that read
// where a block lies do so along some dims only; of others than these it is not known.
bool ReadsPlace(const Node& node, int rank, int dim) {
  if (!node.row->reads_block) return false;
  const auto is_one_of = [&](std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), node.row->name) != names.end();
  };
  if (is_one_of({"gather", "gather_nd"})) return false;  // only along dims of the table, which no result has
  if (is_one_of({"attention", "conv_input_grad", "max_pool_grad", "sum_pool_grad"})) return dim != 0;
  if (is_one_of({"iota", "take_along_dim", "scatter_add_along_dim", "scatter_add", "scatter_max",
                 "scatter_min", "scatter_update"}))
    return node.attrs.Get<int64_t>("dim") == dim;
  if (is_one_of({"dynamic_slice", "dynamic_update_slice"})) {
    const auto& dims = node.attrs.Get<std::vector<int64_t>>("dims");
    return std::find(dims.begin(), dims.end(), dim) != dims.end();
  }
  return node.row->name != "one_hot" || dim == rank - 1;
}

int64_t ElementsBefore(const Shape& shape, int dim) {
  return std::accumulate(shape.begin(), shape.begin() + dim, int64_t{1}, std::multiplies<>());
}

absl::Status Mixes(const Graph& graph, const Node& node, int64_t rows) {
  return InvalidArgument(
      "{}: a row of its result {} depends on other rows of the batch of {}, or on their places or number.",
      graph.Describe(node.row->name, node.location), graph.value(node.results[0]).type.ToString(), rows);
}

bool AreAsLarge(const Graph& a, const Graph& b) {
  return a.nodes().size() == b.nodes().size() && a.values().size() == b.values().size();
}

// Goes through the same program for two batches, without loops: each claim that a value's shapes make about its rows is
// kept by the node that computes it, or this node is to blame.
class RowTracer {
 public:
  RowTracer(const Graph& graph, int64_t rows, const Graph& other, int64_t other_rows)
      : graph_(graph), other_(other), rows_(rows), blames_(graph.values().size(), kNobody) {
    for (size_t id = 0; id < graph.values().size(); ++id)
      follows_.push_back(
          Compare(graph.values()[id].type.shape, rows, other.values()[id].type.shape, other_rows));
  }

  // Of each output, the elements for a row of the batch.
  absl::StatusOr<std::vector<int64_t>> Outputs() {
    for (const Argument& argument : graph_.arguments()) MESHWORK_RETURN_IF_ERROR(CheckArgument(argument));
    while (Trace()) {
    }
    std::vector<int64_t> sizes;
    for (const OutputInfo& output : graph_.outputs()) {
      if (const int n = blames_[output.value]; n != kNobody) return Mixes(graph_, graph_.nodes()[n], rows_);
      const std::optional<RowDim>& rows = follows_[output.value].rows;
      if (rows.has_value() && rows->dim != 0)
        return InvalidArgument(
            "output \"{}\" is {}, whose dim {} follows the batch of {}; rows are told apart along dim 0 alone: transpose it.",
            output.name, graph_.value(output.value).type.ToString(), rows->dim, rows_);
      sizes.push_back(rows.has_value() ? rows->size : 0);
    }
    return sizes;
  }

 private:
  static constexpr int kNobody = -1;

  absl::Status CheckArgument(const Argument& argument) const {
    const Follows& follows = follows_[argument.value];
    if (!follows.otherwise &&
        (!follows.rows.has_value() || (follows.rows->dim == 0 && follows.rows->size == 1)))
      return absl::OkStatus();
    const ValueInfo& info = graph_.value(argument.value);
    return InvalidArgument(
        "input \"{}\" is {} and follows the batch of {}, but it has no row of its own for each of the batch's.",
        info.name, info.type.ToString(), rows_);
  }

  // Blames nodes. Returns whether it has to be called again, because a carry of a loop changed.
  bool Trace() {
    bool changed = false;
    for (size_t n = 0; n < graph_.nodes().size(); ++n) {
      const Node& node = graph_.nodes()[n];
      int blame = kNobody;
      for (ValueId id : ComputedFrom(node))
        if (blame == kNobody) blame = blames_[id];
      for (size_t r = 0; r < node.results.size(); ++r) {
        int& own = blames_[node.results[r]];
        if (own == kNobody) own = blame != kNobody || Keeps(n, r) ? blame : static_cast<int>(n);
      }
      if (!LeavesCarry(node) || blames_[node.operands[0]] == kNobody) continue;
      int& carry = blames_[node.operands[1]];
      changed |= carry == kNobody;
      carry = blames_[node.operands[0]];
    }
    return changed;
  }

  // Whether result `r` of node `n` has its rows from the same rows of the operands, if they have.
  bool Keeps(size_t n, size_t r) const {
    const Node &node = graph_.nodes()[n], &other = other_.nodes()[n];
    const Follows& result = follows_[node.results[r]];
    const auto has_rows = [&](ValueId id) { return follows_[id].rows.has_value(); };
    // The loops of microbatches may be others.
    if (node.row != other.row || node.operands != other.operands || result.otherwise) return false;
    if (IsNote(node)) return has_rows(node.operands[0]) == has_rows(node.results[r]);
    if (result.rows.has_value()) return node.row->name == "reshape" ? KeepsOrder(node) : KeepsLetter(n, r);
    if (node.attrs != other.attrs) return false;
    return std::none_of(node.operands.begin(), node.operands.end(), has_rows) || GivesOtherSize(node);
  }

  bool GivesOtherSize(const Node& node) const {
    if (node.row->name != "dimension_size") return false;
    const int64_t rows = follows_[node.operands[0]].rows->dim;
    const auto& dims = node.attrs.Get<std::vector<int64_t>>("dims");
    return std::find(dims.begin(), dims.end(), rows) == dims.end();
  }

  // A row's elements lie in one piece, in order, for each position of the dims before.
  bool KeepsOrder(const Node& reshape) const {
    const std::optional<RowDim>&from = follows_[reshape.operands[0]].rows,
          &to = follows_[reshape.results[0]].rows;
    return from.has_value() && ElementsBefore(graph_.value(reshape.operands[0]).type.shape, from->dim) ==
                                   ElementsBefore(graph_.value(reshape.results[0]).type.shape, to->dim);
  }

  // The op may run on single positions along a letter of its rule that is not reduced, whole or windowed.
  bool KeepsLetter(size_t n, size_t r) const {
    const Node& node = graph_.nodes()[n];
    const RowDim rows = *follows_[node.results[r]].rows;
    if (ReadsPlace(node, graph_.value(node.results[r]).type.rank(), rows.dim) || !HasAttrsOfSize(n))
      return false;
    const Rule rule = RuleOf(graph_, node);
    const int letter = rule.results[r][rows.dim];
    if (letter == kNoLetter) return false;
    const Letter& along = rule.letters[letter];
    if (along.whole || along.carried || along.must_divide || along.reduced || along.windowed) return false;
    if (std::count(rule.results[r].begin(), rule.results[r].end(), letter) != 1) return false;
    for (size_t o = 0; o < node.operands.size(); ++o) {
      const std::optional<RowDim>& has = follows_[node.operands[o]].rows;
      const auto times = std::count(rule.operands[o].begin(), rule.operands[o].end(), letter);
      if (times != (has.has_value() ? 1 : 0)) return false;
      if (has.has_value() && (rule.operands[o][has->dim] != letter || has->size != rows.size ||
                              rule.FindWindow(o, has->dim) != nullptr))
        return false;
    }
    return true;
  }

  // Whether node `n` of the other program is the same op for the other batch.
  bool HasAttrsOfSize(size_t n) const {
    const Node &node = graph_.nodes()[n], &other = other_.nodes()[n];
    const std::vector<Type> operands = TypesOf(graph_, node.operands),
                            results = TypesOf(graph_, node.results);
    const absl::StatusOr<Attrs> attrs =
        ResizedAttrs(*node.row, {operands, results, node.attrs}, TypesOf(other_, other.operands),
                     other_.value(other.results[0]).type.shape);
    return attrs.ok() && *attrs == other.attrs;
  }

  const Graph &graph_, &other_;
  const int64_t rows_;
  std::vector<Follows> follows_;  // per value
  std::vector<int> blames_;       // per value: the node that mixes rows, which it depends on
};

}  // namespace

absl::StatusOr<std::vector<int64_t>> IndependentRows(const Graph& graph, int64_t rows) {
  const int64_t more = rows + 1;
  // Rebatch may write constants of loops at other places; so both are its results.
  MESHWORK_ASSIGN_OR_RETURN(const Graph same, Rebatch(graph, rows, rows));
  MESHWORK_ASSIGN_OR_RETURN(const Graph other, Rebatch(graph, rows, more));
  const OpenedGraph one = OpenLoops(same), two = OpenLoops(other);
  // Other numbers of microbatches may make other programs.
  if (!AreAsLarge(one.graph, two.graph)) return Mixes(one.graph, one.graph.nodes()[0], rows);
  return RowTracer(one.graph, rows, two.graph, more).Outputs();
}

}  // namespace meshwork
