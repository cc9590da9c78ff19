#include "meshwork/ir/plan/storage.h"

#include <algorithm>

#include "meshwork/ir/readers.h"
#include "meshwork/ir/regions.h"
#include "meshwork/ir/row.h"

namespace meshwork {
namespace {

class Storages {
 public:
  Storages(const Graph& local, const SameCopies& same_copies, const std::vector<bool>& kept)
      : local_(local),
        same_copies_(same_copies),
        kept_(kept),
        contents_(FindContents(local, same_copies)),
        readers_(ReadersOf(local, contents_)),
        update_of_(local.values().size(), -1) {
    for (const VariableUpdate& update : local.updates())
      if (int& argument = update_of_[contents_[update.value]]; argument < 0) argument = update.argument;
  }

  std::vector<ValueId> Plan() const {
    std::vector<ValueId> first(local_.values().size());
    for (size_t v = 0; v < first.size(); ++v) first[v] = static_cast<ValueId>(v);
    for (int n = 0; n < static_cast<int>(local_.nodes().size()); ++n) {
      const Node& node = local_.nodes()[n];
      for (int r = 0; r < static_cast<int>(node.results.size()); ++r) {
        const ValueId result = node.results[r];
        const ValueId over = contents_[result] != result ? contents_[result] : WrittenOver(n, r);
        if (over != kNoValue) first[result] = first[over];
      }
    }
    return first;
  }

 private:
  bool SameCopiesOf(ValueId a, ValueId b) const { return same_copies_ == nullptr || same_copies_(a, b); }

  // The value that result r of node n is written over, if any: the variable it is the new value of, or an
  // operand.
  ValueId WrittenOver(int n, int r) const {
    const int argument = update_of_[local_.nodes()[n].results[r]];
    if (argument >= 0 && CanWriteVariable(n, r, argument)) return local_.arguments()[argument].value;
    const ValueId operand = InPlaceOperand(n, r);
    if (operand == kNoValue || local_.value(contents_[operand]).node < 0) return kNoValue;
    const ValueId content = contents_[operand];
    return readers_.last(content) == n && readers_.exits(content) == 0 ? operand : kNoValue;
  }

  // The operand that result r may be written over according to the row. A carry of a loop is written over its
  // initial value (runtime/plan/loop.h says which operand that is).
  static int OperandUnder(const Node& node, int r) {
    if (const AttrValue* initial = IsControl(node) ? node.attrs.Find("initial") : nullptr; initial != nullptr)
      return static_cast<int>(std::get<std::vector<int64_t>>(*initial)[r]);
    if (node.row->kind == OpKind::kCollective || static_cast<size_t>(r) >= node.row->in_place.size())
      return -1;
    return node.row->in_place[r];
  }

  // The operand that result r may be written over: it has the same type and as many copies, and no other
  // operand of the node has its bytes.
  ValueId InPlaceOperand(int n, int r) const {
    const Node& node = local_.nodes()[n];
    const int o = OperandUnder(node, r);
    if (o < 0) return kNoValue;
    const ValueId operand = node.operands[o], result = node.results[r];
    const bool alike =
        local_.value(operand).type == local_.value(result).type && SameCopiesOf(operand, result);
    const auto reads = std::count_if(node.operands.begin(), node.operands.end(),
                                     [&](ValueId other) { return contents_[other] == contents_[operand]; });
    return alike && reads == 1 ? operand : kNoValue;
  }

  // True if result r of node n, the new value of variable `a`, may go straight to the variable's memory: by
  // then nobody needs the old value.
  bool CanWriteVariable(int n, int r, int a) const {
    if (!kept_.empty() && kept_[static_cast<size_t>(a)]) return false;
    const ValueId variable = local_.arguments()[a].value, result = local_.nodes()[n].results[r];
    const int last = readers_.last(variable);
    if (readers_.exits(variable) > 0 || last > n) return false;
    const ValueId operand = InPlaceOperand(n, r);
    if (last == n && (operand == kNoValue || contents_[operand] != variable)) return false;
    return SameCopiesOf(variable, result);
  }

  const Graph& local_;
  const SameCopies& same_copies_;
  const std::vector<bool>& kept_;
  const std::vector<ValueId> contents_;  // per value the one that it is a view of, or itself
  const Readers readers_;                // of contents
  std::vector<int> update_of_;           // per content the first argument it is the update of, or -1
};

}  // namespace

std::vector<ValueId> FindContents(const Graph& local, const SameCopies& same_copies) {
  std::vector<bool> is_given_out(local.values().size(), false);
  for (const OutputInfo& output : local.outputs()) is_given_out[output.value] = true;
  for (const VariableUpdate& update : local.updates()) is_given_out[update.value] = true;
  std::vector<ValueId> contents(local.values().size());
  for (size_t v = 0; v < contents.size(); ++v) contents[v] = static_cast<ValueId>(v);
  for (const Node& node : local.nodes()) {
    if (!node.row->is_view) continue;
    const ValueId operand = node.operands[0], result = node.results[0];
    const Type &from = local.value(operand).type, &to = local.value(result).type;
    // An argument may have been written over by the time that the output is read.
    const bool of_argument = local.value(contents[operand]).node < 0;
    if (from.dtype == to.dtype && from.bytes() == to.bytes() && !(of_argument && is_given_out[result]) &&
        (same_copies == nullptr || same_copies(operand, result)))
      contents[result] = contents[operand];
  }
  return contents;
}

std::vector<ValueId> PlanStorages(const Graph& local, const SameCopies& same_copies,
                                  const std::vector<bool>& kept) {
  return Storages(local, same_copies, kept).Plan();
}

std::vector<bool> SetAside(const Graph& local) {
  std::vector<bool> changes(local.values().size(), false);  // per value: a variable that gets another value
  for (const VariableUpdate& update : local.updates()) {
    const ValueId variable = local.arguments()[update.argument].value;
    changes[variable] = update.value != variable;
  }
  std::vector<bool> aside;
  for (const VariableUpdate& update : local.updates())
    aside.push_back(changes[update.value] && update.value != local.arguments()[update.argument].value);
  return aside;
}

}  // namespace meshwork
