#include "meshwork/storage/fill_blocks.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "meshwork/base/check_border.h"
#include "meshwork/base/cores.h"
#include "meshwork/base/status.h"
#include "meshwork/layout/block.h"
#include "meshwork/layout/plain_parts.h"
#include "meshwork/runtime/tensor/box.h"

namespace meshwork {
namespace {

constexpr int64_t kPieceBytes = int64_t{4} << 20;

// A box that one thread reads, and the instances that hold it.
struct Piece {
  const BlocksToFill* variable = nullptr;
  Block box;
  BoxBuffer buffer;  // of each instance
  std::shared_ptr<const std::vector<int64_t>> instances;
};

// The instances of `to` by the blocks that they hold.
std::vector<std::vector<int64_t>> InstancesByBlock(const DTensor& to) {
  const InstanceMap blocks(to.domain(), to.layout().ShardedAxes());
  std::vector<std::vector<int64_t>> instances(static_cast<size_t>(blocks.count()));
  for (int64_t i = 0; i < to.instances().count(); ++i)
    instances[static_cast<size_t>(blocks.Of(to.instances().Representative(i)))].push_back(i);
  std::erase_if(instances, [](const std::vector<int64_t>& of_block) { return of_block.empty(); });
  return instances;
}

std::vector<Block> Cut(const BlocksToFill& variable, const Block& box) {
  const int64_t most = kPieceBytes / DTypeSize(variable.to.type().dtype);
  if (variable.order.empty()) return CutToFit(box, most);
  std::vector<Block> boxes = CutToFit(Permuted(box, variable.order), most);
  for (Block& cut : boxes) cut = Permuted(cut, Inverse(variable.order));
  return boxes;
}

void AddPieces(const BlocksToFill& variable, std::vector<Piece>& pieces) {
  const DTensor& to = variable.to;
  const Shape& shape = to.type().shape;
  for (std::vector<int64_t>& of_block : InstancesByBlock(to)) {
    const auto instances = std::make_shared<const std::vector<int64_t>>(std::move(of_block));
    const int64_t first = instances->front(), device = to.instances().Representative(first);
    for (const PlainPart& part : PlainParts(to.layout(), shape, to.block(first))) {
      const BoxBuffer buffer = BoxBuffer::OfPart(to.layout(), shape, device, part.box);
      for (Block& box : Cut(variable, part.box))
        pieces.push_back({&variable, std::move(box), buffer, instances});
    }
  }
}

class Filling {
 public:
  explicit Filling(const std::vector<Piece>& pieces) : pieces_(pieces) {}

  absl::Status Run() {
    {
      std::vector<std::jthread> threads;
      const bool has_border = CheckBorder::is_open();
      for (int64_t t = 1; t < NumThreads(); ++t)
        threads.emplace_back([this, has_border] {
          const CheckBorder border(has_border);
          FillSome();
        });
      FillSome();
    }
    if (thrown_ != nullptr) std::rethrow_exception(thrown_);
    return status_;
  }

 private:
  // As many as have a piece's bytes each.
  int64_t NumThreads() const {
    int64_t bytes = 0;
    for (const Piece& piece : pieces_)
      bytes += NumElements(piece.box) * DTypeSize(piece.variable->to.type().dtype);
    return std::clamp<int64_t>(bytes / kPieceBytes, 1, std::max<int64_t>(1, std::ssize(UsableCores())));
  }

  void FillSome() {
    while (!has_failed_) {
      const size_t next = next_++;
      if (next >= pieces_.size()) return;
      absl::Status status;
      std::exception_ptr thrown;
      try {
        status = Fill(pieces_[next]);
      } catch (...) {
        thrown = std::current_exception();
      }
      if (status.ok() && thrown == nullptr) continue;
      has_failed_ = true;
      // Pieces before this one were begun before it, and end. So the first failure is the same in each run.
      const std::lock_guard lock(mutex_);
      if (failed_.has_value() && *failed_ < next) return;
      failed_ = next;
      status_ = std::move(status);
      thrown_ = std::move(thrown);
    }
  }

  absl::Status Fill(const Piece& piece) {
    MESHWORK_ASSIGN_OR_RETURN(const Tensor host, piece.variable->read(piece.box));
    DTensor to = piece.variable->to;
    const BoxCopy copy(piece.box, BoxBuffer::OfBox(piece.box), piece.buffer);
    // Memories other than the host's serve one thread at a time for an allocation.
    std::unique_lock<std::mutex> lock(upload_, std::defer_lock);
    if (!to.memory().is_host()) lock.lock();
    for (const int64_t i : *piece.instances)
      MESHWORK_RETURN_IF_ERROR(to.memory().Upload(copy, DTypeSize(host.dtype()),
                                                  static_cast<const std::byte*>(host.raw()), to.instance(i)));
    return absl::OkStatus();
  }

  const std::vector<Piece>& pieces_;
  std::atomic<size_t> next_{0};
  std::atomic<bool> has_failed_{false};
  std::mutex upload_, mutex_;
  std::optional<size_t> failed_;  // the first piece that failed
  absl::Status status_;
  std::exception_ptr thrown_;
};

}  // namespace

Block Permuted(const Block& block, const std::vector<int64_t>& dims) {
  Block permuted;
  for (const int64_t d : dims) permuted.push_back(block[static_cast<size_t>(d)]);
  return permuted;
}

std::vector<int64_t> Inverse(const std::vector<int64_t>& dims) {
  std::vector<int64_t> inverse(dims.size());
  for (size_t d = 0; d < dims.size(); ++d) inverse[static_cast<size_t>(dims[d])] = static_cast<int64_t>(d);
  return inverse;
}

absl::Status FillBlocks(const std::vector<BlocksToFill>& variables) {
  std::vector<Piece> pieces;
  for (const BlocksToFill& variable : variables) AddPieces(variable, pieces);
  return Filling(pieces).Run();
}

}  // namespace meshwork
