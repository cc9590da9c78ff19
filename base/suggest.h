// "Did you mean …?" for misspelt names: axes, ops, attributes, feeds, flags.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace meshwork {

// Levenshtein distance with adjacent transpositions (optimal string alignment); O(|a|·|b|).
int EditDistance(std::string_view a, std::string_view b);

// `; did you mean "model"?` for the candidate nearest to `name`, or "" when none is within a third
// of its length (at least 1, at most 3 edits) or `name` has more than 64 characters. Ties go to the
// first candidate.
std::string DidYouMean(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace meshwork
