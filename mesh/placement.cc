#include "meshwork/mesh/placement.h"

#include <algorithm>
#include <optional>

#include "meshwork/base/status.h"
#include "meshwork/mesh/cluster.h"

namespace meshwork {
namespace {

struct BoxEnd {
  int axis = -1;      // the axis inside which a domain ends; -1: domains end between axes
  int64_t major = 1;  // the size of the part of that axis that crosses domains
};

// Where boxes of `devices` consecutive devices end; nothing if these are no boxes.
std::optional<BoxEnd> FindBoxEnd(const Mesh& mesh, int64_t devices) {
  for (int axis = mesh.num_axes(); axis-- > 0 && devices > 1;) {
    const int64_t size = mesh.axis(axis).size;
    if (devices >= size) {
      if (devices % size != 0) return std::nullopt;
      devices /= size;
      continue;
    }
    if (size % devices != 0) return std::nullopt;
    return BoxEnd{axis, size / devices};
  }
  return BoxEnd();
}

}  // namespace

absl::StatusOr<Placement> Placement::Create(const Mesh& mesh, int64_t num_domains) {
  if (num_domains < 1)
    return InvalidArgument("Placement: {} on {}; there is at least one domain.", Count(num_domains, "domain"),
                           mesh.ToString());
  const int64_t devices = mesh.num_devices();
  if (devices % num_domains != 0)
    return InvalidArgument(
        "Placement: {} on {} of {}; each domain holds equally many devices, so their number divides {}.",
        Count(num_domains, "domain"), mesh.ToString(), Count(devices, "device"), devices);
  const std::optional<BoxEnd> end = FindBoxEnd(mesh, devices / num_domains);
  if (!end.has_value())
    return InvalidArgument(
        "Placement: {} on {} hold {} each, which is no box of the mesh; a domain holds whole axes, from the "
        "last one on, and at most a part of one more.",
        Count(num_domains, "domain"), mesh.ToString(), Count(devices / num_domains, "device"));
  if (end->axis < 0) return Placement(mesh, num_domains);
  MESHWORK_ASSIGN_OR_RETURN(Mesh cut, mesh.CutAxis(end->axis, end->major));
  return Placement(std::move(cut), num_domains);
}

absl::StatusOr<Placement> Placement::Create(const Mesh& mesh, const Cluster& cluster) {
  const int64_t processes = cluster.num_processes(), devices = mesh.num_devices();
  if (devices % processes != 0) {
    int64_t fewer = std::min(processes, devices);
    while (devices % fewer != 0) --fewer;
    return InvalidArgument(
        "Placement: {} processes on {} of {}; each process holds equally many devices: start {}, or declare another "
        "mesh.",
        processes, mesh.ToString(), Count(devices, "device"), fewer);
  }
  return Create(mesh, processes);
}

void Placement::FindAcross() {
  for (int axis = 0; axis < mesh_.num_axes(); ++axis) {
    if (mesh_.axis(axis).size == 1) continue;
    if (mesh_.stride(axis) >= devices_per_domain()) across_.Add(axis);
    else within_.Add(axis);
  }
}

std::string Placement::ToString() const {
  return fmt::format("{} of {} on {}", Count(num_domains_, "domain"), Count(devices_per_domain(), "device"),
                     mesh_.ToString());
}

}  // namespace meshwork
