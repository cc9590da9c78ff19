// The cut of each variable's update: which part workers compute and push, and which part servers compute from it. Only
// this room uses it.
//
// Variables that are computed of one another by row lie in one group, and on one server: a weight with its optimizer's
// state and its moving average. For each group, a minimum cut of the update's nodes, by the bytes of the values that
// cross it, finds the values to push. Of several minimum cuts, it is the one nearest to the gradients, so that servers
// compute all they can. Left of the cut may lie only nodes that workers can compute; right of it only nodes by row
// (update_facts.h). For a group that is kept in one piece, other nodes may lie right of it, too: nodes that read state,
// and nodes that no input reaches.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/ir/graph.h"
#include "meshwork/train/parameter_server/partitioners.h"
#include "meshwork/train/parameter_server/update_facts.h"

namespace meshwork {

struct VariableGroup {
  std::vector<int> arguments;  // of the graph, ascending
  int lead = -1;  // the variable that the partitioner is asked about; -1: the group of the shared scalars
  int64_t pieces = 1;
  std::vector<ValueId> pushed;  // ascending
};

struct UpdatePlan {
  std::vector<VariableGroup> groups;  // by their first variable
  VariableGroup shared;
};

// Errors: those of SplitTraining (train/parameter_server/split.h) about partitioners and updates.
absl::StatusOr<UpdatePlan> PlanUpdates(const UpdateFacts& facts, const Partitioner& partitioner);

// `"dense/kernel" (model.cc:12)`.
std::string QuotedVariable(const Graph& graph, int argument);

// Sets `group.pushed`: the values that are pushed for the group's updates. In update_cut.cc.
// `runs_here`: per node, whether servers may run it for this group.
absl::Status CutUpdates(const UpdateFacts& facts, const std::vector<bool>& runs_here, VariableGroup& group);

}  // namespace meshwork
