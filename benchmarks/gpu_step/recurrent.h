// Recurrent networks that gpu_step trains: language models of an embedding, two layers and a product to the logits of
// the token that follows each, f32, Adam.
#pragma once

#include <vector>

#include "benchmarks/gpu_step/options.h"
#include "benchmarks/gpu_step/works.h"

namespace meshwork {

std::vector<GpuWorkPlan> LstmPlans(const GpuOptions& o);
std::vector<GpuWorkPlan> GruPlans(const GpuOptions& o);
// Both layers bidirectional. The second layer and the logits have inputs of both directions.
std::vector<GpuWorkPlan> BidirectionalLstmPlans(const GpuOptions& o);

}  // namespace meshwork
