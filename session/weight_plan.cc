#include "meshwork/session/weight_plan.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <set>
#include <utility>

#include "fmt/ranges.h"
#include "meshwork/base/name_patterns.h"
#include "meshwork/base/quote.h"
#include "meshwork/base/status.h"
#include "meshwork/layout/block.h"
#include "meshwork/session/session_graphs.h"
#include "meshwork/storage/fill_blocks.h"

namespace meshwork {
namespace {

constexpr size_t kMostNames = 8;  // of a list

// What the stars of `pattern` stand for in `name`, added to `stars`; false: it does not fit.
bool MatchStars(std::string_view pattern, std::string_view name, std::vector<std::string_view>& stars) {
  while (!pattern.empty() && pattern[0] != '*') {
    if (name.empty() || name[0] != pattern[0]) return false;
    pattern.remove_prefix(1);
    name.remove_prefix(1);
  }
  if (pattern.empty()) return name.empty();
  pattern.remove_prefix(1);
  // The last star takes the rest up to what follows it. This keeps patterns with one star linear in the name.
  if (pattern.find('*') == std::string_view::npos) {
    if (!name.ends_with(pattern)) return false;
    stars.push_back(name.substr(0, name.size() - pattern.size()));
    return true;
  }
  const size_t before = stars.size();
  for (size_t taken = 0; taken <= name.size(); ++taken) {
    stars.push_back(name.substr(0, taken));
    if (MatchStars(pattern, name.substr(taken), stars)) return true;
    stars.resize(before);
  }
  return false;
}

absl::Status CheckRule(const WeightRule& rule, std::string_view who) {
  const auto stars = [](const std::string& text) { return std::count(text.begin(), text.end(), '*'); };
  if (stars(rule.tensor) > stars(rule.variable))
    return InvalidArgument(
        "{}: the rule for {} names {}, which has more * than that; each * of a tensor stands for what a * of the variable "
        "does.",
        who, Quoted(rule.variable), Quoted(rule.tensor));
  if (rule.transpose && !rule.dims.empty())
    return InvalidArgument("{}: the rule for {} has both .transpose and .dims [{}]; give one of them.", who,
                           Quoted(rule.variable), fmt::join(rule.dims, ", "));
  return absl::OkStatus();
}

// "3 tensors are read by no variable: "a", "b" and 1 more".
std::string List(const std::vector<std::string>& items, std::string_view one, std::string_view many,
                 std::string_view between = ", ") {
  const size_t shown = std::min(items.size(), kMostNames);
  return fmt::format("{} {}: {}{}", items.size(), items.size() == 1 ? one : many,
                     fmt::join(items.begin(), items.begin() + static_cast<int64_t>(shown), between),
                     items.size() > shown ? fmt::format(" and {} more", items.size() - shown) : "");
}

// The part of a tensor that a rule asks for. Error: as of DimsOf.
absl::StatusOr<Block> PartOf(const WeightRule& rule, const Shape& shape) {
  Block part = WholeBlock(shape);
  const std::optional<Extent>* const extents[] = {&rule.rows, &rule.columns};
  for (size_t d = 0; d < 2; ++d) {
    if (!extents[d]->has_value()) continue;
    const Extent extent = **extents[d];
    if (d >= shape.size() || extent.start < 0 || extent.size < 0 || extent.start > shape[d] ||
        extent.size > shape[d] - extent.start)
      return InvalidArgument("{} {} from {} on are not in it", extent.size, d == 0 ? "rows" : "columns",
                             extent.start);
    part[d] = extent;
  }
  return part;
}

class WeightPlanner {
 public:
  WeightPlanner(const WeightFiles& files, const LoadWeightsOptions& options)
      : files_(files), options_(options) {}

  void Add(const std::string& variable, const Type& type) {
    const auto [rule, name] = RuleFor(options_.rules, variable);
    const WeightTensor* const tensor = files_.Find(name);
    if (tensor != nullptr) {
      used_.insert(name);
      const absl::Status status = Plan(variable, type, *tensor, rule == nullptr ? WeightRule{} : *rule);
      if (!status.ok())
        misfits_.push_back(fmt::format("{} is {} and its tensor {} is {} ({})", Quoted(variable),
                                       type.ToString(), Quoted(name), tensor->entry->type.ToString(),
                                       MessageOf(status)));
      return;
    }
    if (MatchesOne(options_.missing, variable)) plan_.kept.push_back(variable);
    else
      missing_.push_back(fmt::format("{} {}{}", Quoted(variable), type.ToString(),
                                     rule == nullptr ? "" : fmt::format(" from {}", Quoted(name))));
  }

  // Its tensor need not be read.
  void LeaveOut(const std::string& variable) { used_.insert(RuleFor(options_.rules, variable).tensor); }

  absl::StatusOr<WeightPlan> Finish() && {
    std::vector<std::string> unused;
    for (const auto& [name, tensor] : files_.tensors()) {
      if (used_.contains(name)) continue;
      if (MatchesOne(options_.unused, name)) plan_.unused.push_back(name);
      else unused.push_back(fmt::format("{} {}", Quoted(name), tensor.entry->type.ToString()));
    }
    std::vector<std::string> wrong;
    if (!missing_.empty())
      wrong.push_back(List(missing_, "variable has no tensor", "variables have no tensor"));
    if (!misfits_.empty()) wrong.push_back(List(misfits_, "variable differs", "variables differ", "; "));
    if (!unused.empty())
      wrong.push_back(List(unused, "tensor is read by no variable", "tensors are read by no variable"));
    if (wrong.empty()) return std::move(plan_);
    return InvalidArgument(
        "{}: the weights do not fit the variables. {}. Say by LoadWeightsOptions::rules which tensor a variable is, and by "
        ".missing and .unused what may be left out.",
        files_.path(), fmt::join(wrong, ". "));
  }

 private:
  // Error: what differs, as a part of a sentence.
  absl::Status Plan(const std::string& variable, const Type& type, const WeightTensor& tensor,
                    const WeightRule& rule) {
    PlannedWeight planned{.variable = variable, .file = tensor.file};
    const Shape& shape = tensor.entry->type.shape;
    MESHWORK_ASSIGN_OR_RETURN(planned.part, PartOf(rule, shape));
    MESHWORK_ASSIGN_OR_RETURN(planned.dims, DimsOf(rule, shape));
    const Shape found = SizesOf(Permuted(planned.part, planned.dims));
    if (found != type.shape) {
      const bool is_swapped = found.size() == 2 && Shape{found[1], found[0]} == type.shape;
      return InvalidArgument(
          "{}{}",
          found == shape ? "the shapes differ"
                         : fmt::format("by its rule it becomes {}", ShapeToString(found)),
          is_swapped ? fmt::format(", and {} .transpose it would fit", rule.transpose ? "without" : "with")
                     : "");
    }
    absl::StatusOr<SafetensorsEntry> entry = tensor.file->As(*tensor.entry, type.dtype);
    if (!entry.ok())
      return InvalidArgument("{} is not read as {}", StoredTypeName(tensor.entry->stored),
                             DTypeName(type.dtype));
    planned.entry = *std::move(entry);
    plan_.weights.push_back(std::move(planned));
    return absl::OkStatus();
  }

  const WeightFiles& files_;
  const LoadWeightsOptions& options_;
  WeightPlan plan_;
  std::set<std::string> used_;  // tensors
  std::vector<std::string> missing_, misfits_;
};

}  // namespace

bool MatchesOne(const std::vector<std::string>& patterns, const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return MatchesPattern(name, pattern); });
}

absl::StatusOr<std::map<std::string, Type>> WeightsOf(const Graph& graph,
                                                      const std::vector<std::string>& also,
                                                      const std::vector<std::string>& only,
                                                      std::string_view who,
                                                      std::vector<std::string>* left_out) {
  std::map<std::string, Type> variables;
  const Graph read = WithoutUnreadVariables(EvaluationGraph(graph, {}));
  const auto add = [&](const Graph& of, const auto& is_meant) {
    for (const Argument& argument : of.arguments()) {
      const ValueInfo& info = of.value(argument.value);
      if (argument.is_variable && is_meant(info.name)) variables[info.name] = info.type;
    }
  };
  add(read, [](const std::string& name) { return !name.starts_with(kMetricPrefix); });
  add(graph, [&](const std::string& name) { return MatchesOne(also, name); });
  if (variables.empty())
    return absl::FailedPreconditionError(fmt::format(
        "{}: no output of the program depends on a variable outside of training; name variables by .also.",
        who));
  const auto fits_one = [&](const std::string& pattern) {
    return std::any_of(variables.begin(), variables.end(),
                       [&](const auto& variable) { return MatchesPattern(variable.first, pattern); });
  };
  for (const auto& [patterns, name] : {std::pair(&also, ".also"), {&only, ".only"}})
    for (const std::string& pattern : *patterns)
      if (!fits_one(pattern))
        return InvalidArgument("{}: {} {} fits no variable{}.", who, name, Quoted(pattern),
                               patterns == &only ? " that the outputs depend on, or that .also names" : "");
  if (only.empty()) return variables;
  std::erase_if(variables, [&](const auto& variable) {
    const bool is_left_out = !MatchesOne(only, variable.first);
    if (is_left_out && left_out != nullptr) left_out->push_back(variable.first);
    return is_left_out;
  });
  return variables;
}

absl::Status CheckRules(const std::vector<WeightRule>& rules, std::string_view who) {
  for (const WeightRule& rule : rules) MESHWORK_RETURN_IF_ERROR(CheckRule(rule, who));
  return absl::OkStatus();
}

FoundRule RuleFor(const std::vector<WeightRule>& rules, const std::string& variable) {
  for (const WeightRule& rule : rules)
    if (std::optional<std::string> tensor = TensorFor(rule, variable); tensor.has_value())
      return {&rule, *std::move(tensor)};
  return {nullptr, variable};
}

absl::StatusOr<std::vector<int64_t>> DimsOf(const WeightRule& rule, const Shape& shape) {
  std::vector<int64_t> all(shape.size());
  std::iota(all.begin(), all.end(), 0);
  if (rule.transpose) {
    if (shape.size() != 2) return InvalidArgument(".transpose is for 2 dims, and .dims for others");
    return std::vector<int64_t>{1, 0};
  }
  if (rule.dims.empty()) return all;
  std::vector<int64_t> sorted = rule.dims;
  std::sort(sorted.begin(), sorted.end());
  if (sorted != all)
    return InvalidArgument(".dims [{}] has to name each dim once", fmt::join(rule.dims, ", "));
  return rule.dims;
}

std::optional<std::string> TensorFor(const WeightRule& rule, std::string_view variable) {
  std::vector<std::string_view> stars;
  if (!MatchStars(rule.variable, variable, stars)) return std::nullopt;
  std::string tensor;
  size_t star = 0;
  for (const char c : rule.tensor) {
    if (c != '*') tensor += c;
    else tensor += stars.at(star++);
  }
  return tensor;
}

Block PlannedWeight::InTensor(const Block& box) const {
  Block in = Permuted(box, Inverse(dims));
  for (size_t d = 0; d < in.size(); ++d) in[d].start += part[d].start;
  return in;
}

bool PlannedWeight::is_transposed() const { return !std::is_sorted(dims.begin(), dims.end()); }

std::string WeightPlan::ToString() const {
  std::string text;
  for (const PlannedWeight& weight : weights)
    text +=
        fmt::format("{} is {} of {} {} {}, dims {}\n", Quoted(weight.variable), BlockToString(weight.part),
                    Quoted(weight.entry.name), StoredTypeName(weight.entry.stored),
                    ShapeToString(weight.entry.type.shape), fmt::join(weight.dims, ","));
  return text;
}

absl::StatusOr<WeightPlan> PlanWeights(const WeightFiles& files, const std::map<std::string, Type>& variables,
                                       const std::vector<std::string>& left_out,
                                       const LoadWeightsOptions& options) {
  MESHWORK_RETURN_IF_ERROR(CheckRules(options.rules, "LoadWeights"));
  WeightPlanner planner(files, options);
  for (const auto& [variable, type] : variables) planner.Add(variable, type);
  for (const std::string& variable : left_out) planner.LeaveOut(variable);
  return std::move(planner).Finish();
}

}  // namespace meshwork
