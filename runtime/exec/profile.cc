#include "meshwork/runtime/exec/profile.h"

#include <algorithm>
#include <string_view>

#include "fmt/format.h"

namespace meshwork {
namespace {

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

void InputWaits::Add(double seconds) {
  ++steps;
  if (seconds <= kLongWait) return;
  const auto waited = static_cast<int64_t>(1e9 * seconds);
  ++starved;
  ns += waited;
  if (waited <= longest_ns) return;
  longest_ns = waited;
  longest_step = steps;
}

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
  std::string text = table.ToString() + fmt::format("{} step{}, {} ms each\n", steps, steps == 1 ? "" : "s",
                                                    Milliseconds(wall_ns / steps));
  if (remote_ns > 0)
    text += fmt::format("between domains: {} ms a step under way, {} ms of it waited for ({:.0f} % hidden)\n",
                        Milliseconds(remote_ns / steps), Milliseconds(remote_wait_ns / steps),
                        100 - 100 * static_cast<double>(remote_wait_ns) / static_cast<double>(remote_ns));
  if (input.starved > 0)
    text += fmt::format("input: {} of {} steps waited for it, {} ms each; {} ms before step {}\n",
                        input.starved, input.steps, Milliseconds(input.ns / input.starved),
                        Milliseconds(input.longest_ns), input.longest_step);
  return text;
}

}  // namespace meshwork
