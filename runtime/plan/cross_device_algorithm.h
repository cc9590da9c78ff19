// CrossDeviceAlgorithm: a cross-device op (runtime/plan/cross_device.h) as data. It says which elements are copied and
// added up, from where to where, in which order. The CPU or a GPU can run it; both add up the terms of each element in
// the same order.
//
//   class AddBackwards : public CrossDeviceAlgorithm {
//    public:
//     std::string_view name() const override { return "backwards"; }
//     void Reduce(const CrossDeviceSize& size, size_t root, CrossDeviceMoves& moves) const override {
//       std::vector<CrossDevicePlace> terms;
//       for (size_t k = size.devices; k-- > 0;) terms.push_back(TermOf(k));
//       moves.Move(0, size.elements, ResultOf(root), terms);
//     }
//     void Broadcast(const CrossDeviceSize& size, size_t root, CrossDeviceMoves& moves) const override {
//       for (size_t k = 0; k < size.devices; ++k)
//         if (k != root) moves.Move(0, size.elements, ResultOf(k), {{ResultOf(root)}});
//     }
//   };
//   const auto ops = MakeCrossDeviceOps(std::make_shared<AddBackwards>());    // runtime/cpu/cross_device_ops.h
//
// Devices are counted from 0 on here, in the order of ReducePack::devices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "absl/status/status.h"

namespace meshwork {

// Where elements of a pack lie.
struct CrossDevicePlace {
  enum class Kind : uint8_t {
    kTerm,    // what the device has; only read
    kResult,  // what the device gets
    kRoom,    // memory for intermediate results, one per pack
  };
  Kind kind = Kind::kTerm;
  size_t device = 0;  // not of kRoom

  bool operator==(const CrossDevicePlace&) const = default;
};
inline CrossDevicePlace TermOf(size_t device) { return {CrossDevicePlace::Kind::kTerm, device}; }
inline CrossDevicePlace ResultOf(size_t device) { return {CrossDevicePlace::Kind::kResult, device}; }
inline CrossDevicePlace RoomBetween() { return {CrossDevicePlace::Kind::kRoom, 0}; }

struct CrossDeviceSize {
  size_t devices = 1;
  int64_t elements = 0;  // of the pack
};

// Receives the moves of an algorithm, in *rounds* that run one after the other. The moves of a round may run in any
// order, or at the same time: no move touches elements that another move of its round writes.
class CrossDeviceMoves {
 public:
  virtual ~CrossDeviceMoves() = default;

  // Elements [begin, end) of `to` become (…(from[0] op from[1]) op …); with one source they become a copy. `to` may be
  // from[0], but no other source.
  virtual void Move(int64_t begin, int64_t end, CrossDevicePlace to,
                    std::span<const CrossDevicePlace> from) = 0;
  virtual void NextRound() = 0;
};

// Thread-safe. The moves depend on the arguments alone.
class CrossDeviceAlgorithm {
 public:
  virtual ~CrossDeviceAlgorithm() = default;

  // In messages.
  virtual std::string_view name() const = 0;
  // The terms of all devices to the result of `root`. Touches no other result.
  virtual void Reduce(const CrossDeviceSize& size, size_t root, CrossDeviceMoves& moves) const = 0;
  // The result of `root` to those of all others. Reads no terms.
  virtual void Broadcast(const CrossDeviceSize& size, size_t root, CrossDeviceMoves& moves) const = 0;
  // The terms of all devices to the results of all. By default Reduce, then Broadcast.
  virtual void AllReduce(const CrossDeviceSize& size, size_t root, CrossDeviceMoves& moves) const;
  // Whether the moves over this number of devices use RoomBetween().
  virtual bool UsesRoom(size_t /*devices*/) const { return false; }
};

enum class CrossDeviceFunction : uint8_t { kReduce, kBroadcast, kAllReduce };

// The moves of one function of the algorithm.
void DescribeMoves(const CrossDeviceAlgorithm& algorithm, CrossDeviceFunction function,
                   const CrossDeviceSize& size, size_t root, CrossDeviceMoves& moves);

// Checks these moves without making them. Error: InvalidArgument for the first mistake, without the algorithm's name.
// Mistakes are: elements or devices that do not exist; a term that is written; a term in Broadcast, or the result of a
// device other than `root` in Reduce, because such calls have no memory for them; two moves of one round that touch the
// same element, if one of them writes it.
absl::Status CheckMoves(const CrossDeviceAlgorithm& algorithm, CrossDeviceFunction function,
                        const CrossDeviceSize& size, size_t root);

}  // namespace meshwork
