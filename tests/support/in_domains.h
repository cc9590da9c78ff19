// Several domains in one process, each on a thread of its own.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "meshwork/runtime/exec/transport.h"
#include "meshwork/runtime/transport/loopback.h"

namespace meshwork {

// Calls play(end) for each domain, on a thread of its own; `end` is its end of a loopback.
inline void InDomains(int64_t num_domains, const std::function<void(Transport& end)>& play) {
  const std::vector<std::unique_ptr<Transport>> ends =
      MakeLoopback(num_domains, {.deadline = std::chrono::minutes(1)});
  std::vector<std::thread> threads;
  for (const std::unique_ptr<Transport>& end : ends) threads.emplace_back([&] { play(*end); });
  for (std::thread& thread : threads) thread.join();
}

// The same, but a single domain gets no transport.
inline void InDomainsOf(int64_t num_domains, const std::function<void(Transport* end)>& play) {
  if (num_domains == 1) play(nullptr);
  else InDomains(num_domains, [&](Transport& end) { play(&end); });
}

}  // namespace meshwork
