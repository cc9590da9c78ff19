// Sessions in child processes: after a fork, and where memory runs out.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <new>
#include <thread>

#include "gtest/gtest.h"
#include "meshwork.h"
#include "train/classifier.h"

namespace meshwork {
namespace {

// Sanitizers, whose builds define this, neither fork with threads nor run short of address space.
#if !defined(MESHWORK_ONE_CPU_LEVEL)
// The child has the forking thread alone, and everything else of a session.
TEST(SessionTest, GoesOnInAForkedProcess) {
  for (int workers : {1, 2, 3}) {
    Session session = Session::Create(Classifier("batch=2", 6), {.workers = workers}).value();
    ASSERT_TRUE(session.Run(Examples(6)).ok());
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);  // ends it where it hangs
      const bool ran = session.Run(Examples(6)).ok() && session.Evaluate(Examples(5)).ok() &&
                       session.Run(Examples(6)).ok();
      const bool made = Session::Create(Classifier("batch=2", 6), {.workers = workers}).ok();
      _exit(ran && made ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    EXPECT_TRUE(session.Run(Examples(6)).ok());  // the parent goes on, too
  }
}

// In a child, whose address space runs out. A thread of its own, for libraries that were called before on
// this one have taken what they need at first.
int RunWithSpare(DType dtype, int64_t mebibytes) {
  Graph g{Mesh()};
  const Value x = g.Input("x", dtype, {256, 256}, {UNSHARDED, UNSHARDED});
  const Value image = g.Input("image", dtype, {2, 16, 16, 8}, LayoutSpec(4, UNSHARDED));
  const Variable filter = g.Var("f", GlorotUniform({3, 3, 8, 8}, dtype), LayoutSpec(4, UNSHARDED));
  g.Output("y", MatMul(x, x));
  g.Output("z", Conv(image, filter));
  std::ifstream statm("/proc/self/statm");
  int64_t pages = 0;
  statm >> pages;
  const rlim_t limit = static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE) + (mebibytes << 20));
  const rlimit limits{limit, limit};
  setrlimit(RLIMIT_AS, &limits);
  absl::Status status;
  try {
    absl::StatusOr<Session> session = Session::Create(g, {.workers = 1});
    status = session.ok() ? session
                                ->Run({{"x", Tensor::Zeros({dtype, {256, 256}})},
                                       {"image", Tensor::Zeros({dtype, {2, 16, 16, 8}})}})
                                .status()
                          : session.status();
  } catch (const std::bad_alloc&) {  // of the tensors here
    status = absl::ResourceExhaustedError("");
  }
  return status.ok() || absl::IsResourceExhausted(status) ? 0 : 1;
}

// Whatever it is that fails, the session says so.
TEST(SessionTest, OutOfMemoryIsAStatus) {
  for (DType dtype : {F32, F64, BF16}) {
    for (int64_t spare : {1, 4, 16, 48, 96, 160, 320}) {
      SCOPED_TRACE(spare);
      const pid_t child = fork();
      if (child == 0) {
        alarm(60);
        std::thread([&] { _exit(RunWithSpare(dtype, spare)); }).join();
      }
      int status = -1;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << DTypeName(dtype) << " " << status;
    }
  }
}
#endif

}  // namespace
}  // namespace meshwork
