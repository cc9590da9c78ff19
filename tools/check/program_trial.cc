#include "meshwork/tools/check/program_trial.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <random>

#include "meshwork/base/status.h"
#include "meshwork/ir/text.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/runtime/exec/executor.h"
#include "meshwork/spmd/compile.h"
#include "meshwork/tools/check/owed.h"
#include "meshwork/tools/check/placements.h"
#include "meshwork/tools/check/run_kernel.h"

namespace meshwork {
namespace {

// What is drawn is meant, so nothing is too large to be gathered.
constexpr int64_t kNoBudget = std::numeric_limits<int64_t>::max();

Tensor ToTensor(const DoubleTensor& host) {
  Tensor tensor(host.type);
  std::memcpy(tensor.raw(), ToBytes(host).data(), static_cast<size_t>(tensor.bytes()));
  return tensor;
}

// The row that leaves a value owing `op` where it reduces a sharded dim.
std::string_view ReductionRow(ReduceOp op) {
  constexpr std::string_view kRows[] = {"reduce_sum",  "reduce_max", "reduce_min",
                                        "reduce_prod", "reduce_all", "reduce_any"};
  return kRows[static_cast<int>(op)];
}

// The tensors one behind the other along a new first dim.
Tensor Stacked(const std::vector<DoubleTensor>& parts) {
  DoubleTensor stack = parts[0];
  stack.type.shape.insert(stack.type.shape.begin(), static_cast<int64_t>(parts.size()));
  for (size_t i = 1; i < parts.size(); ++i)
    stack.values.insert(stack.values.end(), parts[i].values.begin(), parts[i].values.end());
  return ToTensor(stack);
}

// Compiles and runs a program of one op, and compares what it returns as r0, r1, ….
class ProgramTrial {
 public:
  using Feeds = std::map<std::string, Tensor>;

  // Error: the kernel fails on one device.
  static absl::StatusOr<ProgramTrial> Create(const Sample& sample, const ProgramTrialOptions& options,
                                             Backend& backend) {
    ProgramTrial trial(sample, options, backend);
    MESHWORK_ASSIGN_OR_RETURN(trial.expected_, RunKernel(WholeCall(sample, trial.operands_)));
    return trial;
  }

  // Adds a line to `findings` if the program fails or its results are others.
  void Try(const OpPlacement& placement, const Mesh& mesh, std::vector<std::string>& findings) {
    Note(Run(BuildGraph(sample_, placement.operands, placement.results, mesh), feeds_, expected_), placement,
         mesh, "", findings);
  }

  // The same with operands that owe: each is the reduction of an argument that holds its parts, stacked along
  // the axis.
  void TryOwing(const OpPlacement& placement, const Debt& debt, const Mesh& mesh,
                std::vector<std::string>& findings) {
    const int64_t devices = mesh.axis(debt.axis).size;
    Sampler sampler(12);
    Feeds feeds;
    std::vector<DoubleTensor> operands = operands_;
    for (size_t i = 0; i < operands.size(); ++i) {
      const std::string name = fmt::format("a{}", i);
      if (!debt.operands[i]) {
        feeds[name] = feeds_.at(name);
        continue;
      }
      Owed owed = DrawOwed(sampler, *sample_.row, sample_.operands[i], debt.op, devices, /*draw=*/0);
      feeds[name] = Stacked(owed.parts);
      operands[i] = std::move(owed.whole);
    }
    const auto expected = RunKernel(WholeCall(sample_, operands));
    Note(expected.ok() ? Run(OwingGraph(placement, debt, mesh), feeds, *expected)
                       : std::string(MessageOf(expected.status())),
         placement, mesh, fmt::format(" owing {} over {}", ReduceOpName(debt.op), mesh.axis(debt.axis).name),
         findings);
  }

  int64_t programs() const { return programs_; }

 private:
  ProgramTrial(const Sample& sample, const ProgramTrialOptions& options, Backend& backend)
      : sample_(sample), options_(options), backend_(backend) {
    Sampler sampler(11);
    for (const Type& type : sample.operands) operands_.push_back(sampler.Draw(type, *sample.row));
    for (size_t i = 0; i < operands_.size(); ++i) feeds_[fmt::format("a{}", i)] = ToTensor(operands_[i]);
  }

  Graph OwingGraph(const OpPlacement& placement, const Debt& debt, const Mesh& mesh) const {
    Graph graph(mesh);
    std::vector<ValueId> operands;
    for (size_t i = 0; i < placement.operands.size(); ++i) {
      Type type = sample_.operands[i];
      std::vector<AxisList> dims = placement.operands[i].dims();
      if (debt.operands[i]) {
        type.shape.insert(type.shape.begin(), mesh.axis(debt.axis).size);
        dims.insert(dims.begin(), AxisList{debt.axis});
      }
      operands.push_back(graph.AddArgument(
          {.name = fmt::format("a{}", i), .type = type, .global = type, .layout = Layout(mesh, dims)},
          false));
      if (!debt.operands[i]) continue;
      const int sum = graph
                          .TryAdd(GetOp(ReductionRow(debt.op)), {{operands.back()}},
                                  {{"dims", std::vector<int64_t>{0}}}, {"sample", 1})
                          .value();
      operands.back() = graph.nodes()[sum].results[0];
    }
    AddSample(graph, sample_, operands, placement.results);
    return graph;
  }

  void Note(const std::string& error, const OpPlacement& placement, const Mesh& mesh, std::string_view owing,
            std::vector<std::string>& findings) {
    ++programs_;
    if (error.empty()) return;
    findings.push_back(fmt::format("{} on {}: {}{}: {}", sample_.ToString(), mesh.ToString(),
                                   placement.ToString(), owing, error));
  }

  // The mistake, or "".
  std::string Run(const Graph& global, const Feeds& feeds, const std::vector<DoubleTensor>& expected) {
    const absl::StatusOr<Program> program =
        Compile(global, {.replication_budget = kNoBudget, .wrong_pass = WrongPass::kRefuse});
    if (!program.ok()) return std::string(MessageOf(program.status()));
    if (options_.inspect != nullptr)
      if (std::string error = options_.inspect(*program); !error.empty()) return error;
    std::map<std::string, DTensor> variables;
    auto executor = Executor::Create(*program, backend_, {.poison_padding = true}, &variables);
    if (!executor.ok()) return fmt::format("{}\n{}", MessageOf(executor.status()), PrintGraph(program->body));
    std::map<std::string, Tensor> outputs;
    if (absl::Status status = (*executor)->Run(feeds, &outputs); !status.ok())
      return std::string(MessageOf(status));
    return Differs(outputs, expected) ? "other values:\n" + PrintGraph(program->body) : "";
  }

  static bool Differs(const std::map<std::string, Tensor>& outputs,
                      const std::vector<DoubleTensor>& expected) {
    for (size_t i = 0; i < expected.size(); ++i) {
      const Tensor& tensor = outputs.at(fmt::format("r{}", i));
      const DoubleTensor found = FromBytes(tensor.type(), tensor.raw());
      if (tensor.type() != expected[i].type || !Agree(tensor.dtype(), found.values, expected[i].values))
        return true;
    }
    return false;
  }

  const Sample& sample_;
  const ProgramTrialOptions& options_;
  Backend& backend_;
  int64_t programs_ = 0;
  std::vector<DoubleTensor> operands_, expected_;
  Feeds feeds_;
};

}  // namespace

int64_t TryPrograms(const Sample& sample, const ProgramTrialOptions& options,
                    std::vector<std::string>& findings) {
  std::vector<Sample> samples = {sample};
  const size_t letters = sample.rule().letters.size();
  for (int64_t size : options.sizes) {
    if (letters == 0) break;
    if (auto resized = Resized(sample, std::vector<int64_t>(letters, size)))
      samples.push_back(*std::move(resized));
  }
  CpuBackend backend(1);
  std::mt19937_64 engine(5);
  int64_t count = 0, programs = 0;
  for (const Sample& sized : samples) {
    absl::StatusOr<ProgramTrial> trial = ProgramTrial::Create(sized, options, backend);
    if (!trial.ok()) {
      findings.emplace_back(MessageOf(trial.status()));
      continue;
    }
    const Rule rule = sized.rule();
    for (std::string_view name : options.meshes) {
      const Mesh mesh = Mesh::Parse(name).value();
      for (const LetterAxes& axes : AllLetterAxes(mesh, rule.letters.size())) {
        if (count++ % options.every != 0) continue;
        const OpPlacement placement = PlacementOf(rule, axes, mesh);
        trial->Try(placement, mesh, findings);
        if (const std::optional<Debt> debt = RandomDebt(sized, rule, axes, mesh, engine))
          trial->TryOwing(placement, *debt, mesh, findings);
      }
      for (int i = 0; i < options.random_placements; ++i) {
        trial->Try(RandomPlacement(sized, mesh, engine), mesh, findings);
        trial->Try(StridedPlacement(sized, rule, mesh, engine), mesh, findings);
      }
    }
    programs += trial->programs();
  }
  return programs;
}

}  // namespace meshwork
