// The two halves of a schedule that make it safe and small: where workers meet, and where storages lie.
//
// A barrier stands before an instruction if a worker reads or writes in it bytes that another wrote,
// or writes what another read, since the last barrier. The instructions between two barriers are an
// *epoch*.
//
// A storage that one worker alone touches is private to it and its memory is reused from instruction to
// instruction. Everything else lies in an arena shared by all workers, where memory is reused only
// in an epoch after the last one that touches it: within an epoch workers are not in step. So there is a
// barrier also where much memory waits to be used anew.
#pragma once

#include "absl/status/status.h"
#include "meshwork/runtime/cpu/schedule.h"

namespace meshwork {

// Sets Instruction::barrier and num_barriers.
void PlaceBarriers(Schedule& schedule);

// Sets the place of every unplaced storage and of the constants, and the sizes of the arenas. REQUIRES:
// PlaceBarriers ran.
void PlaceStorages(Schedule& schedule);

// Proves, from addresses and barriers alone, that (1) whatever two workers touch without a barrier
// in between, neither writes, unless both move their parts in one instruction; (2) storages that share memory
// are in use at different times, seen by every worker; (3) no storage reaches out of its arena.
// Error: Internal, naming the first violation; it means a bug in planning.
absl::Status CheckSchedule(const Schedule& schedule);

}  // namespace meshwork
