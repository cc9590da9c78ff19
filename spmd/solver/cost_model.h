// Tables whose costs may have either sign, and loops over them, for all parts of the solver. Internal.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <span>
#include <unordered_map>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "meshwork/spmd/solver/min_sum.h"

namespace meshwork {

constexpr double kNever = std::numeric_limits<double>::infinity();

// Costs that differ by at most this factor count as equal in deciding whether a cost is the least.
constexpr double kEqual = 1 + 1e-9;

// The number of combinations of states of the variables; as a double, so that it does not overflow.
double Combinations(std::span<const int> variables, std::span<const int> states);

// Adds `table` to `sum`, a table over `scope`. Reads and writes each entry of `sum` once. REQUIRES: `scope` has all
// variables of `table`, in any order.
void AddBroadcast(const CostTable& table, std::span<const int> scope, std::span<const int> states,
                  std::vector<double>& sum);

// Quicker than MixedHash, for long tables.
inline uint64_t Mixed(uint64_t hash, uint64_t word) {
  return (std::rotl(hash, 23) ^ word) * uint64_t{0x9E3779B97F4A7C15};
}

struct HashOfInts {
  size_t operator()(const std::vector<int>& list) const {
    uint64_t hash = list.size();
    for (int number : list) hash = Mixed(hash, static_cast<uint64_t>(number));
    return hash ^ hash >> 32;
  }
};

// The entry of `table` where the variables have these states.
double EntryOf(const CostTable& table, std::span<const int> states, std::span<const int> assignment);

double SumOf(const CostModel& model, std::span<const int> assignment);

// `table` with its variables in another order.
CostTable Reordered(const CostTable& table, std::vector<int> order, std::span<const int> states);

// Per variable: the indices of the tables that have it. Most often these are few.
using TablesOfEach = std::vector<absl::InlinedVector<int, 4>>;
TablesOfEach TablesOf(const CostModel& model);

// The states of each variable of a table.
std::vector<int> SizesOf(const CostTable& table, std::span<const int> states);

uint64_t HashOf(std::span<const double> costs, std::span<const int> sizes);

// Tables that are numbered so that equal ones have the same number.
class TableKinds {
 public:
  struct Kind {
    CostList costs;
    std::vector<int> sizes;
  };

  int NumberOf(const CostTable& table, std::span<const int> states);
  int NumberOf(const CostList& costs, std::vector<int> sizes);
  const Kind& operator[](int number) const { return kinds_[number]; }
  int size() const { return static_cast<int>(kinds_.size()); }

 private:
  std::vector<Kind> kinds_;
  std::unordered_map<uint64_t, std::vector<int>> of_hash_;
  // The costs of a table, held so that no other list gets their address, and the number of the last table that had
  // them.
  struct Seen {
    CostList list;
    int number;
  };
  std::unordered_map<const std::vector<double>*, Seen>
      seen_;  // tables that share a list are found without reading it
};

// How the entries of a table lie around one of its variables: [before, states, after].
struct AroundVariable {
  size_t before = 1, states = 1, after = 1;
};
AroundVariable Around(std::span<const int> sizes, size_t position);
AroundVariable Around(const CostTable& table, size_t position, std::span<const int> states);

double LeastOf(std::span<const double> costs);

// Per state of the variable: the least entry.
std::vector<double> LeastPerState(std::span<const double> costs, const AroundVariable& around);

}  // namespace meshwork
