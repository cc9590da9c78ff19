// The programs of a worker. Only this room uses them. Pure functions; thread-safe.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/train/parameter_server/sparse_rows.h"

namespace meshwork {

// Values of the graph, with names.
using NamedValues = std::vector<std::pair<ValueId, std::string>>;

// TrainingSplit::worker. `live`: per value, whether an output depends on it. `ids`: of the tables, one after the other,
// with the names of their inputs.
Graph WorkerProgram(const Graph& graph, const std::vector<bool>& live, const std::vector<OutputInfo>& outputs,
                    const std::vector<SparseTable>& tables, const NamedValues& ids);

// TrainingSplit::ids: these values, with the inputs that they need.
Graph IdsProgram(const Graph& graph, const NamedValues& ids);

}  // namespace meshwork
