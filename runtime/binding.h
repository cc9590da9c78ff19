// What may be bound to a program: a host tensor per input, host tensors for its outputs, all apart.
//
// Errors name the tensor, what it is, and what the program takes. Pure functions; thread-safe.
#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"
#include "meshwork/ir/graph.h"
#include "meshwork/runtime/tensor.h"

namespace meshwork {

// Errors: a feed that is missing, unknown, a variable, empty, or of another type.
absl::Status CheckFeeds(const Graph& local, const std::map<std::string, Tensor>& feeds);

// Some of the outputs, or all. Errors: one that is unknown, empty, of another type, or lies where a feed or
// another output lies.
absl::Status CheckOutputs(const Graph& local, const std::map<std::string, Tensor>& feeds,
                          const std::map<std::string, Tensor>& outputs);

}  // namespace meshwork
