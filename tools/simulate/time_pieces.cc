#include "meshwork/tools/simulate/time_pieces.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/ir/plan/storage.h"
#include "meshwork/ir/row.h"
#include "meshwork/runtime/cpu/cpu_memory.h"
#include "meshwork/runtime/exec/backend.h"
#include "meshwork/runtime/exec/dtensor.h"
#include "meshwork/runtime/exec/executor.h"
#include "meshwork/tools/simulate/pieces.h"

namespace meshwork {
namespace {

// Memory of this process in which the place of the next allocation can be chosen.
class PlacedMemory : public Memory {
 public:
  // Null: anywhere, zeros.
  void PlaceNext(std::shared_ptr<void> next) { next_ = std::move(next); }

  std::shared_ptr<void> Allocate(int64_t bytes) override {
    return next_ != nullptr ? std::exchange(next_, nullptr) : host_->Allocate(bytes);
  }
  std::string_view name() const override { return host_->name(); }
  bool is_host() const override { return true; }
  absl::Status Upload(const BoxCopy& box, int64_t size, const std::byte* host, std::byte* to) override {
    return host_->Upload(box, size, host, to);
  }
  absl::Status Download(const BoxCopy& box, int64_t size, const std::byte* from, std::byte* host) override {
    return host_->Download(box, size, from, host);
  }

 private:
  const std::shared_ptr<Memory> host_ = CpuMemory();
  std::shared_ptr<void> next_;
};

// A CPU backend whose tensors lie in a PlacedMemory.
class PlacedBackend : public Backend {
 public:
  explicit PlacedBackend(CpuBackend& cpu) : cpu_(cpu) {}
  std::string_view name() const override { return cpu_.name(); }
  bool Has(const OpRow& row) const override { return cpu_.Has(row); }
  std::shared_ptr<Memory> memory() const override { return memory_; }
  PlacedMemory& placed() { return *memory_; }
  absl::StatusOr<ExecutorMemory> PlanMemory(StepPlan plan, const PrepareOptions& options) const override {
    return cpu_.PlanMemory(std::move(plan), options);
  }
  absl::StatusOr<std::unique_ptr<PreparedStep>> Prepare(StepPlan plan, std::vector<DTensor> variables,
                                                        const PrepareOptions& options) override {
    return cpu_.Prepare(std::move(plan), std::move(variables), options);
  }

 private:
  CpuBackend& cpu_;
  const std::shared_ptr<PlacedMemory> memory_ = std::make_shared<PlacedMemory>();
};

// The memory of the values of a program. A view lies where its content does, the value that it is a view of.
struct Places {
  struct Chunk {
    std::shared_ptr<void> memory;
    int64_t bytes = 0;
  };

  explicit Places(const Graph& graph) : graph(graph), contents(FindContents(graph)) {}

  // The last freed chunk that has room for `bytes`, and at most four times as much.
  Chunk TakeFree(int64_t bytes) {
    for (auto chunk = free.rbegin(); chunk != free.rend(); ++chunk) {
      if (chunk->bytes < bytes || chunk->bytes > 4 * bytes) continue;
      Chunk taken = std::move(*chunk);
      free.erase(std::next(chunk).base());
      return taken;
    }
    return {};
  }

  const Graph& graph;
  const std::vector<ValueId> contents;
  std::map<ValueId, Chunk> chunks;        // by contents
  std::map<ValueId, size_t> last_reader;  // by contents: a piece
  std::set<ValueId> written;              // contents that pieces have written
  std::vector<Chunk> free;
};

class TimedPieces {
 public:
  TimedPieces(CpuBackend& backend, const Machine& machine) : backend_(backend), machine_(machine) {}

  void Add(const Schedule& schedule) {
    Places places(*schedule.graph);
    const Pieces pieces = CutPieces(schedule);
    for (size_t p = 0; p < pieces.all.size(); ++p)
      for (ValueId input : pieces.all[p].inputs) places.last_reader[places.contents[input]] = p;
    for (size_t p = 0; p < pieces.all.size(); ++p)
      if (!machine_.kernels.contains(pieces.all[p].key)) Add(pieces.all[p], p, places);
    for (const Instruction& instruction : schedule.instructions)
      if (instruction.loop != nullptr)
        for (const LoopPlan::Body& body : instruction.loop->bodies) Add(body.schedule);
  }

  std::map<std::string, double> Time(int rounds) {
    std::map<std::string, std::vector<double>> measured;
    std::set<std::string> failed;          // the times of pieces that failed mean nothing
    double least = machine_.step_seconds;  // that starting and ending a piece takes
    for (int r = 0; r < rounds; ++r) {
      Fill();
      for (auto& [key, step] : steps_)
        if (!step.Run().ok()) failed.insert(key);           // not timed: fills the caches as in a step
      std::map<std::string, std::pair<double, int>> round;  // the sum, and of how many
      for (auto& [key, step] : steps_) {
        auto& [sum, count] = round[key];
        const auto start = std::chrono::steady_clock::now();
        if (!step.Run().ok()) failed.insert(key);
        const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        if (!failed.contains(key)) least = std::min(least, took);
        sum += took;
        ++count;
      }
      for (const auto& [key, sum] : round) measured[key].push_back(sum.first / sum.second);
    }
    std::map<std::string, double> times;
    for (auto& [key, seconds] : measured) {
      const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
      std::nth_element(seconds.begin(), middle, seconds.end());
      if (!failed.contains(key)) times[key] = std::max(0.0, *middle - least);
    }
    return times;
  }

 private:
  struct Filled {
    std::shared_ptr<void> memory;
    int64_t count = 0;  // of f32
    bool is_random = false;
    float other = 0;  // its value if it is not random
  };

  // Null: the piece cannot be run alone.
  std::shared_ptr<Executor> ExecutorOf(const Piece& piece) {
    const auto [at, is_new] = executors_.emplace(piece.key, nullptr);
    if (!is_new) return at->second;
    ExecutorOptions options{.poison_padding = false, .check_replicas = false};
    for (size_t i = 0; i < piece.inputs.size(); ++i) options.distributed.insert(fmt::format("i{}", i));
    for (size_t o = 0; o < piece.outputs.size(); ++o) options.distributed.insert(fmt::format("o{}", o));
    options.in_place = piece.in_place;
    absl::StatusOr<std::unique_ptr<Executor>> created =
        Executor::Create({.body = piece.program}, backend_, options, &state_);
    if (created.ok()) at->second = *std::move(created);
    return at->second;
  }

  // Leaves out a piece that cannot be run alone.
  void Add(const Piece& piece, size_t p, Places& places) {
    const std::shared_ptr<Executor> executor = ExecutorOf(piece);
    if (executor == nullptr) return;
    StepMemory memory;
    for (size_t i = 0; i < piece.inputs.size(); ++i) {
      const std::string name = fmt::format("i{}", i);
      absl::StatusOr<DTensor> tensor =
          Place(piece.inputs[i], places, [&] { return executor->NewFeed(name); });
      if (!tensor.ok()) return;
      memory.distributed_feeds[name] = *std::move(tensor);
    }
    for (size_t o = 0; o < piece.outputs.size(); ++o) {
      places.written.insert(piece.outputs[o]);
      const std::string name = fmt::format("o{}", o);
      if (const auto over = piece.in_place.find(name); over != piece.in_place.end()) {
        const ValueId input = piece.inputs[static_cast<size_t>(std::stoi(over->second.substr(1)))];
        places.chunks[piece.outputs[o]] = places.chunks.at(places.contents[input]);
        continue;
      }
      const ValueInfo& info = piece.program.value(piece.program.outputs()[o].value);
      const Domain domain(piece.program.mesh());
      const int64_t bytes = BytesOfDTensor(domain, info.global, *info.layout, /*share=*/true);
      if (!places.chunks.contains(piece.outputs[o]))
        if (Places::Chunk chunk = places.TakeFree(bytes); chunk.memory != nullptr)
          places.chunks[piece.outputs[o]] = std::move(chunk);
      absl::StatusOr<DTensor> tensor =
          Place(piece.outputs[o], places, [&] { return executor->NewOutput(name); });
      if (!tensor.ok()) return;
      memory.distributed_outputs[name] = *std::move(tensor);
    }
    absl::StatusOr<BoundStep> bound = executor->Bind(std::move(memory));
    if (bound.ok()) steps_.emplace_back(piece.key, *std::move(bound));
    for (size_t i = 0; i < piece.inputs.size(); ++i) Leave(piece, i, p, places);
  }

  // The tensor that `make` makes, in the memory of the value. If the value has none yet, it gets new memory, which is
  // filled before each round, as perhaps no piece writes it.
  template <typename F>
  absl::StatusOr<DTensor> Place(ValueId value, Places& places, F&& make) {
    const ValueId content = places.contents[value];
    const auto at = places.chunks.find(content);
    if (at != places.chunks.end()) backend_.placed().PlaceNext(at->second.memory);
    MESHWORK_ASSIGN_OR_RETURN(DTensor tensor, make());
    if (at != places.chunks.end()) return tensor;
    // Keeps the tensor's memory.
    auto keep = std::make_shared<DTensor>(tensor);
    std::shared_ptr<void> memory(keep, tensor.instance(0));
    if (tensor.type().dtype == F32)
      filled_.push_back({memory, tensor.bytes() / 4, IsWorkedOn(places.graph, value),
                         tensor.type().rank() == 0 ? 1.0f : 0.0f});
    places.chunks[content] = {std::move(memory), tensor.bytes()};
    return tensor;
  }

  // Frees the memory of input `i` of piece `p`, if the piece is its last reader and writes no output over it.
  static void Leave(const Piece& piece, size_t i, size_t p, Places& places) {
    const ValueId content = places.contents[piece.inputs[i]];
    // If a piece stands for several instructions, a later piece may write one of its inputs.
    if (places.last_reader.at(content) != p || !places.written.contains(content)) return;
    const auto at = places.chunks.find(content);
    if (at == places.chunks.end()) return;  // another input, a view of the same, has freed it
    const bool is_written = std::any_of(piece.in_place.begin(), piece.in_place.end(), [&](const auto& entry) {
      return entry.second == fmt::format("i{}", i);
    });
    if (!is_written) places.free.push_back(at->second);
    places.chunks.erase(at);
  }

  // Whether a value is filled with random numbers: it is computed, or it is an operand of an op that does more than a
  // few operations with each element, such as an input, a weight or an embedding. Other arguments, from a bias to the
  // state of an optimizer, are filled with 0, or with 1 if they are one number, so that the results of training on
  // them are finite.
  static bool IsWorkedOn(const Graph& graph, ValueId value) {
    if (graph.value(value).node >= 0) return true;
    return std::any_of(graph.nodes().begin(), graph.nodes().end(), [&](const Node& node) {
      return !node.row->is_light && node.row->kind == OpKind::kCompute &&
             std::find(node.operands.begin(), node.operands.end(), value) != node.operands.end();
    });
  }

  // Fills with numbers of the size that training sees, as some kernels are slow on tiny numbers or NaNs.
  void Fill() {
    for (const Filled& filled : filled_) {
      std::minstd_rand random(1);
      auto* const values = static_cast<float*>(filled.memory.get());
      for (int64_t i = 0; i < filled.count; ++i)
        values[i] = filled.is_random ? (static_cast<float>(random() % 2048) - 1024) / 16384 : filled.other;
    }
  }

  PlacedBackend backend_;
  const Machine& machine_;
  std::map<std::string, DTensor> state_;  // none
  std::map<std::string, std::shared_ptr<Executor>> executors_;
  std::vector<std::pair<std::string, BoundStep>> steps_;
  std::vector<Filled> filled_;
};

}  // namespace

std::map<std::string, double> TimePieces(const Schedule& schedule, const Machine& machine,
                                         CpuBackend& backend, int rounds) {
  TimedPieces pieces(backend, machine);
  pieces.Add(schedule);
  return pieces.Time(rounds);
}

}  // namespace meshwork
