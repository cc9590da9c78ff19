#ifdef MESHWORK_HAVE_CUDA
#include "meshwork/runtime/cuda/cuda_profiler.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/ranges.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/cuda/cuda_fault.h"
#include "meshwork/runtime/exec/profile_row.h"

namespace meshwork {
namespace {

constexpr size_t kInputs = 0, kOutputs = 1;  // the rows of host tensors

// The row of a kernel or a product.
template <typename Launch>
ProfileRow RowOf(const CudaLevel& level, const Launch& launch) {
  ProfileRow row = RowOfNode(*level.plan->graph, launch.nodes.back().node);
  AddNodes(*level.plan->graph, launch.nodes, row);
  return row;
}

// Names each op once: there may be hundreds of parts.
ProfileRow RowOf(const CudaLevel& level, const PartsLaunch& launch) {
  const Graph& graph = *level.plan->graph;
  ProfileRow row = RowOfNode(graph, launch.nodes.back().node);
  AddNodes(graph, launch.nodes, row);
  std::vector<std::string_view> ops;
  for (const ProfiledNode& profiled : launch.nodes) {
    const std::string_view op = graph.nodes()[static_cast<size_t>(profiled.node)].row->name;
    if (std::find(ops.begin(), ops.end(), op) == ops.end()) ops.push_back(op);
  }
  row.op = fmt::format("{}", fmt::join(ops, "+"));
  row.result = Count(std::ssize(launch.parts), "tensor");
  return row;
}

ProfileRow RowOf(const CudaLevel& level, const TransferLaunch& launch) {
  ProfileRow row{.op = "copy", .where = launch.subject, .calls = 1};
  if (launch.node >= 0) row = RowOfNode(*level.plan->graph, launch.node);
  AddTransfers(launch.transfers, row);
  return row;
}

ProfileRow RowOf(const CudaLevel& level, const LoopLaunch& launch) {
  return RowOfNode(*level.plan->graph, launch.node);
}

ProfileRow RowOf(const CudaLevel&, const CompareStep& compare) {
  return {.op = "compare", .where = compare.step->subject, .calls = 1};
}

ProfileRow RowOf(const CudaLevel& level, const RemoteLaunch& launch) {
  ProfileRow row = RowOfNode(*level.plan->graph, launch.step->node);
  if (launch.step->kind == RemoteStep::Kind::kStart) row.op = "start " + row.op;
  return row;
}

// ---- Labels of a trace.

// For kernels and products: what they compute and, if that is one node, its operands.
template <typename Launch>
void AddDetails(const CudaLevel& level, const Launch& launch, TraceLabel& label) {
  label.category = "kernel";
  if (launch.nodes.size() == 1) return AddValues(*level.plan->graph, launch.nodes[0].node, label);
  label.texts.emplace_back("computes", DescribeAction(level, CudaAction(launch)));
}

void AddDetails(const CudaLevel& level, const TransferLaunch& launch, TraceLabel& label) {
  label.category = launch.kind == CopyStep::Kind::kPack     ? "pack"
                   : launch.kind == CopyStep::Kind::kUnpack ? "unpack"
                   : launch.kind == CopyStep::Kind::kAssign ? "assign"
                                                            : "collective";
  if (launch.node >= 0) AddValues(*level.plan->graph, launch.node, label);
}

// The time after the end of the last body, in which the host reads whether the loop goes on.
void AddDetails(const CudaLevel&, const LoopLaunch&, TraceLabel& label) { label.category = "loop"; }
void AddDetails(const CudaLevel&, const CompareStep&, TraceLabel& label) { label.category = "compare"; }
void AddDetails(const CudaLevel& level, const RemoteLaunch& launch, TraceLabel& label) {
  label.category = "remote";
  AddValues(*level.plan->graph, launch.step->node, label);
}

bool IsOfNode(const CudaAction& action) {
  const auto* const transfers = std::get_if<TransferLaunch>(&action);
  return transfers == nullptr ? !std::holds_alternative<CompareStep>(action) : transfers->node >= 0;
}

// `place`: the name under which the label has row.where.
TraceLabel LabelOf(const ProfileRow& row, std::string_view place) {
  TraceLabel label{.name = row.op, .flops = row.flops, .bytes = row.bytes};
  if (!row.where.empty()) label.texts.emplace_back(place, row.where);
  if (!row.cause.empty()) label.texts.emplace_back("cause", row.cause);
  return label;
}

int64_t Nanoseconds(CudaProfiler::Clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

}  // namespace

CudaProfiler::CudaProfiler(const CudaLevel& level, std::shared_ptr<const CudaStream> stream, int trace_steps)
    : stream_(std::move(stream)) {
  calls_ = {{.op = "pack", .where = "inputs"}, {.op = "unpack", .where = "outputs"}};
  if (trace_steps > 0) {
    const Graph& local = *level.plan->graph;
    trace_ = std::make_unique<CudaTrace>(fmt::format("{} on mesh {}", local.name, local.mesh().ToString()),
                                         stream_->context().where(), trace_steps);
    for (const ProfileRow& row : calls_) {
      TraceLabel label = LabelOf(row, "of");
      label.category = row.op;
      trace_->AddLabel(std::move(label));
    }
  }
  AddRows(level);
  Clear();
}

void CudaProfiler::AddRows(const CudaLevel& level) {
  for (const CudaAction& action : level.actions) {
    rows_[&action] = calls_.size();
    calls_.push_back(std::visit([&](const auto& launch) { return RowOf(level, launch); }, action));
    if (trace_ != nullptr) {
      TraceLabel label = LabelOf(calls_.back(), IsOfNode(action) ? "where" : "of");
      std::visit([&](const auto& launch) { AddDetails(level, launch, label); }, action);
      trace_->AddLabel(std::move(label));
    }
    if (const auto* const loop = std::get_if<LoopLaunch>(&action))
      for (const CudaLevel& body : loop->bodies) AddRows(body);
  }
}

void CudaProfiler::Clear() {
  profile_ = {.workers = 1, .rows = calls_};
  for (ProfileRow& row : profile_.rows) row.calls = row.bytes = 0, row.flops = 0;
  if (trace_ != nullptr) trace_->Clear();
}

absl::Status CudaProfiler::Mark(size_t row) {
  if (events_.size() == marks_.size() + 1) {
    MESHWORK_ASSIGN_OR_RETURN(events_.emplace_back(),
                              CudaEvent::Create(stream_->shared_context(), CudaEvent::Kind::kTiming));
  }
  marks_.push_back(row);
  return events_[marks_.size()]->Record(*stream_);
}

absl::Status CudaProfiler::Start() {
  start_ = Clock::now();
  marks_.clear();
  if (events_.empty()) {
    MESHWORK_ASSIGN_OR_RETURN(events_.emplace_back(),
                              CudaEvent::Create(stream_->shared_context(), CudaEvent::Kind::kTiming));
  }
  return events_[0]->Record(*stream_);
}

absl::Status CudaProfiler::Copied(bool is_input, int64_t bytes) {
  const size_t row = is_input ? kInputs : kOutputs;
  profile_.rows[row].bytes += 2 * bytes;
  if (trace_ != nullptr) trace_->SetBytes(row, 2 * bytes);
  return Mark(row);
}

absl::Status CudaProfiler::Ran(const CudaAction& action) { return Mark(rows_.at(&action)); }

absl::Status CudaProfiler::End() {
  if (trace_ != nullptr) trace_->Begin(Nanoseconds(start_));
  for (size_t i = 0; i < marks_.size(); ++i) {
    MESHWORK_ASSIGN_OR_RETURN(const double ms, events_[i + 1]->MillisecondsSince(*events_[i]));
    ProfileRow& row = profile_.rows[marks_[i]];
    const ProfileRow& call = calls_[marks_[i]];
    const auto ns = static_cast<int64_t>(1e6 * ms);
    if (trace_ != nullptr) trace_->Add(marks_[i], ns);
    row.ns += ns;
    row.max_ns = row.ns;
    row.flops += call.flops;
    row.bytes += call.bytes;
    ++row.calls;
  }
  const Clock::time_point end = Clock::now();
  ++profile_.steps;
  profile_.wall_ns += std::chrono::duration_cast<std::chrono::nanoseconds>(end - start_).count();
  if (trace_ != nullptr) trace_->End(Nanoseconds(end));
  return absl::OkStatus();
}

}  // namespace meshwork

#endif
