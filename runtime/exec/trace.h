// Trace: when each instruction of the last steps ran, on a track per device and a track per worker.
//
//   auto step = Executor::Create(program, backend, {.trace_steps = 10}, &state).value();
//   …steps…
//   std::string json = step->Trace().ToJson();   // opens in ui.perfetto.dev and in chrome://tracing
//
//   steps                          |step 118                                                       |
//   device 0 (batch=0, model=0)    |matmul|        |waiting|all_reduce|neg|                         …
//   device 1 (batch=0, model=1)           |matmul| |waiting|all_reduce|neg|
//   worker 0 (devices 0-1)         |matmul         |waiting|all_reduce|neg|
//
// The tracks of the workers show everything that ran: each instruction of each step once, and before it the
// waiting at a barrier, if there is one. Instructions of a worker follow each other, so nothing on a track
// overlaps.
//
// A device's track shows what its worker did for it:
//   - a kernel, from its begin to its end for this device: a worker runs its devices' blocks one after
//     the other. A value that several devices share is computed once, and shown on all of these devices that
//     the worker drives; `devices` lists who shares it. Work of another worker for this device is on that
//     worker's track;
//   - a collective, always, and packing, unpacking, comparing and assigning if the worker had a part: for the
//     time that they took the worker, on each of its devices alike;
//   - waiting at barriers, on each of the worker's devices alike.
// With several domains, the track "between domains" shows each operation across domains: from its start, or from the
// end of the operation before if that is later, until the domain has waited for it; and which part of that time was
// hidden behind compute.
//
// Where a track is empty between events, the worker was busy with its other devices.
//
// Times are by the steady clock, in nanoseconds since the first traced step began: since `origin_ns` of that clock.
//
// If several processes run a program together, each has a trace of its devices and workers. MergeTraces makes one trace
// of them, on one time line; Processes::GatherTrace (train/cluster/processes.h) collects them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace meshwork {

struct TraceTrack {
  enum class Kind : uint8_t { kSteps, kDevice, kWorker, kLink };
  Kind kind = Kind::kSteps;
  int64_t index = 0;  // of the device or the worker
  std::string name;   // "device 3 (batch=1, model=1)"
  int process = 0;    // in Trace::processes, if there are any

  bool operator==(const TraceTrack&) const = default;
};

// The name and the details of an event; many events share one label.
struct TraceLabel {
  std::string name;      // "matmul", "pack", "waiting", "step 118"
  std::string category;  // "kernel", "collective", "pack", "unpack", "assign", "compare", "waiting", "step"
  // By name: "where", "operands", "result", "devices", "cause", "part", …
  std::vector<std::pair<std::string, std::string>> texts = {};
  double flops = 0;   // as a ProfileRow counts them, of this event
  int64_t bytes = 0;  // of the whole instruction

  bool operator==(const TraceLabel&) const = default;
};

struct TraceEvent {
  int track = 0;
  int label = 0;
  int64_t step = 0;      // counted from 0 since Create or ClearProfile
  int64_t start_ns = 0;  // since the first traced step began
  int64_t ns = 0;

  bool operator==(const TraceEvent&) const = default;
};

struct Trace {
  std::string name;  // "step on mesh [batch=4, model=2]"
  // When the times begin: nanoseconds since the epoch of the steady clock. 0 if there are no events.
  int64_t origin_ns = 0;
  // "worker 1 on host-b", for each process that the tracks are of. Empty where only this process has recorded.
  std::vector<std::string> processes = {};
  std::vector<TraceTrack> tracks;
  std::vector<TraceLabel> labels;
  std::vector<TraceEvent> events;  // track by track, each by time

  // In the trace-event format of Chrome: one complete event ("X") per event, in microseconds. Each process is a group
  // of tracks; where only this process has recorded, its devices are one group and its workers another.
  std::string ToJson() const;

  // A compact form in bytes, to send the trace to another process of the same version. Law: Decode(Encode()) is equal
  // to the trace. Errors: the bytes are no such form, or are cut off; an event has a track or a label, or a track a
  // process, that does not exist.
  std::string Encode() const;
  static absl::StatusOr<Trace> Decode(std::string_view bytes);

  bool operator==(const Trace&) const = default;
};

// One trace with the tracks of all, and with the name of the first. Its origin is the earliest origin of the traces
// that have events. Law: origin_ns + start_ns of every event stays the same. REQUIRES: every origin_ns is by the same
// clock; each trace has processes.
Trace MergeTraces(std::span<const Trace> traces);

}  // namespace meshwork
