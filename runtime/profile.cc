#include "meshwork/runtime/profile.h"

#include <algorithm>
#include <numeric>
#include <string_view>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/program.h"
#include "meshwork/ir/row.h"

namespace meshwork {
namespace {

std::string_view KindName(Instruction::Kind kind) {
  switch (kind) {
    case Instruction::Kind::kKernel: return "kernel";
    case Instruction::Kind::kCollective: return "collective";
    case Instruction::Kind::kPack: return "pack";
    case Instruction::Kind::kUnpack: return "unpack";
    case Instruction::Kind::kAssign: return "assign";
    case Instruction::Kind::kCompare: return "compare";
    case Instruction::Kind::kLoop: return "loop";
  }
  return "";
}

// All that a step does away with is in its row: an all_reduce whose sum it computes at once.
void DescribeSteps(const Graph& local, const Instruction& instruction, ProfileRow& row) {
  constexpr size_t kNamed = 4;
  std::vector<std::string_view> ops, causes;
  for (const KernelStep& step : instruction.steps) {
    const Node& node = local.nodes()[step.node];
    ops.push_back(node.row->name);
    if (step.reduces >= 0) ops.push_back(local.nodes()[step.reduces].row->name);
    if (step.reduces >= 0 && !local.nodes()[step.reduces].cause.empty())
      causes.push_back(local.nodes()[step.reduces].cause);
    row.flops += FlopsOf(local, node) * static_cast<double>(step.instances) * step.needed_part();
  }
  const size_t named = ops.size() > kNamed ? kNamed - 1 : ops.size();
  row.op = fmt::format("{}", fmt::join(ops.begin(), ops.begin() + static_cast<int64_t>(named), "+"));
  if (named < ops.size()) row.op += fmt::format("+{} more", ops.size() - named);
  if (row.cause.empty()) row.cause = fmt::format("{}", fmt::join(causes, "; "));
}

// Of one call.
ProfileRow RowOf(const Graph& local, const Instruction& instruction) {
  ProfileRow row{.op = std::string(KindName(instruction.kind)), .where = instruction.subject, .calls = 1};
  if (instruction.node >= 0) {
    const Node& node = local.nodes()[instruction.node];
    row.op = node.row->name;
    row.where = node.location.ToString();
    row.cause = node.cause;
    row.result = node.results.size() == 1 ? local.value(node.results[0]).global.ToString()
                                          : fmt::format("{} values", node.results.size());
  }
  if (instruction.loop != nullptr)
    row.flops =
        FlopsOf(local, local.nodes()[instruction.node]) * static_cast<double>(local.mesh().num_devices());
  if (!instruction.steps.empty()) DescribeSteps(local, instruction, row);
  for (const Transfer& transfer : instruction.transfers) {
    const auto buffers = static_cast<int64_t>(transfer.from.size()) + (transfer.to >= 0 ? 1 : 0);
    row.bytes += transfer.box.elements() * DTypeSize(transfer.dtype) * buffers;
  }
  return row;
}

// "48.1 GFLOP/s"; work per nanosecond is 10^9 per second.
std::string RateOf(const ProfileRow& row) {
  if (row.max_ns == 0) return "";
  const auto ns = static_cast<double>(row.max_ns);
  if (row.flops > 0) return fmt::format("{:.1f} GFLOP/s", row.flops / ns);
  if (row.bytes > 0) return fmt::format("{:.1f} GB/s", static_cast<double>(row.bytes) / ns);
  return "";
}

std::string Milliseconds(int64_t ns) { return fmt::format("{:.3f}", static_cast<double>(ns) / 1e6); }

std::string Share(int64_t ns, int64_t total) {
  return fmt::format("{:.1f} %", total == 0 ? 0 : 100 * static_cast<double>(ns) / static_cast<double>(total));
}

// Columns are as wide as what is in them; the first three are flush left.
class Table {
 public:
  void Add(std::vector<std::string> cells) { lines_.push_back(std::move(cells)); }
  // A line under the last one, from the second column on.
  void AddNote(std::string_view note) { lines_.push_back({std::string(note)}); }
  std::string ToString() const {
    std::vector<size_t> widths;
    for (const std::vector<std::string>& cells : lines_) {
      if (cells.size() == 1) continue;
      widths.resize(std::max(widths.size(), cells.size()));
      for (size_t c = 0; c < cells.size(); ++c) widths[c] = std::max(widths[c], cells[c].size());
    }
    std::string out;
    for (const std::vector<std::string>& cells : lines_) {
      std::string line;
      if (cells.size() == 1) line = std::string(widths[0] + 2, ' ') + cells[0];
      for (size_t c = 0; c < cells.size() && cells.size() > 1; ++c) {
        line += c == 0 ? "" : "  ";
        line +=
            c < 3 ? fmt::format("{:<{}}", cells[c], widths[c]) : fmt::format("{:>{}}", cells[c], widths[c]);
      }
      line.erase(line.find_last_not_of(' ') + 1);
      out += line + "\n";
    }
    return out;
  }

 private:
  std::vector<std::vector<std::string>> lines_;
};

}  // namespace

int64_t Profile::other_ns() const {
  int64_t rest = total_ns() - wait_ns;
  for (const ProfileRow& row : rows) rest -= row.ns;
  return rest;
}

Profile Profile::ByOp() const {
  Profile result = *this;
  result.rows.clear();
  std::vector<int> instructions;
  for (const ProfileRow& row : rows) {
    auto it = std::find_if(result.rows.begin(), result.rows.end(),
                           [&](const ProfileRow& other) { return other.op == row.op; });
    if (it == result.rows.end()) {
      it = result.rows.insert(it, {.op = row.op});
      instructions.push_back(0);
    }
    ++instructions[static_cast<size_t>(it - result.rows.begin())];
    it->calls += row.calls;
    it->ns += row.ns;
    it->max_ns += row.max_ns;
    it->flops += row.flops;
    it->bytes += row.bytes;
  }
  for (size_t r = 0; r < instructions.size(); ++r)
    result.rows[r].where = fmt::format("{} instruction{}", instructions[r], instructions[r] == 1 ? "" : "s");
  return result;
}

std::string Profile::ToString() const {
  if (steps == 0) return "no steps were profiled\n";
  std::vector<const ProfileRow*> sorted;
  for (const ProfileRow& row : rows) sorted.push_back(&row);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const ProfileRow* a, const ProfileRow* b) { return a->ns > b->ns; });
  Table table;
  table.Add({"op", "where", "result", "calls", "total ms", "share", "max ms", "rate"});
  for (const ProfileRow* row : sorted) {
    table.Add({row->op, row->where, row->result, fmt::format("{}", row->calls), Milliseconds(row->ns),
               Share(row->ns, total_ns()), Milliseconds(row->max_ns), RateOf(*row)});
    std::string_view causes = row->cause;  // one per value, separated by "; "
    while (!causes.empty()) {
      const size_t end = causes.find("; ");
      table.AddNote(causes.substr(0, end));
      causes.remove_prefix(end == std::string_view::npos ? causes.size() : end + 2);
    }
  }
  table.Add({"waiting", "barriers", "", "", Milliseconds(wait_ns), Share(wait_ns, total_ns())});
  table.Add({"other", "start and end", "", "", Milliseconds(other_ns()), Share(other_ns(), total_ns())});
  table.Add({"total", fmt::format("{} worker{}", workers, workers == 1 ? "" : "s"), "", "",
             Milliseconds(total_ns()), Share(total_ns(), total_ns())});
  return table.ToString() +
         fmt::format("{} step{}, {} ms each\n", steps, steps == 1 ? "" : "s", Milliseconds(wall_ns / steps));
}

Profiler::Profiler(const Graph& local, const Schedule& schedule, int trace_steps)
    : lanes_(static_cast<size_t>(schedule.num_workers)) {
  for (const Instruction& instruction : schedule.instructions) rows_.push_back(RowOf(local, instruction));
  if (trace_steps > 0) {
    trace_ = std::make_unique<TraceRecorder>(local, schedule, trace_steps);
    for (size_t w = 0; w < lanes_.size(); ++w) lanes_[w].trace_ = &trace_->lane(static_cast<int>(w));
  }
  Clear();
}

void Profiler::Clear() {
  for (Lane& lane : lanes_) {
    lane.ns_.assign(rows_.size(), 0);
    lane.calls_.assign(rows_.size(), 0);
    lane.wait_ns_ = 0;
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
