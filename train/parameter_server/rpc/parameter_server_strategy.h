// ParameterServerStrategy: workers compute gradients, each at its own pace; parameter servers keep the variables and
// update them; a chief says what is to be done.
//
//   // The same main in every process; TF_CONFIG says which one this is.
//   MESHWORK_ASSIGN_OR_RETURN(const ParameterServerStrategy strategy,
//                             ParameterServerStrategy::Create({.folder = "runs/a/servers"}));
//   Graph graph;                                             // of a worker's batch; loss, Minimize and outputs as ever
//   …
//   return strategy.Run(
//       graph,
//       [&](const InputContext& worker) -> absl::StatusOr<Pipeline> {                        // in each worker
//         return Pipeline::From(digits).Shard(worker.input_pipeline_id, worker.num_input_pipelines).Shuffle(1000, 7).Batch(64);
//       },
//       [&](ParameterServerTraining& training) -> absl::Status {                             // in the chief
//         MESHWORK_ASSIGN_OR_RETURN(const History history, training.Fit({.epochs = 5, .steps_per_epoch = 200}));
//         MESHWORK_ASSIGN_OR_RETURN(Session* const trained, training.Snapshot());
//         return Evaluate(*trained, test).status();
//       });
//
// A *step* is one push of one worker: the gradients of a batch. Steps have numbers, 1, 2, …, and every server remembers
// which ones it has applied. So a step is applied once, whatever happens. If a worker is lost, another one makes its
// step, and a server that has applied the step already ignores it. A server that was started again, from its newest
// checkpoint, gets the steps again that it has lost. A chief that was started again asks the servers which steps they
// have. (A step that is made again has another batch.) meshwork supervise starts processes again.
//
// train/parameter_server/split.h says how a program is cut; shard_store.h says what asynchronous and synchronous mean.
//
// After tf.distribute.ParameterServerStrategy; docs/parameter-servers.md says what is different. Source: Li et al.,
// "Scaling Distributed Machine Learning with the Parameter Server", OSDI 2014.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/ir/graph.h"
#include "meshwork/mesh/cluster.h"
#include "meshwork/session/session.h"
#include "meshwork/train/cluster/stop_signals.h"
#include "meshwork/train/data/pipeline.h"
#include "meshwork/train/fit/callbacks.h"
#include "meshwork/train/fit/epoch_callbacks.h"
#include "meshwork/train/fit/history.h"
#include "meshwork/train/fit/output_means.h"
#include "meshwork/train/parameter_server/metric_totals.h"
#include "meshwork/train/parameter_server/partitioners.h"
#include "meshwork/train/parameter_server/rpc/coordinator.h"
#include "meshwork/train/parameter_server/rpc/options.h"
#include "meshwork/train/parameter_server/served_session.h"
#include "meshwork/train/parameter_server/split.h"
#include "meshwork/train/strategy/distribute.h"

namespace meshwork {

struct ParameterServerOptions {
  std::string cluster = "auto";  // JoinOptions::cluster
  Partitioner partitioner = {};  // null: every variable is in one piece
  // ShardStoreOptions::initial: values that replace the initializers of variables, such as weights that were trained
  // before. Only servers read it.
  std::map<std::string, Tensor> initial = {};
  // ShardStoreOptions: how old gradients may be, and the number of gradients that make an update of synchronous
  // servers. Workers beyond that number are backups: nobody waits for the slowest.
  std::optional<int64_t> max_staleness = {};
  int64_t gather = 0;
  // The folder of the servers' checkpoints. Each server writes on its host, and continues from the newest one when it
  // is started again. "": there are no checkpoints, and a lost server ends the training.
  std::string folder = {};
  int64_t save_every = 1000;  // steps, >= 1
  int64_t keep = 3;           // checkpoints of each server, >= 1
  // An empty token is taken from MESHWORK_TOKEN; TLS without files from MESHWORK_TLS_CERTIFICATE, … (TlsFilesOf). The
  // deadline is the time to wait for a server that is away.
  RpcOptions rpc = {};
  // How long the chief waits while no worker answers.
  std::chrono::milliseconds worker_deadline = std::chrono::minutes(10);
  SessionOptions session = {};  // of workers, servers and snapshots
};

struct ParameterServerFitOptions {
  int64_t epochs = 1;
  int64_t steps_per_epoch = 0;  // of all workers together, >= 1
  // Evaluated after each epoch; its outputs are called "val_loss", ….
  std::optional<Pipeline> validation_data = {};
  // A line per epoch, and those of callbacks; null: to standard error.
  std::function<void(std::string_view line)> log = {};
  // Callbacks as of a session's Fit (train/fit/fit.h): EarlyStopping, CsvLog, TensorBoardLog, BestCheckpoint,
  // LastCheckpoint, Lambdas. There is no OnStepEnd, as workers make the steps. FitState::session() is a Snapshot() of
  // the end of the last epoch. Callbacks that need more are refused (Callback::CheckServed).
  std::vector<CallbackPtr> callbacks = {};
  // Called after each epoch in which steps were made, for example to save a Snapshot(). If it returns an error, Fit
  // ends with it.
  std::function<absl::Status(const EpochLog& epoch)> after_epoch = {};
  // Whether to stop: no more steps begin then, and the servers save. After CatchStopSignals, Ctrl-C and SIGTERM ask for
  // it. Null: never.
  std::function<bool()> stop = IsStopAsked;
};

// The training, as the chief sees it. Not thread-safe.
class ParameterServerTraining {
 public:
  // The number of steps, from 1 on, that all servers have taken without a gap.
  absl::StatusOr<int64_t> StepsDone();
  // The number of updates of each server: one for each step that it has applied, or one for each `gather` steps.
  absl::StatusOr<std::vector<int64_t>> Updates();
  // Has workers make the steps of 1 to `steps` that not all servers have applied. Saves after each save_every-th.
  // Returns the means of the scalar outputs over the steps that were made, and metrics (train/nn/metrics.h) of these
  // steps alone, each counted once; for an output that is computed of a metric and of something else, the value of the
  // last step. Errors: one of a step, such as its data's; a server or all workers are away for longer than their
  // deadline; a server has lost steps that none of its checkpoints has; `steps` is no multiple of
  // ParameterServerOptions::gather.
  absl::StatusOr<Metrics> Train(int64_t steps);
  // Train, epoch by epoch; what was applied before counts. An epoch in which no step was left to be made, or which
  // something stopped before its end, is not in the history. Errors, besides: an option is out of range; those of
  // Evaluate, EpochCallbacks and after_epoch. The log then says how to go on.
  absl::StatusOr<History> Fit(const ParameterServerFitOptions& options);
  // Schedules one step on these feeds. Some worker makes it, at values that include all steps whose results are there.
  // Fetch gives the number of its examples, i64[]; then the outputs, by their names in alphabetical order; and last the
  // version of each server after the step, i64[servers]. If a server loses the step, nobody has the feeds any more: the
  // next Train makes another step of this number. After a restart of the chief, a step that still runs for the last
  // chief may take the number; then this step changes nothing.
  absl::StatusOr<RemoteValue> Step(const Feeds& feeds);

  // A session of the whole program, with the variables as the servers have them now. It can be evaluated (Evaluate),
  // predict, and be saved as other sessions are, with steps_done() as its step, for EvaluateCheckpoints
  // (train/fit/evaluator.h) or to be served. If it is trained, the servers do not change. After Train and Fit its
  // metrics have the sums of the last Train, or the last epoch; the sums of the servers run on. Valid until the next
  // call. Errors: those of Session::Create and of the servers.
  absl::StatusOr<Session*> Snapshot();
  // All servers write a checkpoint, now. Error: there is no folder; those of ShardStore::Save.
  absl::Status Save();

  // For closures of the user's own, which run beside the steps: those of the registry given to Run.
  ClusterCoordinator& coordinator() { return *coordinator_; }

 private:
  friend class ParameterServerStrategy;
  ParameterServerTraining(const Graph& graph, const ParameterServerOptions& options)
      : graph_(graph), options_(options), metrics_(graph) {}

  // The results of steps on the workers' data. A step that is made again, because a server lost it, is not counted
  // again.
  struct StepsMade {
    OutputMeans means;
    std::set<int64_t> numbers = {};
  };

  absl::Status Begin(const Cluster& cluster, const TrainingSplit& split);
  // Train; but if `stops` is not null and says so, stops and returns nothing.
  absl::StatusOr<std::optional<Metrics>> TrainUnless(const std::function<bool()>& stops, int64_t steps);
  absl::StatusOr<History> FitEpochs(const ParameterServerFitOptions& options, bool& has_begun);
  // Returns whether the epoch was not stopped.
  absl::StatusOr<bool> FitEpoch(const ParameterServerFitOptions& options, int64_t epoch,
                                EpochCallbacks& calls);
  // Has all servers save that are there. If all are there, returns how many steps they have.
  absl::StatusOr<std::optional<int64_t>> SaveAtStop();
  void SayWhatBegins(const ParameterServerFitOptions& options, int64_t done) const;
  void SayHowToGoOn() const;
  absl::Status LostError(size_t server) const;
  // Without checkpoints: checks that no server was started again.
  absl::Status CheckLives();
  // The numbers of 1 to `steps` that a server has not taken.
  absl::StatusOr<std::vector<int64_t>> Missing(int64_t steps);
  // Returns whether all steps were made; if not, `stops` has said so.
  absl::StatusOr<bool> MakeSteps(const std::vector<int64_t>& numbers, const std::function<bool()>& stops,
                                 StepsMade& made);
  // Adds the results of a step.
  absl::Status AddResults(const std::vector<Tensor>& results, StepsMade& made);
  absl::StatusOr<Metrics> ValuesOf(const StepsMade& made);
  // Gives the coordinator a step: its number and other facts for the worker, and its feeds.
  absl::StatusOr<RemoteValue> Schedule(int64_t number, bool checks_lives, std::vector<ClosureArgument> feeds);
  void NoteVersions(const std::vector<Tensor>& results);

  const Graph& graph_;
  const ParameterServerOptions& options_;
  MetricTotals metrics_;  // of the steps of the last Train, if no others came behind them
  std::vector<std::shared_ptr<ParameterStore>> stores_;
  std::optional<ServedSession> served_;
  std::optional<Session> snapshot_;
  std::vector<int64_t> secured_;  // by server: the steps that its checkpoints have
  std::vector<int64_t> lives_;    // by server, as this chief found them
  int64_t last_number_ = 0;       // of the steps that were scheduled
  // By server: a version that includes all steps whose results are there. running_: the values of the other steps.
  std::vector<int64_t> versions_;
  std::vector<RemoteValue> running_;
  PerWorker state_;
  std::unique_ptr<ClusterCoordinator> coordinator_;
};

class ParameterServerStrategy {
 public:
  // The batches of a worker: input pipeline number `input_pipeline_id`; there is one for each worker. It is walked
  // again and again, walk w shuffled as epoch w of Pipeline::Repeat; a column of a batch is the input of its name.
  using DataFunction = std::function<absl::StatusOr<Pipeline>(const InputContext& worker)>;
  using ChiefFunction = std::function<absl::Status(ParameterServerTraining& training)>;

  // Errors: the cluster has no chief, no workers or no parameter servers, or does not name their addresses, as those of
  // launchers; those of Cluster; an option is out of range.
  static absl::StatusOr<ParameterServerStrategy> Create(
      const ParameterServerOptions& options = {}, const Environment& environment = ProcessEnvironment());

  const Cluster& cluster() const { return cluster_; }
  bool is_chief() const { return cluster_.task().role == Role::kChief; }
  bool is_evaluator() const { return cluster_.task().role == Role::kEvaluator; }

  // A parameter server keeps its pieces. A worker makes steps on `data`, and runs closures. Both go on until the chief
  // ends, or a signal comes (RunTask). The chief calls `body`, and then ends the others, whatever it returns. The graph
  // and the options must be the same in all processes. Errors: those of SplitTraining, ShardStore::Create, `body` and
  // RunTask; the processes' programs differ; the process is an evaluator, which has no part in it
  // (EvaluateCheckpoints).
  absl::Status Run(const Graph& graph, const DataFunction& data, const ChiefFunction& body,
                   ClosureRegistry closures = {}) const;

 private:
  ParameterServerStrategy(Cluster cluster, ParameterServerOptions options)
      : cluster_(std::move(cluster)), options_(std::move(options)) {}

  Cluster cluster_;
  ParameterServerOptions options_;
};

}  // namespace meshwork
