// The kernels of a program as machine code for GPUs, compiled ahead of a run: meshwork compile --devices=cuda.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/base/flags.h"
#include "meshwork/ir/graph.h"
#include "meshwork/runtime/pjrt/pjrt_spec.h"
#include "meshwork/spmd/compile.h"

namespace meshwork::tools {

struct KernelCodeChoice {
  std::string devices = "cpu";  // "cuda"; or a PJRT plugin (tools/cli/plugin_code.h)
  std::string arch;             // "sm_90"; empty: that of GPU 0 of this machine
  std::string cache;            // a folder; empty: the one that this process keeps code in
  bool is_plugin() const { return PjrtSpec::IsOne(devices); }
  bool is_asked() const { return devices == "cuda" || is_plugin(); }
};

// Adds --devices, --arch and --cache.
void AddKernelCode(FlagTable& flags, KernelCodeChoice& choice);

// Errors: --devices is none of cpu, cuda and a PJRT plugin; --arch without cuda or a plugin; --cache without cuda.
absl::Status CheckKernelCode(const KernelCodeChoice& choice);

// Compiles the kernels of the steps that "meshwork run --devices=cuda" makes of the program, and keeps them. Returns a
// line that says how many there are. Errors: the architecture or the folder is not given, and this machine has none;
// those of CodeBackend::Create and Session::Create. REQUIRES: choice.is_asked() && !choice.is_plugin().
absl::StatusOr<std::string> CompileKernelCode(const Graph& global, const CompileOptions& options,
                                              const KernelCodeChoice& choice);

}  // namespace meshwork::tools
