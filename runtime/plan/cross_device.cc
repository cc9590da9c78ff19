#include "meshwork/runtime/plan/cross_device.h"

#include "meshwork/base/status.h"

namespace meshwork {

absl::Status CrossDeviceOps::AllReduce(const ReducePack& pack, std::span<std::byte* const> to) {
  MESHWORK_RETURN_IF_ERROR(Reduce(pack));
  return Broadcast({.dtype = pack.dtype,
                    .count = pack.count,
                    .devices = pack.devices,
                    .root = pack.root,
                    .from = pack.to,
                    .to = to});
}

}  // namespace meshwork
