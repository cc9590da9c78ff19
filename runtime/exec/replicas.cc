#include "meshwork/runtime/exec/replicas.h"

#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "fmt/ranges.h"
#include "meshwork/base/status.h"

namespace meshwork {
namespace {

using Element = std::array<std::byte, 8>;

std::string ElementToString(DType dtype, const Element& element) {
  return DispatchAny(dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, bool>) {
      return std::string(element[0] != std::byte{0} ? "true" : "false");
    } else {
      T value;
      std::memcpy(&value, element.data(), sizeof(value));
      return fmt::format("{}", static_cast<Compute<T>>(value));
    }
  });
}

// "0x7fc00001", for values that print alike: NaNs of two kinds.
std::string BitsToString(DType dtype, const Element& element) {
  const auto size = static_cast<size_t>(DTypeSize(dtype));
  uint64_t bits = 0;
  std::memcpy(&bits, element.data(), size);
  return fmt::format("0x{:0{}x}", bits, 2 * size);
}

// "device 3 (x=1, y=1)"
std::string DeviceToString(const Mesh& mesh, int64_t device) {
  std::vector<std::string> coordinates;
  for (int axis = 0; axis < mesh.num_axes(); ++axis)
    coordinates.push_back(fmt::format("{}={}", mesh.axis(axis).name, mesh.CoordinateOn(axis, device)));
  return fmt::format("device {} ({})", device, fmt::join(coordinates, ", "));
}

// The index of the element `offset` elements into a dense buffer of `shape`.
Shape IndexAt(const Shape& shape, int64_t offset) {
  Shape index(shape.size());
  for (size_t d = shape.size(); d-- > 0;) {
    index[d] = offset % shape[d];
    offset /= shape[d];
  }
  return index;
}

}  // namespace

std::optional<Difference> FindDifference(const BoxCopy& region, int64_t begin, int64_t end, int64_t size,
                                         const std::byte* first, const std::byte* second) {
  std::optional<Difference> found;
  region.ForRuns(begin, end, [&](int64_t start, int64_t, int64_t count) {
    if (found.has_value() ||
        std::memcmp(first + start * size, second + start * size, static_cast<size_t>(count * size)) == 0)
      return;
    int64_t offset = start;
    while (std::memcmp(first + offset * size, second + offset * size, static_cast<size_t>(size)) == 0)
      ++offset;
    found = Difference{offset};
    std::memcpy(found->first.data(), first + offset * size, static_cast<size_t>(size));
    std::memcpy(found->second.data(), second + offset * size, static_cast<size_t>(size));
  });
  return found;
}

absl::Status DifferenceError(std::string_view subject, const Type& global, const Layout& layout,
                             int64_t first_device, int64_t second_device, const Difference& difference,
                             std::string_view cross_device_op) {
  std::string first = ElementToString(global.dtype, difference.first);
  std::string second = ElementToString(global.dtype, difference.second);
  if (first == second) {
    first += fmt::format(" ({})", BitsToString(global.dtype, difference.first));
    second += fmt::format(" ({})", BitsToString(global.dtype, difference.second));
  }
  const Shape local = IndexAt(layout.LocalShape(global.shape), difference.offset);
  return absl::InternalError(fmt::format(
      "{} is {} {} on {}, but its replicas differ: element {} is {} on {} and {} on {}; devices that a "
      "layout gives the same block must hold the same bits, so {}.",
      subject, global.ToString(), layout.ToString(), layout.mesh().ToString(),
      ShapeToString(layout.GlobalIndex(global.shape, first_device, local)), first,
      DeviceToString(layout.mesh(), first_device), second, DeviceToString(layout.mesh(), second_device),
      cross_device_op.empty()
          ? "the program misses a collective or declares a wrong layout"
          : fmt::format(
                "the cross-device op \"{}\" gave them different results (CheckCrossDeviceOps finds when), or "
                "the program misses a collective",
                cross_device_op)));
}

}  // namespace meshwork
