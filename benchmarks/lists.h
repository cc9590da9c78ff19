// Flags that are lists.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace meshwork {

// The parts between separators that are not empty.
std::vector<std::string> Split(std::string_view text, char separator);

// Numbers of examples, from 1 to a million. Errors, which name the flag: a part is none; the list is empty.
absl::StatusOr<std::vector<int64_t>> ParseBatches(std::string_view flag, std::string_view text,
                                                  char separator);

}  // namespace meshwork
