// Gradient accumulation: a batch is worked on a part at a time, so that what one part needs is all that is in
// memory; the gradients of the parts are added up, and reduced over the devices once, when all are.
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

// The mean of `loss` over `count` parts of the batch: part i has rows i, i + count, i + 2 count, … of each
// tensor, so that a batch that is cut over devices into blocks of multiples of `count` rows stays where it
// is. batch: [b,..] each; `loss` is a float scalar, the mean over the rows of its part. A Scan (ops/
// control_flow.h): its gradient is added up in the loop that computes it. A shorter batch is fed in multiples
// of `count` rows. Errors: no tensors; a count below 1, or that does not divide b; a loss that is not a float
// scalar; Scan's.
Value MeanOverMicrobatches(int64_t count, const std::vector<Value>& batch,
                           const std::function<Value(const std::vector<Value>& part)>& loss,
                           CallSite loc = CallSite::Current());

}  // namespace meshwork
