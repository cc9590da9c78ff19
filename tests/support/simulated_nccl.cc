// NCCL.
#include "support/simulated_nccl.h"

#include <chrono>
#include <cstring>
#include <thread>

#include "fmt/format.h"
#include "support/simulated_world.h"

namespace meshwork {

NcclResult SimulatedWorld::ncclGetVersion(int* version) {
  *version = options.nccl_version;
  return NcclResult::kSuccess;
}

NcclResult SimulatedWorld::ncclGetUniqueId(NcclUniqueId* id) {
  const std::string text = fmt::format("simulated {}", ++num_ids_);
  *id = {};
  std::memcpy(id->bytes, text.data(), text.size());
  return NcclResult::kSuccess;
}

const char* SimulatedWorld::ncclGetErrorString(NcclResult result) {
  switch (result) {
    case NcclResult::kSuccess: return "no error";
    case NcclResult::kSystemError: return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case NcclResult::kInvalidArgument: return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case NcclResult::kInvalidUsage: return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case NcclResult::kRemoteError: return "remote process exited or there was a network error";
    case NcclResult::kInProgress: return "NCCL operation in progress";
    default: return "unknown result code";
  }
}

const char* SimulatedWorld::ncclGetLastError(NcclComm*) { return ""; }

NcclResult SimulatedWorld::ncclCommInitRankConfig(NcclComm** comm, int num_ranks, NcclUniqueId id, int rank,
                                                  NcclConfig* config) {
  int device = 0;
  if (Current(device) != CUDA_SUCCESS) return NcclResult::kUnhandledCudaError;
  const NcclConfig expected;
  if (comm == nullptr || config == nullptr || config->magic != expected.magic || config->blocking != 0 ||
      rank < 0 || rank >= num_ranks)
    return NcclResult::kInvalidArgument;
  const std::string name(id.bytes, sizeof(id.bytes));
  SimulatedClique& clique = cliques_[name];
  if (clique.num_ranks == 0) clique.num_ranks = num_ranks;
  if (clique.num_ranks != num_ranks || clique.devices.contains(rank)) {
    Find(fmt::format("rank {} of {} joins ranks that have it already, or are {}.", rank, num_ranks,
                     clique.num_ranks));
    return NcclResult::kInvalidUsage;
  }
  for (const auto& [other, of_other] : clique.devices) clique.shares_gpus |= of_other == device;
  clique.devices[rank] = device;
  const uintptr_t handle = NewHandle();
  comms_[handle] = {.id = name, .rank = rank, .device = device};
  *comm = reinterpret_cast<NcclComm*>(handle);
  return NcclResult::kInProgress;
}

NcclResult SimulatedWorld::ncclCommGetAsyncError(NcclComm* handle, NcclResult* result) {
  SimulatedComm* const comm = FindHandle(comms_, handle);
  if (comm == nullptr || result == nullptr) return NcclResult::kInvalidArgument;
  const SimulatedClique& clique = cliques_.at(comm->id);
  const auto all = static_cast<size_t>(clique.num_ranks);
  *result = NcclResult::kSuccess;
  if (clique.shares_gpus) *result = NcclResult::kInvalidUsage;
  else if (clique.devices.size() < all) *result = NcclResult::kInProgress;
  else if (comm->is_finalized && clique.gone.size() < all) *result = NcclResult::kInProgress;
  else if (comm->looks > 0 && comm->looks-- > 0) *result = NcclResult::kInProgress;
  if (lost_rank >= 0 && lost_rank < clique.num_ranks && lost_rank != comm->rank)
    *result = NcclResult::kRemoteError;
  return NcclResult::kSuccess;
}

NcclResult SimulatedWorld::ncclCommFinalize(NcclComm* handle) {
  SimulatedComm* const comm = FindHandle(comms_, handle);
  if (comm == nullptr) return NcclResult::kInvalidArgument;
  comm->is_finalized = true;
  cliques_.at(comm->id).gone.insert(comm->rank);
  return NcclResult::kInProgress;
}

NcclResult SimulatedWorld::ncclCommDestroy(NcclComm* handle) {
  const SimulatedComm* const comm = FindHandle(comms_, handle);
  if (comm == nullptr) return NcclResult::kInvalidArgument;
  if (!comm->is_finalized) Find(fmt::format("rank {} is destroyed before it is finalized.", comm->rank));
  Leave(handle);
  return NcclResult::kSuccess;
}

NcclResult SimulatedWorld::ncclCommAbort(NcclComm* handle) {
  const SimulatedComm* const comm = FindHandle(comms_, handle);
  if (comm == nullptr) return NcclResult::kInvalidArgument;
  SimulatedClique& clique = cliques_.at(comm->id);
  clique.gone.insert(comm->rank);
  Leave(handle);
  return NcclResult::kSuccess;
}

// As NCCL's own, it returns when no graph holds an exchange of the communicator any more.
void SimulatedWorld::Leave(NcclComm* handle) {
  const auto found = comms_.find(reinterpret_cast<uintptr_t>(handle));
  const int rank = found->second.rank;
  const std::shared_ptr<const int> held = std::move(found->second.held);
  comms_.erase(found);
  work.Wake();
  constexpr int kMostPauses = 50'000;  // five seconds, and more
  for (int pauses = 0; held.use_count() > 1; ++pauses) {
    if (pauses == kMostPauses) {
      Find(fmt::format("rank {} is left while graphs hold its exchanges, which NCCL waits for.", rank));
      return;
    }
    mutex.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    mutex.lock();
  }
}

// ---- Groups.

NcclResult SimulatedWorld::ncclGroupStart() {
  ++groups_[std::this_thread::get_id()].depth;
  return NcclResult::kSuccess;
}

NcclResult SimulatedWorld::ncclGroupEnd() {
  const auto found = groups_.find(std::this_thread::get_id());
  if (found == groups_.end()) return NcclResult::kInvalidUsage;
  if (--found->second.depth > 0) return NcclResult::kSuccess;
  const SimulatedGroup group = std::move(found->second);
  groups_.erase(found);
  if (is_failing) return NcclResult::kSuccess;
  if (group.result != NcclResult::kSuccess || group.parts.empty()) return group.result;
  return Exchange(group);
}

NcclResult SimulatedWorld::ncclSend(const void* from, size_t count, NcclType type, int peer, NcclComm* comm,
                                    CUstream stream) {
  if (type != NcclType::kBytes) return NcclResult::kInvalidArgument;
  return AddToGroup(comm, stream, {true, peer, reinterpret_cast<uintptr_t>(from), count});
}

NcclResult SimulatedWorld::ncclRecv(void* to, size_t count, NcclType type, int peer, NcclComm* comm,
                                    CUstream stream) {
  if (type != NcclType::kBytes) return NcclResult::kInvalidArgument;
  return AddToGroup(comm, stream, {false, peer, reinterpret_cast<uintptr_t>(to), count});
}

NcclResult SimulatedWorld::AddToGroup(NcclComm* handle, CUstream stream, const SimulatedPart& part) {
  const auto found = groups_.find(std::this_thread::get_id());
  const SimulatedComm* const comm = FindHandle(comms_, handle);
  if (found == groups_.end()) {
    Find("a part of an exchange is outside of a group.");
    return NcclResult::kInvalidUsage;
  }
  SimulatedGroup& group = found->second;
  const auto fails = [&] { return group.result = NcclResult::kInvalidArgument; };
  if (comm == nullptr) return fails();
  const SimulatedClique& clique = cliques_.at(comm->id);
  if (part.peer < 0 || part.peer >= clique.num_ranks || part.peer == comm->rank) return fails();
  if (!group.parts.empty() && (group.stream != stream || group.comm != reinterpret_cast<uintptr_t>(handle))) {
    Find("the parts of a group are on several streams or communicators.");
    return fails();
  }
  if (!memory.Check(fmt::format("an exchange of GPU {}", comm->device), comm->device, part.address,
                    static_cast<int64_t>(part.bytes), /*is_enqueued=*/true))
    return fails();
  group.comm = reinterpret_cast<uintptr_t>(handle);
  group.stream = stream;
  group.parts.push_back(part);
  return NcclResult::kSuccess;
}

// ---- Exchanges.

NcclResult SimulatedWorld::Exchange(const SimulatedGroup& group) {
  SimulatedStream* stream = nullptr;
  if (StreamOf(group.stream, stream) != CUDA_SUCCESS) return NcclResult::kUnhandledCudaError;
  SimulatedComm& comm = comms_.at(group.comm);
  if (stream->device != comm.device) {
    Find(fmt::format("an exchange of GPU {} is on a stream of GPU {}.", comm.device, stream->device));
    return NcclResult::kInvalidArgument;
  }
  EnqueueMeeting(*stream, [this, group, device = comm.device, held = comm.held] {
    return
        [this, exchange = std::make_shared<SimulatedExchange>(SimulatedExchange{
                   .comm = group.comm, .device = device, .parts = group.parts})] { return Meets(*exchange); };
  });
  if (++num_exchanges % 3 != 0) return NcclResult::kSuccess;
  comm.looks = 2;
  return NcclResult::kInProgress;
}

bool SimulatedWorld::Meets(SimulatedExchange& exchange) {
  const auto found = comms_.find(exchange.comm);
  // Aborted, or a GPU that has failed.
  if (found == comms_.end() || contexts_[static_cast<size_t>(exchange.device)].lost != CUDA_SUCCESS) {
    for (const auto& post : exchange.posts) post->is_done = true;
    return true;
  }
  const int rank = found->second.rank;
  SimulatedClique& clique = cliques_.at(found->second.id);
  if (!exchange.has_begun) {
    exchange.has_begun = true;
    if (clique.begun[rank] != nullptr)
      Find(fmt::format("two exchanges of rank {} are under way at a time.", rank));
    clique.begun[rank] = &exchange;
    for (const SimulatedPart& part : exchange.parts) {
      if (!memory.Check(fmt::format("an exchange of GPU {}", exchange.device), exchange.device, part.address,
                        static_cast<int64_t>(part.bytes), /*is_enqueued=*/false)) {
        Lose(exchange.device, CUDA_ERROR_ILLEGAL_ADDRESS);
        return true;
      }
      const auto post = std::make_shared<SimulatedPost>(SimulatedPost{.part = part});
      exchange.posts.push_back(post);
      if (part.is_sent) clique.sent[{rank, part.peer}].push_back(post);
      else clique.received[{part.peer, rank}].push_back(post);
    }
    Match(clique, exchange);
    work.Wake();
  }
  if (!exchange.is_done()) return false;
  clique.begun[rank] = nullptr;
  return true;
}

void SimulatedWorld::Match(SimulatedClique& clique, const SimulatedExchange& exchange) {
  for (auto& [pair, sent] : clique.sent) {
    SimulatedClique::Posts& received = clique.received[pair];
    // Those of ranks that have aborted meanwhile.
    const auto drop = [](SimulatedClique::Posts& posts) {
      while (!posts.empty() && posts.front()->is_done) posts.pop_front();
    };
    for (drop(sent), drop(received); !sent.empty() && !received.empty(); drop(sent), drop(received)) {
      SimulatedPost &from = *sent.front(), &to = *received.front();
      if (from.part.bytes != to.part.bytes) {
        Find(fmt::format("rank {} sends {} bytes and rank {} expects {}.", pair.first, from.part.bytes,
                         pair.second, to.part.bytes));
        Lose(exchange.device, CUDA_ERROR_LAUNCH_FAILED);
      } else {
        std::memcpy(reinterpret_cast<void*>(to.part.address),
                    reinterpret_cast<const void*>(from.part.address), from.part.bytes);
      }
      from.is_done = to.is_done = true;
    }
  }
}

}  // namespace meshwork
