// TryHostile of support/hostile_program.h.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/ir/difference.h"
#include "meshwork/ir/gradients.h"
#include "meshwork/ir/program.h"
#include "meshwork/ir/program_cost.h"
#include "meshwork/ir/row.h"
#include "meshwork/ir/text.h"
#include "meshwork/ops/control/rebatch.h"
#include "meshwork/ops/ops.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/runtime/exec/executor.h"
#include "meshwork/runtime/plan/local_program.h"
#include "meshwork/spmd/compile.h"
#include "meshwork/verify/certificate.h"
#include "meshwork/verify/verify.h"
#include "support/hostile_program.h"

namespace meshwork {
namespace {

constexpr double kMostWork = 2e6;          // elements and operations per step
constexpr int64_t kMostBytes = 64 << 20;   // of an executor
constexpr size_t kLongestMessage = 20000;  // messages quote values; longer ones are errors

// "program:LINE:COLUMN: message", the line, the caret.
std::string CheckParseError(std::string_view message) {
  if (!message.starts_with("program:")) return fmt::format("an error without its place: {}", message);
  if (std::count(message.begin(), message.end(), '\n') != 2 || !message.ends_with('^'))
    return fmt::format("an error without its line and caret: {}", message);
  return message.size() > 3000 ? fmt::format("a very long error: {}", message.substr(0, 3000)) : "";
}

// A refusal must blame the program, not the compiler.
std::string CheckRefusal(std::string_view what, const absl::Status& status) {
  const std::string_view message = MessageOf(status);
  if (status.code() != absl::StatusCode::kInvalidArgument &&
      status.code() != absl::StatusCode::kResourceExhausted &&
      status.code() != absl::StatusCode::kUnimplemented)
    return fmt::format("{}: {}", what, status.ToString());
  if (message.empty() || message.size() > kLongestMessage)
    return fmt::format("{}: a message of {} bytes", what, message.size());
  return "";
}

// The numbers that a step reads, writes and computes; more than kMostWork where a size or a count is huge.
double WorkOf(const Graph& graph) {
  double work = 30 * static_cast<double>(graph.nodes().size());  // the overhead of a call
  for (const ValueInfo& info : graph.values()) work += static_cast<double>(info.global.num_elements()) + 1;
  work += static_cast<double>(graph.arguments().size());
  for (const Node& node : graph.nodes()) {
    const auto times = std::max(1.0, static_cast<double>(TimesOf(node)));
    for (const auto& region : node.regions) work += times * WorkOf(*region);
    if (node.row->kind == OpKind::kCompute) work += FlopsOf(graph, node) / 100;
  }
  return work;
}

// Random numbers of all kinds, among them those that kernels handle badly.
Tensor FeedOf(const Type& type, std::mt19937_64& engine) {
  Tensor tensor(type);
  DispatchAny(type.dtype, [&](auto zero) {
    using T = decltype(zero);
    for (T& x : tensor.mutable_values<T>()) {
      const uint64_t draw = engine();
      const int64_t small = static_cast<int64_t>(draw % 13) - 3;
      if constexpr (std::is_same_v<T, bool>) {
        x = (draw & 1) != 0;
      } else if constexpr (std::is_integral_v<T>) {
        using Limits = std::numeric_limits<T>;
        constexpr T kOdd[] = {Limits::min(), Limits::max(), T(-1), T(1000000)};
        x = draw % 8 == 0 ? kOdd[(draw >> 8) % 4] : static_cast<T>(small);
      } else {
        using Limits = std::numeric_limits<Compute<T>>;
        const Compute<T> odd[] = {Limits::infinity(), -Limits::infinity(),  Limits::quiet_NaN(), -0.0f,
                                  Limits::max(),      Limits::denorm_min(), Compute<T>(1e9f)};
        x = static_cast<T>(draw % 8 == 0 ? odd[(draw >> 8) % 7] : static_cast<Compute<T>>(small) / 4);
      }
    }
  });
  return tensor;
}

CpuBackend& BackendOf(int workers) {
  static std::map<int, CpuBackend> backends;
  return backends.try_emplace(workers, workers, /*own_cores=*/false).first->second;
}

class Tried {
 public:
  Tried(const HostileProgram& program, uint64_t seed, const Trying& trying)
      : program_(program), engine_(seed), trying_(trying) {}

  std::string Run() {
    const absl::StatusOr<Graph> graph = Read(program_.text);
    if (!graph.ok()) return CheckParseError(MessageOf(graph.status()));
    std::string error = TryReadBack(*graph);
    if (error.empty()) error = TryCompile(*graph, "", /*with_mutants=*/true);
    if (error.empty() && Percent(40)) error = TryGradients();
    if (error.empty() && Percent(25)) error = TryRebatch(*graph);
    return error;
  }

 private:
  bool Percent(uint64_t percent) { return engine_() % 100 < percent; }

  absl::StatusOr<Graph> Read(const std::string& text) {
    if (trying_ != nullptr) trying_(text);
    return ParseGraph(text);
  }

  static std::string TryReadBack(const Graph& graph) {
    const std::string text = PrintGraph(graph);
    const absl::StatusOr<Graph> again = ParseGraph(text);
    if (!again.ok()) return fmt::format("what is printed does not read back: {}", MessageOf(again.status()));
    const std::string difference = FirstDifference(graph, *again);
    return difference.empty() ? "" : "the text reads back as another program: " + difference;
  }

  CompileOptions DrawOptions() {
    CompileOptions options;
    options.shard_weight_update = Percent(20);
    if (Percent(30)) options.replication_budget = Percent(50) ? 0 : int64_t{1} << 60;
    if (Percent(10)) options.memory_budget = 1 + static_cast<int64_t>(engine_() % 4096);
    return options;
  }

  std::string TryCompile(const Graph& graph, const std::string& what, bool with_mutants) {
    const absl::StatusOr<Program> program = Compile(graph, DrawOptions());
    if (!program.ok()) {
      // The checker gets a program that the compiler refused.
      const std::string fingerprint = Fingerprint(graph), text = PrintGraph(graph);
      const absl::Status status =
          CheckCertificate(graph, {fingerprint, fingerprint, graph.mesh().ToString(), text, {}});
      if (status.ok()) return what + "a certificate without a claim holds";
      if (status.code() != absl::StatusCode::kFailedPrecondition)
        if (std::string error = CheckRefusal(what + "CheckCertificate", status); !error.empty()) return error;
      return CheckRefusal(what + "Compile", program.status());
    }
    std::string error = RunProgram(*program, what);
    if (error.empty() && with_mutants && program->sharded_state.empty()) error = TryMutants(graph, *program);
    return error;
  }

  std::string RunProgram(const Program& program, const std::string& what) {
    if (!program_.ends || WorkOf(program.body) > kMostWork) return "";
    const ExecutorOptions options{.share = !Percent(20), .coalesce = !Percent(20), .fuse = !Percent(20)};
    CpuBackend& backend = BackendOf(Percent(10) ? 2 : 1);
    const absl::StatusOr<ExecutorMemory> memory = Executor::PlanMemory(program, backend, options);
    if (!memory.ok()) return CheckRefusal(what + "PlanMemory", memory.status());
    if (memory->total_bytes() > kMostBytes) return "";
    std::map<std::string, DTensor> state;
    const absl::StatusOr<std::unique_ptr<Executor>> executor =
        Executor::Create(program, backend, options, &state);
    if (!executor.ok()) return CheckRefusal(what + "Executor::Create", executor.status());
    std::map<std::string, Tensor> feeds, outputs;
    for (const Argument& argument : program.body.arguments()) {
      const ValueInfo& info = program.body.value(argument.value);
      const Tensor tensor = FeedOf(info.global, engine_);
      if (!argument.is_variable) feeds.emplace(info.name, tensor);
      else if (absl::Status status = Pack(tensor, state.at(info.name)); !status.ok())
        return CheckRefusal(what + "Pack", status);
    }
    // Two steps: the second one reads the state after the first.
    for (int step = 0; step < 2; ++step)
      if (absl::Status status = (*executor)->Run(feeds, &outputs); !status.ok())
        return fmt::format("{}Run: {}", what, status.ToString());
    return "";
  }

  // Local programs with changes: proven or refused, and run where the executor accepts them.
  std::string TryMutants(const Graph& graph, const Program& program) {
    const std::string text = PrintGraph(program.body);
    for (int m = 0; m < 3; ++m) {
      const std::string mutant = DrawHostileLocal(text, engine_());
      const absl::StatusOr<Graph> local = Read(mutant);
      if (!local.ok()) {
        if (std::string error = CheckParseError(MessageOf(local.status())); !error.empty()) return error;
        continue;
      }
      const absl::StatusOr<Proof> proof = Verify(graph, *local);
      if (!proof.ok()) {
        if (std::string error = CheckRefusal("Verify of\n" + mutant, proof.status()); !error.empty())
          return error;
      } else if (absl::Status status = CheckCertificate(graph, MakeCertificate(graph, *local, *proof));
                 !status.ok()) {
        return fmt::format("a certificate of what is proven does not hold: {}\n{}", status.ToString(),
                           mutant);
      }
      if (HasWhile(*local) || !CheckLocalProgram(*local).ok()) continue;
      if (std::string error = RunMutant(*local); !error.empty()) return error;
    }
    return "";
  }

  std::string RunMutant(const Graph& local) {
    const Program program{.body = local};
    if (WorkOf(local) > kMostWork) return "";
    const absl::StatusOr<ExecutorMemory> memory = Executor::PlanMemory(program, BackendOf(1), {});
    if (!memory.ok() || memory->total_bytes() > kMostBytes) return "";
    return RunProgram(program, "changed local program: ");
  }

  static bool HasWhile(const Graph& graph) {
    return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const Node& node) {
      return node.row->name == "while" || std::any_of(node.regions.begin(), node.regions.end(),
                                                      [](const auto& region) { return HasWhile(*region); });
    });
  }

  std::string TryGradients() {
    Graph graph = *Read(program_.text);
    std::vector<Value> reals, wrt;
    for (size_t v = 0; v < graph.values().size(); ++v)
      if (const ValueInfo& info = graph.value(static_cast<ValueId>(v)); IsFloat(info.type.dtype)) {
        reals.emplace_back(&graph, static_cast<ValueId>(v));
        if (info.node < 0) wrt.push_back(reals.back());
      }
    if (wrt.empty()) return "";
    const Value last = reals.back();
    std::vector<int64_t> dims;
    for (int d = 0; d < last.rank(); ++d) dims.push_back(d);
    const Value loss = ReduceSum(last, dims);
    const std::vector<Value> gradients = Gradients(loss, wrt);
    for (size_t i = 0; i < gradients.size(); ++i) graph.Output(fmt::format("gradient{}", i), gradients[i]);
    if (!graph.status().ok()) return CheckRefusal("Gradients", graph.status());
    for (size_t i = 0; i < gradients.size(); ++i)
      if (gradients[i].type() != wrt[i].type())
        return fmt::format("a gradient of a {} is a {}", wrt[i].type().ToString(),
                           gradients[i].type().ToString());
    return TryCompile(graph, "gradients: ", /*with_mutants=*/false);
  }

  std::string TryRebatch(const Graph& graph) {
    for (const Argument& argument : graph.arguments()) {
      const Shape& shape = graph.value(argument.value).type.shape;
      if (argument.is_variable || shape.empty()) continue;
      constexpr int64_t kOther[] = {0, 1, 2, 3, 5, 12};
      const absl::StatusOr<Graph> other = Rebatch(graph, shape[0], kOther[engine_() % 6]);
      if (!other.ok()) return CheckRefusal("Rebatch", other.status());
      return TryCompile(*other, "another batch: ", /*with_mutants=*/false);
    }
    return "";
  }

  const HostileProgram& program_;
  std::mt19937_64 engine_;
  const Trying& trying_;
};

}  // namespace

std::string TryHostile(const HostileProgram& program, uint64_t seed, const Trying& trying) {
  return Tried(program, seed, trying).Run();
}

}  // namespace meshwork
