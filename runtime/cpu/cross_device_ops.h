// The cross-device ops (runtime/cross_device.h) that the library has for devices of the CPU.
//
//                                how terms are added up                       how the result is distributed
//   ReductionToOneDevice()       all at one device, in order                  from there to each
//   HierarchicalCopyAllReduce()  within groups, then over the groups          to the groups, then within them
//   RingAllReduce()              a chunk per device goes round, and is added  the sums go round once more
//
// They are thread-safe, take every dtype and every reduction, and keep nothing. Their sums of floats differ in the order of
// the terms alone. Devices of the CPU share a memory, where ReductionToOneDevice touches the fewest bytes; the others say
// what the numbers are, and cost, by the algorithms that devices with links between them use.
//
// Sources: tf.distribute.ReductionToOneDevice, HierarchicalCopyAllReduce, NcclAllReduce; the ring: Patarasuk and Yuan,
// "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 2009, section 4.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "meshwork/runtime/cross_device.h"

namespace meshwork {

std::shared_ptr<CrossDeviceOps> ReductionToOneDevice();

// Neighbouring devices are a group; there are `num_groups` of them, as nearly of one size as can be, or one per device if
// there are fewer devices. Error: num_groups < 1.
absl::StatusOr<std::shared_ptr<CrossDeviceOps>> HierarchicalCopyAllReduce(int64_t num_groups = 2);

std::shared_ptr<CrossDeviceOps> RingAllReduce();

// NVIDIA's library, between GPUs. Error: FailedPrecondition, always, because this build computes on CPUs.
absl::StatusOr<std::shared_ptr<CrossDeviceOps>> NcclAllReduce();

}  // namespace meshwork
