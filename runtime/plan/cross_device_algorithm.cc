#include "meshwork/runtime/plan/cross_device_algorithm.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

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

// Finds the first mistake.
class MoveChecks : public CrossDeviceMoves {
 public:
  MoveChecks(CrossDeviceFunction function, const CrossDeviceSize& size, size_t root, bool uses_room)
      : function_(function), size_(size), root_(root), uses_room_(uses_room) {}

  void Move(int64_t begin, int64_t end, CrossDevicePlace to,
            std::span<const CrossDevicePlace> from) override {
    if (begin < 0 || begin > end || end > size_.elements)
      return Find(InvalidArgument("it moves elements [{},{}) of a pack of {}.", begin, end,
                                  Count(size_.elements, "element")));
    if (from.empty()) return Find(InvalidArgument("it moves nothing to {}; give a source.", NameOf(to)));
    if (to.kind == CrossDevicePlace::Kind::kTerm)
      return Find(InvalidArgument("it writes {}; terms are only read.", NameOf(to)));
    if (std::find(from.begin() + 1, from.end(), to) != from.end())
      return Find(InvalidArgument(
          "it adds {} to itself as a later term; a target may be the first one alone.", NameOf(to)));
    if (begin == end) return;
    Check({to, begin, end, /*writes=*/true});
    for (const CrossDevicePlace& place : from)
      if (place != to) Check({place, begin, end, /*writes=*/false});
  }

  // Goes over the touches of each place in the order in which they begin, and compares each with the furthest ends of
  // those before it. A move that writes a place counts as one touch of it, even if it also reads it.
  void NextRound() override {
    const auto key = [](const Touch& touch) {
      return std::tuple(touch.place.kind, touch.place.device, touch.begin, touch.end);
    };
    std::sort(round_.begin(), round_.end(), [&](const Touch& a, const Touch& b) { return key(a) < key(b); });
    int64_t touched = 0, written = 0;  // to where
    for (size_t t = 0; t < round_.size(); ++t) {
      const Touch& touch = round_[t];
      if (t == 0 || round_[t - 1].place != touch.place) touched = written = 0;
      if (touch.begin < (touch.writes ? touched : written))
        Find(InvalidArgument(
            "two moves of a round touch element {} of {}, and one of them writes it; put NextRound() "
            "between them.",
            touch.begin, NameOf(touch.place)));
      touched = std::max(touched, touch.end);
      if (touch.writes) written = std::max(written, touch.end);
    }
    round_.clear();
  }

  const absl::Status& status() const { return status_; }

 private:
  struct Touch {
    CrossDevicePlace place;
    int64_t begin = 0, end = 0;
    bool writes = false;
  };

  void Find(const absl::Status& mistake) {
    if (status_.ok()) status_ = mistake;
  }

  void Check(const Touch& touch) {
    const CrossDevicePlace place = touch.place;
    if (place.kind == CrossDevicePlace::Kind::kRoom && !uses_room_)
      return Find(InvalidArgument("it uses the room, and UsesRoom({}) is false.", size_.devices));
    if (place.device >= size_.devices)
      return Find(InvalidArgument("it names {}, and there are {}.", NameOf(place),
                                  Count(static_cast<int64_t>(size_.devices), "device")));
    if (place.kind == CrossDevicePlace::Kind::kTerm && function_ == CrossDeviceFunction::kBroadcast)
      return Find(InvalidArgument("it reads {}; Broadcast has results alone.", NameOf(place)));
    if (place.kind == CrossDevicePlace::Kind::kResult && function_ == CrossDeviceFunction::kReduce &&
        place.device != root_)
      return Find(InvalidArgument("it touches {}; Reduce to number {} has the result of that one alone.",
                                  NameOf(place), root_));
    round_.push_back(touch);
  }

  const CrossDeviceFunction function_;
  const CrossDeviceSize size_;
  const size_t root_;
  const bool uses_room_;
  absl::Status status_;
  std::vector<Touch> round_;
};

}  // namespace

void CrossDeviceAlgorithm::AllReduce(const CrossDeviceSize& size, size_t root,
                                     CrossDeviceMoves& moves) const {
  Reduce(size, root, moves);
  moves.NextRound();
  Broadcast(size, root, moves);
}

void DescribeMoves(const CrossDeviceAlgorithm& algorithm, CrossDeviceFunction function,
                   const CrossDeviceSize& size, size_t root, CrossDeviceMoves& moves) {
  switch (function) {
    case CrossDeviceFunction::kReduce: return algorithm.Reduce(size, root, moves);
    case CrossDeviceFunction::kBroadcast: return algorithm.Broadcast(size, root, moves);
    case CrossDeviceFunction::kAllReduce: return algorithm.AllReduce(size, root, moves);
  }
}

absl::Status CheckMoves(const CrossDeviceAlgorithm& algorithm, CrossDeviceFunction function,
                        const CrossDeviceSize& size, size_t root) {
  MoveChecks checks(function, size, root, algorithm.UsesRoom(size.devices));
  DescribeMoves(algorithm, function, size, root, checks);
  checks.NextRound();
  return checks.status();
}

}  // namespace meshwork
