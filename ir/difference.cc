#include "meshwork/ir/difference.h"

#include <algorithm>

#include "meshwork/base/status.h"
#include "meshwork/ir/row.h"
#include "meshwork/ir/text.h"

namespace meshwork {
namespace {

class Comparison {
 public:
  Comparison(const Graph& a, const Graph& b) : a_(a), b_(b), in_b_(a.values().size(), kNoValue) {}

  std::string Run() {
    Expect("the mesh", a_.mesh().ToString(), b_.mesh().ToString());
    Expect("the name", a_.name, b_.name);
    Expect("the number of arguments", a_.arguments().size(), b_.arguments().size());
    for (size_t i = 0; i < a_.arguments().size() && same(); ++i) CompareArguments(i);
    for (size_t i = 0; i < std::min(a_.nodes().size(), b_.nodes().size()) && same(); ++i) CompareNodes(i);
    Expect("the number of nodes", a_.nodes().size(), b_.nodes().size());
    Expect("the number of updates", a_.updates().size(), b_.updates().size());
    for (size_t i = 0; i < a_.updates().size() && same(); ++i) CompareUpdates(i);
    Expect("the number of outputs", a_.outputs().size(), b_.outputs().size());
    for (size_t i = 0; i < a_.outputs().size() && same(); ++i) CompareOutputs(i);
    return difference_;
  }

 private:
  bool same() const { return difference_.empty(); }

  // Notes the difference, unless there is one already.
  template <typename T>
  void Expect(std::string_view what, const T& a, const T& b) {
    if (same() && !(a == b)) difference_ = fmt::format("{}: {}, not {}", what, a, b);
  }

  void CompareArguments(size_t i) {
    const Argument &a = a_.arguments()[i], &b = b_.arguments()[i];
    const std::string where = fmt::format("argument {}", i);
    Expect(where + " is a variable", a.is_variable, b.is_variable);
    CompareValues(where, a.value, b.value);
  }

  void CompareNodes(size_t i) {
    const Node &a = a_.nodes()[i], &b = b_.nodes()[i];
    const std::string where = fmt::format("node {} ({})", i, a.row->name);
    Expect(where + ": the op", a.row->name, b.row->name);
    Expect(where + ": the number of operands", a.operands.size(), b.operands.size());
    Expect(where + ": the number of results", a.results.size(), b.results.size());
    for (size_t k = 0; k < a.operands.size() && same(); ++k)
      CompareUses(fmt::format("{}: operand {}", where, k), a.operands[k], b.operands[k]);
    if (same()) CompareAttrs(where, a.attrs, b.attrs);
    Expect(where + ": the number of regions", a.regions.size(), b.regions.size());
    for (size_t k = 0; k < a.regions.size() && same(); ++k) {
      const std::string difference = FirstDifference(*a.regions[k], *b.regions[k]);
      if (!difference.empty()) difference_ = fmt::format("{}: region {}: {}", where, k, difference);
    }
    for (size_t k = 0; k < a.results.size() && same(); ++k)
      CompareValues(fmt::format("{}: result {}", where, k), a.results[k], b.results[k]);
  }

  void CompareAttrs(const std::string& where, const Attrs& a, const Attrs& b) {
    Expect(where + ": the number of attributes", a.entries().size(), b.entries().size());
    for (size_t k = 0; k < a.entries().size() && same(); ++k) {
      const auto& [name, value] = a.entries()[k];
      const auto& [other_name, other] = b.entries()[k];
      Expect(fmt::format("{}: attribute {}", where, k), name, other_name);
      const std::string of = fmt::format("{}: attribute \"{}\"", where, name);
      const bool names_axes =
          std::holds_alternative<AxisList>(value) || std::holds_alternative<LayoutPin>(value);
      if ((!names_axes || a_.mesh() == b_.mesh()) && SameAttr(value, other)) continue;
      // Compared as texts, because the meshes may be cut differently.
      Expect(of + ": the kind", value.index(), other.index());
      Expect(of, PrintAttr(a_.mesh(), value), PrintAttr(b_.mesh(), other));
      // Texts do not show the bits of a NaN.
      if (!names_axes) Expect(of + ": the bits are the same", true, false);
    }
  }

  void CompareUpdates(size_t i) {
    const std::string where = fmt::format("update {}", i);
    Expect(where + ": the argument", a_.updates()[i].argument, b_.updates()[i].argument);
    CompareUses(where + ": the new value", a_.updates()[i].value, b_.updates()[i].value);
  }

  void CompareOutputs(size_t i) {
    const std::string where = fmt::format("output {}", i);
    Expect(where + ": the name", a_.outputs()[i].name, b_.outputs()[i].name);
    CompareUses(where + ": the value", a_.outputs()[i].value, b_.outputs()[i].value);
  }

  // Two definitions; from here on they are the same value.
  void CompareValues(const std::string& where, ValueId a_id, ValueId b_id) {
    const ValueInfo &a = a_.value(a_id), &b = b_.value(b_id);
    Expect(where + ": the name", a.name, b.name);
    Expect(where + ": the type", a.type.ToString(), b.type.ToString());
    Expect(where + ": the global type", a.global.ToString(), b.global.ToString());
    auto layout = [](const ValueInfo& info) {
      return info.layout.has_value() ? LayoutPin{*info.layout, info.modes}.ToString() : "none";
    };
    Expect(where + ": the layout", layout(a), layout(b));
    auto gather = [](const ValueInfo& info) {
      return info.gather == Gathering::kWithinBudget ? "none" : GatheringName(info.gather);
    };
    Expect(where + ": the gather", gather(a), gather(b));
    in_b_[a_id] = b_id;
  }

  void CompareUses(const std::string& where, ValueId a, ValueId b) {
    if (in_b_[a] != b) Expect(where, NameOf(a_, a), NameOf(b_, b));
  }

  // "%w", "result 0 of node 3".
  static std::string NameOf(const Graph& graph, ValueId id) {
    const ValueInfo& info = graph.value(id);
    if (!info.name.empty()) return "%" + info.name;
    const auto& results = graph.nodes()[info.node].results;
    return fmt::format("result {} of node {}",
                       std::find(results.begin(), results.end(), id) - results.begin(), info.node);
  }

  const Graph &a_, &b_;
  std::vector<ValueId> in_b_;  // per value of a: which one of b it is
  std::string difference_;
};

}  // namespace

std::string FirstDifference(const Graph& a, const Graph& b) { return Comparison(a, b).Run(); }

}  // namespace meshwork
