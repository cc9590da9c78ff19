// Loops and branches over global values: scan, while, if.
//
// Each is a node with regions. A region is a program of its own: its variables are what is carried from one
// iteration to the next, its step is one iteration, and what it returns is what the iteration gives.
//
//   %h1, %all = scan %h0, %xs, %w length=8 slices=1 (var %h: f32[4,6], %x: f32[4,6], %w: f32[6,6]) {
//     %0 = matmul %h, %w : f32[4,6]
//     %1 = add %0, %x : f32[4,6]
//     update %h = %1
//     return %1
//   } : f32[4,6], f32[8,4,6]
//
//   scan   arguments: carries (variables), slices of the operands before which `slices` says how many there
//          are, captured values. Results: the carries after the last iteration; what is returned, stacked;
//          the last `sums` of it added up over the iterations instead.
//   while  arguments: carries, captured values. Returns whether the iteration is to run: if not, the carries
//          stay as they are. Results: the carries.
//   if     operands: the predicate, captured values, which are the arguments of both regions. Results: what
//          the region that is chosen returns.
//
// What a scan adds up may be owed while it runs: the sum over devices is made once, after the loop. A carry
// that an iteration only adds to is such a sum (Scan writes it so). So is any carry that is linear in itself
// and in sums that are owed: it owes the same sum before, in and after every iteration.
//
// The compiler lays each carry out in one way throughout; predicates are whole and proven to be the same on
// all devices, so that every device runs the same collectives.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ops/graph.h"

namespace meshwork {

// So deep do bodies nest at most, in texts and where they are built: passes call themselves for each.
inline constexpr int kMaxNesting = 100;

// ---- How a user writes them. Bodies may read any value of the program around them. A value that a body
// makes is read inside it alone: return it. Mistakes are recorded, those in a body with their own lines.

struct ScanStep {
  std::vector<Value> carries;       // for the next iteration
  std::vector<Value> stacked = {};  // one slice of each is kept of every iteration
  std::vector<Value> sums = {};     // added up over the iterations
};

struct ScanResult {
  std::vector<Value> carries;  // after the last iteration
  std::vector<Value> stacked;  // [length, ..]
  std::vector<Value> sums;
};

struct ScanOptions {
  int64_t length = -1;   // iterations; -1: as many as xs have slices
  bool reverse = false;  // the last slice first
  // The gradient keeps only the carries and slices of each iteration, and computes the rest of it again.
  bool recompute = false;
};

// Runs `body` for each slice of `xs` along their dim 0. xs: [length, ..] each; the body sees [..].
// Errors: xs of different lengths, or none and no length; a negative length; carries of other number or types
// than the initial ones; values of another program; more than kMaxNesting bodies in each other.
using ScanBody =
    std::function<ScanStep(Graph& body, const std::vector<Value>& carries, const std::vector<Value>& slices)>;
ScanResult Scan(Graph& graph, const std::vector<Value>& carries, const std::vector<Value>& xs,
                const ScanBody& body, const ScanOptions& options = {}, CallSite loc = CallSite::Current());

// Runs `body` on the carries as long as `condition` of them, a bool[], is true. Has no gradient.
using WhileCondition = std::function<Value(Graph& body, const std::vector<Value>& carries)>;
using WhileBody = std::function<std::vector<Value>(Graph& body, const std::vector<Value>& carries)>;
std::vector<Value> While(Graph& graph, const std::vector<Value>& carries, const WhileCondition& condition,
                         const WhileBody& body, CallSite loc = CallSite::Current());

// What `then` returns where `predicate`, a bool[], is true, else what `otherwise` does: values of the same
// types. Only the chosen one is computed.
using Branch = std::function<std::vector<Value>(Graph& body)>;
std::vector<Value> If(const Value& predicate, const Branch& then, const Branch& otherwise,
                      CallSite loc = CallSite::Current());

// ---- What they are made of.

inline bool IsControl(const Node& node) { return !node.regions.empty(); }

// What the numbers of operands, results and attributes of a node mean.
struct ControlShape {
  int first_argument = 0;     // operand i is argument i - first_argument of every region
  int carries = 0;            // arguments, from the first on; as many results
  int slices = 0;             // arguments after those
  int stacked = 0, sums = 0;  // outputs of a scan's region, and results after the carries
};
ControlShape ShapeOfControl(const Node& node);

// The types of the results. `regions`: as the row wants them, on one mesh. Errors: everything that the node
// must be and is not; the graph puts the op and its line in front.
absl::StatusOr<std::vector<Type>> InferControl(const Node& node, const std::vector<Type>& operands);

// Appends a node with regions to a global program. Errors: InferControl's.
absl::StatusOr<int> TryAddControl(Graph& graph, Node node);

// How a slice of a tensor lies, and a tensor of such slices. REQUIRES: a slice is whole on a device.
Layout SliceLayout(const Layout& stacked);
Layout StackedLayout(const Layout& slice);

// Checks a node of a local program, and its regions: that arguments lie as operands do, carries alike
// throughout, and results as they are left; that nothing is owed but by what is stacked or added up and by
// carries of a scan (CarryMayOwe), and that predicates are whole.
absl::Status CheckLocalControl(const Graph& local, const Node& node);

// Whether carries of the node may owe this, from before the first iteration until after the last.
bool CarryMayOwe(const Node& node, const PartialSet& owed);

// Whether the regions of two nodes are the same, name by name.
bool SameRegions(const Node& a, const Node& b);

// `graph` with `pass` run on every region, inner ones first, and then on itself. What a user wrote for each
// device (ops/manual.h) stays as it is.
Graph WithRegions(const Graph& graph, const std::function<Graph(const Graph&)>& pass);

// What a region is made of: values of the body that was built.
struct RegionParts {
  struct Part {
    // An argument of the body, or a result in it that is given from now on; kNoValue: nothing reads it.
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

// The gradients of the operands of a control node, per operand; invalid for none. Appends to the graph; may
// add results to the node. Errors: a while.
absl::StatusOr<std::vector<Value>> ControlGradients(Graph& graph, int node,
                                                    const std::vector<Value>& result_grads,
                                                    const std::vector<bool>& needed);

}  // namespace meshwork
