// Measures how fast data crosses between the domains of a transport.
//
//   MESHWORK_ASSIGN_OR_RETURN(const Link link, MeasureLink(*transport));
//   transport->set_speed(link);           // sizes what crosses at a time (runtime/plan/overlap.h)
//
// By the α–β model (mesh/topology.h): every domain sends to the next one, all at the same time. The latency is the time
// of a message of 8 bytes, sent one by one. The bandwidth is that of large messages, several of them under way at a
// time, as in a step. Their size grows until one takes a few milliseconds, because connections become fast only with
// use.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "meshwork/mesh/topology.h"
#include "meshwork/runtime/exec/transport.h"

namespace meshwork {

// All domains must call it; all get the same link, that of the slowest. Takes at most about `budget`, unless some
// messages of 64 KiB take longer. Errors: those of the transport. REQUIRES: there are two domains or more.
absl::StatusOr<Link> MeasureLink(Transport& transport,
                                 std::chrono::milliseconds budget = std::chrono::milliseconds(500));

// The form in which a link is kept in a file: {"bandwidth": 1.2e8, "latency": 0.001}, in bytes per second and seconds.
// Errors: the text is no such object; a bandwidth that is not positive, a latency that is negative.
std::string LinkToJson(const Link& link);
absl::StatusOr<Link> LinkFromJson(std::string_view text);

}  // namespace meshwork
