// Cross-device ops of one's own, as a user writes them: right ones, and wrong ones of many kinds.
#pragma once

#include <cstring>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "meshwork/runtime/cpu/reduce.h"
#include "meshwork/runtime/plan/cross_device.h"

namespace meshwork {

// Adds up from the last device to the first.
class BackwardsOps : public CrossDeviceOps {
 public:
  std::string_view name() const override { return "backwards"; }
  absl::Status Reduce(const ReducePack& pack) override {
    ++reductions;
    packs.push_back(pack.count);
    devices.assign(pack.devices.begin(), pack.devices.end());
    const std::vector<const std::byte*> terms(pack.terms.rbegin(), pack.terms.rend());
    meshwork::Reduce(pack.op, pack.dtype, pack.to, terms, 0, pack.count);
    return absl::OkStatus();
  }
  absl::Status Broadcast(const BroadcastPack& pack) override {
    ++broadcasts;
    for (size_t k = 0; k < pack.to.size(); ++k)
      if (k != pack.root && Reaches(k, pack.to.size()))
        std::memcpy(pack.to[k], pack.from, static_cast<size_t>(pack.bytes()));
    return absl::OkStatus();
  }

  int reductions = 0, broadcasts = 0;
  std::vector<int64_t> packs;    // elements of each
  std::vector<int64_t> devices;  // of the last one

 protected:
  virtual bool Reaches(size_t, size_t) const { return true; }
};

// BackwardsOps as an algorithm.
class BackwardsAlgorithm : public CrossDeviceAlgorithm {
 public:
  std::string_view name() const override { return "backwards by moves"; }
  void Reduce(const CrossDeviceSize& size, size_t root, CrossDeviceMoves& moves) const override {
    std::vector<CrossDevicePlace> terms;
    for (size_t k = size.devices; k-- > 0;) terms.push_back(TermOf(k));
    moves.Move(0, size.elements, ResultOf(root), terms);
  }
  void Broadcast(const CrossDeviceSize& size, size_t root, CrossDeviceMoves& moves) const override {
    const CrossDevicePlace from[] = {ResultOf(root)};
    for (size_t k = 0; k < size.devices; ++k)
      if (k != root) moves.Move(0, size.elements, ResultOf(k), from);
  }
};

// Its moves are wrong over three devices, in one way.
class MistakenMoves : public BackwardsAlgorithm {
 public:
  // The last two mistakes are in Reduce and in Broadcast, the others in AllReduce alone.
  enum class How {
    kBeyond,
    kNoSource,
    kWritesTerm,
    kAddsItself,
    kRoom,
    kNoDevice,
    kSameRound,
    kOtherResult,
    kReadsTerm
  };
  explicit MistakenMoves(How how) : how_(how) {}
  std::string_view name() const override { return "mistaken"; }
  void Reduce(const CrossDeviceSize& size, size_t root, CrossDeviceMoves& moves) const override {
    if (how_ != How::kOtherResult || !IsHere(size)) return BackwardsAlgorithm::Reduce(size, root, moves);
    const size_t other = (root + 1) % size.devices;
    BackwardsAlgorithm::Reduce(size, other, moves);
    moves.NextRound();
    moves.Move(0, size.elements, ResultOf(root), std::vector{ResultOf(other)});
  }
  void Broadcast(const CrossDeviceSize& size, size_t root, CrossDeviceMoves& moves) const override {
    BackwardsAlgorithm::Broadcast(size, root, moves);
    if (how_ != How::kReadsTerm || !IsHere(size)) return;
    moves.NextRound();
    moves.Move(0, size.elements, ResultOf(root), std::vector{TermOf(0)});
  }
  void AllReduce(const CrossDeviceSize& size, size_t root, CrossDeviceMoves& moves) const override {
    if (!IsHere(size)) return BackwardsAlgorithm::AllReduce(size, root, moves);
    Reduce(size, root, moves);
    if (how_ != How::kSameRound) moves.NextRound();
    Broadcast(size, root, moves);
    const std::vector<CrossDevicePlace> one = {TermOf(0)}, itself = {TermOf(0), ResultOf(1)};
    moves.NextRound();
    switch (how_) {
      case How::kBeyond: return moves.Move(0, size.elements + 1, ResultOf(1), one);
      case How::kNoSource: return moves.Move(0, size.elements, ResultOf(1), {});
      case How::kWritesTerm: return moves.Move(0, size.elements, TermOf(1), one);
      case How::kAddsItself: return moves.Move(0, size.elements, ResultOf(1), itself);
      case How::kRoom: return moves.Move(0, size.elements, RoomBetween(), one);
      case How::kNoDevice: return moves.Move(0, size.elements, ResultOf(3), one);
      default: return;
    }
  }

 private:
  static bool IsHere(const CrossDeviceSize& size) { return size.devices == 3 && size.elements > 0; }

  const How how_;
};

// Broadcasts to all but the last device.
class ForgetsTheLast : public BackwardsOps {
 public:
  std::string_view name() const override { return "forgets the last"; }

 protected:
  bool Reaches(size_t k, size_t devices) const override { return k + 1 < devices; }
};

// Broadcasts to nobody.
class KeepsToItself : public BackwardsOps {
 public:
  std::string_view name() const override { return "keeps to itself"; }

 protected:
  bool Reaches(size_t, size_t) const override { return false; }
};

// All devices get the same, but the value of the last device is left out.
class LeavesOneOut : public BackwardsOps {
 public:
  std::string_view name() const override { return "leaves one out"; }
  absl::Status Reduce(const ReducePack& pack) override {
    ReducePack without = pack;
    if (pack.terms.size() > 1) without.terms = pack.terms.first(pack.terms.size() - 1);
    return BackwardsOps::Reduce(without);
  }
};

// Makes one mistake, on seven f32 of three devices.
class MistakenOps : public BackwardsOps {
 public:
  enum class How {
    kNoName,
    kChangesTerms,
    kWritesBeyond,
    kBroadcastsBeyond,
    kOtherOrder,  // every other time
    kOtherBits,   // of one device
    kOtherThread,
    kMaxAsSum
  };
  explicit MistakenOps(How how) : how_(how) {}
  std::string_view name() const override { return how_ == How::kNoName ? "" : "mistaken"; }
  bool is_thread_safe() const override { return how_ == How::kOtherThread; }

  absl::Status Reduce(const ReducePack& pack) override {
    ReducePack other = pack;
    const bool here = IsHere(pack.dtype, pack.count, pack.devices.size());
    if (here && how_ == How::kMaxAsSum && pack.op == ReduceOp::kMax) other.op = ReduceOp::kSum;
    const std::vector<const std::byte*> swapped(pack.terms.rbegin(), pack.terms.rend());
    if (here && how_ == How::kOtherOrder && turn_++ % 2 == 0) other.terms = swapped;
    const std::lock_guard<std::mutex> lock(mutex_);
    const absl::Status status = BackwardsOps::Reduce(other);
    if (here && how_ == How::kChangesTerms) const_cast<std::byte*>(pack.terms[0])[0] ^= std::byte{1};
    if (here && how_ == How::kWritesBeyond) pack.to[pack.bytes()] = std::byte{1};
    if (how_ == How::kOtherThread && pack.devices.size() == 8 && std::this_thread::get_id() != first_)
      pack.to[0] ^= std::byte{1};
    return status;
  }
  absl::Status Broadcast(const BroadcastPack& pack) override {
    const bool here = IsHere(pack.dtype, pack.count, pack.devices.size());
    const std::lock_guard<std::mutex> lock(mutex_);
    const absl::Status status = BackwardsOps::Broadcast(pack);
    if (here && how_ == How::kOtherBits) pack.to[2][0] ^= std::byte{1};
    if (here && how_ == How::kBroadcastsBeyond) pack.to[2][pack.bytes()] = std::byte{1};
    return status;
  }

 private:
  static bool IsHere(DType dtype, int64_t count, size_t devices) {
    return dtype == F32 && count == 7 && devices == 3;
  }

  const How how_;
  const std::thread::id first_ = std::this_thread::get_id();
  std::mutex mutex_;
  int turn_ = 0;
};

// Returns an error, or throws.
class FailsOps : public BackwardsOps {
 public:
  enum class How { kStatus, kThrow, kThrowMemory, kThrowNumber };
  explicit FailsOps(How how) : how_(how) {}
  std::string_view name() const override { return "fails"; }
  absl::Status Reduce(const ReducePack&) override {
    switch (how_) {
      case How::kStatus: return absl::UnavailableError("the cable is out.");
      case How::kThrow: throw std::runtime_error("the cable is out");
      case How::kThrowMemory: throw std::bad_alloc();
      case How::kThrowNumber: throw 7;
    }
    return absl::OkStatus();
  }

 private:
  const How how_;
};

}  // namespace meshwork
