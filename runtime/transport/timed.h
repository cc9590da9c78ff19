// A transport that counts how long its domain waits in it, so that a domain that computes longer than others is found
// (train/cluster/pulse.h): all domains come to the end of a step at the same time, and only the slow one has not
// waited.
//
//   transport = MakeTimed(std::move(transport));
//   transport->seconds_waited()                    // 0.25
//
// Everything else is as in the transport that it holds. Counting takes two looks at the clock per operation.
#pragma once

#include <memory>

#include "meshwork/runtime/exec/transport.h"

namespace meshwork {

// REQUIRES: transport != nullptr.
std::unique_ptr<Transport> MakeTimed(std::unique_ptr<Transport> transport);

}  // namespace meshwork
