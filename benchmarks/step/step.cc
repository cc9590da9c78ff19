// Exit code 2: the input is wrong; 1: a step failed or computed other weights.
#include "benchmarks/step/step.h"

#include <utility>

#include "benchmarks/machine.h"
#include "benchmarks/main_of.h"
#include "benchmarks/step/memory.h"
#include "benchmarks/step/options.h"
#include "benchmarks/step/report.h"
#include "benchmarks/step/rounds.h"
#include "meshwork/base/io/file.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/cpu/worker_pool.h"

namespace meshwork {
namespace {

absl::Status MeasureMemory(BatchResult& result) {
  for (VariantResult& variant : result.variants) {
    if (variant.variant == kByHand) continue;
    MESHWORK_ASSIGN_OR_RETURN(variant.peak_mb, PeakMegabytesAlone(variant.variant, result.batch));
  }
  return absl::OkStatus();
}

absl::Status Main(const StepOptions& options) {
  const bool writes_file = !options.json.empty() && options.json != "-";
  if (writes_file) MESHWORK_RETURN_IF_ERROR(CheckWritable(options.json));
  StepReport report{CpuName(), WorkerPool::DefaultWorkers(), options.repeats, {}};
  for (const int64_t batch : options.batches) {
    MESHWORK_ASSIGN_OR_RETURN(BatchResult result, RunRounds(options, batch, report.workers));
    if (options.is_alone) result.variants.front().peak_mb = MegabytesOf("VmHWM");
    if (options.measures_memory) MESHWORK_RETURN_IF_ERROR(MeasureMemory(result));
    report.batches.push_back(std::move(result));
  }
  if (writes_file) MESHWORK_RETURN_IF_ERROR(WriteFileAtomically(options.json, report.ToJson()));
  fmt::print("{}", options.json == "-" ? report.ToJson() : report.ToTable());
  return absl::OkStatus();
}

}  // namespace
}  // namespace meshwork

int main(int argc, char** argv) {
  return meshwork::MainOf(meshwork::TheStepModel().program, meshwork::ParseStepOptions(argc, argv),
                          meshwork::Main, meshwork::IsNotInternal);
}
