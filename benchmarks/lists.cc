#include "benchmarks/lists.h"

#include <algorithm>
#include <charconv>

#include "meshwork/base/status.h"

namespace meshwork {

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    if (end > 0) parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

absl::StatusOr<std::vector<int64_t>> ParseBatches(std::string_view flag, std::string_view text,
                                                  char separator) {
  constexpr int64_t kMostExamples = 1'000'000;
  std::vector<int64_t> batches;
  for (const std::string& part : Split(text, separator)) {
    int64_t batch = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), batch);
    if (error != std::errc() || end != part.data() + part.size() || batch < 1 || batch > kMostExamples)
      return InvalidArgument("{}: \"{}\" is not a whole number from 1 to {}.", flag, part, kMostExamples);
    batches.push_back(batch);
  }
  if (batches.empty())
    return InvalidArgument("{}: the list is empty; write for example 128{}1024.", flag, separator);
  return batches;
}

}  // namespace meshwork
