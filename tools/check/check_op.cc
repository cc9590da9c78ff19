#include "meshwork/tools/check/check_op.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "fmt/ranges.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/registry.h"
#include "meshwork/ir/sample.h"
#include "meshwork/ops/kernels/blas/cpu_kernels.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/runtime/exec/executor.h"
#include "meshwork/spmd/compile.h"
#include "meshwork/tools/check/central_differences.h"
#include "meshwork/tools/check/double_tensor.h"
#include "meshwork/tools/check/kernel_trial.h"
#include "meshwork/tools/check/program_trial.h"

namespace meshwork {
namespace {

using Lines = std::vector<std::string>;

// Error: there are findings.
absl::Status Report(const Lines& findings) {
  constexpr int64_t kMost = 8;
  if (findings.empty()) return absl::OkStatus();
  const int64_t more = std::ssize(findings) - kMost;
  return InvalidArgument(
      "{}{}", fmt::join(findings.begin(), findings.begin() + std::min(kMost, std::ssize(findings)), "\n"),
      more > 0 ? fmt::format("\nand {} more.", more) : "");
}

// A program with its executor, on one worker.
absl::StatusOr<RunOnce> OnExecutor(const Graph& graph) {
  MESHWORK_ASSIGN_OR_RETURN(const Program program, Compile(graph, {.wrong_pass = WrongPass::kRefuse}));
  auto backend = std::make_shared<CpuBackend>(1);
  std::map<std::string, DTensor> variables;
  MESHWORK_ASSIGN_OR_RETURN(std::shared_ptr<Executor> executor,
                            Executor::Create(program, *backend, {}, &variables));
  return RunOnce([&graph, backend, executor](const NamedNumbers& feeds) -> absl::StatusOr<NamedNumbers> {
    std::map<std::string, Tensor> inputs, outputs;
    for (const Argument& argument : graph.arguments()) {
      const ValueInfo& info = graph.value(argument.value);
      inputs[info.name] = Tensor::From(info.type.shape, feeds.at(info.name));
    }
    MESHWORK_RETURN_IF_ERROR(executor->Run(inputs, &outputs));
    NamedNumbers numbers;
    for (const auto& [name, tensor] : outputs) numbers[name] = FromBytes(tensor.type(), tensor.raw()).values;
    return numbers;
  });
}

absl::Status TryKernels(const std::vector<Sample>& samples, OpReport& report) {
  Lines wrong;
  for (const Sample& sample : samples) {
    MESHWORK_RETURN_IF_ERROR(TryWholeKernel(sample));
    std::set<std::pair<bool, std::string>> seen;  // once, not for every number of devices
    for (int64_t devices : {2, 3}) {
      std::vector<KernelFinding> findings;
      report.placements += TryKernel(EvenSample(sample, devices), devices, findings);
      for (KernelFinding& finding : findings)
        if (seen.emplace(finding.is_wrong, finding.placement).second)
          (finding.is_wrong ? wrong : report.notes).push_back(std::move(finding.text));
    }
  }
  return Report(wrong);
}

absl::Status TryGradients(const OpRow& row, const std::vector<Sample>& samples, OpReport& report) {
  if (row.grad == nullptr) return absl::OkStatus();
  Lines wrong;
  for (const Sample& sample : samples) {
    const std::optional<RealFunction> function = FunctionOfSample(sample);
    if (!function.has_value()) continue;
    Lines findings;
    MESHWORK_ASSIGN_OR_RETURN(const int64_t slopes, TryGradient(*function, OnExecutor, findings));
    report.slopes += slopes;
    for (const std::string& finding : findings)
      wrong.push_back(fmt::format("{} in f64: {}", sample.ToString(), finding));
  }
  if (report.slopes == 0) report.notes.emplace_back("the gradient is not compared: no sample is one in f64");
  return Report(wrong);
}

absl::StatusOr<OpReport> TryAll(const OpRow& row) {
  MESHWORK_RETURN_IF_ERROR(CheckRow(row));
  const TrialRow trial(row);
  OpReport report{.op = std::string(row.name)};
  std::vector<Sample> samples;
  for (std::string_view text : row.samples) samples.push_back(ParseSample(row, text).value());
  MESHWORK_RETURN_IF_ERROR(TryKernels(samples, report));
  Lines wrong;
  for (const Sample& sample : samples) report.programs += TryPrograms(sample, {}, wrong);
  MESHWORK_RETURN_IF_ERROR(Report(wrong));
  MESHWORK_RETURN_IF_ERROR(TryGradients(row, samples, report));
  return report;
}

}  // namespace

std::string OpReport::ToString() const {
  std::string out = fmt::format("{}: {} placements, {} programs and {} slopes are right\n", op, placements,
                                programs, slopes);
  for (const std::string& note : notes) out += fmt::format("  {}\n", note);
  return out;
}

absl::StatusOr<OpReport> CheckOp(const OpRow& row) {
  OpRow tried = row;
  tried.cpu = CpuKernelOf(row);  // a row of the library may have its kernel elsewhere
  absl::StatusOr<OpReport> report = TryAll(row.cpu == nullptr ? tried : row);
  if (!report.ok()) return Annotate(report.status(), fmt::format("CheckOp \"{}\": ", row.name));
  return report;
}

}  // namespace meshwork
