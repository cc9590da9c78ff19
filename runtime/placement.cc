#include "runtime/placement.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/status.h"
#include "ops/memory_plan.h"

namespace meshwork {
namespace {

// A set of workers of which only this matters: does it hold another than w?
class WorkerSet {
 public:
  void Add(int worker) { state_ = state_ == kNone || state_ == worker ? worker : kMany; }
  bool HoldsOtherThan(int worker) const { return state_ != kNone && state_ != worker; }
  bool empty() const { return state_ == kNone; }
  bool many() const { return state_ == kMany; }
  int only() const { return state_; }  // REQUIRES: one

 private:
  static constexpr int kNone = -1, kMany = -2;
  int state_ = kNone;
};

// Calls f(worker, buffer, is_write) for everything an instruction touches.
template <typename F>
void ForAllAccesses(const Instruction& instruction, F&& f) {
  for (size_t worker = 0; worker < instruction.slices.size(); ++worker) {
    for (const WorkSlice& slice : instruction.slices[worker]) {
      instruction.ForAccesses(
          slice.item, [&](BufferId buffer, bool is_write) { f(static_cast<int>(worker), buffer, is_write); });
    }
  }
}

struct Touched {
  WorkerSet readers, writers;
  int epoch = 0;  // the sets are those of this epoch; of an earlier one they are as good as empty
};

// When, and by whom, a buffer is touched over the whole step.
struct Life {
  WorkerSet workers;
  int first = -1, last = -1;  // instructions; -1: never

  void Add(int worker, int instruction) {
    workers.Add(worker);
    if (first < 0) first = instruction;
    last = instruction;
  }
};

std::vector<Life> LivesOf(const Schedule& schedule) {
  std::vector<Life> lives(schedule.buffers.size());
  for (size_t i = 0; i < schedule.instructions.size(); ++i) {
    ForAllAccesses(schedule.instructions[i], [&](int worker, BufferId buffer, bool) {
      lives[buffer].Add(worker, static_cast<int>(i));
    });
  }
  return lives;
}

std::vector<int> EpochsOf(const Schedule& schedule) {
  std::vector<int> epochs;
  int epoch = 0;
  for (const Instruction& instruction : schedule.instructions) epochs.push_back(epoch += instruction.barrier);
  return epochs;
}

int64_t RoundUp(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// Gathers what goes into one arena: storages' parts with their lifetimes, laid out by PlanBuffers.
class Arena {
 public:
  explicit Arena(Place::Kind kind, int index = 0) : kind_(kind), index_(index) {}

  void Add(BufferId buffer, int64_t bytes, int begin, int end, bool new_group) {
    if (new_group || groups_.empty()) {
      groups_.emplace_back();
      requests_.push_back({0, begin, end});
    }
    groups_.back().push_back({buffer, requests_.back().bytes});
    BufferRequest& request = requests_.back();
    request.bytes += RoundUp(bytes);
    request.begin = std::min(request.begin, begin);
    request.end = std::max(request.end, end);
  }

  // Writes the buffers' places; returns the size of the arena.
  int64_t PlaceAll(Schedule& schedule) const {
    const MemoryPlan plan = PlanBuffers(requests_);
    for (size_t g = 0; g < groups_.size(); ++g) {
      for (const auto& [buffer, offset] : groups_[g])
        schedule.buffers[buffer].place = {kind_, index_, plan.offsets[g] + offset};
    }
    return plan.peak;
  }

 private:
  Place::Kind kind_;
  int index_;
  std::vector<BufferRequest> requests_;
  std::vector<std::vector<std::pair<BufferId, int64_t>>> groups_;  // per request: buffer, offset in it
};

// ---- CheckSchedule.

std::string BufferToString(const Schedule& schedule, BufferId buffer) {
  constexpr std::string_view kKinds[] = {"nowhere",  "private arena", "shared arena",
                                         "variable", "feed",          "output"};
  const Place& place = schedule.buffers[buffer].place;
  return fmt::format("buffer {} ({} {} at {}, {} bytes)", buffer, kKinds[static_cast<int>(place.kind)],
                     place.index, place.offset, schedule.buffers[buffer].bytes);
}

// Everything done to one buffer in one epoch.
struct EpochUse {
  int epoch = -1;
  struct Access {
    int worker, instruction;
    bool is_write;
  };
  std::vector<Access> accesses;
};

absl::Status CheckRaces(const Schedule& schedule, const std::vector<int>& epochs) {
  std::vector<EpochUse> uses(schedule.buffers.size());
  absl::Status status;
  for (size_t i = 0; i < schedule.instructions.size(); ++i) {
    ForAllAccesses(schedule.instructions[i], [&](int worker, BufferId buffer, bool is_write) {
      EpochUse& use = uses[buffer];
      if (use.epoch != epochs[i]) use = {epochs[i], {}};
      for (const EpochUse::Access& other : use.accesses) {
        if (other.worker == worker || other.instruction == static_cast<int>(i)) continue;
        if (!(other.is_write || is_write) || !status.ok()) continue;
        status = absl::InternalError(
            fmt::format("schedule: worker {} {} {} in instruction {}, worker {} {} it in instruction {}, and "
                        "no barrier is between.",
                        other.worker, other.is_write ? "writes" : "reads", BufferToString(schedule, buffer),
                        other.instruction, worker, is_write ? "writes" : "reads", i));
      }
      const EpochUse::Access mine{worker, static_cast<int>(i), is_write};
      const bool known =
          std::any_of(use.accesses.begin(), use.accesses.end(), [&](const EpochUse::Access& a) {
            return a.worker == mine.worker && a.instruction == mine.instruction &&
                   a.is_write == mine.is_write;
          });
      if (!known) use.accesses.push_back(mine);
    });
  }
  return status;
}

// What lies in one arena, with the ticks over which it must be left alone: instructions in a private
// arena, epochs in the shared one.
struct Tenant {
  BufferId buffer;
  int64_t begin, end;  // bytes
  int first, last;     // ticks
};

// Sweeps over time, keeping the live tenants by address, and compares each newcomer with its
// neighbours.
absl::Status CheckTenants(const Schedule& schedule, std::vector<Tenant> tenants) {
  std::sort(tenants.begin(), tenants.end(),
            [](const Tenant& a, const Tenant& b) { return a.first < b.first; });
  std::multimap<int, std::map<int64_t, Tenant>::iterator> leaving;
  std::map<int64_t, Tenant> live;
  for (const Tenant& tenant : tenants) {
    while (!leaving.empty() && leaving.begin()->first < tenant.first) {
      live.erase(leaving.begin()->second);
      leaving.erase(leaving.begin());
    }
    const auto after = live.lower_bound(tenant.begin);
    const Tenant* clash = nullptr;
    if (after != live.end() && after->second.begin < tenant.end) clash = &after->second;
    if (after != live.begin() && std::prev(after)->second.end > tenant.begin)
      clash = &std::prev(after)->second;
    if (clash != nullptr) {
      return absl::InternalError(fmt::format("schedule: {} and {} overlap while both are in use.",
                                             BufferToString(schedule, clash->buffer),
                                             BufferToString(schedule, tenant.buffer)));
    }
    leaving.emplace(tenant.last, live.emplace(tenant.begin, tenant).first);
  }
  return absl::OkStatus();
}

absl::Status CheckArenas(const Schedule& schedule, const std::vector<int>& epochs) {
  const std::vector<Life> lives = LivesOf(schedule);
  std::vector<Tenant> shared;
  std::vector<std::vector<Tenant>> per_worker(schedule.num_workers);
  for (size_t b = 0; b < lives.size(); ++b) {
    const auto id = static_cast<BufferId>(b);
    const auto& [bytes, place] = schedule.buffers[b];
    const bool is_private = place.kind == Place::Kind::kPrivate;
    if (lives[b].first < 0) continue;
    if (place.kind == Place::Kind::kUnplaced)
      return absl::InternalError(fmt::format("schedule: {} is used.", BufferToString(schedule, id)));
    if (!is_private && place.kind != Place::Kind::kShared) continue;
    if (is_private && lives[b].workers.HoldsOtherThan(place.index))
      return absl::InternalError(
          fmt::format("schedule: {} is touched by another worker.", BufferToString(schedule, id)));
    const int64_t size = is_private ? schedule.private_bytes[place.index] : schedule.shared_bytes;
    if (place.offset < 0 || place.offset + bytes > size)
      return absl::InternalError(
          fmt::format("schedule: {} reaches out of {} bytes.", BufferToString(schedule, id), size));
    if (bytes == 0) continue;
    Tenant tenant{id, place.offset, place.offset + bytes, lives[b].first, lives[b].last};
    if (!is_private) tenant.first = epochs[tenant.first], tenant.last = epochs[tenant.last];
    (is_private ? per_worker[place.index] : shared).push_back(tenant);
  }
  for (std::vector<Tenant>& tenants : per_worker) RETURN_IF_ERROR(CheckTenants(schedule, std::move(tenants)));
  return CheckTenants(schedule, std::move(shared));
}

}  // namespace

void PlaceBarriers(Schedule& schedule) {
  std::vector<Touched> touched(schedule.buffers.size());
  int epoch = 0;
  for (Instruction& instruction : schedule.instructions) {
    bool hazard = false;
    ForAllAccesses(instruction, [&](int worker, BufferId buffer, bool is_write) {
      const Touched& t = touched[buffer];
      if (t.epoch != epoch) return;
      hazard |= t.writers.HoldsOtherThan(worker) || (is_write && t.readers.HoldsOtherThan(worker));
    });
    instruction.barrier = hazard;
    epoch += hazard;
    ForAllAccesses(instruction, [&](int worker, BufferId buffer, bool is_write) {
      Touched& t = touched[buffer];
      if (t.epoch != epoch) t = {{}, {}, epoch};
      (is_write ? t.writers : t.readers).Add(worker);
    });
  }
  schedule.num_barriers = epoch;
}

void PlaceBuffers(Schedule& schedule) {
  const std::vector<Life> lives = LivesOf(schedule);
  const std::vector<int> epochs = EpochsOf(schedule);
  Arena shared(Place::Kind::kShared);
  std::vector<Arena> per_worker;
  for (int w = 0; w < schedule.num_workers; ++w) per_worker.emplace_back(Place::Kind::kPrivate, w);
  for (const Storage& storage : schedule.storages) {
    std::vector<BufferId> mine;  // those that live in an arena
    for (BufferId b = storage.first; b < storage.first + storage.count; ++b)
      if (schedule.buffers[b].place.kind == Place::Kind::kUnplaced && lives[b].first >= 0) mine.push_back(b);
    const bool is_private =
        std::none_of(mine.begin(), mine.end(), [&](BufferId b) { return lives[b].workers.many(); });
    int before = -1;  // the arena that the buffer before went to
    for (BufferId b : mine) {
      const Life& life = lives[b];
      const int worker = is_private ? life.workers.only() : 0;
      Arena& arena = is_private ? per_worker[worker] : shared;
      arena.Add(b, schedule.buffers[b].bytes, is_private ? life.first : epochs[life.first],
                is_private ? life.last : epochs[life.last], /*new_group=*/before != worker);
      before = worker;
    }
  }
  schedule.shared_bytes = shared.PlaceAll(schedule);
  schedule.private_bytes.clear();
  for (const Arena& arena : per_worker) schedule.private_bytes.push_back(arena.PlaceAll(schedule));
}

absl::Status CheckSchedule(const Schedule& schedule) {
  const std::vector<int> epochs = EpochsOf(schedule);
  RETURN_IF_ERROR(CheckRaces(schedule, epochs));
  return CheckArenas(schedule, epochs);
}

}  // namespace meshwork
