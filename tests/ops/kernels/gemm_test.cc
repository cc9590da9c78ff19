// The matrix product against a plain loop, over sizes and transposes.
#include "meshwork/ops/kernels/blas/gemm.h"

#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <ucontext.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/ops/kernels/blas/held_signals.h"
#include "meshwork/ops/kernels/blas/library_threads.h"
#include "meshwork/ops/ops.h"
#include "ops/apply.h"
#include "support/interpreter.h"

namespace meshwork::gemm_test {
namespace {

using ::testing::ElementsAre;

template <typename T>
void ExpectGemmIsRight(int64_t m, int64_t n, int64_t k) {
  std::mt19937 random(8);
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      // Small whole numbers: every sum is exact in both types.
      std::vector<T> a(static_cast<size_t>(m * k)), b(static_cast<size_t>(k * n));
      for (T& x : a) x = static_cast<T>(static_cast<int>(random() % 9) - 4);
      for (T& x : b) x = static_cast<T>(static_cast<int>(random() % 9) - 4);
      std::vector<T> c(static_cast<size_t>(m * n) + 1, T(-99)),
          expected(static_cast<size_t>(m * n) + 1, T(0));
      expected.back() = T(-99);  // memory behind the result is unchanged
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j)
          for (int64_t l = 0; l < k; ++l)
            expected[i * n + j] += (ta ? a[l * m + i] : a[i * k + l]) * (tb ? b[j * k + l] : b[l * n + j]);
      const GemmShape shape{ta, tb, m, n, k, ta ? m : k, tb ? k : n, n};
      Gemm(shape, std::vector<GemmTerm>(1), a.data(), b.data(), c.data());
      ASSERT_EQ(c, expected) << m << "x" << n << "x" << k << " " << ta << tb;
    }
  }
}

TEST(GemmTest, MultipliesEverySizeAndTranspose) {
  for (int64_t m : {0, 1, 2, 5, 17}) {
    for (int64_t n : {0, 1, 3, 8, 33}) {
      for (int64_t k : {0, 1, 4, 7, 64}) {
        ExpectGemmIsRight<float>(m, n, k);
        ExpectGemmIsRight<double>(m, n, k);
      }
    }
  }
}

TEST(GemmTest, IsWhatTheMatmulRowRuns) {
  const HostTensor a({F32, {3, 2}}, {1, 2, 3, 4, 5, 6}), b({F32, {2, 3}}, {1, 0, 2, 0, 1, 3});
  EXPECT_THAT(Apply("matmul", {a, b}, {}, {F32, {3, 3}}).Numbers(), ElementsAre(1, 2, 8, 3, 4, 18, 5, 6, 28));
  EXPECT_THAT(
      Apply("matmul", {a, b}, {{"transpose_a", true}, {"transpose_b", true}}, {F32, {2, 2}}).Numbers(),
      ElementsAre(11, 18, 14, 22));
}

// ---- Signals.

#ifdef __x86_64__

// The number of signals taken, and of those taken while the stack pointer was outside this thread's stack:
// there the frame of a handler without its own stack would overwrite other data on the heap.
std::atomic<int64_t> taken, off_stack;
thread_local bool is_watched = false;  // other threads of this process may take signals, too
std::atomic<uintptr_t> stack_begin, stack_end;

void NoteStackPointer(int /*signal*/, siginfo_t* /*info*/, void* context) {
  const auto pointer =
      static_cast<uintptr_t>(static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_RSP]);
  if (!is_watched) return;
  taken = taken + 1;
  if (pointer < stack_begin || pointer > stack_end) off_stack = off_stack + 1;
}

// Sends this thread signals while it calls `f` over and over; they are taken on a stack of their own.
void CallUnderSignals(const std::function<void()>& f) {
  pthread_attr_t attributes;
  void* begin = nullptr;
  size_t size = 0;
  ASSERT_EQ(pthread_getattr_np(pthread_self(), &attributes), 0);
  ASSERT_EQ(pthread_attr_getstack(&attributes, &begin, &size), 0);
  pthread_attr_destroy(&attributes);
  stack_begin = reinterpret_cast<uintptr_t>(begin);
  stack_end = stack_begin + size;
  taken = off_stack = 0;
  is_watched = true;
  const SingleThreadedLibraries single;

  std::vector<char> space(1 << 20);
  const stack_t own = {.ss_sp = space.data(), .ss_flags = 0, .ss_size = space.size()};
  stack_t own_before;
  ASSERT_EQ(sigaltstack(&own, &own_before), 0);
  struct sigaction action = {}, before;
  action.sa_sigaction = NoteStackPointer;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  ASSERT_EQ(sigaction(SIGPROF, &action, &before), 0);
  const itimerval often = {{0, 500}, {0, 500}}, never = {};
  ASSERT_EQ(setitimer(ITIMER_PROF, &often, nullptr), 0);
  while (taken < 20) f();
  setitimer(ITIMER_PROF, &never, nullptr);
  sigaction(SIGPROF, &before, nullptr);
  sigaltstack(&own_before, nullptr);
  is_watched = false;
}

TEST(GemmTest, NoSignalIsTakenOffTheStack) {
  for (const int64_t k : {16, 64, 100, 300, 3000}) {
    for (const bool tb : {false, true}) {
      const int64_t m = 32, n = 256;
      const std::vector<float> a(static_cast<size_t>(m * k), 1), b(static_cast<size_t>(k * n), 1);
      std::vector<float> c(static_cast<size_t>(m * n));
      CallUnderSignals([&] {
        const GemmShape shape{false, tb, m, n, k, k, tb ? k : n, n};
        Gemm(shape, std::vector<GemmTerm>(1), a.data(), b.data(), c.data());
      });
      EXPECT_EQ(off_stack, 0) << "k=" << k << (tb ? ", transposed" : "");
    }
  }
}

// If several products hold signals back, these are taken after the last one.
TEST(GemmTest, SignalsAreHeldOnce) {
  sigset_t now;
  const auto is_held = [&] {
    pthread_sigmask(SIG_SETMASK, nullptr, &now);
    return sigismember(&now, SIGTERM) == 1;
  };
  ASSERT_FALSE(is_held());
  {
    const HeldSignals outer;
    const bool holds = is_held();  // false where oneDNN needs no such care
    {
      const HeldSignals inner(100), shorter(8);
      EXPECT_EQ(is_held(), holds);
    }
    EXPECT_EQ(is_held(), holds);
    EXPECT_EQ(sigismember(&now, SIGSEGV), 0);
  }
  EXPECT_FALSE(is_held());
}

#endif

}  // namespace
}  // namespace meshwork::gemm_test
