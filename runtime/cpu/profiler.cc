#include "meshwork/runtime/cpu/profiler.h"

#include <algorithm>
#include <string>

#include "meshwork/ir/program_cost.h"
#include "meshwork/runtime/exec/profile_row.h"

namespace meshwork {
namespace {

// The row of an instruction, for one call.
ProfileRow RowOf(const Schedule& schedule, const Instruction& instruction) {
  const Graph& local = *schedule.graph;
  ProfileRow row{.op = std::string(NameOf(instruction.kind)), .where = instruction.subject, .calls = 1};
  if (instruction.node >= 0) {
    row = RowOfNode(local, instruction.node);
    if (instruction.kind == Instruction::Kind::kStart) row.op = "start " + row.op;
    if (instruction.kind == Instruction::Kind::kWait) row.op = "wait for " + row.op;
  }
  if (instruction.loop != nullptr)
    row.flops =
        FlopsOf(local, local.nodes()[instruction.node]) * static_cast<double>(schedule.domain.num_devices());
  std::vector<ProfiledNode> nodes;
  for (const KernelStep& step : instruction.steps)
    nodes.push_back({step.node, step.reduces, static_cast<double>(step.instances) * step.needed_part()});
  if (!nodes.empty()) AddNodes(local, nodes, row);
  AddTransfers(instruction.transfers, row);
  return row;
}

}  // namespace

Profiler::Profiler(const Schedule& schedule, int trace_steps)
    : lanes_(static_cast<size_t>(schedule.num_workers)) {
  for (const Instruction& instruction : schedule.instructions) rows_.push_back(RowOf(schedule, instruction));
  if (schedule.num_operations > 0)
    for (const Instruction& instruction : schedule.instructions)  // a fence carries nothing
      lanes_[0].remote_kinds_.push_back(instruction.is_fence() ? Instruction::Kind::kAssign
                                                               : instruction.kind);
  if (trace_steps > 0) {
    trace_ = std::make_unique<TraceRecorder>(schedule, trace_steps);
    for (size_t w = 0; w < lanes_.size(); ++w) lanes_[w].trace_ = &trace_->lane(static_cast<int>(w));
  }
  Clear();
}

void Profiler::Clear() {
  for (Lane& lane : lanes_) {
    lane.ns_.assign(rows_.size(), 0);
    lane.calls_.assign(rows_.size(), 0);
    lane.wait_ns_ = lane.remote_ns_ = lane.remote_wait_ns_ = 0;
    lane.under_way_ = 0;
  }
  steps_ = wall_ns_ = 0;
  if (trace_ != nullptr) trace_->Clear();
}

void Profiler::EndStep(Clock::time_point start) {
  const Clock::time_point end = Clock::now();
  wall_ns_ += std::chrono::duration_cast<std::chrono::nanoseconds>(end - start).count();
  ++steps_;
  if (trace_ != nullptr) trace_->EndStep(start, end);
}

Trace Profiler::ReadTrace() const { return trace_ == nullptr ? Trace() : trace_->Read(rows_); }

Profile Profiler::Read() const {
  Profile profile{.workers = static_cast<int>(lanes_.size()),
                  .steps = steps_,
                  .wall_ns = wall_ns_,
                  .wait_ns = 0,
                  .remote_ns = lanes_[0].remote_ns_,
                  .remote_wait_ns = lanes_[0].remote_wait_ns_,
                  .rows = rows_};
  for (const Lane& lane : lanes_) profile.wait_ns += lane.wait_ns_;
  for (size_t i = 0; i < profile.rows.size(); ++i) {
    ProfileRow& row = profile.rows[i];
    row.calls = lanes_.front().calls_[i];  // every worker passes every instruction
    row.flops *= static_cast<double>(row.calls);
    row.bytes *= row.calls;
    for (const Lane& lane : lanes_) {
      row.ns += lane.ns_[i];
      row.max_ns = std::max(row.max_ns, lane.ns_[i]);
    }
  }
  return profile;
}

}  // namespace meshwork
