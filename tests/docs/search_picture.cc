#include "docs/search_picture.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "meshwork/ir/row.h"
#include "meshwork/ir/text.h"
#include "meshwork/spmd/planner/choose_cuts.h"
#include "meshwork/spmd/planner/layout_space.h"
#include "meshwork/spmd/planner/solve_layouts.h"
#include "meshwork/spmd/propagate.h"

namespace meshwork::docs {
namespace {

constexpr double kRow = 19, kWidth = 152;
const SvgFont kState = {.anchor = Anchor::kMiddle, .mono = true};
const SvgFont kTitle = {.anchor = Anchor::kMiddle, .bold = true};
const SvgStyle kTable = {.stroke = Paint::kMuted, .width = 1.5};

// The choices of a variable of the search, one below the other; the solution's choices are filled.
struct Variable {
  std::string title;
  std::vector<std::string> states;
  std::string found;
  bool is_op = false;

  double Height() const { return kRow * static_cast<double>(states.size()) + 8; }
  void Draw(Svg& svg, SvgPoint at) const {
    const Paint paint = is_op ? SeriesPaint(1) : SeriesPaint(0);
    svg.Text({at.x + kWidth / 2, at.y - 8}, title, kTitle);
    svg.Rect({at.x, at.y, kWidth, Height()}, {.fill = Paint::kPage, .stroke = paint, .width = 1.5},
             is_op ? 0 : 8);
    double y = at.y + 4;
    for (const std::string& state : states) {
      if (state == found) svg.Rect({at.x + 4, y, kWidth - 8, kRow}, {.fill = paint, .opacity = 0.35}, 4);
      svg.Text({at.x + kWidth / 2, y + 14}, state, kState);
      y += kRow;
    }
  }
};

// All choices that LayoutSpace lists for a program, and the solution of SolveLayouts.
class Search {
 public:
  explicit Search(std::string_view text)
      : graph_(ParseGraph(text).value()),
        propagated_(Propagate(graph_).graph),
        choices_(ChooseCuts(propagated_, {}, Replication())),
        fold_(Unfolded(propagated_)),
        nodes_(propagated_, fold_),
        space_(graph_, propagated_, choices_, fold_, nodes_),
        solved_(SolveLayouts(graph_, propagated_, choices_, {}, Replication())) {}

  Variable Value(std::string_view name) {
    const ValueId id = IdOf(name);
    Variable variable{.title = fmt::format("where %{} lies", name)};
    for (int layout : space_.layouts(id))
      variable.states.push_back(space_.TableOf(id).layout(layout).ToString());
    variable.found = (solved_.has_value() ? solved_->propagated : propagated_).value(id).layout->ToString();
    return variable;
  }
  // The ways to run the op that gives the value, by their result's layouts.
  Variable Op(std::string_view name) {
    const ValueId id = IdOf(name);
    const int n = graph_.value(id).node;
    Variable variable{.title = fmt::format("how {} runs", graph_.nodes()[n].row->name), .is_op = true};
    const auto text = [](std::span<const Layout> operands, const Layout& result) {
      std::string all;
      for (const Layout& operand : operands) all += operand.ToString() + " ";
      return all + "→ " + result.ToString();
    };
    const OpModes& modes = space_.modes(n);
    for (size_t m = 0; m < modes.count; ++m) {
      const Choice choice = space_.ChoiceOf(n, m);
      variable.states.push_back(text(choice.operands, choice.results[0]));
    }
    const Choice& found = *(solved_.has_value() ? solved_->choices : choices_)[n];
    variable.found = text(found.operands, found.results[0].WithPartials(found.reduced));
    return variable;
  }

 private:
  ValueId IdOf(std::string_view name) const {
    for (ValueId id = 0; id < static_cast<ValueId>(graph_.values().size()); ++id)
      if (graph_.value(id).name == name) return id;
    return kNoValue;
  }

  const Graph graph_, propagated_;
  const std::vector<std::optional<Choice>> choices_;
  const Fold fold_;
  const FoldedNodes nodes_;
  LayoutSpace space_;
  const std::optional<SolvedLayouts> solved_;
};

}  // namespace

Svg DrawSearch() {
  Search search(R"(mesh [x=2]
func f(%x: f32[64,8] {x,_}, %g: f32[64,8] {_,x}) {
  %h = tanh %x
  %b = add %h, %g
  return b=%b
})");
  const std::vector<Variable> columns = {search.Value("x"), search.Op("h"), search.Value("h"), search.Op("b"),
                                         search.Value("b")};
  const Variable g = search.Value("g");
  constexpr double kGap = 26, kLeft = 20, kTop = 50;
  const double width = kLeft * 2 + static_cast<double>(columns.size()) * (kWidth + kGap) - kGap;
  double tallest = 0;
  for (const Variable& column : columns) tallest = std::max(tallest, column.Height());
  const double height = kTop + tallest + 130;
  Svg svg(
      width, height, "The search for layouts",
      "A value has a variable whose states are its layouts, an op one whose states are the ways to run it. Between "
      "an op and a value lies a table of costs. What costs least in all is filled.");
  const double middle = kTop + tallest / 2;
  double x = kLeft;
  for (size_t i = 0; i < columns.size(); ++i) {
    if (i > 0) svg.Line({x - kGap, middle}, {x, middle}, kTable);
    columns[i].Draw(svg, {x, middle - columns[i].Height() / 2});
    x += kWidth + kGap;
  }
  const double add = kLeft + 3 * (kWidth + kGap), below = kTop + tallest + 60;
  svg.Line({add + kWidth / 2, middle + columns[3].Height() / 2}, {add + kWidth / 2, below - 24}, kTable);
  g.Draw(svg, {add, below});
  svg.Text({kLeft, below + 12}, "each line is a table: what it costs to bring the value",
           {.paint = Paint::kMuted});
  svg.Text({kLeft, below + 30}, "from one state to the other; filled is the least sum",
           {.paint = Paint::kMuted});
  return svg;
}

}  // namespace meshwork::docs
