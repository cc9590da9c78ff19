#include "meshwork/runtime/cuda/cuda_parts.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>
#include <variant>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "meshwork/ops/kernels/cuda/cuda_kernel.h"
#include "meshwork/ops/kernels/cuda/parts.h"

namespace meshwork {
namespace {

constexpr size_t kGradient = 1;  // the operand of an update
// A launch that keeps this many elements takes no more parts. Gradients and looked-up rows are kept until the other
// parts are there, and cast weights until the products that read them.
constexpr int64_t kEnoughHeld = int64_t{1} << 24, kEnoughCasts = int64_t{1} << 23;

// The step, if it is a single launch of `op` that runs each time; otherwise null.
const ComputeStep* PlainStep(const StepPlan& plan, size_t step, std::string_view op) {
  const auto* const compute = std::get_if<ComputeStep>(&plan.steps[step]);
  if (compute == nullptr || compute->once || compute->one_by_one) return nullptr;
  return plan.graph->nodes()[static_cast<size_t>(compute->node)].row->name == op ? compute : nullptr;
}

// Whether each element of the result is the cast of one element of the operand.
bool IsWholeCast(const ComputeStep& cast) {
  const std::vector<bool>& reduced = cast.spec.reduced;
  return cast.spec.operands[0].local.num_elements() == cast.spec.results[0].local.num_elements() &&
         std::find(reduced.begin(), reduced.end(), true) == reduced.end();
}

// The same for updates of weights.
const ComputeStep* PlainUpdate(const StepPlan& plan, size_t step) {
  const ComputeStep* const adam = PlainStep(plan, step, "adam_update");
  return adam != nullptr ? adam : PlainStep(plan, step, "adagrad_update");
}

// Whether a scatter, or a lookup, is along dim 0: of rows of a table.
bool IsOfRows(const ComputeStep& scatter) { return scatter.spec.attrs.Get<int64_t>("dim") == 0; }

// The rows of the table of a lookup, its operand 0, or of a scatter, its result.
CudaTableRows TableRowsOf(const ComputeStep& step, bool is_result) {
  const TensorSpec& table = is_result ? step.spec.results[0] : step.spec.operands[0];
  const Extent rows = step.blocks[0][is_result ? step.in.size() : 0][0];
  return {.rows = rows.size,
          .first_row = rows.start,
          .last_row = table.global.shape[0] - 1,
          .count = step.spec.operands[1].local.num_elements()};
}

// Steps that wait for others to be launched with them; or one step that waits for the update that may do its work.
struct HeldSteps {
  std::vector<size_t> steps;
  Touched touched;
  std::string kind;  // "": a step that waits for its update
  int64_t elements = 0, enough = 0;
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
      if (unit.end - unit.first == 1 &&
          (HoldFeeding(unit.first) || HoldUpdate(unit.first) || HoldLookup(unit.first)))
        continue;
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
  // Entries of held_ do not conflict with each other, so they may be released in any order.
  template <typename Predicate>
  void ReleaseIf(Predicate&& is_released) {
    for (const HeldSteps& held : held_)
      if (is_released(held)) order_.insert(order_.end(), held.steps.begin(), held.steps.end());
    std::erase_if(held_, is_released);
  }

  // Takes a cast of a variable together with later ones of its kind, which may run as early. False: the step is no
  // such cast.
  bool TakeCasts(size_t step) {
    const auto first = std::find_if(casts_.begin(), casts_.end(),
                                    [&](const PartsFinder::Member& cast) { return cast.steps[0] == step; });
    if (first == casts_.end()) return taken_.contains(step);
    const std::string kind = first->kind;
    int64_t elements = 0;
    std::erase_if(casts_, [&](const PartsFinder::Member& cast) {  // in the order of the plan
      const bool is_too_much = elements > 0 && elements + cast.held > cast.enough;
      if (cast.kind != kind || cast.steps[0] < step || is_too_much) return false;
      elements += cast.held;
      order_.push_back(cast.steps[0]);
      taken_.insert(cast.steps[0]);
      return true;
    });
    return true;
  }

  // Holds the step until its update, if that may do its work. False: it is no such step.
  bool HoldFeeding(size_t step) {
    if (!finder_.UpdateOf(step).has_value()) return false;
    Touched touched = TouchedBy(plan_, plan_.steps[step]);
    ReleaseIf([&](const HeldSteps& held) { return held.touched.Conflicts(touched); });
    held_.push_back({.steps = {step}, .touched = std::move(touched), .kind = ""});
    return true;
  }

  bool HoldUpdate(size_t step) {
    const auto feeds = std::find_if(held_.begin(), held_.end(), [&](const HeldSteps& held) {
      return held.kind.empty() && finder_.UpdateOf(held.steps[0]) == step;
    });
    const std::optional<PartsFinder::Member> member =
        finder_.Update(step, feeds == held_.end() ? std::nullopt : std::optional(feeds->steps[0]));
    if (!member.has_value()) return false;
    if (feeds != held_.end()) held_.erase(feeds);
    Hold(*member);
    return true;
  }

  bool HoldLookup(size_t step) {
    const std::optional<PartsFinder::Member> member = finder_.Lookup(step);
    if (!member.has_value()) return false;
    Hold(*member);
    return true;
  }

  void Hold(const PartsFinder::Member& member) {
    ReleaseIf([&](const HeldSteps& held) { return held.touched.Conflicts(member.touched); });
    auto batch = std::find_if(held_.begin(), held_.end(),
                              [&](const HeldSteps& held) { return held.kind == member.kind; });
    if (batch == held_.end())
      batch = held_.insert(held_.end(),
                           {.steps = {}, .touched = {}, .kind = member.kind, .enough = member.enough});
    batch->steps.insert(batch->steps.end(), member.steps.begin(), member.steps.end());
    batch->touched.Add(member.touched);
    batch->elements += member.held;
    ReleaseIf([&](const HeldSteps& held) { return !held.kind.empty() && held.elements >= held.enough; });
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

std::optional<size_t> PartsFinder::UpdateOf(size_t step) const {
  if (const ComputeStep* const cast = PlainStep(plan_, step, "cast")) {
    const Type &from = cast->spec.operands[0].local, &to = cast->spec.results[0].local;
    const bool is_exact = (from.dtype == BF16 || from.dtype == F16) && to.dtype == F32;
    return is_exact && IsWholeCast(*cast) ? OnlyReaderOf(*cast) : std::nullopt;
  }
  const ComputeStep* const scatter = PlainStep(plan_, step, "scatter_add");
  if (scatter == nullptr || !IsOfRows(*scatter)) return std::nullopt;
  const std::optional<size_t> reader = OnlyReaderOf(*scatter);
  if (!reader.has_value()) return std::nullopt;
  const auto& update = std::get<ComputeStep>(plan_.steps[*reader]);
  const Node& node = plan_.graph->nodes()[static_cast<size_t>(update.node)];
  return IsLazyUpdate(*node.row, node.attrs) ? reader : std::nullopt;
}

std::optional<size_t> PartsFinder::OnlyReaderOf(const ComputeStep& step) const {
  const BufferId result = step.out[0].first;
  const auto storage = static_cast<size_t>(StorageOf(result));
  const Uses& uses = uses_[storage];
  if (plan_.storages[storage].kind != Storage::Kind::kTemporary || uses.reads != 1 || uses.writes != 1)
    return std::nullopt;
  const size_t reader = uses.last_read;
  const ComputeStep* const update = PlainUpdate(plan_, reader);
  if (update == nullptr || StorageOf(update->in[kGradient].first) != static_cast<int>(storage) ||
      plan_.buffers[static_cast<size_t>(update->in[kGradient].first)].offset !=
          plan_.buffers[static_cast<size_t>(result)].offset ||
      update->spec.operands[kGradient].local.num_elements() != step.spec.results[0].local.num_elements())
    return std::nullopt;
  // The update would overwrite operands of the step that it still reads at other places.
  for (const ValueBuffers& out : update->out)
    for (const ValueBuffers& in : step.in)
      if (StorageOf(out.first) == StorageOf(in.first)) return std::nullopt;
  return reader;
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
                          .parts = {{{cast->in[0].first}, {cast->out[0].first}, elements}}},
                .kind = MakeCudaParts(row, cast->spec).name,
                .touched = TouchedBy(plan_, plan_.steps[step]),
                .held = elements,
                .enough = kEnoughCasts};
}

std::optional<PartsFinder::Member> PartsFinder::Lookup(size_t step) const {
  const ComputeStep* const lookup = PlainStep(plan_, step, "gather");
  if (lookup == nullptr || !IsOfRows(*lookup)) return std::nullopt;
  const int64_t elements = lookup->spec.results[0].local.num_elements();
  if (elements == 0) return std::nullopt;
  const OpRow& row = *plan_.graph->nodes()[static_cast<size_t>(lookup->node)].row;
  return Member{.steps = {step},
                .alone = {.row = &row,
                          .spec = lookup->spec,
                          .common = {},
                          .parts = {{{lookup->in[0].first, lookup->in[1].first},
                                     {lookup->out[0].first},
                                     elements,
                                     TableRowsOf(*lookup, /*is_result=*/false)}}},
                .kind = MakeCudaParts(row, lookup->spec, /*alignment=*/16).name,
                .touched = TouchedBy(plan_, plan_.steps[step]),
                .held = elements,
                .enough = kEnoughHeld};
}

std::optional<PartsFinder::Member> PartsFinder::Update(size_t step, std::optional<size_t> feeds) const {
  const ComputeStep* const update = PlainUpdate(plan_, step);
  if (update == nullptr || update->spec.results[0].local.num_elements() == 0) return std::nullopt;
  const OpRow& row = *plan_.graph->nodes()[static_cast<size_t>(update->node)].row;
  Member member{.alone = {.row = &row, .spec = update->spec, .common = {}, .parts = {{}}},
                .kind = {},
                .touched = {},
                .enough = kEnoughHeld};
  CudaParts::Part& part = member.alone.parts[0];
  member.held = part.elements = update->spec.results[0].local.num_elements();
  const size_t own = CudaOperandsOfPart(row).value();
  for (size_t o = 0; o < update->in.size(); ++o)
    (o < own ? part.operands : member.alone.common).push_back(update->in[o].first);
  for (const ValueBuffers& out : update->out) part.results.push_back(out.first);
  if (feeds.has_value()) Fold(*feeds, member);
  member.steps.push_back(step);
  member.touched.Add(TouchedBy(plan_, plan_.steps[step]));
  const std::optional<KernelSpec>& scatter = member.alone.scatter;
  member.kind = (scatter.has_value() ? MakeCudaRowUpdates(row, member.alone.spec, *scatter)
                                     : MakeCudaParts(row, member.alone.spec))
                    .name;
  for (const BufferId buffer : member.alone.common) {
    const Buffer& at = plan_.buffers[static_cast<size_t>(buffer)];
    member.kind += fmt::format(" {}+{}", at.storage, at.offset);
  }
  return member;
}

void PartsFinder::Fold(size_t step, Member& member) const {
  const auto& folded = std::get<ComputeStep>(plan_.steps[step]);
  CudaParts::Part& part = member.alone.parts[0];
  part.operands[kGradient] = folded.in[0].first;
  if (folded.in.size() == 1) {  // a cast
    member.alone.spec.operands[kGradient].local.dtype = folded.spec.operands[0].local.dtype;
  } else {
    member.alone.scatter = folded.spec;
    part.operands.push_back(folded.in[1].first);
    part.table = TableRowsOf(folded, /*is_result=*/true);
    member.held = folded.spec.operands[0].local.num_elements();
  }
  member.steps.push_back(step);
  member.touched = TouchedBy(plan_, plan_.steps[step]);
}

std::optional<PartsFinder::Found> PartsFinder::Find(size_t first, size_t end) const {
  std::optional<Member> all;
  int64_t elements = 0;
  size_t at = first;
  while (at < end && (!all.has_value() || elements < all->enough)) {
    const bool feeds = at + 1 < end && UpdateOf(at) == at + 1;
    const size_t update = feeds ? at + 1 : at;
    std::optional<Member> member = Update(update, feeds ? std::optional(at) : std::nullopt);
    if (!member.has_value()) member = Lookup(at);
    if (!member.has_value()) member = CastOfVariable(at);
    if (!member.has_value()) break;
    elements += member->held;
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
