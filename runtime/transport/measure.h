// How fast data crosses between the domains of a transport, measured.
//
//   MESHWORK_ASSIGN_OR_RETURN(const Link link, MeasureLink(*transport));
//   transport->set_speed(link);           // sizes what crosses at a time (runtime/overlap.h)
//
// By the α–β model (mesh/topology.h): every domain sends to the next one, all at the same time. The latency is the time of
// messages of 8 bytes one by one, the bandwidth that of large messages, of which several are under way at a time, as in a
// step; they grow until one takes a few milliseconds, as connections become fast only with use.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "meshwork/mesh/topology.h"
#include "meshwork/runtime/transport.h"

namespace meshwork {

// All domains must call it; all get the same, that of the slowest. Takes at most about `budget`, unless some messages of
// 64 KiB take longer. Errors: those of the transport. REQUIRES: there are two domains or more.
absl::StatusOr<Link> MeasureLink(Transport& transport,
                                 std::chrono::milliseconds budget = std::chrono::milliseconds(500));

// The form in which a link is kept in a file: {"bandwidth": 1.2e8, "latency": 0.001}, in bytes per second and seconds.
// Errors: the text is no such object; a bandwidth that is not positive, a latency that is negative.
std::string LinkToJson(const Link& link);
absl::StatusOr<Link> LinkFromJson(std::string_view text);

}  // namespace meshwork
