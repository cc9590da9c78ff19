#include "mutation/result_mutants.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "meshwork/ir/rewrite.h"

namespace meshwork {
namespace {

// The same nodes, with other updates and outputs.
void AddWith(const MutantWriter& writer, std::string kind, std::string what,
             const std::vector<VariableUpdate>& updates, const std::vector<OutputInfo>& outputs) {
  Graph graph = writer.local();
  graph.ClearUpdates();
  graph.ClearOutputs();
  for (const VariableUpdate& update : updates) graph.AddUpdate(update);
  for (const OutputInfo& output : outputs) graph.AddOutput(output);
  writer.Emit(std::move(kind), std::move(what), std::move(graph));
}

// Values with the same block and layout.
std::vector<ValueId> Substitutes(const Graph& local, ValueId value) {
  std::vector<ValueId> found;
  for (ValueId id = static_cast<ValueId>(local.values().size()); id-- > 0 && found.size() < 2;)
    if (id != value && local.value(id).type == local.value(value).type &&
        local.value(id).global == local.value(value).global &&
        *local.value(id).layout == *local.value(value).layout)
      found.push_back(id);
  return found;
}

// By node: whether it is this node or depends on its results.
std::vector<bool> FollowsFrom(const Graph& local, int node) {
  std::vector<bool> follows(local.nodes().size(), false);
  follows[node] = true;
  for (size_t n = static_cast<size_t>(node) + 1; n < follows.size(); ++n)
    for (ValueId id : local.nodes()[n].operands)
      if (local.value(id).node >= 0 && follows[local.value(id).node]) follows[n] = true;
  return follows;
}

// Reads of the old value are moved behind the update: nodes, each with all nodes that depend on it, and outputs.
void ReadNew(const MutantWriter& writer, const VariableUpdate& update, const std::string& what) {
  const Graph& local = writer.local();
  const ValueId old = local.arguments()[update.argument].value;
  for (int reader = 0; reader < static_cast<int>(local.nodes().size()); ++reader) {
    const Node& node = local.nodes()[reader];
    if (std::find(node.operands.begin(), node.operands.end(), old) == node.operands.end()) continue;
    const std::vector<bool> follows = FollowsFrom(local, reader);
    const int made = local.value(update.value).node;
    if (update.value == old || (made >= 0 && follows[made])) continue;
    Rewriter rewriter(local);
    for (const bool moved : {false, true}) {
      for (int n = 0; n < static_cast<int>(local.nodes().size()); ++n) {
        if (follows[n] != moved) continue;
        Node copy = local.nodes()[n];
        if (n == reader) std::replace(copy.operands.begin(), copy.operands.end(), old, update.value);
        rewriter.Copy(copy);
      }
    }
    writer.Emit("moved read", fmt::format("{}, read by node {}", what, reader), std::move(rewriter).Finish());
  }
  for (size_t o = 0; o < local.outputs().size(); ++o) {
    if (local.outputs()[o].value != old || update.value == old) continue;
    std::vector<OutputInfo> outputs = local.outputs();
    outputs[o].value = update.value;
    AddWith(writer, "moved read", what + ", output " + outputs[o].name, local.updates(), outputs);
  }
}

// Readers of the new value read the old one: nodes, outputs, the update itself.
void ReadOld(MutantWriter& writer, int u, const std::string& what) {
  const Graph& local = writer.local();
  const VariableUpdate& update = local.updates()[u];
  const ValueId old = local.arguments()[update.argument].value;
  if (old == update.value || local.value(old).type != local.value(update.value).type) return;
  std::vector<VariableUpdate> updates = local.updates();
  updates[u].value = old;
  AddWith(writer, "stale value", what, updates, local.outputs());
  for (size_t o = 0; o < local.outputs().size(); ++o) {
    if (local.outputs()[o].value != update.value) continue;
    std::vector<OutputInfo> outputs = local.outputs();
    outputs[o].value = old;
    AddWith(writer, "stale value", what + ", output " + outputs[o].name, local.updates(), outputs);
  }
  for (int n = 0; n < static_cast<int>(local.nodes().size()); ++n) {
    writer.GoTo(n);
    const Node& node = local.nodes()[n];
    if (std::find(node.operands.begin(), node.operands.end(), update.value) == node.operands.end()) continue;
    writer.Add("stale value", [&](Rewriter& rewriter) {
      Node copy = node;
      std::replace(copy.operands.begin(), copy.operands.end(), update.value, old);
      rewriter.Copy(copy);
    });
  }
}

}  // namespace

void OtherResults(MutantWriter& writer) {
  const Graph& local = writer.local();
  for (size_t o = 0; o < local.outputs().size(); ++o) {
    for (const ValueId other : Substitutes(local, local.outputs()[o].value)) {
      std::vector<OutputInfo> outputs = local.outputs();
      outputs[o].value = other;
      AddWith(writer, "output", "output " + outputs[o].name, local.updates(), outputs);
    }
  }
  for (size_t u = 0; u < local.updates().size(); ++u) {
    const std::string what = "update of %" + local.argument_name(local.updates()[u].argument);
    std::vector<VariableUpdate> fewer = local.updates();
    fewer.erase(fewer.begin() + static_cast<int64_t>(u));
    AddWith(writer, "no update", what, fewer, local.outputs());
    for (const ValueId other : Substitutes(local, local.updates()[u].value)) {
      std::vector<VariableUpdate> updates = local.updates();
      updates[u].value = other;
      AddWith(writer, "update", what, updates, local.outputs());
    }
    ReadNew(writer, local.updates()[u], what);
    ReadOld(writer, static_cast<int>(u), what);
  }
}

}  // namespace meshwork
