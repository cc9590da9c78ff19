#include "meshwork/runtime/cpu/cross_device_ops.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/cpu/reduce.h"

namespace meshwork {
namespace {

using TermList = absl::InlinedVector<const std::byte*, 64>;

// Elements [begin, end) of `count` that part `i` of `parts` has.
struct ChunkOf {
  ChunkOf(int64_t count, size_t parts, size_t i)
      : begin(count * static_cast<int64_t>(i) / static_cast<int64_t>(parts)),
        end(count * static_cast<int64_t>(i + 1) / static_cast<int64_t>(parts)) {}
  int64_t size() const { return end - begin; }
  int64_t begin, end;
};

void CopyBytesTo(std::byte* to, const std::byte* from, int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
}

class ToOneDeviceOps : public CrossDeviceOps {
 public:
  std::string_view name() const override { return "ReductionToOneDevice"; }
  bool is_thread_safe() const override { return true; }

  absl::Status Reduce(const ReducePack& pack) override {
    meshwork::Reduce(pack.op, pack.dtype, pack.to, pack.terms, 0, pack.count);
    return absl::OkStatus();
  }
  absl::Status Broadcast(const BroadcastPack& pack) override {
    for (size_t k = 0; k < pack.to.size(); ++k)
      if (k != pack.root) CopyBytesTo(pack.to[k], pack.from, pack.bytes());
    return absl::OkStatus();
  }
};

class HierarchicalOps : public CrossDeviceOps {
 public:
  explicit HierarchicalOps(int64_t groups) : groups_(static_cast<size_t>(groups)) {}

  std::string_view name() const override { return "HierarchicalCopyAllReduce"; }
  bool is_thread_safe() const override { return true; }

  absl::Status Reduce(const ReducePack& pack) override {
    const size_t groups = GroupsOf(pack.devices.size());
    const int64_t size = DTypeSize(pack.dtype);
    // What a group has come to, where no device has room for it.
    alignas(64) std::byte sum[kTileBytes];
    for (int64_t at = 0; at < pack.count; at += kTileBytes / size) {
      const int64_t count = std::min(kTileBytes / size, pack.count - at);
      std::byte* const to = pack.to + at * size;
      ReduceGroup(pack, groups, 0, to, at, count);
      for (size_t g = 1; g < groups; ++g) {
        ReduceGroup(pack, groups, g, sum, at, count);
        const std::byte* const both[] = {to, sum};
        meshwork::Reduce(pack.op, pack.dtype, to, both, 0, count);
      }
    }
    return absl::OkStatus();
  }

  // To the first device of each group, then to all of the group.
  absl::Status Broadcast(const BroadcastPack& pack) override {
    const size_t devices = pack.devices.size(), groups = GroupsOf(devices);
    const auto copy = [&](size_t to, size_t from) {
      if (to != pack.root) CopyBytesTo(pack.to[to], pack.to[from], pack.bytes());
    };
    for (size_t g = 0; g < groups; ++g) copy(First(devices, groups, g), pack.root);
    for (size_t g = 0; g < groups; ++g)
      for (size_t k = First(devices, groups, g) + 1; k < First(devices, groups, g + 1); ++k)
        copy(k, First(devices, groups, g));
    return absl::OkStatus();
  }

 private:
  static constexpr int64_t kTileBytes = 4096;

  size_t GroupsOf(size_t devices) const { return std::min(groups_, devices); }
  static size_t First(size_t devices, size_t groups, size_t group) {
    return static_cast<size_t>(ChunkOf(static_cast<int64_t>(devices), groups, group).begin);
  }
  static void ReduceGroup(const ReducePack& pack, size_t groups, size_t g, std::byte* to, int64_t at,
                          int64_t count) {
    const size_t first = First(pack.terms.size(), groups, g), end = First(pack.terms.size(), groups, g + 1);
    meshwork::Reduce(pack.op, pack.dtype, to, pack.terms.subspan(first, end - first), at, count);
  }

  const size_t groups_;
};

// Chunk c starts at device c. Each device adds its own term to what it gets, and hands the sum on.
class RingOps : public CrossDeviceOps {
 public:
  std::string_view name() const override { return "RingAllReduce"; }
  bool is_thread_safe() const override { return true; }

  absl::Status Reduce(const ReducePack& pack) override {
    const size_t devices = pack.terms.size();
    TermList around(pack.terms.begin(), pack.terms.end());
    for (size_t c = 0; c < devices; ++c) {
      const ChunkOf chunk(pack.count, devices, c);
      meshwork::Reduce(pack.op, pack.dtype, pack.to + chunk.begin * DTypeSize(pack.dtype), around,
                       chunk.begin, chunk.size());
      std::rotate(around.begin(), around.begin() + 1, around.end());
    }
    return absl::OkStatus();
  }

  absl::Status Broadcast(const BroadcastPack& pack) override {
    const size_t devices = pack.to.size();
    for (size_t k = 1; k < devices; ++k)
      CopyBytesTo(pack.to[(pack.root + k) % devices], pack.to[(pack.root + k - 1) % devices], pack.bytes());
    return absl::OkStatus();
  }

  absl::Status AllReduce(const ReducePack& pack, std::span<std::byte* const> to) override {
    const size_t devices = pack.terms.size();
    if (devices == 1) return Reduce(pack);
    const int64_t size = DTypeSize(pack.dtype);
    for (size_t turn = 1; turn < devices; ++turn) {
      for (size_t c = 0; c < devices; ++c) {
        const ChunkOf chunk(pack.count, devices, c);
        const size_t before = (c + turn - 1) % devices, here = (c + turn) % devices;
        const std::byte* const both[] = {(turn == 1 ? pack.terms[before] : to[before]) + chunk.begin * size,
                                         pack.terms[here] + chunk.begin * size};
        meshwork::Reduce(pack.op, pack.dtype, to[here] + chunk.begin * size, both, 0, chunk.size());
      }
    }
    for (size_t turn = 0; turn + 1 < devices; ++turn) {
      for (size_t c = 0; c < devices; ++c) {
        const ChunkOf chunk(pack.count, devices, c);
        const size_t before = (c + turn + devices - 1) % devices, here = (c + turn) % devices;
        CopyBytesTo(to[here] + chunk.begin * size, to[before] + chunk.begin * size, chunk.size() * size);
      }
    }
    return absl::OkStatus();
  }
};

}  // namespace

std::shared_ptr<CrossDeviceOps> ReductionToOneDevice() { return std::make_shared<ToOneDeviceOps>(); }

absl::StatusOr<std::shared_ptr<CrossDeviceOps>> HierarchicalCopyAllReduce(int64_t num_groups) {
  if (num_groups < 1)
    return InvalidArgument("HierarchicalCopyAllReduce: num_groups={}; give at least 1 group of devices.",
                           num_groups);
  return std::make_shared<HierarchicalOps>(num_groups);
}

std::shared_ptr<CrossDeviceOps> RingAllReduce() { return std::make_shared<RingOps>(); }

absl::StatusOr<std::shared_ptr<CrossDeviceOps>> NcclAllReduce() {
  return absl::FailedPreconditionError(
      "NcclAllReduce: NCCL reduces between GPUs, and this build computes on CPUs; use RingAllReduce() or "
      "HierarchicalCopyAllReduce(), or leave cross_device_ops out.");
}

}  // namespace meshwork
