// "Did you mean …?" for misspelt names: axes, ops, attributes, feeds, flags.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace meshwork {

// Levenshtein distance with adjacent transpositions (optimal string alignment); O(|a|·|b|).
int EditDistance(std::string_view a, std::string_view b);

// `; did you mean "model"?` for the candidate nearest to `name`. "" if `name` has more than 64 characters, or
// if no candidate is near: within as many edits as a third of its length (at least 1, at most 3, and never
// all letters). Small letters and capitals are the same here. Ties go to the first candidate.
std::string DidYouMean(std::string_view name, const std::vector<std::string>& candidates);

// How an error about an unknown name ends: DidYouMean, else `; the axes are batch, model.` with the first
// nine of `candidates`, else `; there are no axes.`
std::string DidYouMeanOneOf(std::string_view name, const std::vector<std::string>& candidates,
                            std::string_view plural);

}  // namespace meshwork
