#include "meshwork/spmd/solver/min_out.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace meshwork {
namespace {

// One vectorised loop computes a block of the result. A block has at least kMinBlock entries, if the result has so
// many, and grows further up to kGoodBlock.
constexpr size_t kMinBlock = 16, kGoodBlock = 64;

// Pieces with at most this part of all outer combinations are added up before the loop, so that the loop adds fewer
// pieces.
constexpr double kFew = 1.0 / 32;

// A sum of tables over [outer variables..., the eliminated variable, the block], or without the block.
struct Piece {
  CostTable table;
  bool has_block = false;
  std::vector<size_t> strides;  // per outer variable of the result
  const double* at = nullptr;
};

bool Includes(std::span<const int> outer, const std::vector<int>& variables) {
  return std::all_of(variables.begin(), variables.end(),
                     [&](int v) { return std::find(outer.begin(), outer.end(), v) != outer.end(); });
}

template <int kCount>
void MinInto(size_t block, const std::array<const double*, 3>& terms, double constant,
             double* __restrict least) {
  const double *a = terms[0], *b = terms[1], *c = terms[2];
  for (size_t j = 0; j < block; ++j) {
    double sum = constant + a[j];
    if constexpr (kCount > 1) sum += b[j];
    if constexpr (kCount > 2) sum += c[j];
    least[j] = sum < least[j] ? sum : least[j];
  }
}

// Minimises over one variable; the result's variables are outer ones, then those of a block.
class MinOutLoop {
 public:
  MinOutLoop(int variable, std::span<const CostTable* const> tables, std::span<const int> states)
      : variable_(variable), states_(states) {
    ChooseScope(tables);
    AddPieces(tables);
  }

  CostTable Run() {
    std::vector<double> least(static_cast<size_t>(Combinations(scope_, states_)), kNever);
    std::vector<size_t> at(num_outer_, 0);
    for (double *out = least.data(), *end = out + least.size(); out < end; out += block_) {
      MinOfBlock(out);
      for (size_t d = num_outer_; d-- > 0;) {
        const auto size = static_cast<size_t>(states_[scope_[d]]);
        for (Piece& piece : pieces_) piece.at += piece.strides[d];
        if (++at[d] < size) break;
        for (Piece& piece : pieces_) piece.at -= piece.strides[d] * size;
        at[d] = 0;
      }
    }
    return {scope_, std::move(least)};
  }

 private:
  // Variables of many tables come last, in the block: a table with some of the block's variables is repeated for the
  // rest.
  void ChooseScope(std::span<const CostTable* const> tables) {
    std::vector<int> all;
    for (const CostTable* table : tables)
      for (int v : table->variables)
        if (v != variable_) all.push_back(v);
    std::sort(all.begin(), all.end());
    std::vector<std::pair<int, int>> counted;  // how often, variable
    for (size_t i = 0; i < all.size(); ++i) {
      if (i == 0 || all[i] != all[i - 1]) counted.emplace_back(0, all[i]);
      ++counted.back().first;
    }
    std::sort(counted.begin(), counted.end());
    for (const auto& [count, v] : counted) scope_.push_back(v);
    num_outer_ = scope_.size();
    for (; num_outer_ > 0; --num_outer_) {
      const auto next = static_cast<size_t>(states_[scope_[num_outer_ - 1]]);
      if (block_ >= kMinBlock && block_ * next > kGoodBlock) break;
      block_ *= next;
    }
  }

  // Tables that are added up before the loop, as a Piece.
  struct Planned {
    std::vector<int> outer;
    bool has_block;
    std::vector<const CostTable*> tables;
  };

  std::span<const int> Outer() const { return std::span<const int>(scope_).first(num_outer_); }
  std::span<const int> Inner() const { return std::span<const int>(scope_).subspan(num_outer_); }

  std::vector<Planned> Plan(std::span<const CostTable* const> tables) const {
    std::vector<Planned> each, joined;
    for (const CostTable* table : tables) {
      Planned one{{}, Inner().empty(), {table}};
      for (int v : Outer())
        if (Includes(table->variables, {v})) one.outer.push_back(v);
      for (int v : Inner()) one.has_block |= Includes(table->variables, {v});
      each.push_back(std::move(one));
    }
    std::stable_sort(each.begin(), each.end(), [](const Planned& a, const Planned& b) {
      return a.has_block != b.has_block ? a.has_block : a.outer.size() > b.outer.size();
    });
    const double few = kFew * Combinations(Outer(), states_);
    for (Planned& one : each) {
      auto home = std::find_if(joined.begin(), joined.end(), [&](const Planned& piece) {
        if (one.has_block && !piece.has_block) return false;
        return Includes(piece.outer, one.outer) || Combinations(Both(piece.outer, one.outer), states_) <= few;
      });
      if (home == joined.end()) {
        joined.push_back(std::move(one));
      } else {
        home->outer = Both(home->outer, one.outer);
        home->tables.push_back(one.tables[0]);
      }
    }
    return joined;
  }

  void AddPieces(std::span<const CostTable* const> tables) {
    for (const Planned& planned : Plan(tables)) {
      Piece piece{{planned.outer, {}}, planned.has_block};
      piece.table.variables.push_back(variable_);
      if (piece.has_block)
        piece.table.variables.insert(piece.table.variables.end(), Inner().begin(), Inner().end());
      std::vector<double> sum(static_cast<size_t>(Combinations(piece.table.variables, states_)), 0);
      for (const CostTable* table : planned.tables) AddBroadcast(*table, piece.table.variables, states_, sum);
      piece.table.costs = std::move(sum);
      piece.strides.assign(num_outer_, 0);
      size_t stride = static_cast<size_t>(states_[variable_]) * (piece.has_block ? block_ : 1);
      for (size_t p = planned.outer.size(); p-- > 0;) {
        const int v = planned.outer[p];
        piece.strides[std::find(Outer().begin(), Outer().end(), v) - Outer().begin()] = stride;
        stride *= static_cast<size_t>(states_[v]);
      }
      pieces_.push_back(std::move(piece));
    }
    for (Piece& piece : pieces_) piece.at = piece.table.costs.data();
  }

  static std::vector<int> Both(std::vector<int> a, const std::vector<int>& b) {
    for (int v : b)
      if (!Includes(a, {v})) a.push_back(v);
    return a;
  }

  void MinOfBlock(double* least) {
    const auto num_states = static_cast<size_t>(states_[variable_]);
    for (size_t s = 0; s < num_states; ++s) {
      double constant = 0;
      size_t num_terms = 0;
      std::array<const double*, 3> terms{};
      for (const Piece& piece : pieces_) {
        if (!piece.has_block) {
          constant += piece.at[s];
        } else {
          const double* term = piece.at + s * block_;
          if (num_terms == terms.size()) {
            // The loops below take at most three terms: the first three become one.
            folded_.resize(block_);
            for (size_t j = 0; j < block_; ++j) folded_[j] = terms[0][j] + terms[1][j] + terms[2][j];
            terms[0] = folded_.data();
            num_terms = 1;
          }
          terms[num_terms++] = term;
        }
      }
      if (num_terms == 1) MinInto<1>(block_, terms, constant, least);
      if (num_terms == 2) MinInto<2>(block_, terms, constant, least);
      if (num_terms == 3) MinInto<3>(block_, terms, constant, least);
    }
  }

  const int variable_;
  const std::span<const int> states_;
  std::vector<int> scope_;
  size_t num_outer_ = 0, block_ = 1;
  std::vector<Piece> pieces_;
  std::vector<double> folded_;
};

// Below so many combinations, planning the loops takes longer than running them.
constexpr size_t kSmall = 1024;
constexpr size_t kMostVariables = 6;

// As MinOutLoop, for few combinations: all tables are added up, then the least is taken.
std::optional<CostTable> MinOutOfFew(int variable, std::span<const CostTable* const> tables,
                                     std::span<const int> states) {
  std::array<int, kMostVariables> scope;  // the eliminated variable last
  size_t rank = 0;
  for (const CostTable* table : tables) {
    for (int v : table->variables) {
      if (v == variable || std::find(scope.begin(), scope.begin() + rank, v) != scope.begin() + rank)
        continue;
      if (rank + 1 == kMostVariables) return std::nullopt;
      scope[rank++] = v;
    }
  }
  scope[rank++] = variable;
  size_t combinations = 1;
  for (size_t d = 0; d < rank; ++d) combinations *= static_cast<size_t>(states[scope[d]]);
  if (combinations > kSmall) return std::nullopt;
  std::array<double, kSmall> sums;
  std::fill(sums.begin(), sums.begin() + combinations, 0);
  for (const CostTable* table : tables) {
    std::array<size_t, kMostVariables> strides{}, at{};
    size_t stride = 1;
    for (size_t p = table->variables.size(); p-- > 0;) {
      const int v = table->variables[p];
      strides[std::find(scope.begin(), scope.begin() + rank, v) - scope.begin()] = stride;
      stride *= static_cast<size_t>(states[v]);
    }
    const double* in = table->costs.data();
    const auto inner = static_cast<size_t>(states[variable]);
    const size_t step = strides[rank - 1];
    for (size_t i = 0; i < combinations; i += inner) {
      for (size_t j = 0; j < inner; ++j) sums[i + j] += in[j * step];
      for (size_t d = rank - 1; d-- > 0;) {
        in += strides[d];
        if (++at[d] < static_cast<size_t>(states[scope[d]])) break;
        in -= strides[d] * at[d];
        at[d] = 0;
      }
    }
  }
  const auto inner = static_cast<size_t>(states[variable]);
  std::vector<double> least;
  least.reserve(combinations / inner);
  for (size_t i = 0; i < combinations; i += inner)
    least.push_back(*std::min_element(sums.begin() + i, sums.begin() + i + inner));
  return CostTable{{scope.begin(), scope.begin() + (rank - 1)}, std::move(least)};
}

}  // namespace

CostTable MinOut(int variable, std::span<const CostTable* const> tables, std::span<const int> states) {
  if (std::optional<CostTable> least = MinOutOfFew(variable, tables, states)) return *std::move(least);
  return MinOutLoop(variable, tables, states).Run();
}

}  // namespace meshwork
