#include "meshwork/runtime/cuda/cuda_group.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <variant>

#include "meshwork/ir/graph.h"
#include "meshwork/ir/row.h"

namespace meshwork {
namespace {

constexpr size_t kMostOps = 48, kMostOperands = 24;
// A reduction of fewer rows has too few threads, unless it is small.
constexpr int64_t kFewRows = 64, kFewElements = 16384;

const OpRow* RowOf(const StepPlan& plan, const ComputeStep& compute) {
  return plan.graph->nodes()[static_cast<size_t>(compute.node)].row;
}

bool IsColumnFold(const StepPlan& plan, const Step& step) {
  const auto* const compute = std::get_if<ComputeStep>(&step);
  return compute != nullptr && !compute->once && !compute->one_by_one && compute->out.size() == 1 &&
         IsCudaColumnFold(*RowOf(plan, *compute), compute->spec);
}

}  // namespace

bool Spreads(const StepPlan& plan, const Step& step) {
  const auto* const compute = std::get_if<ComputeStep>(&step);
  if (compute == nullptr || compute->once) return false;
  const std::string_view name = RowOf(plan, *compute)->name;
  return (name == "broadcast_to" || name == "one_hot") &&
         compute->spec.operands[0].local.num_elements() < compute->spec.results[0].local.num_elements();
}

bool CudaGroupMaker::Add(const Step& step, bool may_spread) {
  const auto* const compute = std::get_if<ComputeStep>(&step);
  if (compute == nullptr || members_.size() == kMostOps || is_closed_) return false;
  std::optional<Member> member = MemberOf(*compute);
  if (!member.has_value()) return false;
  std::vector<Input> inputs = inputs_;
  bool is_linked = members_.empty();
  for (size_t o = 0; o < compute->in.size(); ++o)
    if (!AddOperand(*compute, o, *member, inputs, is_linked)) return false;
  if (inputs.size() > kMostOperands || !MayWrite(*member, inputs)) return false;
  for (const Member& other : members_) is_linked |= other.region == member->region;
  member->is_spread = Spreads(*plan_, step) && (members_.empty() || !is_linked);
  if (!is_linked && member->is_wide && !(may_spread && member->is_spread)) return false;
  if (member->is_fold) size_ = member->size;
  elements_ = member->elements;
  inputs_ = std::move(inputs);
  members_.push_back(*std::move(member));
  return true;
}

bool CudaGroupMaker::Close(const Step& step) {
  const auto* const compute = std::get_if<ComputeStep>(&step);
  if (compute == nullptr || !IsColumnFold(*plan_, step) || members_.empty() || size_ > 0 || is_closed_)
    return false;
  Member member{.op = {RowOf(*plan_, *compute), &compute->spec, {}},
                .region = RegionOf(compute->out[0], compute->spec.results[0].local),
                .buffer = compute->out[0].first,
                .dtype = compute->spec.results[0].local.dtype,
                .is_fold = true,
                .is_wide = true,
                .is_spread = false,
                .elements = elements_,
                .size = 0};
  const Type& type = compute->spec.operands[0].local;
  const Region region = RegionOf(compute->in[0], type);
  const auto overlaps = [](const auto& all, const Region& with) {
    return std::any_of(all.begin(), all.end(), [&](const auto& o) { return o.region.Overlaps(with); });
  };
  // The result must not overlap anything that the group reads or makes.
  if (overlaps(inputs_, member.region) || overlaps(members_, member.region)) return false;
  for (size_t m = members_.size(); m-- > 0;) {
    const Member& of = members_[m];
    if (!of.region.Overlaps(region)) continue;
    if (of.region != region || of.dtype != type.dtype || type.num_elements() != elements_) return false;
    member.op.operands.push_back({true, static_cast<int>(m)});
    members_.push_back(std::move(member));
    is_closed_ = true;
    return true;
  }
  return false;
}

CudaGroup CudaGroupMaker::Make(size_t first, const LaterReads& later) const {
  CudaGroup group{
      .first = first, .end = first + members_.size(), .has_rows = size_ > 0, .has_columns = is_closed_};
  for (const Input& input : inputs_) group.operands.push_back(input.buffer);
  for (size_t m = 0; m < members_.size(); ++m) {
    const Member& member = members_[m];
    group.ops.push_back(member.op);
    const bool is_overwritten = std::any_of(members_.begin() + static_cast<ptrdiff_t>(m) + 1, members_.end(),
                                            [&](const Member& o) { return o.region == member.region; });
    const int storage = member.region.storage;
    const bool is_read = plan_->storages[static_cast<size_t>(storage)].kind != Storage::Kind::kTemporary ||
                         later.IsRead(storage, group.end);
    const bool is_closing = is_closed_ && m + 1 == members_.size();
    if (is_overwritten || (!is_read && !is_closing)) continue;
    group.stored.push_back(static_cast<int>(m));
    group.results.push_back(member.buffer);
  }
  return group;
}

CudaGroupMaker::Region CudaGroupMaker::RegionOf(const ValueBuffers& value, const Type& type) const {
  const Buffer& buffer = plan_->buffers[static_cast<size_t>(value.first)];
  return {buffer.storage, buffer.offset, buffer.offset + type.bytes()};
}

std::optional<CudaGroupMaker::Member> CudaGroupMaker::MemberOf(const ComputeStep& compute) const {
  const OpRow& row = *RowOf(*plan_, compute);
  // If the op row reads blocks, a step computes its items one by one, even if there is only one.
  const bool may_be = row.reads_block
                          ? row.name == "one_hot" && compute.items.count() == 1 && compute.needed == 1
                          : !compute.one_by_one;
  if (compute.once || !may_be || compute.out.size() != 1) return std::nullopt;
  const Type& result = compute.spec.results[0].local;
  Member member{.op = {&row, &compute.spec, {}, row.reads_block ? &compute.blocks[0].back() : nullptr},
                .region = RegionOf(compute.out[0], result),
                .buffer = compute.out[0].first,
                .dtype = result.dtype,
                .is_fold = false,
                .is_wide = true,
                .is_spread = false,
                .elements = result.num_elements(),
                .size = size_};
  if (member.elements == 0) return std::nullopt;
  if (IsCudaElementwise(row)) {
    const std::vector<bool>& reduced = compute.spec.reduced;
    if (std::find(reduced.begin(), reduced.end(), true) != reduced.end()) return std::nullopt;
    member.is_wide = elements_ == 0 || member.elements == elements_;
    if (member.is_wide) return member;
    if (size_ == 0 || member.elements * size_ != elements_) return std::nullopt;
    member.elements = elements_;
    return member;
  }
  const std::optional<CudaRowsOf> rows = CudaRowsOfFold(row, compute.spec);
  if (!rows.has_value() || rows->size < 2) return std::nullopt;
  member.is_fold = true;
  member.elements = rows->rows * rows->size;
  member.size = rows->size;
  const bool fits = (elements_ == 0 || elements_ == member.elements) && (size_ == 0 || size_ == member.size);
  const bool is_worth_it = rows->rows >= kFewRows || member.elements <= kFewElements;
  return fits && is_worth_it ? std::optional(member) : std::nullopt;
}

bool CudaGroupMaker::AddOperand(const ComputeStep& compute, size_t o, Member& member,
                                std::vector<Input>& inputs, bool& is_linked) const {
  const Type& type = compute.spec.operands[o].local;
  const Region region = RegionOf(compute.in[o], type);
  const int64_t wanted = member.is_wide ? member.elements : member.elements / member.size;
  const bool is_whole = type.num_elements() == wanted;
  const Shape& shape = compute.spec.results[0].local.shape;
  const Pattern pattern = member.is_fold || is_whole
                              ? Pattern({type.num_elements()}, {1})
                              : Pattern(shape, CudaChainStrides(*member.op.row, compute.spec, o));
  const bool are_spread =
      std::all_of(members_.begin(), members_.end(), [](const Member& m) { return m.is_spread; });
  for (size_t m = members_.size(); m-- > 0;) {
    const Member& of = members_[m];
    if (!of.region.Overlaps(region)) continue;
    if (of.region != region || of.dtype != type.dtype) return false;
    const bool is_of_rows = member.has_wide_result() && !of.has_wide_result() && size_ > 0 &&
                            pattern.IsOfRows(member.elements / size_, size_);
    const bool is_alike = is_whole && member.is_wide == of.has_wide_result();
    if (!is_of_rows && !is_alike) return false;
    member.op.operands.push_back({true, static_cast<int>(m)});
    is_linked |= !of.is_spread || are_spread;
    return true;
  }
  const auto found = std::find_if(inputs.begin(), inputs.end(), [&](const Input& input) {
    return input.region == region && input.dtype == type.dtype && input.is_wide == member.is_wide &&
           input.pattern == pattern;
  });
  for (const Input& input : inputs_) is_linked |= input.region.Overlaps(region);
  member.op.operands.push_back({false, static_cast<int>(found - inputs.begin())});
  if (found == inputs.end())
    inputs.push_back({compute.in[o].first, region, type.dtype, pattern, member.is_wide, is_whole});
  return true;
}

bool CudaGroupMaker::MayWrite(const Member& member, const std::vector<Input>& inputs) const {
  const bool is_wide = member.has_wide_result();
  for (const Input& input : inputs) {
    const bool is_own =
        input.region == member.region &&
        (is_wide ? input.is_wide && input.is_whole : input.IsOfRows(member.elements, member.size));
    if (input.region.Overlaps(member.region) && !is_own) return false;
  }
  for (const Member& other : members_) {
    const bool is_same = other.region == member.region && other.has_wide_result() == is_wide;
    if (other.region.Overlaps(member.region) && !is_same) return false;
  }
  return true;
}

bool AddBehind(const StepPlan& plan, const std::vector<size_t>& spreads, size_t step, CudaGroupMaker& group) {
  if (spreads.empty()) return group.Add(plan.steps[step]);
  CudaGroupMaker trial = group;
  for (const size_t s : spreads)
    if (!trial.Add(plan.steps[s], /*may_spread=*/true)) return false;
  if (!trial.Add(plan.steps[step])) return false;
  group = std::move(trial);
  return true;
}

}  // namespace meshwork
