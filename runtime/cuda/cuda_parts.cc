#include "meshwork/runtime/cuda/cuda_parts.h"

#include <algorithm>
#include <set>
#include <utility>
#include <variant>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "meshwork/kernels/cuda/cuda_kernel.h"
#include "meshwork/kernels/cuda/parts.h"

namespace meshwork {
namespace {

constexpr size_t kGradient = 1;  // the operand of an update
// Until a launch takes no more parts, in elements: gradients wait for others, and weights that are cast for products.
constexpr int64_t kEnoughUpdates = int64_t{1} << 24, kEnoughCasts = int64_t{1} << 23;

// The step if it is one launch, in every step, of the row.
const ComputeStep* PlainStep(const StepPlan& plan, size_t step, std::string_view op) {
  const auto* const compute = std::get_if<ComputeStep>(&plan.steps[step]);
  if (compute == nullptr || compute->once || compute->one_by_one) return nullptr;
  return plan.graph->nodes()[static_cast<size_t>(compute->node)].row->name == op ? compute : nullptr;
}

// Whether each element of the result is the cast of one of the operand.
bool IsWholeCast(const ComputeStep& cast) {
  const std::vector<bool>& reduced = cast.spec.reduced;
  return cast.spec.operands[0].local.num_elements() == cast.spec.results[0].local.num_elements() &&
         std::find(reduced.begin(), reduced.end(), true) == reduced.end();
}

// Steps that wait for others to be launched with them, or for what they wait for.
struct HeldSteps {
  std::vector<size_t> steps;
  Touched touched;
  std::string kind;  // "": a cast that waits for its update
  int64_t elements = 0;
};

class PartsOrder {
 public:
  explicit PartsOrder(const StepPlan& plan) : plan_(plan), finder_(plan) {}

  std::vector<size_t> Order(const std::vector<StepRange>& units) && {
    for (const StepRange& unit : units) {
      if (unit.end - unit.first != 1) continue;
      std::optional<PartsFinder::Member> cast = finder_.CastOfVariable(unit.first);
      if (cast.has_value()) casts_.push_back(*std::move(cast));
    }
    for (const StepRange& unit : units) {
      if (TakeCasts(unit.first)) continue;
      if (unit.end - unit.first == 1 && (HoldCast(unit.first) || HoldUpdate(unit.first))) continue;
      Touched touched;
      for (size_t step = unit.first; step < unit.end; ++step)
        touched.Add(TouchedBy(plan_, plan_.steps[step]));
      const bool is_nested = std::holds_alternative<NestedStep>(plan_.steps[unit.first]);
      ReleaseIf([&](const HeldSteps& held) { return is_nested || held.touched.Conflicts(touched); });
      for (size_t step = unit.first; step < unit.end; ++step) order_.push_back(step);
    }
    ReleaseIf([](const HeldSteps&) { return true; });
    return std::move(order_);
  }

 private:
  // What is held touches nothing of each other's, so that it may be released in any order.
  template <typename Predicate>
  void ReleaseIf(Predicate&& is_released) {
    for (const HeldSteps& held : held_)
      if (is_released(held)) order_.insert(order_.end(), held.steps.begin(), held.steps.end());
    std::erase_if(held_, is_released);
  }

  // With those of its kind that come behind it, which may run as early. False: the step is no such cast.
  bool TakeCasts(size_t step) {
    const auto first = std::find_if(casts_.begin(), casts_.end(),
                                    [&](const PartsFinder::Member& cast) { return cast.steps[0] == step; });
    if (first == casts_.end()) return taken_.contains(step);
    const std::string kind = first->kind;
    int64_t elements = 0;
    std::erase_if(casts_, [&](const PartsFinder::Member& cast) {  // in the order of the plan
      const bool is_too_much = elements > 0 && elements + cast.elements() > cast.enough;
      if (cast.kind != kind || cast.steps[0] < step || is_too_much) return false;
      elements += cast.elements();
      order_.push_back(cast.steps[0]);
      taken_.insert(cast.steps[0]);
      return true;
    });
    return true;
  }

  bool HoldCast(size_t step) {
    if (!finder_.UpdateOfCast(step).has_value()) return false;
    Touched touched = TouchedBy(plan_, plan_.steps[step]);
    ReleaseIf([&](const HeldSteps& held) { return held.touched.Conflicts(touched); });
    held_.push_back({{step}, std::move(touched), "", 0});
    return true;
  }

  bool HoldUpdate(size_t step) {
    const auto cast = std::find_if(held_.begin(), held_.end(), [&](const HeldSteps& held) {
      return held.kind.empty() && finder_.UpdateOfCast(held.steps[0]) == step;
    });
    std::optional<PartsFinder::Member> member =
        finder_.Update(step, cast == held_.end() ? std::nullopt : std::optional(cast->steps[0]));
    if (!member.has_value()) return false;
    if (cast != held_.end()) held_.erase(cast);
    ReleaseIf([&](const HeldSteps& held) { return held.touched.Conflicts(member->touched); });
    auto batch = std::find_if(held_.begin(), held_.end(),
                              [&](const HeldSteps& held) { return held.kind == member->kind; });
    if (batch == held_.end()) batch = held_.insert(held_.end(), HeldSteps{{}, {}, member->kind, 0});
    batch->steps.insert(batch->steps.end(), member->steps.begin(), member->steps.end());
    batch->touched.Add(member->touched);
    batch->elements += member->elements();
    ReleaseIf([&](const HeldSteps& held) { return held.elements >= kEnoughUpdates; });
    return true;
  }

  const StepPlan& plan_;
  const PartsFinder finder_;
  std::vector<HeldSteps> held_;
  std::vector<PartsFinder::Member> casts_;  // of variables, which are not yet in the order
  std::set<size_t> taken_;                  // those that are
  std::vector<size_t> order_;
};

}  // namespace

PartsFinder::PartsFinder(const StepPlan& plan) : plan_(plan), uses_(plan.storages.size()) {
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const Touched touched = TouchedBy(plan, plan.steps[i]);
    for (const int storage : touched.writes) {
      Uses& uses = uses_[static_cast<size_t>(storage)];
      ++uses.writes;
      uses.first_write = std::min(uses.first_write, i);
      uses.first_touch = std::min(uses.first_touch, i);
    }
    for (const int storage : touched.reads) {
      Uses& uses = uses_[static_cast<size_t>(storage)];
      ++uses.reads;
      uses.last_read = i;
      uses.first_touch = std::min(uses.first_touch, i);
    }
  }
}

std::optional<size_t> PartsFinder::UpdateOfCast(size_t step) const {
  const ComputeStep* const cast = PlainStep(plan_, step, "cast");
  if (cast == nullptr) return std::nullopt;
  const Type &from = cast->spec.operands[0].local, &to = cast->spec.results[0].local;
  const bool is_exact = (from.dtype == BF16 || from.dtype == F16) && to.dtype == F32;
  if (!is_exact || !IsWholeCast(*cast)) return std::nullopt;
  const BufferId result = cast->out[0].first;
  const auto storage = static_cast<size_t>(StorageOf(result));
  const Uses& uses = uses_[storage];
  if (plan_.storages[storage].kind != Storage::Kind::kTemporary || uses.reads != 1 || uses.writes != 1)
    return std::nullopt;
  const size_t reader = uses.last_read;
  const ComputeStep* const update = PlainStep(plan_, reader, "adam_update");
  if (update == nullptr || StorageOf(update->in[kGradient].first) != static_cast<int>(storage) ||
      plan_.buffers[static_cast<size_t>(update->in[kGradient].first)].offset !=
          plan_.buffers[static_cast<size_t>(result)].offset ||
      update->spec.operands[kGradient].local.num_elements() != to.num_elements())
    return std::nullopt;
  // The update would write what it still reads, at other places.
  const int read = StorageOf(cast->in[0].first);
  const bool is_overwritten =
      std::any_of(update->out.begin(), update->out.end(),
                  [&](const ValueBuffers& out) { return StorageOf(out.first) == read; });
  return is_overwritten ? std::nullopt : std::optional(reader);
}

std::optional<PartsFinder::Member> PartsFinder::CastOfVariable(size_t step) const {
  const ComputeStep* const cast = PlainStep(plan_, step, "cast");
  if (cast == nullptr || !IsWholeCast(*cast)) return std::nullopt;
  const int64_t elements = cast->spec.results[0].local.num_elements();
  const auto from = static_cast<size_t>(StorageOf(cast->in[0].first)),
             to = static_cast<size_t>(StorageOf(cast->out[0].first));
  const bool may_move = plan_.storages[from].kind == Storage::Kind::kVariable &&
                        uses_[from].first_write > step &&
                        plan_.storages[to].kind == Storage::Kind::kTemporary && uses_[to].first_touch == step;
  if (!may_move || elements == 0) return std::nullopt;
  const OpRow& row = *plan_.graph->nodes()[static_cast<size_t>(cast->node)].row;
  return Member{.steps = {step},
                .alone = {.row = &row,
                          .spec = cast->spec,
                          .common = {},
                          .parts = {{{cast->in[0].first, cast->out[0].first}, elements}}},
                .kind = MakeCudaParts(row, cast->spec).name,
                .touched = TouchedBy(plan_, plan_.steps[step]),
                .enough = kEnoughCasts};
}

std::optional<PartsFinder::Member> PartsFinder::Update(size_t step, std::optional<size_t> cast) const {
  const ComputeStep* const update = PlainStep(plan_, step, "adam_update");
  if (update == nullptr || update->spec.results[0].local.num_elements() == 0) return std::nullopt;
  const OpRow& row = *plan_.graph->nodes()[static_cast<size_t>(update->node)].row;
  Member member{.alone = {.row = &row, .spec = update->spec, .common = {}, .parts = {{}}},
                .kind = {},
                .touched = {},
                .enough = kEnoughUpdates};
  CudaParts::Part& part = member.alone.parts[0];
  part.elements = update->spec.results[0].local.num_elements();
  const size_t own = CudaOperandsOfPart(row).value();
  for (size_t o = 0; o < update->in.size(); ++o)
    (o < own ? part.buffers : member.alone.common).push_back(update->in[o].first);
  for (const ValueBuffers& out : update->out) part.buffers.push_back(out.first);
  if (cast.has_value()) {
    const auto& folded = std::get<ComputeStep>(plan_.steps[*cast]);
    part.buffers[kGradient] = folded.in[0].first;
    member.alone.spec.operands[kGradient].local.dtype = folded.spec.operands[0].local.dtype;
    member.steps.push_back(*cast);
    member.touched = TouchedBy(plan_, plan_.steps[*cast]);
  }
  member.steps.push_back(step);
  member.touched.Add(TouchedBy(plan_, plan_.steps[step]));
  member.kind = MakeCudaParts(row, member.alone.spec).name;
  for (const BufferId buffer : member.alone.common) {
    const Buffer& at = plan_.buffers[static_cast<size_t>(buffer)];
    member.kind += fmt::format(" {}+{}", at.storage, at.offset);
  }
  return member;
}

std::optional<PartsFinder::Found> PartsFinder::Find(size_t first, size_t end) const {
  std::optional<Member> all;
  int64_t elements = 0;
  size_t at = first;
  while (at < end && (!all.has_value() || elements < all->enough)) {
    const bool is_cast = at + 1 < end && UpdateOfCast(at) == at + 1;
    const size_t update = is_cast ? at + 1 : at;
    std::optional<Member> member = Update(update, is_cast ? std::optional(at) : std::nullopt);
    if (!member.has_value()) member = CastOfVariable(at);
    if (!member.has_value()) break;
    elements += member->elements();
    at = update + 1;
    if (!all.has_value()) {
      all = std::move(member);
      continue;
    }
    if (member->kind != all->kind || member->touched.Conflicts(all->touched)) {
      at -= member->steps.size();
      break;
    }
    all->alone.parts.push_back(std::move(member->alone.parts[0]));
    all->touched.Add(member->touched);
  }
  if (at - first < 2) return std::nullopt;
  return Found{std::move(all->alone), at};
}

std::vector<size_t> OrderForParts(const StepPlan& plan, const std::vector<StepRange>& units) {
  return PartsOrder(plan).Order(units);
}

}  // namespace meshwork
