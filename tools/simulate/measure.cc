#include "meshwork/tools/simulate/measure.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/ir/text.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/runtime/exec/dtensor.h"
#include "meshwork/runtime/exec/executor.h"
#include "meshwork/tools/simulate/process.h"
#include "meshwork/tools/simulate/time_pieces.h"

namespace meshwork {
namespace {

constexpr int kMostRounds = 1000;
constexpr int64_t kProductSize = 512;              // rows, columns and depth
constexpr int64_t kManyBytes = int64_t{64} << 20;  // more than caches hold
constexpr int kChain = 64;                         // ops in a row

double MedianOf(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

template <typename F>
double SecondsOfCall(F&& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The seconds of each round. One more round is run before, and not timed.
template <typename F>
std::vector<double> SecondsOfRounds(int rounds, F&& f) {
  std::vector<double> seconds;
  for (int r = 0; r <= rounds; ++r) {
    const double took = SecondsOfCall(f);
    if (r > 0) seconds.push_back(took);
  }
  return seconds;
}

template <typename F>
double MedianSeconds(int rounds, F&& f) {
  return MedianOf(SecondsOfRounds(rounds, f));
}

// For times below a microsecond, which are many times longer when a thread is woken or another program has the core:
// the least of rounds at several moments.
template <typename F>
double LeastSeconds(int rounds, F&& f) {
  constexpr int kMoments = 10;
  double least = std::numeric_limits<double>::infinity();
  for (int m = 0; m < kMoments; ++m) {
    for (const double seconds : SecondsOfRounds(rounds, f)) least = std::min(least, seconds);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return least;
}

// A step of a program for one device, given as text, ready to run.
class TimedText {
 public:
  static absl::StatusOr<TimedText> Create(const std::string& text, CpuBackend& backend) {
    MESHWORK_ASSIGN_OR_RETURN(Graph graph, ParseGraph(text));
    TimedText timed;
    ExecutorOptions options{.poison_padding = false, .check_replicas = false};
    for (const Argument& argument : graph.arguments())
      options.distributed.insert(graph.value(argument.value).name);
    options.distributed.insert("y");
    MESHWORK_ASSIGN_OR_RETURN(timed.executor_,
                              Executor::Create({.body = std::move(graph)}, backend, options, &timed.state_));
    StepMemory memory;
    for (const std::string& name : options.distributed) {
      if (name == "y") continue;
      MESHWORK_ASSIGN_OR_RETURN(memory.distributed_feeds[name], timed.executor_->NewFeed(name));
    }
    MESHWORK_ASSIGN_OR_RETURN(BoundStep bound, timed.executor_->Bind(std::move(memory)));
    timed.bound_.push_back(std::move(bound));
    return timed;
  }

  void Run() {
    const absl::Status status = bound_[0].Run();
    MESHWORK_CHECK(status.ok(), "{}", MessageOf(status));
  }

 private:
  std::map<std::string, DTensor> state_;
  std::unique_ptr<Executor> executor_;
  std::vector<BoundStep> bound_;  // one
};

std::string ProductText() {
  const std::string type = fmt::format("f32[{0},{0}] of f32[{0},{0}] {{_,_}}", kProductSize);
  return fmt::format(
      "mesh [x=1]\nfunc product(%a: {0}, %b: {0}) {{\n  %y = matmul %a, %b : {0}\n  return y=%y\n}}", type);
}

std::string SumText() {
  const std::string type = fmt::format("f32[{0}] of f32[{0}] {{_}}", kManyBytes / 4);
  return fmt::format("mesh [x=1]\nfunc sum(%a: {0}, %b: {0}) {{\n  %y = add %a, %b : {0}\n  return y=%y\n}}",
                     type);
}

// A chain of products of one element; each reads the product before.
std::string ChainText(int length) {
  const std::string type = "f32[1,1] of f32[1,1] {_,_}";
  std::string text = fmt::format("mesh [x=1]\nfunc chain(%a: {}) {{\n", type), last = "%a";
  for (int i = 0; i < length; ++i) {
    const std::string next = i + 1 == length ? "%y" : fmt::format("%v{}", i);
    text += fmt::format("  {} = matmul {}, %a : {}\n", next, last, type);
    last = next;
  }
  return text + "  return y=%y\n}";
}

absl::StatusOr<double> SecondsOfText(const std::string& text, CpuBackend& backend, int rounds) {
  MESHWORK_ASSIGN_OR_RETURN(TimedText timed, TimedText::Create(text, backend));
  return MedianSeconds(rounds, [&] { timed.Run(); });
}

absl::StatusOr<double> LeastSecondsOfChain(int length, CpuBackend& backend, int rounds) {
  MESHWORK_ASSIGN_OR_RETURN(TimedText timed, TimedText::Create(ChainText(length), backend));
  return LeastSeconds(rounds, [&] { timed.Run(); });
}

double SecondsOfBarrier(WorkerPool& pool, int rounds) {
  constexpr int kMeetings = 1000;
  const auto meet = [&](int meetings) {
    return LeastSeconds(rounds, [&] {
      pool.Run([&](int) {
        for (int i = 0; i < meetings; ++i) pool.barrier().Wait();
      });
    });
  };
  return std::max(0.0, meet(kMeetings + 1) - meet(1)) / kMeetings;
}

double SecondsOfCopy(WorkerPool& pool, int rounds) {
  std::vector<char> from(kManyBytes, 1), to(kManyBytes, 0);
  const int64_t each = kManyBytes / pool.num_workers();
  return MedianSeconds(rounds, [&] {
    pool.Run([&](int worker) {
      std::memcpy(to.data() + worker * each, from.data() + worker * each, static_cast<size_t>(each));
    });
  });
}

absl::Status Check(const MeasureOptions& options) {
  constexpr int kMostWorkers = 1024;
  if (options.workers < 0 || options.workers > kMostWorkers)
    return InvalidArgument(
        "MeasureMachine: workers={}; a process has 1 to {} threads, and 0 is one per core.", options.workers,
        kMostWorkers);
  if (options.rounds < 1 || options.rounds > kMostRounds)
    return InvalidArgument("MeasureMachine: rounds={}; it must be from 1 to {}.", options.rounds,
                           kMostRounds);
  return absl::OkStatus();
}

CpuBackend& BackendOf(const MeasureOptions& options, int workers, std::unique_ptr<CpuBackend>& own) {
  if (options.backend != nullptr) return *options.backend;
  own = std::make_unique<CpuBackend>(workers == 0 ? WorkerPool::DefaultWorkers() : workers);
  return *own;
}

}  // namespace

absl::StatusOr<Machine> MeasureMachine(const MeasureOptions& options) {
  MESHWORK_RETURN_IF_ERROR(Check(options));
  std::unique_ptr<CpuBackend> own;
  CpuBackend& backend = BackendOf(options, options.workers, own);
  Machine machine{.workers = backend.num_workers()};
  MESHWORK_ASSIGN_OR_RETURN(const double product, SecondsOfText(ProductText(), backend, options.rounds));
  constexpr auto kSize = static_cast<double>(kProductSize);
  machine.product_flops = 2 * kSize * kSize * kSize / product;
  MESHWORK_ASSIGN_OR_RETURN(const double sum, SecondsOfText(SumText(), backend, options.rounds));
  machine.memory_bandwidth = 3 * static_cast<double>(kManyBytes) / sum;
  constexpr int kMany = 10;
  MESHWORK_ASSIGN_OR_RETURN(machine.step_seconds, LeastSecondsOfChain(1, backend, kMany * options.rounds));
  MESHWORK_ASSIGN_OR_RETURN(const double chain, LeastSecondsOfChain(kChain, backend, kMany * options.rounds));
  machine.op_seconds = std::max(0.0, chain - machine.step_seconds) / (kChain - 1);
  machine.barrier_seconds = SecondsOfBarrier(backend.pool(), options.rounds);
  machine.copy_bandwidth =
      2 * static_cast<double>(kManyBytes) / SecondsOfCopy(backend.pool(), options.rounds);
  return machine;
}

absl::Status MeasureKernels(const Program& program, Machine& machine, const MeasureOptions& options) {
  MESHWORK_RETURN_IF_ERROR(Check(options));
  MESHWORK_CHECK(machine.workers >= 1);
  MESHWORK_ASSIGN_OR_RETURN(const Schedule schedule, ScheduleOfProcess(program, machine));
  std::unique_ptr<CpuBackend> own;
  CpuBackend& backend = BackendOf(options, static_cast<int>(machine.workers), own);
  MESHWORK_CHECK(backend.num_workers() == machine.workers);
  for (const auto& [key, seconds] : TimePieces(schedule, machine, backend, options.rounds))
    machine.kernels[key] = seconds;
  return absl::OkStatus();
}

}  // namespace meshwork
