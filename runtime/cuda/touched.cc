#include "meshwork/runtime/cuda/touched.h"

#include <algorithm>
#include <utility>
#include <variant>

namespace meshwork {
namespace {

class Touches {
 public:
  explicit Touches(const StepPlan& plan) : plan_(plan) {}

  Touched Of(const Step& step) && {
    std::visit([this](const auto& s) { Add(s); }, step);
    return std::move(touched_);
  }

 private:
  void At(std::vector<int>& storages, BufferId buffer) {
    if (buffer >= 0) storages.push_back(plan_.buffers[static_cast<size_t>(buffer)].storage);
  }
  void Add(const ComputeStep& compute) {
    for (const ValueBuffers& value : compute.in) At(touched_.reads, value.first);
    for (const ValueBuffers& value : compute.out) At(touched_.writes, value.first);
  }
  void Add(const CopyStep& copies) {
    for (const Transfer& transfer : copies.transfers) {
      At(touched_.writes, transfer.to);
      for (BufferId from : transfer.from) At(touched_.reads, from);
    }
  }
  void Add(const RemoteStep& remote) {
    for (const RemoteStep::Part& part : remote.sends) At(touched_.reads, part.buffer);
    for (const RemoteStep::Part& part : remote.receives) At(touched_.writes, part.buffer);
    touched_.crosses = true;
  }
  // Bodies may read and write all their arguments.
  void Add(const NestedStep& nested) {
    for (const auto* values : {&nested.in, &nested.out})
      for (const ValueBuffers& value : *values) {
        At(touched_.reads, value.first);
        At(touched_.writes, value.first);
      }
    At(touched_.reads, nested.predicate);
    touched_.crosses = true;
    for (BufferId argument : nested.arguments) {
      At(touched_.reads, argument);
      At(touched_.writes, argument);
    }
  }

  const StepPlan& plan_;
  Touched touched_;
};

}  // namespace

bool Touched::Conflicts(const Touched& other) const {
  const auto meet = [](const std::vector<int>& a, const std::vector<int>& b) {
    return std::any_of(a.begin(), a.end(),
                       [&](int s) { return std::find(b.begin(), b.end(), s) != b.end(); });
  };
  return (crosses && other.crosses) || meet(writes, other.writes) || meet(writes, other.reads) ||
         meet(reads, other.writes);
}

void Touched::Add(const Touched& other) {
  reads.insert(reads.end(), other.reads.begin(), other.reads.end());
  writes.insert(writes.end(), other.writes.begin(), other.writes.end());
  crosses |= other.crosses;
}

Touched TouchedBy(const StepPlan& plan, const Step& step) { return Touches(plan).Of(step); }

LaterReads::LaterReads(const StepPlan& plan) : accesses_(plan.storages.size()) {
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    for (const int storage : TouchedBy(plan, plan.steps[i]).reads) {
      std::vector<Access>& of = accesses_[static_cast<size_t>(storage)];
      if (of.empty() || of.back().step != i) of.push_back({i, true});
    }
    const auto* const compute = std::get_if<ComputeStep>(&plan.steps[i]);
    if (compute == nullptr) continue;
    for (const ValueBuffers& value : compute->out) {
      const int storage = plan.buffers[static_cast<size_t>(value.first)].storage;
      std::vector<Access>& of = accesses_[static_cast<size_t>(storage)];
      const bool is_whole = plan.BytesOf(value) == plan.storages[static_cast<size_t>(storage)].bytes;
      if (is_whole && (of.empty() || of.back().step != i)) of.push_back({i, false});
    }
  }
}

bool LaterReads::IsRead(int storage, size_t step) const {
  const std::vector<Access>& of = accesses_[static_cast<size_t>(storage)];
  const auto next =
      std::lower_bound(of.begin(), of.end(), step, [](const Access& a, size_t at) { return a.step < at; });
  return next != of.end() && next->reads;
}

}  // namespace meshwork
