#include "meshwork/train/parameter_server/sequence_set.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "fmt/format.h"
#include "meshwork/base/status.h"

namespace meshwork {

bool SequenceSet::Add(int64_t number) {
  MESHWORK_CHECK(number >= 1);
  if (Contains(number)) return false;
  beyond_.insert(number);
  while (!beyond_.empty() && *beyond_.begin() == through_ + 1) {
    ++through_;
    beyond_.erase(beyond_.begin());
  }
  return true;
}

std::vector<int64_t> SequenceSet::MissingThrough(int64_t last) const {
  std::vector<int64_t> missing;
  for (int64_t number = through_ + 1; number <= last; ++number)
    if (!beyond_.contains(number)) missing.push_back(number);
  return missing;
}

std::string SequenceSet::ToString() const {
  std::string text = fmt::format("{}", through_);
  for (const int64_t number : beyond_) text += fmt::format(" {}", number);
  return text;
}

absl::StatusOr<SequenceSet> SequenceSet::Parse(std::string_view text) {
  SequenceSet set;
  int64_t last = -1;
  for (const absl::string_view word : absl::StrSplit(absl::string_view(text.data(), text.size()), ' ')) {
    int64_t number = 0;
    if (!absl::SimpleAtoi(word, &number) || number < 0 || number <= last)
      return InvalidArgument("\"{}\" is no set of sequence numbers; one reads \"57 60 62\".", text);
    if (last < 0) set.through_ = number;
    else set.Add(number);
    last = number;
  }
  return set;
}

}  // namespace meshwork
