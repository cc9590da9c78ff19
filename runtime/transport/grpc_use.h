// What all that use gRPC have in common. Thread-safe.
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace meshwork {

// Of a build without gRPC: there is no `what`, "Rendezvous".
absl::Status NoGrpc(std::string_view what);

// gRPC can be used by one process, and no child of it. Error: this process is a child of one that has called this.
absl::Status CheckMayUseGrpc();

// Whether a caller has the job's token. Takes as long whichever byte differs.
bool IsSameToken(std::string_view given, std::string_view token);

}  // namespace meshwork
