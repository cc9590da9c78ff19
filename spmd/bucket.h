// BucketReductions joins all-reduces that can run at the same time into one.
//
// Two of them can if they have the same axes, reduction and dtype and neither needs the other's
// result, directly or through other collectives. Results that only leave the step (loss, metrics) are not
// held back by those that change its state (gradients): they get a bucket of their own.
#pragma once

#include "ops/graph.h"

namespace meshwork {

// `local`: a local program; the result computes the same with its nodes in an order of their own.
Graph BucketReductions(const Graph& local);

}  // namespace meshwork
