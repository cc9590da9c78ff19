#include "meshwork/train/fit/data_agreement.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_split.h"
#include "fmt/ranges.h"
#include "meshwork/base/hash.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/exec/gather_values.h"
#include "meshwork/session/session_impl.h"

namespace meshwork {
namespace {

constexpr std::string_view kAsMany =
    "All processes need as many batches, of as many examples: divide the data into equal shares, without the remainder of the "
    "whole (Take), leave out short batches (drop_remainder), or take a number of steps that all have from data with Repeat.";

// A transport sends a short text at once; the rest of a longer one takes another message.
constexpr size_t kMostKindBytes = 96;

std::string Shortened(const std::string& kind) {
  return kind.size() <= kMostKindBytes
             ? kind
             : fmt::format("{}... ({:016x})", kind.substr(0, kMostKindBytes), StableHash(kind));
}

std::string OnOneLine(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

// The lines of all processes: answers[p] are those of process p.
using Answers = std::vector<std::vector<std::string>>;

// `count` lines of each process; missing lines are empty.
Answers LinesOf(const std::vector<std::string>& values, size_t count) {
  Answers answers;
  for (const std::string& value : values) {
    answers.push_back(absl::StrSplit(value, '\n'));
    answers.back().resize(count);
  }
  return answers;
}

// "processes 0, 2: 4; process 1: 3": who says what in line `l`; "" if all say the same.
std::string DifferenceIn(const Answers& answers, size_t l) {
  std::vector<std::pair<std::string, std::vector<size_t>>> who;
  for (size_t p = 0; p < answers.size(); ++p) {
    const auto same =
        std::find_if(who.begin(), who.end(), [&](const auto& said) { return said.first == answers[p][l]; });
    if (same != who.end()) same->second.push_back(p);
    else who.push_back({answers[p][l], {p}});
  }
  if (who.size() == 1) return "";
  std::vector<std::string> texts;
  for (const auto& [text, processes] : who)
    texts.push_back(
        fmt::format("process{} {}: {}", processes.size() == 1 ? "" : "es", fmt::join(processes, ", "), text));
  return fmt::format("{}", fmt::join(texts, "; "));
}

}  // namespace

DataFact OptionFact(std::string name, int64_t value) {
  return {std::move(name), fmt::format("{}", value), kSameOptions};
}

std::vector<DataFact> FactsOfPipeline(std::string_view what, const Pipeline& data, bool is_whole) {
  std::vector<DataFact> facts = {{std::string(what), data.Fingerprint(), kSameData}};
  const std::optional<int64_t> size = data.size();
  std::string batches = size.has_value() ? fmt::format("{}", *size) : "not known";
  if (!is_whole && size != 0) batches = "some";
  facts.push_back({fmt::format("number of batches of {}", what), std::move(batches), kAsMany});
  return facts;
}

DataAgreement::DataAgreement(std::string where, Session& session)
    : where_(std::move(where)), session_(session) {}

Transport* DataAgreement::transport() const {
  return session_.impl_ == nullptr ? nullptr : session_.impl_->transport;
}

void DataAgreement::SetAsked(bool asked) {
  if (!is_alone()) session_.impl_->agreement = asked ? this : nullptr;
}

absl::Status DataAgreement::Begin(const absl::Status& mine,
                                  const std::function<std::vector<DataFact>()>& find_facts) {
  if (is_alone()) return mine;
  const std::vector<DataFact> facts = find_facts();
  absl::StatusOr<std::string> said = "";
  for (const DataFact& fact : facts) *said += OnOneLine(fact.value) + "\n";
  if (!mine.ok()) said = mine;
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<std::string> values,
                            GatherValues(*transport(), fmt::format("the data of {}", where_), said));
  const Answers answers = LinesOf(values, facts.size());
  for (size_t f = 0; f < facts.size(); ++f)
    if (const std::string difference = DifferenceIn(answers, f); !difference.empty())
      return InvalidArgument("{}: the processes differ in their {}. {}. {}", where_, facts[f].name,
                             difference, facts[f].advice);
  return absl::OkStatus();
}

DataAgreement::Step::Step(DataAgreement& agreement, std::string place, std::string why_stop)
    : agreement_(agreement) {
  agreement_.place_ = std::move(place);
  agreement_.why_stop_ = OnOneLine(std::move(why_stop));
  agreement_.SetAsked(true);
}

DataAgreement::Step::~Step() { agreement_.SetAsked(false); }

absl::Status DataAgreement::AtPlace(const std::string& place, const std::string& why_stop) {
  if (is_alone()) return absl::OkStatus();
  place_ = place;
  why_stop_ = OnOneLine(why_stop);
  const absl::Status status = Agree(absl::OkStatus(), "");
  return absl::IsCancelled(status) && !stopped_.empty() ? absl::OkStatus() : status;
}

absl::Status DataAgreement::Agree(const absl::Status& mine, const std::string& step) {
  absl::StatusOr<std::string> said = fmt::format("{}\n{}\n{}", place_, why_stop_, Shortened(step));
  if (!mine.ok()) said = mine;
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<std::string> values,
                            GatherValues(*transport(), fmt::format("the step of {}", where_), said));
  if (why_stop_.empty() && std::count(values.begin(), values.end(), values[0]) == std::ssize(values))
    return absl::OkStatus();
  difference_ = Compare(values);
  if (!difference_.ok()) return difference_;
  return stopped_.empty() ? absl::OkStatus() : absl::CancelledError(stopped_);
}

absl::Status DataAgreement::Compare(const std::vector<std::string>& values) {
  const Answers answers = LinesOf(values, 3);
  if (const std::string difference = DifferenceIn(answers, 0); !difference.empty())
    return InvalidArgument("{}: the processes are not at the same place of their data. {}. {}", where_,
                           difference, kAsMany);
  if (const std::string difference = DifferenceIn(answers, 2); !difference.empty())
    return InvalidArgument(
        "{}: the processes do not do the same. {}. All make the same calls, in the same order.", where_,
        difference);
  const bool all_stop = DifferenceIn(answers, 1).empty();
  for (size_t p = 0; p < answers.size() && stopped_.empty(); ++p)
    if (!answers[p][1].empty())
      stopped_ = all_stop ? answers[p][1] : fmt::format("process {}: {}", p, answers[p][1]);
  return absl::OkStatus();
}

}  // namespace meshwork
