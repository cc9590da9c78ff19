// Turns exceptions of libraries and of users' kernels into statuses.
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace meshwork {

// The status of the exception that is being handled. std::bad_alloc gives RESOURCE_EXHAUSTED, "<where>: <no_memory>.",
// or "<where>: " and its text if it has a text of its own (the memory of a GPU). A CheckFailure gives its BugStatus.
// All others give INTERNAL, "<where>: a library failed: …". REQUIRES: called in a catch clause.
absl::Status CaughtStatus(std::string_view where, std::string_view no_memory);

}  // namespace meshwork
