// The structure of nodes with regions – loops, branches, manual regions –, as passes, texts and checks need
// it. The room control says what each kind means, and how it is built and differentiated
// (ops/control/control_flow.h, ops/control/manual.h).
//
// Pure functions, thread-safe.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/ir/graph.h"

namespace meshwork {

// The most that bodies may nest, in texts and where they are built; passes call themselves for each body.
inline constexpr int kMaxNesting = 100;

inline bool IsControl(const Node& node) { return !node.regions.empty(); }
bool IsManual(const Node& node);
// Whether the op exchanges blocks or states their layout; only manual regions have such ops.
bool IsDeviceOp(const Node& node);

// The roles of a node's operands, results and region arguments, by their numbers.
struct ControlShape {
  int first_argument = 0;     // operand i is argument i - first_argument of every region
  int carries = 0;            // arguments, from the first on; as many results
  int slices = 0;             // arguments after the carries
  int stacked = 0, sums = 0;  // outputs of a scan's region, and results after the carries
};
ControlShape ShapeOfControl(const Node& node);

// The types of the results. REQUIRES: the regions are on one mesh, as many as the row has. Errors: every
// requirement that the node does not meet; the graph puts the op and its line in front.
absl::StatusOr<std::vector<Type>> InferControl(const Node& node, const std::vector<Type>& operands);

// Appends a node with regions to a global program. Errors: InferControl's.
absl::StatusOr<int> TryAddControl(Graph& graph, Node node);

// The layout of a slice of a tensor, and of a tensor of such slices. REQUIRES: a slice is whole on a device.
Layout SliceLayout(const Layout& stacked);
Layout StackedLayout(const Layout& slice);

// Checks a node of a local program, and its regions: arguments have the layouts of the operands, a carry has
// one layout throughout, and results have the layouts that the regions leave; only values that are stacked or
// added up, and carries of a scan (CarryMayOwe), are partial; predicates are whole.
absl::Status CheckLocalControl(const Graph& local, const Node& node);

// Whether carries of the node may owe `owed`, from before the first iteration until after the last.
bool CarryMayOwe(const Node& node, const PartialSet& owed);

// Whether the regions of two nodes are the same, name by name.
bool SameRegions(const Node& a, const Node& b);

// `graph` with `pass` run on every region, inner ones first, and then on `graph` itself. Manual regions
// (ops/control/manual.h) stay as they are.
Graph WithRegions(const Graph& graph, const std::function<Graph(const Graph&)>& pass);

// The parts that a region is made of: values of the body that was built.
struct RegionParts {
  struct Part {
    // An argument of the body, or a result in it that becomes an argument; kNoValue: nothing reads it.
    ValueId value = kNoValue;
    Type type;
    bool is_variable = false;
    std::string name;  // empty: the value's
  };
  std::vector<Part> arguments;
  std::vector<VariableUpdate> updates = {};  // of these arguments
  std::vector<ValueId> outputs = {};
};
// A region with the nodes of `body` that its updates and outputs depend on. REQUIRES: they depend on no other
// argument.
Graph MakeRegion(const Graph& body, const RegionParts& parts);

}  // namespace meshwork
