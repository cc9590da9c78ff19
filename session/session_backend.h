// The hardware that a session computes on: SessionOptions::devices as text, and the backend that it names.
//
//   cpu      the cores of this process (runtime/cpu/cpu_backend.h)
//   cuda     GPU 0 of this machine (runtime/cuda/cuda_backend.h); of several domains, each takes the next GPU of its host
//   cuda:2   GPU 2
//   cuda:0-3, cuda:0,2   several GPUs, each a domain with a session of its own (train/cluster/on_gpus.h)
//   pjrt:PATH[:NAME=VALUE,…]   the devices of a PJRT plugin (runtime/pjrt/pjrt_backend.h)
//   tpu      the same of the plugin for TPUs
//
// All devices of this domain are there. Thread-safe.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/runtime/exec/backend.h"
#include "meshwork/session/session.h"

namespace meshwork {

// This table, for --help.
inline constexpr std::string_view kDevicesHelp =
    "what computes: cpu; cuda or cuda:N, a GPU; cuda:0-3 or cuda:0,2, several that share the mesh;\n"
    "pjrt:PATH[:NAME=VALUE,...], the devices of a PJRT plugin; tpu, TPUs";

// The GPUs that the text names, in its order; none: the CPU, or a PJRT plugin. The machine is not asked. Errors: it is none of these
// forms; it names a GPU twice.
absl::StatusOr<std::vector<int>> GpusOf(std::string_view devices);
// The errors of GpusOf.
absl::Status CheckDevices(std::string_view devices);

// SessionOptions::backend, or a new one, as `devices` says. With a transport of several domains all of them call it.
// Errors: those of CheckDevices, of CudaBackend::Create and of PjrtBackend::Create; several GPUs; several domains on a PJRT
// plugin; some domains compute on GPUs and some on
// CPUs. Throws std::system_error if the system refuses a thread.
absl::StatusOr<std::shared_ptr<Backend>> MakeBackend(const SessionOptions& options);
// A new backend on the cores of this process, as `options` say. Throws as MakeBackend.
std::shared_ptr<Backend> MakeCpuBackend(const SessionOptions& options);

}  // namespace meshwork
