// A Level is a schedule with addresses: that of a step, or that of the body of a loop in one.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "meshwork/runtime/cpu/schedule.h"
#include "meshwork/runtime/transport.h"

namespace meshwork {

struct Level {
  // Without addresses. `of` must outlive it.
  explicit Level(const Schedule& of) : schedule(&of), addresses(of.buffers.size(), nullptr) {}

  // Makes the levels of the bodies of its loops. Their arguments lie where this level says, all else in the
  // arenas that this level has for them. REQUIRES: all buffers have addresses, but for feeds and outputs.
  void AddBodies();
  // Finds the values in bodies that lie in feeds or outputs. To be called when these have new addresses.
  void FollowBindings();

  const Schedule* schedule;
  std::vector<std::byte*> addresses;                        // per buffer
  std::vector<std::vector<std::unique_ptr<Level>>> bodies;  // per instruction, of loops
  std::vector<std::unique_ptr<RemoteOp>> remotes;           // per instruction, of those across domains
  // Of a body: where it comes from, and whether an argument of it, or of a body in it, lies in a feed or an
  // output.
  const LoopPlan* loop = nullptr;
  const LoopPlan::Body* body = nullptr;
  // Of the first body of a loop: whether all workers leave it.
  bool leaves[2] = {false, false};
  bool follows_bindings = false;
};

}  // namespace meshwork
