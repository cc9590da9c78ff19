#include "meshwork/train/parameter_server/rpc/coordinator.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "meshwork/base/flags.h"
#include "meshwork/base/random_name.h"
#include "meshwork/base/status.h"
#include "meshwork/train/parameter_server/rpc/client.h"
#include "meshwork/train/parameter_server/rpc/presence.h"
#include "meshwork/train/parameter_server/rpc/run_request.h"

namespace meshwork {
namespace {

using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

constexpr milliseconds kPingDeadline = std::chrono::seconds(5), kPingPause{100};
constexpr size_t kMostNamed = 4;  // workers in an error

absl::Status CheckOptions(const CoordinatorOptions& options) {
  for (const auto& [name, value] :
       {std::pair("closures_per_worker", options.closures_per_worker),
        std::pair("max_waiting", options.max_waiting), std::pair("max_losses", options.max_losses)})
    if (value < 1)
      return InvalidArgument("ClusterCoordinator: {} is {}; it must be at least 1.", name, value);
  return absl::OkStatus();
}

}  // namespace

class ClusterCoordinator::Impl {
 public:
  Impl(const CoordinatorOptions& options, std::string name)
      : options_(options), name_(std::move(name)), queue_(options.max_waiting, options.max_losses) {}
  ~Impl();

  absl::Status Start(const std::vector<std::string>& addresses);

  const std::string& name() const { return name_; }
  ClosureQueue& queue() { return queue_; }
  int64_t NextResource() { return next_resource_++; }
  int64_t num_workers() const { return std::ssize(workers_); }

 private:
  struct Worker {
    WorkerPlace place;
    std::unique_ptr<RpcClient> client;
    bool is_there = false;
    bool is_refusing = false;  // it answers that it is none of this job's
    absl::Status why_away;     // OK: it was not asked yet
    std::unique_ptr<Presence> presence;
  };

  // A thread for each closure of a worker that runs at a time; the first one also asks whether the worker is there.
  void Serve(Worker& worker, bool asks);
  RpcClient::Attempt RunOn(Worker& worker, const ClosureQueue::Closure& closure, std::vector<Tensor> tensors);
  bool WaitUntilThere(Worker& worker, bool asks);
  void NoteAway(Worker& worker, const absl::Status& why, bool is_lost);
  void GiveUpIfAllAreAway();

  const CoordinatorOptions options_;
  const std::string name_;  // this coordinator and its life
  ClosureQueue queue_;
  std::atomic<int64_t> next_resource_{0};
  std::mutex mutex_;  // of the workers' states, and what follows
  std::condition_variable changed_;
  bool ends_ = false;
  std::optional<SteadyClock::time_point> all_away_since_;  // while closures wait
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::thread> threads_;
};

ClusterCoordinator::ClusterCoordinator(UnlessForked<Impl> impl) : impl_(std::move(impl)) {}
ClusterCoordinator::~ClusterCoordinator() = default;

absl::StatusOr<std::unique_ptr<ClusterCoordinator>> ClusterCoordinator::Create(
    const Cluster& cluster, const CoordinatorOptions& options) {
  if (cluster.task().role != Role::kChief)
    return absl::FailedPreconditionError(fmt::format(
        "ClusterCoordinator: this process is {}; the cluster's chief coordinates, give the cluster one and make the "
        "coordinator there.",
        cluster.task().ToString()));
  std::vector<std::string> workers;
  for (int64_t w = 0; w < cluster.count(Role::kWorker); ++w)
    workers.push_back(cluster.AddressOf({Role::kWorker, w}));
  return Create(workers, options);
}

absl::StatusOr<std::unique_ptr<ClusterCoordinator>> ClusterCoordinator::Create(
    const std::vector<std::string>& workers, const CoordinatorOptions& options) {
  if (workers.empty())
    return InvalidArgument("ClusterCoordinator: there are no workers; closures need at least one.");
  MESHWORK_RETURN_IF_ERROR(CheckOptions(options));
  UnlessForked<Impl> impl(new Impl(options, RandomName()));
  MESHWORK_RETURN_IF_ERROR(impl->Start(workers));
  return std::unique_ptr<ClusterCoordinator>(new ClusterCoordinator(std::move(impl)));
}

absl::Status ClusterCoordinator::Impl::Start(const std::vector<std::string>& addresses) {
  for (const std::string& address : addresses) {
    auto worker = std::make_unique<Worker>();
    worker->place = {.index = std::ssize(workers_), .count = std::ssize(addresses)};
    worker->presence =
        std::make_unique<Presence>(fmt::format("worker {} at {}", worker->place.index, address));
    MESHWORK_ASSIGN_OR_RETURN(worker->client, RpcClient::Create("Worker", address, options_.rpc));
    workers_.push_back(std::move(worker));
  }
  for (const std::unique_ptr<Worker>& worker : workers_)
    for (int64_t i = 0; i < options_.closures_per_worker; ++i)
      threads_.emplace_back([this, &w = *worker, i] { Serve(w, i == 0); });
  return absl::OkStatus();
}

ClusterCoordinator::Impl::~Impl() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    changed_.notify_all();
  }
  queue_.End();
  for (const std::unique_ptr<Worker>& worker : workers_) worker->client->Cancel();
  for (std::thread& thread : threads_) thread.join();
}

absl::StatusOr<RemoteValue> ClusterCoordinator::Schedule(const std::string& name,
                                                         std::vector<ClosureArgument> arguments) {
  MESHWORK_RETURN_IF_ERROR(made_.Check("ClusterCoordinator"));
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (const auto* const tensor = std::get_if<Tensor>(&arguments[i]))
      MESHWORK_RETURN_IF_ERROR(Annotate(
          tensor->status(), fmt::format("ClusterCoordinator: argument {} of closure \"{}\": ", i, name)));
    const auto* const value = std::get_if<RemoteValue>(&arguments[i]);
    if (value != nullptr && value->coordinator_ != impl_->name())
      return InvalidArgument(
          "ClusterCoordinator: argument {} of closure \"{}\" is a value of another coordinator; fetch it there and give "
          "its tensors.",
          i, name);
  }
  RemoteValue value(impl_->name());
  MESHWORK_RETURN_IF_ERROR(
      impl_->queue().Put({.name = name, .arguments = std::move(arguments), .value = value}));
  return value;
}

absl::Status ClusterCoordinator::Join() {
  MESHWORK_RETURN_IF_ERROR(made_.Check("ClusterCoordinator"));
  return impl_->queue().Join();
}

bool ClusterCoordinator::WaitForFew(int64_t waiting, milliseconds at_most) {
  return !made_.is_here() || impl_->queue().WaitForFew(waiting, at_most);
}

void ClusterCoordinator::CancelWaiting(const absl::Status& why) {
  if (made_.is_here()) impl_->queue().Fail(why);
}

bool ClusterCoordinator::Done() const { return !made_.is_here() || impl_->queue().HasNone(); }

PerWorker ClusterCoordinator::CreatePerWorker(const std::string& name) {
  return PerWorker(impl_->NextResource(), name);
}

int64_t ClusterCoordinator::num_workers() const { return impl_->num_workers(); }

void ClusterCoordinator::Impl::Serve(Worker& worker, bool asks) {
  std::vector<Tensor> tensors;
  while (WaitUntilThere(worker, asks)) {
    std::optional<ClosureQueue::Closure> closure = queue_.Take(tensors);
    while (closure.has_value()) {
      RpcClient::Attempt run = RunOn(worker, *closure, std::move(tensors));
      if (run.is_lost) {
        NoteAway(worker, run.answer.status(), /*is_lost=*/true);
        queue_.PutBack(*std::move(closure), run.answer.status());
        break;
      }
      absl::StatusOr<std::vector<Tensor>> results = std::vector<Tensor>();
      if (run.answer.ok()) results = std::move(run.answer->tensors);
      else results = run.answer.status();
      closure = queue_.FinishAndTake(*closure, std::move(results), tensors);
    }
    if (!closure.has_value()) return;
  }
}

RpcClient::Attempt ClusterCoordinator::Impl::RunOn(Worker& worker, const ClosureQueue::Closure& closure,
                                                   std::vector<Tensor> tensors) {
  RunRequest request{
      .coordinator = name_, .closure = closure.name, .worker = worker.place, .arguments = std::move(tensors)};
  for (const ClosureArgument& argument : closure.arguments)
    if (const auto* const resource = std::get_if<PerWorker>(&argument))
      request.resources.push_back(*resource);
  return worker.client->TryCall(RunMessage(std::move(request)), std::nullopt);
}

// False: the coordinator ends.
bool ClusterCoordinator::Impl::WaitUntilThere(Worker& worker, bool asks) {
  std::unique_lock lock(mutex_);
  while (!ends_ && !worker.is_there) {
    if (!asks) {
      changed_.wait(lock);
      continue;
    }
    lock.unlock();
    const RpcClient::Attempt ping =
        worker.client->TryCall({.call = "Ping"}, std::min(kPingDeadline, options_.deadline));
    if (!ping.answer.ok()) {
      NoteAway(worker, ping.answer.status(), ping.is_lost);
      GiveUpIfAllAreAway();
      worker.client->WaitForConnection(kPingPause);
    }
    lock.lock();
    if (ping.answer.ok()) {
      worker.is_there = true;
      worker.presence->NoteThere();
      all_away_since_.reset();
      changed_.notify_all();
    } else if (!ends_) {
      changed_.wait_for(lock, kPingPause / 5);
    }
  }
  return !ends_;
}

void ClusterCoordinator::Impl::NoteAway(Worker& worker, const absl::Status& why, bool is_lost) {
  const std::lock_guard lock(mutex_);
  worker.is_there = false;
  worker.is_refusing = !is_lost;
  worker.why_away = why;
  std::string reason(MessageOf(why));
  if (reason.ends_with('.')) reason.pop_back();
  if (!ends_) worker.presence->NoteAway(reason);
  changed_.notify_all();
}

void ClusterCoordinator::Impl::GiveUpIfAllAreAway() {
  absl::Status error;
  {
    const std::lock_guard lock(mutex_);
    const auto is = [&](bool Worker::*state) {
      return [state](const std::unique_ptr<Worker>& worker) { return (*worker).*state; };
    };
    if (std::any_of(workers_.begin(), workers_.end(), is(&Worker::is_there)) || queue_.HasNone()) {
      all_away_since_.reset();
      return;
    }
    const SteadyClock::time_point now = SteadyClock::now();
    if (!all_away_since_.has_value()) all_away_since_ = now;
    const bool all_refuse = std::all_of(workers_.begin(), workers_.end(), is(&Worker::is_refusing));
    if (!all_refuse && now - *all_away_since_ < options_.deadline) return;
    all_away_since_.reset();
    std::string reasons;
    size_t named = 0;
    for (const std::unique_ptr<Worker>& worker : workers_)
      if (!worker->why_away.ok() && named < kMostNamed) {
        reasons += fmt::format(" {}", MessageOf(worker->why_away));
        ++named;
      }
    if (workers_.size() > named)
      reasons += fmt::format(" And {}.", Count(static_cast<int64_t>(workers_.size() - named), "other"));
    if (all_refuse)
      error = absl::FailedPreconditionError(
          fmt::format("ClusterCoordinator: there is no worker that takes closures.{}", reasons));
    else
      error = absl::UnavailableError(
          fmt::format("ClusterCoordinator: no worker has answered for {}, and closures wait.{}",
                      DurationToString(options_.deadline), reasons));
  }
  queue_.Fail(error);
}

}  // namespace meshwork
