#include "meshwork/runtime/cross_device_algorithm.h"

#include <algorithm>
#include <string>

#include "meshwork/base/status.h"

namespace meshwork {
namespace {

std::string NameOf(CrossDevicePlace place) {
  switch (place.kind) {
    case CrossDevicePlace::Kind::kTerm: return fmt::format("term {}", place.device);
    case CrossDevicePlace::Kind::kResult: return fmt::format("result {}", place.device);
    case CrossDevicePlace::Kind::kRoom: break;
  }
  return "the room";
}

}  // namespace

void CrossDeviceAlgorithm::AllReduce(const CrossDeviceSize& size, size_t root,
                                     CrossDeviceMoves& moves) const {
  Reduce(size, root, moves);
  moves.NextRound();
  Broadcast(size, root, moves);
}

void MoveChecks::Find(const absl::Status& mistake) {
  if (status_.ok()) status_ = mistake;
}

void MoveChecks::Move(int64_t begin, int64_t end, CrossDevicePlace to,
                      std::span<const CrossDevicePlace> from) {
  ++num_moves_;
  if (begin < 0 || begin > end || end > size_.elements)
    return Find(InvalidArgument("it moves elements [{},{}) of a pack of {}.", begin, end,
                                Count(size_.elements, "element")));
  if (from.empty()) return Find(InvalidArgument("it moves nothing to {}; give a source.", NameOf(to)));
  if (to.kind == CrossDevicePlace::Kind::kTerm)
    return Find(InvalidArgument("it writes {}; terms are only read.", NameOf(to)));
  if (std::find(from.begin() + 1, from.end(), to) != from.end())
    return Find(InvalidArgument("it adds {} to itself as a later term; a target may be the first one alone.",
                                NameOf(to)));
  if (begin == end) return;
  Check({to, begin, end, num_moves_, /*writes=*/true});
  for (const CrossDevicePlace& place : from) Check({place, begin, end, num_moves_, /*writes=*/false});
}

void MoveChecks::Check(const Touch& touch) {
  if (touch.place.kind == CrossDevicePlace::Kind::kRoom && !uses_room_)
    return Find(InvalidArgument("it uses the room, and UsesRoom({}) is false.", size_.devices));
  if (touch.place.device >= size_.devices)
    return Find(InvalidArgument("it names {}, and there are {}.", NameOf(touch.place),
                                Count(static_cast<int64_t>(size_.devices), "device")));
  for (const Touch& other : round_)
    if (other.move != touch.move && other.place == touch.place && (other.writes || touch.writes) &&
        other.begin < touch.end && touch.begin < other.end)
      Find(InvalidArgument(
          "two moves of a round touch element {} of {}, and one of them writes it; put NextRound() "
          "between them.",
          std::max(other.begin, touch.begin), NameOf(touch.place)));
  round_.push_back(touch);
}

void MoveChecks::NextRound() { round_.clear(); }

}  // namespace meshwork
