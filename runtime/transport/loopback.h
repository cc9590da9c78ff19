// Loopback: a transport between several domains of one process, each with memory and threads of its own.
//
// For tests, and for several devices of one process that do not share memory. What is sent is copied by the
// receiver straight from where it lies.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "meshwork/runtime/transport.h"

namespace meshwork {

struct LoopbackOptions {
  // How long a domain waits for another one before it gives all up.
  std::chrono::milliseconds deadline = std::chrono::seconds(30);
};

// An end per domain, in order. Each may be used, and destroyed, on a thread of its own.
std::vector<std::unique_ptr<Transport>> MakeLoopback(int64_t num_domains,
                                                     const LoopbackOptions& options = {});

}  // namespace meshwork
