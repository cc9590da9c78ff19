#include "meshwork/train/stop_signals.h"

#include <atomic>
#include <csignal>

namespace meshwork {
namespace {

std::atomic<bool> is_stop_asked{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void KeepStop(int /*signal*/) { is_stop_asked = true; }

}  // namespace

void CatchStopSignals() {
  struct sigaction action = {};
  action.sa_handler = KeepStop;
  action.sa_flags = SA_RESTART | SA_RESETHAND;  // only the first one
  sigemptyset(&action.sa_mask);
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
}

bool IsStopAsked() { return is_stop_asked; }

}  // namespace meshwork
