#include "meshwork/layout/traffic.h"

#include <array>

namespace meshwork {
namespace {

// Which coordinates of an axis are looked at, from many to few.
enum class Detail { kAll, kAllOfShortAxes, kBordersAndMiddle, kEndsAndMiddle, kEnds };
constexpr std::array kDetails = {Detail::kAll, Detail::kAllOfShortAxes, Detail::kBordersAndMiddle,
                                 Detail::kEndsAndMiddle, Detail::kEnds};

constexpr int64_t kShortAxis = 16;

std::vector<int64_t> CoordinatesOf(int64_t size, Detail detail) {
  std::vector<int64_t> coordinates;
  const auto add = [&](int64_t c) {
    if (c < size && (coordinates.empty() || c > coordinates.back())) coordinates.push_back(c);
  };
  if (detail == Detail::kAll || (detail == Detail::kAllOfShortAxes && size <= kShortAxis)) {
    for (int64_t c = 0; c < size; ++c) add(c);
    return coordinates;
  }
  const bool borders = detail <= Detail::kBordersAndMiddle;
  add(0);
  if (borders) add(1);
  if (detail != Detail::kEnds) add(size / 2);
  if (borders) add(size - 2);
  add(size - 1);
  return coordinates;
}

}  // namespace

std::vector<int64_t> SomeDevices(const Mesh& mesh, const AxisList& axes, int64_t most) {
  std::vector<std::vector<int64_t>> coordinates;
  for (Detail detail : kDetails) {
    if (detail == Detail::kAll && mesh.GroupSize(axes) > most) continue;
    coordinates.clear();
    int64_t count = 1;
    for (int axis : axes) {
      coordinates.push_back(CoordinatesOf(mesh.axis(axis).size, detail));
      count = std::min(count * static_cast<int64_t>(coordinates.back().size()), most + 1);
    }
    if (count <= most) break;
  }
  std::vector<int64_t> devices = {0};
  for (size_t i = 0; i < axes.size(); ++i) {
    // If there are so many axes that even their ends are too many devices, only the first axes vary.
    if (static_cast<int64_t>(devices.size() * coordinates[i].size()) > most) break;
    std::vector<int64_t> more;
    for (int64_t device : devices)
      for (int64_t c : coordinates[i]) more.push_back(device + c * mesh.stride(axes[i]));
    devices = std::move(more);
  }
  return devices;
}

}  // namespace meshwork
