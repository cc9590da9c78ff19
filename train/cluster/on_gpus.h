// Several GPUs of one process: each is a domain (mesh/placement.h), and computes on a thread of its own.
//
//   return OnEachGpu("cuda:0-3", join, [&](Processes& domains, const std::string& device) -> absl::Status {
//     SessionOptions options{.devices = device};        // "cuda:2"
//     domains.Use(options);                             // its session is one of all GPUs
//     …
//     if (domains.is_chief()) …                         // prints, and writes files
//   });
//
// The body is what each process of a cluster would run (train/cluster/processes.h), under the same rules: all threads
// make the same calls of their sessions in the same order, and each reads the rows that its devices take. Other objects
// are shared between the threads. A mesh of 8 devices on 4 GPUs has 2 devices on each.
//
// Between GPUs data goes by NCCL where it can (runtime/cuda/cuda_backend.h).
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "meshwork/train/cluster/processes.h"

namespace meshwork {

// Runs `body` for each device that `devices` names, and returns when all have ended. One device, or the CPU: it runs in
// this thread, with the other processes that `join` names. Several devices: each has a thread, and `domains` are those
// of this process. An error or an exception of one body ends the others. Errors: those of CheckDevices and of
// Processes::Join; several GPUs in a cluster of several processes; the first of a body, with the name of its GPU.
absl::Status OnEachGpu(
    const std::string& devices, const JoinOptions& join,
    const std::function<absl::Status(Processes& domains, const std::string& device)>& body);

}  // namespace meshwork
