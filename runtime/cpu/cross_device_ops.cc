#include "meshwork/runtime/cpu/cross_device_ops.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/cpu/reduce.h"

namespace meshwork {
namespace {

using PlaceList = absl::InlinedVector<CrossDevicePlace, 64>;

// Elements [begin, end) of `count` that part `i` of `parts` has.
struct ChunkOf {
  ChunkOf(int64_t count, size_t parts, size_t i)
      : begin(count * static_cast<int64_t>(i) / static_cast<int64_t>(parts)),
        end(count * static_cast<int64_t>(i + 1) / static_cast<int64_t>(parts)) {}
  int64_t begin, end;
};

// ---- The algorithms.

class ToOneDeviceAlgorithm : public CrossDeviceAlgorithm {
 public:
  std::string_view name() const override { return "ReductionToOneDevice"; }

  void Reduce(const CrossDeviceSize& size, size_t root, CrossDeviceMoves& moves) const override {
    PlaceList terms;
    for (size_t k = 0; k < size.devices; ++k) terms.push_back(TermOf(k));
    moves.Move(0, size.elements, ResultOf(root), terms);
  }
  void Broadcast(const CrossDeviceSize& size, size_t root, CrossDeviceMoves& moves) const override {
    const CrossDevicePlace from = ResultOf(root);
    for (size_t k = 0; k < size.devices; ++k)
      if (k != root) moves.Move(0, size.elements, ResultOf(k), {&from, 1});
  }
};

class HierarchicalAlgorithm : public CrossDeviceAlgorithm {
 public:
  explicit HierarchicalAlgorithm(int64_t groups) : groups_(static_cast<size_t>(groups)) {}

  std::string_view name() const override { return "HierarchicalCopyAllReduce"; }
  bool UsesRoom(size_t devices) const override { return GroupsOf(devices) > 1; }

  void Reduce(const CrossDeviceSize& size, size_t root, CrossDeviceMoves& moves) const override {
    const size_t groups = GroupsOf(size.devices);
    ReduceGroup(size, 0, ResultOf(root), moves);
    const CrossDevicePlace both[] = {ResultOf(root), RoomBetween()};
    for (size_t g = 1; g < groups; ++g) {
      if (g > 1) moves.NextRound();
      ReduceGroup(size, g, RoomBetween(), moves);
      moves.NextRound();
      moves.Move(0, size.elements, ResultOf(root), both);
    }
  }

  // Copies to the first device of each group, and from there to the others of the group.
  void Broadcast(const CrossDeviceSize& size, size_t root, CrossDeviceMoves& moves) const override {
    const size_t devices = size.devices, groups = GroupsOf(devices);
    const auto copy = [&](size_t to, size_t from) {
      const CrossDevicePlace source = ResultOf(from);
      if (to != root && to != from) moves.Move(0, size.elements, ResultOf(to), {&source, 1});
    };
    for (size_t g = 0; g < groups; ++g) copy(First(devices, groups, g), root);
    moves.NextRound();
    for (size_t g = 0; g < groups; ++g)
      for (size_t k = First(devices, groups, g) + 1; k < First(devices, groups, g + 1); ++k)
        copy(k, First(devices, groups, g));
  }

 private:
  size_t GroupsOf(size_t devices) const { return std::min(groups_, devices); }
  static size_t First(size_t devices, size_t groups, size_t group) {
    return static_cast<size_t>(ChunkOf(static_cast<int64_t>(devices), groups, group).begin);
  }
  void ReduceGroup(const CrossDeviceSize& size, size_t g, CrossDevicePlace to,
                   CrossDeviceMoves& moves) const {
    const size_t groups = GroupsOf(size.devices);
    PlaceList terms;
    for (size_t k = First(size.devices, groups, g); k < First(size.devices, groups, g + 1); ++k)
      terms.push_back(TermOf(k));
    moves.Move(0, size.elements, to, terms);
  }

  const size_t groups_;
};

// Chunk c starts at device c. Each device adds its own term to what it gets, and hands the sum on.
class RingAlgorithm : public CrossDeviceAlgorithm {
 public:
  std::string_view name() const override { return "RingAllReduce"; }

  void Reduce(const CrossDeviceSize& size, size_t root, CrossDeviceMoves& moves) const override {
    PlaceList around;
    for (size_t k = 0; k < size.devices; ++k) around.push_back(TermOf(k));
    for (size_t c = 0; c < size.devices; ++c) {
      const ChunkOf chunk(size.elements, size.devices, c);
      moves.Move(chunk.begin, chunk.end, ResultOf(root), around);
      std::rotate(around.begin(), around.begin() + 1, around.end());
    }
  }

  void Broadcast(const CrossDeviceSize& size, size_t root, CrossDeviceMoves& moves) const override {
    for (size_t k = 1; k < size.devices; ++k) {
      const CrossDevicePlace before = ResultOf((root + k - 1) % size.devices);
      moves.Move(0, size.elements, ResultOf((root + k) % size.devices), {&before, 1});
      moves.NextRound();
    }
  }

  void AllReduce(const CrossDeviceSize& size, size_t root, CrossDeviceMoves& moves) const override {
    const size_t devices = size.devices;
    if (devices == 1) return Reduce(size, root, moves);
    for (size_t turn = 1; turn < devices; ++turn) {
      for (size_t c = 0; c < devices; ++c) {
        const ChunkOf chunk(size.elements, devices, c);
        const size_t before = (c + turn - 1) % devices, here = (c + turn) % devices;
        const CrossDevicePlace both[] = {turn == 1 ? TermOf(before) : ResultOf(before), TermOf(here)};
        moves.Move(chunk.begin, chunk.end, ResultOf(here), both);
      }
      moves.NextRound();
    }
    for (size_t turn = 0; turn + 1 < devices; ++turn) {
      for (size_t c = 0; c < devices; ++c) {
        const ChunkOf chunk(size.elements, devices, c);
        const CrossDevicePlace before = ResultOf((c + turn + devices - 1) % devices);
        moves.Move(chunk.begin, chunk.end, ResultOf((c + turn) % devices), {&before, 1});
      }
      moves.NextRound();
    }
  }
};

// ---- Algorithms in the memory of the host.

// Runs the moves as they come, as far as they are of elements [first, last) of the pack.
class HostMoves : public CrossDeviceMoves {
 public:
  // `results`: of each device, or only that of `root`. `room`: for `last - first` elements.
  HostMoves(const ReducePack& pack, std::span<std::byte* const> results, int64_t first, int64_t last,
            std::byte* room)
      : pack_(pack),
        results_(results),
        size_(DTypeSize(pack.dtype)),
        first_(first),
        last_(last),
        room_(room) {}

  void Move(int64_t begin, int64_t end, CrossDevicePlace to,
            std::span<const CrossDevicePlace> from) override {
    begin = std::max(begin, first_), end = std::min(end, last_);
    if (begin >= end) return;
    absl::InlinedVector<const std::byte*, 64> sources;
    for (const CrossDevicePlace& place : from) sources.push_back(At(place, begin));
    std::byte* const target = const_cast<std::byte*>(At(to, begin));
    if (from.size() > 1) meshwork::Reduce(pack_.op, pack_.dtype, target, sources, 0, end - begin);
    else std::memcpy(target, sources[0], static_cast<size_t>((end - begin) * size_));
  }
  void NextRound() override {}

 private:
  const std::byte* At(CrossDevicePlace place, int64_t element) const {
    switch (place.kind) {
      case CrossDevicePlace::Kind::kTerm: return pack_.terms[place.device] + element * size_;
      case CrossDevicePlace::Kind::kResult:
        return (results_.empty() ? pack_.to : results_[place.device]) + element * size_;
      case CrossDevicePlace::Kind::kRoom: break;
    }
    return room_ + (element - first_) * size_;
  }

  const ReducePack& pack_;
  const std::span<std::byte* const> results_;
  const int64_t size_, first_, last_;
  std::byte* const room_;
};

class AlgorithmOps : public CrossDeviceOps {
 public:
  explicit AlgorithmOps(std::shared_ptr<const CrossDeviceAlgorithm> algorithm)
      : algorithm_(std::move(algorithm)) {}

  std::string_view name() const override { return algorithm_->name(); }
  bool is_thread_safe() const override { return true; }
  const CrossDeviceAlgorithm* algorithm() const override { return algorithm_.get(); }

  absl::Status Reduce(const ReducePack& pack) override {
    return Run(pack, {}, [&](const CrossDeviceSize& size, CrossDeviceMoves& moves) {
      algorithm_->Reduce(size, pack.root, moves);
    });
  }
  absl::Status AllReduce(const ReducePack& pack, std::span<std::byte* const> to) override {
    return Run(pack, to, [&](const CrossDeviceSize& size, CrossDeviceMoves& moves) {
      algorithm_->AllReduce(size, pack.root, moves);
    });
  }
  absl::Status Broadcast(const BroadcastPack& pack) override {
    const ReducePack copied{.dtype = pack.dtype, .count = pack.count, .devices = pack.devices};
    return Run(copied, pack.to, [&](const CrossDeviceSize& size, CrossDeviceMoves& moves) {
      algorithm_->Broadcast(size, pack.root, moves);
    });
  }

 private:
  static constexpr int64_t kTileBytes = 4096;

  // Runs the moves of all elements at once or, if they need memory for intermediate results, tile by tile.
  template <typename F>
  absl::Status Run(const ReducePack& pack, std::span<std::byte* const> results, F&& describe) const {
    const CrossDeviceSize size{pack.devices.size(), pack.count};
    alignas(64) std::byte room[kTileBytes];
    const int64_t tile = algorithm_->UsesRoom(size.devices) ? kTileBytes / DTypeSize(pack.dtype) : pack.count;
    for (int64_t at = 0; at < pack.count; at += tile) {
      HostMoves moves(pack, results, at, std::min(at + tile, pack.count), room);
      describe(size, moves);
    }
    return absl::OkStatus();
  }

  const std::shared_ptr<const CrossDeviceAlgorithm> algorithm_;
};

// Has only the name of the op; the steps of GPUs make the sums.
class NcclOps : public CrossDeviceOps {
 public:
  std::string_view name() const override { return "NcclAllReduce"; }
  bool is_nccl() const override { return true; }
  absl::Status Reduce(const ReducePack&) override { return OnlyInSteps(); }
  absl::Status Broadcast(const BroadcastPack&) override { return OnlyInSteps(); }

 private:
  static absl::Status OnlyInSteps() {
    return absl::FailedPreconditionError(
        "NCCL adds up in the steps of GPUs, and not in the memory of the host.");
  }
};

}  // namespace

std::shared_ptr<CrossDeviceOps> MakeCrossDeviceOps(std::shared_ptr<const CrossDeviceAlgorithm> algorithm) {
  return std::make_shared<AlgorithmOps>(std::move(algorithm));
}

std::shared_ptr<CrossDeviceOps> ReductionToOneDevice() {
  return MakeCrossDeviceOps(std::make_shared<ToOneDeviceAlgorithm>());
}

absl::StatusOr<std::shared_ptr<CrossDeviceOps>> HierarchicalCopyAllReduce(int64_t num_groups) {
  if (num_groups < 1)
    return InvalidArgument("HierarchicalCopyAllReduce: num_groups={}; give at least 1 group of devices.",
                           num_groups);
  return MakeCrossDeviceOps(std::make_shared<HierarchicalAlgorithm>(num_groups));
}

std::shared_ptr<CrossDeviceOps> RingAllReduce() {
  return MakeCrossDeviceOps(std::make_shared<RingAlgorithm>());
}

std::shared_ptr<CrossDeviceOps> NcclAllReduce() { return std::make_shared<NcclOps>(); }

}  // namespace meshwork
