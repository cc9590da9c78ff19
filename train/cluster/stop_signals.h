// SIGTERM and SIGINT ask a training to stop after the next steps: it writes a checkpoint and ends
// (train/cluster/pulse.h).
//
// Thread safety: functions may be called from any thread.
#pragma once

namespace meshwork {

// From now on the first SIGTERM or SIGINT is kept for IsStopAsked. One within a second of it counts as the same:
// launchers signal a process and then its group. A later one ends the process, as ever.
void CatchStopSignals();
bool IsStopAsked();

}  // namespace meshwork
