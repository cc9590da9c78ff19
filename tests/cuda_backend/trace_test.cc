// Traces of steps on a simulated GPU, whose clock advances by a millisecond per operation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cuda_backend/played_session.h"
#include "cuda_backend/traces.h"
#include "meshwork/ir/text.h"
#include "meshwork/runtime/exec/executor.h"
#include "meshwork/spmd/compile.h"
#include "nlohmann/json.hpp"
#include "support/small_session.h"

namespace meshwork::trace_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Traced {
 public:
  Traced(std::string_view text, const ExecutorOptions& options, uint64_t seed = 0) : gpu_(seed) {
    graph_ = std::make_unique<Graph>(ParseGraph(std::string(text), "layer.mw").value());
    backend_ = gpu_.MakeBackend().value();
    executor_ = Executor::Create(Compile(*graph_).value(), *backend_, options, &state_).value();
  }
  ~Traced() { EXPECT_THAT(gpu_.cuda.TakeFindings(), IsEmpty()); }

  void Run() {
    std::map<std::string, Tensor> feeds, outputs;
    for (const Argument& argument : graph_->arguments()) {
      const ValueInfo& info = graph_->value(argument.value);
      feeds.emplace(info.name, Tensor::Zeros(info.type));
    }
    const absl::Status status = executor_->Run(feeds, &outputs);
    ASSERT_TRUE(status.ok()) << status;
  }
  Executor& executor() { return *executor_; }

 private:
  PlayedGpu gpu_;
  std::unique_ptr<Graph> graph_;
  std::unique_ptr<CudaBackend> backend_;
  std::map<std::string, DTensor> state_;
  std::unique_ptr<Executor> executor_;
};

constexpr std::string_view kLayer = R"(mesh [x=2]
func layer(%a: f32[4,8] {x,_}, %w: f32[8,6] {_,_}) {
  %p = matmul %a, %w
  %t = tanh %p
  %e = exp %t
  %g = relayout %e {_,_}
  return g=%g
})";

TEST(CudaTraceTest, ShowsEachLaunchOnce) {
  Traced traced(kLayer, {.fuse = false, .trace_steps = 2});
  EXPECT_THAT(traced.executor().Trace().events, IsEmpty());
  for (int step = 0; step < 3; ++step) traced.Run();
  const Trace trace = traced.executor().Trace();
  EXPECT_EQ(trace.name, "layer on mesh [x=2]");
  ASSERT_EQ(trace.tracks.size(), 2u);
  EXPECT_EQ(trace.tracks[0].name, "steps");
  EXPECT_EQ(trace.tracks[1].name, "GPU 0 (Simulated GPU)");
  const std::vector<TraceEvent> steps = EventsOfTrack(trace, 0);
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(LabelOfEvent(trace, steps[0]).name, "step 1");
  EXPECT_EQ(LabelOfEvent(trace, steps[1]).name, "step 2");
  EXPECT_EQ(steps[0].start_ns, 0);
  ExpectInOrder(trace);
  const Profile profile = traced.executor().Profile();  // a trace measures it, too
  EXPECT_EQ(profile.steps, 3);
  for (const int64_t step : {1, 2}) {
    std::vector<std::string> names, places;
    for (const TraceEvent& event : EventsOfTrack(trace, 1)) {
      if (event.step != step) continue;
      const TraceLabel& label = LabelOfEvent(trace, event);
      names.push_back(label.category + " " + label.name);
      places.push_back(
          TextOf(label, label.category == "kernel" || label.category == "collective" ? "where" : "of"));
      EXPECT_GE(event.ns, 1'000'000);
      EXPECT_EQ(event.ns % 1'000'000, 0);
    }
    EXPECT_THAT(names, ElementsAre("pack pack", "pack copy", "pack copy", "kernel matmul", "kernel tanh",
                                   "kernel exp", "collective all_gather", "unpack copy", "unpack unpack"));
    EXPECT_THAT(places, ElementsAre("inputs", "input \"a\"", "input \"w\"", "layer.mw:3", "layer.mw:4",
                                    "layer.mw:5", "layer.mw:5", "output \"g\"", "outputs"));
  }
  const auto find = [&](const std::string& name) {
    return *std::find_if(trace.labels.begin(), trace.labels.end(),
                         [&](const TraceLabel& label) { return label.name == name; });
  };
  EXPECT_EQ(find("pack").bytes, 2 * (4 * 8 + 8 * 6) * 4);
  EXPECT_EQ(find("unpack").bytes, 2 * 4 * 6 * 4);
  EXPECT_EQ(find("matmul").flops, 2.0 * 4 * 8 * 6);
  EXPECT_THAT(TextOf(find("matmul"), "operands"), HasSubstr("f32[2,8] of f32[4,8] {x,_}"));
  EXPECT_THAT(TextOf(find("matmul"), "result"), HasSubstr("f32[4,6] {x,_}"));
  EXPECT_GT(find("all_gather").bytes, 0);
  EXPECT_EQ(TextOf(find("all_gather"), "axes"), "(x)");
  EXPECT_NE(TextOf(find("all_gather"), "cause"), "");
  traced.executor().ClearProfile();
  EXPECT_THAT(traced.executor().Trace().events, IsEmpty());
  traced.Run();
  EXPECT_EQ(LabelOfEvent(traced.executor().Trace(), traced.executor().Trace().events[0]).name, "step 0");
}

TEST(CudaTraceTest, IsJsonThatNamesWhatAKernelComputes) {
  Traced traced(kLayer, {.trace_steps = 1}, /*seed=*/3);
  traced.Run();
  const Trace trace = traced.executor().Trace();
  const nlohmann::json json = nlohmann::json::parse(trace.ToJson());
  std::map<std::string, nlohmann::json> slices;
  size_t count = 0;
  for (const nlohmann::json& event : json.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    ++count;
    slices[event.at("name")] = event;
  }
  EXPECT_EQ(count, trace.events.size());
  const auto fused = std::find_if(slices.begin(), slices.end(), [](const auto& slice) {
    return slice.second.at("args").contains("computes");
  });
  ASSERT_NE(fused, slices.end());
  EXPECT_EQ(fused->second.at("cat"), "kernel");
  EXPECT_THAT(std::string(fused->second.at("args").at("computes")),
              HasSubstr("tanh (layer.mw:4), exp (layer.mw:5)"));
  EXPECT_EQ(slices.at("matmul").at("args").at("where"), "layer.mw:3");
}

// One event each time that a kernel runs: a step has an event per iteration.
TEST(CudaTraceTest, ShowsTheKernelsOfLoops) {
  Traced traced(R"(mesh [x=2]
func f(%h0: f32[8] {x}, %xs: f32[5,8] {_,x}) {
  %h = scan %h0, %xs length=5 slices=1 (var %h: f32[8], %x: f32[8]) {
    %n = add %h, %x
    update %h = %n
  }
  return last=%h
})",
                {.trace_steps = 3});
  for (int step = 0; step < 2; ++step) traced.Run();
  const Trace trace = traced.executor().Trace();
  ExpectInOrder(trace);
  std::map<std::string, int> times;  // of step 1, by category, name and line
  for (const TraceEvent& event : EventsOfTrack(trace, 1)) {
    const TraceLabel& label = LabelOfEvent(trace, event);
    if (event.step == 1) ++times[label.category + " " + label.name + " " + TextOf(label, "where")];
  }
  EXPECT_EQ(times["kernel add layer.mw:4"], 5) << testing::PrintToString(times);
  EXPECT_EQ(times["loop scan layer.mw:3"], 1) << testing::PrintToString(times);
}

// As on the CPU, a session's trace shows full steps; its numbers are those of a session without a trace.
TEST(CudaTraceTest, OfASession) {
  PlayedGpu gpu(2);
  {
    Session session = OnGpu(gpu, SmallMlp(), {.executor = {.trace_steps = 2}});
    Session other = OnCpu(SmallMlp());
    for (int step = 0; step < 3; ++step)
      ExpectNear(session.Run(MlpRows(kMlpRows)), other.Run(MlpRows(kMlpRows)));
    const Trace trace = session.Trace();
    ExpectInOrder(trace);
    EXPECT_EQ(EventsOfTrack(trace, 0).size(), 2u);
    bool has_line = false;
    for (const TraceEvent& event : EventsOfTrack(trace, 1))
      has_line |= TextOf(LabelOfEvent(trace, event), "where").find("small_session.h:") != std::string::npos;
    EXPECT_TRUE(has_line);
    EXPECT_EQ(Trace::Decode(trace.Encode()).value(), trace);
  }
  ExpectClean(gpu);
}

}  // namespace
}  // namespace meshwork::trace_test
