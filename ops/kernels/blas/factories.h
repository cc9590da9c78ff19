// The kernels of this room, for rows whose own OpRow::cpu is null.
#pragma once

#include "meshwork/ir/kernel.h"

namespace meshwork {

Kernel MatmulCpu(const KernelSpec& spec);
Kernel MatmulQCpu(const KernelSpec& spec);
Kernel ConvCpu(const KernelSpec& spec);
Kernel ConvInputGradCpu(const KernelSpec& spec);
Kernel ConvFilterGradCpu(const KernelSpec& spec);
Kernel AttentionCpu(const KernelSpec& spec);
Kernel AttentionGradQCpu(const KernelSpec& spec);
Kernel AttentionGradKvCpu(const KernelSpec& spec);
Kernel CholeskyCpu(const KernelSpec& spec);
Kernel TriangularSolveCpu(const KernelSpec& spec);
Kernel QrCpu(const KernelSpec& spec);

}  // namespace meshwork
