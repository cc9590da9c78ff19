// A bound step allocates no memory of meshwork's own.
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "allocation/allocations.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "runtime/plan/programs.h"

namespace meshwork::allocation_test {
namespace {

// ---- The counter counts.

// Keeps the compiler from leaving out an allocation that nobody uses.
void Escape(void* p) { asm volatile("" : : "g"(p) : "memory"); }

template <typename F>
int64_t CountOurs(F&& f) {
  CountAllocations count;
  f();
  return count.ours();
}

struct alignas(256) Wide {
  char bytes[256];
};

TEST(CountAllocationsTest, EveryWayToAllocateIsCounted) {
  EXPECT_EQ(CountOurs([] {}), 0);
  const auto keep = [](auto* p) {
    Escape(p);
    delete p;
  };
  const auto keep_array = [](auto* p) {
    Escape(p);
    delete[] p;
  };
  const auto release = [](void* p) {
    Escape(p);
    std::free(p);
  };
  EXPECT_EQ(CountOurs([&] { keep(new int(1)); }), 1);
  EXPECT_EQ(CountOurs([&] { keep_array(new int[10]); }), 1);
  EXPECT_EQ(CountOurs([&] { keep(new (std::nothrow) int(1)); }), 1);
  EXPECT_EQ(CountOurs([&] { keep_array(new (std::nothrow) int[10]); }), 1);
  EXPECT_EQ(CountOurs([&] { keep(new Wide()); }), 1);
  EXPECT_EQ(CountOurs([&] { keep_array(new Wide[2]); }), 1);
  EXPECT_EQ(CountOurs([&] { keep(new (std::nothrow) Wide()); }), 1);
  EXPECT_EQ(CountOurs([&] { release(std::malloc(10)); }), 1);
  EXPECT_EQ(CountOurs([&] { release(std::calloc(10, 10)); }), 1);
  EXPECT_EQ(CountOurs([&] { release(std::realloc(nullptr, 10)); }), 1);
  EXPECT_EQ(CountOurs([&] { release(std::aligned_alloc(64, 128)); }), 1);
  EXPECT_EQ(CountOurs([&] {
              void* p = nullptr;
              EXPECT_EQ(posix_memalign(&p, 64, 100), 0);
              release(p);
            }),
            1);
  EXPECT_EQ(CountOurs([] { Escape(AllocateAligned(100).get()); }), 2);  // with the count of its owners
}

TEST(CountAllocationsTest, AllocationsInsideTheStandardLibraryAreCounted) {
  EXPECT_EQ(CountOurs([] {
              std::string text(100, 'x');
              Escape(text.data());
            }),
            1);
  EXPECT_EQ(CountOurs([] { Escape(std::make_shared<int>(1).get()); }), 1);
}

TEST(CountAllocationsTest, EveryThreadIsCounted) {
  WorkerPool pool(3);
  EXPECT_EQ(CountOurs([&] { pool.Run([](int) { Escape(std::make_unique<int>(1).get()); }); }), 3);
}

TEST(CountAllocationsTest, NothingIsCountedOutsideTheScope) {
  int64_t ours = 0;
  {
    CountAllocations count;
    Escape(std::make_unique<int>(1).get());
    ours = count.ours();
  }
  Escape(std::make_unique<int>(1).get());
  EXPECT_EQ(ours, 1);
  EXPECT_EQ(CountAllocations().ours(), 0);
}

TEST(CountAllocationsTest, TheStackOfTheFirstIsKept) {
  EXPECT_EQ(CountAllocations().FirstOfOurs(), "");
  CountAllocations count;
  Escape(std::make_unique<int>(1).get());
  EXPECT_NE(count.FirstOfOurs(), "");
}

// oneDNN allocates when it first meets a shape; these allocations are the library's, whoever called it.
TEST(CountAllocationsTest, AKernelLibrarysAllocationsAreCountedApart) {
  Graph g(Mesh::VirtualCpus("").value());
  Value a = g.Input("a", F32, {61, 67}, {UNSHARDED, UNSHARDED});
  Value b = g.Input("b", F32, {67, 71}, {UNSHARDED, UNSHARDED});
  g.Output("c", MatMul(a, b));
  Session session = Session::Create(g, {.workers = 1}).value();
  BoundStep step = session.Bind({{"a", Rough({F32, {61, 67}})}, {"b", Rough({F32, {67, 71}})}}).value();
  CountAllocations count;
  ASSERT_TRUE(step.Run().ok());
  EXPECT_EQ(count.ours(), 0) << count.FirstOfOurs();
  EXPECT_GT(count.libraries(), 0);
}

// ---- Steps.

// Two layers, cross-entropy and Adam: x: f[b,33], y: i32[b]. 4 does not divide b, and 2 does not divide the hidden dim.
Graph Mlp(std::string_view mesh, int64_t batch, DType dtype) {
  Graph g(Mesh::VirtualCpus(mesh).value());
  Value x = g.Input("x", dtype, {batch, 33}, {"batch", UNSHARDED});
  Value y = g.Input("y", I32, {batch}, {"batch"});
  Dense hidden(g, "hidden", 33, 201,
               {.kernel_layout = {UNSHARDED, "model"}, .bias_layout = {"model"}, .dtype = dtype});
  Dense last(g, "last", 201, 10, {.kernel_layout = {"model", UNSHARDED}, .dtype = dtype});
  Value logits = last(Relu(hidden(x)));
  Value loss = SparseSoftmaxCrossEntropy(logits, y);
  Adam({.learning_rate = 0.01}).Minimize(loss);
  g.Output("loss", loss);
  g.Output("accuracy", Accuracy(logits, y, dtype));
  g.Output("logits", logits);
  return g;
}

Tensor Labels(int64_t batch) {
  Tensor y({I32, {batch}});
  for (int64_t i = 0; i < batch; ++i) y.mutable_values<int32_t>()[i] = static_cast<int32_t>(i * 7 % 10);
  return y;
}

struct StepMode {
  std::string_view name;
  ExecutorOptions options;
};

TEST(AllocationTest, ABoundTrainingStepAllocatesNothingOfOurs) {
  constexpr int64_t kBatch = 63;
  const StepMode modes[] = {
      {"plain", {.poison_padding = false, .check_replicas = false}},
      {"profiled", {.poison_padding = false, .check_replicas = false, .profile = true}},
      {"traced", {.poison_padding = false, .check_replicas = false, .trace_steps = 3}},
      {"checked", {.poison_padding = true, .check_replicas = true}},
      {"atomic", {.poison_padding = false, .check_replicas = false, .atomic = true}},
      {"checked, nothing shared", {.share = false, .poison_padding = true, .check_replicas = true}}};
  for (DType dtype : {F32, F64}) {
    for (const StepMode& mode : modes) {
      for (int workers : {1, 2, 3}) {
        SCOPED_TRACE(fmt::format("{} {} workers={}", mode.name, DTypeName(dtype), workers));
        Session session = Session::Create(Mlp("batch=4,model=2", kBatch, dtype),
                                          {.workers = workers, .executor = mode.options})
                              .value();
        const Tensor x = Rough({dtype, {kBatch, 33}});
        BoundStep step = session.Bind({{"x", x}, {"y", Labels(kBatch)}}).value();
        const Tensor loss = step.outputs().at("loss");
        for (int warm_up = 0; warm_up < 2; ++warm_up) ASSERT_TRUE(step.Run().ok());
        const double before = loss.Scalar().value();
        constexpr int kSteps = 5;
        bool ok = true;
        CountAllocations count;
        for (int i = 0; i < kSteps; ++i) ok &= step.Run().ok();
        const int64_t ours = count.ours(), libraries = count.libraries();
        EXPECT_EQ(ours, 0) << count.FirstOfOurs();
        EXPECT_TRUE(ok);
        EXPECT_LT(loss.Scalar().value(), before) << "the steps did train";
        fmt::print("{} {} workers={}: the kernel libraries allocated {} times in {} steps\n", mode.name,
                   DTypeName(dtype), workers, libraries, kSteps);
      }
    }
  }
}

// The same steps by Session::Run, which allocates new outputs: this shows that the test above can fail.
TEST(AllocationTest, AStepThatIsNotBoundIsSeenToAllocate) {
  constexpr int64_t kBatch = 63;
  Session session = Session::Create(Mlp("batch=4,model=2", kBatch, F32), {.workers = 2}).value();
  const Feeds feeds = {{"x", Rough({F32, {kBatch, 33}})}, {"y", Labels(kBatch)}};
  for (int warm_up = 0; warm_up < 2; ++warm_up) ASSERT_TRUE(session.Run(feeds).ok());
  bool ok = false;
  EXPECT_GE(CountOurs([&] { ok = session.Run(feeds).ok(); }), 3);  // three outputs at least
  EXPECT_TRUE(ok);
}

// Every kind of instruction: packing, kernels, collectives, unpacking, copies to variables that swap.
TEST(AllocationTest, NoInstructionAllocates) {
  const Program program = ParseProgram(R"(mesh [x=4]
func step(%i: f32[3,300] of f32[10,300] {x,_}, var %w: f32[300] {_}, var %v: f32[300] {_}) {
  %m = mask_padding %i dims=[0] op=sum : f32[3,300] of f32[10,300] {x,_}
  %p = reduce_sum %m dims=[0] : f32[300] of f32[300] {_ | sum:x}
  %s = all_reduce %p axes=(x) op=sum : f32[300] of f32[300] {_}
  %n = add %w, %s : f32[300] of f32[300] {_}
  %c = shard_slice %n axes=(x) dim=0 : f32[75] of f32[300] {x}
  %g = all_gather %c axes=(x) dim=0 : f32[300] of f32[300] {_}
  update %w = %v
  update %v = %w
  return g=%g, m=%m
})");
  for (const auto& [workers, atomic] : {std::pair(1, false), {3, false}, {3, true}}) {
    CpuBackend backend(workers);
    std::map<std::string, DTensor> state;
    auto executor = Executor::Create(program, backend, {.profile = true, .atomic = atomic}, &state).value();
    BoundStep step = executor->Bind({{"i", Rough({F32, {10, 300}})}}, executor->NewOutputs()).value();
    ASSERT_TRUE(step.Run().ok());
    bool ok = true;
    CountAllocations count;
    for (int i = 0; i < 10; ++i) ok &= step.Run().ok();
    EXPECT_EQ(count.ours(), 0) << count.FirstOfOurs();
    EXPECT_TRUE(ok);
  }
}

}  // namespace
}  // namespace meshwork::allocation_test
