#include "meshwork/ops/control/rebatch.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/ir/regions.h"
#include "meshwork/ir/row.h"
#include "meshwork/ops/control/loops.h"
#include "meshwork/ops/control/marks.h"

namespace meshwork {
namespace {

// Union-find over all dims of all values; classes are dims that are one dim of the program.
class DimClasses {
 public:
  explicit DimClasses(const Graph& graph) : first_(graph.values().size()) {
    int next = 0;
    for (size_t i = 0; i < graph.values().size(); ++i) {
      first_[i] = next;
      next += graph.values()[i].type.rank();
    }
    parent_.resize(next);
    std::iota(parent_.begin(), parent_.end(), 0);
  }
  size_t size() const { return parent_.size(); }
  int Find(ValueId value, int dim) { return Root(first_[value] + dim); }
  void Join(ValueId a, int i, ValueId b, int j) { parent_[Find(a, i)] = Find(b, j); }

 private:
  int Root(int x) {
    while (parent_[x] != x) x = parent_[x] = parent_[parent_[x]];
    return x;
  }
  std::vector<int> first_, parent_;
};

// Whether a dim that is seen through windows has the size of the result's dim, for every size.
bool KeepsSize(const Rule& rule, const Window& window, int64_t size, int letter) {
  const auto along = std::count_if(rule.windows.begin(), rule.windows.end(), [&](const WindowedDim& dim) {
    return rule.operands[dim.operand][dim.dim] == letter;
  });
  return along == 1 && size > 1 && size == rule.letters[letter].size && std::abs(window.stride) == 1 &&
         window.spacing == 1;
}

// Dims under one letter are one dim of the program. If their sizes differ, as in a reshape, they grow by the same
// factor. A dim that an op cuts, pads or joins to others has a size of its own.
void JoinLetters(const Graph& graph, const Node& node, const Rule& rule, DimClasses& classes) {
  struct Use {
    ValueId value;
    int dim;
  };
  std::vector<std::optional<Use>> seen(rule.letters.size());
  auto visit = [&](ValueId value, size_t d, int letter) {
    if (auto& use = seen[letter]) classes.Join(value, static_cast<int>(d), use->value, use->dim);
    else use = Use{value, static_cast<int>(d)};
  };
  for (size_t i = 0; i < node.operands.size(); ++i) {
    for (size_t d = 0; d < rule.operands[i].size(); ++d) {
      const int letter = rule.operands[i][d];
      if (letter == kNoLetter) continue;
      const Window* const window = rule.FindWindow(i, d);
      if (window == nullptr || KeepsSize(rule, *window, graph.value(node.operands[i]).type.shape[d], letter))
        visit(node.operands[i], d, letter);
    }
  }
  for (size_t i = 0; i < node.results.size(); ++i)
    for (size_t d = 0; d < rule.results[i].size(); ++d)
      if (rule.results[i][d] != kNoLetter) visit(node.results[i], d, rule.results[i][d]);
}

// Joins the dim of a gather's operand and the dim of a scatter_add's result, if they have the same indices and the
// tensors have the same shape. The gradient of a gather is such a scatter_add.
void JoinIndexed(const Graph& graph, DimClasses& classes) {
  const auto dim_of = [](const Node& node) { return node.attrs.Get<int64_t>("dim"); };
  std::multimap<std::pair<ValueId, int64_t>, ValueId> gathered;  // by indices and dim
  for (const Node& node : graph.nodes())
    if (node.row->name == "gather")
      gathered.emplace(std::pair(node.operands[1], dim_of(node)), node.operands[0]);
  if (gathered.empty()) return;
  for (const Node& node : graph.nodes()) {
    if (node.row->name != "scatter_add") continue;
    const auto d = static_cast<int>(dim_of(node));
    const auto [begin, end] = gathered.equal_range({node.operands[1], d});
    for (auto it = begin; it != end; ++it)
      if (graph.value(it->second).type.shape == graph.value(node.results[0]).type.shape)
        classes.Join(it->second, d, node.results[0], d);
  }
}

// Joins the dims of x and of the gradient of x[i]. The gradient is a pad, which puts one element back to its place, so
// its result is as long as x.
void JoinPlaces(const Graph& graph, DimClasses& classes) {
  const auto line_of = [](const Node& node) {
    return std::pair(node.location.file.str(), node.location.line);
  };
  std::multimap<std::pair<std::string, int>, const Node*> slices;
  for (const Node& node : graph.nodes())
    if (node.row->name == "slice") slices.emplace(line_of(node), &node);
  if (slices.empty()) return;
  using Ints = std::vector<int64_t>;
  for (const Node& node : graph.nodes()) {
    if (node.row->name != "pad") continue;
    const ValueId part = node.operands[0], whole = node.results[0];
    const auto [begin, end] = slices.equal_range(line_of(node));
    for (auto it = begin; it != end; ++it) {
      const Node& slice = *it->second;
      if (graph.value(slice.operands[0]).type.shape != graph.value(whole).type.shape ||
          graph.value(slice.results[0]).type.shape != graph.value(part).type.shape ||
          slice.attrs.Get<Ints>("start") != node.attrs.Get<Ints>("low"))
        continue;
      for (int d = 0; d < graph.value(whole).type.rank(); ++d)
        if (graph.value(part).type.shape[d] == 1) classes.Join(slice.operands[0], d, whole, d);
    }
  }
}

// Refuses ops that no global program has but a text may: collectives, and ops of manual regions outside of one.
absl::Status CheckRules(const Graph& graph) {
  for (const Node& node : graph.nodes()) {
    if (node.row->rule == nullptr && !IsControl(node))
      return InvalidArgument("{}: it is no op of a global program, which alone can run with another batch.",
                             graph.Describe(node.row->name, node.location));
    if (IsManual(node)) continue;
    for (const auto& region : node.regions) MESHWORK_RETURN_IF_ERROR(CheckRules(*region));
  }
  return absl::OkStatus();
}

// The length of a loop does not follow the batch, so its operands may no longer fit.
absl::Status CheckBodies(const Graph& graph, int64_t to) {
  for (const Node& node : graph.nodes()) {
    if (!IsControl(node)) continue;
    const absl::StatusOr<std::vector<Type>> types = InferControl(node, TypesOf(graph, node.operands));
    if (!types.ok())
      return InvalidArgument("{}: it cannot run with a batch of {}: {}",
                             graph.Describe(node.row->name, node.location), to, MessageOf(types.status()));
    MESHWORK_CHECK(*types == TypesOf(graph, node.results), "a loop whose results were resized otherwise");
    for (const auto& region : node.regions) MESHWORK_RETURN_IF_ERROR(CheckBodies(*region, to));
  }
  return absl::OkStatus();
}

// By how much the dims of a class grow: new / old, in lowest terms.
struct Growth {
  int64_t to = 1, from = 1;

  static Growth Of(int64_t from, int64_t to) {
    const int64_t divisor = std::max<int64_t>(std::gcd(from, to), 1);
    return from == 0 ? Growth() : Growth{to / divisor, from / divisor};
  }
  bool operator==(const Growth&) const = default;
};

// The number of parts into which MeanOverMicrobatches cuts the batch, before and after.
struct Parts {
  int64_t from, to;
};

struct BatchCut {
  ValueId batch, parts;  // [b,..] and [b / parts, parts, ..]
};

// The cut that the node makes, if it cuts the batch of `from` into microbatches or is the gradient of such a node.
std::optional<BatchCut> BatchCutOf(const Graph& graph, const Node& node, int64_t from) {
  if (node.row->name != "reshape" || node.location.within == nullptr ||
      std::string_view(node.location.within) != kMicrobatches)
    return std::nullopt;
  BatchCut cut{node.operands[0], node.results[0]};
  if (graph.value(cut.batch).type.rank() > graph.value(cut.parts).type.rank())
    std::swap(cut.batch, cut.parts);
  return graph.value(cut.batch).type.shape[0] == from ? std::optional(cut) : std::nullopt;
}

// Makes the same program for another batch. First every class of dims gets its growth: dims of arguments have a known
// one, and dims of results follow from the operands, as far as these are known. A dim that a generator (constant, iota)
// makes has the growth of the dims that it meets. If it meets none, its size stays, unless it could be the batch, which
// is an error. With `parts`, the batch grows by more parts of the same size, and loops over the parts run longer by the
// same factor.
class Rebatcher {
 public:
  Rebatcher(const Graph& graph, int64_t from, int64_t to, const std::optional<Parts>& parts)
      : graph_(graph), from_(from), to_(to), parts_(parts), classes_(graph) {}

  absl::StatusOr<Graph> Make() {
    for (const Node& node : graph_.nodes()) {
      rules_.push_back(RuleOf(graph_, node));
      if (parts_.has_value() && BatchCutOf(graph_, node, from_).has_value()) {
        Rule& rule = rules_.back();
        rule.operands[0][0] = rule.results[0][0] = kNoLetter;
        (rule.operands[0].size() > rule.results[0].size() ? rule.operands : rule.results)[0][1] = kNoLetter;
      }
      if (parts_.has_value() && IsMark(node, Mark::kSlice))
        slices_.emplace_back(LoopOf(node), node.operands[0]);
      JoinLetters(graph_, node, rules_.back(), classes_);
    }
    JoinIndexed(graph_, classes_);
    JoinPlaces(graph_, classes_);
    for (const VariableUpdate& update : graph_.updates()) {
      const ValueId variable = graph_.arguments()[update.argument].value;
      for (int d = 0; d < graph_.value(variable).type.rank(); ++d)
        classes_.Join(variable, d, update.value, d);
    }
    growth_.resize(classes_.size());
    if (parts_.has_value()) GrowParts();
    MESHWORK_RETURN_IF_ERROR(GrowArguments());
    MESHWORK_RETURN_IF_ERROR(KeepGivenSizes());
    MESHWORK_RETURN_IF_ERROR(Settle());
    return Build();
  }

 private:
  std::optional<Growth>& GrowthOf(ValueId value, int d) { return growth_[classes_.Find(value, d)]; }

  void GrowParts() {
    const Growth more = Growth::Of(parts_->from, parts_->to);
    for (const Node& node : graph_.nodes()) {
      const std::optional<BatchCut> cut = BatchCutOf(graph_, node, from_);
      if (!cut.has_value()) continue;
      GrowthOf(cut->batch, 0) = GrowthOf(cut->parts, 1) = more;
      GrowthOf(cut->parts, 0) = Growth();
    }
  }

  // The factor by which the loop of a mark runs longer; nothing while it is not known.
  std::optional<Growth> LongerBy(const Node& mark) {
    std::optional<Growth> longer = Growth();
    for (const auto& [loop, sliced] : slices_) {
      if (loop != LoopOf(mark)) continue;
      longer = GrowthOf(sliced, 0);
      if (longer.has_value()) break;
    }
    return longer;
  }

  // Gives the dims of arguments their growth. Error: a variable would grow.
  absl::Status GrowArguments() {
    for (const Argument& argument : graph_.arguments()) {
      const Shape& shape = graph_.value(argument.value).type.shape;
      if (!argument.is_variable && !shape.empty() && shape[0] == from_)
        GrowthOf(argument.value, 0) = Growth::Of(from_, to_);
    }
    for (const Argument& argument : graph_.arguments()) {
      const ValueInfo& info = graph_.value(argument.value);
      for (int d = 0; d < info.type.rank(); ++d) {
        std::optional<Growth>& growth = GrowthOf(argument.value, d);
        if (!growth.has_value()) growth = Growth();
        if (argument.is_variable && *growth != Growth())
          return InvalidArgument(
              "variable \"{}\" is {}; its dim {} is tied to the batch of {}, so the program "
              "cannot run with {}.",
              info.name, info.type.ToString(), d, from_, to_);
      }
    }
    return absl::OkStatus();
  }

  // Sizes that a function was given (ops/given_sizes.h) stay. Error: a given size is tied to the batch; numbers that
  // the function computed hold for the old size alone.
  absl::Status KeepGivenSizes() {
    for (size_t n = 0; n < graph_.nodes().size(); ++n) {
      const Node& node = graph_.nodes()[n];
      if (node.location.within == nullptr || std::string_view(node.location.within) == kMicrobatches)
        continue;
      for (const auto& [value, d] : Given(n)) {
        std::optional<Growth>& growth = GrowthOf(value, d);
        if (!growth.has_value()) growth = Growth();
        if (*growth == Growth()) continue;
        return InvalidArgument(
            "{}: dim {} of {} is tied to the batch of {}, and what it computes holds for this size alone, so the program "
            "cannot run with {}.",
            graph_.Describe(node.row->name, node.location), d, graph_.value(value).type.ToString(), from_,
            to_);
      }
    }
    return absl::OkStatus();
  }

  // Gives every class its growth. Error: a growth that cannot be determined.
  absl::Status Settle() {
    Follow();
    // What is left are dims that attributes give and that meet no known dim. Classes of such dims alone come first,
    // because the growth of others may follow from them.
    for (bool alone : {true, false}) {
      for (size_t n = 0; n < graph_.nodes().size(); ++n) {
        bool settled = false;
        for (const auto& [value, d] : Given(n)) {
          std::optional<Growth>& growth = GrowthOf(value, d);
          if (growth.has_value() || (alone && IsComputed(value, d))) continue;
          const Node& node = graph_.nodes()[n];
          if (HasSize(value, d, from_) && from_ != 1 && to_ != from_)
            return InvalidArgument(
                "{}: dim {} of {} has the size of the batch and meets no input, so whether it is the batch "
                "cannot be told and the program cannot run with {}; derive it from an input, or take sizes "
                "by dimension_size.",
                graph_.Describe(node.row->name, node.location), d, graph_.value(value).type.ToString(), to_);
          growth = Growth();
          settled = true;
        }
        if (settled && !alone) Follow();
      }
      Follow();
    }
    return absl::OkStatus();
  }

  // Whether a dim of the class has this size; a reshape joins dims of different sizes.
  bool HasSize(ValueId value, int d, int64_t size) {
    const int wanted = classes_.Find(value, d);
    for (size_t id = 0; id < graph_.values().size(); ++id) {
      const Shape& shape = graph_.value(static_cast<ValueId>(id)).type.shape;
      for (size_t i = 0; i < shape.size(); ++i)
        if (shape[i] == size && classes_.Find(static_cast<ValueId>(id), static_cast<int>(i)) == wanted)
          return true;
    }
    return false;
  }

  // The dims of a node's results whose sizes its attributes give.
  std::vector<std::pair<ValueId, int>> Given(size_t n) const {
    const Node& node = graph_.nodes()[n];
    std::vector<std::pair<ValueId, int>> dims;
    for (const AttrSpec& spec : node.row->attrs) {
      if (!spec.is_result_shape) continue;
      const int rank = graph_.value(node.results[0]).type.rank();
      for (int d = spec.kind == AttrKind::kInt ? rank - 1 : 0; d < rank; ++d)
        dims.emplace_back(node.results[0], d);
    }
    return dims;
  }

  // Whether the class has a dim whose size no attribute gives; its growth follows from other dims.
  bool IsComputed(ValueId value, int d) {
    if (computed_.empty()) {
      computed_.resize(growth_.size(), false);
      for (size_t n = 0; n < graph_.nodes().size(); ++n) {
        const auto given = Given(n);
        for (ValueId result : graph_.nodes()[n].results)
          for (int i = 0; i < graph_.value(result).type.rank(); ++i)
            if (std::find(given.begin(), given.end(), std::pair(result, i)) == given.end())
              computed_[classes_.Find(result, i)] = true;
      }
    }
    return computed_[classes_.Find(value, d)];
  }

  // Gives the results of nodes with known operands their growth, until nothing more follows.
  void Follow() {
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t n = 0; n < graph_.nodes().size(); ++n) changed |= FollowNode(n);
    }
  }

  bool FollowNode(size_t n) {
    const Node& node = graph_.nodes()[n];
    if (node.operands.empty()) return false;
    bool changed = FollowWindows(n) || FollowSplits(n);
    if (std::all_of(node.results.begin(), node.results.end(), [&](ValueId id) { return IsKnown(id); }))
      return changed;
    std::vector<Type> operands;
    for (ValueId id : node.operands) {
      const std::optional<Type> type = NewType(id);
      if (!type.has_value()) return changed;
      operands.push_back(*type);
    }
    for (const auto& [value, d] : Given(n))
      if (!GrowthOf(value, d).has_value()) return changed;
    if (parts_.has_value() && IsMark(node) && !LongerBy(node).has_value()) return changed;
    const absl::StatusOr<Attrs> attrs = NewAttrs(n, operands);
    if (!attrs.ok()) return changed;  // Build says why
    const absl::StatusOr<std::vector<Type>> results = node.row->infer({operands, {}, *attrs});
    if (!results.ok() || results->size() != node.results.size()) return changed;
    for (size_t r = 0; r < results->size(); ++r) {
      const Shape& before = graph_.value(node.results[r]).type.shape;
      for (size_t d = 0; d < before.size() && d < (*results)[r].shape.size(); ++d) {
        std::optional<Growth>& growth = GrowthOf(node.results[r], static_cast<int>(d));
        if (growth.has_value()) continue;
        growth = Growth::Of(before[d], (*results)[r].shape[d]);
        changed = true;
      }
    }
    return changed;
  }

  // A result dim that an attribute gives, with windows along its letter, stays if the windowed dims of the operands
  // stay.
  bool FollowWindows(size_t n) {
    const Node& node = graph_.nodes()[n];
    bool changed = false;
    for (const auto& [value, d] : Given(n)) {
      std::optional<Growth>& growth = GrowthOf(value, d);
      const int letter = rules_[n].results[0][d];
      if (growth.has_value() || letter == kNoLetter) continue;
      bool any = false, stays = true;
      for (const WindowedDim& dim : rules_[n].windows) {
        if (rules_[n].operands[dim.operand][dim.dim] != letter) continue;
        any = true;
        stays &= GrowthOf(node.operands[dim.operand], dim.dim) == Growth();
      }
      if (!any || !stays) continue;
      growth = Growth();
      changed = true;
    }
    return changed;
  }

  // Result dims of a reshape stay if the operand dims that they are made of stay: heads of 64 numbers are not a batch
  // of 64. A single unknown dim grows by the factor that the known dims leave.
  bool FollowSplits(size_t n) {
    const Node& node = graph_.nodes()[n];
    if (node.row->name != "reshape") return false;
    const ValueId from = node.operands[0], to = node.results[0];
    const Shape &a = graph_.value(from).type.shape, &b = graph_.value(to).type.shape;
    bool changed = false;
    for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
      // The shortest groups of dims of `from` and `to` with equally many elements.
      int64_t many = a[i], made = b[j];
      bool stays = GrowthOf(from, static_cast<int>(i)) == Growth();
      const size_t first = j, first_of = i;
      for (++i, ++j; many != made;) {
        if (many < made) {
          if (i == a.size()) return changed;
          stays &= GrowthOf(from, static_cast<int>(i)) == Growth();
          many *= a[i++];
        } else {
          if (j == b.size()) return changed;
          made *= b[j++];
        }
      }
      for (size_t d = first; stays && d < j; ++d) {
        std::optional<Growth>& growth = GrowthOf(to, static_cast<int>(d));
        if (growth.has_value()) continue;
        growth = Growth();
        changed = true;
      }
      changed |= FollowLast(from, first_of, i, to, first, j);
    }
    return changed;
  }

  // A reshape makes dims [i, i_end) into dims [j, j_end). If only one of the latter is unknown, it gets the growth that
  // is left.
  bool FollowLast(ValueId from, size_t i, size_t i_end, ValueId to, size_t j, size_t j_end) {
    Growth rest;
    for (; i < i_end; ++i) {
      const std::optional<Growth>& growth = GrowthOf(from, static_cast<int>(i));
      if (!growth.has_value()) return false;
      rest = Growth::Of(rest.from * growth->from, rest.to * growth->to);
    }
    int last = -1;
    for (; j < j_end; ++j) {
      const std::optional<Growth>& growth = GrowthOf(to, static_cast<int>(j));
      if (!growth.has_value() && last >= 0) return false;
      if (!growth.has_value()) last = static_cast<int>(j);
      else rest = Growth::Of(rest.from * growth->to, rest.to * growth->from);
    }
    if (last < 0) return false;
    GrowthOf(to, last) = rest;
    return true;
  }

  bool IsKnown(ValueId id) {
    for (int d = 0; d < graph_.value(id).type.rank(); ++d)
      if (!GrowthOf(id, d).has_value()) return false;
    return true;
  }

  // Nothing if the growth of a dim is not known, or its new size would not be a whole number.
  std::optional<Type> NewType(ValueId id) {
    Type type = graph_.value(id).type;
    for (int d = 0; d < type.rank(); ++d) {
      const std::optional<Growth>& growth = GrowthOf(id, d);
      if (!growth.has_value() || type.shape[d] % growth->from != 0) return std::nullopt;
      type.shape[d] = type.shape[d] / growth->from * growth->to;
    }
    return type;
  }

  // `what`: "argument "x"", or a node. Error: a dim would be no whole number.
  absl::Status CheckDivides(ValueId id, const std::string& what) {
    const Type& type = graph_.value(id).type;
    for (int d = 0; d < type.rank(); ++d) {
      const std::optional<Growth>& growth = GrowthOf(id, d);
      if (!growth.has_value() || type.shape[d] % growth->from == 0) continue;
      // Of a batch of `from`, this dim has shape[d] / from.
      const int64_t step = from_ / std::gcd(from_, type.shape[d]);
      return InvalidArgument(
          "{}: dim {} of {} is tied to the batch of {} and would be no whole number, so the program cannot "
          "run with {}{}.",
          what, d, type.ToString(), from_, to_,
          step < from_ && *growth == Growth::Of(from_, to_)
              ? fmt::format("; it runs with multiples of {}", step)
              : "");
    }
    return absl::OkStatus();
  }

  // The attributes of node n for operands of these types.
  absl::StatusOr<Attrs> NewAttrs(size_t n, const std::vector<Type>& operands) {
    const Node& node = graph_.nodes()[n];
    Attrs attrs = node.attrs;
    if (!Given(n).empty()) {
      Shape shape = graph_.value(node.results[0]).type.shape;
      for (size_t d = 0; d < shape.size(); ++d)
        if (const auto& growth = GrowthOf(node.results[0], static_cast<int>(d)); growth.has_value())
          shape[d] = shape[d] / growth->from * growth->to;
      attrs = WithResultShape(*node.row, std::move(attrs), shape);
    }
    if (parts_.has_value() && IsMark(node)) {
      const Growth longer = LongerBy(node).value_or(Growth());
      attrs.Set("length", MarkNumber(node, "length") / longer.from * longer.to);
    }
    if (node.row->name == "pad") KeepPlace(node, operands[0], attrs);
    if (node.row->resize == nullptr) return attrs;
    const std::vector<Type> old = TypesOf(graph_, node.operands), results = TypesOf(graph_, node.results);
    return node.row->resize({old, results, attrs}, operands);
  }

  // If one element is padded to a dim that grows, the element keeps its place, counted from the front.
  void KeepPlace(const Node& pad, const Type& operand, Attrs& attrs) {
    const Shape &part = graph_.value(pad.operands[0]).type.shape,
                &whole = graph_.value(pad.results[0]).type.shape;
    std::vector<int64_t> high = attrs.Get<std::vector<int64_t>>("high");
    for (size_t d = 0; d < whole.size(); ++d) {
      const std::optional<Growth>& growth = GrowthOf(pad.results[0], static_cast<int>(d));
      if (part[d] != 1 || operand.shape[d] != 1 || high[d] <= 0 || !growth.has_value()) continue;
      const int64_t more = whole[d] / growth->from * growth->to - whole[d];
      if (high[d] + more >= 0) high[d] += more;
    }
    attrs.Set("high", std::move(high));
  }

  absl::StatusOr<Graph> Build() {
    Graph copy(graph_.mesh());
    copy.name = graph_.name;
    std::vector<ValueId> map(graph_.values().size(), kNoValue);
    for (const Argument& argument : graph_.arguments()) {
      ValueInfo info = graph_.value(argument.value);
      const std::string what = fmt::format("argument \"{}\"", info.name);
      MESHWORK_RETURN_IF_ERROR(CheckDivides(argument.value, what));
      info.type = *NewType(argument.value);
      info.global = info.type;
      if (info.layout.has_value())
        MESHWORK_RETURN_IF_ERROR(Annotate(info.layout->Fits(info.type.shape), what + ": "));
      map[argument.value] = copy.AddArgument(std::move(info), argument.is_variable, argument.initializer);
    }
    for (size_t n = 0; n < graph_.nodes().size(); ++n) MESHWORK_RETURN_IF_ERROR(BuildNode(n, copy, map));
    for (const VariableUpdate& update : graph_.updates())
      copy.AddUpdate({update.argument, map[update.value], update.location});
    for (const OutputInfo& output : graph_.outputs()) copy.AddOutput({output.name, map[output.value]});
    return copy;
  }

  absl::Status BuildNode(size_t n, Graph& copy, std::vector<ValueId>& map) {
    const Node& node = graph_.nodes()[n];
    const std::string what = graph_.Describe(node.row->name, node.location);
    for (ValueId id : node.results) MESHWORK_RETURN_IF_ERROR(CheckDivides(id, what));
    absl::InlinedVector<ValueId, 4> operands;
    for (ValueId id : node.operands) operands.push_back(map[id]);
    const absl::StatusOr<Attrs> attrs = NewAttrs(n, TypesOf(copy, operands));
    if (!attrs.ok()) return Annotate(attrs.status(), what + ": ");
    MESHWORK_ASSIGN_OR_RETURN(int added, copy.TryAdd(*node.row, operands, *attrs, node.location));
    for (size_t i = 0; i < node.results.size(); ++i) {
      const ValueInfo& info = graph_.value(node.results[i]);
      const ValueId result = copy.nodes()[added].results[i];
      const Type& made = copy.value(result).type;
      if (const std::optional<Type> want = NewType(node.results[i]); want.has_value() && *want != made)
        return InvalidArgument(
            "{}: with a batch of {} its result is {}, and what it meets takes {}, so the "
            "program cannot run with {}.",
            what, to_, made.ToString(), want->ToString(), to_);
      if (info.layout.has_value())
        MESHWORK_RETURN_IF_ERROR(Annotate(info.layout->Fits(made.shape), what + ": "));
      ValueInfo& copied = copy.mutable_value(result);
      copied.name = info.name;
      copied.layout = info.layout;
      copied.modes = info.modes;
      copied.gather = info.gather;
      map[node.results[i]] = result;
    }
    return absl::OkStatus();
  }

  const Graph& graph_;
  const int64_t from_, to_;
  const std::optional<Parts> parts_;
  DimClasses classes_;
  std::vector<std::pair<int, ValueId>> slices_;  // with `parts`: loops, and the operands that they slice
  std::vector<Rule> rules_;                      // per node
  std::vector<std::optional<Growth>> growth_;    // per class, at its root
  std::vector<bool> computed_;                   // the same
};

// Without loops.
absl::StatusOr<Graph> RebatchOpened(const Graph& graph, int64_t from, int64_t to,
                                    const std::optional<Parts>& parts = {}) {
  if (from < 1 || to < 0)
    return InvalidArgument(
        "Rebatch: a batch of {} cannot become one of {}; the first is at least 1, the second at "
        "least 0.",
        from, to);
  return Rebatcher(graph, from, to, parts).Make();
}

// If the program cuts its batch into microbatches, and their number does not divide `to`: the new number of
// microbatches, which divides `to`. It is the smallest such number that is not below the old one (or `to`).
std::optional<Parts> OtherParts(const Graph& graph, int64_t from, int64_t to) {
  std::optional<Parts> parts;
  for (const Node& node : graph.nodes()) {
    const std::optional<BatchCut> cut = BatchCutOf(graph, node, from);
    if (!cut.has_value()) continue;
    const int64_t count = graph.value(cut->parts).type.shape[1];
    if (parts.has_value() && parts->from != count) return std::nullopt;
    parts = Parts{count, count};
  }
  if (!parts.has_value() || to < 1 || to % parts->from == 0) return std::nullopt;
  parts->to = std::min(parts->to, to);
  while (to % parts->to != 0) ++parts->to;
  return parts;
}

absl::StatusOr<Graph> RebatchLoops(const Graph& graph, int64_t from, int64_t to,
                                   const std::optional<Parts>& parts = {}) {
  OpenedGraph opened = OpenLoops(graph);
  for (const OpenedLoop& loop : opened.loops)
    if (IsManual(loop.node))
      return InvalidArgument(
          "{}: its blocks have the size that they were written for, so the program cannot run with {}.",
          graph.Describe(loop.node.row->name, loop.node.location), to);
  MESHWORK_ASSIGN_OR_RETURN(const Graph resized, RebatchOpened(opened.graph, from, to, parts));
  for (const Node& node : resized.nodes()) {
    if (!IsMark(node)) continue;
    Attrs& attrs = opened.loops[LoopOf(node)].node.attrs;
    if (attrs.Find("length") != nullptr) attrs.Set("length", MarkNumber(node, "length"));
  }
  Graph closed = CloseLoops(resized, opened.loops);
  MESHWORK_RETURN_IF_ERROR(CheckBodies(closed, to));
  return closed;
}

}  // namespace

absl::StatusOr<Graph> Rebatch(const Graph& graph, int64_t from, int64_t to) {
  MESHWORK_RETURN_IF_ERROR(CheckRules(graph));
  if (!HasLoops(graph)) return RebatchOpened(graph, from, to);
  const std::optional<Parts> parts = OtherParts(graph, from, to);
  if (!parts.has_value()) return RebatchLoops(graph, from, to);
  // First the number of parts changes, at the same size of a part; then the size of a part changes.
  const int64_t between = from / parts->from * parts->to;
  MESHWORK_ASSIGN_OR_RETURN(const Graph longer, RebatchLoops(graph, from, between, parts));
  return RebatchLoops(longer, between, to);
}

}  // namespace meshwork
