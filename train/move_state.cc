#include "meshwork/train/move_state.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/runtime/box.h"
#include "meshwork/storage/checkpoint_parts.h"

namespace meshwork {
namespace {

// A block of one side, and who has it.
struct HeldBlock {
  Block factors;
  std::vector<int64_t> processes, devices;  // of each process one device
};

// The blocks of a tensor under a layout, by coordinate on the axes that shard it; those without elements left out.
std::vector<HeldBlock> BlocksOf(const Placement& placement, const std::vector<int64_t>& processes,
                                const Layout& layout, const Shape& global) {
  const AxisSet sharded = layout.ShardedAxes();
  const AxisGroup coordinates(placement.mesh(), sharded.ToList());
  std::vector<HeldBlock> blocks(static_cast<size_t>(coordinates.size()));
  for (int64_t domain = 0; domain < placement.num_domains(); ++domain) {
    const int64_t process = processes[static_cast<size_t>(domain)];
    const InstanceMap instances(Domain(placement, domain), sharded);
    for (int64_t i = 0; i < instances.count(); ++i) {
      const int64_t device = instances.Representative(i);
      HeldBlock& block = blocks[static_cast<size_t>(coordinates.RankOf(device))];
      block.factors = layout.BlockOf(global, device);
      if (process == StateSide::kLost) continue;
      block.processes.push_back(process);
      block.devices.push_back(device);
    }
  }
  blocks.erase(std::remove_if(blocks.begin(), blocks.end(),
                              [](const HeldBlock& block) { return NumElements(block.factors) == 0; }),
               blocks.end());
  return blocks;
}

// Elements that go from a part of one block to a part of another.
struct Piece {
  int64_t from_process = 0, from_device = 0, to_process = 0, to_device = 0;
  PlainPart from, to;
  Block box;
};

BoxBuffer BufferOfBox(const Block& box) {
  BoxBuffer buffer;
  for (const Extent& extent : box) {
    buffer.start.push_back(extent.start);
    buffer.shape.push_back(extent.size);
  }
  return buffer;
}

// One variable on its way.
class Mover {
 public:
  Mover(Transport* transport, const std::string& name, const DTensor* held, DTensor to)
      : transport_(transport),
        process_(transport == nullptr ? 0 : transport->domain()),
        num_processes_(transport == nullptr ? 1 : transport->num_domains()),
        name_(name),
        size_(DTypeSize(to.type().dtype)),
        held_(held),
        to_(std::move(to)) {}

  absl::Status Move(const StateSide& from, const Layout& layout) {
    Plan(from, layout);
    MESHWORK_RETURN_IF_ERROR(Exchange());
    return Unpack();
  }

 private:
  // The pieces that leave this process or come to it, in an order that both sides know.
  void Plan(const StateSide& from, const Layout& layout) {
    const Shape& global = to_.type().shape;
    const std::vector<HeldBlock> sources = BlocksOf(from.placement, from.processes, layout, global);
    std::vector<int64_t> everyone(static_cast<size_t>(num_processes_));
    for (size_t p = 0; p < everyone.size(); ++p) everyone[p] = static_cast<int64_t>(p);
    for (const HeldBlock& target : BlocksOf(to_.domain().placement(), everyone, to_.layout(), global))
      for (size_t t = 0; t < target.processes.size(); ++t)
        for (const PlainPart& to : PlainParts(to_.layout(), global, target.factors))
          for (const HeldBlock& source : sources) {
            const size_t s = SenderOf(source, target.processes[t]);
            if (source.processes[s] != process_ && target.processes[t] != process_) continue;
            for (const PlainPart& part : PlainParts(layout, global, source.factors)) {
              Block box = Intersect(part.box, to.box);
              if (NumElements(box) > 0)
                pieces_.push_back({source.processes[s], source.devices[s], target.processes[t],
                                   target.devices[t], part, to, std::move(box)});
            }
          }
  }

  // Its own memory, where it has the block; the others share the work.
  static size_t SenderOf(const HeldBlock& source, int64_t process) {
    const auto own = std::find(source.processes.begin(), source.processes.end(), process);
    if (own != source.processes.end()) return static_cast<size_t>(own - source.processes.begin());
    return static_cast<size_t>(process) % source.processes.size();
  }

  absl::Status Exchange() {
    messages_to_.resize(static_cast<size_t>(num_processes_));
    messages_from_.resize(static_cast<size_t>(num_processes_));
    for (const Piece& piece : pieces_) {
      const int64_t bytes = NumElements(piece.box) * size_;
      if (piece.from_process == process_) MESHWORK_RETURN_IF_ERROR(Pack(piece));
      if (piece.to_process == process_ && piece.from_process != process_) {
        std::vector<std::byte>& message = messages_from_[static_cast<size_t>(piece.from_process)];
        message.resize(message.size() + static_cast<size_t>(bytes));
      }
    }
    if (transport_ == nullptr) return absl::OkStatus();
    RemoteSpec spec{.where = fmt::format("variable \"{}\"", name_)};
    std::vector<const std::byte*> sends;
    std::vector<std::byte*> receives;
    for (int64_t p = 0; p < num_processes_; ++p) {
      const auto at = static_cast<size_t>(p);
      if (p == process_) continue;
      if (!messages_to_[at].empty()) {
        spec.sends.push_back({p, std::ssize(messages_to_[at])});
        sends.push_back(messages_to_[at].data());
      }
      if (!messages_from_[at].empty()) {
        spec.receives.push_back({p, std::ssize(messages_from_[at])});
        receives.push_back(messages_from_[at].data());
      }
    }
    MESHWORK_ASSIGN_OR_RETURN(const std::unique_ptr<RemoteOp> op, transport_->Prepare(std::move(spec)));
    return op->Run(sends, receives);
  }

  // Appends the elements of a piece to the message.
  absl::Status Pack(const Piece& piece) {
    const DTensor& tensor = *held_;
    std::vector<std::byte> part(static_cast<size_t>(NumElements(piece.from.box) * size_));
    const BoxBuffer buffer = BoxBuffer::OfDevice(tensor.layout(), tensor.type().shape, piece.from_device);
    MESHWORK_RETURN_IF_ERROR(
        tensor.memory().Download(BoxCopy(piece.from.factors, buffer, BufferOfBox(piece.from.factors)), size_,
                                 tensor.instance(tensor.instances().Of(piece.from_device)), part.data()));
    std::vector<std::byte>& message = messages_to_[static_cast<size_t>(piece.to_process)];
    const size_t begin = message.size();
    const int64_t elements = NumElements(piece.box);
    message.resize(begin + static_cast<size_t>(elements * size_));
    BoxCopy(piece.box, BufferOfBox(piece.from.box), BufferOfBox(piece.box))
        .Copy(part.data(), message.data() + begin, size_, 0, elements);
    return absl::OkStatus();
  }

  absl::Status Unpack() {
    // Pieces of one part follow each other.
    std::vector<size_t> read(static_cast<size_t>(num_processes_), 0);
    std::vector<std::byte> part;
    for (size_t k = 0; k < pieces_.size(); ++k) {
      const Piece& piece = pieces_[k];
      if (piece.to_process != process_) continue;
      part.resize(static_cast<size_t>(NumElements(piece.to.box) * size_));
      const auto from = static_cast<size_t>(piece.from_process);
      const std::vector<std::byte>& message =
          piece.from_process == process_ ? messages_to_[from] : messages_from_[from];
      const int64_t elements = NumElements(piece.box);
      BoxCopy(piece.box, BufferOfBox(piece.box), BufferOfBox(piece.to.box))
          .Copy(message.data() + read[from], part.data(), size_, 0, elements);
      read[from] += static_cast<size_t>(elements * size_);
      if (IsLastOfPart(k)) MESHWORK_RETURN_IF_ERROR(Upload(piece, part.data()));
    }
    return absl::OkStatus();
  }

  bool IsLastOfPart(size_t k) const {
    for (size_t next = k + 1; next < pieces_.size(); ++next)
      if (pieces_[next].to_process == process_)
        return pieces_[next].to_device != pieces_[k].to_device || !(pieces_[next].to == pieces_[k].to);
    return true;
  }

  // To all instances that hold the block.
  absl::Status Upload(const Piece& piece, const std::byte* part) {
    const BoxBuffer buffer = BoxBuffer::OfDevice(to_.layout(), to_.type().shape, piece.to_device);
    const BoxCopy copy(piece.to.factors, BufferOfBox(piece.to.factors), buffer);
    const Block block = to_.layout().BlockOf(to_.type().shape, piece.to_device);
    for (int64_t i = 0; i < to_.instances().count(); ++i)
      if (to_.block(i) == block)
        MESHWORK_RETURN_IF_ERROR(to_.memory().Upload(copy, size_, part, to_.instance(i)));
    return absl::OkStatus();
  }

  Transport* const transport_;
  const int64_t process_, num_processes_;
  const std::string& name_;
  const int64_t size_;  // bytes of an element
  const DTensor* const held_;
  DTensor to_;
  std::vector<Piece> pieces_;
  std::vector<std::vector<std::byte>> messages_to_, messages_from_;  // by process; to itself, too
};

}  // namespace

std::optional<Block> LostBlock(const StateSide& from, const Layout& layout, const Shape& global) {
  for (const HeldBlock& block : BlocksOf(from.placement, from.processes, layout, global))
    if (block.processes.empty()) return block.factors;
  return std::nullopt;
}

absl::Status MoveState(Transport* transport, const StateSide& from,
                       const std::map<std::string, DTensor>& held, std::map<std::string, DTensor> to) {
  for (const auto& [name, tensor] : to) {
    const auto mine = held.find(name);
    const absl::Status status = Mover(transport, name, mine == held.end() ? nullptr : &mine->second, tensor)
                                    .Move(from, from.layouts.at(name));
    if (status.ok()) continue;
    if (transport != nullptr) transport->Abort(status);  // nobody waits for the rest
    return status;
  }
  return absl::OkStatus();
}

}  // namespace meshwork
