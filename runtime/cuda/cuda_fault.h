// Error messages about kernels that fail on a GPU. The driver reports the failure when the host waits for the kernel,
// or in a later call, and does not say which kernel failed. If launches block, each is waited for before the next
// one, so that the first kernel to fail is known.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "meshwork/runtime/cuda/cuda_context.h"
#include "meshwork/runtime/cuda/cuda_level.h"

namespace meshwork {

// Whether launches block: `option` (ExecutorOptions::blocking_launches), or MESHWORK_BLOCKING_LAUNCHES in the
// environment, unless it is empty or "0".
bool BlocksLaunches(bool option);

// Describes what the action runs: its ops with the user's lines, each once and at most four, "exp (f.cc:3), mul
// (f.cc:4) and 2 more"; or what it moves, 'the copy of input "x"'.
std::string DescribeAction(const CudaLevel& level, const CudaAction& action);

// The error of a launch that was waited for. REQUIRES: the context is lost.
absl::Status FaultOfLaunch(const CudaContext& context, std::string_view ran);
// The error of a step in which an unknown kernel failed; says how to find out which. `phase`: "Run" or "Prepare";
// `step`: its name. REQUIRES: the context is lost.
absl::Status FaultOfStep(const CudaContext& context, std::string_view phase, std::string_view step);

}  // namespace meshwork
