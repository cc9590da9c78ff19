// Gradient accumulation: a batch is processed part by part, so that memory holds the values of only one part
// at a time; the gradients of the parts are added up, and their sum is reduced over the devices once.
//
//   const Value loss = MeanOverMicrobatches(8, {x, y}, [&](const std::vector<Value>& part) {
//     return SparseSoftmaxCrossEntropy(model(part[0]), part[1]);
//   });
//   Adam({}).Minimize(loss);
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "meshwork/ir/graph.h"

namespace meshwork {

// The mean of `loss` over `count` parts of the batch. Part i has rows i, i + count, i + 2 count, … of each tensor, so
// that no rows move if the devices' blocks of the batch have multiples of `count` rows. batch: [b,..] each; `loss` is a
// float scalar, the mean over the rows of its part. A Scan (ops/control/control_flow.h): the gradient is added up in
// the loop that computes it.
// If `loss` leaves rows out, by an option of a loss or by MeanOver (ops/losses.h), the mean is over the rows of the
// batch that count. A row has the random numbers that it has in the whole batch. A shorter batch of n rows is cut into
// the fewest parts of equal size that are no larger than those of the full batch: into `count` if that divides n, else
// into more; 31 rows into 31 parts. So the mean is over all rows.
// Errors: no tensors; a count below 1, or that does not divide b; a loss that is not a float scalar, that is not linear
// in a mean that leaves rows out, or that is divided by a number of each part's own; Scan's.
Value MeanOverMicrobatches(int64_t count, const std::vector<Value>& batch,
                           const std::function<Value(const std::vector<Value>& part)>& loss,
                           CallSite loc = CallSite::Current());

}  // namespace meshwork
