// Programs that a session derives from the user's program. Internal: users of a session need none of them.
//
// Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/mesh/mesh.h"

namespace meshwork {

// The names of the variables that hold the sums of metrics (train/nn/metrics.h) begin so: "metrics/<name>/<sum>".
inline constexpr std::string_view kMetricPrefix = "metrics/";

// The program that sets every variable to its initial value; variables without an initializer to zero. With `chosen`,
// only the variables of these names.
Graph InitializerGraph(const Graph& graph, int64_t seed, const std::set<std::string>* chosen = nullptr);

// The variables that `init`, an InitializerGraph, sets by linear algebra (qr, cholesky, triangular_solve), and the
// others. The former are made on the host: its cores together decompose a matrix faster than a GPU whose kernels have
// one block per matrix.
struct InitializedWhere {
  std::set<std::string> on_host, others;
};
InitializedWhere WhereToInitialize(const Graph& init);

// The program that gives a variable whole.
Graph GatherGraph(const Graph& graph, const std::string& name);

// `graph` with a relayout in front of each output, except the distributed ones: to the output's layout in `local`,
// which was compiled from `graph`, but gathered along `across` and along strided dims. So each domain has the output,
// however the result is compiled.
Graph WithGatheredOutputs(Graph graph, const Graph& local, AxisSet across,
                          const std::set<std::string>& distributed);

// The program of an evaluation: without updates, and as it is outside of training (WithoutTraining,
// spmd/rewrite/simplify.h), with `outputs`, or all outputs if there are none, and with the inputs that these need. All
// variables stay. With `accumulates`, so do the updates of metrics' sums that the outputs depend on. REQUIRES: the
// outputs are there.
Graph EvaluationGraph(const Graph& graph, const std::vector<std::string>& outputs, bool accumulates = false);

// `graph` without the variables that its outputs do not depend on. REQUIRES: it updates none.
Graph WithoutUnreadVariables(const Graph& graph);

// Dim 0 of the program's batches: the first input's that has dims; 0 if none has.
int64_t BatchRowsOf(const Graph& graph);

// Gives the variables of `graph` the layouts that they have in `local`, which was compiled from it: those that the
// program did not pin, or left open, and state that the step shards. The mesh is then that of `local`.
void LayOutVariables(const Graph& local, Graph& graph);

}  // namespace meshwork
