#include "meshwork/ops/kernels/blas/held_signals.h"

#include <dnnl.h>
#include <pthread.h>
#include <signal.h>

namespace meshwork {
namespace {

constexpr int64_t kLongestOnStack = 32;

bool LeavesTheStack() {
  static const bool leaves = [] {
    const dnnl_version_t& version = *dnnl_version();
    return version.major < 3 || (version.major == 3 && version.minor < 12);
  }();
  return leaves;
}

sigset_t AllButFaults() {
  sigset_t signals;
  sigfillset(&signals);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT})
    sigdelset(&signals, fault);
  return signals;
}

thread_local int held = 0;
thread_local sigset_t before;

}  // namespace

HeldSignals::HeldSignals() : HeldSignals(kLongestOnStack + 1) {}

HeldSignals::HeldSignals(int64_t k) : holds_(k > kLongestOnStack && LeavesTheStack()) {
  static const sigset_t signals = AllButFaults();
  if (holds_ && held++ == 0) pthread_sigmask(SIG_BLOCK, &signals, &before);
}

HeldSignals::~HeldSignals() {
  if (holds_ && --held == 0) pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace meshwork
