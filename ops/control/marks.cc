#include "meshwork/ops/control/marks.h"

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <vector>

#include "meshwork/ir/row.h"
#include "meshwork/ops/control/loops.h"
#include "meshwork/ops/control/manual_ops.h"

namespace meshwork {
namespace {

// ---- Rules and types.

std::string LettersOf(int rank) {
  std::string letters;
  for (int d = 0; d < rank; ++d) letters += static_cast<char>('a' + d);
  return letters;
}

Rule AlikeRule(const OpView& view) {
  std::string text;
  for (size_t i = 0; i < view.operands.size(); ++i)
    text += (i > 0 ? "," : "") + LettersOf(view.operands[i].rank());
  return MakeRule(text + "->" + LettersOf(view.results[0].rank()), view.operands, view.results);
}

Rule SliceRule(const OpView& view) {
  const std::string slice = LettersOf(view.results[0].rank());
  return MakeRule("1" + slice + "->" + slice, view.operands, view.results);
}

Rule StackRule(const OpView& view) {
  const std::string slice = LettersOf(view.operands[0].rank());
  return MakeRule(slice + "->1" + slice, view.operands, view.results, MovesElements());
}

// A sum over iterations of partial values owes the same sum.
Rule SumRule(const OpView& view) {
  const std::string letters = LettersOf(view.operands[0].rank());
  return MakeRule(letters + "->" + letters, view.operands, view.results, Linear(Which::kAll));
}

// The results of a manual region lie as the region states, independently of its operands.
Rule MadeRule(const OpView& view) {
  return MakeRule("->" + LettersOf(view.results[0].rank()), view.operands, view.results);
}

absl::StatusOr<std::vector<Type>> InferAlike(const OpView& view) {
  return std::vector<Type>{view.operands[0]};
}

absl::StatusOr<std::vector<Type>> InferBranchMark(const OpView& view) {
  return std::vector<Type>{view.operands[1]};
}

absl::StatusOr<std::vector<Type>> InferSlice(const OpView& view) {
  Type type = view.operands[0];
  type.shape.erase(type.shape.begin());
  return std::vector<Type>{type};
}

absl::StatusOr<std::vector<Type>> InferStack(const OpView& view) {
  Type type = view.operands[0];
  type.shape.insert(type.shape.begin(), view.attrs.Get<int64_t>("length"));
  return std::vector<Type>{type};
}

// ---- Rows.

OpRow MarkRow(Mark mark, std::string_view op) {
  OpRow row{.name = op,
            .attrs = {{"loop", AttrKind::kInt},
                      {"region", AttrKind::kInt},
                      {"number", AttrKind::kInt},
                      {"length", AttrKind::kInt, AttrValue(int64_t{0})}},
            .takes_storage = true,
            .infer = InferAlike,
            .rule = AlikeRule};
  switch (mark) {
    case Mark::kEnter: row.doc = "what a body is given"; break;
    case Mark::kSlice:
      row.doc = "a slice of what a body is given";
      row.infer = InferSlice;
      row.rule = SliceRule;
      break;
    case Mark::kLeave:
      row.doc = "a carry after a loop";
      row.num_operands = 2;
      row.optional_operands = 1;
      break;
    case Mark::kStack:
      row.doc = "what all iterations return";
      row.infer = InferStack;
      row.rule = StackRule;
      break;
    case Mark::kSum:
      row.doc = "what iterations return, added up";
      row.rule = SumRule;
      break;
    case Mark::kBranch:
      row.doc = "what the chosen branch returns";
      row.num_operands = 3;
      row.infer = InferBranchMark;
      break;
    case Mark::kManualEnter: row.doc = "what a manual region is given"; break;
    case Mark::kManualLeave:
      row.doc = "what a manual region returns";
      row.num_operands = 0;
      row.infer = nullptr;
      row.rule = MadeRule;
      break;
  }
  return row;
}

// The rows of a mark, one per op that is opened. They have the name of that op, for messages: users know no
// marks.
using MarkRows = std::array<OpRow, 4>;
const std::vector<MarkRows>& AllRows() {
  static const auto* all = [] {
    auto* rows = new std::vector<MarkRows>;
    for (Mark m : kAllMarks)
      rows->push_back({MarkRow(m, "scan"), MarkRow(m, "while"), MarkRow(m, "if"), MarkRow(m, kManualOp)});
    return rows;
  }();
  return *all;
}
const MarkRows& RowsOf(Mark mark) { return AllRows()[static_cast<size_t>(mark)]; }

}  // namespace

const OpRow& MarkRowOf(Mark mark, const Node& loop) {
  const MarkRows& rows = RowsOf(mark);
  return *std::find_if(rows.begin(), rows.end(),
                       [&](const OpRow& row) { return row.name == loop.row->name; });
}

bool IsMark(const Node& node) {
  // The rows lie one behind the other.
  static const OpRow *const first = AllRows().front().data(), *const last = &AllRows().back().back();
  return !std::less<>()(node.row, first) && !std::less<>()(last, node.row);
}

bool IsMark(const Node& node, Mark mark) {
  if (!IsMark(node)) return false;
  const MarkRows& rows = RowsOf(mark);
  return std::any_of(rows.begin(), rows.end(), [&](const OpRow& row) { return node.row == &row; });
}
bool EntersBody(const Node& node) {
  return IsMark(node, Mark::kEnter) || IsMark(node, Mark::kSlice) || IsMark(node, Mark::kManualEnter);
}

int64_t MarkNumber(const Node& mark, std::string_view name) { return mark.attrs.Get<int64_t>(name); }

}  // namespace meshwork
