#include "meshwork/runtime/transport.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

#include "fmt/ranges.h"
#include "meshwork/base/status.h"

namespace meshwork {
namespace {

// What a domain says: the code of a status, a space, and the value or the message.
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

// "domains 0, 2: the program 9f2c; domain 1: the program 77aa"; "" if all say the same.
std::string Difference(const std::vector<std::string>& values) {
  std::map<std::string, std::vector<int64_t>> who;
  for (size_t d = 0; d < values.size(); ++d) who[values[d]].push_back(static_cast<int64_t>(d));
  if (who.size() == 1) return "";
  std::vector<std::pair<std::vector<int64_t>, std::string>> sorted;
  for (auto& [value, domains] : who) sorted.emplace_back(domains, value);
  std::sort(sorted.begin(), sorted.end());
  std::vector<std::string> texts;
  for (const auto& [domains, value] : sorted) texts.push_back(fmt::format("{}: {}", NamesOf(domains), value));
  return fmt::format("{}", fmt::join(texts, "; "));
}

}  // namespace

std::string NamesOf(const std::vector<int64_t>& domains) {
  return fmt::format("{} {}", domains.size() == 1 ? "domain" : "domains", fmt::join(domains, ", "));
}

absl::Status Agree(Transport& transport, std::string_view what, const absl::StatusOr<std::string>& mine) {
  const absl::StatusOr<std::string> text =
      mine.ok() ? absl::StatusOr<std::string>(fmt::format("{} {}", what, *mine)) : mine.status();
  const absl::StatusOr<std::vector<std::string>> texts = transport.AllGather(what, Encode(text));
  MESHWORK_RETURN_IF_ERROR(mine.status());
  MESHWORK_RETURN_IF_ERROR(texts.status());
  std::vector<std::string> values;
  for (size_t d = 0; d < texts->size(); ++d) {
    absl::StatusOr<std::string> said = Decode((*texts)[d]);
    if (!said.ok()) return Annotate(said.status(), fmt::format("Transport: domain {} failed: ", d));
    values.push_back(*std::move(said));
  }
  const std::string difference = Difference(values);
  if (difference.empty()) return absl::OkStatus();
  return InvalidArgument("Transport: the domains differ: {}.", difference);
}

}  // namespace meshwork
