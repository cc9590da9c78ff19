// What a session computes on: SessionOptions::devices as text, and the backend that it names.
//
//   cpu      the cores of this process (runtime/cpu/cpu_backend.h)
//   cuda     GPU 0 of this machine (runtime/cuda/cuda_backend.h)
//   cuda:2   GPU 2
//
// All devices of the program's mesh are there. Thread-safe.
#pragma once

#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/runtime/backend.h"
#include "meshwork/train/session.h"

namespace meshwork {

// Whether the text is one of these forms; the machine is not asked. Errors: it is none; it names several GPUs
// (UNIMPLEMENTED).
absl::Status CheckDevices(std::string_view devices);

// SessionOptions::backend, or a new one, as `devices` says. Errors: those of CheckDevices and of CudaBackend::Create; a GPU,
// and there are several domains (UNIMPLEMENTED). Throws std::system_error if the system refuses a thread.
absl::StatusOr<std::shared_ptr<Backend>> MakeBackend(const SessionOptions& options);

}  // namespace meshwork
