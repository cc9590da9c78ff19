#include "meshwork/tools/check/placements.h"

#include <algorithm>
#include <iterator>

#include "meshwork/tools/check/owed.h"

namespace meshwork {

std::string OpPlacement::ToString() const {
  auto join = [](const std::vector<Layout>& layouts) {
    std::string out;
    for (const Layout& layout : layouts) out += (out.empty() ? "" : ", ") + layout.ToString();
    return out;
  };
  return join(operands) + " -> " + join(results);
}

std::vector<LetterAxes> AllLetterAxes(const Mesh& mesh, size_t letters) {
  std::vector<LetterAxes> all = {LetterAxes(letters)};
  for (int axis = 0; axis < mesh.num_axes(); ++axis) {
    std::vector<LetterAxes> next = all;
    for (const LetterAxes& axes : all) {
      for (size_t l = 0; l < letters; ++l) {
        for (size_t at = 0; at <= axes[l].size(); ++at) {
          next.push_back(axes);
          next.back()[l].insert(next.back()[l].begin() + static_cast<int64_t>(at), axis);
        }
      }
    }
    all = std::move(next);
  }
  return all;
}

OpPlacement PlacementOf(const Rule& rule, const LetterAxes& axes, const Mesh& mesh) {
  auto layout = [&](const LetterList& letters) {
    std::vector<AxisList> dims;
    for (int letter : letters) dims.push_back(letter == kNoLetter ? AxisList() : axes[letter]);
    return Layout(mesh, std::move(dims));
  };
  OpPlacement placement;
  for (const LetterList& letters : rule.operands) placement.operands.push_back(layout(letters));
  for (const LetterList& letters : rule.results) placement.results.push_back(layout(letters));
  return placement;
}

OpPlacement StridedPlacement(const Sample& sample, const Rule& rule, const Mesh& mesh,
                             std::mt19937_64& engine) {
  std::vector<FactorList> cuts;
  for (const Letter& letter : rule.letters) {
    const int64_t inner = 2 + static_cast<int64_t>(engine() % 2);
    if (letter.size % inner == 0) cuts.push_back({{letter.size / inner, {}}, {inner, {}}});
    else cuts.push_back({{letter.size, {}}});
  }
  for (int axis = 0; axis < mesh.num_axes(); ++axis) {
    const size_t l = engine() % (cuts.size() + 1);
    if (l < cuts.size()) cuts[l][engine() % cuts[l].size()].axes.push_back(axis);
  }
  auto layout = [&](const LetterList& letters, const Type& type) {
    std::vector<FactorList> dims;
    for (size_t d = 0; d < letters.size(); ++d) {
      const bool fits = letters[d] != kNoLetter && rule.letters[letters[d]].size == type.shape[d];
      dims.push_back(fits ? cuts[letters[d]] : FactorList{{type.shape[d], {}}});
    }
    return Layout::Strided(mesh, dims);
  };
  OpPlacement placement;
  for (size_t i = 0; i < rule.operands.size(); ++i)
    placement.operands.push_back(layout(rule.operands[i], sample.operands[i]));
  for (size_t i = 0; i < rule.results.size(); ++i)
    placement.results.push_back(layout(rule.results[i], sample.results[i]));
  return placement;
}

OpPlacement RandomPlacement(const Sample& sample, const Mesh& mesh, std::mt19937_64& engine) {
  auto layout = [&](const Type& type) {
    std::vector<AxisList> dims(type.shape.size());
    for (int axis = 0; axis < mesh.num_axes(); ++axis) {
      const size_t d = engine() % (dims.size() + 1);
      if (d == dims.size()) continue;
      dims[d].insert(engine() % 2 == 0 ? dims[d].begin() : dims[d].end(), axis);
    }
    return Layout(mesh, std::move(dims));
  };
  OpPlacement placement;
  for (const Type& type : sample.operands) placement.operands.push_back(layout(type));
  for (const Type& type : sample.results) placement.results.push_back(layout(type));
  return placement;
}

std::optional<Debt> RandomDebt(const Sample& sample, const Rule& rule, const LetterAxes& axes,
                               const Mesh& mesh, std::mt19937_64& engine) {
  std::vector<int> free;
  for (int axis = 0; axis < mesh.num_axes(); ++axis) {
    if (std::none_of(axes.begin(), axes.end(),
                     [&](const AxisList& list) { return AxisSet(list).Contains(axis); }))
      free.push_back(axis);
  }
  if (free.empty() || sample.operands.empty()) return std::nullopt;
  Debt debt{free[engine() % free.size()], kAllReduceOps[engine() % std::size(kAllReduceOps)], {}};
  if (!rule.passes.empty() && engine() % 4 != 0) debt.op = rule.passes[engine() % rule.passes.size()].in;
  // Parts in bf16 do not add up to the whole.
  const bool rounds = debt.op == ReduceOp::kSum || debt.op == ReduceOp::kProd;
  auto may_owe = [&](DType dtype) { return MayOwe(dtype, debt.op) && !(rounds && dtype == BF16); };
  const uint64_t chosen = engine();
  for (size_t i = 0; i < sample.operands.size(); ++i)
    debt.operands.push_back(may_owe(sample.operands[i].dtype) && (chosen % 3 == 0 || chosen >> (i + 2) & 1));
  if (std::none_of(debt.operands.begin(), debt.operands.end(), [](bool owes) { return owes; }))
    return std::nullopt;
  return debt;
}

}  // namespace meshwork
