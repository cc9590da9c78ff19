#include "meshwork/runtime/exec/trace.h"

#include <chrono>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "runtime/plan/programs.h"
#include "support/golden.h"

namespace meshwork::trace_test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

// a: [6,3] over x (2 rows each), w: [3,4]; y = a w, g = aᵀ a summed over x, m a shared counter.
constexpr std::string_view kProgram = R"(mesh [x=3,z=2]
func step(%a: f32[2,3] of f32[6,3] {x,_}, %c: f32[5,1] of f32[5,3] {_,x}, var %w: f32[3,4] of f32[3,4] {_,_}, var %m: f32[] of f32[] {}) {
  %y = matmul %a, %w : f32[2,4] of f32[6,4] {x,_}
  %g = matmul %a, %a transpose_a=true : f32[3,3] of f32[3,3] {_,_ | sum:x}
  %G = all_reduce %g axes=(x) op=sum : f32[3,3] of f32[3,3] {_,_}
  %h = neg %G : f32[3,3] of f32[3,3] {_,_}
  %n = neg %m : f32[] of f32[] {}
  update %m = %n
  return y=%y, h=%h, c=%c
})";
constexpr int kDevices = 6;
const Tensors& ProgramFeeds() {
  static const Tensors feeds = {{"a", Ramp({F32, {6, 3}})}, {"c", Ramp({F32, {5, 3}})}};
  return feeds;
}

struct Traced {
  Trace trace;
  int barriers, instructions;
};

// Devices and ops run one by one, unless `together`.
Traced RunTraced(int workers, bool share, int steps, int kept, bool all_outputs = true,
                 bool together = false) {
  CpuBackend backend(workers);
  std::map<std::string, DTensor> state;
  auto executor = Executor::Create(ParseProgram(kProgram), backend,
                                   {.share = share,
                                    .coalesce = together,
                                    .fuse = together,
                                    .check_replicas = false,
                                    .trace_steps = kept},
                                   &state)
                      .value();
  Tensors outputs;
  for (int step = 0; step < steps; ++step)
    EXPECT_TRUE(executor->Run(ProgramFeeds(), all_outputs ? &outputs : nullptr).ok());
  return {executor->Trace(), executor->memory().num_barriers, executor->memory().num_instructions};
}

const TraceLabel& LabelOf(const Trace& trace, const TraceEvent& event) { return trace.labels[event.label]; }

// The time now, on the clock of Trace::origin_ns.
int64_t TraceTime() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::vector<TraceEvent> EventsOf(const Trace& trace, int track) {
  std::vector<TraceEvent> events;
  for (const TraceEvent& event : trace.events)
    if (event.track == track) events.push_back(event);
  return events;
}

// The number of events of a step on a track, by the name of the op and its place; waiting by name only.
using Counts = std::map<std::string, int>;
Counts CountsOf(const Trace& trace, int track, int64_t step) {
  Counts counts;
  for (const TraceEvent& event : EventsOf(trace, track)) {
    const TraceLabel& label = LabelOf(trace, event);
    if (event.step == step)
      ++counts[label.category == "waiting" ? label.name : label.name + " " + label.texts[0].second];
  }
  return counts;
}

TEST(TraceTest, EveryDeviceAndEveryWorkerHasATrack) {
  const Trace trace = RunTraced(/*workers=*/2, /*share=*/true, 1, 1).trace;
  EXPECT_EQ(trace.name, "step on mesh [x=3, z=2]");
  std::vector<std::string> names;
  for (const TraceTrack& track : trace.tracks) names.push_back(track.name);
  EXPECT_THAT(names, ElementsAre("steps", "device 0 (x=0, z=0)", "device 1 (x=0, z=1)", "device 2 (x=1, z=0)",
                                 "device 3 (x=1, z=1)", "device 4 (x=2, z=0)", "device 5 (x=2, z=1)",
                                 "worker 0 (devices 0-2)", "worker 1 (devices 3-5)"));
  EXPECT_EQ(RunTraced(8, true, 1, 1).trace.tracks.size(), 1u + kDevices + 8);
  std::vector<std::string> of_eight;  // workers; more than devices
  for (const TraceTrack& track : RunTraced(8, true, 1, 1).trace.tracks)
    if (track.kind == TraceTrack::Kind::kWorker) of_eight.push_back(track.name);
  EXPECT_THAT(of_eight, ElementsAre("worker 0 (device 0)", "worker 1 (device 1)", "worker 2 (device 2)",
                                    "worker 3 (helps)", "worker 4 (device 3)", "worker 5 (device 4)",
                                    "worker 6 (device 5)", "worker 7 (helps)"));
}

TEST(TraceTest, TheLastStepsAreKept) {
  const auto steps = [](const Trace& trace) {
    std::vector<std::string> names;
    for (const TraceEvent& event : EventsOf(trace, 0)) names.push_back(LabelOf(trace, event).name);
    return names;
  };
  EXPECT_THAT(steps(RunTraced(2, true, /*steps=*/5, /*kept=*/3).trace),
              ElementsAre("step 2", "step 3", "step 4"));
  EXPECT_THAT(steps(RunTraced(2, true, 2, 3).trace), ElementsAre("step 0", "step 1"));
  EXPECT_THAT(RunTraced(2, true, 0, 3).trace.events, ElementsAre());
}

TEST(TraceTest, EventsOfATrackFollowEachOtherWithinTheirStep) {
  for (int workers : {1, 2, 3, 8}) {
    for (bool share : {true, false}) {
      SCOPED_TRACE(fmt::format("workers={} share={}", workers, share));
      const Trace trace = RunTraced(workers, share, 5, 3).trace;
      const std::vector<TraceEvent> steps = EventsOf(trace, 0);
      ASSERT_EQ(steps.size(), 3u);
      EXPECT_EQ(steps[0].start_ns, 0);
      for (size_t track = 0; track < trace.tracks.size(); ++track) {
        SCOPED_TRACE(trace.tracks[track].name);
        int64_t end = 0, events = 0;
        for (const TraceEvent& event : EventsOf(trace, static_cast<int>(track))) {
          EXPECT_GE(event.start_ns, end);
          EXPECT_GE(event.ns, 0);
          end = event.start_ns + event.ns;
          const TraceEvent& step = steps.at(static_cast<size_t>(event.step - 2));
          EXPECT_GE(event.start_ns, step.start_ns);
          EXPECT_LE(end, step.start_ns + step.ns);
          ++events;
        }
        const bool drives_none = trace.tracks[track].name.ends_with("(helps)");
        EXPECT_TRUE(events > 0 || drives_none);
      }
    }
  }
}

TEST(TraceTest, AWorkersTrackShowsEveryInstructionOnce) {
  for (int workers : {1, 2, 3, 8}) {
    for (bool share : {true, false}) {
      SCOPED_TRACE(fmt::format("workers={} share={}", workers, share));
      const Traced traced = RunTraced(workers, share, 5, 3);
      for (int w = 0; w < workers; ++w) {
        for (int64_t step : {2, 3, 4}) {
          Counts counts = CountsOf(traced.trace, 1 + kDevices + w, step);
          EXPECT_EQ(counts["waiting"], traced.barriers);
          counts.erase("waiting");
          EXPECT_EQ(counts.size(), static_cast<size_t>(traced.instructions));
          for (const auto& [what, count] : counts) EXPECT_EQ(count, 1) << what;
        }
      }
    }
  }
}

// One worker drives all devices. Values that are shared over z are computed once for two devices, and shown on both.
TEST(TraceTest, ADevicesTrackShowsWhatItsWorkerDoesForIt) {
  const Counts expected = {
      {"pack input \"c\"", 1},     {"matmul program:3", 1},    {"matmul program:4", 1},
      {"all_reduce program:5", 1}, {"neg program:6", 1},       {"neg program:7", 1},
      {"unpack output \"y\"", 1},  {"unpack output \"h\"", 1}, {"unpack output \"c\"", 1}};
  for (bool share : {true, false}) {
    const Trace trace = RunTraced(/*workers=*/1, share, 2, 2).trace;
    for (int d = 0; d < kDevices; ++d) {
      for (int64_t step : {0, 1}) {
        Counts counts = CountsOf(trace, 1 + d, step);
        counts.erase("waiting");
        EXPECT_EQ(counts, expected) << "device " << d << ", step " << step;
      }
    }
  }
}

TEST(TraceTest, CollectivesShowOnEveryDevice) {
  for (int workers : {1, 2, 3, 8}) {
    for (bool share : {true, false}) {
      const Trace trace = RunTraced(workers, share, 3, 2).trace;
      for (int d = 0; d < kDevices; ++d)
        for (int64_t step : {1, 2}) EXPECT_EQ(CountsOf(trace, 1 + d, step)["all_reduce program:5"], 1);
    }
  }
}

// The blocks of one worker's devices run one after the other; shared values run once.
TEST(TraceTest, KernelsOfOneWorkersDevicesRunInTurn) {
  const Trace shared = RunTraced(/*workers=*/1, /*share=*/true, 1, 1).trace;
  const Trace apart = RunTraced(1, /*share=*/false, 1, 1).trace;
  const auto starts = [](const Trace& trace, std::string_view where) {
    std::vector<std::pair<int64_t, int64_t>> times;  // per device: start and end
    for (int d = 0; d < kDevices; ++d)
      for (const TraceEvent& event : EventsOf(trace, 1 + d))
        if (LabelOf(trace, event).texts[0].second == where)
          times.emplace_back(event.start_ns, event.start_ns + event.ns);
    return times;
  };
  const auto in_turn = starts(apart, "program:3");
  ASSERT_EQ(in_turn.size(), static_cast<size_t>(kDevices));
  const int order[] = {0, 2, 4, 1, 3, 5};  // devices that differ on x follow each other
  for (int i = 1; i < kDevices; ++i) EXPECT_EQ(in_turn[order[i]].first, in_turn[order[i - 1]].second);
  const auto in_pairs = starts(shared, "program:3");  // a and w are the same on both devices of z
  ASSERT_EQ(in_pairs.size(), static_cast<size_t>(kDevices));
  for (int d = 0; d < kDevices; d += 2) EXPECT_EQ(in_pairs[d], in_pairs[d + 1]);
  for (int d = 2; d < kDevices; d += 2) EXPECT_EQ(in_pairs[d].first, in_pairs[d - 1].second);
}

TEST(TraceTest, EventsSayWhatTheyAre) {
  const Trace trace = RunTraced(/*workers=*/2, /*share=*/true, 1, 1).trace;
  const auto labels_of = [&](int device) {  // by the user's line
    std::map<std::string, TraceLabel> labels;
    for (const TraceEvent& event : EventsOf(trace, 1 + device))
      labels.emplace(LabelOf(trace, event).texts[0].second, LabelOf(trace, event));
    return labels;
  };
  const std::map<std::string, TraceLabel> labels = labels_of(2);
  const TraceLabel& matmul = labels.at("program:4");
  EXPECT_EQ(matmul.name, "matmul");
  EXPECT_EQ(matmul.category, "kernel");
  EXPECT_EQ(matmul.flops, 2 * 3 * 2 * 3);
  EXPECT_THAT(matmul.texts,
              ElementsAre(Pair("where", "program:4"),
                          Pair("operands", "f32[2,3] of f32[6,3] {x,_}; f32[2,3] of f32[6,3] {x,_}"),
                          Pair("result", "f32[3,3] of f32[3,3] {_,_ | sum:x}"),
                          Pair("devices", "computed once for devices 2-3")));
  const TraceLabel& sum = labels.at("program:5");
  EXPECT_EQ(sum.name, "all_reduce");
  EXPECT_EQ(sum.category, "collective");
  EXPECT_EQ(sum.bytes, 9 * 4 * (3 + 1));
  EXPECT_THAT(sum.texts,
              ElementsAre(Pair("where", "program:5"), Pair("operands", "f32[3,3] of f32[3,3] {_,_ | sum:x}"),
                          Pair("result", "f32[3,3] of f32[3,3] {_,_}"), Pair("axes", "(x)")));
  // It is too small to be cut: worker 0 does all of it, and the worker of device 4 does nothing.
  EXPECT_THAT(labels_of(4).at("program:5").texts.back(),
              Pair("part", "0 % of the instruction; other workers do the rest"));
}

// An op that several devices run together is shown on each of them, for the same time.
TEST(TraceTest, CoalescedOpsShowOnAllTheirDevices) {
  const Trace trace = RunTraced(/*workers=*/1, /*share=*/true, 1, 1, true, /*together=*/true).trace;
  std::vector<std::pair<int64_t, int64_t>> times;
  for (int d = 0; d < kDevices; ++d) {
    for (const TraceEvent& event : EventsOf(trace, 1 + d)) {
      const TraceLabel& label = LabelOf(trace, event);
      if (label.texts[0].second != "program:3") continue;
      times.emplace_back(event.start_ns, event.ns);
      EXPECT_THAT(label.texts, Contains(Pair("devices", "computed together for devices 0-5")));
      EXPECT_EQ(label.flops, 3 * 2 * 2 * 3 * 4);
    }
  }
  ASSERT_EQ(times.size(), static_cast<size_t>(kDevices));
  for (const auto& time : times) EXPECT_EQ(time, times[0]);
}

TEST(TraceTest, OutputsThatNobodyAsksForDoNotShow) {
  const Traced traced = RunTraced(/*workers=*/2, /*share=*/true, 3, 2, /*all_outputs=*/false);
  for (int track = 1; track < static_cast<int>(traced.trace.tracks.size()); ++track)
    for (const auto& [what, count] : CountsOf(traced.trace, track, 2))
      EXPECT_FALSE(what.starts_with("unpack"));
  Counts counts = CountsOf(traced.trace, 1 + kDevices, 2);
  counts.erase("waiting");
  EXPECT_EQ(counts.size(), static_cast<size_t>(traced.instructions - 3));
}

TEST(TraceTest, ClearedTracesStartAnewAndThereIsNoneUnlessAskedFor) {
  CpuBackend backend(2);
  std::map<std::string, DTensor> state;
  auto executor = Executor::Create(ParseProgram(kProgram), backend, {.trace_steps = 4}, &state).value();
  for (int step = 0; step < 3; ++step) ASSERT_TRUE(executor->Run(ProgramFeeds(), nullptr).ok());
  EXPECT_EQ(executor->Profile().steps, 3);
  executor->ClearProfile();
  EXPECT_TRUE(executor->Trace().events.empty());
  ASSERT_TRUE(executor->Run(ProgramFeeds(), nullptr).ok());
  const Trace trace = executor->Trace();
  ASSERT_EQ(EventsOf(trace, 0).size(), 1u);
  EXPECT_EQ(LabelOf(trace, EventsOf(trace, 0)[0]).name, "step 0");

  auto plain = Executor::Create(ParseProgram(kProgram), backend, {.profile = true}, &state).value();
  ASSERT_TRUE(plain->Run(ProgramFeeds(), nullptr).ok());
  EXPECT_TRUE(plain->Trace().tracks.empty());
  EXPECT_TRUE(plain->Trace().events.empty());
}

TEST(TraceTest, TheFileIsChromesFormat) {
  const Trace trace{.name = "step on mesh [x=1]",
                    .tracks = {{TraceTrack::Kind::kSteps, 0, "steps"},
                               {TraceTrack::Kind::kDevice, 0, "device 0 (x=0)"},
                               {TraceTrack::Kind::kWorker, 0, "worker 0 (device 0)"}},
                    .labels = {{"step 7", "step"},
                               {"mat\"mul", "kernel", {{"where", "a\\b.cc:3\n\xff"}}, 2.5e10},
                               {"all_reduce", "collective", {}, 0, 12}},
                    .events = {{0, 0, 7, 0, 1'234'567}, {1, 1, 7, 1005, 20}, {2, 2, 7, 2000, 0}}};
  ExpectGolden("runtime/exec/trace.json", trace.ToJson());
}

// Two processes: the second clock starts an hour later, and shows an hour less.
constexpr int64_t kHour = int64_t{3600} * 1'000'000'000;

std::vector<Trace> OfTwoProcesses() {
  Trace first{.name = "step on mesh [x=2]",
              .origin_ns = 5000,
              .processes = {"worker 0 on host-a"},
              .tracks = {{TraceTrack::Kind::kSteps, 0, "steps"},
                         {TraceTrack::Kind::kDevice, 0, "device 0 (x=0)"},
                         {TraceTrack::Kind::kWorker, 0, "worker 0 (device 0)"}},
              .labels = {{"step 7", "step"}, {"all_reduce", "collective", {{"where", "mlp.cc:52"}}, 0, 12}},
              .events = {{0, 0, 7, 0, 3000}, {1, 1, 7, 1000, 1500}, {2, 1, 7, 1000, 1500}}};
  Trace second{.name = "step on mesh [x=2]",
               .origin_ns = 4250 - kHour,
               .processes = {"worker 1 on host-b"},
               .tracks = {{TraceTrack::Kind::kSteps, 0, "steps"},
                          {TraceTrack::Kind::kDevice, 1, "device 1 (x=1)"},
                          {TraceTrack::Kind::kWorker, 0, "worker 0 (device 1)"}},
               .labels = {{"all_reduce", "collective", {}, 0, 12}, {"step 7", "step"}},
               .events = {{0, 1, 7, 0, 4000}, {1, 0, 7, 2000, 1250}, {2, 0, 7, 2000, 1250}}};
  second.origin_ns += kHour;  // the result of AlignClocks
  return {first, second};
}

TEST(TraceTest, TracesOfProcessesShareATimeLine) {
  const std::vector<Trace> traces = OfTwoProcesses();
  const Trace merged = MergeTraces(traces);
  EXPECT_EQ(merged.name, "step on mesh [x=2]");
  EXPECT_EQ(merged.origin_ns, 4250);
  EXPECT_THAT(merged.processes, ElementsAre("worker 0 on host-a", "worker 1 on host-b"));
  std::vector<std::string> tracks;
  for (const TraceTrack& track : merged.tracks)
    tracks.push_back(fmt::format("{}: {}", merged.processes[track.process], track.name));
  EXPECT_THAT(tracks,
              ElementsAre("worker 0 on host-a: steps", "worker 0 on host-a: device 0 (x=0)",
                          "worker 0 on host-a: worker 0 (device 0)", "worker 1 on host-b: steps",
                          "worker 1 on host-b: device 1 (x=1)", "worker 1 on host-b: worker 0 (device 1)"));
  EXPECT_THAT(merged.events, ElementsAre(TraceEvent{0, 0, 7, 750, 3000}, TraceEvent{1, 1, 7, 1750, 1500},
                                         TraceEvent{2, 1, 7, 1750, 1500}, TraceEvent{3, 3, 7, 0, 4000},
                                         TraceEvent{4, 2, 7, 2000, 1250}, TraceEvent{5, 2, 7, 2000, 1250}));
  ExpectGolden("runtime/exec/trace_processes.json", merged.ToJson());
}

TEST(TraceTest, MergingKeepsWhatEveryEventIs) {
  std::vector<Trace> traces = OfTwoProcesses();
  traces.push_back(MergeTraces(traces));
  traces.push_back({.name = "step", .processes = {"worker 4 on host-c"}});  // it has recorded nothing
  const Trace merged = MergeTraces(traces);
  EXPECT_EQ(merged.origin_ns, 4250);
  EXPECT_EQ(merged.processes.size(), 5u);
  size_t next = 0;
  for (const Trace& trace : traces) {
    for (const TraceEvent& event : trace.events) {
      const TraceEvent& moved = merged.events.at(next++);
      const TraceTrack &was = trace.tracks[event.track], &is = merged.tracks[moved.track];
      EXPECT_EQ(merged.processes[is.process], trace.processes[was.process]);
      EXPECT_EQ(is.name, was.name);
      EXPECT_EQ(LabelOf(merged, moved), LabelOf(trace, event));
      EXPECT_EQ(merged.origin_ns + moved.start_ns, trace.origin_ns + event.start_ns);
      EXPECT_EQ(moved.ns, event.ns);
    }
  }
  EXPECT_EQ(next, merged.events.size());
  EXPECT_EQ(MergeTraces({}), Trace());
}

TEST(TraceTest, TheOriginIsWhenTheFirstStepBegan) {
  const int64_t before = TraceTime();
  const Trace trace = RunTraced(/*workers=*/2, /*share=*/true, 3, 2).trace;
  EXPECT_GE(trace.origin_ns, before);
  const TraceEvent last = EventsOf(trace, 0).back();
  EXPECT_LE(trace.origin_ns + last.start_ns + last.ns, TraceTime());
  EXPECT_EQ(RunTraced(2, true, 0, 2).trace.origin_ns, 0);
}

std::vector<Trace> ToEncode() {
  const int64_t least = std::numeric_limits<int64_t>::min(), most = std::numeric_limits<int64_t>::max();
  return {Trace(), MergeTraces(OfTwoProcesses()), RunTraced(/*workers=*/3, /*share=*/true, 4, 2).trace,
          Trace{.name = std::string("not \xff UTF-8 and\0 zero", 23),
                .origin_ns = least,
                .tracks = {{TraceTrack::Kind::kWorker, -1, ""}},
                .labels = {{"", "", {{"", ""}}, -2.5e-300, most}},
                .events = {{0, 0, least, most, -1}, {0, 0, 63, 64, -65}}}};
}

TEST(TraceTest, DecodingGivesWhatWasEncoded) {
  for (const Trace& trace : ToEncode()) {
    const absl::StatusOr<Trace> decoded = Trace::Decode(trace.Encode());
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_TRUE(*decoded == trace) << trace.name;
  }
}

// Truncated or extended bytes are refused. Changed bytes are refused, or give a valid trace.
TEST(TraceTest, DamagedBytesAreRefused) {
  const std::string bytes = MergeTraces(OfTwoProcesses()).Encode();
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(Trace::Decode(bytes.substr(0, size)).ok()) << size;
  EXPECT_FALSE(Trace::Decode(bytes + '\0').ok());
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (const int damage : {0x00, 0x01, 0x7f, 0x80, 0xff}) {
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(damage);
      const absl::StatusOr<Trace> trace = Trace::Decode(damaged);
      if (trace.ok()) {
        EXPECT_TRUE(nlohmann::json::accept(trace->ToJson())) << at;
      }
    }
  }
}

TEST(TraceTest, TheFileHoldsEveryEvent) {
  const Trace trace = RunTraced(/*workers=*/3, /*share=*/true, 4, 2).trace;
  const nlohmann::json file = nlohmann::json::parse(trace.ToJson());
  size_t events = 0, names = 0;
  for (const nlohmann::json& event : file.at("traceEvents")) {
    if (event.at("ph") == "M") {
      names += event.at("name") == "thread_name";
      continue;
    }
    ASSERT_EQ(event.at("ph"), "X");
    ASSERT_LT(events, trace.events.size());
    const TraceEvent& expected = trace.events[events++];
    EXPECT_EQ(event.at("tid"), expected.track + 1);
    EXPECT_EQ(event.at("name"), LabelOf(trace, expected).name);
    EXPECT_NEAR(event.at("ts").get<double>(), static_cast<double>(expected.start_ns) / 1e3, 1e-6);
    EXPECT_NEAR(event.at("dur").get<double>(), static_cast<double>(expected.ns) / 1e3, 1e-6);
  }
  EXPECT_EQ(events, trace.events.size());
  EXPECT_EQ(names, trace.tracks.size());
}

}  // namespace
}  // namespace meshwork::trace_test
