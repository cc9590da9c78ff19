// Kernels that fail on the GPU of this machine. Each test is a process of its own, which cannot use the GPU afterwards.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "cuda_gpu/real_gpu.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/cuda/cuda_memory.h"
#include "meshwork/runtime/exec/executor.h"
#include "meshwork/spmd/compile.h"
#include "support/small_session.h"

namespace meshwork::faults_test {
namespace {

// A GPU's memory whose nth allocation, counted from 1, returns an invalid address.
class MemoryWithAHole : public Memory {
 public:
  MemoryWithAHole(std::shared_ptr<Memory> memory, int hole) : memory_(std::move(memory)), left_(hole) {}

  std::shared_ptr<void> Allocate(int64_t bytes) override {
    if (--left_ != 0) return memory_->Allocate(bytes);
    return {std::shared_ptr<void>(),
            reinterpret_cast<void*>(uintptr_t{0x1000})};  // NOLINT: an address of the GPU
  }
  std::string_view name() const override { return memory_->name(); }
  bool is_host() const override { return false; }
  absl::Status Upload(const BoxCopy& box, int64_t size, const std::byte* host, std::byte* to) override {
    return memory_->Upload(box, size, host, to);
  }
  absl::Status Download(const BoxCopy& box, int64_t size, const std::byte* from, std::byte* host) override {
    return memory_->Download(box, size, from, host);
  }

 private:
  const std::shared_ptr<Memory> memory_;
  int left_;
};

// The GPU, with such memory for variables.
class BackendWithAHole : public Backend {
 public:
  BackendWithAHole(Backend& backend, int hole)
      : backend_(backend), memory_(std::make_shared<MemoryWithAHole>(backend.memory(), hole)) {}

  std::string_view name() const override { return backend_.name(); }
  bool Has(const OpRow& row) const override { return backend_.Has(row); }
  std::shared_ptr<Memory> memory() const override { return memory_; }
  absl::StatusOr<ExecutorMemory> PlanMemory(StepPlan plan, const PrepareOptions& options) const override {
    return backend_.PlanMemory(std::move(plan), options);
  }
  absl::StatusOr<std::unique_ptr<PreparedStep>> Prepare(StepPlan plan, std::vector<DTensor> variables,
                                                        const PrepareOptions& options) override {
    return backend_.Prepare(std::move(plan), std::move(variables), options);
  }

 private:
  Backend& backend_;
  const std::shared_ptr<Memory> memory_;
};

// Runs steps beside another session on this GPU and one on the CPU until a kernel fails; then prints each status.
[[noreturn]] void FailAndTell(bool blocking) {
  const std::unique_ptr<CudaBackend> backend = CudaBackend::Create(*RealGpu()).value();
  BackendWithAHole with_a_hole(*backend, /*hole=*/1);
  const Graph graph = SmallMlp();
  Session beside = Session::Create(graph, {.backend = CudaBackend::Create(*RealGpu()).value()}).value();
  Session cpu = OnCpu(graph);
  if (!beside.Run(MlpRows(kMlpRows)).ok()) std::exit(1);
  std::map<std::string, DTensor> state;
  const auto executor =
      Executor::Create(Compile(graph).value(), with_a_hole, {.blocking_launches = blocking}, &state).value();
  std::map<std::string, Tensor> outputs;
  const auto tell = [](std::string_view who, const absl::Status& status) {
    fmt::print(stderr, "{}: {}\n", who, status.ok() ? "OK" : MessageOf(status));
  };
  tell("first", executor->Run(MlpRows(kMlpRows), &outputs));
  tell("again", executor->Run(MlpRows(kMlpRows), &outputs));
  tell("beside", beside.Run(MlpRows(kMlpRows)).status());
  tell("get", beside.Get("first/kernel").status());
  tell("context", CudaContext::Create((*RealGpu())->api(), 0).status());
  tell("cpu", cpu.Run(MlpRows(kMlpRows)).status());
  std::exit(7);
}

class GpuFaultsTest : public RealGpuTest {
 protected:
  void SetUp() override {
    RealGpuTest::SetUp();
    testing::GTEST_FLAG(death_test_style) = "threadsafe";  // a new process, which makes a context of its own
  }
};

constexpr std::string_view kBehind =
    "again: .*CUDA_ERROR_ILLEGAL_ADDRESS[^\n]*\n"
    "beside: [^\n]*CUDA_ERROR_ILLEGAL_ADDRESS[^\n]*\n"
    "get: [^\n]*start it again[^\n]*\n"
    "context: [^\n]*GPU 0[^\n]*\n"
    "cpu: OK\n";

TEST_F(GpuFaultsTest, SaysHowToLearnTheOp) {
  EXPECT_EXIT(
      FailAndTell(/*blocking=*/false), testing::ExitedWithCode(7),
      fmt::format("first: Run: [^\n]*: a kernel failed on GPU 0 [^\n]*: CUDA_ERROR_ILLEGAL_ADDRESS[^\n]*"
                  "MESHWORK_BLOCKING_LAUNCHES=1[^\n]*\n{}",
                  kBehind));
}

TEST_F(GpuFaultsTest, NamesTheOpAndItsLine) {
  EXPECT_EXIT(FailAndTell(/*blocking=*/true), testing::ExitedWithCode(7),
              fmt::format("first: Run: [^\n]*small_session.h:[^\n]*: it failed on GPU 0 [^\n]*: "
                          "CUDA_ERROR_ILLEGAL_ADDRESS[^\n]*\n{}",
                          kBehind));
}

}  // namespace
}  // namespace meshwork::faults_test
