#include "meshwork/runtime/cuda/storage_map.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <variant>

#include "meshwork/ir/plan/memory_plan.h"
#include "meshwork/runtime/cuda/cuda_fusion.h"

namespace meshwork {
namespace {

constexpr int64_t kAlignment = 256;  // what the allocators of CUDA align to

int64_t Aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// From the first step that touches a storage to the last one.
struct Use {
  int begin = std::numeric_limits<int>::max(), end = -1;
  void At(int step) {
    begin = std::min(begin, step);
    end = std::max(end, step);
  }
  bool is_used() const { return end >= 0; }
};

class Uses {
 public:
  Uses(const StepPlan& plan, const std::vector<CudaGroup>& groups)
      : plan_(plan), uses_(plan.storages.size()) {
    auto group = groups.begin();
    for (size_t i = 0; i < plan.steps.size(); ++i) {
      step_ = static_cast<int>(i);
      if (group == groups.end() || group->first != i) {
        std::visit([this](const auto& step) { Add(step); }, plan.steps[i]);
        continue;
      }
      for (const auto* buffers : {&group->operands, &group->results})
        for (BufferId buffer : *buffers) At(buffer);
      i = group->end - 1;
      ++group;
    }
    for (size_t s = 0; s < uses_.size(); ++s) {
      if (plan.storages[s].kind == Storage::Kind::kHostFeed) uses_[s].At(0);
      if (plan.storages[s].kind == Storage::Kind::kHostOutput)
        uses_[s].At(static_cast<int>(plan.steps.size()));
    }
  }
  const Use& operator[](size_t storage) const { return uses_[storage]; }

 private:
  void At(BufferId buffer) {
    if (buffer >= 0) uses_[static_cast<size_t>(plan_.buffers[static_cast<size_t>(buffer)].storage)].At(step_);
  }
  void At(const std::vector<ValueBuffers>& values) {
    for (const ValueBuffers& value : values) At(value.first);
  }
  void Add(const ComputeStep& compute) {
    At(compute.in);
    At(compute.out);
  }
  void Add(const CopyStep& copies) {
    for (const Transfer& transfer : copies.transfers) {
      At(transfer.to);
      for (BufferId from : transfer.from) At(from);
    }
  }
  void Add(const RemoteStep& remote) {
    for (const auto* parts : {&remote.sends, &remote.receives})
      for (const RemoteStep::Part& part : *parts) At(part.buffer);
  }
  void Add(const NestedStep& nested) {
    At(nested.in);
    At(nested.out);
    At(nested.predicate);
    for (BufferId argument : nested.arguments) At(argument);
  }

  const StepPlan& plan_;
  std::vector<Use> uses_;
  int step_ = 0;
};

// Moves the places of a map and its bodies: a body's arena lies within the memory of its step.
void Shift(StorageMap& map, int64_t arena, int64_t constants) {
  for (StorageMap::Place& place : map.places) {
    if (place.kind == StorageMap::Place::Kind::kArena) place.offset += arena;
    if (place.kind == StorageMap::Place::Kind::kConstant) place.offset += constants;
  }
  for (std::vector<StorageMap>& bodies : map.bodies)
    for (StorageMap& body : bodies) Shift(body, arena, constants);
}

}  // namespace

StorageMap MapStorages(const StepPlan& plan, bool fuse) {
  using Kind = StorageMap::Place::Kind;
  StorageMap map;
  map.places.resize(plan.storages.size());
  map.bodies.resize(plan.steps.size());
  const Uses uses(plan, fuse ? FindCudaGroups(plan) : std::vector<CudaGroup>());
  std::vector<BufferRequest> requests;
  std::vector<size_t> of_storage(plan.storages.size()), of_step(plan.steps.size());
  for (size_t s = 0; s < plan.storages.size(); ++s) {
    const Storage& storage = plan.storages[s];
    StorageMap::Place& place = map.places[s];
    switch (storage.kind) {
      case Storage::Kind::kConstant:
        place = {Kind::kConstant, map.constant_bytes};
        map.constant_bytes += Aligned(storage.bytes);
        break;
      case Storage::Kind::kTemporary:
      case Storage::Kind::kHostFeed:
      case Storage::Kind::kHostOutput:
        place.kind = Kind::kArena;
        of_storage[s] = requests.size();
        requests.push_back({uses[s].is_used() ? storage.bytes : 0,
                            std::max(0, std::min(uses[s].begin, uses[s].end)), std::max(0, uses[s].end)});
        break;
      case Storage::Kind::kVariable:
      case Storage::Kind::kSpare:
      case Storage::Kind::kFeed:
      case Storage::Kind::kOutput: break;
    }
  }
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const auto* const nested = std::get_if<NestedStep>(&plan.steps[i]);
    if (nested == nullptr) continue;
    int64_t bytes = 0;  // one body runs at a time
    for (const StepPlan& body : nested->bodies) {
      StorageMap of_body = MapStorages(body, fuse);
      Shift(of_body, 0, map.constant_bytes);
      map.constant_bytes += of_body.constant_bytes;
      bytes = std::max(bytes, of_body.arena_bytes);
      map.bodies[i].push_back(std::move(of_body));
    }
    of_step[i] = requests.size();
    requests.push_back({bytes, static_cast<int>(i), static_cast<int>(i)});
  }
  const MemoryPlan placed = PlanBuffers(requests, kAlignment);
  map.arena_bytes = placed.peak;
  for (size_t s = 0; s < map.places.size(); ++s)
    if (map.places[s].kind == Kind::kArena) map.places[s].offset = placed.offsets[of_storage[s]];
  for (size_t i = 0; i < map.bodies.size(); ++i)
    for (StorageMap& body : map.bodies[i]) Shift(body, placed.offsets[of_step[i]], 0);
  return map;
}

ExecutorMemory PlanCudaMemory(StepPlan plan, bool fuse) {
  plan = PlanLaunches(std::move(plan), fuse);
  const StorageMap map = MapStorages(plan, fuse);
  return {.shared_bytes = map.arena_bytes,
          .constant_bytes = map.constant_bytes,
          .num_instructions = static_cast<int>(plan.steps.size())};
}

}  // namespace meshwork
