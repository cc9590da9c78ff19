// Membership: which processes of a job are in it, agreed by a rendezvous, again after each loss.
//
//   Members members(*rendezvous, {.process = 1, .num_processes = 4});     // in each process
//   MESHWORK_ASSIGN_OR_RETURN(Membership now, members.Form());            // {0, {0, 1, 2, 3}}
//   …                                                                     // process 3 is lost
//   MESHWORK_ASSIGN_OR_RETURN(now, members.Form());                       // {1, {0, 1, 2}}, or {1, {0, 1, 2, 3}}
//
// A generation is a set of processes that work together. When one of them is lost, the others form the next generation.
// A process that was started in place of a lost one walks past the generations that were formed without it, and waits
// in the next one. Which processes a generation has is decided once, by the first who proposes it to the rendezvous, so
// that two groups never take themselves for the job. A generation with fewer processes than the job has needs more than
// half of those of the last one; otherwise a group that is cut off, with a rendezvous of its own, could go on, too.
//
// The rendezvous may be started anew, and then knows nothing: the processes tell it again which generations there were.
//
// Thread safety: one thread at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
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
  // deadline, with their numbers; the rendezvous does not answer until then, or serves a job with another token.
  absl::StatusOr<Membership> Form();

 private:
  struct Member {
    int64_t process;
    std::string life;  // random: another one for each start of the process

    bool operator==(const Member&) const = default;
  };

  // Members as the rendezvous has them, and back.
  static std::string ToText(const std::vector<Member>& members);
  static absl::StatusOr<std::vector<Member>> FromText(const std::string& text);

  // Tells a rendezvous that was started anew which generations there were.
  absl::Status Remind();
  // Who has come to a generation.
  absl::StatusOr<std::vector<Member>> Present(int64_t generation);
  bool IsMajority(const std::vector<Member>& present) const;
  // Says that this process is here, proposes who is in the generation if that can be said, and returns who is in it;
  // nobody if that is not decided yet.
  absl::StatusOr<std::vector<Member>> Try(int64_t generation, bool is_patient);
  // Error: who has not come.
  absl::Status Missing(int64_t generation);

  Rendezvous& rendezvous_;
  const MembersOptions options_;
  const Member self_;
  int64_t generation_ = -1;  // the last one
  std::vector<Member> last_;
};

}  // namespace meshwork
