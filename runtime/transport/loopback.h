// Loopback: a transport between several domains of one process, each with memory and threads of its own.
//
// For tests, and for several devices of one process that do not share memory. The receiver copies data
// straight from the sender's memory.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "meshwork/runtime/exec/transport.h"

namespace meshwork {

struct LoopbackOptions {
  // How long a domain waits for another one before it aborts the transport.
  std::chrono::milliseconds deadline = std::chrono::seconds(30);
};

// An end per domain, in order. Each may be used, and destroyed, on a thread of its own.
std::vector<std::unique_ptr<Transport>> MakeLoopback(int64_t num_domains,
                                                     const LoopbackOptions& options = {});

}  // namespace meshwork
