// The difference of two tensors.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "meshwork/runtime/tensor/tensor.h"
#include "tools/cli/progress_line.h"
#include "tools/cli/tensor_source.h"

namespace meshwork::tools {

struct TensorDifference {
  int64_t elements = 0;        // the number of those whose bits differ
  int64_t with_nan = 0;        // among these, where one of the two is NaN, or both are
  double largest = 0;          // absolute difference of the others, for reals
  uint64_t largest_whole = 0;  // the same for whole numbers and bools, exactly
};

// The difference of the two tensors called `name`, read in boxes. Adds the bytes that it reads of one of them to the
// progress.
// Errors: those of TensorSource::Read. REQUIRES: both have a tensor of this name, of the same type.
absl::StatusOr<TensorDifference> Difference(const TensorSource& a, const TensorSource& b,
                                            const std::string& name, ProgressLine& progress);

// "3 of 70 elements differ, by at most 0.5; in 1 of them there is a NaN".
std::string Describe(const TensorDifference& difference, const Type& type);

}  // namespace meshwork::tools
