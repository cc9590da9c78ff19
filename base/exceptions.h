// Turns exceptions of libraries and of users' kernels into statuses. Nothing in meshwork throws by itself.
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace meshwork {

// The status of the exception that is being handled: RESOURCE_EXHAUSTED, "<where>: <no_memory>.", for
// std::bad_alloc, "<where>: " and its text for one that has a text of its own (the memory of a GPU), else INTERNAL, "<where>: a library failed: …". REQUIRES: called in a catch clause.
absl::Status CaughtStatus(std::string_view where, std::string_view no_memory);

}  // namespace meshwork
