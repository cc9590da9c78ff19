// CodeBackend: compiles programs for GPUs of one architecture, which need not be there, and keeps the code on the disk.
// Nothing of a program is run.
//
//   MESHWORK_ASSIGN_OR_RETURN(const auto backend, CodeBackend::Create({.architecture = 90, .folder = "codes"}));
//   MESHWORK_RETURN_IF_ERROR(Session::Create(g, {.backend = backend}).status());
//   backend->counts().kernels        // in codes/; a run with MESHWORK_CUDA_CACHE=codes compiles nothing
//
// A session makes the same step plans for it as for a CudaBackend, and so the same kernels. For products and
// convolutions it compiles both the kernels around a library's and the row's own kernel, as it is unknown which of
// them the libraries of the other machine take. Variables have no memory here: reading them is an error, and writes
// are dropped. There is one domain.
//
// Code fits where NVRTC is the same build (runtime/cuda/code_cache.h); elsewhere it is compiled again.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/runtime/exec/backend.h"

namespace meshwork {

struct CudaApi;

struct CodeBackendOptions {
  int architecture = 0;  // 90 is sm_90
  std::string folder;    // where code is kept; not empty
};

// The architecture that "sm_90" names. Error: it is no such text.
absl::StatusOr<int> ParseArchitecture(std::string_view text);
// Dynamic shared memory that a block may have on GPUs of the architecture (CUDA C++ Programming Guide, "Technical
// Specifications per Compute Capability"); for an unknown architecture, as much as all have.
int64_t MostSharedBytes(int architecture);

class CodeBackend : public Backend {
 public:
  // Compiles by the NVRTC of this machine, which needs neither a GPU nor a driver. Errors: this build has no CUDA;
  // there is no NVRTC; the folder cannot be written.
  static absl::StatusOr<std::shared_ptr<CodeBackend>> Create(const CodeBackendOptions& options);
  // Compiles by the NVRTC of `api`, and keeps the code in api->code_folder.
  static std::shared_ptr<CodeBackend> Create(std::shared_ptr<const CudaApi> api, int architecture);

  struct Counts {
    int64_t kernels = 0;   // of all steps that were prepared; each step's count by itself
    int64_t compiled = 0;  // of these; the others were there
  };
  const Counts& counts() const { return counts_; }

  std::string_view name() const override { return "CUDA"; }
  bool Has(const OpRow& row) const override;
  std::shared_ptr<Memory> memory() const override { return memory_; }
  absl::StatusOr<ExecutorMemory> PlanMemory(StepPlan plan, const PrepareOptions& options) const override;
  // Compiles. The step does nothing when it is run. Errors: NVRTC does not compile a kernel.
  absl::StatusOr<std::unique_ptr<PreparedStep>> Prepare(StepPlan plan, std::vector<DTensor> variables,
                                                        const PrepareOptions& options) override;

 private:
  CodeBackend(std::shared_ptr<const CudaApi> api, int architecture);

  const std::shared_ptr<const CudaApi> api_;
  const int architecture_;
  const std::shared_ptr<Memory> memory_;
  Counts counts_;
};

}  // namespace meshwork
