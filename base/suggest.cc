#include "meshwork/base/suggest.h"

#include <algorithm>
#include <cctype>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "meshwork/base/quote.h"

namespace meshwork {
namespace {

std::string InSmallLetters(std::string_view text) {
  std::string small(text);
  for (char& c : small) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return small;
}

}  // namespace

int EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::vector<int>> d(a.size() + 1, std::vector<int>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = static_cast<int>(i);
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const int substitute = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, substitute});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

std::string DidYouMean(std::string_view name, const std::vector<std::string>& candidates) {
  constexpr size_t kLongest = 64;
  if (name.size() > kLongest) return "";
  int best = std::clamp<int>(static_cast<int>(name.size()) / 3, 1, 3) + 1;
  const std::string* nearest = nullptr;
  for (const std::string& candidate : candidates) {
    // The distance is no less than what the lengths differ by.
    if (std::max(name.size(), candidate.size()) - std::min(name.size(), candidate.size()) >=
        static_cast<size_t>(best))
      continue;
    const int distance = EditDistance(InSmallLetters(name), InSmallLetters(candidate));
    const bool has_something_in_common =
        static_cast<size_t>(distance) < std::max(name.size(), candidate.size());
    if (distance < best && has_something_in_common) {
      best = distance;
      nearest = &candidate;
    }
  }
  return nearest == nullptr ? "" : fmt::format("; did you mean {}?", Quoted(*nearest));
}

std::string DidYouMeanOneOf(std::string_view name, const std::vector<std::string>& candidates,
                            std::string_view plural) {
  constexpr size_t kMostShown = 9;
  if (candidates.empty()) return fmt::format("; there are no {}.", plural);
  std::string hint = DidYouMean(name, candidates);
  if (!hint.empty()) return hint;
  std::vector<std::string> shown;
  for (size_t i = 0; i < std::min(candidates.size(), kMostShown); ++i)
    shown.push_back(Printable(candidates[i]));
  return fmt::format(
      "; the {} are {}{}.", plural, fmt::join(shown, ", "),
      shown.size() < candidates.size() ? fmt::format(" and {} more", candidates.size() - shown.size()) : "");
}

}  // namespace meshwork
