#include "meshwork/runtime/cuda/cuda_fusion.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>
#include <variant>

#include "meshwork/ir/row.h"
#include "meshwork/kernels/cuda/parts.h"
#include "meshwork/runtime/cuda/touched.h"

namespace meshwork {
namespace {

constexpr size_t kMostOps = 48, kMostOperands = 24;
// How many steps are passed over in search of one that joins.
constexpr size_t kMostPassed = 32;
// A reduction of fewer rows has too few threads, unless it is small.
constexpr int64_t kFewRows = 64, kFewElements = 16384;

// A part of a storage.
struct Region {
  int storage = -1;
  int64_t begin = 0, end = 0;  // bytes

  bool operator==(const Region&) const = default;
  bool Overlaps(const Region& other) const {
    return storage == other.storage && begin < other.end && other.begin < end;
  }
};

// Where an op finds the elements of an operand, if it makes its own in order. Dims of size 1 are left out, and those that
// follow each other in memory are one.
struct Pattern {
  struct Dim {
    int64_t size, stride;
    bool operator==(const Dim&) const = default;
  };
  std::vector<Dim> dims;  // minor to major

  Pattern(const Shape& shape, const Shape& strides) {
    for (size_t d = shape.size(); d-- > 0;) {
      if (shape[d] == 1) continue;
      if (!dims.empty() && strides[d] == dims.back().stride * dims.back().size) dims.back().size *= shape[d];
      else dims.push_back({shape[d], strides[d]});
    }
  }
  bool operator==(const Pattern&) const = default;
  // One element for each row of `size`.
  bool IsOfRows(int64_t rows, int64_t size) const {
    if (rows == 1) return dims == std::vector<Dim>{{size, 0}};
    return dims == std::vector<Dim>{{size, 0}, {rows, 1}};
  }
};

const OpRow* RowOf(const StepPlan& plan, const ComputeStep& compute) {
  return plan.graph->nodes()[static_cast<size_t>(compute.node)].row;
}

bool IsColumnFold(const StepPlan& plan, const Step& step) {
  const auto* const compute = std::get_if<ComputeStep>(&step);
  return compute != nullptr && !compute->once && !compute->one_by_one && compute->out.size() == 1 &&
         IsCudaColumnFold(*RowOf(plan, *compute), compute->spec);
}

// Whether the step makes many elements of few: whoever reads them can as well make them.
bool Spreads(const StepPlan& plan, const Step& step) {
  const auto* const compute = std::get_if<ComputeStep>(&step);
  if (compute == nullptr || compute->once) return false;
  const std::string_view name = RowOf(plan, *compute)->name;
  return (name == "broadcast_to" || name == "one_hot") &&
         compute->spec.operands[0].local.num_elements() < compute->spec.results[0].local.num_elements();
}

// A group in the making.
class GroupMaker {
 public:
  explicit GroupMaker(const StepPlan& plan) : plan_(&plan) {}

  size_t size() const { return members_.size(); }

  // Takes a reduction of columns as the last step, if it can be in one kernel with those before.
  bool Close(const Step& step) {
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
    // All blocks have read what they read when the result is written.
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

  // Takes the step if it can be in one kernel with those before; otherwise nothing changes. `may_spread`: also a step that
  // Spreads and has nothing to do with those before.
  bool Add(const Step& step, bool may_spread = false) {
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

  // `last_reads`: per storage, the last step that reads it.
  CudaGroup Make(size_t first, const std::vector<size_t>& last_reads) const {
    CudaGroup group{
        .first = first, .end = first + members_.size(), .has_rows = size_ > 0, .has_columns = is_closed_};
    for (const Input& input : inputs_) group.operands.push_back(input.buffer);
    for (size_t m = 0; m < members_.size(); ++m) {
      const Member& member = members_[m];
      group.ops.push_back(member.op);
      const bool is_overwritten =
          std::any_of(members_.begin() + static_cast<ptrdiff_t>(m) + 1, members_.end(),
                      [&](const Member& o) { return o.region == member.region; });
      const auto storage = static_cast<size_t>(member.region.storage);
      const bool is_read =
          plan_->storages[storage].kind != Storage::Kind::kTemporary || last_reads[storage] >= group.end;
      const bool is_closing = is_closed_ && m + 1 == members_.size();
      if (is_overwritten || (!is_read && !is_closing)) continue;
      group.stored.push_back(static_cast<int>(m));
      group.results.push_back(member.buffer);
    }
    return group;
  }

 private:
  struct Member {
    CudaChainOp op;
    Region region;
    BufferId buffer;
    DType dtype;
    bool is_fold, is_wide;   // wide: has an element for each of the group; a fold reads such
    bool is_spread;          // is there for its readers alone
    int64_t elements, size;  // of the group, with this member; of a row
    bool has_wide_result() const { return is_wide && !is_fold; }
  };
  struct Input {
    BufferId buffer;
    Region region;
    DType dtype;
    Pattern pattern;
    bool is_wide, is_whole;  // read by wide ops; element by element
    // Each element is read by the threads of one row before any of them writes.
    bool IsOfRows(int64_t elements, int64_t size) const {
      return size > 0 && (is_wide ? pattern.IsOfRows(elements / size, size) : is_whole);
    }
  };

  Region RegionOf(const ValueBuffers& value, const Type& type) const {
    const Buffer& buffer = plan_->buffers[static_cast<size_t>(value.first)];
    return {buffer.storage, buffer.offset, buffer.offset + type.bytes()};
  }

  // Without operands; nullopt if an op of this kind cannot join.
  std::optional<Member> MemberOf(const ComputeStep& compute) const {
    const OpRow& row = *RowOf(*plan_, compute);
    // Of rows that read blocks, a step computes one item after the other, even if there is but one.
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
    const bool fits =
        (elements_ == 0 || elements_ == member.elements) && (size_ == 0 || size_ == member.size);
    const bool is_worth_it = rows->rows >= kFewRows || member.elements <= kFewElements;
    return fits && is_worth_it ? std::optional(member) : std::nullopt;
  }

  bool AddOperand(const ComputeStep& compute, size_t o, Member& member, std::vector<Input>& inputs,
                  bool& is_linked) const {
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

  // A thread writes only where it has itself read before, or where nothing is read.
  bool MayWrite(const Member& member, const std::vector<Input>& inputs) const {
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

  const StepPlan* plan_;
  std::vector<Member> members_;
  std::vector<Input> inputs_;
  int64_t elements_ = 0;    // 0: nothing yet
  int64_t size_ = 0;        // of a row; 0: there is no reduction of rows
  bool is_closed_ = false;  // by a reduction of columns
};

// Takes the step, behind those of `spreads`; otherwise nothing changes.
bool AddWith(const StepPlan& plan, const std::vector<size_t>& spreads, size_t step, GroupMaker& group) {
  if (spreads.empty()) return group.Add(plan.steps[step]);
  GroupMaker trial = group;
  for (const size_t s : spreads)
    if (!trial.Add(plan.steps[s], /*may_spread=*/true)) return false;
  if (!trial.Add(plan.steps[step])) return false;
  group = std::move(trial);
  return true;
}

// Moves steps that Spread to their first readers.
void MoveToReaders(StepPlan& plan) {
  std::vector<std::pair<Touched, Step>> steps;
  for (Step& step : plan.steps) steps.emplace_back(TouchedBy(plan, step), std::move(step));
  for (auto at = steps.end(); at != steps.begin();) {
    --at;
    if (!Spreads(plan, at->second)) continue;
    const auto reader = std::find_if(at + 1, steps.end(),
                                     [&](const auto& other) { return other.first.Conflicts(at->first); });
    if (reader != steps.end()) std::rotate(at, at + 1, reader);
  }
  for (size_t i = 0; i < steps.size(); ++i) plan.steps[i] = std::move(steps[i].second);
}

// Of the steps in `left`, which are in the order of the plan.
std::vector<size_t> FusedOrder(const StepPlan& plan, const std::vector<Touched>& touched,
                               std::deque<size_t> left) {
  const auto conflicts = [&](size_t step, const std::vector<size_t>& with) {
    return std::any_of(with.begin(), with.end(),
                       [&](size_t other) { return touched[step].Conflicts(touched[other]); });
  };
  // The steps of `passed` that must be done before `step`.
  const auto needed_by = [&](size_t step, const std::vector<size_t>& passed) {
    std::vector<size_t> needed;
    for (size_t p = passed.size(); p-- > 0;)
      if (touched[passed[p]].Conflicts(touched[step]) || conflicts(passed[p], needed))
        needed.push_back(passed[p]);
    std::reverse(needed.begin(), needed.end());
    return needed;
  };
  const auto is_light = [&](size_t step) {
    const auto* const compute = std::get_if<ComputeStep>(&plan.steps[step]);
    return compute != nullptr && !RowOf(plan, *compute)->is_product;
  };
  std::vector<size_t> order;
  while (!left.empty()) {
    GroupMaker group(plan);
    // What is passed over runs behind the group, or before it if a step that joins must wait for it.
    std::vector<size_t> before, members = {left[0]}, behind;
    size_t seen = 1;
    if (group.Add(plan.steps[left[0]])) {
      for (; seen < left.size() && before.size() + behind.size() < kMostPassed; ++seen) {
        const size_t step = left[seen];
        if (std::holds_alternative<NestedStep>(plan.steps[step])) break;
        // Of what it needs, steps that Spread join with it if nothing that must run before reads them.
        const std::vector<size_t> needed = needed_by(step, behind);
        std::vector<size_t> first, spreads;
        for (size_t n = needed.size(); n-- > 0;)
          (Spreads(plan, plan.steps[needed[n]]) && !conflicts(needed[n], first) ? spreads : first)
              .push_back(needed[n]);
        std::reverse(spreads.begin(), spreads.end());
        const auto joins = [&] {
          const bool may_move = std::none_of(first.begin(), first.end(), [&](size_t other) {
            return conflicts(other, members) || !is_light(other);
          });
          return may_move && AddWith(plan, spreads, step, group);
        };
        if (!joins()) {
          const bool has_spreads = !spreads.empty();
          spreads.clear();
          first = needed;
          if (!has_spreads || !joins()) {
            behind.push_back(step);
            continue;
          }
        }
        members.insert(members.end(), spreads.begin(), spreads.end());
        members.push_back(step);
        before.insert(before.end(), first.begin(), first.end());
        std::erase_if(behind,
                      [&](size_t other) { return std::binary_search(needed.begin(), needed.end(), other); });
      }
    }
    // A reduction of columns, behind which nothing joins.
    for (size_t b = 0; b < behind.size(); ++b) {
      const size_t step = behind[b];
      const std::vector<size_t> first =
          needed_by(step, {behind.begin(), behind.begin() + static_cast<ptrdiff_t>(b)});
      if (!first.empty() || !group.Close(plan.steps[step])) continue;
      members.push_back(step);
      behind.erase(behind.begin() + static_cast<ptrdiff_t>(b));
      break;
    }
    if (members.size() == 1) {
      order.push_back(left[0]);
      left.pop_front();
      continue;
    }
    // Among what runs before may be groups, too.
    left.erase(left.begin(), left.begin() + static_cast<ptrdiff_t>(seen));
    left.insert(left.begin(), behind.begin(), behind.end());
    std::sort(before.begin(), before.end());
    for (const size_t step : FusedOrder(plan, touched, {before.begin(), before.end()})) order.push_back(step);
    order.insert(order.end(), members.begin(), members.end());
  }
  return order;
}

// The groups of elementwise ops and reductions.
std::vector<CudaGroup> FindChains(const StepPlan& plan) {
  std::vector<size_t> last_reads(plan.storages.size(), 0);
  for (size_t i = 0; i < plan.steps.size(); ++i)
    for (const int storage : TouchedBy(plan, plan.steps[i]).reads)
      last_reads[static_cast<size_t>(storage)] = i;
  std::vector<CudaGroup> groups;
  for (size_t i = 0; i < plan.steps.size();) {
    GroupMaker group(plan);
    for (std::vector<size_t> spreads; i + group.size() + spreads.size() < plan.steps.size();) {
      const size_t next = i + group.size() + spreads.size();
      if (AddWith(plan, spreads, next, group)) spreads.clear();
      else if (Spreads(plan, plan.steps[next])) spreads.push_back(next);
      else break;
    }
    if (i + group.size() < plan.steps.size()) group.Close(plan.steps[i + group.size()]);
    if (group.size() > 1) groups.push_back(group.Make(i, last_reads));
    i += std::max<size_t>(group.size(), 1);
  }
  return groups;
}

CudaGroup GroupOf(size_t first, PartsFinder::Found found) {
  CudaGroup group{.first = first, .end = found.end};
  const size_t own = CudaOperandsOfPart(*found.parts.row).value();
  group.operands = found.parts.common;
  for (const CudaParts::Part& part : found.parts.parts)
    for (size_t b = 0; b < part.buffers.size(); ++b)
      (b < own ? group.operands : group.results).push_back(part.buffers[b]);
  group.parts = std::move(found.parts);
  return group;
}

}  // namespace

StepPlan OrderForFusion(StepPlan plan) {
  MoveToReaders(plan);
  std::vector<Touched> touched;
  std::deque<size_t> all;
  for (const Step& step : plan.steps) {
    all.push_back(all.size());
    touched.push_back(TouchedBy(plan, step));
  }
  const auto take = [&](const std::vector<size_t>& order) {
    std::vector<Step> steps;
    for (const size_t i : order) steps.push_back(std::move(plan.steps[i]));
    plan.steps = std::move(steps);
  };
  take(FusedOrder(plan, touched, std::move(all)));
  std::vector<StepRange> units;
  for (const CudaGroup& chain : FindChains(plan)) {
    for (size_t i = units.empty() ? 0 : units.back().end; i < chain.first; ++i) units.push_back({i, i + 1});
    units.push_back({chain.first, chain.end});
  }
  for (size_t i = units.empty() ? 0 : units.back().end; i < plan.steps.size(); ++i)
    units.push_back({i, i + 1});
  take(OrderForParts(plan, units));
  for (Step& step : plan.steps)
    if (auto* const nested = std::get_if<NestedStep>(&step))
      for (StepPlan& body : nested->bodies) body = OrderForFusion(std::move(body));
  return plan;
}

std::vector<CudaGroup> FindCudaGroups(const StepPlan& plan) {
  std::vector<CudaGroup> chains = FindChains(plan), groups;
  const PartsFinder finder(plan);
  // Parts are between chains.
  size_t i = 0;
  const auto add_parts = [&](size_t end) {
    while (i < end) {
      std::optional<PartsFinder::Found> found = finder.Find(i, end);
      if (!found.has_value()) {
        ++i;
        continue;
      }
      groups.push_back(GroupOf(i, *std::move(found)));
      i = groups.back().end;
    }
  };
  for (CudaGroup& chain : chains) {
    add_parts(chain.first);
    i = chain.end;
    groups.push_back(std::move(chain));
  }
  add_parts(plan.steps.size());
  return groups;
}

}  // namespace meshwork
