// Membership: which processes of a job are in it, agreed by a rendezvous, again after each loss.
//
//   Members members(*rendezvous, {.process = 1, .num_processes = 4});     // in each process
//   MESHWORK_ASSIGN_OR_RETURN(Membership now, members.Form());            // {0, {0, 1, 2, 3}}
//   …                                                                     // process 3 is lost
//   MESHWORK_ASSIGN_OR_RETURN(now, members.Form());                       // {1, {0, 1, 2}}, or {1, {0, 1, 2, 3}}
//
// A generation is a set of processes that work together. When one of them is lost, the others form the next generation.
// A process that was started in place of a lost one walks past the generations that were formed without it, and waits
// in the next one. So does a process that the others took for lost, because it was stopped or cut off. The members of a
// generation are decided once, by the first process that proposes them to the rendezvous, so that two groups never both
// take themselves for the job. A generation with fewer processes than the job has needs more than half of the processes
// of the last one, whether or not the process that proposes it was in that one; otherwise a group that is cut off, with
// a rendezvous of its own, or processes that come back together, could go on, too.
//
// If several processes were started with one number, the last one counts. The others find out when they form a
// generation, and end, because they would take the place that the last one needs.
//
// The rendezvous may be started anew, and then knows nothing: the processes tell it again which generations there were.
//
// Thread safety: one thread at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/runtime/transport/rendezvous.h"

namespace meshwork {

struct Membership {
  int64_t generation = 0;
  std::vector<int64_t> processes;  // their numbers in the job, ascending

  bool operator==(const Membership&) const = default;
};

struct MembersOptions {
  int64_t process = 0, num_processes = 1;  // this one's number in the job, and how many there are
  // Whether a generation may have fewer processes than the job, when `patience` is over. Never the first one.
  bool may_shrink = false;
  std::chrono::milliseconds patience = std::chrono::seconds(30);
  // How long Form waits.
  std::chrono::milliseconds deadline = std::chrono::minutes(10);
};

class Members {
 public:
  // `rendezvous` must outlive it.
  Members(Rendezvous& rendezvous, const MembersOptions& options);

  // The next generation; all processes of the last one call it. Errors: processes that do not come within the
  // deadline, with their numbers; the rendezvous does not answer until then, or serves a job with another token;
  // another process was started in place of this one (ABORTED); all processes of a generation have finished
  // (FAILED_PRECONDITION).
  absl::StatusOr<Membership> Form();

  // Says that this process has finished what it does in the last generation, and returns whether all processes of this
  // generation have. Then the job is over, and no generation is formed any more. Errors: those of the rendezvous.
  // REQUIRES: Form has succeeded.
  absl::StatusOr<bool> Finish();
  // For calls after Finish has returned true: whether it has done so in all processes of this generation, so that none
  // needs the rendezvous any more. Errors, and REQUIRES: those of Finish.
  absl::StatusOr<bool> AllKnow();

 private:
  struct Member {
    int64_t process;
    std::string life;  // random: another one for each start of the process

    bool operator==(const Member&) const = default;
  };
  // The members of a generation. Empty: the generation is left out.
  using Decided = std::vector<Member>;

  // Members as the rendezvous has them, and back.
  static std::string ToText(const Decided& members);
  static absl::StatusOr<Decided> FromText(const std::string& text);

  // Whether this process may still form generations.
  absl::Status CheckIn();
  // Tells the rendezvous that this process was started, and finds out whether it is the last one of its number.
  absl::Status Register();
  absl::Status Replaced() const;
  // Tells a rendezvous that was started anew which generations there were.
  absl::Status Remind();
  // The processes that have come to a generation.
  absl::StatusOr<std::vector<Member>> Present(int64_t generation);
  bool IsMajority(const std::vector<Member>& present) const;
  // Says `progress` of this process, and returns whether all processes of the last generation have said it.
  absl::StatusOr<bool> HaveAll(std::string_view progress);
  // Proposes who is in the generation. Returns who is.
  absl::StatusOr<Decided> Decide(int64_t generation, const Decided& members);
  // Says that this process is here, proposes who is in the generation if that can be said, and returns who is in it;
  // nothing if that is not decided yet.
  absl::StatusOr<std::optional<Decided>> Try(int64_t generation, bool is_patient);
  // Error: who has not come.
  absl::Status Missing(int64_t generation);

  Rendezvous& rendezvous_;
  const MembersOptions options_;
  const Member self_;
  int64_t start_ = 0;  // which of the processes of its number this is, if it is registered
  bool is_registered_ = false;
  int64_t generation_ = -1;   // the last one that is known, with or without this process
  int64_t last_formed_ = -1;  // the last one that was not left out
  Decided last_;              // who is in that
};

}  // namespace meshwork
