// Tries every placement of one op on a mesh of one axis: which are right, which the rule accepts.
//
// A placement gives each operand and result a layout: replicated, sharded along a dim that the axis
// divides, or partial by a reduction; the operands that are partial owe the same one. It is right if the
// row's kernel, run on each device's blocks, leaves the blocks of the one-device result. It is accepted if it
// follows from the rule's letters (one letter lies on the axis; a reduced one leaves the result partial) or
// from its passes (partial operands, partial result). What a partial operand is on each device:
// contract/owed.h.
#pragma once

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "contract/host_tensor.h"
#include "contract/owed.h"
#include "contract/tally.h"
#include "support/sample.h"

namespace meshwork {

// Placements that are right and that no rule says, with the reason why none has to.
struct Exception {
  std::string_view row;
  std::string_view reason;
  std::optional<ReduceOp> in = std::nullopt, out = std::nullopt;  // only from operands that owe `in`, …
};
inline constexpr std::string_view kOverflows = "the parts overflow, or vanish, where the whole does not";
inline constexpr std::string_view kRounds =
    "terms that are rounded are another sum; those tried here are exact";
inline constexpr std::string_view kFiniteSamples =
    "the sum or product of finite parts, all that is tried here, may be infinite";
inline constexpr std::string_view kTwoAtOnePlace = "only where no two updates go to one place";
inline constexpr std::string_view kFiniteOther = "only if the other operand is finite: -inf + inf is NaN";
inline constexpr Exception kMissingByDesign[] = {
    {"dimension_size",
     "reads no element of its operand; fold_sizes makes it a constant before layouts are chosen"},
    {"adam_update", "its results do not owe alike", ReduceOp::kMax},
    {"adam_update", "its results do not owe alike", ReduceOp::kMin},
    {"rsqrt", "1/sqrt(-0) is -inf", ReduceOp::kMin, ReduceOp::kMax},
    {"scatter_add", kTwoAtOnePlace, ReduceOp::kMax, ReduceOp::kMax},
    {"scatter_add", kTwoAtOnePlace, ReduceOp::kMin, ReduceOp::kMin},
    {"scatter_add", kTwoAtOnePlace, ReduceOp::kProd, ReduceOp::kProd},
    {"add", kFiniteOther, ReduceOp::kMax},
    {"add", kFiniteOther, ReduceOp::kMin},
    {"sub", kFiniteOther, ReduceOp::kMax},
    {"sub", kFiniteOther, ReduceOp::kMin},
    {"sign", kOverflows, ReduceOp::kProd, ReduceOp::kProd},
    {"neg", "only on an odd number of devices", ReduceOp::kProd, ReduceOp::kProd},
    {"cast", kOverflows, ReduceOp::kProd, ReduceOp::kAnd},
    {"cast", kRounds, ReduceOp::kSum, ReduceOp::kSum},
    {"cast", kRounds, ReduceOp::kProd, ReduceOp::kProd},
    {"exp", kOverflows, ReduceOp::kSum, ReduceOp::kProd},
    {"pow", kOverflows, ReduceOp::kSum, ReduceOp::kProd},
    {"pow", "only for exponents that are not negative", ReduceOp::kProd, ReduceOp::kProd},
    {"is_finite", kFiniteSamples, ReduceOp::kSum},
    {"is_finite", kFiniteSamples, ReduceOp::kProd},
    {"is_inf", kFiniteSamples, ReduceOp::kSum},
    {"is_inf", kFiniteSamples, ReduceOp::kProd},
    {"is_nan", kFiniteSamples, ReduceOp::kSum},
    {"is_nan", kFiniteSamples, ReduceOp::kProd},
};

inline bool IsMissingByDesign(const OpRow& row, std::optional<ReduceOp> in, std::optional<ReduceOp> out) {
  return std::any_of(std::begin(kMissingByDesign), std::end(kMissingByDesign), [&](const Exception& e) {
    return e.row == row.name && (!e.in || e.in == in) && (!e.out || e.out == out);
  });
}

// A placement as layouts, operands first.
struct Placement {
  std::vector<Layout> operands, results;

  std::string ToString() const {
    auto join = [](const std::vector<Layout>& layouts) {
      std::string out;
      for (const Layout& layout : layouts) out += (out.empty() ? "" : ", ") + layout.ToString();
      return out;
    };
    return join(operands) + " -> " + join(results);
  }
};

// Whether the rule says that the op may run so. All layouts are of one mesh of one axis of `devices`.
class RuleBook {
 public:
  RuleBook(Rule rule, int64_t devices) : rule_(std::move(rule)), devices_(devices) {}

  const Rule& rule() const { return rule_; }

  bool Accepts(const Placement& placement) const {
    for (const Layout& layout : placement.operands)
      if (layout.is_partial()) return AcceptsPartial(placement);
    if (AcceptsLetter(placement, kNoLetter)) return true;
    for (size_t l = 0; l < rule_.letters.size(); ++l)
      if (MayBeCut(rule_.letters[l]) && AcceptsLetter(placement, static_cast<int8_t>(l))) return true;
    return false;
  }

 private:
  bool MayBeCut(const Letter& letter) const {
    return !letter.whole && (!letter.must_divide || letter.size % devices_ == 0);
  }

  // Whether exactly the dims of the letter are sharded; none for kNoLetter.
  static bool LiesOn(int8_t letter, const LetterList& letters, const Layout& layout) {
    for (size_t d = 0; d < letters.size(); ++d) {
      const bool wanted = letter != kNoLetter && letters[d] == letter;
      if (wanted == layout.dim(static_cast<int>(d)).empty()) return false;
    }
    return true;
  }

  bool AcceptsLetter(const Placement& placement, int8_t letter) const {
    for (size_t i = 0; i < placement.operands.size(); ++i)
      if (!LiesOn(letter, rule_.operands[i], placement.operands[i])) return false;
    PartialSet owed;
    if (letter != kNoLetter && rule_.letters[letter].reduced) owed = {{0, rule_.reduce}};
    for (size_t i = 0; i < placement.results.size(); ++i) {
      const Layout& result = placement.results[i];
      if (!LiesOn(letter, rule_.results[i], result) || result.partials() != owed) return false;
    }
    return true;
  }

  bool AcceptsPartial(const Placement& placement) const {
    std::vector<PartialSet> owed;
    for (const Layout& layout : placement.operands) {
      if (!layout.ShardedAxes().empty()) return false;
      owed.push_back(layout.partials());
    }
    const std::optional<PartialSet> passed = rule_.PassOn(owed, AxisSet());
    if (!passed.has_value()) return false;
    for (const Layout& result : placement.results)
      if (!result.ShardedAxes().empty() || result.partials() != *passed) return false;
    return true;
  }

  Rule rule_;
  int64_t devices_;
};

class DirectTrial {
 public:
  DirectTrial(const Sample& sample, int64_t devices)
      : sample_(sample), mesh_(Mesh::Create({{"x", devices}}).value()), rules_(sample.rule(), devices) {
    for (const Type& type : sample.operands) operand_choices_.push_back(Choices(type));
    for (const Type& type : sample.results) result_choices_.push_back(Choices(type));
  }

  // Counts into the tally and adds a line per wrong or missing placement to `findings`.
  void Run(std::vector<std::string>& findings) {
    ForEach(operand_choices_, [&](const auto& operands) { TryOperands(operands, findings); });
    for (ReduceOp op : kAllReduceOps)
      ForEachOwing(sample_.operands, operand_choices_, op,
                   [&](const auto& operands) { TryOperands(operands, findings); });
  }

 private:
  using Choice = std::vector<Layout>;
  // A placement that is right by chance, among few elements, is not so every time.
  static constexpr size_t kDraws = 3, kDrawsOfMissing = 32;

  // Whole, or sharded along a dim.
  Choice Choices(const Type& type) const {
    const Layout whole = Layout::Replicated(mesh_, type.rank());
    Choice choices = {whole};
    for (int d = 0; d < type.rank(); ++d)
      if (type.shape[d] > 1 && type.shape[d] % mesh_.num_devices() == 0)
        choices.push_back(whole.WithDim(d, {0}));
    return choices;
  }

  // What is owed by those that are partial.
  static std::optional<ReduceOp> OwedBy(const std::vector<Layout>& layouts) {
    for (const Layout& layout : layouts)
      if (layout.is_partial()) return layout.partials()[0].op;
    return std::nullopt;
  }

  // Calls f with every combination of choices.
  template <typename F>
  static void ForEach(const std::vector<Choice>& choices, F&& f, std::vector<Layout> picked = {}) {
    if (picked.size() == choices.size()) return f(picked);
    for (const Layout& layout : choices[picked.size()]) {
      picked.push_back(layout);
      ForEach(choices, f, picked);
      picked.pop_back();
    }
  }

  // As ForEach, where at least one of the values owes `op`.
  template <typename F>
  void ForEachOwing(const std::vector<Type>& types, std::vector<Choice> choices, ReduceOp op, F&& f) const {
    for (size_t i = 0; i < types.size(); ++i) {
      if (!MayOwe(types[i].dtype, op)) continue;
      choices[i].push_back(Layout::Replicated(mesh_, types[i].rank()).WithPartials({{0, op}}));
    }
    ForEach(choices, [&](const std::vector<Layout>& layouts) {
      if (OwedBy(layouts)) f(layouts);
    });
  }

  struct Draw {
    std::vector<HostTensor> expected;             // the one-device results
    std::vector<std::vector<HostTensor>> shards;  // per operand and device
  };

  Draw MakeDraw(const std::vector<Layout>& operands, uint64_t seed) const {
    Random random(seed);
    Draw draw;
    std::vector<HostTensor> wholes;
    for (size_t i = 0; i < operands.size(); ++i) {
      Owed value = operands[i].is_partial()
                       ? OwedDraw(random, *sample_.row, sample_.operands[i], operands[i].partials()[0].op,
                                  mesh_.num_devices(), seed)
                             .Make()
                       : Blocks(Whole(random, sample_.operands[i], seed), operands[i]);
      wholes.push_back(std::move(value.whole));
      draw.shards.push_back(std::move(value.parts));
    }
    draw.expected = RunKernel(WholeCall(sample_, wholes));
    return draw;
  }

  // Whole numbers are drawn with a sign only where a placement is to be refuted.
  HostTensor Whole(Random& random, const Type& type, uint64_t seed) const {
    HostTensor whole = random.Draw(type, *sample_.row);
    if (seed >= kDraws && IsInteger(type.dtype))
      for (double& x : whole.values) x = random.Below(2) == 0 ? x : -x;
    return whole;
  }

  // A value and what each device holds of it.
  Owed Blocks(HostTensor whole, const Layout& layout) const {
    Owed value{std::move(whole), {}};
    for (int64_t device = 0; device < mesh_.num_devices(); ++device)
      value.parts.push_back(PartOf(value.whole, layout.BlockOf(value.whole.type.shape, device)));
    return value;
  }

  // What the row makes of one placement of the operands.
  struct Trial {
    std::vector<Draw> draws;
    std::map<std::string, std::vector<std::vector<HostTensor>>> outputs;  // by draw and result block shapes
  };

  void TryOperands(const std::vector<Layout>& operands, std::vector<std::string>& findings) const {
    Trial trial;
    auto try_results = [&](const std::vector<Layout>& results) {
      TryPlacement({operands, results}, trial, findings);
    };
    ForEach(result_choices_, try_results);
    for (ReduceOp op : kAllReduceOps) ForEachOwing(sample_.results, result_choices_, op, try_results);
  }

  void TryPlacement(const Placement& placement, Trial& trial, std::vector<std::string>& findings) const {
    ++TheTally().placements;
    const bool accepted = rules_.Accepts(placement);
    const bool right = IsRight(placement, kDraws, trial);
    if (accepted && !right) {
      ++TheTally().wrong;
      findings.push_back(fmt::format("wrong: {}: {}", sample_.ToString(), placement.ToString()));
    } else if (right && !accepted && !IsImplied(placement) &&
               !IsMissingByDesign(*sample_.row, OwedBy(placement.operands), OwedBy(placement.results)) &&
               IsRight(placement, kDrawsOfMissing, trial)) {
      ++TheTally().missing;
      findings.push_back(fmt::format("missing: {}: {}", sample_.ToString(), placement.ToString()));
    }
  }

  // Right, but no news: a maximum over equal values is any of them; and a rule says one reduction for what
  // the operands owe, where of zeros and ones, say, a minimum is a product.
  bool IsImplied(const Placement& placement) const {
    if (!OwedBy(placement.results)) return false;
    Placement other = placement;
    for (Layout& result : other.results) result = result.WithoutPartials();
    if (rules_.Accepts(other)) return true;
    for (ReduceOp op : kAllReduceOps) {
      for (size_t i = 0; i < other.results.size(); ++i)
        if (placement.results[i].is_partial())
          other.results[i] = placement.results[i].WithPartials({{0, op}});
      if (rules_.Accepts(other)) return true;
    }
    return false;
  }

  // Block shapes of the results, as a key; they decide what the kernel is asked for.
  std::vector<Type> LocalResults(const Placement& placement) const {
    std::vector<Type> types;
    for (size_t i = 0; i < placement.results.size(); ++i)
      types.push_back({sample_.results[i].dtype, placement.results[i].LocalShape(sample_.results[i].shape)});
    return types;
  }

  bool IsRight(const Placement& placement, size_t count, Trial& trial) const {
    const std::vector<Type> local = LocalResults(placement);
    std::vector<Type> operands;
    for (size_t i = 0; i < placement.operands.size(); ++i) {
      const Type& type = sample_.operands[i];
      operands.push_back({type.dtype, placement.operands[i].LocalShape(type.shape)});
    }
    const auto attrs = ResizedAttrs(*sample_.row, {sample_.operands, sample_.results, sample_.attrs},
                                    operands, local[0].shape);
    if (!attrs.ok()) return false;
    const auto inferred = sample_.row->infer({operands, {}, *attrs});
    if (!inferred.ok() || *inferred != local) return false;
    for (size_t i = 0; i < count; ++i) {
      if (i == trial.draws.size()) trial.draws.push_back(MakeDraw(placement.operands, i));
      const Draw& draw = trial.draws[i];
      std::string key = fmt::format("{}", i);  // blocks matter to kernels that read them
      for (const Layout& result : placement.results) key += result.WithoutPartials().ToString();
      const auto [it, is_new] = trial.outputs.try_emplace(key);
      if (is_new) it->second = RunDevices(placement, draw, *attrs, local);
      if (!Matches(placement.results, it->second, draw.expected)) return false;
    }
    return true;
  }

  // Results per device.
  std::vector<std::vector<HostTensor>> RunDevices(const Placement& placement, const Draw& draw,
                                                  const Attrs& attrs, const std::vector<Type>& local) const {
    std::vector<std::vector<HostTensor>> results;
    for (int64_t device = 0; device < mesh_.num_devices(); ++device) {
      KernelCall call{.sample = &sample_, .attrs = attrs, .out = local};
      for (size_t i = 0; i < placement.operands.size(); ++i) {
        call.in.push_back(draw.shards[i][static_cast<size_t>(device)]);
        call.in_blocks.push_back(placement.operands[i].BlockOf(sample_.operands[i].shape, device));
      }
      for (size_t i = 0; i < placement.results.size(); ++i)
        call.out_blocks.push_back(placement.results[i].BlockOf(sample_.results[i].shape, device));
      results.push_back(RunKernel(call));
    }
    return results;
  }

  bool Matches(const std::vector<Layout>& layouts, const std::vector<std::vector<HostTensor>>& results,
               const std::vector<HostTensor>& expected) const {
    for (size_t i = 0; i < layouts.size(); ++i) {
      const DType dtype = expected[i].type.dtype;
      if (layouts[i].is_partial()) {
        std::vector<double> total = results[0][i].values;
        for (size_t device = 1; device < results.size(); ++device)
          for (size_t e = 0; e < total.size(); ++e)
            total[e] = Reduced(dtype, layouts[i].partials()[0].op, total[e], results[device][i].values[e]);
        if (!AgreeOrNaN(dtype, total, expected[i].values)) return false;
        continue;
      }
      for (size_t device = 0; device < results.size(); ++device) {
        const Block block = layouts[i].BlockOf(expected[i].type.shape, static_cast<int64_t>(device));
        if (!AgreeOrNaN(dtype, results[device][i].values, PartOf(expected[i], block).values)) return false;
      }
    }
    return true;
  }

  const Sample& sample_;
  Mesh mesh_;
  RuleBook rules_;
  std::vector<Choice> operand_choices_, result_choices_;
};

}  // namespace meshwork
