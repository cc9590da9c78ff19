#include "meshwork/runtime/exec/transport.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

#include "fmt/ranges.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/exec/gather_values.h"

namespace meshwork {
namespace {

constexpr size_t kMostTextBytes = size_t{1} << 20;

// The text that a domain sends: the code of a status, a space, and the value or the message.
std::string Encode(const absl::StatusOr<std::string>& said) {
  return fmt::format("{} {}", static_cast<int>(said.status().code()),
                     said.ok() ? std::string_view(*said) : MessageOf(said.status()));
}

absl::StatusOr<std::string> Decode(std::string_view text) {
  const size_t space = std::min(text.find(' '), text.size() - 1);
  const auto code = static_cast<absl::StatusCode>(std::atoi(std::string(text.substr(0, space)).c_str()));
  std::string rest(text.substr(space + 1));
  if (code == absl::StatusCode::kOk) return rest;
  return absl::Status(code, rest);
}

// "domains 0, 2: 9f2c; domain 1: 77aa", each value after `what`; "" if all say the same.
std::string DifferenceOf(const std::vector<std::string>& values, std::string_view what = "") {
  std::map<std::string, std::vector<int64_t>> who;
  for (size_t d = 0; d < values.size(); ++d) who[values[d]].push_back(static_cast<int64_t>(d));
  if (who.size() == 1) return "";
  std::vector<std::pair<std::vector<int64_t>, std::string>> sorted;
  for (auto& [value, domains] : who) sorted.emplace_back(domains, value);
  std::sort(sorted.begin(), sorted.end());
  std::vector<std::string> texts;
  for (const auto& [domains, value] : sorted)
    texts.push_back(fmt::format("{}: {}{}", NamesOf(domains), what, value));
  return fmt::format("{}", fmt::join(texts, "; "));
}

// "\n  In line 3, domain 0 has `%1 = neg %a`, and domain 2 `%1 = exp %a`."; "" if there is none.
std::string FirstOtherLine(const std::vector<std::string>& texts) {
  for (size_t d = 1; d < texts.size(); ++d) {
    std::string_view a = texts[0], b = texts[d];
    const auto next = [](std::string_view& text) {
      const std::string_view line = text.substr(0, text.find('\n'));
      text.remove_prefix(std::min(text.size(), line.size() + 1));
      return line;
    };
    for (int64_t number = 1; !a.empty() || !b.empty(); ++number) {
      const std::string_view ours = next(a), theirs = next(b);
      if (ours != theirs)
        return fmt::format("\n  In line {}, domain 0 has `{}`, and domain {} `{}`.", number, ours, d, theirs);
    }
  }
  return "";
}

}  // namespace

std::string NamesOf(const std::vector<int64_t>& domains) {
  return fmt::format("{} {}", domains.size() == 1 ? "domain" : "domains", fmt::join(domains, ", "));
}

std::string EncodeReason(const absl::Status& reason) { return Encode(reason); }

absl::Status DecodeReason(std::string_view text) {
  const absl::StatusOr<std::string> said = Decode(text);
  return said.ok() ? absl::UnknownError(*said) : said.status();
}

absl::Status LateError(std::string_view where, const std::vector<int64_t>& missing,
                       std::chrono::milliseconds deadline, int64_t waits,
                       const std::function<std::string(int64_t domain)>& name) {
  if (name == nullptr)
    return absl::DeadlineExceededError(
        fmt::format("{}: {} did not come within {} ms; domain {} waits. Check that all run the same program.",
                    where, NamesOf(missing), deadline.count(), waits));
  std::vector<std::string> late;
  for (int64_t domain : missing) late.push_back(fmt::format("domain {}, {},", domain, name(domain)));
  return absl::DeadlineExceededError(fmt::format(
      "{}: {} did not come within {} ms; domain {}, {}, waits. Check that all run the same program, and that the network "
      "between them is whole.",
      where, fmt::join(late, " "), deadline.count(), waits, name(waits)));
}

absl::Status SizeError(std::string_view where, const RemotePart& sent, int64_t to, int64_t expected) {
  return absl::InternalError(fmt::format("{}: domain {} sends {} bytes and domain {} expects {}.", where,
                                         sent.domain, sent.bytes, to, expected));
}

absl::Status RemoteOp::Run(std::span<const std::byte* const> sends, std::span<std::byte* const> receives) {
  MESHWORK_RETURN_IF_ERROR(Start(sends, receives));
  return Wait();
}

absl::StatusOr<std::vector<std::string>> Transport::AllGather(std::string_view what, std::string_view text) {
  MESHWORK_ASSIGN_OR_RETURN(std::vector<std::string> texts,
                            ExchangeTexts(what, fmt::format("{}\n{}", what, text)));
  std::vector<std::string> questions;
  for (std::string& said : texts) {
    const size_t end = std::min(said.find('\n'), said.size());
    questions.push_back(said.substr(0, end));
    said.erase(0, end + 1);
  }
  if (const std::string difference = DifferenceOf(questions); !difference.empty())
    return InvalidArgument(
        "Transport: the domains do not make the same calls. {}. All need the same calls, in the same order.",
        difference);
  return texts;
}

absl::StatusOr<std::vector<std::string>> GatherValues(Transport& transport, std::string_view what,
                                                      const absl::StatusOr<std::string>& mine) {
  const absl::StatusOr<std::vector<std::string>> all = transport.AllGather(what, Encode(mine));
  MESHWORK_RETURN_IF_ERROR(mine.status());
  MESHWORK_RETURN_IF_ERROR(all.status());
  std::vector<std::string> values;
  for (size_t d = 0; d < all->size(); ++d) {
    absl::StatusOr<std::string> value = Decode((*all)[d]);
    if (!value.ok()) return Annotate(value.status(), fmt::format("Transport: domain {} failed: ", d));
    values.push_back(*std::move(value));
  }
  return values;
}

absl::Status Agree(Transport& transport, std::string_view what, const absl::StatusOr<std::string>& mine,
                   const std::function<std::string()>& text) {
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<std::string> values, GatherValues(transport, what, mine));
  const std::string difference = DifferenceOf(values, fmt::format("{} ", what));
  if (difference.empty()) return absl::OkStatus();
  std::string line;
  if (text != nullptr) {
    MESHWORK_ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                              transport.AllGather(what, text().substr(0, kMostTextBytes)));
    line = FirstOtherLine(texts);
  }
  return InvalidArgument("Transport: the domains differ: {}.{}", difference, line);
}

}  // namespace meshwork
