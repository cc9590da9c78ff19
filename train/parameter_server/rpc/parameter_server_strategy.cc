#include "meshwork/train/parameter_server/rpc/parameter_server_strategy.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "fmt/ranges.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/program.h"
#include "meshwork/train/cluster/processes.h"
#include "meshwork/train/fit/fit.h"
#include "meshwork/train/parameter_server/rpc/run_task.h"
#include "meshwork/train/parameter_server/rpc/store_server.h"
#include "meshwork/train/parameter_server/sequence_set.h"
#include "meshwork/train/parameter_server/shard_store.h"

namespace meshwork {
namespace {

// The pusher of all steps, whoever makes them: a step that is made twice is known by its number.
constexpr char kStepPusher[] = "step";
constexpr char kState[] = "meshwork/worker", kStep[] = "meshwork/step";
constexpr int64_t kStepsAhead = 2;  // that wait, for each worker
constexpr std::chrono::milliseconds kLookForStop{100};
constexpr char kStopped[] = "the training was stopped";

JobFacts FactsOf(const Graph& graph, const TrainingSplit& split, const ParameterServerOptions& options) {
  std::string pieces;
  for (const VariablePiece& piece : split.pieces)
    pieces += fmt::format("{} on {}; ", piece.name, piece.server);
  return {{"program", Fingerprint(graph)},
          {"pieces", std::move(pieces)},
          {"seed", fmt::format("{}", options.session.seed)},
          {"gather", fmt::format("{}", options.gather)},
          {"max_staleness",
           options.max_staleness.has_value() ? fmt::format("{}", *options.max_staleness) : "any"}};
}

absl::StatusOr<std::vector<std::shared_ptr<ParameterStore>>> ConnectStores(const Cluster& cluster,
                                                                           const RpcOptions& rpc,
                                                                           const JobFacts& facts) {
  std::vector<std::shared_ptr<ParameterStore>> stores;
  for (int64_t index = 0; index < cluster.count(Role::kPs); ++index) {
    MESHWORK_ASSIGN_OR_RETURN(std::shared_ptr<ParameterStore> store,
                              RemoteStore::Connect(cluster.AddressOf({Role::kPs, index}), rpc, facts));
    stores.push_back(std::move(store));
  }
  return stores;
}

// The outputs by name: what a step returns.
std::vector<std::string> NamesOfOutputs(const Graph& graph) {
  std::set<std::string> names;
  for (const OutputInfo& output : graph.outputs()) names.insert(output.name);
  return {names.begin(), names.end()};
}

std::vector<std::string> NamesOfInputs(const Graph& graph) {
  std::set<std::string> names;
  for (size_t i = 0; i < graph.arguments().size(); ++i)
    if (!graph.arguments()[i].is_variable) names.insert(graph.argument_name(static_cast<int>(i)));
  return {names.begin(), names.end()};
}

// The state that a worker keeps from step to step.
struct WorkerState {
  WorkerState(ServedSession session, const Pipeline& data)
      : served(std::move(session)), batches(data.Repeat().Begin()) {}

  std::mutex mutex;  // a chief that was started again may ask while the last one's step still runs
  ServedSession served;
  PipelineIterator batches;
};

absl::StatusOr<Feeds> NextFeeds(WorkerState& state) {
  MESHWORK_ASSIGN_OR_RETURN(const std::optional<Example> batch, state.batches.Next());
  if (!batch.has_value()) return InvalidArgument("ParameterServerStrategy: a worker's data have no batch.");
  return Feeds(batch->columns().begin(), batch->columns().end());
}

absl::Status WithoutCheckpoints(size_t server) {
  return absl::DataLossError(fmt::format(
      "ParameterServerTraining: parameter server {} was started again, and has lost steps that it had applied; "
      "give ParameterServerOptions::folder, so that servers keep checkpoints.",
      server));
}

// Arguments: a tensor with the number of the step, then, for each server, the least version of its values, then, if no
// store may have been started again, the life of each; behind it nothing, or a tensor for each input. Results: the
// number of examples; the outputs, and, for a step on the worker's own data, `added`; the version of each server after
// the step.
absl::StatusOr<std::vector<Tensor>> MakeStep(const Graph& graph, const std::vector<std::string>& added,
                                             WorkerState& state, const std::vector<Tensor>& arguments) {
  const std::vector<std::string> names = NamesOfInputs(graph);
  const bool is_fed = arguments.size() == 1 + names.size();
  if (!is_fed && arguments.size() != 1)
    return InvalidArgument("{}: {} arguments; a step has 1 or {}.", kStep, arguments.size(),
                           1 + names.size());
  const Tensor& told = arguments[0];
  const size_t servers = state.served.lives().size();
  const auto size = static_cast<size_t>(told.num_elements());
  if (told.dtype() != I64 || told.type().rank() != 1 || (size != 1 + servers && size != 1 + 2 * servers))
    return InvalidArgument("{}: {} is no number of a step.", kStep, told.type().ToString());
  const std::span<const int64_t> numbers = told.values<int64_t>();
  const std::lock_guard lock(state.mutex);
  Feeds feeds;
  if (is_fed) {
    for (size_t i = 0; i < names.size(); ++i) feeds[names[i]] = arguments[i + 1];
  } else {
    MESHWORK_ASSIGN_OR_RETURN(feeds, NextFeeds(state));
  }
  MESHWORK_ASSIGN_OR_RETURN(
      const StepResult result,
      state.served.Run(feeds, {kStepPusher, numbers[0]}, /*at_least=*/numbers.subspan(1, servers)));
  const std::span<const int64_t> lives = numbers.subspan(1 + servers);
  for (size_t i = 0; i < lives.size(); ++i)
    if (state.served.lives()[i] != lives[i]) return WithoutCheckpoints(i);
  std::vector<Tensor> results = {Tensor::Full({I64, {}}, static_cast<double>(ExamplesIn(graph, feeds)))};
  std::vector<std::string> returned = NamesOfOutputs(graph);
  if (!is_fed) returned.insert(returned.end(), added.begin(), added.end());
  for (const std::string& name : returned) {
    MESHWORK_ASSIGN_OR_RETURN(results.emplace_back(), result.Get(name));
  }
  results.push_back(
      Tensor::From<int64_t>({std::ssize(state.served.versions_pushed())}, state.served.versions_pushed()));
  return results;
}

}  // namespace

absl::StatusOr<ParameterServerStrategy> ParameterServerStrategy::Create(const ParameterServerOptions& options,
                                                                        const Environment& environment) {
  absl::StatusOr<Cluster> cluster = FindCluster(options.cluster, environment);
  if (!cluster.ok()) return Annotate(cluster.status(), "ParameterServerStrategy: ");
  const auto missing = [&](Role role) {
    return cluster->count(role) == 0 || cluster->AddressOf({role, 0}).empty();
  };
  if (missing(Role::kChief) || missing(Role::kWorker) || missing(Role::kPs))
    return InvalidArgument(
        "ParameterServerStrategy: the cluster has {} chief, {} workers and {} parameter servers ({}); name one chief and at "
        "least one \"worker\" and one \"ps\", with their addresses, in TF_CONFIG.",
        cluster->count(Role::kChief), cluster->count(Role::kWorker), cluster->count(Role::kPs),
        cluster->ToString());
  if (options.save_every < 1)
    return InvalidArgument("ParameterServerStrategy: save_every is {}; it must be at least 1 step.",
                           options.save_every);
  if (options.gather > cluster->count(Role::kWorker))
    return InvalidArgument(
        "ParameterServerStrategy: gather is {}, and there are {} workers, so that one would have to make several of an update; "
        "start more workers, or gather fewer.",
        options.gather, cluster->count(Role::kWorker));
  ParameterServerStrategy strategy(*std::move(cluster), options);
  if (strategy.options_.rpc.token.empty())
    strategy.options_.rpc.token = environment("MESHWORK_TOKEN").value_or("");
  if (!strategy.options_.rpc.tls.any()) strategy.options_.rpc.tls = TlsFilesOf(environment);
  strategy.options_.rpc.task = strategy.cluster_.task().ToString();
  return strategy;
}

absl::Status ParameterServerStrategy::Run(const Graph& graph, const DataFunction& data,
                                          const ChiefFunction& body, ClosureRegistry closures) const {
  if (is_evaluator())
    return InvalidArgument(
        "ParameterServerStrategy: this process is {}, which does not train; an evaluator follows what the chief saves of "
        "Snapshot(), by EvaluateCheckpoints.",
        cluster_.task().ToString());
  const MetricTotals metrics(graph);
  MESHWORK_ASSIGN_OR_RETURN(const TrainingSplit split,
                            SplitTraining(metrics.Counting(), {.num_servers = cluster_.count(Role::kPs),
                                                               .partitioner = options_.partitioner}));
  const JobFacts facts = FactsOf(graph, split, options_);

  std::mutex mutex;
  std::vector<std::weak_ptr<ParameterStore>> connected;  // of a worker
  const auto make_worker = [&](WorkerPlace place) -> absl::StatusOr<std::shared_ptr<WorkerState>> {
    MESHWORK_ASSIGN_OR_RETURN(auto stores, ConnectStores(cluster_, options_.rpc, facts));
    {
      const std::lock_guard lock(mutex);
      connected.assign(stores.begin(), stores.end());
    }
    MESHWORK_ASSIGN_OR_RETURN(ServedSession session,
                              ServedSession::Create(split, std::move(stores),
                                                    {.retries = std::numeric_limits<int64_t>::max(),
                                                     .synchronous = options_.gather > 0,
                                                     .pull_ahead = true,
                                                     .session = options_.session}));
    MESHWORK_ASSIGN_OR_RETURN(const Pipeline batches, data({.input_pipeline_id = place.index,
                                                            .num_input_pipelines = place.count,
                                                            .num_replicas_in_sync = place.count}));
    return std::make_shared<WorkerState>(std::move(session), batches);
  };
  MESHWORK_RETURN_IF_ERROR(closures.RegisterResource<WorkerState>(kState, make_worker));
  MESHWORK_RETURN_IF_ERROR(closures.Register(
      kStep,
      [&](ClosureContext& context,
          const std::vector<Tensor>& arguments) -> absl::StatusOr<std::vector<Tensor>> {
        MESHWORK_ASSIGN_OR_RETURN(const std::shared_ptr<WorkerState> state, context.Resource<WorkerState>(0));
        return MakeStep(graph, metrics.names(), *state, arguments);
      }));

  // A step may wait for a server that the same signal has ended.
  const auto end_waits = [&] {
    const std::lock_guard lock(mutex);
    for (const std::weak_ptr<ParameterStore>& store : connected)
      if (const auto held = store.lock()) held->Stop();
  };
  const auto make_store = [&](const Task& task) -> absl::StatusOr<std::shared_ptr<ParameterStore>> {
    return ShardStore::Create(split, {.server = task.index,
                                      .seed = options_.session.seed,
                                      .initial = options_.initial,
                                      .max_staleness = options_.max_staleness,
                                      .gather = options_.gather,
                                      .folder = options_.folder,
                                      .keep = options_.keep,
                                      .session = options_.session});
  };
  MESHWORK_ASSIGN_OR_RETURN(const bool is_chief, RunTask(cluster_, {.rpc = options_.rpc,
                                                                    .store = make_store,
                                                                    .facts = facts,
                                                                    .closures = std::move(closures),
                                                                    .saves_at_stop = !options_.folder.empty(),
                                                                    .end_waits = end_waits}));
  if (!is_chief) return absl::OkStatus();
  absl::Status status;
  {
    ParameterServerTraining training(graph, options_);
    status = training.Begin(cluster_, split);
    if (status.ok()) status = body(training);
  }
  const absl::Status ended = ShutDownCluster(cluster_, options_.rpc);
  return status.ok() ? ended : status;
}

// ---- The chief.

absl::Status ParameterServerTraining::Begin(const Cluster& cluster, const TrainingSplit& split) {
  MESHWORK_ASSIGN_OR_RETURN(stores_, ConnectStores(cluster, options_.rpc, FactsOf(graph_, split, options_)));
  MESHWORK_ASSIGN_OR_RETURN(served_, ServedSession::Create(split, stores_, {.session = options_.session}));
  MESHWORK_ASSIGN_OR_RETURN(
      coordinator_,
      ClusterCoordinator::Create(cluster, {.rpc = options_.rpc, .deadline = options_.worker_deadline}));
  state_ = coordinator_->CreatePerWorker(kState);
  secured_.assign(stores_.size(), 0);
  versions_.assign(stores_.size(), 0);
  for (const auto& store : stores_) {
    MESHWORK_ASSIGN_OR_RETURN(const SequenceSet taken, store->TakenFrom(kStepPusher));
    last_number_ = std::max(last_number_, taken.last());
    MESHWORK_ASSIGN_OR_RETURN(const Pulled pulled, store->Pull({}));
    lives_.push_back(pulled.life);
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> ParameterServerTraining::StepsDone() {
  int64_t done = 0;
  for (size_t i = 0; i < stores_.size(); ++i) {
    MESHWORK_ASSIGN_OR_RETURN(const SequenceSet taken, stores_[i]->TakenFrom(kStepPusher));
    done = i == 0 ? taken.through() : std::min(done, taken.through());
  }
  return done;
}

absl::StatusOr<std::vector<int64_t>> ParameterServerTraining::Updates() {
  std::vector<int64_t> updates;
  for (const auto& store : stores_) {
    MESHWORK_ASSIGN_OR_RETURN(const Pulled pulled, store->Pull({}));
    updates.push_back(pulled.version);
  }
  return updates;
}

absl::Status ParameterServerTraining::LostError(size_t server) const {
  if (options_.folder.empty()) return WithoutCheckpoints(server);
  return absl::DataLossError(fmt::format(
      "ParameterServerTraining: parameter server {} was started again, and has lost steps that it had applied: its newest "
      "checkpoint in \"{}\" has fewer than {}; start the training again, with a folder that servers find again.",
      server, options_.folder, secured_[server]));
}

absl::Status ParameterServerTraining::CheckLives() {
  if (!options_.folder.empty()) return absl::OkStatus();
  for (size_t i = 0; i < stores_.size(); ++i) {
    MESHWORK_ASSIGN_OR_RETURN(const Pulled pulled, stores_[i]->Pull({}));
    if (pulled.life != lives_[i]) return LostError(i);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int64_t>> ParameterServerTraining::Missing(int64_t steps) {
  MESHWORK_RETURN_IF_ERROR(CheckLives());
  std::set<int64_t> missing;
  for (size_t i = 0; i < stores_.size(); ++i) {
    MESHWORK_ASSIGN_OR_RETURN(const SequenceSet taken, stores_[i]->TakenFrom(kStepPusher));
    if (taken.through() < secured_[i]) return LostError(i);
    for (const int64_t number : taken.MissingThrough(steps)) missing.insert(number);
  }
  return std::vector<int64_t>(missing.begin(), missing.end());
}

absl::StatusOr<bool> ParameterServerTraining::MakeSteps(const std::vector<int64_t>& numbers,
                                                        const std::function<bool()>& stops, StepsMade& made) {
  const auto asked = [&] { return stops != nullptr && stops(); };
  std::vector<RemoteValue> steps;
  for (const int64_t number : numbers) {
    // So that few steps are to be cancelled, and their results never wait for long.
    bool has_room = false;
    while (!has_room && !asked()) {
      has_room = coordinator_->WaitForFew(kStepsAhead * coordinator_->num_workers(), kLookForStop);
      // The chief asks the servers nothing meanwhile, but its log, which people read, is to show whether they are
      // there.
      for (const auto& store : stores_)
        if (!has_room) store->LookForServer(kLookForStop);
    }
    if (asked()) {
      coordinator_->CancelWaiting(absl::CancelledError(kStopped));
      const absl::Status ended = coordinator_->Join();
      return absl::IsCancelled(ended) ? absl::StatusOr<bool>(false) : ended;
    }
    MESHWORK_ASSIGN_OR_RETURN(RemoteValue step, Schedule(number, /*checks_lives=*/false, {}));
    steps.push_back(std::move(step));
    last_number_ = std::max(last_number_, number);
  }
  MESHWORK_RETURN_IF_ERROR(coordinator_->Join());
  for (size_t i = 0; i < numbers.size(); ++i) {
    MESHWORK_ASSIGN_OR_RETURN(const std::vector<Tensor> results, steps[i].Fetch());
    NoteVersions(results);
    if (made.numbers.insert(numbers[i]).second) MESHWORK_RETURN_IF_ERROR(AddResults(results, made));
  }
  return true;
}

absl::Status ParameterServerTraining::AddResults(const std::vector<Tensor>& results, StepsMade& made) {
  MESHWORK_ASSIGN_OR_RETURN(const double examples, results[0].Scalar());
  std::vector<std::string> names = NamesOfOutputs(graph_);
  const size_t num_outputs = names.size();
  names.insert(names.end(), metrics_.names().begin(), metrics_.names().end());
  std::map<std::string, Tensor> outputs, added;
  for (size_t i = 0; i < names.size(); ++i) (i < num_outputs ? outputs : added)[names[i]] = results[i + 1];
  made.means.Add(StepResult(std::move(outputs)), static_cast<int64_t>(examples));
  return metrics_.Add(StepResult(std::move(added)));
}

absl::StatusOr<Metrics> ParameterServerTraining::ValuesOf(const StepsMade& made) {
  Metrics values = made.means.Values();
  MESHWORK_ASSIGN_OR_RETURN(const Metrics metrics, metrics_.Values(options_.session));
  for (const auto& [name, value] : metrics) values[name] = value;
  return values;
}

absl::StatusOr<Metrics> ParameterServerTraining::Train(int64_t steps) {
  MESHWORK_ASSIGN_OR_RETURN(std::optional<Metrics> means, TrainUnless(nullptr, steps));
  return *std::move(means);
}

absl::StatusOr<std::optional<Metrics>> ParameterServerTraining::TrainUnless(
    const std::function<bool()>& stops, int64_t steps) {
  const int64_t gather = std::max<int64_t>(options_.gather, 1);
  if (steps % gather != 0)
    return InvalidArgument(
        "ParameterServerTraining: {} steps make no whole number of updates, as servers gather {} for each; give a multiple "
        "of it.",
        steps, gather);
  // Steps on feeds may still run; they have numbers, too.
  MESHWORK_RETURN_IF_ERROR(coordinator_->Join());
  const int64_t save_every = (options_.save_every + gather - 1) / gather * gather;
  const bool saves = !options_.folder.empty();
  metrics_.Clear();
  StepsMade made{.means = OutputMeans(graph_)};
  while (true) {
    MESHWORK_ASSIGN_OR_RETURN(const int64_t done, StepsDone());
    const int64_t end = std::min(steps, done / save_every * save_every + save_every);
    MESHWORK_ASSIGN_OR_RETURN(const std::vector<int64_t> missing, Missing(end));
    if (!missing.empty()) {
      MESHWORK_ASSIGN_OR_RETURN(const bool goes_on, MakeSteps(missing, stops, made));
      if (!goes_on) return std::nullopt;
      MESHWORK_ASSIGN_OR_RETURN(const std::vector<int64_t> lost, Missing(end));
      if (!lost.empty()) continue;
    }
    // Also saves steps that a lost chief had made and not saved.
    if (saves && *std::min_element(secured_.begin(), secured_.end()) < end) MESHWORK_RETURN_IF_ERROR(Save());
    if (end >= steps) {
      MESHWORK_ASSIGN_OR_RETURN(const std::vector<int64_t> lost, Missing(steps));
      if (lost.empty()) return ValuesOf(made);
    }
  }
}

void ParameterServerTraining::NoteVersions(const std::vector<Tensor>& results) {
  const std::span<const int64_t> versions = results.back().values<int64_t>();
  for (size_t i = 0; i < versions_.size(); ++i) versions_[i] = std::max(versions_[i], versions[i]);
}

absl::StatusOr<RemoteValue> ParameterServerTraining::Schedule(int64_t number, bool checks_lives,
                                                              std::vector<ClosureArgument> feeds) {
  std::erase_if(running_, [&](const RemoteValue& step) {
    if (!step.IsReady()) return false;
    const absl::StatusOr<std::vector<Tensor>> results = step.Fetch();
    if (results.ok()) NoteVersions(*results);
    return true;
  });
  std::vector<int64_t> told = {number};
  told.insert(told.end(), versions_.begin(), versions_.end());
  if (checks_lives) told.insert(told.end(), lives_.begin(), lives_.end());
  std::vector<ClosureArgument> arguments = {state_, Tensor::From<int64_t>({std::ssize(told)}, told)};
  std::move(feeds.begin(), feeds.end(), std::back_inserter(arguments));
  return coordinator_->Schedule(kStep, std::move(arguments));
}

absl::StatusOr<RemoteValue> ParameterServerTraining::Step(const Feeds& feeds) {
  std::vector<ClosureArgument> arguments;
  const std::vector<std::string> names = NamesOfInputs(graph_);
  for (const std::string& name : names) {
    const auto feed = feeds.find(name);
    if (feed == feeds.end())
      return InvalidArgument("ParameterServerTraining::Step: the input \"{}\" is not fed.", name);
    arguments.push_back(feed->second);
  }
  for (const auto& [name, value] : feeds)
    if (!std::binary_search(names.begin(), names.end(), name))
      return InvalidArgument("ParameterServerTraining::Step: the program has no input \"{}\"; it has {}.",
                             name, fmt::join(names, ", "));
  // The worker looks after the lives, so that the chief need not ask before each step.
  MESHWORK_ASSIGN_OR_RETURN(
      RemoteValue step,
      Schedule(last_number_ + 1, /*checks_lives=*/options_.folder.empty(), std::move(arguments)));
  running_.push_back(step);
  ++last_number_;
  metrics_.Clear();  // those of the servers have this step in them
  return step;
}

absl::StatusOr<Session*> ParameterServerTraining::Snapshot() {
  if (!snapshot_.has_value()) {
    MESHWORK_ASSIGN_OR_RETURN(snapshot_, Session::Create(graph_, options_.session));
  }
  MESHWORK_ASSIGN_OR_RETURN(const int64_t steps, StepsDone());
  for (const std::string& name : snapshot_->variable_names()) {
    MESHWORK_ASSIGN_OR_RETURN(const Tensor value, served_->Get(name));
    MESHWORK_RETURN_IF_ERROR(snapshot_->Set(name, value));
  }
  for (const auto& [name, total] : metrics_.totals()) MESHWORK_RETURN_IF_ERROR(snapshot_->Set(name, total));
  MESHWORK_RETURN_IF_ERROR(CheckLives());
  snapshot_->set_steps_done(steps);
  return &*snapshot_;
}

absl::Status ParameterServerTraining::Save() {
  if (options_.folder.empty())
    return InvalidArgument(
        "ParameterServerTraining::Save: there is no folder; give ParameterServerOptions::folder.");
  for (size_t i = 0; i < stores_.size(); ++i) {
    const auto end = std::chrono::steady_clock::now() + options_.rpc.deadline;
    absl::Status saved;
    do {
      // Waits for a server that was lost while it saved.
      MESHWORK_ASSIGN_OR_RETURN(const SequenceSet taken, stores_[i]->TakenFrom(kStepPusher));
      const absl::StatusOr<int64_t> version = stores_[i]->Save();
      saved = version.status();
      if (!saved.ok()) continue;
      // Steps are not saved if the server was started again meanwhile, or if it keeps them for an update.
      const int64_t steps = *version * std::max<int64_t>(options_.gather, 1);
      if (taken.through() == taken.last() && taken.through() <= steps)
        secured_[i] = std::max(secured_[i], taken.through());
    } while (absl::IsUnavailable(saved) && std::chrono::steady_clock::now() < end);
    MESHWORK_RETURN_IF_ERROR(saved);
  }
  return absl::OkStatus();
}

}  // namespace meshwork
