#include "meshwork/verify/compute.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/ir/movement.h"
#include "meshwork/ir/row.h"
#include "meshwork/ir/rule.h"
#include "meshwork/verify/windows.h"

namespace meshwork {
namespace {

// ---- How letters are cut.

// Whether a device may hold arbitrary elements along the letter, because all are computed alike wherever they lie.
bool TakesAnyElements(const OpRow& row, const Letter& letter) {
  return !row.reads_block && !letter.must_divide && !letter.windowed;
}

AxisList AxesOf(const FactorList& factors) {
  AxisList axes;
  for (const Factor& factor : factors) axes.insert(axes.end(), factor.axes.begin(), factor.axes.end());
  return axes;
}

// Dims of one letter are cut alike, different letters by different axes.
absl::Status FitsLetter(const Claims& claims, const Rule& rule, int l, const FactorList& factors,
                        std::vector<std::optional<FactorList>>& cut, AxisSet& sharded) {
  const Letter& letter = rule.letters[l];
  const Mesh& mesh = claims.local().mesh();
  const AxisList axes = AxesOf(factors);
  if (cut[l].has_value()) {
    if (*cut[l] == factors) return absl::OkStatus();
    auto text = [&](const FactorList& cut) {
      return cut.size() > 1 ? Layout::Strided(mesh, {cut}).ToString() : mesh.AxesToString(cut[0].axes);
    };
    return InvalidArgument("letter {} of {} lies on {} and on {}.", letter.name, rule.ToString(),
                           text(*cut[l]), text(factors));
  }
  cut[l] = factors;
  const int64_t shards = mesh.GroupSize(axes);
  if ((letter.whole && shards != 1) || (letter.must_divide && letter.size % shards != 0))
    return InvalidArgument("letter {} of {} cannot be cut by {}.", letter.name, rule.ToString(),
                           mesh.AxesToString(axes));
  if (sharded.Intersects(AxisSet(axes)))
    return InvalidArgument("two letters of {} lie on {}.", rule.ToString(), mesh.AxesToString(axes));
  sharded = sharded.Union(AxisSet(axes));
  return absl::OkStatus();
}

// ---- What is owed.

absl::Status IsMasked(const Claims& claims, const Rule& rule, size_t operand, size_t letter, ValueId id) {
  for (int d = 0; d < static_cast<int>(rule.operands[operand].size()); ++d) {
    if (rule.operands[operand][d] != static_cast<int>(letter) ||
        !claims.LayoutOf(id).IsPadded(claims.GlobalShape(id), d))
      continue;
    if (claims.padding(id)[d] != static_cast<int8_t>(rule.reduce))
      return InvalidArgument(
          "it reduces over the padding of dim {} of {} {}, which is not masked by the "
          "identity of {}.",
          d, claims.local().value(id).global.ToString(), claims.LayoutOf(id).ToString(),
          ReduceOpName(rule.reduce));
  }
  return absl::OkStatus();
}

// The result owes the operands' reductions that the op passes on, and the reductions of reduced letters that are cut.
absl::Status FitsReductions(const Claims& claims, const Rule& rule,
                            const std::vector<std::optional<FactorList>>& cut, AxisSet sharded,
                            const Node& node) {
  absl::InlinedVector<PartialSet, 4> sets;
  for (ValueId id : node.operands) sets.push_back(claims.LayoutOf(id).partials());
  const std::optional<PartialSet> passed = rule.PassOn(sets, sharded);
  if (!passed.has_value()) return InvalidArgument("it does not pass on what its operands owe.");
  PartialSet owed = *passed;
  for (size_t l = 0; l < rule.letters.size(); ++l) {
    if (!rule.letters[l].reduced || !cut[l].has_value()) continue;
    for (int axis : AxesOf(*cut[l])) owed.push_back({axis, rule.reduce});
    for (size_t i = 0; i < node.operands.size(); ++i)
      MESHWORK_RETURN_IF_ERROR(IsMasked(claims, rule, i, l, node.operands[i]));
  }
  for (const Partial& partial : owed)
    if (partial.op != owed.front().op)
      return InvalidArgument("the result would owe a {} and a {}, which do not commute.",
                             ReduceOpName(owed.front().op), ReduceOpName(partial.op));
  std::sort(owed.begin(), owed.end(), [](const Partial& a, const Partial& b) { return a.axis < b.axis; });
  for (ValueId id : node.results) {
    const Layout& layout = claims.LayoutOf(id);
    if (layout.partials() != owed)
      return InvalidArgument("the result owes what {} says, not what {} does.",
                             Layout(claims.local().mesh(), {}, owed).ToString(), layout.ToString());
  }
  return absl::OkStatus();
}

absl::Status FitsRule(const Claims& claims, const Rule& rule, const Node& node) {
  std::vector<std::optional<FactorList>> cut(rule.letters.size());
  AxisSet sharded;
  absl::Status status = absl::OkStatus();
  auto fit = [&](const std::vector<LetterList>& lists, std::span<const ValueId> values) {
    for (size_t i = 0; i < lists.size(); ++i) {
      const Layout& layout = claims.LayoutOf(values[i]);
      for (int d = 0; d < static_cast<int>(lists[i].size()) && status.ok(); ++d) {
        const FactorList factors = layout.Factors(d, 1);
        if (lists[i][d] != kNoLetter) {
          if (factors.size() > 1 && !TakesAnyElements(*node.row, rule.letters[lists[i][d]]))
            status =
                InvalidArgument("{} is strided, and it works on blocks along dim {}.", layout.ToString(), d);
          else status = FitsLetter(claims, rule, lists[i][d], factors, cut, sharded);
        } else if (claims.local().mesh().GroupSize(AxesOf(factors)) != 1) {
          status =
              InvalidArgument("dim {} of {} must be whole for {}.", d, layout.ToString(), rule.ToString());
        }
      }
    }
  };
  fit(rule.operands, node.operands);
  fit(rule.results, node.results);
  MESHWORK_RETURN_IF_ERROR(status);
  return FitsReductions(claims, rule, cut, sharded, node);
}

// ---- Sums and ops.

// Whether the op runs on partial bf16 values that are carried in f32. Errors: only some operands are; a result owes
// nothing.
absl::StatusOr<bool> RunsWide(const Claims& claims, const Node& node) {
  ValueId wide = kNoValue, narrow = kNoValue;
  for (ValueId id : node.operands) {
    if (claims.IsWide(id)) wide = id;
    else if (claims.local().value(id).type.dtype == BF16) narrow = id;
  }
  if (wide == kNoValue) return false;
  if (narrow != kNoValue)
    return InvalidArgument("of its operands, {} is carried in f32 and {} is not.", claims.Describe(wide),
                           claims.Describe(narrow));
  for (ValueId id : node.results)
    if (!claims.LayoutOf(id).is_partial())
      return InvalidArgument("it reads {} in f32 and owes nothing; what is owed must be reduced and rounded.",
                             claims.Describe(wide));
  return true;
}

// Devices must not round terms before these are added up: only the whole is rounded. A picked term is exact, because
// one device has it whole; so are the results of ops that only move such terms.
absl::Status FitsTerms(const Claims& claims, bool only_moves, const Node& node) {
  for (ValueId id : node.results)
    if (!only_moves && claims.IsRoundedTerm(id))
      return InvalidArgument("{} {} is rounded before it is reduced; terms of bf16 are carried in f32.",
                             claims.local().value(id).type.ToString(), claims.LayoutOf(id).ToString());
  return absl::OkStatus();
}

std::optional<TermId> SumOf(Claims& claims, const Node& node, const TermList& operands) {
  const auto summands = SummandsOf(*node.row, operands);
  if (!summands.has_value()) return std::nullopt;
  return claims.terms().Sum(*summands, claims.GlobalShape(node.results[0]));
}

// A sum that is not a node of the global program: the same rule applies to its blocks as to those of a node.
absl::Status FitsSum(const Claims& claims, const Node& node) {
  const std::vector<Type> operands = GlobalTypesOf(claims.local(), node.operands);
  const std::vector<Type> results = GlobalTypesOf(claims.local(), node.results);
  MESHWORK_RETURN_IF_ERROR(RunsWide(claims, node).status());
  for (ValueId id : node.operands)
    if (claims.TermDType(id) != claims.TermDType(node.operands[0]))
      return InvalidArgument("it adds {} and {}.", DTypeName(claims.TermDType(node.operands[0])),
                             DTypeName(claims.TermDType(id)));
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<Type> whole, node.row->infer({operands, {}, node.attrs}));
  if (results != whole)
    return InvalidArgument("the result is part of a {}, not of a {}.", results[0].ToString(),
                           whole[0].ToString());
  MESHWORK_RETURN_IF_ERROR(FitsTerms(claims, /*only_moves=*/false, node));
  return FitsRule(claims, node.row->rule({operands, results, node.attrs}), node);
}

absl::Status FitsBlocks(const Claims& claims, const Node& global, const Node& local) {
  const std::vector<Type> operands = TypesOf(claims.global(), global.operands);
  const std::vector<Type> results = TypesOf(claims.global(), global.results);
  MESHWORK_ASSIGN_OR_RETURN(const bool is_wide, RunsWide(claims, local));
  for (size_t r = 0; r < results.size(); ++r)
    if (claims.local().value(local.results[r]).global != Claims::Carried(results[r], is_wide))
      return InvalidArgument("result {} is part of a {}, not of a {}.", r,
                             claims.local().value(local.results[r]).global.ToString(), results[r].ToString());
  const Rule rule = RuleOf(claims.global(), global);
  const std::vector<WindowedDim> windows = WindowsOn(claims.local(), local, rule, operands);
  if (!windows.empty() && local.row->on_windows == nullptr)
    return InvalidArgument("it moves elements of a dim that is sharded; that is an exchange.");
  MESHWORK_ASSIGN_OR_RETURN(Attrs attrs, ResizedAttrs(*local.row, {operands, results, global.attrs},
                                                      TypesOf(claims.local(), local.operands),
                                                      claims.local().value(local.results[0]).type.shape));
  for (size_t o = 0; o < operands.size(); ++o)
    MESHWORK_RETURN_IF_ERROR(
        HoldsWindows(claims.local(), local, rule, o, claims.windows(local.operands[o]), windows));
  if (!windows.empty()) attrs = local.row->on_windows(attrs, windows);
  if (attrs != local.attrs) return InvalidArgument("its attributes are not those of the op on blocks.");
  MESHWORK_RETURN_IF_ERROR(FitsRule(claims, rule, local));
  return FitsTerms(claims, OnlyMoves(rule), local);
}

}  // namespace

absl::Status CheckCompute(Claims& claims, const Node& node) {
  TermList operands;
  for (ValueId id : node.operands) operands.push_back(claims.TermOf(id));
  absl::Status status = absl::OkStatus();
  bool is_found = false, is_there = false;
  claims.terms().ForEachNode(*node.row, operands, node.attrs, [&](const Node& global) {
    if (is_found) return;
    absl::Status fits = FitsBlocks(claims, global, node);
    is_found = fits.ok();
    is_there = true;
    if (!fits.ok()) {
      status = std::move(fits);
      return;
    }
    const TermList results = claims.terms().Of(global.results);
    for (size_t r = 0; r < results.size(); ++r) claims.Set(node.results[r], results[r], Lemma::kRule);
  });
  if (is_found) return absl::OkStatus();
  if (is_there) return status;
  if (const std::optional<TermId> sum = SumOf(claims, node, operands); sum.has_value()) {
    MESHWORK_RETURN_IF_ERROR(FitsSum(claims, node));
    claims.Set(node.results[0], *sum, Lemma::kSum);
    return absl::OkStatus();
  }
  std::string of;
  for (TermId id : operands) of += (of.empty() ? "" : ", ") + claims.terms().Describe(id);
  return InvalidArgument("the global program has no {} of ({}) with these attributes.", node.row->name, of);
}

}  // namespace meshwork
