// A Strategy says where a training runs: on which mesh, how inputs and variables lie on it, and which processes take
// part. The code of the training stays the same.
//
//   const Strategy strategy = MirroredStrategy({.num_devices = 8}).value();     // the one line that changes
//   const StrategyScope scope = strategy.Scope();
//   Graph graph = NewGraph();                                                // of the strategy whose scope this is
//   const Value x = graph.Input("x", F32, {64, 784}), y = graph.Input("y", I32, {64});   // global batches
//   …a model and its loss, as for one device…
//   Session session = NewSession(graph).value();
//   const History history = Fit(session, data, {.epochs = 5}).value();
//
// The graph is that of the whole batch, and the compiler finds what each device computes: the losses are those of one
// device, also where the replicas do not divide the batch. Strategy::Run (train/strategy/replica.h) is for code that is
// written for one replica, with its id and with collectives.
//
// A *replica* computes one part of each batch. It is a device or, on a mesh with more axes, the devices that share a
// part. train/strategy/strategies.h lists the strategies.
//
// After TensorFlow's tf.distribute.Strategy (https://www.tensorflow.org/api_docs/python/tf/distribute/Strategy);
// docs/strategies.md says what is different.
//
// A Strategy is an immutable value, and copies of it are the same strategy; it may be shared between threads. Each
// thread has scopes of its own.
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
#include "meshwork/session/session.h"
#include "meshwork/train/cluster/processes.h"

namespace meshwork {

class Backend;
class CrossDeviceOps;
class PerReplica;
class ReplicaContext;
class StrategyScope;
enum class ReplicaReduce : uint8_t;

// Builds the results of a replica from its parts of the inputs (train/strategy/replica.h).
using ReplicaFunction =
    std::function<std::vector<Value>(ReplicaContext& replica, const std::vector<Value>& parts)>;

// The parts of a strategy.
struct StrategyParts {
  std::string name;  // "MirroredStrategy"
  Mesh mesh = Mesh();
  std::vector<std::string> replica_axes = {};      // batches are cut over them; each position is a replica
  LayoutRules layouts = {};                        // of its graphs
  bool shard_weight_update = false;                // of its sessions (CompileOptions)
  std::shared_ptr<Processes> processes = nullptr;  // null: this process alone
  // For its sessions, unless their ExecutorOptions have their own. Null: the compiler chooses how sums are made.
  std::shared_ptr<CrossDeviceOps> cross_device_ops = nullptr;
  int64_t bytes_per_pack = 0;
  // What its sessions compute on, unless their SessionOptions have a backend, or devices other than "cpu". Null: as these say.
  std::shared_ptr<Backend> backend = nullptr;
};

class Strategy {
 public:
  // The strategy of code that chooses none: one device, and nothing is cut or exchanged. Always the same object.
  static const Strategy& Default();
  // A custom strategy; the named ones (train/strategy/strategies.h) are made by this function, too. Errors: an axis of
  // replica_axes, `layouts.batch` or `layouts.variables` that the mesh lacks, or that stands twice in its list;
  // bytes_per_pack < 0, or without cross_device_ops.
  static absl::StatusOr<Strategy> Create(StrategyParts parts);

  const std::string& name() const { return parts_->name; }
  const Mesh& mesh() const { return parts_->mesh; }
  const std::vector<std::string>& replica_axes() const { return parts_->replica_axes; }
  // How many parts each batch has.
  int64_t num_replicas_in_sync() const { return num_replicas_; }
  // Whether this is the process that writes reports and saved files.
  bool is_chief() const { return parts_->processes == nullptr || parts_->processes->is_chief(); }
  // The processes that take part; null: this one alone.
  const Processes* processes() const { return parts_->processes.get(); }

  // An empty graph on the mesh, with the layouts of the strategy: inputs are cut along dim 0, which counts the
  // examples, unless their declaration, or LayoutRules::layouts, says otherwise.
  Graph NewGraph() const;
  // A session of this process, which computes together with the other processes of the strategy. Outputs are whole in
  // every process, as in a process that is alone, unless options.executor.distributed names them. Errors: the graph is
  // not on the strategy's mesh; those of Session::Create.
  absl::StatusOr<Session> NewSession(const Graph& graph, SessionOptions options = {}) const;

  // Returns body(). All processes of the strategy call this. If body fails or throws here, the other processes are
  // told, so that none waits for this one (Processes::Run). All work after the strategy is made belongs in `body`.
  absl::Status RunInAll(const std::function<absl::Status()>& body) const;

  // ---- The view of one replica (train/strategy/replica.h). Mistakes are recorded in the graph.

  // Runs `function` on every replica, on its part of each input; an input without dims is given whole. `rows`: i64[],
  // how many rows of the batch are real; these come first. Without `rows`, all are. Returns the results of the
  // function, in order.
  // Errors: within `function`; a graph on another mesh; inputs whose dims 0 differ; those of manual::Region.
  std::vector<PerReplica> Run(Graph& graph, const std::vector<Value>& inputs, const ReplicaFunction& function,
                              const Value& rows = {}, CallSite loc = CallSite::Current()) const;
  // The sum or the mean of the replicas' values; with `axis`, along that dim, too. Axis 0 is the rows: each real row
  // counts once, and padding does not. Error: no such dim.
  Value Reduce(ReplicaReduce how, const PerReplica& value, std::optional<int64_t> axis = {},
               CallSite loc = CallSite::Current()) const;
  // The replicas' values, one after the other along a dim. If that dim is the rows of the batch, the result has as
  // many as the batch. Errors: one number per replica; no such dim.
  Value Gather(const PerReplica& value, int64_t dim = 0, CallSite loc = CallSite::Current()) const;
  // The tensor of each replica. `stacked`: an output of PerReplica::stacked().
  std::vector<Tensor> LocalResults(const Tensor& stacked) const;

  // While it lives, GetStrategy() of this thread is this strategy. Scopes nest.
  [[nodiscard]] StrategyScope Scope() const;

  // "MirroredStrategy on [replica=8], 8 replicas"
  std::string ToString() const;

  bool operator==(const Strategy& other) const { return parts_ == other.parts_; }

 private:
  friend class ReplicaRegion;
  // Error: the graph is on a mesh with other axes. How axes are cut into parts does not matter.
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

// The strategy of the innermost scope of this thread; outside of all scopes, Strategy::Default(). Library code that
// calls this works under every strategy. The reference lives as long as the scope.
const Strategy& GetStrategy();
// Whether this thread is in a scope.
bool HasStrategy();

// NewGraph and NewSession of GetStrategy().
Graph NewGraph();
absl::StatusOr<Session> NewSession(const Graph& graph, SessionOptions options = {});

}  // namespace meshwork
