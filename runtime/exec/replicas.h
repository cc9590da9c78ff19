// Replicas: checks that devices to which a layout gives the same block hold the same bits.
//
//   Run: output "y" is f32[3] {x} on [x=2, y=2], but its replicas differ: element [1] is 2 on device 0
//   (x=0, y=0) and 2.5 on device 1 (x=0, y=1); …
//
// The elements of the block are compared bit by bit: a NaN agrees with itself, padding may differ. A block
// that is stored once for several devices cannot differ and costs nothing to check.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "meshwork/ir/type.h"
#include "meshwork/layout/layout.h"
#include "meshwork/runtime/tensor/box.h"

namespace meshwork {

// The first place where two buffers of one block differ, and what they hold there.
struct Difference {
  int64_t offset = 0;  // elements from the start of the buffers
  std::array<std::byte, 8> first = {}, second = {};
};

// The first difference among elements [begin, end) of `region`, whose buffers are alike; `size` is the
// bytes of an element, at most 8. Allocates nothing; thread-safe.
std::optional<Difference> FindDifference(const BoxCopy& region, int64_t begin, int64_t end, int64_t size,
                                         const std::byte* first, const std::byte* second);

// The error that reports a difference: Internal. `subject`: "Run: output \"y\"". `global` and `layout` are
// the value's; the devices are those that hold the two buffers. `cross_device_op`: the name of the op that the step
// uses (runtime/plan/cross_device.h); "": none.
absl::Status DifferenceError(std::string_view subject, const Type& global, const Layout& layout,
                             int64_t first_device, int64_t second_device, const Difference& difference,
                             std::string_view cross_device_op = "");

}  // namespace meshwork
