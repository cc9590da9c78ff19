// Tries every placement of one op on a mesh of one axis: which are right, which the rule accepts.
//
// A placement gives each operand and result a layout: replicated, sharded along a dim that the axis
// divides, or partial. It is right if the row's kernel, run on each device's blocks, leaves the blocks of
// the one-device result. It is accepted if it follows from the rule's letters (one letter lies on the
// axis; a reduced one leaves the result partial) or from its linearity (partial operands, partial result).
#pragma once

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "contract/host_tensor.h"
#include "support/sample.h"
#include "contract/tally.h"

namespace meshwork {

// Rows with placements that are right and that no rule can say, with the reason why none has to.
struct Exception {
  std::string_view row;
  std::string_view reason;
};
inline constexpr Exception kMissingByDesign[] = {
    {"dimension_size",
     "reads no element of its operand; fold_sizes makes it a constant before layouts are chosen"},
};

inline bool IsMissingByDesign(const OpRow& row) {
  return std::any_of(std::begin(kMissingByDesign), std::end(kMissingByDesign),
                     [&](const Exception& exception) { return exception.row == row.name; });
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
    for (const Type& type : sample.operands) operand_choices_.push_back(Choices(type, /*is_result=*/false));
    for (const Type& type : sample.results) result_choices_.push_back(Choices(type, /*is_result=*/true));
  }

  // Counts into the tally and adds a line per wrong or missing placement to `findings`.
  void Run(std::vector<std::string>& findings) {
    std::vector<Layout> operands;
    ForEach(operand_choices_, operands, [&] { TryOperands(operands, findings); });
  }

 private:
  using Choice = std::vector<Layout>;
  static constexpr int kDraws = 2;  // a placement that is right by chance is not so twice

  Choice Choices(const Type& type, bool is_result) const {
    const Layout whole = Layout::Replicated(mesh_, type.rank());
    Choice choices = {whole};
    for (int d = 0; d < type.rank(); ++d)
      if (type.shape[d] > 1 && type.shape[d] % mesh_.num_devices() == 0)
        choices.push_back(whole.WithDim(d, {0}));
    if (type.dtype == BOOL) return choices;
    choices.push_back(whole.WithPartials({{0, ReduceOp::kSum}}));
    if (is_result) choices.push_back(whole.WithPartials({{0, ReduceOp::kMax}}));
    return choices;
  }

  // Calls f with every combination of choices in `picked`.
  template <typename F>
  static void ForEach(const std::vector<Choice>& choices, std::vector<Layout>& picked, F&& f) {
    if (picked.size() == choices.size()) return f();
    for (const Layout& layout : choices[picked.size()]) {
      picked.push_back(layout);
      ForEach(choices, picked, f);
      picked.pop_back();
    }
  }

  // Per device, what a value of this layout is there.
  std::vector<HostTensor> Shards(const HostTensor& whole, const Layout& layout, Random& random) const {
    if (layout.is_partial()) return random.Split(whole, *sample_.row, mesh_.num_devices());
    std::vector<HostTensor> shards;
    for (int64_t device = 0; device < mesh_.num_devices(); ++device)
      shards.push_back(PartOf(whole, layout.BlockOf(whole.type.shape, device)));
    return shards;
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
      wholes.push_back(random.Draw(sample_.operands[i], *sample_.row));
      draw.shards.push_back(Shards(wholes[i], operands[i], random));
    }
    draw.expected = RunKernel(WholeCall(sample_, wholes));
    return draw;
  }

  void TryOperands(const std::vector<Layout>& operands, std::vector<std::string>& findings) {
    std::vector<Draw> draws;
    for (int i = 0; i < kDraws; ++i) draws.push_back(MakeDraw(operands, 1 + static_cast<uint64_t>(i)));
    std::map<std::string, std::vector<std::vector<HostTensor>>> outputs;  // by result block shapes
    Placement placement{operands, {}};
    ForEach(result_choices_, placement.results, [&] {
      ++TheTally().placements;
      const bool accepted = rules_.Accepts(placement);
      const bool right = IsRight(placement, draws, outputs);
      if (accepted && !right) {
        ++TheTally().wrong;
        findings.push_back(fmt::format("wrong: {}: {}", sample_.ToString(), placement.ToString()));
      } else if (right && !accepted && !IsImplied(placement) && !IsMissingByDesign(*sample_.row)) {
        ++TheTally().missing;
        findings.push_back(fmt::format("missing: {}: {}", sample_.ToString(), placement.ToString()));
      }
    });
  }

  // Right, but no news: a maximum over equal values is any of them; whole numbers are no linear space (a
  // cast wraps).
  bool IsImplied(const Placement& placement) const {
    Placement whole = placement;
    bool has_max = false;
    for (Layout& result : whole.results) {
      if (result.partials() != PartialSet{{0, ReduceOp::kMax}}) continue;
      has_max = true;
      result = result.WithoutPartials();
    }
    if (has_max && rules_.Accepts(whole)) return true;
    for (size_t i = 0; i < placement.operands.size(); ++i)
      if (placement.operands[i].is_partial() && !IsFloat(sample_.operands[i].dtype)) return true;
    return false;
  }

  // Block shapes of the results, as a key; they decide what the kernel is asked for.
  std::vector<Type> LocalResults(const Placement& placement) const {
    std::vector<Type> types;
    for (size_t i = 0; i < placement.results.size(); ++i)
      types.push_back({sample_.results[i].dtype, placement.results[i].LocalShape(sample_.results[i].shape)});
    return types;
  }

  bool IsRight(const Placement& placement, const std::vector<Draw>& draws,
               std::map<std::string, std::vector<std::vector<HostTensor>>>& outputs) const {
    const std::vector<Type> local = LocalResults(placement);
    std::vector<Type> operands;
    for (const auto& shards : draws[0].shards) operands.push_back(shards[0].type);
    const auto attrs = ResizedAttrs(*sample_.row, {sample_.operands, sample_.results, sample_.attrs},
                                    operands, local[0].shape);
    if (!attrs.ok()) return false;
    const auto inferred = sample_.row->infer({operands, {}, *attrs});
    if (!inferred.ok() || *inferred != local) return false;
    for (size_t i = 0; i < draws.size(); ++i) {
      std::string key = fmt::format("{}", i);  // blocks matter to kernels that read them
      for (const Layout& result : placement.results) key += result.WithoutPartials().ToString();
      const auto [it, is_new] = outputs.try_emplace(key);
      if (is_new) it->second = RunDevices(placement, draws[i], *attrs, local);
      if (!Matches(placement.results, it->second, draws[i].expected)) return false;
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
        if (!Agree(dtype, Combine(results, i, layouts[i].partials()[0].op), expected[i].values)) return false;
        continue;
      }
      for (size_t device = 0; device < results.size(); ++device) {
        const Block block = layouts[i].BlockOf(expected[i].type.shape, static_cast<int64_t>(device));
        if (!Agree(dtype, results[device][i].values, PartOf(expected[i], block).values)) return false;
      }
    }
    return true;
  }

  static std::vector<double> Combine(const std::vector<std::vector<HostTensor>>& results, size_t i,
                                     ReduceOp op) {
    std::vector<double> total = results[0][i].values;
    for (size_t device = 1; device < results.size(); ++device) {
      for (size_t e = 0; e < total.size(); ++e) {
        const double x = results[device][i].values[e];
        total[e] = op == ReduceOp::kSum ? total[e] + x : std::max(total[e], x);
      }
    }
    return total;
  }

  const Sample& sample_;
  Mesh mesh_;
  RuleBook rules_;
  std::vector<Choice> operand_choices_, result_choices_;
};

}  // namespace meshwork
