// Makes schedules from text, and prints schedules, for tests.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/row.h"
#include "meshwork/ir/text.h"
#include "meshwork/runtime/cpu/cpu_step.h"
#include "meshwork/runtime/cpu/schedule.h"
#include "meshwork/runtime/exec/executor.h"

namespace meshwork {

struct ScheduleOptions {
  bool share = true;
  bool coalesce = true;
  bool fuse = true;
};
inline constexpr ScheduleOptions kPlain{.coalesce = false, .fuse = false};

// The plan of a program whose variables are placed by their layouts.
inline StepPlan MakePlan(std::string_view text, const StepPlanOptions& options = {}) {
  auto graph = std::make_shared<const Graph>(ParseGraph(text).value());
  std::vector<InstanceMap> variables;
  for (const Argument& argument : graph->arguments())
    variables.emplace_back(graph->mesh(), graph->value(argument.value).layout->ShardedAxes());
  return BuildStepPlan(std::move(graph), variables, options).value();
}

inline Schedule Make(std::string_view text, int workers, const ScheduleOptions& options = kPlain) {
  return MakeSchedule(MakePlan(text, {.share = options.share, .coalesce = options.coalesce}), workers,
                      options.fuse);
}

// The schedule of an executor on a CpuBackend.
inline const Schedule& ScheduleOf(const Executor& executor) {
  return dynamic_cast<const CpuStep&>(executor.step()).schedule();
}

// The name of an instruction: "pack", "all_reduce", "matmul+all_reduce+sub".
inline std::string NameOf(const Graph& graph, const Instruction& instruction) {
  constexpr std::string_view kKinds[] = {"kernel", "collective", "pack", "unpack", "assign", "compare"};
  std::string name;
  if (instruction.node < 0) name += kKinds[static_cast<int>(instruction.kind)];
  if (instruction.kind == Instruction::Kind::kCollective) name += graph.nodes()[instruction.node].row->name;
  for (const KernelStep& step : instruction.steps) {
    name += &step == instruction.steps.data() ? "" : "+";
    name += graph.nodes()[step.node].row->name;
    if (step.reduces >= 0) name += fmt::format("+{}", graph.nodes()[step.reduces].row->name);
  }
  return name;
}

// One line per instruction: "---" for a barrier before it, its name, and each worker's slices. Slices of kernels
// are rows; slices of other instructions are an item and a range of its elements.
inline std::string Print(std::string_view text, const Schedule& schedule) {
  const Graph graph = ParseGraph(text).value();
  std::string out;
  for (const Instruction& instruction : schedule.instructions) {
    if (instruction.barrier) out += "---\n";
    out += NameOf(graph, instruction);
    for (const std::vector<WorkSlice>& slices : instruction.slices) {
      out += " |";
      for (const WorkSlice& slice : slices)
        out += instruction.steps.empty() ? fmt::format(" {}:{}-{}", slice.item, slice.begin, slice.end)
                                         : fmt::format(" {}-{}", slice.begin, slice.end);
    }
    out += "\n";
  }
  return out;
}

}  // namespace meshwork
