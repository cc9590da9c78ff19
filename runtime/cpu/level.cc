#include "meshwork/runtime/cpu/level.h"

#include <utility>

namespace meshwork {
namespace {

// Arguments lie where the program around the body says, and everything else in the body's arenas.
void PlaceBody(Level& level, const Level& around) {
  for (size_t b = 0; b < level.addresses.size(); ++b) {
    const Buffer& buffer = level.schedule->buffers[b];
    const Place& place = level.schedule->storages[buffer.storage].place;
    BufferId lies = -1;
    switch (place.kind) {
      case Place::Kind::kPrivate: lies = level.body->private_arenas[place.index]; break;
      case Place::Kind::kShared: lies = level.body->shared_arena; break;
      case Place::Kind::kConstant: lies = level.body->constants; break;
      case Place::Kind::kVariable: lies = level.loop->arguments[place.index]; break;
      case Place::Kind::kSpare:
      case Place::Kind::kUnplaced:
      case Place::Kind::kFeed:
      case Place::Kind::kOutput: break;
    }
    if (lies < 0) continue;  // nothing touches it
    // The address of a feed, an output or a spare changes at each step, and is not known yet.
    std::byte* const base = around.addresses[lies];
    if (base == nullptr) level.follows_bindings = true;
    else level.addresses[b] = base + place.offset + buffer.offset;
  }
}

}  // namespace

void Level::AddBodies() {
  bodies.resize(schedule->instructions.size());
  for (size_t i = 0; i < bodies.size(); ++i) {
    const LoopPlan* const nested = schedule->instructions[i].loop.get();
    if (nested == nullptr) continue;
    for (const LoopPlan::Body& of : nested->bodies) {
      auto inner = std::make_unique<Level>(of.schedule);
      inner->loop = nested;
      inner->body = &of;
      PlaceBody(*inner, *this);
      inner->AddBodies();
      for (const auto& deeper : inner->bodies)
        for (const std::unique_ptr<Level>& level : deeper) inner->follows_bindings |= level->follows_bindings;
      bodies[i].push_back(std::move(inner));
    }
  }
}

void Level::FollowBindings(bool all) {
  for (auto& of_loop : bodies) {
    for (const std::unique_ptr<Level>& inner : of_loop) {
      if (!inner->follows_bindings && !all) continue;
      for (size_t b = 0; b < inner->addresses.size(); ++b) {
        const Buffer& buffer = inner->schedule->buffers[b];
        const Place& place = inner->schedule->storages[buffer.storage].place;
        if (place.kind != Place::Kind::kVariable) continue;
        std::byte* const base = addresses[inner->loop->arguments[place.index]];
        inner->addresses[b] = base + place.offset + buffer.offset;
      }
      inner->FollowBindings(all);
    }
  }
}

}  // namespace meshwork
