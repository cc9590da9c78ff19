// Sends between two placements: which boxes of a tensor go where when its layout, its mesh or its processes change.
//
//   // f32[8] from two processes of 4 devices, {x} on [x=2*4], to three of 2, {y} on [y=3*2]: blocks of 1, then of 2
//   SendPlan plan = PlanSend({8}, sizeof(float), {Placement::Create(x, 2).value(), from},
//                            {Placement::Create(y, 3).value(), to});
//   plan.pieces    device 0 -> 0 [0:1], 1 -> 0 [1:2], …, 4 -> 2 [4:5], …     // from process 1 to itself
//
// A process holds the memory of a domain (mesh/placement.h). Each element that a domain of the new placement needs
// comes to it once, however many of its devices need it. It comes from the domain's own process, if that process holds
// it, and otherwise from the process that has sent least among those that hold it. If a piece is large, all processes
// that hold it send a share. The plan depends on its arguments alone, so all processes make the same one.
//
// If processes are lost, pieces come from the remaining replicas, and the plan lists the boxes that no process holds.
//
// Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "meshwork/layout/layout.h"
#include "meshwork/mesh/placement.h"

namespace meshwork {

// How a tensor lies before or after a send. REQUIRES: the layout is on placement.mesh(), without partials.
struct SendSide {
  static constexpr int64_t kLost = -1;

  Placement placement;
  Layout layout;
  // Per domain of the placement: the process that has its memory; kLost: no process has it any more. Empty: process i
  // has the memory of domain i.
  std::vector<int64_t> processes = {};

  int64_t ProcessOfDomain(int64_t domain) const {
    return processes.empty() ? domain : processes[static_cast<size_t>(domain)];
  }
  int64_t ProcessOf(int64_t device) const { return ProcessOfDomain(placement.DomainOf(device)); }
};

// Elements that go from one device's block to another's. `from_device` is a device of the old mesh. `to_device` is a
// device of the new mesh: the lowest one of its domain that holds the block. `box`: in the tensor; it lies in one plain
// part (layout/plain_parts.h) of either block.
struct SentPiece {
  int64_t from_device = 0, to_device = 0;
  Block box;
  bool operator==(const SentPiece&) const = default;
};

struct SendPlan {
  std::vector<SentPiece> pieces;  // by `to_device`, ascending
  std::vector<Block> lost;        // disjoint boxes of the tensor that are needed and that no process has
};

// Bytes that each process sends to others, by process.
using SentBytes = std::map<int64_t, int64_t>;

// The plan that takes a tensor of `shape`, with elements of `element_bytes` bytes, from one side to the other. `sent`,
// if not null: the bytes that earlier plans send; those of this plan are added. So the sends of several tensors are
// shared evenly.
// Laws: for each domain of `to`, the pieces to its devices and the lost boxes have each element that the domain holds
// once, and nothing else; each piece lies in the block of `from_device`; no piece comes from a process that is lost; a
// piece comes from another process only if the domain's own process does not have the elements.
// REQUIRES: both layouts fit the shape; processes of `to` are not lost.
SendPlan PlanSend(const Shape& shape, int64_t element_bytes, const SendSide& from, const SendSide& to,
                  SentBytes* sent = nullptr);

}  // namespace meshwork
