#include "meshwork/runtime/exec/state_move.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/layout/block.h"
#include "meshwork/runtime/plan/sharing.h"
#include "meshwork/runtime/tensor/box.h"

namespace meshwork {
namespace {

// The number of chunks that fit into a round, so that a process can exchange some with each of several others.
constexpr int64_t kChunksInFlight = 4;

// The domain that is in `process`; -1: none is.
int64_t DomainIn(const PlacedDomains& domains, int64_t process) {
  for (int64_t domain = 0; domain < domains.placement.num_domains(); ++domain)
    if ((domains.processes.empty() ? domain : domains.processes[static_cast<size_t>(domain)]) == process)
      return domain;
  return -1;
}

int64_t ValueOr0(const std::map<int64_t, int64_t>& values, int64_t key) {
  const auto found = values.find(key);
  return found == values.end() ? 0 : found->second;
}

}  // namespace

StateMove StateMove::Plan(const PlacedDomains& from, const PlacedDomains& to,
                          const std::map<std::string, MovedVariable>& variables,
                          const StateMoveOptions& options) {
  MESHWORK_CHECK(options.max_bytes_in_flight >= kLeastInFlight);
  StateMove move;
  move.from_ = from;
  move.to_ = to;
  move.options_ = options;
  const Domain old_domain(from.placement, 0), new_domain(to.placement, 0);  // all domains hold as much
  for (const auto& [name, moved] : variables)
    move.variables_.push_back({name, moved, BytesOfDTensor(old_domain, moved.type, moved.from, options.share),
                               BytesOfDTensor(new_domain, moved.type, moved.to, options.share)});
  std::stable_sort(move.variables_.begin(), move.variables_.end(), [](const Variable& a, const Variable& b) {
    const bool a_grows = a.new_bytes > a.old_bytes, b_grows = b.new_bytes > b.old_bytes;
    if (a_grows != b_grows) return b_grows;
    return a_grows ? a.old_bytes > b.old_bytes : a.new_bytes < b.new_bytes;
  });
  SentBytes sent;
  for (Variable& variable : move.variables_) {
    SendPlan plan = PlanSend(variable.moved.type.shape, DTypeSize(variable.moved.type.dtype),
                             {from.placement, variable.moved.from, from.processes},
                             {to.placement, variable.moved.to, to.processes}, &sent);
    variable.pieces = std::move(plan.pieces);
    if (!plan.lost.empty()) move.lost_[variable.name] = std::move(plan.lost);
  }
  move.MakeGroups();
  int64_t bytes = 0;
  for (const Variable& variable : move.variables_) bytes += variable.old_bytes;
  move.peak_bytes_ = bytes;
  for (Group& group : move.groups_) {
    move.PlanGroup(group);
    for (size_t v = group.begin; v < group.end; ++v) bytes += move.variables_[v].new_bytes;
    move.peak_bytes_ = std::max(move.peak_bytes_, bytes + group.scratch_bytes);
    for (size_t v = group.begin; v < group.end; ++v) bytes -= move.variables_[v].old_bytes;
  }
  return move;
}

// Small variables go together, so that each does not take a message of its own.
void StateMove::MakeGroups() {
  int64_t bytes = 0;
  bool grew = false;
  for (size_t v = 0; v < variables_.size(); ++v) {
    const Variable& variable = variables_[v];
    const bool grows = variable.new_bytes > variable.old_bytes;
    const int64_t more = variable.old_bytes + variable.new_bytes;
    if (groups_.empty() || bytes + more > options_.max_bytes_in_flight || grows != grew) {
      groups_.push_back({v, v});
      bytes = 0;
    }
    bytes += more;
    grew = grows;
    groups_.back().end = v + 1;
  }
}

void StateMove::PlanGroup(Group& group) {
  const int64_t most = options_.max_bytes_in_flight, most_in_chunk = most / kChunksInFlight;
  std::vector<std::map<int64_t, int64_t>> used;  // per round, by process
  std::map<int64_t, size_t> open;                // by process: the first round that has room
  const auto place = [&](Chunk chunk) {
    size_t round = std::max(open[chunk.from], open[chunk.to]);
    while (round < used.size() &&
           std::max(used[round][chunk.from], used[round][chunk.to]) + chunk.bytes > most)
      ++round;
    if (round == used.size()) {
      used.emplace_back();
      group.rounds.emplace_back();
    }
    for (int64_t process : {chunk.from, chunk.to}) {
      used[round][process] += chunk.bytes;
      group.scratch_bytes = std::max(group.scratch_bytes, used[round][process]);
      size_t& first = open[process];
      while (first < used.size() && used[first][process] + most_in_chunk > most) ++first;
    }
    sent_[chunk.from] += chunk.bytes;
    received_[chunk.to] += chunk.bytes;
    group.rounds[round].push_back(std::move(chunk));
  };
  for (size_t v = group.begin; v < group.end; ++v) {
    const MovedVariable& moved = variables_[v].moved;
    const int64_t size = DTypeSize(moved.type.dtype);
    const SendSide from{from_.placement, moved.from, from_.processes},
        to{to_.placement, moved.to, to_.processes};
    for (const SentPiece& piece : variables_[v].pieces) {
      Chunk chunk{v, piece, from.ProcessOf(piece.from_device), to.ProcessOf(piece.to_device)};
      for (Block& box : CutToFit(piece.box, most_in_chunk / size)) {
        chunk.piece.box = std::move(box);
        chunk.bytes = NumElements(chunk.piece.box) * size;
        if (chunk.from == chunk.to) group.copies.push_back(chunk);
        else place(chunk);
      }
    }
  }
}

int64_t StateMove::sent_bytes(int64_t process) const { return ValueOr0(sent_, process); }
int64_t StateMove::received_bytes(int64_t process) const { return ValueOr0(received_, process); }

int64_t StateMove::total_bytes() const {
  int64_t bytes = 0;
  for (const auto& [process, sent] : sent_) bytes += sent;
  return bytes;
}

std::vector<std::string> StateMove::order() const {
  std::vector<std::string> names;
  for (const Variable& variable : variables_) names.push_back(variable.name);
  return names;
}

// Moves one group, as one process sees it.
class StateMove::Mover {
 public:
  Mover(const StateMove& move, const Group& group, int64_t process, std::map<std::string, DTensor>& old,
        std::map<std::string, DTensor>& made)
      : move_(move), group_(group), process_(process), old_(old), made_(made) {}

  absl::Status CopyHere() {
    std::shared_ptr<void> staged;
    for (const Chunk& chunk : group_.copies) {
      if (chunk.from != process_) continue;
      const DTensor& from = Old(chunk);
      if (from.memory().is_host()) {
        MESHWORK_RETURN_IF_ERROR(Store(chunk, OldBuffer(chunk), OldData(chunk)));
        continue;
      }
      if (staged == nullptr) staged = AllocateAligned(move_.options_.max_bytes_in_flight / kChunksInFlight);
      auto* const bytes = static_cast<std::byte*>(staged.get());
      MESHWORK_RETURN_IF_ERROR(Load(chunk, bytes));
      MESHWORK_RETURN_IF_ERROR(Store(chunk, BoxBuffer::OfBox(chunk.piece.box), bytes));
    }
    return absl::OkStatus();
  }

  // Sends a message to each process that gets elements from this one, and receives one from each process that this one
  // gets elements from.
  absl::Status Exchange(Transport& transport, size_t round) {
    std::map<int64_t, std::vector<const Chunk*>> sent, received;
    for (const Chunk& chunk : group_.rounds[round]) {
      if (chunk.from == process_) sent[chunk.to].push_back(&chunk);
      if (chunk.to == process_) received[chunk.from].push_back(&chunk);
    }
    RemoteSpec spec{.where = Where(round)};
    const int64_t bytes = AddParts(sent, spec.sends) + AddParts(received, spec.receives);
    if (scratch_ == nullptr && bytes > 0) scratch_ = AllocateAligned(group_.scratch_bytes);
    auto* next = static_cast<std::byte*>(scratch_.get());
    std::vector<const std::byte*> sends;
    for (const auto& [to, chunks] : sent) {
      sends.push_back(next);
      for (const Chunk* chunk : chunks) {
        MESHWORK_RETURN_IF_ERROR(Load(*chunk, next));
        next += chunk->bytes;
      }
    }
    std::vector<std::byte*> receives;
    for (const RemotePart& part : spec.receives) {
      receives.push_back(next);
      next += part.bytes;
    }
    MESHWORK_ASSIGN_OR_RETURN(const std::unique_ptr<RemoteOp> op, transport.Prepare(std::move(spec)));
    MESHWORK_RETURN_IF_ERROR(op->Run(sends, receives));
    auto from = receives.begin();
    for (const auto& [source, chunks] : received) {
      const std::byte* at = *from++;
      for (const Chunk* chunk : chunks) {
        MESHWORK_RETURN_IF_ERROR(Store(*chunk, BoxBuffer::OfBox(chunk->piece.box), at));
        at += chunk->bytes;
      }
    }
    return absl::OkStatus();
  }

 private:
  static int64_t AddParts(const std::map<int64_t, std::vector<const Chunk*>>& chunks,
                          std::vector<RemotePart>& parts) {
    int64_t bytes = 0;
    for (const auto& [other, of_other] : chunks) {
      parts.push_back({other});
      for (const Chunk* chunk : of_other) parts.back().bytes += chunk->bytes;
      bytes += parts.back().bytes;
    }
    return bytes;
  }

  std::string Where(size_t round) const {
    const size_t others = group_.end - group_.begin - 1;
    return fmt::format("the move of variable \"{}\"{} (round {} of {})", move_.variables_[group_.begin].name,
                       others == 0 ? "" : fmt::format(" and {} more", others), round + 1,
                       group_.rounds.size());
  }

  const Variable& VariableOf(const Chunk& chunk) const { return move_.variables_[chunk.variable]; }
  const DTensor& Old(const Chunk& chunk) const { return old_.at(VariableOf(chunk).name); }
  const std::byte* OldData(const Chunk& chunk) const {
    return Old(chunk).instance(Old(chunk).instances().Of(chunk.piece.from_device));
  }
  BoxBuffer OldBuffer(const Chunk& chunk) const {
    const MovedVariable& moved = VariableOf(chunk).moved;
    return BoxBuffer::OfPart(moved.from, moved.type.shape, chunk.piece.from_device, chunk.piece.box);
  }

  // The elements of a chunk, side by side.
  absl::Status Load(const Chunk& chunk, std::byte* to) const {
    const BoxCopy box(chunk.piece.box, OldBuffer(chunk), BoxBuffer::OfBox(chunk.piece.box));
    return Old(chunk).memory().Download(box, DTypeSize(VariableOf(chunk).moved.type.dtype), OldData(chunk),
                                        to);
  }

  // Stores the elements of a chunk in each buffer that holds the block.
  absl::Status Store(const Chunk& chunk, const BoxBuffer& buffer, const std::byte* from) {
    const MovedVariable& moved = VariableOf(chunk).moved;
    DTensor& to = made_.at(VariableOf(chunk).name);
    const BoxCopy box(chunk.piece.box, buffer,
                      BoxBuffer::OfPart(moved.to, moved.type.shape, chunk.piece.to_device, chunk.piece.box));
    const InstanceMap blocks(to.domain(), moved.to.ShardedAxes());
    for (int64_t i = 0; i < to.instances().count(); ++i)
      if (blocks.Of(to.instances().Representative(i)) == blocks.Of(chunk.piece.to_device))
        MESHWORK_RETURN_IF_ERROR(to.memory().Upload(box, DTypeSize(moved.type.dtype), from, to.instance(i)));
    return absl::OkStatus();
  }

  const StateMove& move_;
  const Group& group_;
  const int64_t process_;
  std::map<std::string, DTensor>&old_, &made_;
  std::shared_ptr<void> scratch_;
};

absl::Status StateMove::Run(Transport* transport, const std::shared_ptr<Memory>& memory,
                            std::map<std::string, DTensor>& old, std::map<std::string, DTensor>& made) const {
  const int64_t process = transport == nullptr ? 0 : transport->domain();
  const int64_t domain = DomainIn(to_, process);
  for (const Group& group : groups_) {
    if (domain >= 0) {
      for (size_t v = group.begin; v < group.end; ++v) {
        const auto& [name, moved, old_bytes, new_bytes, pieces] = variables_[v];
        if (!made.contains(name))
          made.emplace(name,
                       DTensor(Domain(to_.placement, domain), memory, moved.type, moved.to, options_.share));
      }
    }
    Mover mover(*this, group, process, old, made);
    MESHWORK_RETURN_IF_ERROR(mover.CopyHere());
    for (size_t round = 0; round < group.rounds.size(); ++round) {
      MESHWORK_CHECK(transport != nullptr);
      MESHWORK_RETURN_IF_ERROR(mover.Exchange(*transport, round));
    }
    for (size_t v = group.begin; v < group.end; ++v) old.erase(variables_[v].name);
  }
  return absl::OkStatus();
}

}  // namespace meshwork
