// AlignClocks measures by how much the clocks of processes differ, so that times that they have recorded can be shown
// on one time line.
//
//   MESHWORK_ASSIGN_OR_RETURN(const ClockOffset offset, AlignClocks(transport));   // in all domains
//   SteadyNanoseconds() + offset.offset_ns    // what the clock of domain 0 says now, to offset.error_ns
//
// A steady clock counts from some moment of its host, such as its start, so the times of two hosts have nothing to do
// with each other. A domain asks domain 0 for the time, several times, and believes the answer that came soonest:
// domain 0 has read its clock between the question and the answer, so that the middle of the two is off by at most half
// the time between them (F. Cristian, "Probabilistic clock synchronization", Distributed Computing 3, 1989).
//
// Clocks of two hosts also run at different speeds, apart by up to some 50 µs per second unless their time is kept by
// NTP. Measure twice, and OffsetAt says how far they were apart in between.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "meshwork/runtime/exec/transport.h"

namespace meshwork {

// Nanoseconds since the epoch of the steady clock.
int64_t SteadyNanoseconds();

// The result of one measurement in one domain.
struct ClockOffset {
  int64_t at_ns = 0;      // when, by this domain's clock
  int64_t offset_ns = 0;  // to add to this domain's clock, to have that of domain 0
  int64_t error_ns = 0;   // offset_ns is wrong by at most this much

  bool operator==(const ClockOffset&) const = default;
};

// All domains must call it: it prepares and runs operations. Domains ask in turn, eight times each. On one host that
// takes some 10 µs by MPI, and some milliseconds by Gloo. In domain 0 the offset and the error are 0. `now`: the clock
// of this domain, in nanoseconds. Errors: those of the transport.
absl::StatusOr<ClockOffset> AlignClocks(Transport& transport,
                                        const std::function<int64_t()>& now = SteadyNanoseconds);

// The offset at a time of this domain's clock, if the clocks drifted apart evenly between two measurements. Before the
// first measurement it is that of the first, after the last one that of the last. Law: between the two, it is wrong by
// at most the larger error_ns. REQUIRES: first.at_ns <= last.at_ns.
int64_t OffsetAt(int64_t at_ns, const ClockOffset& first, const ClockOffset& last);

}  // namespace meshwork
