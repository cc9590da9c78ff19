// The bytes that the launches of a plan read and write.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "fmt/format.h"
#include "meshwork/ir/row.h"
#include "meshwork/runtime/cuda/cuda_fusion.h"
#include "meshwork/runtime/plan/step_plan.h"

namespace meshwork {

struct LaunchCost {
  std::string ops;  // "scatter_add+adam_update"; "copy" for what moves
  int64_t launches = 1, bytes = 0;
};

// The cost of each launch, in order. Lookups, and updates of rows, touch only the rows that they name.
class PlanCosts {
 public:
  explicit PlanCosts(const StepPlan& plan) : plan_(plan) {
    const std::vector<CudaGroup> groups = FindCudaGroups(plan);
    auto group = groups.begin();
    for (size_t i = 0; i < plan.steps.size(); ++i) {
      if (group == groups.end() || group->first != i) {
        std::visit([this](const auto& step) { Add(step); }, plan.steps[i]);
        continue;
      }
      Add(*group);
      i = group->end - 1;
      ++group;
    }
  }

  const std::vector<LaunchCost>& all() const { return all_; }
  int64_t launches() const {
    int64_t launches = 0;
    for (const LaunchCost& cost : all_) launches += cost.launches;
    return launches;
  }
  int64_t bytes() const {
    int64_t bytes = 0;
    for (const LaunchCost& cost : all_) bytes += cost.bytes;
    return bytes;
  }
  // The launches that do `op`, among other ops.
  int64_t LaunchesOf(std::string_view op) const {
    int64_t launches = 0;
    for (const LaunchCost& cost : all_)
      launches += cost.ops.find(op) == std::string::npos ? 0 : cost.launches;
    return launches;
  }

 private:
  std::string_view NameOf(const ComputeStep& step) const {
    return plan_.graph->nodes()[static_cast<size_t>(step.node)].row->name;
  }

  static int64_t BytesOf(const std::vector<TensorSpec>& tensors) {
    int64_t bytes = 0;
    for (const TensorSpec& tensor : tensors) bytes += tensor.local.bytes();
    return bytes;
  }

  void Add(const CudaGroup& group) {
    LaunchCost cost;
    for (size_t i = group.first; i < group.end; ++i) {
      const std::string_view name = NameOf(std::get<ComputeStep>(plan_.steps[i]));
      if (cost.ops.find(name) == std::string::npos)
        cost.ops += fmt::format("{}{}", cost.ops.empty() ? "" : "+", name);
    }
    std::set<int> storages;
    for (const auto* buffers : {&group.operands, &group.results})
      for (const BufferId buffer : *buffers)
        storages.insert(plan_.buffers[static_cast<size_t>(buffer)].storage);
    if (!group.parts.has_value()) {
      for (const int storage : storages) cost.bytes += plan_.storages[static_cast<size_t>(storage)].bytes;
    } else {
      for (const CudaParts::Part& part : group.parts->parts) cost.bytes += BytesOf(*group.parts, part);
    }
    all_.push_back(std::move(cost));
  }

  static int64_t BytesOf(const CudaParts& parts, const CudaParts::Part& part) {
    const DType dtype = parts.spec.results[0].local.dtype;
    if (!parts.scatter.has_value()) {
      const auto tensors = static_cast<int64_t>(part.operands.size() + part.results.size());
      return part.elements * DTypeSize(dtype) * (part.table.rows > 0 ? 2 : tensors);
    }
    // The terms of the sum, and as many rows of the results and of the operands other than the gradient.
    const auto tensors = static_cast<int64_t>(part.operands.size() - 1 + part.results.size());
    return parts.scatter->operands[0].local.bytes() * tensors;
  }

  void Add(const ComputeStep& step) {
    const int64_t launches = step.one_by_one ? step.needed : 1;
    int64_t bytes = BytesOf(step.spec.operands) + BytesOf(step.spec.results);
    if (NameOf(step) == "gather" || NameOf(step) == "slice")
      bytes += step.spec.results[0].local.bytes() - step.spec.operands[0].local.bytes();
    std::string ops(NameOf(step));
    if (step.reduces >= 0) ops += "+all_reduce";
    all_.push_back({std::move(ops), launches, bytes * launches});
  }
  void Add(const CopyStep& step) {
    LaunchCost cost{.ops = step.node < 0
                               ? "copy"
                               : std::string(plan_.graph->nodes()[static_cast<size_t>(step.node)].row->name)};
    for (const Transfer& transfer : step.transfers)
      cost.bytes += transfer.box.elements() * DTypeSize(transfer.dtype) * (std::ssize(transfer.from) + 1);
    all_.push_back(std::move(cost));
  }
  void Add(const RemoteStep&) {}
  void Add(const NestedStep&) {}

  const StepPlan& plan_;
  std::vector<LaunchCost> all_;
};

}  // namespace meshwork
