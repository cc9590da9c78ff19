#include "meshwork/tools/check/kernel_trial.h"

#include <algorithm>
#include <map>

#include "meshwork/base/status.h"
#include "meshwork/tools/check/owed.h"
#include "meshwork/tools/check/placements.h"
#include "meshwork/tools/check/run_kernel.h"

namespace meshwork {
namespace {

// The placements that a rule accepts. All layouts are of one mesh of one axis of `devices`.
class RuleBook {
 public:
  RuleBook(Rule rule, int64_t devices) : rule_(std::move(rule)), devices_(devices) {}

  const Rule& rule() const { return rule_; }

  // Whether it accepts operands with these layouts, with some layouts of the results.
  bool Takes(const std::vector<Layout>& operands) const {
    if (std::any_of(operands.begin(), operands.end(),
                    [](const Layout& layout) { return layout.is_partial(); })) {
      std::vector<PartialSet> owed;
      for (const Layout& layout : operands) owed.push_back(layout.partials());
      return rule_.PassOn(owed, AxisSet()).has_value();
    }
    for (int l = kNoLetter; l < static_cast<int>(rule_.letters.size()); ++l) {
      bool fits = l == kNoLetter || MayBeCut(rule_.letters[l]);
      for (size_t i = 0; fits && i < operands.size(); ++i) fits = LiesOn(l, rule_.operands[i], operands[i]);
      if (fits) return true;
    }
    return false;
  }

  // Whether the placement cuts a letter with windows. Such a placement may be right by chance, if these
  // blocks need nothing from their neighbours.
  bool CutsWindows(const OpPlacement& placement) const {
    for (const WindowedDim& w : rule_.windows)
      if (!placement.operands[w.operand].dim(w.dim).empty()) return true;
    return false;
  }

  bool Accepts(const OpPlacement& placement) const {
    for (const Layout& layout : placement.operands)
      if (layout.is_partial()) return AcceptsPartial(placement);
    if (AcceptsLetter(placement, kNoLetter)) return true;
    for (size_t l = 0; l < rule_.letters.size(); ++l)
      if (MayBeCut(rule_.letters[l]) && AcceptsLetter(placement, static_cast<int>(l))) return true;
    return false;
  }

 private:
  // Windows need an exchange before the op; tools/check/program_trial.h tries those.
  bool MayBeCut(const Letter& letter) const {
    return !letter.whole && !letter.windowed && (!letter.must_divide || letter.size % devices_ == 0);
  }

  // Whether exactly the dims of the letter are sharded; none for kNoLetter.
  static bool LiesOn(int letter, const LetterList& letters, const Layout& layout) {
    for (size_t d = 0; d < letters.size(); ++d) {
      const bool wanted = letter != kNoLetter && letters[d] == letter;
      if (wanted == layout.dim(static_cast<int>(d)).empty()) return false;
    }
    return true;
  }

  bool AcceptsLetter(const OpPlacement& placement, int letter) const {
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

  bool AcceptsPartial(const OpPlacement& placement) const {
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

class KernelTrial {
 public:
  KernelTrial(const Sample& sample, int64_t devices)
      : sample_(sample), mesh_(Mesh::Create({{"x", devices}}).value()), rules_(sample.rule(), devices) {
    for (const Type& type : sample.operands) operand_choices_.push_back(Choices(type));
    for (const Type& type : sample.results) result_choices_.push_back(Choices(type));
  }

  using Findings = std::vector<KernelFinding>;

  // Adds the wrong and missing placements to `findings`; returns how many there were.
  int64_t Run(Findings& findings) {
    ForEach(operand_choices_, [&](const auto& operands) { TryOperands(operands, findings); });
    for (ReduceOp op : kAllReduceOps)
      ForEachOwing(sample_.operands, operand_choices_, op,
                   [&](const auto& operands) { TryOperands(operands, findings); });
    return placements_;
  }

 private:
  using Choice = std::vector<Layout>;
  // With few elements a placement may be right by chance, but not every time.
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

  // The reduction that the partial layouts owe.
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

  // ForEach over combinations in which at least one of the values owes `op`.
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
    std::vector<DoubleTensor> expected;             // the one-device results
    std::vector<std::vector<DoubleTensor>> shards;  // per operand and device
  };

  absl::StatusOr<Draw> MakeDraw(const std::vector<Layout>& operands, uint64_t seed) const {
    Sampler sampler(seed);
    Draw draw;
    std::vector<DoubleTensor> wholes;
    for (size_t i = 0; i < operands.size(); ++i) {
      Owed value = operands[i].is_partial()
                       ? DrawOwed(sampler, *sample_.row, sample_.operands[i], operands[i].partials()[0].op,
                                  mesh_.num_devices(), seed)
                       : Blocks(Whole(sampler, sample_.operands[i], seed), operands[i]);
      wholes.push_back(std::move(value.whole));
      draw.shards.push_back(std::move(value.parts));
    }
    MESHWORK_ASSIGN_OR_RETURN(draw.expected, RunKernel(WholeCall(sample_, wholes)));
    return draw;
  }

  // Whole numbers are drawn with a sign only where a placement is to be refuted.
  DoubleTensor Whole(Sampler& sampler, const Type& type, uint64_t seed) const {
    DoubleTensor whole = sampler.Draw(type, *sample_.row);
    if (seed >= kDraws && IsInteger(type.dtype))
      for (double& x : whole.values) x = sampler.Below(2) == 0 ? x : -x;
    return whole;
  }

  // A value, and each device's block of it.
  Owed Blocks(DoubleTensor whole, const Layout& layout) const {
    Owed value{std::move(whole), {}};
    for (int64_t device = 0; device < mesh_.num_devices(); ++device)
      value.parts.push_back(PartOf(value.whole, layout.BlockOf(value.whole.type.shape, device)));
    return value;
  }

  std::vector<Type> LocalOperands(const std::vector<Layout>& layouts) const {
    std::vector<Type> types;
    for (size_t i = 0; i < layouts.size(); ++i) {
      const Type& type = sample_.operands[i];
      types.push_back({type.dtype, layouts[i].LocalShape(type.shape)});
    }
    return types;
  }

  // Whether the op takes blocks of these shapes; true if that also depends on the results.
  bool Fits(const std::vector<Layout>& operands) const {
    const OpRow& row = *sample_.row;
    const bool by_results = std::any_of(row.attrs.begin(), row.attrs.end(),
                                        [](const AttrSpec& attr) { return attr.is_result_shape; });
    if (row.resize != nullptr || by_results) return true;
    return row.infer({LocalOperands(operands), {}, sample_.attrs}).ok();
  }

  // The results of the row for one placement of the operands.
  struct Trial {
    std::vector<Draw> draws;
    std::map<std::string, std::vector<std::vector<DoubleTensor>>> outputs;  // by draw and result block shapes
  };

  void TryOperands(const std::vector<Layout>& operands, Findings& findings) {
    // If there are many operands, most of their placements do not fit together, whatever the results.
    if (!rules_.Takes(operands) && !Fits(operands)) {
      int64_t count = 1;
      for (const Choice& choice : result_choices_) count *= std::ssize(choice);
      placements_ += count;
      return;
    }
    Trial trial;
    auto try_results = [&](const std::vector<Layout>& results) {
      TryPlacement({operands, results}, trial, findings);
    };
    ForEach(result_choices_, try_results);
    for (ReduceOp op : kAllReduceOps) ForEachOwing(sample_.results, result_choices_, op, try_results);
  }

  void TryPlacement(const OpPlacement& placement, Trial& trial, Findings& findings) {
    ++placements_;
    const bool accepted = rules_.Accepts(placement);
    absl::StatusOr<bool> right = IsRight(placement, kDraws, trial);
    const bool may_be_missing =
        right.ok() && *right && !accepted && !rules_.CutsWindows(placement) && !IsImplied(placement);
    if (may_be_missing) right = IsRight(placement, kDrawsOfMissing, trial);
    if (!right.ok()) Add(true, placement, fmt::format(": {}", MessageOf(right.status())), findings);
    else if (accepted && !*right) Add(true, placement, "", findings);
    else if (may_be_missing && *right) Add(false, placement, "", findings);
  }

  void Add(bool is_wrong, const OpPlacement& placement, std::string_view why, Findings& findings) const {
    const std::string where = placement.ToString();
    findings.push_back(
        {is_wrong,
         fmt::format("{}: {}: {}{}", is_wrong ? "wrong" : "missing", sample_.ToString(), where, why), where,
         OwedBy(placement.operands), OwedBy(placement.results)});
  }

  // Whether a right placement follows from one that the rule accepts: a whole result is also a maximum of
  // equal values; and several reductions of the results may agree, as the minimum and the product of zeros
  // and ones do, but a rule states one of them.
  bool IsImplied(const OpPlacement& placement) const {
    if (!OwedBy(placement.results)) return false;
    OpPlacement other = placement;
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

  // The block types of the results, which determine the kernel.
  std::vector<Type> LocalResults(const OpPlacement& placement) const {
    std::vector<Type> types;
    for (size_t i = 0; i < placement.results.size(); ++i)
      types.push_back({sample_.results[i].dtype, placement.results[i].LocalShape(sample_.results[i].shape)});
    return types;
  }

  // Error: the kernel fails.
  absl::StatusOr<bool> IsRight(const OpPlacement& placement, size_t count, Trial& trial) const {
    const std::vector<Type> local = LocalResults(placement);
    const std::vector<Type> operands = LocalOperands(placement.operands);
    const auto attrs = ResizedAttrs(*sample_.row, {sample_.operands, sample_.results, sample_.attrs},
                                    operands, local[0].shape);
    if (!attrs.ok()) return false;
    const auto inferred = sample_.row->infer({operands, {}, *attrs});
    if (!inferred.ok() || *inferred != local) return false;
    for (size_t i = 0; i < count; ++i) {
      if (i == trial.draws.size()) {
        MESHWORK_ASSIGN_OR_RETURN(Draw made, MakeDraw(placement.operands, i));
        trial.draws.push_back(std::move(made));
      }
      const Draw& draw = trial.draws[i];
      std::string key = fmt::format("{}", i);  // blocks matter to kernels that read them
      for (const Layout& result : placement.results) key += result.WithoutPartials().ToString();
      auto it = trial.outputs.find(key);
      if (it == trial.outputs.end()) {
        MESHWORK_ASSIGN_OR_RETURN(auto outputs, RunDevices(placement, draw, *attrs, local));
        it = trial.outputs.emplace(key, std::move(outputs)).first;
      }
      if (!Matches(placement.results, it->second, draw.expected)) return false;
    }
    return true;
  }

  // Results per device.
  absl::StatusOr<std::vector<std::vector<DoubleTensor>>> RunDevices(const OpPlacement& placement,
                                                                    const Draw& draw, const Attrs& attrs,
                                                                    const std::vector<Type>& local) const {
    std::vector<std::vector<DoubleTensor>> results;
    for (int64_t device = 0; device < mesh_.num_devices(); ++device) {
      KernelCall call{
          .sample = &sample_, .attrs = attrs, .in = {}, .in_blocks = {}, .out = local, .out_blocks = {}};
      for (size_t i = 0; i < placement.operands.size(); ++i) {
        call.in.push_back(draw.shards[i][static_cast<size_t>(device)]);
        call.in_blocks.push_back(placement.operands[i].BlockOf(sample_.operands[i].shape, device));
      }
      for (size_t i = 0; i < placement.results.size(); ++i)
        call.out_blocks.push_back(placement.results[i].BlockOf(sample_.results[i].shape, device));
      MESHWORK_ASSIGN_OR_RETURN(std::vector<DoubleTensor> result, RunKernel(call));
      results.push_back(std::move(result));
    }
    return results;
  }

  bool Matches(const std::vector<Layout>& layouts, const std::vector<std::vector<DoubleTensor>>& results,
               const std::vector<DoubleTensor>& expected) const {
    for (size_t i = 0; i < layouts.size(); ++i) {
      const DType dtype = expected[i].type.dtype;
      if (layouts[i].is_partial()) {
        std::vector<double> total = results[0][i].values;
        for (size_t device = 1; device < results.size(); ++device)
          for (size_t e = 0; e < total.size(); ++e)
            total[e] = Reduced(dtype, layouts[i].partials()[0].op, total[e], results[device][i].values[e]);
        if (!Agree(dtype, total, expected[i].values)) return false;
        continue;
      }
      for (size_t device = 0; device < results.size(); ++device) {
        const Block block = layouts[i].BlockOf(expected[i].type.shape, static_cast<int64_t>(device));
        if (!Agree(dtype, results[device][i].values, PartOf(expected[i], block).values)) return false;
      }
    }
    return true;
  }

  const Sample& sample_;
  Mesh mesh_;
  RuleBook rules_;
  std::vector<Choice> operand_choices_, result_choices_;
  int64_t placements_ = 0;
};

}  // namespace

absl::Status TryWholeKernel(const Sample& sample) {
  Sampler sampler(7);
  std::vector<DoubleTensor> in;
  for (const Type& type : sample.operands) in.push_back(sampler.Draw(type, *sample.row));
  const KernelCall call = WholeCall(sample, in);
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<DoubleTensor> whole, RunKernel(call));
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<DoubleTensor> cut,
                            RunKernel(call, /*cuts=*/3, std::byte{0x5a}));
  for (size_t i = 0; i < whole.size(); ++i)
    if (ToBytes(whole[i]) != ToBytes(cut[i]))  // NaN, too
      return InvalidArgument(
          "the kernel leaves elements of result {} unwritten, or they depend on how its work is cut, of {}.",
          i, sample.ToString());
  if (sample.row->is_view && ToBytes(whole[0]) != ToBytes(in[0]))
    return InvalidArgument(
        "is_view is set, and the kernel does not leave the elements of the operand in their order, of {}.",
        sample.ToString());
  return absl::OkStatus();
}

Sample EvenSample(const Sample& sample, int64_t devices) {
  Sample even = sample;
  const size_t letters = sample.rule().letters.size();
  for (size_t l = 0; l < letters; ++l) {
    std::vector<int64_t> sizes;
    for (const Letter& letter : even.rule().letters) sizes.push_back(letter.size);
    if (sizes[l] % devices != 0) sizes[l] *= devices;
    if (std::optional<Sample> resized = Resized(even, sizes)) even = *std::move(resized);
  }
  return even;
}

int64_t TryKernel(const Sample& sample, int64_t devices, std::vector<KernelFinding>& findings) {
  return KernelTrial(sample, devices).Run(findings);
}

}  // namespace meshwork
