// A Strategy says where a training runs: on which mesh, how inputs and variables lie on it, and which processes take part.
// The code of the training stays the same.
//
//   const Strategy strategy = MirroredStrategy({.devices = 8}).value();     // the one line that changes
//   const StrategyScope scope = strategy.Scope();
//   Graph graph = NewGraph();                                                // of the strategy whose scope this is
//   const Value x = graph.Input("x", F32, {64, 784}), y = graph.Input("y", I32, {64});   // global batches
//   …a model and its loss, as for one device…
//   Session session = NewSession(graph).value();
//   const History history = Fit(session, data, {.epochs = 5}).value();
//
// The graph is that of the whole batch, and the compiler finds what each device computes: the losses are those of one
// device, also where the replicas do not divide the batch. What is written for one replica at a time, with its id and with
// collectives, is Strategy::Run (train/strategy/replica.h).
//
// A *replica* is what computes one part of each batch: a device, or, on a mesh with more axes, the devices that share a
// part. Which strategies there are says train/strategy/strategies.h.
//
// After TensorFlow's tf.distribute.Strategy (https://www.tensorflow.org/api_docs/python/tf/distribute/Strategy);
// docs/strategies.md says what is different.
//
// A Strategy is an immutable value, and copies of it are the same strategy; it may be shared between threads. Each thread has
// scopes of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/ir/graph.h"
#include "meshwork/ir/layout_rules.h"
#include "meshwork/mesh/mesh.h"
#include "meshwork/train/cluster/processes.h"
#include "meshwork/train/session/session.h"

namespace meshwork {

class CrossDeviceOps;
class PerReplica;
class ReplicaContext;
class StrategyScope;
enum class ReplicaReduce : uint8_t;

// What a replica computes of its parts of the inputs (train/strategy/replica.h).
using ReplicaFunction =
    std::function<std::vector<Value>(ReplicaContext& replica, const std::vector<Value>& parts)>;

// What a strategy is made of.
struct StrategyParts {
  std::string name;  // "MirroredStrategy"
  Mesh mesh = Mesh();
  std::vector<std::string> replica_axes = {};  // that batches are cut over; their devices are the replicas
  LayoutRules layouts = {};                    // of its graphs
  bool shard_weight_update = false;            // of its sessions (CompileOptions)
  std::shared_ptr<Processes> processes = nullptr;  // null: this process alone
  // Of its sessions, unless these name their own (ExecutorOptions); null: the compiler's own way to add up.
  std::shared_ptr<CrossDeviceOps> cross_device_ops = nullptr;
  int64_t bytes_per_pack = 0;
};

class Strategy {
 public:
  // The strategy of who chooses none: one device, nothing is cut, everything passes through. There is one.
  static const Strategy& Default();
  // A strategy of one's own; those with names are made so (train/strategy/strategies.h). Errors: an axis of replica_axes that the
  // mesh lacks, or that stands twice; an axis of `layouts.batch` or `layouts.variables` that the mesh lacks;
  // bytes_per_pack < 0, or without cross_device_ops.
  static absl::StatusOr<Strategy> Create(StrategyParts parts);

  const std::string& name() const { return parts_->name; }
  const Mesh& mesh() const { return parts_->mesh; }
  const std::vector<std::string>& replica_axes() const { return parts_->replica_axes; }
  // How many parts each batch has.
  int64_t num_replicas_in_sync() const { return num_replicas_; }
  // Whether this process writes reports and what is saved.
  bool is_chief() const { return parts_->processes == nullptr || parts_->processes->is_chief(); }
  // The processes that take part; null: this one alone.
  const Processes* processes() const { return parts_->processes.get(); }

  // An empty graph on the mesh, with the layouts of the strategy: inputs are cut along dim 0, which counts the examples,
  // unless their declaration, or LayoutRules::layouts, says otherwise.
  Graph NewGraph() const;
  // A session of this process, which computes together with the other processes of the strategy. Outputs are whole in every
  // process, as in a process that is alone, unless options.executor.distributed names them. Errors: the graph is not on the
  // strategy's mesh; those of Session::Create.
  absl::StatusOr<Session> NewSession(const Graph& graph, SessionOptions options = {}) const;

  // body(), which all processes of the strategy call; of an error here, or an exception, the others are told, so that none
  // waits for this one (Processes::Run). Alone, it is body(). Everything after the strategy was made belongs in it.
  absl::Status RunInAll(const std::function<absl::Status()>& body) const;

  // ---- The view of one replica (train/strategy/replica.h). Mistakes are recorded in the graph.

  // Runs `function` on every replica, on its part of each input; an input without dims is given whole. `rows`: i64[], how
  // many rows of the batch are real, the first ones; all, if it is left out. Returns what the function does, in its order.
  // Errors: within `function`; a graph on another mesh; inputs whose dims 0 differ; those of manual::Region.
  std::vector<PerReplica> Run(Graph& graph, const std::vector<Value>& inputs, const ReplicaFunction& function,
                              const Value& rows = {}, CallSite loc = CallSite::Current()) const;
  // The sum or the mean of what the replicas have; with `axis`, along that dim, too. Axis 0 counts rows: those that are real,
  // each once. Error: no such dim.
  Value Reduce(ReplicaReduce how, const PerReplica& value, std::optional<int64_t> axis = {},
               CallSite loc = CallSite::Current()) const;
  // What the replicas have, one after the other along a dim; of rows of the batch, as many as it has. Errors: one number per
  // replica; no such dim.
  Value Gather(const PerReplica& value, int64_t dim = 0, CallSite loc = CallSite::Current()) const;
  // Of an output of PerReplica::stacked(): the tensor of each replica.
  std::vector<Tensor> LocalResults(const Tensor& stacked) const;

  // While it lives, GetStrategy() of this thread is this strategy. Scopes nest.
  [[nodiscard]] StrategyScope Scope() const;

  // "MirroredStrategy on [replica=8], 8 replicas"
  std::string ToString() const;

  bool operator==(const Strategy& other) const { return parts_ == other.parts_; }

 private:
  friend class ReplicaRegion;
  // Error: the graph is on another mesh, wherever this one is cut.
  absl::Status CheckMesh(const Graph& graph) const;

  explicit Strategy(StrategyParts parts, int64_t num_replicas)
      : parts_(std::make_shared<const StrategyParts>(std::move(parts))), num_replicas_(num_replicas) {}

  std::shared_ptr<const StrategyParts> parts_;
  int64_t num_replicas_ = 1;
};

// REQUIRES: it ends in the thread that made it, before the scopes that were open then.
class StrategyScope {
 public:
  explicit StrategyScope(const Strategy& strategy);
  ~StrategyScope();
  StrategyScope(const StrategyScope&) = delete;
  StrategyScope& operator=(const StrategyScope&) = delete;

 private:
  const Strategy strategy_;
  const Strategy* const outer_;
};

// The strategy of the innermost scope of this thread; outside of all scopes, Strategy::Default(). Code of a library asks
// this, and works under every strategy. The reference lives as long as the scope.
const Strategy& GetStrategy();
// Whether this thread is in a scope.
bool HasStrategy();

// Those of GetStrategy().
Graph NewGraph();
absl::StatusOr<Session> NewSession(const Graph& graph, SessionOptions options = {});

}  // namespace meshwork
