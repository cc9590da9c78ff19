// The recommender that gpu_step trains.
#pragma once

#include <vector>

#include "benchmarks/gpu_step/options.h"
#include "benchmarks/gpu_step/works.h"

namespace meshwork {

// DLRM (Naumov et al., arXiv 1906.00091), on each of the meshes: 13 measured features through a perceptron of 512, 256
// and as many units as a row of a table has; a row of each table; the products of all pairs of these; a perceptron of
// 512, 256 and 1. Binary cross-entropy, by SGD as in the paper, or by Adagrad. An axis "batch" shards the examples, an
// axis "model" the rows of the tables.
std::vector<GpuWorkPlan> DlrmPlans(const GpuOptions& o);

}  // namespace meshwork
