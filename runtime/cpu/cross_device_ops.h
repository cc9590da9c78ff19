// The cross-device ops (runtime/plan/cross_device.h) that the library has.
//
//                                how terms are added up                       how the result is distributed
//   ReductionToOneDevice()       all at one device, in order                  from there to each
//   HierarchicalCopyAllReduce()  within groups, then over the groups          to the groups, then within them
//   RingAllReduce()              a chunk per device goes round, and is added  the sums go round once more
//   NcclAllReduce()              between GPUs by NVIDIA's library
//
// The first three are algorithms (runtime/plan/cross_device_algorithm.h): a GPU makes their copies and sums by kernels,
// with the same bits as the CPU. They are thread-safe, take every dtype and every reduction, and keep nothing. Their
// sums of floats differ only in the order of the terms. Devices of one process share a memory, and there
// ReductionToOneDevice touches the fewest bytes. The others show which numbers, at which cost, come from the algorithms
// that devices with links between them use.
//
// Sources: tf.distribute.ReductionToOneDevice, HierarchicalCopyAllReduce, NcclAllReduce; the ring: Patarasuk and Yuan,
// "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 2009, section 4.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "meshwork/runtime/plan/cross_device.h"
#include "meshwork/runtime/plan/cross_device_algorithm.h"

namespace meshwork {

std::shared_ptr<CrossDeviceOps> ReductionToOneDevice();

// Neighbouring devices form a group. There are `num_groups` groups, of sizes as equal as possible; if there are fewer
// devices, each is a group. Error: num_groups < 1.
absl::StatusOr<std::shared_ptr<CrossDeviceOps>> HierarchicalCopyAllReduce(int64_t num_groups = 2);

std::shared_ptr<CrossDeviceOps> RingAllReduce();

// An algorithm of your own as an op, which runs on CPUs and on GPUs.
std::shared_ptr<CrossDeviceOps> MakeCrossDeviceOps(std::shared_ptr<const CrossDeviceAlgorithm> algorithm);

// All_reduces by NVIDIA's library, if there are several domains and each is a GPU (OnEachGpu, processes): kernels
// reduce within each domain, then ncclAllReduce reduces over all domains. It makes sums and products of f32, f64, bf16,
// i32 and i64, and max and min of i32 and i64; other reductions and collectives are made as without it. On one GPU
// nothing is left for it. The order of the terms is NCCL's: sums of reals may differ in their last bits with the number
// of GPUs, the version of NCCL and how the GPUs are connected. All GPUs get the same bits. So
// CompileOptions::deterministic refuses it. Sessions on CPUs (FailedPrecondition) and on GPUs where NCCL cannot be used
// refuse it, too. NCCL needs a sum to be in the graphs of all GPUs or of none. So all domains must bind their steps
// alike (to host tensors, staged or not, or to DTensors), and must set MESHWORK_BLOCKING_LAUNCHES alike.
std::shared_ptr<CrossDeviceOps> NcclAllReduce();

}  // namespace meshwork
