// The simulated GPU does work late, in any order that streams and events allow.
#ifdef MESHWORK_HAVE_CUDA
#include <set>

#include "runtime/cuda/gpu_fixture.h"

namespace meshwork::order_test {
namespace {

constexpr uint64_t kSeeds = 50;

// The results of `run` over all seeds.
template <typename F>
std::set<std::string> OverSeeds(F&& run) {
  std::set<std::string> outcomes;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const GpuPlayer gpu(seed);
    outcomes.insert(run(gpu));
  }
  return outcomes;
}

std::string Text(float value) { return std::isnan(value) ? "nan" : fmt::format("{}", value); }

TEST(GpuOrderTest, WorkIsDoneOnlyWhenSomebodyWaits) {
  const GpuPlayer gpu;
  const CudaBuffer x = gpu.NewBuffer(4);
  const PinnedBuffer host = gpu.NewPinned(4);
  ASSERT_TRUE(gpu.Launch("write", *gpu.stream, x, 3).ok());
  ASSERT_TRUE(CopyToHost(*gpu.stream, host.data(), x.address(), x.bytes()).ok());
  EXPECT_GT(gpu.cuda.num_pending(), 0);
  EXPECT_TRUE(std::isnan(FirstOf(host)));
  ASSERT_TRUE(gpu.stream->Synchronize().ok());
  EXPECT_EQ(gpu.cuda.num_pending(), 0);
  EXPECT_EQ(FirstOf(host), 3);
}

TEST(GpuOrderTest, OneStreamKeepsItsOrder) {
  EXPECT_EQ(OverSeeds([](const GpuPlayer& gpu) {
              const CudaBuffer x = gpu.NewBuffer(4);
              EXPECT_TRUE(gpu.Launch("write", *gpu.stream, x, 1).ok());
              EXPECT_TRUE(gpu.Launch("add", *gpu.stream, x, 2).ok());
              EXPECT_TRUE(gpu.Launch("write", *gpu.stream, x, 5).ok());
              EXPECT_TRUE(gpu.Launch("add", *gpu.stream, x, 2).ok());
              return Text(gpu.First(*gpu.stream, x));
            }),
            std::set<std::string>{"7"});
}

// A copy, on a second stream, of data that a kernel on the first stream writes.
std::string CopyOfWritten(const GpuPlayer& gpu, bool waits) {
  const auto other = gpu.NewStream();
  const auto written = gpu.NewEvent();
  const CudaBuffer x = gpu.NewBuffer(4);
  const PinnedBuffer host = gpu.NewPinned(4);
  EXPECT_TRUE(gpu.stream->Synchronize().ok());  // x is there
  EXPECT_TRUE(gpu.Launch("write", *gpu.stream, x, 1).ok());
  EXPECT_TRUE(written->Record(*gpu.stream).ok());
  EXPECT_TRUE(!waits || other->Wait(*written).ok());
  EXPECT_TRUE(CopyToHost(*other, host.data(), x.address(), x.bytes()).ok());
  EXPECT_TRUE(gpu.context->Synchronize().ok());
  return Text(FirstOf(host));
}

TEST(GpuOrderTest, WithoutAnEventBothOrdersOccur) {
  EXPECT_EQ(OverSeeds([](const GpuPlayer& gpu) { return CopyOfWritten(gpu, false); }),
            (std::set<std::string>{"1", "nan"}));
}

TEST(GpuOrderTest, WithAnEventOnlyOneDoes) {
  EXPECT_EQ(OverSeeds([](const GpuPlayer& gpu) { return CopyOfWritten(gpu, true); }),
            std::set<std::string>{"1"});
}

TEST(GpuOrderTest, AnEventStandsForTheWorkWhenItWasRecorded) {
  // The second record comes too late for the wait.
  EXPECT_EQ(OverSeeds([](const GpuPlayer& gpu) {
              const auto other = gpu.NewStream();
              const auto event = gpu.NewEvent();
              const CudaBuffer x = gpu.NewBuffer(4);
              const PinnedBuffer host = gpu.NewPinned(4);
              EXPECT_TRUE(gpu.Launch("write", *gpu.stream, x, 1).ok());
              EXPECT_TRUE(event->Record(*gpu.stream).ok());
              EXPECT_TRUE(other->Wait(*event).ok());
              EXPECT_TRUE(gpu.Launch("add", *gpu.stream, x, 1).ok());
              EXPECT_TRUE(event->Record(*gpu.stream).ok());
              EXPECT_TRUE(CopyToHost(*other, host.data(), x.address(), x.bytes()).ok());
              EXPECT_TRUE(other->Synchronize().ok());
              EXPECT_TRUE(gpu.stream->Synchronize().ok());
              return Text(FirstOf(host));
            }),
            (std::set<std::string>{"1", "2"}));
}

TEST(GpuOrderTest, AnEventThatWasNeverRecordedIsNotWaitedFor) {
  const GpuPlayer gpu;
  const auto event = gpu.NewEvent();
  EXPECT_TRUE(gpu.stream->Wait(*event).ok());
  EXPECT_TRUE(event->Synchronize().ok());
  EXPECT_TRUE(*event->IsDone());
}

// A late copy from the host takes pinned memory's value at the time of the copy, and other memory's value at the call.
TEST(GpuOrderTest, PinnedMemoryIsReadLateAndOtherMemoryAtTheCall) {
  const GpuPlayer gpu;
  const CudaBuffer x = gpu.NewBuffer(1), y = gpu.NewBuffer(1);
  const PinnedBuffer pinned = gpu.NewPinned(1);
  float value = 1, late = 2;
  std::memcpy(pinned.data(), &value, sizeof(value));
  ASSERT_TRUE(CopyToDevice(*gpu.stream, x.address(), pinned.data(), sizeof(float)).ok());
  ASSERT_TRUE(CopyToDevice(*gpu.stream, y.address(), &value, sizeof(float)).ok());
  value = late;
  std::memcpy(pinned.data(), &late, sizeof(late));
  EXPECT_EQ(gpu.First(*gpu.stream, x), 2);
  EXPECT_EQ(gpu.First(*gpu.stream, y), 1);
}

TEST(GpuOrderTest, AskingEndsAtSomeTime) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const GpuPlayer gpu(seed);
    const CudaBuffer x = gpu.NewBuffer(4);
    const auto event = gpu.NewEvent();
    for (int i = 0; i < 10; ++i) ASSERT_TRUE(gpu.Launch("write", *gpu.stream, x, 1).ok());
    ASSERT_TRUE(event->Record(*gpu.stream).ok());
    EXPECT_FALSE(*event->IsDone());
    int asked = 0;
    while (!*event->IsDone()) ASSERT_LT(++asked, 100);
    while (!*gpu.stream->IsDone()) ASSERT_LT(++asked, 100);
    EXPECT_EQ(gpu.cuda.num_pending(), 0);
  }
}

TEST(GpuOrderTest, EventsMeasureTime) {
  const GpuPlayer gpu;
  const auto start = CudaEvent::Create(gpu.context, CudaEvent::Kind::kTiming).value();
  const auto end = CudaEvent::Create(gpu.context, CudaEvent::Kind::kTiming).value();
  const CudaBuffer x = gpu.NewBuffer(4);
  ASSERT_TRUE(start->Record(*gpu.stream).ok());
  ASSERT_TRUE(gpu.Launch("write", *gpu.stream, x, 1).ok());
  ASSERT_TRUE(end->Record(*gpu.stream).ok());
  EXPECT_FALSE(end->MillisecondsSince(*start).ok());
  ASSERT_TRUE(end->Synchronize().ok());
  EXPECT_GT(*end->MillisecondsSince(*start), 0);
}

TEST(GpuOrderTest, DestroyedStreamsFinishTheirWork) {
  const GpuPlayer gpu;
  const CudaBuffer x = gpu.NewBuffer(4);
  ASSERT_TRUE(gpu.stream->Synchronize().ok());
  auto other = gpu.NewStream();
  ASSERT_TRUE(gpu.Launch("write", *other, x, 4).ok());
  other.reset();
  ASSERT_TRUE(gpu.context->Synchronize().ok());
  EXPECT_EQ(gpu.First(*gpu.stream, x), 4);
}

}  // namespace
}  // namespace meshwork::order_test

#endif  // MESHWORK_HAVE_CUDA
