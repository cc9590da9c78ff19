// A Level is a schedule with addresses: the schedule of a step, or of the body of a loop in a step.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "meshwork/runtime/cpu/schedule.h"
#include "meshwork/runtime/exec/transport.h"

namespace meshwork {

struct Level {
  // Without addresses. `of` must outlive the level.
  explicit Level(const Schedule& of) : schedule(&of), addresses(of.buffers.size(), nullptr) {}

  // Makes the levels of the bodies of its loops. Their arguments lie in this level's buffers, all else in the
  // arenas that this level has for them. REQUIRES: all buffers have addresses, except those of feeds,
  // outputs and spares.
  void AddBodies();
  // Finds the values in bodies that lie in feeds, outputs or spares. Call it when these have new addresses, or, with
  // `all`, when variables have.
  void FollowBindings(bool all = false);

  const Schedule* schedule;
  std::vector<std::byte*> addresses;                        // per buffer
  std::vector<std::vector<std::unique_ptr<Level>>> bodies;  // per instruction, of loops
  std::vector<std::unique_ptr<RemoteOp>> remotes;           // per operation across domains
  // For a body: its loop and its plan; and (follows_bindings) whether an argument of it, or of a body in it,
  // lies in a feed, an output or a spare.
  const LoopPlan* loop = nullptr;
  const LoopPlan::Body* body = nullptr;
  // For the first body of a loop: whether all workers leave the loop.
  bool leaves[2] = {false, false};
  bool follows_bindings = false;
};

}  // namespace meshwork
