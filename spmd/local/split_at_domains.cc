#include "meshwork/spmd/local/split_at_domains.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/ir/collective_spec.h"
#include "meshwork/ir/regions.h"
#include "meshwork/ir/rewrite.h"
#include "meshwork/ir/row.h"
#include "meshwork/ops/control/control_flow.h"

namespace meshwork {
namespace {

PartialSet WithoutAxes(PartialSet partials, AxisSet axes) {
  partials.erase(std::remove_if(partials.begin(), partials.end(),
                                [&](const Partial& partial) { return axes.Contains(partial.axis); }),
                 partials.end());
  return partials;
}

class Splitter {
 public:
  Splitter(const Graph& local, AxisSet across) : local_(local), across_(across), rewriter_(local) {}

  Graph Run() && {
    for (const Node& node : local_.nodes()) {
      const CollectiveSpec collective = CollectiveOf(node);
      if (collective.reduces() && IsMixed(collective.axes)) Split(node, collective);
      else rewriter_.Copy(node);
    }
    return std::move(rewriter_).Finish();
  }

 private:
  // The op of a step.
  enum class StepKind { kAllReduce, kReduceScatter, kSlice };
  struct Step {
    StepKind kind;
    AxisList axes;
  };

  bool Crosses(int axis) const { return across_.Contains(axis); }
  bool IsMixed(const AxisList& axes) const {
    const auto count = std::count_if(axes.begin(), axes.end(), [this](int axis) { return Crosses(axis); });
    return count > 0 && count < std::ssize(axes);
  }
  AxisList Part(const AxisList& axes, bool crosses) const {
    AxisList part;
    for (int axis : axes)
      if (Crosses(axis) == crosses) part.push_back(axis);
    return part;
  }

  void Split(const Node& node, const CollectiveSpec& collective) {
    std::vector<ValueInfo> infos;
    for (ValueId id : node.operands) infos.push_back(local_.value(id));
    absl::InlinedVector<ValueId, 4> values = rewriter_.Map(node.operands);
    for (const Step& step : StepsOf(node, collective)) {
      for (size_t i = 0; i < infos.size(); ++i) {
        const ValueInfo& result = local_.value(node.results[i]);
        Apply(step, collective.dim, result, infos[i]);
        if (*infos[i].layout == *result.layout) infos[i] = result;
      }
      Node made = node;
      made.row = &GetOp(NameOf(step.kind));
      made.attrs = AttrsOf(step, collective);
      made.results.clear();
      if (step.kind == StepKind::kSlice) {  // takes one value
        for (size_t i = 0; i < infos.size(); ++i) values[i] = Emit(made, {&values[i], 1}, {infos[i]})[0];
      } else {
        values = Emit(made, values, infos);
      }
    }
    for (size_t i = 0; i < node.results.size(); ++i) {
      MESHWORK_CHECK(*infos[i].layout == *local_.value(node.results[i]).layout);
      rewriter_.Set(node.results[i], values[i]);
    }
  }

  absl::InlinedVector<ValueId, 4> Emit(Node node, std::span<const ValueId> operands,
                                       std::vector<ValueInfo> results) {
    node.operands.assign(operands.begin(), operands.end());
    const int index = rewriter_.to().AddNode(std::move(node), std::move(results));
    const auto& made = rewriter_.to().nodes()[index].results;
    return {made.begin(), made.end()};
  }

  std::vector<Step> StepsOf(const Node& node, const CollectiveSpec& collective) const {
    const AxisList inner = Part(collective.axes, false), outer = Part(collective.axes, true);
    std::vector<Step> steps = {{StepKind::kAllReduce, inner}};
    if (collective.kind == CollectiveKind::kAllReduce) {
      steps.push_back({StepKind::kAllReduce, outer});
    } else if (!AllNest(node, collective)) {
      steps.push_back({StepKind::kAllReduce, outer});
      steps.push_back({StepKind::kSlice, collective.axes});
    } else {
      for (int axis : collective.axes) {
        const StepKind kind = Crosses(axis) ? StepKind::kReduceScatter : StepKind::kSlice;
        if (steps.back().kind != kind) steps.push_back({kind, {}});
        steps.back().axes.push_back(axis);
      }
    }
    return steps;
  }

  // Whether the blocks of each result are the blocks after every step on the way, cut further.
  bool AllNest(const Node& node, const CollectiveSpec& collective) const {
    for (size_t i = 0; i < node.results.size(); ++i) {
      const ValueInfo& to = local_.value(node.results[i]);
      const auto dim = static_cast<int>(collective.dim);
      const AxisList& axes = to.layout->dim(dim);
      for (size_t count = axes.size() - collective.axes.size(); count < axes.size(); ++count)
        if (!Nests(local_.mesh(), axes, count, to.global.shape[static_cast<size_t>(dim)])) return false;
    }
    return true;
  }

  // Turns `info` of an operand of the step into that of its result.
  void Apply(const Step& step, int64_t dim, const ValueInfo& result, ValueInfo& info) const {
    info.name.clear();
    info.location = result.location;
    info.gather = result.gather;
    Layout layout = *info.layout;
    if (step.kind != StepKind::kSlice)
      layout = layout.WithPartials(WithoutAxes(layout.partials(), AxisSet(step.axes)));
    if (step.kind != StepKind::kAllReduce) {
      AxisList axes = layout.dim(static_cast<int>(dim));
      axes.insert(axes.end(), step.axes.begin(), step.axes.end());
      layout = layout.WithDim(static_cast<int>(dim), axes);
    }
    info.type.shape = layout.LocalShape(info.global.shape);
    info.layout = std::move(layout);
  }

  static std::string_view NameOf(StepKind kind) {
    switch (kind) {
      case StepKind::kAllReduce: return CollectiveOp(CollectiveKind::kAllReduce);
      case StepKind::kReduceScatter: return CollectiveOp(CollectiveKind::kReduceScatter);
      case StepKind::kSlice: break;
    }
    return "shard_slice";
  }

  static Attrs AttrsOf(const Step& step, const CollectiveSpec& collective) {
    Attrs attrs;
    attrs.Set("axes", step.axes);
    if (step.kind != StepKind::kAllReduce) attrs.Set("dim", collective.dim);
    if (step.kind != StepKind::kSlice) attrs.Set("op", collective.op);
    return attrs;
  }

  const Graph& local_;
  const AxisSet across_;
  Rewriter rewriter_;
};

}  // namespace

Graph SplitAtDomains(const Graph& local, const Placement& placement) {
  const Placement fine = Placement::Create(local.mesh(), placement.num_domains()).value();
  MESHWORK_CHECK(fine.mesh() == local.mesh(), "{} for {}", placement.ToString(), local.mesh().ToString());
  return WithRegions(local, [&](const Graph& body) { return Splitter(body, fine.across()).Run(); });
}

}  // namespace meshwork
