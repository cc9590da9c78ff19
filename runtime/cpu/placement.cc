#include "meshwork/runtime/cpu/placement.h"

#include <algorithm>
#include <map>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/ir/plan/memory_plan.h"

namespace meshwork {
namespace {

// A set of workers that is only asked whether it holds a worker other than w.
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

// The accesses of workers to ranges of one storage since the workers last met.
class Touched {
 public:
  void Reset(int epoch) {
    if (epoch_ == epoch) return;
    epoch_ = epoch;
    ranges_.clear();
  }
  // Whether another worker did something that must be seen, or finished, before this.
  bool Conflicts(int worker, int64_t begin, int64_t end, bool is_write) const {
    return std::any_of(ranges_.begin(), ranges_.end(), [&](const Range& r) {
      return r.worker != worker && (r.is_write || is_write) && r.begin < end && begin < r.end;
    });
  }
  void Add(int worker, int64_t begin, int64_t end, bool is_write) {
    for (Range& r : ranges_) {
      if (r.worker != worker || r.is_write != is_write || begin > r.end || r.begin > end) continue;
      r.begin = std::min(r.begin, begin);
      r.end = std::max(r.end, end);
      return;
    }
    ranges_.push_back({worker, begin, end, is_write});
  }

 private:
  struct Range {
    int worker;
    int64_t begin, end;
    bool is_write;
  };
  std::vector<Range> ranges_;
  int epoch_ = -1;
};

// The workers that touch a storage in a step, and the first and last instruction that do.
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
  std::vector<Life> lives(schedule.storages.size());
  for (size_t i = 0; i < schedule.instructions.size(); ++i) {
    ForAccesses(schedule, schedule.instructions[i], [&](int worker, int storage, int64_t, int64_t, bool) {
      lives[storage].Add(worker, static_cast<int>(i));
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

// Shared memory can be reused only after a barrier. This class says where to put a barrier because much memory waits
// for one and more memory is needed.
class IdleMemory {
 public:
  explicit IdleMemory(const Schedule& schedule)
      : beginning_(schedule.instructions.size(), 0), ending_(schedule.instructions.size(), 0) {
    const std::vector<Life> lives = LivesOf(schedule);
    for (size_t s = 0; s < lives.size(); ++s) {
      if (schedule.storages[s].place.kind != Place::Kind::kUnplaced || !lives[s].workers.many()) continue;
      beginning_[lives[s].first] += schedule.storages[s].bytes;
      ending_[lives[s].last] += schedule.storages[s].bytes;
    }
    int64_t live = 0;
    for (size_t i = 0; i < ending_.size(); ++i) {
      live += beginning_[i];
      most_ = std::max(most_, live);
      live -= ending_[i];
    }
  }
  // Whether to put a barrier before instruction `i`.
  bool ShouldMeet(size_t i) const { return beginning_[i] > 0 && idle_ > std::max(most_ / kShare, kLeast); }
  // To be called after instruction `i`. `met`: there was a barrier before it.
  void Pass(size_t i, bool met) { idle_ = (met ? 0 : idle_) + ending_[i]; }

 private:
  static constexpr int64_t kShare = 4;  // of the memory that any plan needs
  static constexpr int64_t kLeast = 256 << 10;
  std::vector<int64_t> beginning_,
      ending_;  // bytes, per instruction that is the first, or last, to touch them
  int64_t most_ = 0, idle_ = 0;
};

int64_t RoundUp(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// Gathers the storages of one arena, and has PlanBuffers lay them out.
class Arena {
 public:
  explicit Arena(Place::Kind kind, int index = 0) : kind_(kind), index_(index) {}

  void Add(int storage, int64_t bytes, int begin, int end) {
    storages_.push_back(storage);
    requests_.push_back({RoundUp(bytes), begin, end});
  }

  // Writes the storages' places; returns the size of the arena.
  int64_t PlaceAll(Schedule& schedule) const {
    const MemoryPlan plan = PlanBuffers(requests_);
    for (size_t s = 0; s < storages_.size(); ++s)
      schedule.storages[storages_[s]].place = {kind_, index_, plan.offsets[s]};
    return plan.peak;
  }

 private:
  Place::Kind kind_;
  int index_;
  std::vector<int> storages_;
  std::vector<BufferRequest> requests_;
};

// ---- CheckSchedule.

std::string StorageToString(const Schedule& schedule, int storage) {
  constexpr std::string_view kKinds[] = {"nowhere",  "private arena", "shared arena", "arena of constants",
                                         "variable", "spare",         "feed",         "output"};
  const Place& place = schedule.storages[storage].place;
  return fmt::format("storage {} ({} {} at {}, {} bytes)", storage, kKinds[static_cast<int>(place.kind)],
                     place.index, place.offset, schedule.storages[storage].bytes);
}

// Everything done to one storage in one epoch.
class EpochUse {
 public:
  struct Access {
    int worker, instruction;
    bool is_write;
    int64_t begin, end;
  };
  int epoch = -1;
  std::vector<Access> accesses;

  // Joins what one worker does to neighbouring ranges: in one instruction, and in all before it, under the
  // name of the first.
  void Add(const Access& mine) {
    if (!accesses.empty() && accesses.back().instruction < mine.instruction) Compact();
    for (Access& a : accesses)
      if (a.instruction == mine.instruction && Meet(a, mine)) return Join(a, mine);
    accesses.push_back(mine);
  }

 private:
  static bool Meet(const Access& a, const Access& b) {
    return a.worker == b.worker && a.is_write == b.is_write && b.begin <= a.end && a.begin <= b.end;
  }
  static void Join(Access& a, const Access& b) {
    a.begin = std::min(a.begin, b.begin);
    a.end = std::max(a.end, b.end);
  }
  void Compact() {
    std::vector<Access> kept;
    for (const Access& access : accesses) {
      const auto same =
          std::find_if(kept.begin(), kept.end(), [&](const Access& k) { return Meet(k, access); });
      if (same == kept.end()) kept.push_back(access);
      else Join(*same, access);
    }
    accesses = std::move(kept);
  }
};

absl::Status CheckRaces(const Schedule& schedule, const std::vector<int>& epochs) {
  if (schedule.num_workers == 1) return absl::OkStatus();  // nobody to race with
  std::vector<EpochUse> uses(schedule.storages.size());
  absl::Status status;
  for (size_t i = 0; i < schedule.instructions.size(); ++i) {
    const Instruction& instruction = schedule.instructions[i];
    const bool in_parts =
        instruction.kind != Instruction::Kind::kKernel || !instruction.steps[0].kernel.by_rows;
    ForAccesses(schedule, instruction,
                [&](int worker, int storage, int64_t begin, int64_t end, bool is_write) {
                  EpochUse& use = uses[storage];
                  if (use.epoch != epochs[i]) {
                    use.epoch = epochs[i];
                    use.accesses.clear();
                  }
                  for (const EpochUse::Access& other : use.accesses) {
                    // The workers of one instruction that moves data move different elements.
                    const bool same = other.instruction == static_cast<int>(i) && in_parts;
                    if (other.worker == worker || same || !(other.is_write || is_write) || !status.ok() ||
                        other.begin >= end || begin >= other.end)
                      continue;
                    status = absl::InternalError(fmt::format(
                        "schedule: worker {} {} {} in instruction {}, worker {} {} it in instruction {}, and "
                        "no barrier is between.",
                        other.worker, other.is_write ? "writes" : "reads", StorageToString(schedule, storage),
                        other.instruction, worker, is_write ? "writes" : "reads", i));
                  }
                  use.Add({worker, static_cast<int>(i), is_write, begin, end});
                });
  }
  return status;
}

// Between the start of an operation across domains and the end of waiting for it, no instruction may write memory that
// it sends, or touch memory that it receives.
absl::Status CheckUnderWay(const Schedule& schedule) {
  std::map<int, std::vector<Access>> under_way;  // by operation
  absl::Status status;
  for (size_t i = 0; i < schedule.instructions.size(); ++i) {
    const Instruction& instruction = schedule.instructions[i];
    if (instruction.kind == Instruction::Kind::kWait && under_way.erase(instruction.operation) == 0)
      return absl::InternalError(
          fmt::format("schedule: instruction {} waits for operation {}, which was not started.", i,
                      instruction.operation));
    if (!under_way.empty()) {
      ForAccesses(
          schedule, instruction, [&](int worker, int storage, int64_t begin, int64_t end, bool is_write) {
            for (const auto& [operation, accesses] : under_way)
              for (const Access& access : accesses)
                if (access.storage == storage && access.begin < end && begin < access.end &&
                    (access.is_write || is_write))
                  status = absl::InternalError(
                      fmt::format("schedule: worker {} {} {} in instruction {}, while operation {} {} it.",
                                  worker, is_write ? "writes" : "reads", StorageToString(schedule, storage),
                                  i, operation, access.is_write ? "receives" : "sends"));
          });
    }
    if (instruction.kind == Instruction::Kind::kStart)
      under_way[instruction.operation] = instruction.accesses;
  }
  if (status.ok() && !under_way.empty())
    return absl::InternalError(
        fmt::format("schedule: nobody waits for operation {}.", under_way.begin()->first));
  return status;
}

// A storage in an arena, with the ticks during which its memory must be left alone. Ticks are instructions in a private
// arena, and epochs in the shared one.
struct Tenant {
  int storage;
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
                                             StorageToString(schedule, clash->storage),
                                             StorageToString(schedule, tenant.storage)));
    }
    leaving.emplace(tenant.last, live.emplace(tenant.begin, tenant).first);
  }
  return absl::OkStatus();
}

absl::Status OutOfArena(const Schedule& schedule, int storage, int64_t size) {
  return absl::InternalError(
      fmt::format("schedule: {} reaches out of {} bytes.", StorageToString(schedule, storage), size));
}

// The memory of constants never holds anything else.
absl::Status CheckConstants(const Schedule& schedule) {
  std::vector<Tenant> tenants;
  for (size_t s = 0; s < schedule.storages.size(); ++s) {
    const auto& [bytes, place] = schedule.storages[s];
    if (place.kind != Place::Kind::kConstant || bytes == 0) continue;
    if (place.offset < 0 || place.offset + bytes > schedule.constant_bytes)
      return OutOfArena(schedule, static_cast<int>(s), schedule.constant_bytes);
    tenants.push_back({static_cast<int>(s), place.offset, place.offset + bytes, 0, 0});
  }
  return CheckTenants(schedule, std::move(tenants));
}

absl::Status CheckArenas(const Schedule& schedule, const std::vector<int>& epochs) {
  const std::vector<Life> lives = LivesOf(schedule);
  std::vector<Tenant> shared;
  std::vector<std::vector<Tenant>> per_worker(schedule.num_workers);
  for (size_t s = 0; s < lives.size(); ++s) {
    const auto id = static_cast<int>(s);
    const auto& [bytes, place] = schedule.storages[s];
    const bool is_private = place.kind == Place::Kind::kPrivate;
    if (lives[s].first < 0) continue;
    if (place.kind == Place::Kind::kUnplaced)
      return absl::InternalError(fmt::format("schedule: {} is used.", StorageToString(schedule, id)));
    if (!is_private && place.kind != Place::Kind::kShared) continue;
    if (is_private && lives[s].workers.HoldsOtherThan(place.index))
      return absl::InternalError(
          fmt::format("schedule: {} is touched by another worker.", StorageToString(schedule, id)));
    const int64_t size = is_private ? schedule.private_bytes[place.index] : schedule.shared_bytes;
    if (place.offset < 0 || place.offset + bytes > size) return OutOfArena(schedule, id, size);
    if (bytes == 0) continue;
    Tenant tenant{id, place.offset, place.offset + bytes, lives[s].first, lives[s].last};
    if (!is_private) tenant.first = epochs[tenant.first], tenant.last = epochs[tenant.last];
    (is_private ? per_worker[place.index] : shared).push_back(tenant);
  }
  for (std::vector<Tenant>& tenants : per_worker)
    MESHWORK_RETURN_IF_ERROR(CheckTenants(schedule, std::move(tenants)));
  MESHWORK_RETURN_IF_ERROR(CheckConstants(schedule));
  return CheckTenants(schedule, std::move(shared));
}

}  // namespace

void PlaceBarriers(Schedule& schedule) {
  std::vector<Touched> touched(schedule.storages.size());
  IdleMemory idle(schedule);
  int epoch = 0;
  for (size_t i = 0; i < schedule.instructions.size(); ++i) {
    Instruction& instruction = schedule.instructions[i];
    bool hazard = idle.ShouldMeet(i);
    ForAccesses(schedule, instruction,
                [&](int worker, int storage, int64_t begin, int64_t end, bool is_write) {
                  touched[storage].Reset(epoch);
                  hazard |= touched[storage].Conflicts(worker, begin, end, is_write);
                });
    instruction.barrier = hazard;
    epoch += hazard;
    ForAccesses(schedule, instruction,
                [&](int worker, int storage, int64_t begin, int64_t end, bool is_write) {
                  touched[storage].Reset(epoch);
                  touched[storage].Add(worker, begin, end, is_write);
                });
    idle.Pass(i, hazard);
  }
  schedule.num_barriers = epoch;
}

void PlaceStorages(Schedule& schedule) {
  const std::vector<Life> lives = LivesOf(schedule);
  const std::vector<int> epochs = EpochsOf(schedule);
  Arena shared(Place::Kind::kShared), constants(Place::Kind::kConstant);
  std::vector<Arena> per_worker;
  for (int w = 0; w < schedule.num_workers; ++w) per_worker.emplace_back(Place::Kind::kPrivate, w);
  for (size_t s = 0; s < lives.size(); ++s) {
    const auto& [bytes, place] = schedule.storages[s];
    const Life& life = lives[s];
    const auto id = static_cast<int>(s);
    if (place.kind == Place::Kind::kConstant) constants.Add(id, bytes, 0, 0);
    if (place.kind != Place::Kind::kUnplaced || life.first < 0) continue;
    if (life.workers.many()) shared.Add(id, bytes, epochs[life.first], epochs[life.last]);
    else per_worker[life.workers.only()].Add(id, bytes, life.first, life.last);
  }
  schedule.shared_bytes = shared.PlaceAll(schedule);
  schedule.constant_bytes = constants.PlaceAll(schedule);
  schedule.private_bytes.clear();
  for (const Arena& arena : per_worker) schedule.private_bytes.push_back(arena.PlaceAll(schedule));
}

absl::Status CheckSchedule(const Schedule& schedule) {
  const std::vector<int> epochs = EpochsOf(schedule);
  MESHWORK_RETURN_IF_ERROR(CheckRaces(schedule, epochs));
  MESHWORK_RETURN_IF_ERROR(CheckUnderWay(schedule));
  return CheckArenas(schedule, epochs);
}

}  // namespace meshwork
