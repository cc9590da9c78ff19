// How far two tensors are apart.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "meshwork/runtime/tensor.h"
#include "tools/cli/progress_line.h"
#include "tools/cli/tensor_source.h"

namespace meshwork::tools {

struct TensorDifference {
  int64_t elements = 0;        // in which the bits differ
  int64_t with_nan = 0;        // of these, where one of the two is NaN, or both are
  double largest = 0;          // absolute difference of the others, of reals
  uint64_t largest_whole = 0;  // of whole numbers and bools, exactly
};

// Of the same name in both, read in boxes. Adds what it reads of one of them to the progress. Errors: those of
// TensorSource::Read. REQUIRES: both have a tensor of this name, of the same type.
absl::StatusOr<TensorDifference> Difference(const TensorSource& a, const TensorSource& b,
                                            const std::string& name, ProgressLine& progress);

// "3 of 70 elements differ, by at most 0.5; in 1 of them there is a NaN".
std::string Describe(const TensorDifference& difference, const Type& type);

}  // namespace meshwork::tools
