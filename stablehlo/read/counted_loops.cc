// Which loops run a known number of times, and what their values are to them.
#include <map>

#include "meshwork/base/status.h"
#include "meshwork/stablehlo/read/reader.h"

namespace meshwork::mlir {
namespace {

using Role = CountedLoop::Role;

struct KnownScope {
  const KnownScope* outer = nullptr;
  std::map<std::string, std::vector<Known>> values = {};
};

// Follows what is known of values through the body of a loop, and notes how the loop's own values are used.
class BodyStudy {
 public:
  BodyStudy(const OpView& view, CountedLoop& loop)
      : view_(view), loop_(loop), rows_(loop.roles.size()), has_other_use_(loop.roles.size()) {}

  bool has_other_use(size_t i) const { return has_other_use_[i]; }
  // Whether rows of value i are read or written, and whether from the last on.
  const std::optional<bool>& row(size_t i) const { return rows_[i]; }

  absl::StatusOr<std::vector<Known>> Run(const Region& region, const std::vector<Known>& arguments,
                                         const KnownScope* outer, bool sees_outside) {
    KnownScope scope{.outer = outer};
    for (size_t a = 0; a < region.arguments.size() && a < arguments.size(); ++a)
      scope.values[region.arguments[a].name] = {arguments[a]};
    for (const Op& op : region.ops) {
      MESHWORK_RETURN_IF_ERROR(view_.reader.CountOp(op));
      std::vector<Known> operands;
      for (const ValueRef& ref : op.operands) operands.push_back(Find(scope, ref, sees_outside));
      if (op.name == "func.return" || op.name == "stablehlo.return") return operands;
      MESHWORK_ASSIGN_OR_RETURN(std::vector<Known> results, Follow(op, operands, scope, sees_outside));
      if (!op.result.empty()) scope.values[op.result] = std::move(results);
    }
    return std::vector<Known>();
  }

  void Use(const Known& known) {
    if (known.loop != &loop_) return;
    if (known.is_count()) loop_.needs_counter = true;
    else has_other_use_[static_cast<size_t>(known.carry)] = true;
  }

 private:
  Known Find(const KnownScope& scope, const ValueRef& ref, bool sees_outside) const {
    for (const KnownScope* at = &scope; at != nullptr; at = at->outer) {
      const auto found = at->values.find(ref.name);
      if (found == at->values.end()) continue;
      const auto index = static_cast<size_t>(ref.result);
      return index < found->second.size() ? found->second[index] : Known();
    }
    const Bound* const bound = sees_outside ? view_.scope.Find(ref) : nullptr;
    return bound == nullptr ? Known() : bound->known;
  }

  absl::StatusOr<std::vector<Known>> Follow(const Op& op, const std::vector<Known>& operands,
                                            const KnownScope& scope, bool sees_outside) {
    if (op.name == "stablehlo.optimization_barrier") return operands;
    if (op.name == "func.call") return FollowCall(op, operands);
    if (const std::optional<Known> row = FollowRow(op, operands); row.has_value()) return std::vector{*row};
    const Folded folded = Fold(op, operands);
    if (folded.known.has_value()) return std::vector{*folded.known};
    if (folded.operand.has_value() && op.operand_types[*folded.operand] == op.result_types[0])
      return std::vector{operands[*folded.operand]};
    for (const Known& operand : operands) Use(operand);
    for (const Region& region : op.regions) UseIn(region, scope, sees_outside);
    // A constant is known by its text alone.
    if (op.name == "stablehlo.constant") {
      const Attribute* const value = op.attributes.Find("value");
      if (value == nullptr || value->kind != Attribute::Kind::kDense) return std::vector<Known>(1);
      MESHWORK_ASSIGN_OR_RETURN(const DenseElements elements,
                                ReadDense(*value, view_.reader.text(), view_.reader.file()));
      return std::vector{elements.is_splat ? Known::Splat(elements.bits[0]) : Known()};
    }
    return std::vector<Known>(op.result_types.size());
  }

  absl::StatusOr<std::vector<Known>> FollowCall(const Op& op, const std::vector<Known>& operands) {
    const Attribute* const callee = op.attributes.Find("callee");
    const Op* const function = callee == nullptr ? nullptr : view_.reader.FindFunction(callee->text);
    // Calls that are wrong are reported when they are read.
    if (function == nullptr || depth_ >= kDeepest) return std::vector<Known>(op.result_types.size());
    ++depth_;
    absl::StatusOr<std::vector<Known>> results = Run(function->regions[0], operands, nullptr, false);
    --depth_;
    if (results.ok()) results->resize(op.result_types.size());
    return results;
  }

  // A row of one of the loop's values that is read or written; nothing: the op does neither.
  std::optional<Known> FollowRow(const Op& op, const std::vector<Known>& operands) {
    const bool reads = op.name == "stablehlo.dynamic_slice",
               writes = op.name == "stablehlo.dynamic_update_slice";
    const size_t first_start = reads ? 1 : 2;
    if ((!reads && !writes) || operands.size() < first_start || op.result_types.size() != 1)
      return std::nullopt;
    const Known& whole = operands[0];
    if (whole.kind != Known::Kind::kCarried || whole.loop != &loop_) return std::nullopt;
    const auto i = static_cast<size_t>(whole.carry);
    if (reads != (loop_.roles[i] == Role::kInvariant)) return std::nullopt;
    const std::optional<bool> is_backward = RowIsBackward(
        loop_, op.operand_types[0].shape, reads ? op.result_types[0].shape : op.operand_types[1].shape,
        std::span(operands).subspan(first_start));
    if (!is_backward.has_value() || rows_[i].value_or(*is_backward) != *is_backward) return std::nullopt;
    if (writes && rows_[i].has_value()) return std::nullopt;
    rows_[i] = is_backward;
    if (reads) return Known();
    Use(operands[1]);
    return Known{.kind = Known::Kind::kWritten, .loop = &loop_, .carry = whole.carry};
  }

  // Everything that a region within an op names.
  void UseIn(const Region& region, const KnownScope& scope, bool sees_outside) {
    for (const Op& op : region.ops) {
      for (const ValueRef& ref : op.operands) Use(Find(scope, ref, sees_outside));
      for (const Region& inner : op.regions) UseIn(inner, scope, sees_outside);
    }
  }

  const OpView& view_;
  CountedLoop& loop_;
  std::vector<std::optional<bool>> rows_;
  std::vector<bool> has_other_use_;
  int depth_ = 0;
};

const Op* DefinitionOf(const Region& region, std::string_view name) {
  for (const Op& op : region.ops)
    if (op.result == name) return &op;
  return nullptr;
}

// The argument of a region that a value is; nothing: it is none.
std::optional<size_t> ArgumentOf(const Region& region, const ValueRef& ref) {
  for (size_t a = 0; a < region.arguments.size(); ++a)
    if (region.arguments[a].name == ref.name) return a;
  return std::nullopt;
}

struct Limit {
  size_t counter;
  ValueRef limit;
};
// Of a condition that returns `counter < limit` what these are.
std::optional<Limit> LimitOf(const Region& condition) {
  if (condition.ops.empty() || condition.ops.back().name != "stablehlo.return" ||
      condition.ops.back().operands.size() != 1)
    return std::nullopt;
  const Op* const compare = DefinitionOf(condition, condition.ops.back().operands[0].name);
  if (compare == nullptr || compare->name != "stablehlo.compare" || compare->operands.size() != 2)
    return std::nullopt;
  const std::optional<size_t> counter = ArgumentOf(condition, compare->operands[0]);
  if (WordOf(compare->attributes.Find("comparison_direction")) != "LT" || !counter.has_value())
    return std::nullopt;
  const TensorType& type = condition.arguments[*counter].type;
  if (compare->operand_types[0] != type || compare->operand_types[1] != type) return std::nullopt;
  return Limit{*counter, compare->operands[1]};
}

// The number that a value of a region of the `while` is; `is_invariant`: which arguments stay what they are.
std::optional<int64_t> NumberIn(const OpView& view, const Region& region, const ValueRef& ref,
                                const std::vector<bool>& is_invariant) {
  if (const std::optional<size_t> argument = ArgumentOf(region, ref); argument.has_value()) {
    const Known& known = view.operands[*argument].known;
    return is_invariant[*argument] && known.is_splat() ? std::optional(known.bits) : std::nullopt;
  }
  if (const Op* const op = DefinitionOf(region, ref.name); op != nullptr) {
    const Attribute* const value = op->name == "stablehlo.constant" ? op->attributes.Find("value") : nullptr;
    if (value == nullptr || value->kind != Attribute::Kind::kDense) return std::nullopt;
    const auto elements = ReadDense(*value, view.reader.text(), view.reader.file());
    return elements.ok() && elements->is_splat ? std::optional(elements->bits[0]) : std::nullopt;
  }
  const Bound* const outside = view.scope.Find(ref);
  return outside != nullptr && outside->known.is_splat() ? std::optional(outside->known.bits) : std::nullopt;
}

// Of value i of a `while` that begins with a whole number, which counter it may be: by the number that the body adds, or by 1 if the
// body says so elsewhere.
std::optional<CountedLoop::Counter> CounterOf(const OpView& view, size_t i) {
  constexpr int64_t kLargest = int64_t{1} << 31;
  const Region& body = view.op.regions[1];
  const TensorType& type = view.type(i);
  const Known& first = view.operands[i].known;
  if (!first.is_splat() || type.rank() != 0 || (type.element != "i32" && type.element != "i64"))
    return std::nullopt;
  const Op* const add = DefinitionOf(body, body.ops.back().operands[i].name);
  int64_t step = 1;
  if (add != nullptr && add->name == "stablehlo.add" && add->operands.size() == 2)
    step = NumberIn(view, body, add->operands[1], std::vector<bool>(body.arguments.size())).value_or(1);
  if (step == 0 || std::abs(static_cast<double>(step)) >= kLargest ||
      std::abs(static_cast<double>(first.bits)) >= kLargest)
    return std::nullopt;
  return CountedLoop::Counter{first.bits, step};
}

// Finds the roles of the values that are not counters, if those that are said to be are. Per value: whether it is a counter.
absl::StatusOr<std::vector<bool>> StudyBody(const OpView& view, const std::vector<bool>& is_invariant,
                                            CountedLoop& loop) {
  const size_t count = view.operands.size();
  const Region& body = view.op.regions[1];
  loop.is_backward.assign(count, false);
  loop.needs_counter = false;
  std::vector<Known> arguments;
  for (size_t i = 0; i < count; ++i) {
    if (loop.roles[i] != Role::kCounter) loop.roles[i] = is_invariant[i] ? Role::kInvariant : Role::kCarried;
    const Known as_it_came{.kind = Known::Kind::kCarried, .loop = &loop, .carry = static_cast<int>(i)};
    const Known& outside = view.operands[i].known;
    if (loop.roles[i] == Role::kCounter) arguments.push_back(CountOf(loop, i));
    else arguments.push_back(is_invariant[i] && outside.kind != Known::Kind::kNothing ? outside : as_it_came);
  }
  BodyStudy study(view, loop);
  MESHWORK_ASSIGN_OR_RETURN(std::vector<Known> returned, study.Run(body, arguments, nullptr, true));
  returned.resize(count);
  std::vector<bool> is_counter(count, false);
  for (size_t i = 0; i < count; ++i) {
    if (loop.roles[i] == Role::kCounter) {
      // Numbers that wrap around are none.
      Known next = CountOf(loop, i);
      next.offset += next.scale;
      is_counter[i] = returned[i] == next;
      continue;
    }
    const Known written{.kind = Known::Kind::kWritten, .loop = &loop, .carry = static_cast<int>(i)};
    const bool returns_itself = (is_invariant[i] && returned[i] == arguments[i]) || returned[i] == written;
    if (!returns_itself) study.Use(returned[i]);
  }
  for (size_t i = 0; i < count; ++i) {
    if (!study.row(i).has_value()) continue;
    const Known written{.kind = Known::Kind::kWritten, .loop = &loop, .carry = static_cast<int>(i)};
    const bool is_by_row = !study.has_other_use(i) && (is_invariant[i] || returned[i] == written);
    if (is_by_row) loop.roles[i] = is_invariant[i] ? Role::kRows : Role::kStacked;
    else loop.needs_counter = true;
    loop.is_backward[i] = *study.row(i);
  }
  return is_counter;
}

}  // namespace

absl::StatusOr<std::optional<CountedLoop>> ModuleReader::FindCount(const OpView& view) {
  constexpr int64_t kLongest = int64_t{1} << 31;
  const Region& condition = view.op.regions[0];
  const Region& body = view.op.regions[1];
  const size_t count = view.operands.size();
  const std::optional<CountedLoop> not_counted;
  if (body.ops.empty() || body.ops.back().operands.size() != count) return not_counted;
  std::vector<bool> is_invariant;
  for (size_t i = 0; i < count; ++i)
    is_invariant.push_back(ArgumentOf(body, body.ops.back().operands[i]) == i);
  const std::optional<Limit> limit = LimitOf(condition);
  const std::optional<int64_t> end =
      limit.has_value() ? NumberIn(view, condition, limit->limit, is_invariant) : std::nullopt;
  if (!end.has_value()) return not_counted;
  CountedLoop loop;
  for (size_t i = 0; i < count; ++i) {
    const std::optional<CountedLoop::Counter> counter = CounterOf(view, i);
    loop.roles.push_back(is_invariant[i]       ? Role::kInvariant
                         : counter.has_value() ? Role::kCounter
                                               : Role::kCarried);
    loop.counters.push_back(counter.value_or(CountedLoop::Counter()));
  }
  const CountedLoop::Counter& main = loop.counters[limit->counter];
  if (loop.roles[limit->counter] != Role::kCounter || main.step != 1 ||
      std::abs(static_cast<double>(*end)) >= kLongest)
    return not_counted;
  loop.length = std::max<int64_t>(0, *end - main.first);
  // A number that is no counter after all is carried, and all is looked at again.
  while (true) {
    MESHWORK_ASSIGN_OR_RETURN(const std::vector<bool> is_counter, StudyBody(view, is_invariant, loop));
    bool is_right = true;
    for (size_t i = 0; i < count; ++i) {
      if (is_counter[i] || loop.roles[i] != Role::kCounter) continue;
      loop.roles[i] = Role::kCarried;
      is_right = false;
    }
    if (loop.roles[limit->counter] != Role::kCounter) return not_counted;
    if (is_right) return std::optional(std::move(loop));
  }
}

}  // namespace meshwork::mlir
