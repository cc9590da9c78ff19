// Sessions in child processes: after a fork, and where memory runs out.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "meshwork/runtime/transport/loopback.h"
#include "meshwork/train/cluster/replica_check.h"
#include "support/forks.h"
#include "train/classifier.h"

namespace meshwork::session_process_test {
namespace {

// Builds with sanitizers define this. They cannot fork with threads, nor limit the address space.
#if !defined(MESHWORK_ONE_CPU_LEVEL)
// The child has the forking thread alone, and everything else of a session.
TEST(SessionTest, GoesOnInAForkedProcess) {
  for (int workers : {1, 2, 3}) {
    Session session = Session::Create(Classifier("batch=2", 6), {.workers = workers}).value();
    ASSERT_TRUE(session.Run(Examples(6)).ok());
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);  // ends the child if it hangs
      const bool ran = session.Run(Examples(6)).ok() && session.Evaluate(Examples(5)).ok() &&
                       session.Run(Examples(6)).ok();
      const bool made = Session::Create(Classifier("batch=2", 6), {.workers = workers}).ok();
      _exit(ran && made ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    EXPECT_TRUE(session.Run(Examples(6)).ok());  // the parent can go on, too
  }
}

// The other domains know the parent alone.
TEST(SessionTest, OfSeveralDomainsIsTheParents) {
  std::vector<std::unique_ptr<Transport>> ends = MakeLoopback(2, {.deadline = std::chrono::seconds(30)});
  const auto create = [&](size_t domain) {
    SessionOptions options{.workers = 2, .own_cores = false, .gather_outputs = true};
    options.executor.transport = ends[domain].get();
    return std::make_unique<Session>(Session::Create(Classifier("batch=2", 6), options).value());
  };
  std::thread other([&] {
    const auto session = create(1);
    BoundStep bound = session->Bind(Examples(6)).value();
    EXPECT_EQ(MessageOf(bound.Run()), "");
    for (int step = 0; step < 2; ++step) EXPECT_EQ(MessageOf(session->Run(Examples(6)).status()), "");
  });
  std::unique_ptr<Session> session = create(0);
  BoundStep bound = session->Bind(Examples(6)).value();
  EXPECT_EQ(MessageOf(bound.Run()), "");
  EXPECT_EQ(MessageOf(session->Run(Examples(6)).status()), "");
  const Tensor w = session->Get("w").value();
  const std::function<absl::Status()> calls[] = {
      [&] { return session->Run(Examples(6)).status(); },
      [&] { return session->Evaluate(Examples(5)).status(); },
      [&] { return session->Bind(Examples(6)).status(); },
      [&] { return session->Get("w").status(); },
      [&] { return session->Set("w", w); },
      [&] { return bound.Run(); },
      [&] {
        return Session::Create(Classifier("batch=2", 6), {.executor = {.transport = ends[0].get()}}).status();
      },
      [&] { return ReplicaCheck::Create({.every = 1, .transport = ends[0].get()}).status(); }};
  for (const auto& call : calls) {
    const absl::Status status = StatusOfChild(call);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << MessageOf(status);
    EXPECT_THAT(MessageOf(status), testing::HasSubstr(": it is the parent's, "));
  }
  EXPECT_EQ(SaidByChild([&] {
              session.reset();
              ends.clear();
              const bool made = Session::Create(Classifier("batch=2", 6), {.workers = 2}).ok();
              return std::string(made ? "made another" : "made none");
            }),
            "made another");
  EXPECT_EQ(MessageOf(session->Run(Examples(6)).status()), "");
  other.join();
}

// The thread that gathers batches is in the parent; a child begins a walk of its own.
TEST(SessionTest, AWalkOverBatchesIsTheParents) {
  const auto columns = [](int64_t first, int64_t end) -> absl::StatusOr<Columns> {
    std::vector<int32_t> numbers;
    for (int64_t i = first; i < end; ++i) numbers.push_back(static_cast<int32_t>(i));
    return Columns{{"x", Tensor::From<int32_t>({end - first}, numbers)}};
  };
  std::atomic<bool> is_loading = false, may_load = false;
  const Dataset dataset = Dataset::FromParts({{40, [&] { return columns(0, 40); }},
                                              {40,
                                               [&] {
                                                 is_loading = true;
                                                 while (!may_load) std::this_thread::yield();
                                                 return columns(40, 80);
                                               }}})
                              .value();
  const auto status_of = [](const std::function<void()>& walk) {
    try {
      walk();
    } catch (const absl::BadStatusOrAccess& error) {
      return error.status();
    }
    return absl::OkStatus();
  };
  std::optional<PipelineCursor> it = dataset.Batches({.batch_size = 10}).begin();
  for (int batch = 1; batch <= 2; ++batch) ++*it;
  while (!is_loading) std::this_thread::yield();  // it has gathered batch 3, and gathers batch 4
  const absl::Status next = StatusOfChild([&] { return status_of([&] { ++*it; }); });
  EXPECT_EQ(next.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(next), testing::StartsWith("Batches: it is the parent's, "));
  EXPECT_EQ(SaidByChild([&] {
              it.reset();
              int64_t sum = 0;
              for (const Batch& b : dataset.Take(40).Batches({.batch_size = 10, .shuffle_seed = 7}))
                for (int32_t x : b["x"].values<int32_t>()) sum += x;
              return std::to_string(sum);
            }),
            "780");
  const absl::Status part = StatusOfChild([&] {
    return status_of([&] {
      for (const Batch& b : dataset.Batches({.batch_size = 10})) static_cast<void>(b);
    });
  });
  EXPECT_EQ(part.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(part), testing::StartsWith("Dataset: part 1: it is the parent's, "));
  may_load = true;
  for (int batch = 3; batch <= 4; ++batch) ++*it;
  EXPECT_EQ((**it)["x"].values<int32_t>()[0], 40);
}

// Call it in a child: it limits the address space. Call it on a new thread: libraries that were called before on this
// one already have the memory that they need at first.
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

// Whichever allocation fails, the session returns a status.
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
}  // namespace meshwork::session_process_test
