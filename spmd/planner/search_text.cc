#include "meshwork/spmd/planner/search_text.h"

#include <algorithm>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "meshwork/ir/row.h"
#include "meshwork/spmd/planner/decisions.h"

namespace meshwork {
namespace {

class SearchWriter {
 public:
  SearchWriter(WeighedSearch& search, std::span<const int> found, double refused_seconds)
      : search_(search),
        found_(found),
        refused_seconds_(refused_seconds),
        titles_(found.size()),
        states_(found.size()) {}

  std::string Text() && {
    out_ = "Where values may lie, and how ops may run.   * Propagate's choice   > the search's\n\n";
    for (ValueId id = 0; id < static_cast<ValueId>(search_.pinned.values().size()); ++id)
      if (search_.fold.value_of[id] == id && search_.pinned.value(id).node < 0) WriteValue(id);
    for (int n = 0; n < search_.nodes.size(); ++n) {
      WriteNode(n);
      for (ValueId id : search_.nodes[n].results) WriteValue(id);
    }
    out_ += "\nWhat combinations cost, in microseconds.\n";
    for (size_t t = 0; t < search_.purposes.size(); ++t)
      WriteTable(search_.problem.tables()[t], search_.purposes[t]);
    out_ += fmt::format("\n{} us as Propagate has it, {} us as the search has it.\n",
                        Cost(search_.problem.CostOf(std::vector<int>(found_.size(), 0))),
                        Cost(search_.problem.CostOf(found_)));
    return std::move(out_);
  }

 private:
  // One variable, or what has only one state; `variable` is -1 then.
  void Write(int variable, const std::string& title, std::vector<std::string> states) {
    for (size_t s = 0; s < states.size(); ++s) {
      const bool is_found = variable < 0 || static_cast<size_t>(found_[variable]) == s;
      out_ += fmt::format("{:<14} {}{} {}\n", s == 0 ? title : "", s == 0 ? '*' : ' ', is_found ? '>' : ' ',
                          states[s]);
    }
    if (variable < 0) return;
    titles_[variable] = title;
    states_[variable] = std::move(states);
  }

  void WriteValue(ValueId id) {
    std::vector<std::string> states;
    for (const Held& held : search_.held.of(id)) {
      LayoutTable& table = search_.space.TableOf(id);
      states.push_back(table.layout(held.form).ToString());
      if (held.other >= 0) states.back() += " and " + table.layout(held.other).ToString();
    }
    Write(search_.of_value[id], NameOf(search_.pinned, id), std::move(states));
  }

  void WriteNode(int n) {
    const Node& node = search_.nodes[n];
    const OpModes& modes = search_.space.modes(n);
    std::vector<std::string> states;
    for (size_t m = 0; m < modes.count; ++m) {
      const auto list = [&](std::span<const ValueId> ids, const int* layouts) {
        std::vector<std::string> texts;
        for (size_t i = 0; i < ids.size(); ++i)
          texts.push_back(search_.space.TableOf(ids[i]).layout(layouts[i]).ToString());
        return fmt::format("{}", fmt::join(texts, " "));
      };
      states.push_back(fmt::format("{} -> {}", list(node.operands, modes.WantedBy(m)),
                                   list(node.results, modes.LeftBy(m))));
    }
    Write(search_.of_node[n], std::string(node.row->name), std::move(states));
  }

  std::string Cost(double seconds) const {
    return seconds >= refused_seconds_ ? "never" : fmt::format("{:.4g}", 1e6 * seconds);
  }

  // Rows are the states of the first variable, columns those of the second one, which are told above the table.
  void WriteTable(const CostTable& table, const TablePurpose& purpose) {
    std::string title(purpose.what);
    if (purpose.value != kNoValue) title += " " + NameOf(search_.pinned, purpose.value);
    const int rows = table.variables.empty() ? -1 : table.variables[0];
    const int columns = table.variables.size() < 2 ? -1 : table.variables[1];
    if (rows < 0) {
      out_ += fmt::format("\n{}, in any case: {}\n", title, Cost(table.costs[0]));
      return;
    }
    out_ += fmt::format("\n{}: {}{}\n", title, titles_[rows], columns < 0 ? "" : ", " + titles_[columns]);
    const size_t width = columns < 0 ? 1 : states_[columns].size();
    size_t longest = 0;
    for (const std::string& state : states_[rows]) longest = std::max(longest, state.size());
    for (size_t r = 0; r < states_[rows].size(); ++r) {
      out_ += fmt::format("  {:<{}}", states_[rows][r], longest);
      for (size_t c = 0; c < width; ++c) out_ += fmt::format(" {:>8}", Cost(table.costs[r * width + c]));
      out_ += '\n';
    }
  }

  WeighedSearch& search_;
  const std::span<const int> found_;
  const double refused_seconds_;
  // Per variable.
  std::vector<std::string> titles_;
  std::vector<std::vector<std::string>> states_;
  std::string out_;
};

}  // namespace

std::string TextOf(WeighedSearch& search, std::span<const int> found, double refused_seconds) {
  return SearchWriter(search, found, refused_seconds).Text();
}

}  // namespace meshwork
