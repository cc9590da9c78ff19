// Session::Remesh allocates no more than it reports; measured where tensors get their memory.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "allocation/tensor_memory.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "meshwork/runtime/transport/loopback.h"

namespace meshwork::remesh_test {
namespace {

constexpr int64_t kInFlight = 32 << 10;

// Nine layers of 96 by 96, with Adam: 27 tensors of 36 KiB, and small ones.
Graph DeepMlp(const std::string& mesh) {
  Graph g(Mesh::VirtualCpus(mesh).value());
  const DimSpec model = g.mesh().FindAxes("model").ok() ? DimSpec("model") : DimSpec(UNSHARDED);
  Value h = g.Input("x", F32, {24, 96}, {"batch", UNSHARDED});
  for (int layer = 0; layer < 9; ++layer)
    h = Tanh(
        Dense(g, fmt::format("layer{}", layer), 96, 96,
              {.kernel_layout = layer % 2 == 0 ? LayoutSpec{UNSHARDED, model} : LayoutSpec{model, UNSHARDED},
               .bias_layout = {UNSHARDED}})(h));
  Value loss = ReduceMean(h * h, {0, 1});
  Adam({.learning_rate = 0.01}).Minimize(loss);
  g.Output("loss", loss);
  return g;
}

// Between meshes on which a process holds all of the state, a half or a third.
TEST(RemeshMemoryTest, StaysWithinItsBound) {
  const std::vector<std::string> meshes = {"batch=8", "model=2,batch=4", "batch=6", "model=6,batch=1",
                                           "batch=2"};
  for (int64_t domains : {1, 2}) {
    const std::vector<std::unique_ptr<Transport>> ends = MakeLoopback(domains);
    std::vector<std::thread> threads;
    for (int64_t domain = 0; domain < domains; ++domain) {
      threads.emplace_back([&, domain] {
        const std::shared_ptr<TensorMemory> memory = CountTensorMemoryOfThread();
        SessionOptions options{.workers = 1, .own_cores = false};
        options.executor.poison_padding = options.executor.check_replicas = false;
        if (domains > 1) options.executor.transport = ends[static_cast<size_t>(domain)].get();
        Session session = Session::Create(DeepMlp(meshes[0]), options).value();
        for (size_t m = 1; m < meshes.size(); ++m) {
          SCOPED_TRACE(fmt::format("{} to {} in {} domains", meshes[m - 1], meshes[m], domains));
          const ExecutorMemory before = session.memory();
          EXPECT_EQ(memory->now(), before.total_bytes()) << "nothing else is counted";
          memory->ForgetMost();
          const RemeshReport report =
              session.Remesh(DeepMlp(meshes[m]), {.max_bytes_in_flight = kInFlight}).value();
          const ExecutorMemory after = session.memory();
          EXPECT_EQ(memory->now(), after.total_bytes()) << "all that is old was freed";
          EXPECT_LE(memory->most(), std::max({before.total_bytes(), report.peak_bytes, after.total_bytes()}));
          // The bound of the header.
          const int64_t old_bytes = before.variable_bytes, new_bytes = after.variable_bytes;
          constexpr int64_t kLargest = 96 * 96 * 4;
          EXPECT_LE(report.peak_bytes,
                    std::max(old_bytes, new_bytes) + std::max(kLargest, kInFlight) + kInFlight);
          EXPECT_LT(report.peak_bytes, old_bytes + new_bytes) << "a bound that says something";
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

// If the old state is kept alive, the counter shows it: the test above can fail.
TEST(RemeshMemoryTest, TheCounterSeesBothAtATime) {
  std::thread([] {
    const std::shared_ptr<TensorMemory> memory = CountTensorMemoryOfThread();
    Session session = Session::Create(DeepMlp("batch=8"), {.workers = 1}).value();
    const std::map<std::string, DTensor> kept = session.State();
    const int64_t before = session.memory().variable_bytes;
    const RemeshReport report =
        session.Remesh(DeepMlp("batch=6"), {.max_bytes_in_flight = kInFlight}).value();
    EXPECT_GE(memory->most(), 2 * before);
    EXPECT_GT(memory->most(), report.peak_bytes);
  }).join();
}

}  // namespace
}  // namespace meshwork::remesh_test
