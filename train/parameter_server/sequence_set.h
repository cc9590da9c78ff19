// SequenceSet: which of the numbers 1, 2, 3, … were taken, if they come about in order. Only parameter servers and
// their schedulers use it.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace meshwork {

// A value. Takes memory only for the numbers beyond the first missing one. Not thread-safe.
class SequenceSet {
 public:
  // Returns whether the number is new. REQUIRES: number >= 1.
  bool Add(int64_t number);
  bool Contains(int64_t number) const { return number <= through_ || beyond_.contains(number); }
  // The largest number such that all of 1 to it are in the set.
  int64_t through() const { return through_; }
  // The largest one; 0 if there is none.
  int64_t last() const { return beyond_.empty() ? through_ : *beyond_.rbegin(); }
  // The numbers of 1 to `last` that are not in the set, in order.
  std::vector<int64_t> MissingThrough(int64_t last) const;

  // "57 60 62": 1 to 57, and 60 and 62. Law: Parse(s.ToString()) == s.
  std::string ToString() const;
  // Error: another form.
  static absl::StatusOr<SequenceSet> Parse(std::string_view text);

  bool operator==(const SequenceSet&) const = default;

 private:
  int64_t through_ = 0;
  std::set<int64_t> beyond_;  // above through_ + 1
};

}  // namespace meshwork
