// LiveState: the state of a training in the memory of its processes. When one of them is lost, the others continue from
// what they hold.
//
//   LiveState live;                                            // in each process, outside of what is made anew
//   for (each generation of processes) {                       // Processes::Run (train/cluster/processes.h) does that
//     Session session = …;                                     // on the mesh that the processes can share now
//     MESHWORK_ASSIGN_OR_RETURN(const Recovered recovered, live.Recover(transport, session));
//     if (!recovered.note.has_value()) …                       // from a checkpoint, or from the start
//     MESHWORK_RETURN_IF_ERROR(live.Keep(transport, session));
//     …steps, each followed by live.Note({{"epoch", …}}), until one fails, because a process is lost…
//   }
//
// Steps take effect as a whole (ExecutorOptions::atomic), and domains are one step apart at most. So the remaining
// processes agree on the last step that all of them have ended; those that are ahead undo one step; and the blocks of
// the variables move to their places in the new session (runtime/exec/state_move.h), also to processes that had none.
// If only lost processes had a block, there is no live state, and the training continues from the last checkpoint.
//
// The session's variables themselves are kept, not a copy: the session may end before Recover is called, and its memory
// stays until the next Keep. After Session::Remesh, which makes other variables, call Keep again.
//
// Thread safety: one thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/runtime/exec/dtensor.h"
#include "meshwork/runtime/exec/step_record.h"
#include "meshwork/runtime/exec/transport.h"
#include "meshwork/session/session.h"
#include "meshwork/storage/checkpoint_index.h"

namespace meshwork {

// The same in all processes.
struct Recovered {
  // The number of steps that the session has done (Session::steps_done), with the facts that were noted after them;
  // nothing: the session's variables did not change.
  std::optional<CheckpointNote> note = {};
  // Why there is no note, though some process kept something.
  std::string why_not = {};
};

class LiveState {
 public:
  // From now on Recover takes the variables of `session`, as its last step leaves them. Call it when they have the
  // values that the training continues from. All processes of the transport call it; null: there is one. Errors, in all
  // processes: the session's steps do not take effect as a whole; those of the transport, after which the state kept
  // before is still there.
  // `facts`: as for Note.
  absl::Status Keep(Transport* transport, const Session& session, CheckpointFacts facts = {});

  // The facts that the program needs, besides the variables, to continue after the last step: the same in all
  // processes. Call it right after the step, before anything that can fail. The last two are kept. Does nothing before
  // Keep.
  void Note(CheckpointFacts facts);

  // Sets the variables of `session`, a new one, to those kept of the last session, and sets its steps_done. If
  // processes keep several sessions, because one of them was cut off for a while, the session with the most steps
  // counts. All processes of the transport call it, also those that keep nothing. Errors, in all processes: those of
  // StateMove::Run; the kept state is still there then, and the next generation may take it.
  absl::StatusOr<Recovered> Recover(Transport* transport, Session& session);

 private:
  // The state of one session.
  struct Held {
    std::string name;  // of the call of Keep: the same in all processes; each call has another one
    std::map<std::string, DTensor> variables;
    std::shared_ptr<StepRecord> record;
    std::map<int64_t, CheckpointFacts> facts = {};  // by steps that were done
  };

  std::string Describe() const;
  const Held* Find(const std::string& name) const;

  std::vector<Held> held_;  // the last one, and those before it until all processes are known to have it
};

}  // namespace meshwork
