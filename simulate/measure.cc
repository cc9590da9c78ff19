#include "meshwork/simulate/measure.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/ir/row.h"
#include "meshwork/ir/text.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/runtime/dtensor.h"
#include "meshwork/runtime/executor.h"
#include "meshwork/simulate/pieces.h"
#include "meshwork/simulate/process.h"

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

// Of a round; one more is run before.
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

// What takes less than a microsecond takes many where a thread is woken: the least counts.
template <typename F>
double LeastSeconds(int rounds, F&& f) {
  const std::vector<double> seconds = SecondsOfRounds(rounds, f);
  return *std::min_element(seconds.begin(), seconds.end());
}

ExecutorOptions PlainOptions() { return {.poison_padding = false, .check_replicas = false}; }

// A step of a text of one device, ready to run.
class TimedText {
 public:
  static absl::StatusOr<TimedText> Create(const std::string& text, CpuBackend& backend) {
    MESHWORK_ASSIGN_OR_RETURN(Graph graph, ParseGraph(text));
    TimedText timed;
    ExecutorOptions options = PlainOptions();
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

// Products of one element, each of the one before.
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

// ---- The pieces of a step.

// The pieces of a schedule and of the bodies of its loops, each on tensors of its own program.
class TimedPieces {
 public:
  TimedPieces(CpuBackend& backend, const Machine& machine) : backend_(backend), machine_(machine) {}

  void Add(const Schedule& schedule) {
    Tensors tensors(*schedule.graph);
    Pieces pieces = CutPieces(schedule);
    for (size_t p = 0; p < pieces.all.size(); ++p)
      for (ValueId input : pieces.all[p].inputs) tensors.last_reader[input] = p;
    for (size_t p = 0; p < pieces.all.size(); ++p)
      if (!machine_.kernels.contains(pieces.all[p].key)) Add(pieces.all[p], p, tensors);
    for (const Instruction& instruction : schedule.instructions)
      if (instruction.loop != nullptr)
        for (const LoopPlan::Body& body : instruction.loop->bodies) Add(body.schedule);
  }

  // Seconds by key.
  std::map<std::string, double> Time(int rounds) {
    std::map<std::string, std::vector<double>> measured;
    for (int r = 0; r <= rounds; ++r) {
      Fill();
      for (auto& [key, step] : steps_)
        step.Run().IgnoreError();                           // each finds the caches as in a step after others
      std::map<std::string, std::pair<double, int>> round;  // the sum, and of how many
      for (auto& [key, step] : steps_) {
        auto& [sum, count] = round[key];
        sum += SecondsOfCall([&] { step.Run().IgnoreError(); });
        ++count;
      }
      if (r > 0)
        for (const auto& [key, sum] : round) measured[key].push_back(sum.first / sum.second);
    }
    std::map<std::string, double> times;
    for (auto& [key, seconds] : measured)
      times[key] = std::max(0.0, MedianOf(std::move(seconds)) - machine_.step_seconds);
    return times;
  }

 private:
  // The tensors of the values of a program. As in a step, a value that no later piece reads leaves its memory to others.
  struct Tensors {
    explicit Tensors(const Graph& graph) : graph(graph) {}
    const Graph& graph;
    std::map<ValueId, size_t> last_reader = {};
    std::map<ValueId, DTensor> of = {};
    std::map<std::string, std::vector<DTensor>> free = {};  // by type and layout
  };

  static std::string PlaceOf(const DTensor& tensor) {
    return fmt::format("{} {}", tensor.type().ToString(), tensor.layout().ToString());
  }

  // Null: the piece cannot be run alone.
  std::shared_ptr<Executor> ExecutorOf(const Piece& piece) {
    const auto [at, is_new] = executors_.emplace(piece.key, nullptr);
    if (!is_new) return at->second;
    ExecutorOptions options = PlainOptions();
    for (size_t i = 0; i < piece.inputs.size(); ++i) options.distributed.insert(fmt::format("i{}", i));
    for (size_t o = 0; o < piece.outputs.size(); ++o) options.distributed.insert(fmt::format("o{}", o));
    options.in_place = piece.in_place;
    absl::StatusOr<std::unique_ptr<Executor>> created =
        Executor::Create({.body = piece.program}, backend_, options, &state_);
    if (created.ok()) at->second = *std::move(created);
    return at->second;
  }

  // Leaves out a piece that cannot be run alone.
  void Add(const Piece& piece, size_t p, Tensors& tensors) {
    const std::shared_ptr<Executor> executor = ExecutorOf(piece);
    if (executor == nullptr) return;
    StepMemory memory;
    for (size_t i = 0; i < piece.inputs.size(); ++i) {
      DTensor& tensor = tensors.of[piece.inputs[i]];
      const std::string name = fmt::format("i{}", i);
      if (!tensor.valid()) {
        absl::StatusOr<DTensor> made = executor->NewFeed(name);
        if (!made.ok()) return;
        tensor = *std::move(made);
        if (tensor.type().dtype == F32)
          filled_.emplace_back(tensor, IsWorkedOn(tensors.graph, piece.inputs[i]));
      }
      memory.distributed_feeds[name] = tensor;
    }
    for (size_t o = 0; o < piece.outputs.size(); ++o) {
      DTensor& tensor = tensors.of[piece.outputs[o]];
      const std::string name = fmt::format("o{}", o);
      if (const auto over = piece.in_place.find(name); over != piece.in_place.end()) {
        tensor = memory.distributed_feeds[over->second];
        continue;
      }
      absl::StatusOr<DTensor> made = executor->NewOutput(name);
      if (!made.ok()) return;
      std::vector<DTensor>& free = tensors.free[PlaceOf(*made)];
      if (free.empty()) {
        tensor = *std::move(made);
      } else {
        tensor = std::move(free.back());
        free.pop_back();
      }
      memory.distributed_outputs[name] = tensor;
    }
    absl::StatusOr<BoundStep> bound = executor->Bind(std::move(memory));
    if (bound.ok()) steps_.emplace_back(piece.key, *std::move(bound));
    for (size_t i = 0; i < piece.inputs.size(); ++i) Leave(piece.inputs[i], p, tensors, piece, i);
  }

  // Where piece `p` is the last that reads its input `i`, and writes nothing over it.
  static void Leave(ValueId value, size_t p, Tensors& tensors, const Piece& piece, size_t i) {
    if (tensors.last_reader.at(value) != p || tensors.graph.value(value).node < 0) return;
    for (const auto& [output, input] : piece.in_place)
      if (input == fmt::format("i{}", i)) return;
    const auto at = tensors.of.find(value);
    tensors.free[PlaceOf(at->second)].push_back(at->second);
    tensors.of.erase(at);
  }

  // Whether something reads a value that does more than a few operations with each element: of an input, a weight or an
  // embedding. What else an argument may be, from a scale to the state of an optimizer, is 1, of which all functions that
  // training uses are finite.
  static bool IsWorkedOn(const Graph& graph, ValueId value) {
    if (graph.value(value).node >= 0) return true;
    return std::any_of(graph.nodes().begin(), graph.nodes().end(), [&](const Node& node) {
      return !node.row->is_light && node.row->kind == OpKind::kCompute &&
             std::find(node.operands.begin(), node.operands.end(), value) != node.operands.end();
    });
  }

  // Kernels take as long as on numbers that training sees: some are slow where numbers are tiny or NaN.
  void Fill() {
    for (auto& [tensor, is_random] : filled_) {
      std::minstd_rand random(1);
      auto* const values = reinterpret_cast<float*>(tensor.instance(0));
      for (int64_t i = 0; i < tensor.bytes() / 4; ++i)
        values[i] = is_random ? (static_cast<float>(random() % 2048) - 1024) / 16384 : 1;
    }
  }

  CpuBackend& backend_;
  const Machine& machine_;
  std::map<std::string, DTensor> state_;  // none
  std::map<std::string, std::shared_ptr<Executor>> executors_;
  std::vector<std::pair<std::string, BoundStep>> steps_;
  std::vector<std::pair<DTensor, bool>> filled_;  // what no piece computes, and whether with random numbers
};

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
  constexpr int kMany = 50;
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
  TimedPieces pieces(backend, machine);
  pieces.Add(schedule);
  for (const auto& [key, seconds] : pieces.Time(options.rounds)) machine.kernels[key] = seconds;
  return absl::OkStatus();
}

}  // namespace meshwork
