#include "base/suggest.h"

#include <algorithm>

#include "fmt/format.h"

namespace meshwork {

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
    const int distance = EditDistance(name, candidate);
    if (distance < best) {
      best = distance;
      nearest = &candidate;
    }
  }
  return nearest == nullptr ? "" : fmt::format("; did you mean \"{}\"?", *nearest);
}

}  // namespace meshwork
