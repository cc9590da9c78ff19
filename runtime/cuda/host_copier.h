// HostCopier copies host tensors from and to pinned memory. Large ones are copied by several threads, piece by piece,
// and the caller is told which pieces are there: so the transfer of the first pieces to a GPU runs while the last
// ones are copied.
//
//   HostCopier copier;
//   MESHWORK_RETURN_IF_ERROR(copier.Stage(tensors, [&](size_t i, int64_t first, int64_t bytes) {
//     return CopyToDevice(*stream, addresses[i] + static_cast<CUdeviceptr>(first), tensors[i].to + first, bytes);
//   }));
//   MESHWORK_RETURN_IF_ERROR(stream->Synchronize());   // before the pinned memory is written again
//
// One thread copies 7 to 12 GB/s, PCIe 5 transfers 50. The helper threads are started by the first large copy, sleep
// between copies, and end with the copier. In the child of a fork it copies alone. Only one thread at a time may use a
// copier.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "meshwork/base/fork.h"

namespace meshwork {

struct HostCopy {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  int64_t bytes = 0;
};

struct HostCopierOptions {
  // Threads beside the caller, at most; below 0: half of the cores that the process may use, and 7 at most.
  int helpers = -1;
  int64_t piece_bytes = int64_t{256} << 10;  // at least 1
  // From this many bytes on, of all tensors together, helpers copy too, and staging goes past the caches.
  int64_t large_bytes = int64_t{256} << 10;
};

class HostCopier {
 public:
  // Bytes first, …, first + bytes - 1 of copy `i` are there. Called in the order of the copies and their bytes, in the
  // caller's thread; pieces that are ready together are one call.
  using Arrived = std::function<absl::Status(size_t i, int64_t first, int64_t bytes)>;

  explicit HostCopier(const HostCopierOptions& options = {});
  HostCopier(const HostCopier&) = delete;
  HostCopier& operator=(const HostCopier&) = delete;
  ~HostCopier();

  // Copies data that a device will read. The copies must not overlap. Returns when no thread touches the memory any
  // more.
  // Error: the first of `arrived`, after which nothing more is copied.
  absl::Status Stage(std::span<const HostCopy> copies, const Arrived& arrived);
  // Copies data that the process will read.
  void Copy(std::span<const HostCopy> copies);

  // Helpers that were started.
  int num_helpers() const;

 private:
  struct Piece {
    HostCopy what;
    size_t copy = 0;
    int64_t first = 0;
  };
  class Helpers;

  absl::Status Run(std::span<const HostCopy> copies, bool for_device, const Arrived& arrived);
  std::vector<Piece> PiecesOf(std::span<const HostCopy> copies) const;

  const HostCopierOptions options_;
  const ForkMark made_;
  UnlessForked<Helpers> helpers_;  // null until it is needed
};

}  // namespace meshwork
