// Moves variables from the domains that hold them to where a session of other domains, on another mesh, wants them.
//
//   StateSide from{placement, /*processes=*/{0, -1, 1}, {{"w", layout}}};   // domain 1 of three is lost
//   LostBlock(from, …)                                                      // what nobody has any more, if anything
//   MESHWORK_RETURN_IF_ERROR(MoveState(transport, from, held, session.State()));
//
// Each process gets each element that it needs once: from its own memory, or from one of those that hold it. Variables are
// moved one after the other, so beside both states a process has at most twice its blocks of the largest variable.
//
// Thread safety: different transports.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "meshwork/layout/layout.h"
#include "meshwork/mesh/placement.h"
#include "meshwork/runtime/dtensor.h"
#include "meshwork/runtime/transport.h"

namespace meshwork {

// How variables lie before they are moved. REQUIRES: the layouts are on placement.mesh(), without partials.
struct StateSide {
  static constexpr int64_t kLost = -1;

  Placement placement;
  std::vector<int64_t> processes;  // per domain of the placement: who holds its blocks now; kLost: nobody
  std::map<std::string, Layout> layouts;
};

// A block, in the space of factors of the layout, that was in domains which are lost; nothing if there is none.
std::optional<Block> LostBlock(const StateSide& from, const Layout& layout, const Shape& global);

// Fills the variables `to`. `held`: the blocks that this process has of `from`; without variables if it has none. All
// processes of the transport call it; null: there is one process. Processes are numbered as its domains are. Errors: those of the
// transport, and of the memories. REQUIRES: names and types agree; LostBlock finds nothing.
absl::Status MoveState(Transport* transport, const StateSide& from,
                       const std::map<std::string, DTensor>& held, std::map<std::string, DTensor> to);

}  // namespace meshwork
