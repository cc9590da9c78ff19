// An executor allocates as much memory for tensors as Executor::PlanMemory predicts. The allocations are counted in
// AllocateAligned, which the linker replaces in this binary (--wrap, see tests/CMakeLists.txt).
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "allocation/tensor_memory.h"
#include "examples/support/mlp.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "meshwork/ir/plan/memory_report.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/runtime/cpu/cpu_memory.h"
#include "meshwork/runtime/exec/executor.h"
#include "support/golden.h"

namespace meshwork {

// The linker sends calls of AllocateAligned from all other files to CountedAllocate.
// NOLINTBEGIN(bugprone-reserved-identifier): the names are the linker's.
#define MESHWORK_ALLOCATE "_ZN8meshwork15AllocateAlignedEl"
std::shared_ptr<void> RealAllocate(int64_t bytes) asm("__real_" MESHWORK_ALLOCATE);
std::shared_ptr<void> CountedAllocate(int64_t bytes) asm("__wrap_" MESHWORK_ALLOCATE);
// NOLINTEND

namespace {
int64_t allocated = 0;
// A plain pointer, and never freed: the first use of an object with a destructor would allocate, in every thread.
thread_local const std::shared_ptr<TensorMemory>* memory_of_thread = nullptr;
}  // namespace

std::shared_ptr<TensorMemory> CountTensorMemoryOfThread() {
  memory_of_thread = new std::shared_ptr<TensorMemory>(std::make_shared<TensorMemory>());
  return *memory_of_thread;
}

std::shared_ptr<void> CountedAllocate(int64_t bytes) {
  const std::shared_ptr<void> real = RealAllocate(bytes);
  if (memory_of_thread == nullptr) {
    allocated += bytes;
    return real;
  }
  (*memory_of_thread)->Add(bytes);
  return {real.get(), [real, bytes, counted = *memory_of_thread](void*) { counted->Add(-bytes); }};
}

namespace {

// For every way in which an executor plans a program.
void ExpectAllocatesWhatIsPlanned(const Program& program) {
  for (const int workers : {1, 2, 3}) {
    CpuBackend backend(workers);
    for (const auto& [share, atomic] : {std::pair(true, false), {false, false}, {true, true}}) {
      SCOPED_TRACE(fmt::format("workers={} share={} atomic={}", workers, share, atomic));
      const ExecutorOptions options{.share = share, .atomic = atomic};
      allocated = 0;
      const ExecutorMemory planned = Executor::PlanMemory(program, backend, options).value();
      EXPECT_EQ(allocated, 0) << "planning allocates";
      std::map<std::string, DTensor> state;
      const auto executor = Executor::Create(program, backend, options, &state).value();
      EXPECT_EQ(allocated, planned.total_bytes());
      EXPECT_EQ(executor->memory(), planned);
      // The variables exist now.
      allocated = 0;
      const auto other = Executor::Create(program, backend, options, &state).value();
      EXPECT_EQ(allocated, planned.total_bytes() - planned.variable_bytes - planned.spare_bytes);
      EXPECT_EQ(other->memory(), planned);
    }
  }
}

TEST(PlannedMemoryTest, TheCounterCounts) {
  allocated = 0;
  DTensor tensor(CpuMemory(), Type{F32, {10, 7}}, Layout::Parse(Mesh::Parse("x=4").value(), "{x,_}").value());
  EXPECT_EQ(allocated, 4 * 84);  // blocks of 3 rows of 7
}

class GoldenProgramTest : public testing::TestWithParam<std::string> {};

TEST_P(GoldenProgramTest, AllocatesWhatIsPlanned) {
  const std::string golden = ReadGolden(GetParam());
  ExpectAllocatesWhatIsPlanned(Compile(ParseGraph(golden.substr(0, golden.find("----\n"))).value()).value());
}

std::vector<std::string> GoldenPrograms() {
  std::vector<std::string> files = GoldenFiles("spmd/cases");
  for (std::string& file : GoldenFiles("spmd/compile")) files.push_back(std::move(file));
  return files;
}

INSTANTIATE_TEST_SUITE_P(All, GoldenProgramTest, testing::ValuesIn(GoldenPrograms()), [](const auto& info) {
  std::string name = info.param.substr(std::string_view("spmd/").size());
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '/' || c == '.'; }, '_');
  return name;
});

// examples/quickstart.cc.
TEST(PlannedMemoryTest, QuickstartAllocatesWhatIsPlanned) {
  Graph g(Mesh::VirtualCpus("batch=4,model=2").value());
  Value x = g.Input("x", F32, {128, 784}, {"batch", UNSHARDED});
  Value y = g.Input("y", I32, {128}, {"batch"});
  Variable w1 = g.Var("w1", GlorotUniform({784, 700}), {UNSHARDED, "model"});
  Variable w2 = g.Var("w2", GlorotUniform({700, 10}), {"model", UNSHARDED});
  Value loss = SparseSoftmaxCrossEntropy(MatMul(Relu(MatMul(x, w1)), w2), y);
  Adam({.learning_rate = 1e-3}).Minimize(loss);
  g.Output("loss", loss);
  ExpectAllocatesWhatIsPlanned(Compile(g).value());
}

// Under a memory budget the numbers are the same, and the memory is less.
TEST(PlannedMemoryTest, WithinABudgetTheMlpTrainsAlikeAndAllocatesLess) {
  constexpr int64_t kBatch = 64;
  Graph graph(Mesh::VirtualCpus("batch=4,model=2").value());
  BuildMlp(graph, kBatch, {}, Adam({.learning_rate = 1e-3}));
  const Dataset digits = SyntheticDigits(kBatch, 1, /*seed=*/1, F32).value().train;
  const int64_t peak = LogicalPeakBytes(Compile(graph).value().body);
  std::vector<double> losses[2];
  ExecutorMemory memory[2];
  for (const bool tight : {false, true}) {
    const CompileOptions compile{.memory_budget = tight ? peak * 4 / 5 : 0};
    Session session =
        Session::Create(graph, {.workers = 1, .compile = compile, .executor = {.share = false}}).value();
    EXPECT_EQ(LogicalPeakBytes(session.program().body) <= peak * 4 / 5, tight);
    memory[tight] = session.memory();
    for (int step = 0; step < 3; ++step)
      for (const Batch& b : digits.Batches({.batch_size = kBatch}))
        losses[tight].push_back(
            session.Run({{"images", b["image"]}, {"labels", b["label"]}})->scalar("loss").value());
  }
  EXPECT_EQ(losses[true], losses[false]);
  EXPECT_LT(losses[true].back(), losses[true].front());
  EXPECT_EQ(memory[true].variable_bytes, memory[false].variable_bytes);
  EXPECT_LT(memory[true].private_bytes * 10, memory[false].private_bytes * 8);
  EXPECT_EQ(Session::Create(graph, {.compile = {.memory_budget = peak / 2}}).status().code(),
            absl::StatusCode::kResourceExhausted);
}

class MlpMnistTest : public testing::TestWithParam<const char*> {};

TEST_P(MlpMnistTest, AllocatesWhatIsPlanned) {
  for (const int64_t batch : {256, 127}) {
    Graph graph(Mesh::VirtualCpus(GetParam()).value());
    BuildMlp(graph, batch, {}, Adam({.learning_rate = 1e-3}));
    ExpectAllocatesWhatIsPlanned(Compile(graph).value());
  }
}

INSTANTIATE_TEST_SUITE_P(Meshes, MlpMnistTest,
                         testing::Values("", "batch=8", "batch=4,model=2", "batch=2,model=4", "model=3",
                                         "batch=3,replica=2"),
                         [](const auto& info) {
                           std::string name = "on_" + std::string(info.param);
                           std::replace_if(
                               name.begin(), name.end(), [](char c) { return c == '=' || c == ','; }, '_');
                           return name;
                         });

}  // namespace
}  // namespace meshwork
