#include "meshwork/spmd/refused_gathers.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/ir/row.h"
#include "meshwork/ops/control/loops.h"
#include "meshwork/spmd/gather_in_program.h"
#include "meshwork/spmd/planner/cut.h"
#include "meshwork/spmd/planner/replication.h"
#include "meshwork/spmd/planner/strided.h"
#include "meshwork/spmd/way_around.h"

namespace meshwork {
namespace {

// Per value, whether it is gathered in `refused`, or computed from such a value.
std::vector<bool> ComeOf(const std::vector<RefusedGather>& refused, const Graph& graph) {
  std::vector<bool> comes(graph.values().size(), false);
  for (const RefusedGather& gather : refused) comes[gather.value] = true;
  bool has_changed = true;
  const auto mark = [&](ValueId id) {
    has_changed |= !comes[id];
    comes[id] = true;
  };
  while (std::exchange(has_changed, false)) {  // again for what goes around loops
    for (const Node& node : graph.nodes()) {
      const auto of_gather = [&](ValueId id) { return comes[id]; };
      if (!std::any_of(node.operands.begin(), node.operands.end(), of_gather)) continue;
      for (ValueId id : node.results) mark(id);
      if (LeavesCarry(node) && comes[node.operands[0]]) mark(node.operands[1]);
    }
  }
  return comes;
}

class Explainer {
 public:
  Explainer(const GatherInProgram& at, int64_t num_refused, const Topology& topology, int64_t budget)
      : at_(at), num_refused_(num_refused), topology_(topology), budget_(budget) {}

  std::string Text() const {
    std::string text = fmt::format(
        "{}: {} would be gathered whole on every device, {} B, more than the {} B that are gathered unasked "
        "(CompileOptions::replication_budget).\n  {}.\n  {}\n  {}",
        Where(), WithLines(at_.gather().value), at_.BytesOf(at_.gather().value), budget_, Why(),
        CheapestWayAround(at_, num_refused_, topology_, budget_), HowToAsk());
    if (num_refused_ > 1) text += fmt::format("\n  Others like it: {}.", num_refused_ - 1);
    return text;
  }

 private:
  std::string Where() const {
    return at_.gather().node >= 0 ? at_.global().Describe(at_.gather().node)
                                  : "update of %" + at_.global().value(at_.gather().variable).name;
  }

  // "%h f32[4,6] {x,_} (mlp.cc:12; it lies as %x {x,_}, mlp.cc:9)".
  std::string WithLines(ValueId id) const {
    const Layout& layout = id == at_.gather().value ? at_.gather().from : at_.LayoutOf(id);
    std::string lines = at_.global().value(id).name.empty() ? "" : at_.LineOf(id);
    if (const std::optional<ValueId> root = at_.Root(id); root.has_value() && *root != id) {
      if (!lines.empty()) lines += "; ";
      lines += fmt::format("it lies as {} {}", at_.NameOf(*root), at_.LayoutOf(*root).ToString());
      if (!at_.global().value(*root).name.empty()) lines += ", " + at_.LineOf(*root);
    }
    return fmt::format("{} {} {}{}", at_.NameOf(id), at_.global().value(id).type.ToString(),
                       layout.ToString(), lines.empty() ? "" : fmt::format(" ({})", lines));
  }

  std::string Why() const {
    if (at_.gather().node < 0)
      return fmt::format("The variable is kept as {}", at_.LayoutOf(at_.gather().variable).ToString());
    const Rule rule = RuleOf(at_.global(), at_.Reader());
    for (size_t i = 0; i < at_.Reader().operands.size(); ++i)
      if (at_.Reader().operands[i] == at_.gather().value)
        if (std::string why = WhyOperand(rule, rule.operands[i]); !why.empty()) return why;
    for (size_t i = 0; i < at_.Reader().results.size(); ++i)
      if (at_.Reader().results[i] == at_.gather().value)
        if (std::string why = WhyResult(rule, rule.results[i]); !why.empty()) return why;
    return fmt::format("The layouts of {} leave no other way", rule.ToString());
  }

  std::string WhyOperand(const Rule& rule, const LetterList& letters) const {
    const Mesh& mesh = at_.global().mesh();
    for (int d = 0; d < at_.gather().from.rank(); ++d) {
      const AxisList axes = AxesOf(at_.gather().from, d);
      if (axes.empty()) continue;
      if (letters[d] == kNoLetter || rule.letters[letters[d]].whole)
        return fmt::format("It works along dim {}, which must be whole", d);
      const Letter& letter = rule.letters[letters[d]];
      if (at_.gather().from.IsStrided(d) && !MayBeStrided(*at_.Reader().row, letter))
        return fmt::format("Dim {} is strided, and it works on blocks", d);
      if (letter.must_divide && letter.size % mesh.GroupSize(axes) != 0)
        return fmt::format("Along dim {} it needs blocks of equal size, and {} does not divide {}", d,
                           mesh.AxesToString(axes), letter.size);
      if (std::string clash = Clash(rule, letters[d], axes); !clash.empty())
        return fmt::format("Its dim {}, letter {} of {}, lies on {}, and {}", d, letter.name, rule.ToString(),
                           mesh.AxesToString(axes), clash);
    }
    return "";
  }

  // "so does letter m, dim 0 of %h f32[4,6] {x,_} (mlp.cc:12)".
  std::string Clash(const Rule& rule, int letter, const AxisList& axes) const {
    auto find = [&](const std::vector<LetterList>& lists, std::span<const ValueId> values) -> std::string {
      for (size_t i = 0; i < lists.size(); ++i) {
        if (values[i] == at_.gather().value) continue;
        for (int d = 0; d < static_cast<int>(lists[i].size()); ++d) {
          const AxisList other = AxesOf(at_.LayoutOf(values[i]), d);
          const bool is_same = lists[i][d] == letter;
          if (other.empty() || (is_same ? other == axes : !AxisSet(other).Intersects(AxisSet(axes))))
            continue;
          const std::string_view dim_letter = lists[i][d] == kNoLetter
                                                  ? std::string_view("1")
                                                  : std::string_view(&rule.letters[lists[i][d]].name, 1);
          return fmt::format("letter {}, dim {} of {}, on {}", dim_letter, d, WithLines(values[i]),
                             at_.global().mesh().AxesToString(other));
        }
      }
      return "";
    };
    if (std::string clash = find(rule.operands, at_.Reader().operands); !clash.empty()) return clash;
    return find(rule.results, at_.Reader().results);
  }

  std::string WhyResult(const Rule& rule, const LetterList& letters) const {
    for (int d = 0; d < at_.gather().from.rank(); ++d) {
      const AxisList axes = AxesOf(at_.gather().from, d);
      if (axes.empty()) continue;
      const std::string_view letter = letters[d] == kNoLetter
                                          ? std::string_view("1")
                                          : std::string_view(&rule.letters[letters[d]].name, 1);
      return fmt::format("Letter {} of {} runs along {}, and the result is wanted as {}", letter,
                         rule.ToString(), at_.global().mesh().AxesToString(axes),
                         at_.LayoutOf(at_.gather().value).ToString());
    }
    return "";
  }

  std::string HowToAsk() const {
    const bool is_variable =
        std::any_of(at_.global().arguments().begin(), at_.global().arguments().end(),
                    [&](const Argument& a) { return a.is_variable && a.value == at_.gather().value; });
    // As the text form of a program may have it after the value's name or op.
    const ValueInfo& info = at_.global().value(at_.gather().value);
    std::string annotation = info.type.ToString();
    if (info.layout.has_value()) annotation += " " + LayoutPin{*info.layout, info.modes}.ToString();
    if (is_variable)
      return fmt::format(
          "If it is meant, say so: annotate {0} `{1} gather=on_use` (C++: Gathering::kOnUse), to gather it "
          "for each op that reads it, or `{1} gather=allowed` (C++: AllowGather).",
          at_.NameOf(at_.gather().value), annotation);
    if (info.name.empty() && !info.location.scope.empty())
      return fmt::format(
          "It is made within \"{}\". If it is meant, say so: let {} B be gathered unasked (SessionOptions::compile, "
          "CompileOptions::replication_budget; meshwork compile --replication-budget={}).",
          info.location.scope.str(), at_.BytesOf(at_.gather().value), at_.BytesOf(at_.gather().value));
    return fmt::format(
        "If it is meant, say so: annotate {} `{} gather=allowed` (C++: AllowGather), or relayout it to {} "
        "before it is read (C++: Relayout).",
        at_.NameOf(at_.gather().value), annotation,
        Layout::Replicated(at_.global().mesh(), info.type.rank()).ToString());
  }

  const GatherInProgram& at_;
  const int64_t num_refused_;
  const Topology& topology_;
  const int64_t budget_;
};

}  // namespace

std::vector<std::string> TakeOutUsualGathers(const Graph& pinned, const Graph& laid_out,
                                             std::vector<RefusedGather>& refused) {
  if (refused.empty()) return {};
  const Replication replication(pinned, 0);
  const std::vector<bool> comes = ComeOf(refused, pinned);
  const auto is_of_variable = [&](const Shape& shape) {
    return std::any_of(pinned.arguments().begin(), pinned.arguments().end(), [&](const Argument& argument) {
      return argument.is_variable && pinned.value(argument.value).type.shape == shape;
    });
  };
  const auto lies_whole = [&](ValueId id, const Type& type) {
    const ValueInfo& info = laid_out.value(id);
    return info.type.shape == type.shape && info.type.bytes() >= type.bytes() && !comes[id] &&
           info.layout.has_value() && info.layout->IsReplicated();
  };
  std::vector<std::string> lines;
  std::erase_if(refused, [&](const RefusedGather& gather) {
    const Type& type = pinned.value(gather.value).type;
    if (gather.node < 0 || replication.IsBoundWeight(gather.value) || is_of_variable(type.shape))
      return false;
    for (ValueId id = 0; id < static_cast<ValueId>(pinned.values().size()); ++id) {
      if (!lies_whole(id, type)) continue;
      const GatherInProgram at(pinned, gather);
      lines.push_back(fmt::format("{} is gathered whole on every device, {} B, as {} lies whole anyway",
                                  at.NameOf(gather.value), type.bytes(), at.NameOf(id)));
      return true;
    }
    return false;
  });
  return lines;
}

absl::Status ReplicationError(const Graph& global, const std::vector<RefusedGather>& refused,
                              const Topology& topology, int64_t budget) {
  const auto bytes = [&](const RefusedGather& gather) { return global.value(gather.value).type.bytes(); };
  const GatherInProgram at(
      global, *std::max_element(refused.begin(), refused.end(),
                                [&](const auto& a, const auto& b) { return bytes(a) < bytes(b); }));
  return absl::InvalidArgumentError(Explainer(at, std::ssize(refused), topology, budget).Text());
}

}  // namespace meshwork
