#include "meshwork/train/parameter_server/update_facts.h"

#include <algorithm>

#include "meshwork/ir/row.h"
#include "meshwork/spmd/rewrite/simplify.h"

namespace meshwork {
namespace {

// Per value, whether an output depends on it.
std::vector<bool> ReadByOutputs(const Graph& graph) {
  std::vector<bool> read(graph.values().size(), false);
  for (const OutputInfo& output : graph.outputs()) read[static_cast<size_t>(output.value)] = true;
  for (size_t n = graph.nodes().size(); n-- > 0;) {
    const Node& node = graph.nodes()[n];
    const bool is_read = std::any_of(node.results.begin(), node.results.end(),
                                     [&](ValueId id) { return read[static_cast<size_t>(id)]; });
    if (!is_read) continue;
    for (ValueId id : node.operands) read[static_cast<size_t>(id)] = true;
  }
  return read;
}

bool Intersect(const std::set<int>& a, const std::set<int>& b) {
  return std::any_of(a.begin(), a.end(), [&](int i) { return b.contains(i); });
}

// The letter at dim 0 of the results, of that size, and at no other dim; kNoLetter: there is none.
int RowLetter(const Graph& graph, const Node& node, const Rule& rule) {
  int letter = kNoLetter;
  for (size_t r = 0; r < node.results.size(); ++r) {
    const LetterList& letters = rule.results[r];
    if (letters.empty() || letters[0] == kNoLetter || (r > 0 && letters[0] != letter)) return kNoLetter;
    letter = letters[0];
    if (std::count(letters.begin(), letters.end(), letter) != 1) return kNoLetter;
    if (graph.value(node.results[r]).type.shape[0] != rule.letters[static_cast<size_t>(letter)].size)
      return kNoLetter;
  }
  const Letter& info = rule.letters[static_cast<size_t>(letter)];
  return info.whole || info.carried || info.windowed || info.reduced ? kNoLetter : letter;
}

}  // namespace

UpdateFacts::UpdateFacts(const Graph& g)
    : graph(g),
      argument_of(g.values().size(), -1),
      is_by_row(g.nodes().size(), false),
      row_operands(g.nodes().size()),
      from_input(g.values().size(), false),
      is_shared(g.values().size(), false),
      state(g.values().size(), -1),
      is_own(g.values().size(), false),
      scalars(g.values().size()) {
  FindKinds();
  FindReadable();
  for (size_t a = 0; a < kinds.size(); ++a) {
    const auto value = static_cast<size_t>(graph.arguments()[a].value);
    from_input[value] = kinds[a] == ArgumentKind::kInput;
    is_shared[value] = kinds[a] == ArgumentKind::kShared;
    if (!is_readable[a]) state[value] = static_cast<int>(a);
    if (is_shared[value] && updates[a] != kNoValue) scalars[value].insert(static_cast<int>(a));
  }
  for (size_t n = 0; n < graph.nodes().size(); ++n) FindNode(n);
}

void UpdateFacts::FindKinds() {
  updates.assign(graph.arguments().size(), kNoValue);
  for (const VariableUpdate& update : graph.updates())
    updates[static_cast<size_t>(update.argument)] = update.value;
  // To tell a scalar weight from a count of steps, it must be known whether a value depends on inputs.
  std::vector<bool> fed(graph.values().size(), false);
  for (const Argument& argument : graph.arguments())
    if (!argument.is_variable) fed[static_cast<size_t>(argument.value)] = true;
  for (const Node& node : graph.nodes()) {
    const bool is_fed = std::any_of(node.operands.begin(), node.operands.end(),
                                    [&](ValueId id) { return fed[static_cast<size_t>(id)]; });
    for (ValueId id : node.results) fed[static_cast<size_t>(id)] = is_fed;
  }
  for (size_t a = 0; a < graph.arguments().size(); ++a) {
    const Argument& argument = graph.arguments()[a];
    argument_of[static_cast<size_t>(argument.value)] = static_cast<int>(a);
    if (!argument.is_variable) {
      kinds.push_back(ArgumentKind::kInput);
      continue;
    }
    const Type& type = graph.value(argument.value).type;
    const bool is_weight = argument.is_trainable && IsFloat(type.dtype) && updates[a] != kNoValue &&
                           fed[static_cast<size_t>(updates[a])];
    kinds.push_back(type.rank() == 0 && !is_weight ? ArgumentKind::kShared : ArgumentKind::kRows);
  }
}

void UpdateFacts::FindReadable() {
  const std::vector<bool> read = ReadByOutputs(graph);
  for (size_t a = 0; a < kinds.size(); ++a) {
    const Argument& argument = graph.arguments()[a];
    is_readable.push_back(kinds[a] != ArgumentKind::kRows || argument.is_trainable ||
                          updates[a] == kNoValue || read[static_cast<size_t>(argument.value)]);
  }
}

bool UpdateFacts::IsScalarNode(const Node& node) const {
  const auto is_scalar = [&](ValueId id) { return graph.value(id).type.rank() == 0; };
  return std::all_of(node.operands.begin(), node.operands.end(), is_scalar) &&
         std::all_of(node.results.begin(), node.results.end(), is_scalar);
}

bool UpdateFacts::IsByRow(const Node& node, std::vector<bool>& rows) const {
  const OpRow& row = *node.row;
  if ((row.kind != OpKind::kCompute && !IsNote(node)) || row.is_product || row.reads_block ||
      row.rule == nullptr || node.operands.empty())
    return false;
  rows.assign(node.operands.size(), false);
  if (IsScalarNode(node)) return true;
  // A scalar that is repeated: the shape is an attribute.
  if (row.name == "broadcast_to" && graph.value(node.operands[0]).type.rank() == 0) return true;
  const Rule rule = RuleOf(graph, node);
  const int letter = RowLetter(graph, node, rule);
  if (letter == kNoLetter) return false;
  const int64_t size = rule.letters[static_cast<size_t>(letter)].size;
  for (size_t o = 0; o < node.operands.size(); ++o) {
    const Type& type = graph.value(node.operands[o]).type;
    const LetterList& letters = rule.operands[o];
    const auto times = std::count(letters.begin(), letters.end(), letter);
    if (times == 0) {
      if (type.rank() > 0 && !is_shared[static_cast<size_t>(node.operands[o])]) return false;
      continue;
    }
    if (times != 1 || letters[0] != letter || type.shape[0] != size) return false;
    rows[o] = true;
  }
  return std::find(rows.begin(), rows.end(), true) != rows.end();
}

void UpdateFacts::FindNode(size_t n) {
  const Node& node = graph.nodes()[n];
  bool any_input = false, all_shared = node.regions.empty(), any_own = false;
  int needs = -1;
  std::set<int> reads;        // scalars
  std::set<int> here, there;  // scalars that servers, and workers, read for this node
  for (ValueId id : node.operands) {
    const auto v = static_cast<size_t>(id);
    any_input |= from_input[v];
    all_shared &= is_shared[v];
    if (needs < 0) needs = state[v];
    reads.insert(scalars[v].begin(), scalars[v].end());
    (is_shared[v] ? here : there).insert(scalars[v].begin(), scalars[v].end());
  }
  // All know the size of a weight.
  if (node.row->name == "dimension_size" && !any_input) all_shared = true, needs = -1;
  std::vector<bool> rows;
  const bool is_scalar = IsScalarNode(node);
  bool by_row = !all_shared && IsByRow(node, rows);
  for (size_t o = 0; by_row && o < node.operands.size(); ++o) {
    const auto v = static_cast<size_t>(node.operands[o]);
    const int a = argument_of[v];
    const bool is_kept = a >= 0 && kinds[static_cast<size_t>(a)] != ArgumentKind::kInput &&
                         updates[static_cast<size_t>(a)] != kNoValue;
    if ((is_scalar || rows[o]) && (is_own[v] || is_kept)) any_own = true;
  }
  // A worker that multiplied by a loss scale must also divide, by the same scale: the server's may have changed
  // meanwhile.
  if (by_row && !is_scalar && any_input && !any_own && needs < 0 && Intersect(here, there)) by_row = false;
  is_by_row[n] = by_row;
  row_operands[n] = std::move(rows);
  for (ValueId id : node.results) {
    const auto v = static_cast<size_t>(id);
    from_input[v] = any_input;
    is_shared[v] = all_shared;
    state[v] = needs;
    is_own[v] = by_row && any_own;
    scalars[v] = reads;
  }
}

}  // namespace meshwork
