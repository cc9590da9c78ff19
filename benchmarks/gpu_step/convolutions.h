// Convolutional networks that gpu_step trains, each in one plan, or one more with prefetched batches.
#pragma once

#include <vector>

#include "benchmarks/gpu_step/options.h"
#include "benchmarks/gpu_step/works.h"

namespace meshwork {

// ResNet-50 (He et al., arXiv 1512.03385, table 1) of 1000 classes. A bottleneck whose stride is 2 has it in the 3x3
// convolution, as torchvision's ("v1.5"). Batch norm of this batch, SGD with momentum 0.9.
std::vector<GpuWorkPlan> ResNetPlans(const GpuOptions& o);

// The network of examples/support/cnn.h, Adam.
std::vector<GpuWorkPlan> CnnPlans(const GpuOptions& o);

// U-Net (Ronneberger et al., arXiv 1505.04597), 64 to 1024 channels unless flags say otherwise. Convolutions are
// padded, so that every pixel of the image has a class, one of 2; Adam.
std::vector<GpuWorkPlan> UNetPlans(const GpuOptions& o);

}  // namespace meshwork
