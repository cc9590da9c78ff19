#include "meshwork/train/cluster/stop_signals.h"

#include <atomic>
#include <csignal>
#include <cstdint>
#include <ctime>

namespace meshwork {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;

std::atomic<int64_t> asked_at_ns{0};  // 0: not yet
static_assert(std::atomic<int64_t>::is_always_lock_free);

// Calls only functions that a signal handler may call.
void KeepStop(int signal) {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const int64_t now_ns = now.tv_sec * kSecondNs + now.tv_nsec;
  int64_t first_ns = 0;
  if (asked_at_ns.compare_exchange_strong(first_ns, now_ns) || now_ns - first_ns < kSecondNs) return;
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

void CatchStopSignals() {
  struct sigaction action = {};
  action.sa_handler = KeepStop;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
}

bool IsStopAsked() { return asked_at_ns != 0; }

}  // namespace meshwork
