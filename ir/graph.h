// A Graph is a tensor program: arguments (inputs and variables), nodes, updates, outputs.
//
// The same class holds the *global* program a user builds (types are whole tensors; layouts are
// pins, present only where the user cares) and the *local* program each device runs (types are
// block shapes, each value with the global type and layout it is a part of).
//
//   Graph g(mesh);
//   Value x = g.Input("x", F32, {128, 784}, {"batch", UNSHARDED});
//   Variable w = g.Var("w", GlorotUniform({784, 10}), {UNSHARDED, UNSHARDED});
//   g.Output("y", Relu(MatMul(x, w)));
//
// A builder mistake is recorded; the result is an invalid Value that later calls pass on silently, and
// status() reports all mistakes at once. No builder call aborts, and none throws, except std::bad_alloc when
// memory runs out.
//
// Handles (Value, Variable) follow their graph when it is moved or returned from a function. A copy is a
// graph of its own, without handles. When a graph is destroyed, its handles become invalid. A Graph may be
// read from several threads, but built from only one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "meshwork/base/call_site.h"
#include "meshwork/base/shared_text.h"
#include "meshwork/base/stable_vector.h"
#include "meshwork/ir/attrs.h"
#include "meshwork/ir/layout_rules.h"
#include "meshwork/ir/type.h"
#include "meshwork/layout/layout.h"
#include "meshwork/mesh/mesh.h"

namespace meshwork {

class Graph;
struct OpRow;

// Where a node comes from: the user's C++ line, or a line of program text.
struct SourceLocation {
  SharedText file;
  int line = 0;
  // The meshwork function that the user called there, if errors would otherwise name an op that the function
  // is made of; else null.
  const char* within = nullptr;
  SharedText scope;  // the NameScope (ir/name_scope.h) of the node: "block3/attention"; empty: none

  SourceLocation() = default;
  SourceLocation(CallSite site);  // NOLINT: implicit; keeps the file's base name
  SourceLocation(SharedText file, int line) : file(std::move(file)), line(line) {}
  std::string ToString() const;  // "model.cc:41", "model.cc:41 in block3", or "" where unknown
};

// Whether an input, a variable or an output may be called this: a letter or _ followed by letters, digits
// and any of _ . / -, without the // that opens a comment.
bool IsArgumentName(std::string_view name);

using ValueId = int32_t;
inline constexpr ValueId kNoValue = -1;

namespace internal {

// Where a graph is, for the handles to its values. Null when the graph is gone.
struct GraphAnchor {
  Graph* graph = nullptr;
};

}  // namespace internal

// A place along a dim, and the line that asks for it: x[i].
struct ElementIndex {
  ElementIndex(int64_t index, CallSite site = CallSite::Current()) : index(index), site(site) {}  // NOLINT

  int64_t index;
  CallSite site;
};

// Handle to a value of a graph; cheap to copy. A default Value is invalid, and so is the result of a mistake.
class Value {
 public:
  Value() = default;
  Value(Graph* graph, ValueId id);
  bool valid() const;
  // Whether its graph has been destroyed or assigned to; then the value is invalid.
  bool is_lost() const { return anchor_ != nullptr && anchor_->graph == nullptr; }
  // Null if there is no graph.
  Graph* graph() const { return anchor_ == nullptr ? nullptr : anchor_->graph; }
  ValueId id() const { return id_; }
  // The reference stays valid while the graph grows. The type of an invalid value is f32 with kMaxRank dims
  // of size 1, so that code that reads sizes goes on until the mistake is reported.
  const Type& type() const;
  const Shape& shape() const { return type().shape; }
  // The layout of an input or a variable, or the pin of another value, in the form that a declaration takes:
  //   Variable momentum = g.Var("momentum", Zeros(w.shape()), w.layout());
  // {} if there is none. Session::LayoutOf returns the layout that the compiler gave the value.
  LayoutSpec layout() const;
  DType dtype() const { return type().dtype; }
  int rank() const { return type().rank(); }

  // x: [n,..] -> [..], the slice at i along dim 0; a negative i counts from the end. Error: there is no such slice.
  Value operator[](ElementIndex i) const;

 private:
  std::shared_ptr<const internal::GraphAnchor> anchor_;
  ValueId id_ = kNoValue;
};

// A value that outlives the step; reads see the old value (see Graph::Update).
class Variable : public Value {
 public:
  using Value::Value;
};

// What a variable holds at the start: its type, and the nodes that compute the value, in a graph of their
// own.
struct Initializer {
  Type type;
  // `seed` is the run's; `stream` differs per variable, so that equal shapes do not get equal random numbers.
  std::function<Value(Graph& graph, const Type& type, int64_t seed, int64_t stream)> build;
};

// Whether the compiler may gather a value whole on every device, where an op cannot run on its blocks.
enum class Gathering : uint8_t {
  kWithinBudget,  // up to CompileOptions::replication_budget; beyond it the compile is refused
  kAllowed,       // of any size
  // For a variable: its layout says only where it is kept. Each op that cannot run on its blocks gathers it
  // just before, for itself alone; values that are computed from it alone are kept in blocks, too
  // (spmd/rewrite/gather_on_use.h).
  kOnUse,
};
// As texts write it: "gather=allowed". REQUIRES: not kWithinBudget, which texts leave out.
std::string_view GatheringName(Gathering gather);  // "allowed", "on_use"

// What a graph knows about one of its values.
struct ValueInfo {
  std::string name;                       // "x" of %x; empty: the printer numbers it
  Type type;                              // in a local program: the block each device holds
  Type global;                            // the value it is part of; == type in a global program
  std::optional<Layout> layout;           // a pin in the user's program; always there once propagated
  absl::InlinedVector<DimMode, 4> modes;  // of a pin with open dims, see LayoutPin; else empty
  Gathering gather = Gathering::kWithinBudget;
  int node = -1;  // defining node, -1 for an argument
  SourceLocation location;
};

// One op of a program, with its operands and results.
struct Node {
  const OpRow* row = nullptr;
  absl::InlinedVector<ValueId, 4> operands;
  absl::InlinedVector<ValueId, 4> results;
  Attrs attrs;
  SourceLocation location;
  SharedText cause;  // why the compiler put it here; empty for the user's own
  // The bodies of a loop or a branch: programs of their own, never changed in place (ops/control/control_flow.h).
  std::vector<std::shared_ptr<const Graph>> regions = {};
};

// An input or a variable of a program.
struct Argument {
  ValueId value = kNoValue;
  bool is_variable = false;
  std::optional<Initializer> initializer;
  bool is_trainable = true;  // VarOptions::trainable, while the program is built
};

// The place of a body's random numbers in a larger whole: each tensor that the body draws is one part of a whole
// tensor. Values are i64[] each, of the body or of a graph around it.
struct RandomPlace {
  // The numbers of the iterations of the loops around, the outer ones first: each has a seed of its own.
  std::vector<Value> iterations = {};
  // Row k of dim 0, of d rows, is row (block d + k) parts + part of the whole. An invalid value: block 0, or part 0 of
  // 1.
  Value block, part, parts;
};

// The whole batch, for a body that a replica runs on its part of it. x: [part,…], of the body.
struct BatchView {
  // The mean of x over `dims`, which include 0 and are kept, over the real rows of all parts; x must have as many rows
  // as the part, or the parts no rows that fill them up. Error, recorded in the body.
  std::function<Value(const Value& x, const std::vector<int64_t>& dims)> mean;
  // The number of elements that `mean` averages, as a scalar of `dtype`.
  std::function<Value(const Value& x, const std::vector<int64_t>& dims, DType dtype)> count;
  // Makes `variable`, of the enclosing graph, hold next(now) after the step. `now` is its old value, or the result of
  // an earlier call for the same variable. next(now) must be the same on all replicas.
  std::function<void(const Variable& variable, const std::function<Value(const Value& now)>& next)> update;
};

struct VarOptions {
  Gathering gather = Gathering::kWithinBudget;
  bool trainable =
      true;  // false: optimizers leave it as it is, such as the weights below a layer that is tuned
};

// What a variable holds after the step.
struct VariableUpdate {
  int argument;                  // index into arguments()
  ValueId value;                 // what it holds after the step
  SourceLocation location = {};  // of Graph::Update
};

// A result of the step.
struct OutputInfo {
  std::string name;  // may be empty in text programs
  ValueId value;
};

// `attrs` of a node of a program on `from`, for the same program on `from` cut further.
Attrs OnMesh(Attrs attrs, const Mesh& from, const Mesh& finer);

// The dtypes of layers (train/nn/layers.h) that state no others: the dtype that they compute in, and the dtype of their
// variables. With compute = BF16 they cast inputs and weights where they use them, so that products take half the
// memory and half the bytes between devices, while weights and optimizer state stay in f32 (docs/mixed-precision.md).
struct Precision {
  DType compute = F32;
  DType variables = F32;
};

namespace internal {

// The members of a graph, except those that refer to its place in memory.
struct GraphParts {
  explicit GraphParts(Mesh mesh) : mesh_(std::move(mesh)) {}

  std::string name = "step";
  // Names that are taken, so that a declaration need not search all earlier ones. They include the first
  // `count` arguments or outputs; more may have been added in another way since.
  struct Names {
    std::unordered_set<std::string> taken;
    size_t count = 0;
  };
  Mesh mesh_;
  std::vector<Node> nodes_;
  StableVector<ValueInfo> values_;
  std::vector<Argument> arguments_;
  std::vector<VariableUpdate> updates_;
  std::vector<OutputInfo> outputs_;
  std::vector<bool> is_updated_;  // per argument, as far as one is updated
  Names argument_names_, output_names_;
  std::vector<std::string> errors_;
  bool is_moved_ = false;  // to another graph
  bool is_closed_ = false;
  bool is_manual_ = false;
  bool is_nowhere_ = false;
  std::vector<std::pair<ValueId, ValueId>> captured_;
  LayoutRules rules_;
  SourceLocation rules_location_;  // of SetLayouts
  Precision precision_;
};

}  // namespace internal

class Graph : private internal::GraphParts {
 public:
  explicit Graph(Mesh mesh) : GraphParts(std::move(mesh)) {}
  // A graph of its own: handles to values of `other` stay with `other`.
  Graph(const Graph& other) : GraphParts(other) {}
  Graph& operator=(const Graph& other);
  // Handles go along. `other` is left empty, and its status() says so; handles to values that this graph had
  // become invalid.
  Graph(Graph&& other) noexcept;
  Graph& operator=(Graph&& other) noexcept;
  ~Graph();

  // The mesh, cut where sub-axes in the program's layouts begin and end.
  const Mesh& mesh() const { return mesh_; }
  using GraphParts::name;

  // The op that this graph is a body of: "scan (model.cc:4)"; "" for a whole program.
  const std::string& body_of() const { return owner_; }

  // ---- Building the global program. Mistakes are recorded (see status()).

  // Sets the layouts of inputs and variables that are declared from now on without a layout of their own, and the
  // meaning of axes that the mesh lacks (ir/layout_rules.h). Errors: an input or a variable is there already; with
  // status(): those of CheckLayouts.
  void SetLayouts(LayoutRules rules, CallSite loc = CallSite::Current());

  // Declares a tensor fed at every step. `layout`: {} is what SetLayouts says; whole on every device if it says
  // nothing. Errors: a repeated or malformed name, a negative size, a layout of other rank or with unknown axes.
  Value Input(std::string_view name, DType dtype, const Shape& shape, const LayoutSpec& layout = {},
              CallSite loc = CallSite::Current());
  // Declares state; in a NameScope (ir/name_scope.h), "SCOPE/NAME". Errors as Input's.
  Variable Var(std::string_view name, Initializer initializer, const LayoutSpec& layout = {},
               CallSite loc = CallSite::Current());
  Variable Var(std::string_view name, Initializer initializer, const LayoutSpec& layout,
               const VarOptions& options, CallSite loc = CallSite::Current());
  // Pins the layout of a value: the op that computes the value leaves it in this layout. A Relayout (ops.h)
  // is a step of the program instead; before it, the value may have another layout. Errors: a value that is
  // pinned already; for the layout, Input's.
  void Pin(const Value& value, const LayoutSpec& layout, CallSite loc = CallSite::Current());
  // `variable` holds `value` after the step. Every read in the program sees the old value; to use the new
  // value, read `value`. Errors: types differ, a second update of one variable, handles of another graph.
  void Update(const Variable& variable, const Value& value, CallSite loc = CallSite::Current());
  // The path of the open NameScopes (ir/name_scope.h): "tower/block3"; empty if none is open.
  const std::string& scope() const { return scope_; }
  // Names a result of the step. Errors: a repeated or malformed name, a value of another graph.
  void Output(std::string_view name, const Value& value, CallSite loc = CallSite::Current());

  // For the layers that are added from now on. Errors: a dtype other than f32, f64 and bf16.
  void SetPrecision(const Precision& precision, CallSite loc = CallSite::Current());
  const Precision& precision() const { return precision_; }

  // All recorded mistakes as one InvalidArgument, one per line; OK if there are none.
  absl::Status status() const;
  void RecordError(std::string message) { errors_.push_back(std::move(message)); }
  const std::vector<std::string>& errors() const { return errors_; }

  // ---- Bodies of loops and branches, while they are built (ops/control/control_flow.h).

  // The pin that a user writes as `spec`, on this mesh. Errors: those of LayoutPin::Create.
  absl::StatusOr<LayoutPin> MakePin(const LayoutSpec& spec) const;
  // A new body inside this graph, which owns it. Values of this graph that nodes of the body read become
  // arguments of the body. Nothing may be added to a closed body. `owner`: what it is the body of, for
  // messages.
  Graph& AddBody(std::string owner);
  void CloseBody() {
    is_closed_ = true;
    make_random_place_ = nullptr;
    random_place_.reset();
    mean_weight_ = nullptr;
    batch_view_ = nullptr;
  }
  // A body whose nodes and mistakes do not matter: every node added to it silently gives invalid values.
  static Graph Nowhere();
  // Whether this is the body of a manual region (ops/control/manual.h).
  void SetManual() { is_manual_ = true; }
  bool is_manual() const { return is_manual_; }
  // Where this body's random numbers lie. `make` is called when a random op first asks, and may add to the body.
  void SetRandomPlace(std::function<RandomPlace()> make) { make_random_place_ = std::move(make); }
  // The place that SetRandomPlace gave, or else that of the enclosing graph; empty if no graph has one.
  RandomPlace random_place();
  // How the weights of the parts of a batch are averaged, for a body that runs on each part.
  void SetMeanWeight(std::function<Value(const Value& weight)> average) { mean_weight_ = std::move(average); }
  // The mean of `weight`, such as the number of rows that count, over all parts of the batch. If each part divides its
  // sum by this mean, the mean of the quotients over the parts is the mean over the whole batch. Returns `weight`
  // itself if its graph is not the body of a part. Error, recorded: its graph is another body within a part.
  static Value MeanWeight(const Value& weight, const SourceLocation& location);
  // For the body that each replica runs on its part of a batch. Null for all other graphs, including bodies within that
  // body.
  void SetBatchView(BatchView view) { batch_view_ = std::make_shared<const BatchView>(std::move(view)); }
  const BatchView* batch_view() const { return batch_view_.get(); }
  // The graph that encloses this body; null if there is none.
  const Graph* enclosing() const { return outer_; }
  // How many graphs enclose this one.
  int depth() const { return is_nowhere_ ? INT32_MAX / 2 : outer_ == nullptr ? 0 : outer_->depth() + 1; }
  // `value` as this graph sees it: itself, or the argument that stands for it; adds the argument if it is not
  // there yet. Invalid if `value` belongs neither to this graph nor to one that encloses it.
  Value Capture(const Value& value);
  // The values of the enclosing graph that arguments stand for: (outer, inner), in the order of the
  // arguments.
  const std::vector<std::pair<ValueId, ValueId>>& captured() const { return captured_; }

  // ---- Adding nodes, for op builders, the parser and passes.

  // Appends a node of a global program: fills attribute defaults, infers the result types. On an
  // error records it and returns invalid values; silently so if an operand is invalid.
  std::vector<Value> Add(std::string_view op, std::span<const Value> operands, const Attrs& attrs,
                         SourceLocation location);
  // As Add, returning the error instead.
  absl::StatusOr<int> TryAdd(const OpRow& row, std::span<const ValueId> operands, const Attrs& attrs,
                             SourceLocation location);
  // `given`, checked against the row, in the row's order and with its defaults. Errors: unknown, missing or
  // mistyped attributes.
  static absl::StatusOr<Attrs> CompleteAttrs(const OpRow& row, const Attrs& given);
  // Puts the program on `finer`. REQUIRES: `finer` is mesh(), cut further or not at all.
  void CutMesh(const Mesh& finer);
  // Appends a node whose result infos are known, as in local programs.
  int AddNode(Node node, std::vector<ValueInfo> results);
  // Appends a copy of `node` of `from`, another graph, with its results' infos. Its operands are still values of
  // `from`.
  int AddCopy(const Graph& from, const Node& node);
  // Makes room for so many nodes in all.
  void Reserve(size_t nodes) { nodes_.reserve(nodes); }
  // Gives a node more results, in front of its result `at`.
  std::vector<ValueId> InsertResults(int node, size_t at, std::vector<ValueInfo> results);
  ValueId AddArgument(ValueInfo info, bool is_variable, std::optional<Initializer> initializer = {});
  void AddUpdate(VariableUpdate update);
  void ClearUpdates();
  void ClearOutputs();
  void AddOutput(OutputInfo output) { outputs_.push_back(std::move(output)); }

  // ---- Reading.

  const std::vector<Node>& nodes() const { return nodes_; }
  // References to values stay valid when values are added.
  const StableVector<ValueInfo>& values() const { return values_; }
  const ValueInfo& value(ValueId id) const { return values_[id]; }
  ValueInfo& mutable_value(ValueId id) { return values_[id]; }
  Node& mutable_node(int i) { return nodes_[i]; }
  const std::vector<Argument>& arguments() const { return arguments_; }
  const std::vector<VariableUpdate>& updates() const { return updates_; }
  const std::vector<OutputInfo>& outputs() const { return outputs_; }
  std::vector<Variable> variables();
  // Index into arguments() of the argument with this name, or -1.
  int FindArgument(std::string_view name) const;
  const std::string& argument_name(int i) const { return values_[arguments_[i].value].name; }
  // How errors name a node: "matmul (model.cc:41)", "reshape of MeanOverMicrobatches (model.cc:41)".
  std::string Describe(int node) const;
  std::string Describe(std::string_view op, const SourceLocation& location) const;

 private:
  // Appends a result of `node`, which is about to be appended.
  void AddResult(Node& node, ValueInfo info);
  absl::StatusOr<Value> TryArgument(std::string_view kind, std::string_view name, const Type& type,
                                    const LayoutSpec& spec, bool is_variable,
                                    std::optional<Initializer> initializer, const SourceLocation& location);

  absl::Status CheckRules() const;
  // The pin for a value of this type; cuts the mesh where the spec needs it.
  absl::StatusOr<LayoutPin> ResolvePin(const LayoutSpec& spec, const Type& type);
  void RecordMissing(const std::string& where, const Value& value);

  bool IsArgumentTaken(const std::string& name);
  bool IsOutputTaken(const std::string& name);
  // Why `value` cannot be read here: "the value was made in the body of scan (model.cc:4); return it from
  // there."
  std::string WhyForeign(const Value& value, std::string_view what) const;

  // Makes all handles that were given out invalid.
  void DropHandles();
  // Takes the members that refer to `other`'s place in memory, and leaves `other` empty.
  void TakePlace(Graph& other);
  const std::shared_ptr<internal::GraphAnchor>& anchor();
  friend class Value;

  std::shared_ptr<internal::GraphAnchor> anchor_;   // made for the first handle
  Graph* outer_ = nullptr;                          // of a body that is being built
  std::string owner_;                               // of a body: what it is the body of
  std::vector<std::shared_ptr<Graph>> bodies_;      // handles may still point into them
  std::function<RandomPlace()> make_random_place_;  // of a body that is being built
  std::optional<RandomPlace> random_place_;         // made by it
  std::function<Value(const Value&)> mean_weight_;  // of a body of parts that is being built
  std::shared_ptr<const BatchView> batch_view_;     // of a body that is being built
  friend class LocationScope;
  const SourceLocation* location_override_ = nullptr;
  friend class NameScope;
  SharedText scope_;  // of the open NameScopes
};

// While it lives, nodes added through Add get the source location `location`: a composite's nodes the line
// where the user called it, a gradient's nodes the line of the forward op. The outermost scope wins.
class LocationScope {
 public:
  LocationScope(Graph& graph, SourceLocation location)
      : graph_(graph), location_(std::move(location)), outer_(graph.location_override_) {
    if (outer_ == nullptr) graph_.location_override_ = &location_;
  }
  ~LocationScope() { graph_.location_override_ = outer_; }
  LocationScope(const LocationScope&) = delete;
  LocationScope& operator=(const LocationScope&) = delete;

 private:
  Graph& graph_;
  SourceLocation location_;
  const SourceLocation* outer_;
};

namespace internal {
const Type& TypeOfNoValue();
}

inline const std::shared_ptr<internal::GraphAnchor>& Graph::anchor() {
  if (anchor_ == nullptr) anchor_ = std::make_shared<internal::GraphAnchor>(internal::GraphAnchor{this});
  return anchor_;
}

inline Value::Value(Graph* graph, ValueId id) : id_(id) {
  if (graph != nullptr) anchor_ = graph->anchor();
}
inline bool Value::valid() const {
  const Graph* const graph = this->graph();
  return graph != nullptr && id_ >= 0 && static_cast<size_t>(id_) < graph->values().size();
}
inline const Type& Value::type() const {
  return valid() ? graph()->value(id_).type : internal::TypeOfNoValue();
}

}  // namespace meshwork
