// A program as a PJRT plugin compiles it, ahead of a run: meshwork compile --devices=tpu --arch=v5e:2x4.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "meshwork/ir/graph.h"
#include "meshwork/spmd/compile.h"
#include "tools/cli/kernel_code.h"

namespace meshwork::tools {

// Compiles the program, for devices that need not be there, and returns what the plugin's compiler says of it beside what
// meshwork counts. Errors: --arch is missing; those of CompileAhead (runtime/pjrt/pjrt_ahead.h).
absl::StatusOr<std::string> CompileByPlugin(const Graph& global, const CompileOptions& options,
                                            const KernelCodeChoice& choice);

}  // namespace meshwork::tools
