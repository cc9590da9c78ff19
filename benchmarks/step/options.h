// The flags of a step program.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace meshwork {

// The step written by hand; every other variant is a mesh, "batch=8", or with kUnshared, "batch=8/unshared", or
// kAtomic.
inline constexpr std::string_view kByHand = "by_hand";
inline constexpr std::string_view kUnshared = "/unshared", kAtomic = "/atomic";

struct StepOptions {
  std::vector<int64_t> batches;
  std::vector<std::string> variants;  // kByHand first if there is one, except with --only
  int64_t repeats = 9;
  int64_t steps = 0;
  bool is_alone = false;  // one variant, as --only asks
  bool measures_memory = true;
  std::string json;  // "-": standard output; empty: a table there
  std::string help_text;
  bool help = false;

  int64_t StepsOf(int64_t batch) const;
};

// Errors: those of FlagTable; a list that is empty or has a wrong entry. A wrong mesh is found when the mesh
// is made.
absl::StatusOr<StepOptions> ParseStepOptions(int argc, const char* const* argv);

}  // namespace meshwork
