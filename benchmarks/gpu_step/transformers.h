// Transformers that gpu_step trains, all by Adam; flags give the numbers of layers, units and heads.
#pragma once

#include <vector>

#include "benchmarks/gpu_step/options.h"
#include "benchmarks/gpu_step/works.h"

namespace meshwork {

// examples/support/gpt.h.
std::vector<GpuWorkPlan> GptPlans(const GpuOptions& o);

// A decoder as LLaMA (Touvron et al., arXiv 2302.13971): RMS norms before each part, rotary positions, feed-forward
// networks gated by SiLU of 8/3 as many hidden units, no biases, and a head with weights of its own.
std::vector<GpuWorkPlan> LlamaPlans(const GpuOptions& o);

// ViT (Dosovitskiy et al., arXiv 2010.11929) of patches of 16 x 16: a class token, learned positions, encoder blocks
// with norms before each part, and logits of 1000 classes from the class token. Without dropout.
std::vector<GpuWorkPlan> VitPlans(const GpuOptions& o);

// BERT (Devlin et al., arXiv 1810.04805) on masked tokens: 15 of 100 are to be found. Sequences are padded: they are
// half as long as a sequence may be, at least. Learned positions and segments, encoder blocks with norms behind each
// part, and a head whose kernel is the embedding. Without dropout.
std::vector<GpuWorkPlan> BertPlans(const GpuOptions& o);

}  // namespace meshwork
