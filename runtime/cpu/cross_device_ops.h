// The cross-device ops (runtime/cross_device.h) that the library has.
//
//                                how terms are added up                       how the result is distributed
//   ReductionToOneDevice()       all at one device, in order                  from there to each
//   HierarchicalCopyAllReduce()  within groups, then over the groups          to the groups, then within them
//   RingAllReduce()              a chunk per device goes round, and is added  the sums go round once more
//   NcclAllReduce()              between GPUs by NVIDIA's library
//
// The first three are algorithms (runtime/cross_device_algorithm.h): on a GPU its kernels make their copies and sums, and the
// bits are those of the CPU. They are thread-safe, take every dtype and every reduction, and keep nothing. Their sums of
// floats differ in the order of the terms alone. Devices of one process share a memory, where ReductionToOneDevice touches the
// fewest bytes; the others say what the numbers are, and cost, by the algorithms that devices with links between them use.
//
// Sources: tf.distribute.ReductionToOneDevice, HierarchicalCopyAllReduce, NcclAllReduce; the ring: Patarasuk and Yuan,
// "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 2009, section 4.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "meshwork/runtime/cross_device.h"
#include "meshwork/runtime/cross_device_algorithm.h"

namespace meshwork {

std::shared_ptr<CrossDeviceOps> ReductionToOneDevice();

// Neighbouring devices are a group; there are `num_groups` of them, as nearly of one size as can be, or one per device if
// there are fewer devices. Error: num_groups < 1.
absl::StatusOr<std::shared_ptr<CrossDeviceOps>> HierarchicalCopyAllReduce(int64_t num_groups = 2);

std::shared_ptr<CrossDeviceOps> RingAllReduce();

// An algorithm of your own as an op, which runs on CPUs and on GPUs.
std::shared_ptr<CrossDeviceOps> MakeCrossDeviceOps(std::shared_ptr<const CrossDeviceAlgorithm> algorithm);

// NVIDIA's library: where each of several domains is a GPU (OnEachGpu, processes), ncclAllReduce adds up what all domains have,
// after kernels have added up within each. It does sums and products of f32, f64, bf16, i32 and i64, and the largest and
// smallest of i32 and i64; other reductions and collectives go as without it. On one GPU nothing is left for it.
// The order of the terms is NCCL's: sums of reals may differ in their last bits with the number of GPUs, the version of NCCL and
// how the GPUs are connected. All GPUs get the same bits. So CompileOptions::deterministic refuses it, as do sessions on CPUs
// (FailedPrecondition), and GPUs where NCCL cannot be used. NCCL wants a sum in the graphs of all GPUs or of none: so all domains
// bind their steps alike, to host tensors, staged or not, or to DTensors, and set MESHWORK_BLOCKING_LAUNCHES alike.
std::shared_ptr<CrossDeviceOps> NcclAllReduce();

}  // namespace meshwork
