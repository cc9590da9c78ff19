#include "meshwork/runtime/transport/membership.h"

#include <algorithm>
#include <charconv>
#include <sstream>
#include <thread>
#include <utility>

#include "fmt/ranges.h"
#include "meshwork/base/random_name.h"
#include "meshwork/base/status.h"

namespace meshwork {
namespace {

using SteadyClock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kMemberLook(100);                  // between two looks at who has come
constexpr milliseconds kReply = std::chrono::seconds(2);  // of the rendezvous

// The members of a generation that nobody is in, because its processes were not all there at the same time.
constexpr const char* kNobody = "nobody";
constexpr const char* kOverKey = "the job is over";

std::string MembersKey(int64_t generation) { return fmt::format("generation {}/members", generation); }
std::string PresenceKey(int64_t generation, int64_t process) {
  return fmt::format("generation {}/process {}", generation, process);
}
std::string ProgressKey(int64_t generation, int64_t process, std::string_view progress) {
  return fmt::format("generation {}/process {} {}", generation, process, progress);
}
std::string StartKey(int64_t process, int64_t start) {
  return fmt::format("process {}/start {}", process, start);
}

// Whether the rendezvous may answer later.
bool MayPass(const absl::Status& status) {
  return status.code() == absl::StatusCode::kUnavailable ||
         status.code() == absl::StatusCode::kDeadlineExceeded;
}

}  // namespace

Members::Members(Rendezvous& rendezvous, const MembersOptions& options)
    : rendezvous_(rendezvous), options_(options), self_{options.process, RandomName()} {
  MESHWORK_CHECK(0 <= options.process && options.process < options.num_processes);
}

std::string Members::ToText(const Decided& members) {
  if (members.empty()) return kNobody;
  std::vector<std::string> words;
  for (const Member& member : members) words.push_back(fmt::format("{}:{}", member.process, member.life));
  return fmt::format("{}", fmt::join(words, " "));
}

absl::StatusOr<Members::Decided> Members::FromText(const std::string& text) {
  Decided members;
  if (text == kNobody) return members;
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

absl::Status Members::Register() {
  while (true) {
    MESHWORK_ASSIGN_OR_RETURN(const std::string life,
                              rendezvous_.SetFirst(StartKey(self_.process, start_), self_.life, kReply));
    if (life == self_.life) break;
    // After the rendezvous was started anew, another process may take this one's key.
    if (is_registered_) return Replaced();
    ++start_;
  }
  is_registered_ = true;
  const absl::Status next = rendezvous_.Find(StartKey(self_.process, start_ + 1), kReply).status();
  if (next.ok()) return Replaced();
  return next.code() == absl::StatusCode::kNotFound ? absl::OkStatus() : next;
}

absl::Status Members::Replaced() const {
  return absl::AbortedError(fmt::format(
      "Membership: another process {} was started while this one did not answer, and takes its place.",
      self_.process));
}

absl::Status Members::Remind() {
  if (generation_ < 0) return absl::OkStatus();
  const absl::Status known = rendezvous_.Find(MembersKey(generation_), kReply).status();
  if (known.code() != absl::StatusCode::kNotFound && !known.ok()) return known;
  for (int64_t g = 0; !known.ok() && g <= generation_; ++g)
    MESHWORK_RETURN_IF_ERROR(Decide(g, g == last_formed_ ? last_ : Decided()).status());
  // If other processes decided the generation anew before they were reminded, its first form never began: without them
  // nobody could connect.
  MESHWORK_ASSIGN_OR_RETURN(const Decided decided, Decide(last_formed_, last_));
  if (!decided.empty()) last_ = decided;
  return absl::OkStatus();
}

absl::Status Members::CheckIn() {
  const absl::Status over = rendezvous_.Find(kOverKey, kReply).status();
  if (over.ok())
    return absl::FailedPreconditionError(fmt::format(
        "Membership: the job is over: the others have finished it without process {}. For another run of it, start the "
        "rendezvous again.",
        self_.process));
  if (over.code() != absl::StatusCode::kNotFound) return over;
  MESHWORK_RETURN_IF_ERROR(Register());
  return Remind();
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

absl::StatusOr<Members::Decided> Members::Decide(int64_t generation, const Decided& members) {
  MESHWORK_ASSIGN_OR_RETURN(const std::string decided,
                            rendezvous_.SetFirst(MembersKey(generation), ToText(members), kReply));
  return FromText(decided);
}

absl::StatusOr<std::optional<Members::Decided>> Members::Try(int64_t generation, bool is_patient) {
  const std::string key = MembersKey(generation);
  absl::StatusOr<std::string> decided = rendezvous_.Find(key, kReply);
  if (decided.ok()) return FromText(*decided);
  if (decided.status().code() != absl::StatusCode::kNotFound) return decided.status();
  MESHWORK_ASSIGN_OR_RETURN(const std::string life,
                            rendezvous_.SetFirst(PresenceKey(generation, self_.process), self_.life, kReply));
  // The process that came to this generation in this one's place is gone. Those who wait for it would not meet it, so
  // nobody is in this generation.
  if (life != self_.life) return Decide(generation, {});
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<Member> present, Present(generation));
  const bool is_full = std::ssize(present) == options_.num_processes;
  if (is_full || (!is_patient && options_.may_shrink && IsMajority(present)))
    return Decide(generation, present);
  decided = rendezvous_.Get(key, kMemberLook);
  if (decided.ok()) return FromText(*decided);
  if (decided.status().code() == absl::StatusCode::kDeadlineExceeded) return std::nullopt;
  return decided.status();
}

absl::StatusOr<Membership> Members::Form() {
  const SteadyClock::time_point start = SteadyClock::now();
  while (true) {
    const SteadyClock::duration waited = SteadyClock::now() - start;
    absl::StatusOr<std::optional<Decided>> members = std::nullopt;
    if (const absl::Status here = CheckIn(); !here.ok()) members = here;
    else members = Try(generation_ + 1, waited < options_.patience);
    if (members.ok() && members->has_value()) {
      ++generation_;
      if ((*members)->empty()) continue;
      last_formed_ = generation_;
      last_ = **std::move(members);
      if (std::find(last_.begin(), last_.end(), self_) == last_.end()) continue;
      Membership formed{generation_, {}};
      for (const Member& member : last_) formed.processes.push_back(member.process);
      return formed;
    }
    if (!members.ok() && !MayPass(members.status())) return members.status();
    if (waited > options_.deadline) {
      MESHWORK_RETURN_IF_ERROR(members.status());
      return Missing(generation_ + 1);
    }
    if (!members.ok()) std::this_thread::sleep_for(kMemberLook);
  }
}

absl::StatusOr<bool> Members::Finish() {
  const absl::Status over = rendezvous_.Find(kOverKey, kReply).status();
  if (over.ok()) return true;
  if (over.code() != absl::StatusCode::kNotFound) return over;
  MESHWORK_ASSIGN_OR_RETURN(const bool all, HaveAll("has finished"));
  if (all) MESHWORK_RETURN_IF_ERROR(rendezvous_.Set(kOverKey, "", kReply));
  return all;
}

absl::StatusOr<bool> Members::AllKnow() { return HaveAll("knows that all have finished"); }

absl::StatusOr<bool> Members::HaveAll(std::string_view progress) {
  MESHWORK_CHECK(last_formed_ >= 0, "Form first");
  MESHWORK_RETURN_IF_ERROR(
      rendezvous_.Set(ProgressKey(last_formed_, self_.process, progress), self_.life, kReply));
  for (const Member& member : last_) {
    const absl::Status said =
        rendezvous_.Find(ProgressKey(last_formed_, member.process, progress), kReply).status();
    if (said.code() == absl::StatusCode::kNotFound) return false;
    MESHWORK_RETURN_IF_ERROR(said);
  }
  return true;
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
