// Graphs: captured once, launched many times.
#ifdef MESHWORK_HAVE_CUDA
#include <set>
#include <thread>

#include "gmock/gmock.h"
#include "runtime/cuda/gpu_fixture.h"

namespace meshwork::graph_test {
namespace {

using ::testing::HasSubstr;

TEST(CudaGraphTest, RunsInLaunchesAndNotInTheCapture) {
  GpuPlayer gpu;
  const CudaBuffer x = gpu.NewBuffer(4);
  ASSERT_TRUE(gpu.Launch("write", *gpu.stream, x, 0).ok());
  const CudaGraph graph = CudaGraph::Capture(*gpu.stream, [&]() -> absl::Status {
                            MESHWORK_RETURN_IF_ERROR(gpu.Launch("add", *gpu.stream, x, 1));
                            return gpu.Launch("add", *gpu.stream, x, 10);
                          }).value();
  EXPECT_EQ(graph.num_nodes(), 2);
  EXPECT_EQ(gpu.First(*gpu.stream, x), 0);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(graph.Launch(*gpu.stream).ok());
  EXPECT_EQ(gpu.First(*gpu.stream, x), 33);
}

TEST(CudaGraphTest, CopiesTakeTheBuffersAsTheyAreAtTheLaunch) {
  GpuPlayer gpu;
  const CudaBuffer x = gpu.NewBuffer(1);
  const PinnedBuffer in = gpu.NewPinned(1), out = gpu.NewPinned(1);
  const CudaGraph graph = CudaGraph::Capture(*gpu.stream, [&]() -> absl::Status {
                            MESHWORK_RETURN_IF_ERROR(CopyToDevice(*gpu.stream, x.address(), in.data(), 4));
                            MESHWORK_RETURN_IF_ERROR(gpu.Launch("add", *gpu.stream, x, 1));
                            return CopyToHost(*gpu.stream, out.data(), x.address(), 4);
                          }).value();
  for (const float value : {3.0f, 5.0f}) {
    std::memcpy(in.data(), &value, sizeof(value));
    ASSERT_TRUE(graph.Launch(*gpu.stream).ok());
    ASSERT_TRUE(gpu.stream->Synchronize().ok());
    EXPECT_EQ(FirstOf(out), value + 1);
  }
}

// With a second stream: of two kernels without order both orders occur; with events, only one order.
TEST(CudaGraphTest, OtherStreamsTakePart) {
  for (const bool is_ordered : {false, true}) {
    std::set<float> outcomes;
    for (uint64_t seed = 0; seed < 50; ++seed) {
      GpuPlayer gpu(seed);
      const auto other = gpu.NewStream();
      const auto fork = gpu.NewEvent(), written = gpu.NewEvent(), join = gpu.NewEvent();
      const CudaBuffer x = gpu.NewBuffer(1);
      const CudaGraph graph = CudaGraph::Capture(*gpu.stream, [&]() -> absl::Status {
                                MESHWORK_RETURN_IF_ERROR(fork->Record(*gpu.stream));
                                MESHWORK_RETURN_IF_ERROR(other->Wait(*fork));
                                MESHWORK_RETURN_IF_ERROR(gpu.Launch("write", *gpu.stream, x, 1));
                                MESHWORK_RETURN_IF_ERROR(written->Record(*gpu.stream));
                                if (is_ordered) MESHWORK_RETURN_IF_ERROR(other->Wait(*written));
                                MESHWORK_RETURN_IF_ERROR(gpu.Launch("write", *other, x, 2));
                                MESHWORK_RETURN_IF_ERROR(join->Record(*other));
                                return gpu.stream->Wait(*join);
                              }).value();
      EXPECT_EQ(graph.num_nodes(), 2);
      EXPECT_TRUE(graph.Launch(*gpu.stream).ok());
      outcomes.insert(gpu.First(*gpu.stream, x));
    }
    EXPECT_EQ(outcomes, is_ordered ? (std::set<float>{2}) : (std::set<float>{1, 2}));
  }
}

// Launches of one graph run one after the other, even on two streams.
TEST(CudaGraphTest, OneLaunchAtATime) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    GpuPlayer gpu(seed);
    const auto other = gpu.NewStream();
    const CudaBuffer x = gpu.NewBuffer(1), y = gpu.NewBuffer(1);
    ASSERT_TRUE(gpu.Launch("write", *gpu.stream, x, 1).ok());
    const CudaGraph graph =
        CudaGraph::Capture(*gpu.stream, [&]() -> absl::Status {
          MESHWORK_RETURN_IF_ERROR(
              gpu.Launch("move", *gpu.stream, Arguments(y.address(), x.address(), int64_t{1})));
          MESHWORK_RETURN_IF_ERROR(gpu.Launch("add", *gpu.stream, y, 1));
          return gpu.Launch("move", *gpu.stream, Arguments(x.address(), y.address(), int64_t{1}));
        }).value();
    ASSERT_TRUE(graph.Launch(*gpu.stream).ok());
    ASSERT_TRUE(graph.Launch(*other).ok());
    ASSERT_TRUE(gpu.context->Synchronize().ok());
    EXPECT_EQ(gpu.First(*gpu.stream, x), 3);
  }
}

TEST(CudaGraphTest, ItsErrorIsThatOfTheCapturedWork) {
  GpuPlayer gpu;
  const absl::StatusOr<CudaGraph> graph =
      CudaGraph::Capture(*gpu.stream, [] { return absl::NotFoundError("no such kernel"); });
  EXPECT_EQ(graph.status(), absl::NotFoundError("no such kernel"));
  EXPECT_TRUE(gpu.stream->Synchronize().ok());  // it captures no more
}

// Mistakes in a capture; the stream is free afterwards.
void ExpectRefused(GpuPlayer& gpu, const std::function<absl::Status()>& enqueue, const char* error) {
  const absl::Status status = CudaGraph::Capture(*gpu.stream, enqueue).status();
  EXPECT_THAT(status.message(), HasSubstr(error));
  EXPECT_TRUE(gpu.stream->Synchronize().ok());
}

TEST(CudaGraphTest, NothingMayWaitInACapture) {
  GpuPlayer gpu;
  const auto ignore = [](const auto& result) {
    EXPECT_FALSE(result.ok());
    return absl::OkStatus();
  };
  const char* const invalid = "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED";
  const auto event = gpu.NewEvent();
  ExpectRefused(
      gpu, [&] { return ignore(gpu.stream->Synchronize()); }, invalid);
  ExpectRefused(
      gpu, [&] { return ignore(gpu.stream->IsDone()); }, invalid);
  ExpectRefused(
      gpu, [&] { return ignore(gpu.context->Synchronize()); }, invalid);
  ExpectRefused(
      gpu, [&] { return ignore(PinnedBuffer::Allocate(gpu.context, 4)); }, invalid);
  ExpectRefused(
      gpu,
      [&]() -> absl::Status {
        MESHWORK_RETURN_IF_ERROR(event->Record(*gpu.stream));
        return ignore(event->Synchronize());
      },
      invalid);
  ExpectRefused(
      gpu, [&] { return CudaBuffer::Allocate(gpu.stream, 4).status(); }, "before the capture begins");
}

TEST(CudaGraphTest, OtherThreadsWorkMeanwhile) {
  GpuPlayer gpu;
  const CudaBuffer x = gpu.NewBuffer(1);
  const auto other = gpu.NewStream();
  const absl::StatusOr<CudaGraph> graph = CudaGraph::Capture(*gpu.stream, [&] {
    std::thread([&] {
      EXPECT_TRUE(PinnedBuffer::Allocate(gpu.context, 4).ok());
      EXPECT_TRUE(CudaBuffer::Allocate(other, 4).ok());
      EXPECT_TRUE(other->Synchronize().ok());
    }).join();
    return gpu.Launch("write", *gpu.stream, x, 1);
  });
  EXPECT_TRUE(graph.ok()) << graph.status();
}

TEST(CudaGraphTest, WhatIsNotCapturedMayNotBeWaitedFor) {
  GpuPlayer gpu;
  const auto other = gpu.NewStream();
  const auto event = gpu.NewEvent();
  ASSERT_TRUE(event->Record(*other).ok());
  ExpectRefused(
      gpu, [&] { return gpu.stream->Wait(*event); }, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION");
}

TEST(CudaGraphTest, OtherStreamsMustBeWaitedFor) {
  GpuPlayer gpu;
  const auto other = gpu.NewStream();
  const auto fork = gpu.NewEvent();
  const CudaBuffer x = gpu.NewBuffer(1);
  ExpectRefused(
      gpu,
      [&]() -> absl::Status {
        MESHWORK_RETURN_IF_ERROR(gpu.Launch("write", *gpu.stream, x, 1));
        MESHWORK_RETURN_IF_ERROR(fork->Record(*gpu.stream));
        MESHWORK_RETURN_IF_ERROR(other->Wait(*fork));
        return gpu.Launch("write", *other, x, 1);
      },
      "CUDA_ERROR_STREAM_CAPTURE_UNJOINED");
  EXPECT_TRUE(other->Synchronize().ok());
  // The event belongs to a capture that has ended.
  EXPECT_THAT(other->Wait(*fork).message(), HasSubstr("CUDA_ERROR_CAPTURED_EVENT"));
}

TEST(CudaGraphTest, TwoCapturesDoNotMerge) {
  GpuPlayer gpu;
  const auto other = gpu.NewStream();
  const auto event = gpu.NewEvent();
  ExpectRefused(
      gpu,
      [&]() -> absl::Status {
        MESHWORK_RETURN_IF_ERROR(event->Record(*gpu.stream));
        return CudaGraph::Capture(*other, [&] { return other->Wait(*event); }).status();
      },
      "CUDA_ERROR_STREAM_CAPTURE_MERGE");
  EXPECT_TRUE(other->Synchronize().ok());
}

TEST(CudaGraphTest, GraphsOfAnotherGpu) {
  GpuPlayer gpu(0, {{}, {}});
  const auto second = CudaContext::Create(gpu.cuda.api(), 1).value();
  const auto stream = CudaStream::Create(second).value();
  const CudaGraph graph = CudaGraph::Capture(*gpu.stream, [] { return absl::OkStatus(); }).value();
  EXPECT_FALSE(graph.Launch(*stream).ok());
  EXPECT_TRUE(graph.Launch(*gpu.stream).ok());
}

}  // namespace
}  // namespace meshwork::graph_test

#endif  // MESHWORK_HAVE_CUDA
