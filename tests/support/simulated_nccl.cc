// NCCL.
#include "support/simulated_nccl.h"

#include <chrono>
#include <cstring>
#include <thread>
#include <type_traits>

#include "fmt/format.h"
#include "meshwork/base/bfloat16.h"
#include "support/simulated_world.h"

namespace meshwork {
namespace {

size_t SizeOf(NcclType type) {
  switch (type) {
    case NcclType::kBytes: return 1;
    case NcclType::kBfloat16: return 2;
    case NcclType::kInt32:
    case NcclType::kFloat32: return 4;
    default: return 8;
  }
}

template <typename T>
T Combined(NcclOp op, T a, T b) {
  if constexpr (std::is_integral_v<T>) {  // they wrap
    using Bits = std::make_unsigned_t<T>;
    if (op == NcclOp::kSum) return static_cast<T>(static_cast<Bits>(a) + static_cast<Bits>(b));
    if (op == NcclOp::kProd) return static_cast<T>(static_cast<Bits>(a) * static_cast<Bits>(b));
  }
  switch (op) {
    case NcclOp::kSum: return a + b;
    case NcclOp::kProd: return a * b;
    case NcclOp::kMax: return b > a || a != a ? b : a;  // drops NaN, as NCCL does
    case NcclOp::kMin: break;
  }
  return b < a || a != a ? b : a;
}

// Combines element i of all terms, in an order that differs from one element to the next, as in a ring.
template <typename Stored, typename Number = Stored>
void AddUpAs(const std::vector<SimulatedSum>& sums) {
  for (size_t i = 0; i < sums[0].count; ++i) {
    const auto term = [&](size_t k) {
      return static_cast<Number>(reinterpret_cast<const Stored*>(sums[(i + k + 1) % sums.size()].from)[i]);
    };
    auto all = static_cast<Stored>(term(0));
    for (size_t k = 1; k < sums.size(); ++k)
      all = static_cast<Stored>(Combined(sums[0].op, static_cast<Number>(all), term(k)));
    for (const SimulatedSum& sum : sums) reinterpret_cast<Stored*>(sum.to)[i] = all;
  }
}

}  // namespace

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

// Like NCCL's function, returns when no graph holds an exchange of the communicator any more.
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
  if (group.result != NcclResult::kSuccess || (group.parts.empty() && group.sums.empty()))
    return group.result;
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

NcclResult SimulatedWorld::ncclAllReduce(const void* from, void* to, size_t count, NcclType type, NcclOp op,
                                         NcclComm* handle, CUstream stream) {
  NcclResult result = NcclResult::kSuccess;
  SimulatedGroup* const group = OpenGroup(handle, stream, result);
  if (group == nullptr) return result;
  const SimulatedSum sum{reinterpret_cast<uintptr_t>(from), reinterpret_cast<uintptr_t>(to), count, type, op};
  const SimulatedComm& comm = *FindHandle(comms_, handle);
  const size_t bytes = count * SizeOf(type);
  if (bytes == 0 || !IsThere(comm, sum.from, bytes) || !IsThere(comm, sum.to, bytes))
    return group->result = NcclResult::kInvalidArgument;
  if (sum.from != sum.to && sum.from < sum.to + bytes && sum.to < sum.from + bytes) {
    Find(fmt::format("rank {} adds up to memory that overlaps its term.", comm.rank));
    return group->result = NcclResult::kInvalidArgument;
  }
  group->sums.push_back(sum);
  ++num_sums;
  return NcclResult::kSuccess;
}

SimulatedGroup* SimulatedWorld::OpenGroup(NcclComm* handle, CUstream stream, NcclResult& result) {
  const auto found = groups_.find(std::this_thread::get_id());
  if (found == groups_.end()) {
    Find("a part of an exchange is outside of a group.");
    result = NcclResult::kInvalidUsage;
    return nullptr;
  }
  SimulatedGroup& group = found->second;
  const bool is_first = group.parts.empty() && group.sums.empty();
  const bool is_other = group.stream != stream || group.comm != reinterpret_cast<uintptr_t>(handle);
  if (!is_first && is_other) Find("the parts of a group are on several streams or communicators.");
  if ((!is_first && is_other) || FindHandle(comms_, handle) == nullptr) {
    result = group.result = NcclResult::kInvalidArgument;
    return nullptr;
  }
  group.comm = reinterpret_cast<uintptr_t>(handle);
  group.stream = stream;
  return &group;
}

bool SimulatedWorld::IsThere(const SimulatedComm& comm, uintptr_t address, size_t bytes) {
  return memory.Check(fmt::format("an exchange of GPU {}", comm.device), comm.device, address,
                      static_cast<int64_t>(bytes), /*is_enqueued=*/true);
}

NcclResult SimulatedWorld::AddToGroup(NcclComm* handle, CUstream stream, const SimulatedPart& part) {
  NcclResult result = NcclResult::kSuccess;
  SimulatedGroup* const group = OpenGroup(handle, stream, result);
  if (group == nullptr) return result;
  const SimulatedComm& comm = *FindHandle(comms_, handle);
  const SimulatedClique& clique = cliques_.at(comm.id);
  if (part.peer < 0 || part.peer >= clique.num_ranks || part.peer == comm.rank ||
      !IsThere(comm, part.address, part.bytes))
    return group->result = NcclResult::kInvalidArgument;
  group->parts.push_back(part);
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
    return [this, exchange = std::make_shared<SimulatedExchange>(SimulatedExchange{
                      .comm = group.comm, .device = device, .parts = group.parts, .sums = group.sums})] {
      return Meets(*exchange);
    };
  });
  if (++num_exchanges % 3 != 0) return NcclResult::kSuccess;
  comm.looks = 2;
  return NcclResult::kInProgress;
}

bool SimulatedWorld::Meets(SimulatedExchange& exchange) {
  const auto found = comms_.find(exchange.comm);
  // The communicator was aborted, or its GPU has failed.
  if (found == comms_.end() || contexts_[static_cast<size_t>(exchange.device)].lost != CUDA_SUCCESS) {
    for (const auto& post : exchange.posts) post->is_done = true;
    for (const auto& term : exchange.terms) term->is_done = true;
    return true;
  }
  const int rank = found->second.rank;
  SimulatedClique& clique = cliques_.at(found->second.id);
  if (!exchange.has_begun) {
    exchange.has_begun = true;
    if (clique.begun[rank] != nullptr)
      Find(fmt::format("two exchanges of rank {} are under way at a time.", rank));
    clique.begun[rank] = &exchange;
    for (const SimulatedSum& sum : exchange.sums) {
      const auto bytes = static_cast<int64_t>(sum.count * SizeOf(sum.type));
      for (const uintptr_t address : {sum.from, sum.to})
        if (!memory.Check(fmt::format("an exchange of GPU {}", exchange.device), exchange.device, address,
                          bytes,
                          /*is_enqueued=*/false)) {
          Lose(exchange.device, CUDA_ERROR_ILLEGAL_ADDRESS);
          return true;
        }
      exchange.terms.push_back(std::make_shared<SimulatedTerm>(SimulatedTerm{.sum = sum}));
      clique.terms[rank].push_back(exchange.terms.back());
    }
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
    AddUp(clique, exchange);
    work.Wake();
  }
  if (!exchange.is_done()) return false;
  clique.begun[rank] = nullptr;
  return true;
}

void SimulatedWorld::Match(SimulatedClique& clique, const SimulatedExchange& exchange) {
  for (auto& [pair, sent] : clique.sent) {
    SimulatedClique::Posts& received = clique.received[pair];
    // Drops posts of ranks that have aborted meanwhile.
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

// Computes the sums for which the terms of all ranks have arrived.
void SimulatedWorld::AddUp(SimulatedClique& clique, const SimulatedExchange& exchange) {
  while (true) {
    std::vector<SimulatedTerm*> terms;
    std::vector<SimulatedSum> sums;
    for (int rank = 0; rank < clique.num_ranks; ++rank) {
      auto& of_rank = clique.terms[rank];
      while (!of_rank.empty() && of_rank.front()->is_done) of_rank.pop_front();
      if (of_rank.empty()) return;
      terms.push_back(of_rank.front().get());
      sums.push_back(terms.back()->sum);
    }
    bool is_same = true;
    for (const SimulatedSum& sum : sums)
      is_same &= sum.count == sums[0].count && sum.type == sums[0].type && sum.op == sums[0].op;
    if (!is_same) {
      Find("the ranks add up other numbers of elements, types or reductions.");
      Lose(exchange.device, CUDA_ERROR_LAUNCH_FAILED);
    } else {
      switch (sums[0].type) {
        case NcclType::kInt32: AddUpAs<int32_t>(sums); break;
        case NcclType::kInt64: AddUpAs<int64_t>(sums); break;
        case NcclType::kFloat32: AddUpAs<float>(sums); break;
        case NcclType::kFloat64: AddUpAs<double>(sums); break;
        case NcclType::kBfloat16: AddUpAs<BFloat16, float>(sums); break;
        case NcclType::kBytes: Find("bytes are added up."); break;
      }
    }
    for (SimulatedTerm* const term : terms) term->is_done = true;
  }
}

}  // namespace meshwork
