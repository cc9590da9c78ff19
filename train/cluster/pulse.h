// Pulse: messages between processes that train together, about once a second, between steps. So a decision that a clock
// or a signal makes in one of them takes effect in all of them, after the same step.
//
//   Pulse pulse(processes.transport(), {.name = processes.Name(), .stop = IsStopAsked});
//   while (step < steps && !pulse.stops()) {
//     …
//     MESHWORK_RETURN_IF_ERROR(pulse.AfterStep());      // in all processes
//   }
//
// There is a pulse every n steps. The chief chooses n by how long steps take, and tells it in the pulse, so n is the
// same in all processes. A process that is alone has a pulse, too, with itself.
//
// Other parts of a program add a text of their own (Add). The pulse itself tells who wants to stop, and how long each
// process computes in a step: the chief reports a process that computes longer than the others,
//
//   worker 2 on host-c computes 3.1 times as long as the others (31.0 ms a step, the others 10.0 ms); every step waits for it.
//
// Thread safety: one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/runtime/exec/transport.h"

namespace meshwork {

struct PulseOptions {
  std::string name = {};  // of this process, for messages: Processes::Name()
  std::function<bool()> stop =
      {};              // whether this process wants to stop (train/cluster/stop_signals.h); null: never
  double seconds = 1;  // from pulse to pulse, about
  std::function<double()> clock = {};  // in seconds; null: the steady clock
  // Gets what the chief reports; null: it goes to standard error as a line.
  std::function<void(std::string_view)> report = {};
};

// A part of the program that adds a text to each pulse.
struct PulsePart {
  std::string name = {};                  // the same in all processes; each name once
  std::function<std::string()> say = {};  // a short text of this process; any bytes
  // The texts of all processes, in their order. An error ends the training: AfterStep returns it. As all hear the same,
  // all should return the same.
  std::function<absl::Status(const std::vector<std::string>& texts)> hear = {};
};

class Pulse {
 public:
  // `transport`: null for a process that is alone; else it must outlive the pulse.
  explicit Pulse(Transport* transport, PulseOptions options = {});
  Pulse(const Pulse&) = delete;
  Pulse& operator=(const Pulse&) = delete;

  // Takes effect from the next pulse on. All processes add the same parts in the same order. Until Remove, AfterStep
  // may call it at any time. REQUIRES: there is no part of this name.
  void Add(PulsePart part);
  void Remove(std::string_view name);

  // All processes call it after each step. Every n-th time there is a pulse. Errors: those of Transport::AllGather;
  // those of the parts' `hear`; processes whose parts differ.
  absl::Status AfterStep();
  // The same, but with a pulse now, whatever n is. For places where all processes know by themselves that they need
  // one.
  absl::Status Beat();

  // Whether a process wanted to stop at the last pulse, or before; the same in all processes.
  bool stops() const { return !stopped_by_.empty(); }
  // The name of the process that wanted to stop. Empty: none did.
  const std::string& stopped_by() const { return stopped_by_; }
  // Steps from pulse to pulse, now.
  int64_t steps_between() const { return steps_between_; }

 private:
  struct Said;

  Said Say(double seconds);
  absl::Status Hear(const std::vector<Said>& said);
  int64_t NextSteps() const;
  // By the chief. `step`: seconds of a step.
  void FindSlow(const std::vector<Said>& said, double step);

  Transport* const transport_;
  const PulseOptions options_;
  std::vector<PulsePart> parts_;
  std::string stopped_by_;
  int64_t steps_between_ = 1, steps_ = 0;  // since the last pulse
  double seconds_per_step_ = 0;            // of those before it
  double last_ = 0,
         last_waited_ = 0;     // when the last pulse was; how long this process had waited for others by then
  std::vector<int64_t> slow_;  // by process: in how many pulses in a row
};

}  // namespace meshwork
