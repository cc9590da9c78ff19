// LiveState: what is left of a training in the memories of its processes when one of them is lost, and how the others
// go on from it.
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
// Steps take effect as a whole (ExecutorOptions::atomic), and domains are one step apart at most. So the processes that
// are left agree on the last step that all of them have ended, those that are ahead undo one, and the blocks of the
// variables move to where the new session wants them (runtime/state_move.h), to processes that had none as well. Where a
// block was in lost processes alone, there is no live state, and the last checkpoint is what is left.
//
// What is kept are the session's variables themselves, not a copy: the session may end before Recover is called, and its
// memory stays until the next Keep. After Session::Remesh, which makes other variables, Keep is called again.
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
#include "meshwork/runtime/dtensor.h"
#include "meshwork/runtime/step_record.h"
#include "meshwork/runtime/transport.h"
#include "meshwork/storage/checkpoint_index.h"
#include "meshwork/train/session/session.h"

namespace meshwork {

// The same in all processes.
struct Recovered {
  // The steps after which the session goes on (Session::steps_done), with what was noted after them; nothing: the
  // variables of the session are as they were.
  std::optional<CheckpointNote> note = {};
  // Why there is none, though some process kept something.
  std::string why_not = {};
};

class LiveState {
 public:
  // From now on `session` is what Recover takes: its variables as its last step leaves them. Call it when they are what
  // the training goes on from. All processes of the transport call it; null: there is one. Errors, in all processes: the
  // session's steps do not take effect as a whole; those of the transport, after which what was kept before is still
  // there.
  // `facts`: as for Note.
  absl::Status Keep(Transport* transport, const Session& session, CheckpointFacts facts = {});

  // What the program needs to know to go on after the last step, besides the variables: the same in all processes. Call it
  // right after the step, before anything that can fail. The last two are kept. Does nothing before Keep.
  void Note(CheckpointFacts facts);

  // Gives the variables of `session`, which is a new one, what is kept of the last one, and sets its steps_done. If
  // processes keep several sessions, as one that was cut off for a while may, the one with the most steps counts. All
  // processes of the transport call it, also those that keep nothing. Errors, in all processes: those of StateMove::Run;
  // then what is kept is still there, and the next generation may take it.
  absl::StatusOr<Recovered> Recover(Transport* transport, Session& session);

 private:
  // What a session held.
  struct Held {
    std::string name;  // of the Keep: the same in all processes, and another one each time
    std::map<std::string, DTensor> variables;
    std::shared_ptr<StepRecord> record;
    std::map<int64_t, CheckpointFacts> facts = {};  // by steps that were done
  };

  std::string Describe() const;
  const Held* Find(const std::string& name) const;

  std::vector<Held> held_;  // the last one; while it is not known that all have it, those before it, too
};

}  // namespace meshwork
