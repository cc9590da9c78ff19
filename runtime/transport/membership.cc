#include "meshwork/runtime/transport/membership.h"

#include <algorithm>
#include <charconv>
#include <random>
#include <sstream>
#include <thread>
#include <utility>

#include "fmt/ranges.h"
#include "meshwork/base/status.h"

namespace meshwork {
namespace {

using SteadyClock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kLook(100);                        // between two looks at who has come
constexpr milliseconds kReply = std::chrono::seconds(2);  // of the rendezvous

std::string MembersKey(int64_t generation) { return fmt::format("generation {}/members", generation); }
std::string PresenceKey(int64_t generation, int64_t process) {
  return fmt::format("generation {}/process {}", generation, process);
}

std::string NewLife() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

// Whether the rendezvous may answer later.
bool MayPass(const absl::Status& status) {
  return status.code() == absl::StatusCode::kUnavailable ||
         status.code() == absl::StatusCode::kDeadlineExceeded;
}

}  // namespace

Members::Members(Rendezvous& rendezvous, const MembersOptions& options)
    : rendezvous_(rendezvous), options_(options), self_{options.process, NewLife()} {
  MESHWORK_CHECK(0 <= options.process && options.process < options.num_processes);
}

std::string Members::ToText(const std::vector<Member>& members) {
  std::vector<std::string> words;
  for (const Member& member : members) words.push_back(fmt::format("{}:{}", member.process, member.life));
  return fmt::format("{}", fmt::join(words, " "));
}

absl::StatusOr<std::vector<Members::Member>> Members::FromText(const std::string& text) {
  std::vector<Member> members;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const size_t colon = std::min(word.find(':'), word.size());
    Member member{-1, word.substr(std::min(colon + 1, word.size()))};
    const auto [end, error] = std::from_chars(word.data(), word.data() + colon, member.process);
    if (error != std::errc() || end != word.data() + colon || member.process < 0 || member.life.empty())
      return InvalidArgument("Membership: the rendezvous says \"{}\"; another program uses it.", word);
    members.push_back(std::move(member));
  }
  return members;
}

absl::Status Members::Remind() {
  if (generation_ < 0) return absl::OkStatus();
  const absl::Status known = rendezvous_.Find(MembersKey(generation_), kReply).status();
  if (known.code() != absl::StatusCode::kNotFound) return known;
  for (int64_t g = 0; g <= generation_; ++g)
    MESHWORK_RETURN_IF_ERROR(rendezvous_.SetFirst(MembersKey(g), ToText(last_), kReply).status());
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Members::Member>> Members::Present(int64_t generation) {
  std::vector<Member> present;
  for (int64_t p = 0; p < options_.num_processes; ++p) {
    absl::StatusOr<std::string> life = rendezvous_.Find(PresenceKey(generation, p), kReply);
    if (life.ok()) present.push_back({p, *std::move(life)});
    else if (life.status().code() != absl::StatusCode::kNotFound) return life.status();
  }
  return present;
}

bool Members::IsMajority(const std::vector<Member>& present) const {
  const auto stayed = std::count_if(last_.begin(), last_.end(), [&](const Member& member) {
    return std::find(present.begin(), present.end(), member) != present.end();
  });
  return 2 * stayed > std::ssize(last_);
}

absl::StatusOr<std::vector<Members::Member>> Members::Try(int64_t generation, bool is_patient) {
  const std::string key = MembersKey(generation);
  absl::StatusOr<std::string> decided = rendezvous_.Find(key, kReply);
  if (decided.ok()) return FromText(*decided);
  if (decided.status().code() != absl::StatusCode::kNotFound) return decided.status();
  MESHWORK_ASSIGN_OR_RETURN(const std::string life,
                            rendezvous_.SetFirst(PresenceKey(generation, self_.process), self_.life, kReply));
  // Whoever came to this generation in this process's place is gone, and those who wait for it shall not meet it.
  if (life != self_.life) {
    MESHWORK_ASSIGN_OR_RETURN(decided, rendezvous_.SetFirst(key, ToText({{self_.process, life}}), kReply));
    return FromText(*decided);
  }
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<Member> present, Present(generation));
  const bool is_full = std::ssize(present) == options_.num_processes;
  if (is_full || (!is_patient && options_.may_shrink && IsMajority(present))) {
    MESHWORK_ASSIGN_OR_RETURN(decided, rendezvous_.SetFirst(key, ToText(present), kReply));
  } else {
    decided = rendezvous_.Get(key, kLook);
    if (decided.status().code() == absl::StatusCode::kDeadlineExceeded) return std::vector<Member>();
    MESHWORK_RETURN_IF_ERROR(decided.status());
  }
  return FromText(*decided);
}

absl::StatusOr<Membership> Members::Form() {
  const SteadyClock::time_point start = SteadyClock::now();
  int64_t generation = generation_ + 1;
  while (true) {
    const SteadyClock::duration waited = SteadyClock::now() - start;
    absl::StatusOr<std::vector<Member>> members = std::vector<Member>();
    if (const absl::Status reminded = Remind(); !reminded.ok()) members = reminded;
    else members = Try(generation, waited < options_.patience);
    if (members.ok() && std::find(members->begin(), members->end(), self_) != members->end()) {
      generation_ = generation;
      last_ = *std::move(members);
      Membership formed{generation, {}};
      for (const Member& member : last_) formed.processes.push_back(member.process);
      return formed;
    }
    if (members.ok() && !members->empty()) {
      ++generation;
      continue;
    }
    if (!members.ok() && !MayPass(members.status())) return members.status();
    if (waited > options_.deadline) {
      MESHWORK_RETURN_IF_ERROR(members.status());
      return Missing(generation);
    }
    if (!members.ok()) std::this_thread::sleep_for(kLook);
  }
}

absl::Status Members::Missing(int64_t generation) {
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<Member> present, Present(generation));
  std::vector<int64_t> missing;
  for (int64_t p = 0; p < options_.num_processes; ++p)
    if (std::none_of(present.begin(), present.end(), [p](const Member& m) { return m.process == p; }))
      missing.push_back(p);
  return absl::DeadlineExceededError(fmt::format(
      "Membership: {} of {} processes did not come within {} ms: {}. Start what is missing, with the same cluster.",
      std::ssize(missing), options_.num_processes, options_.deadline.count(), fmt::join(missing, ", ")));
}

}  // namespace meshwork
