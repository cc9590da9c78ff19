// The two parts of a schedule that make it safe and small: where workers meet, and where storages lie.
//
// An instruction has a barrier before it if, since the last barrier, another worker wrote bytes that a worker
// reads or writes in it, or read bytes that a worker writes in it. The instructions between two barriers are
// an *epoch*.
//
// A storage that only one worker touches is private to this worker, and its memory is reused from instruction
// to instruction. All other storages lie in an arena shared by all workers, where memory is reused only in an
// epoch after the last one that touches it, because workers are not in step within an epoch. So there are also barriers
// at places where much memory can then be reused.
#pragma once

#include "absl/status/status.h"
#include "meshwork/runtime/cpu/schedule.h"

namespace meshwork {

// Sets Instruction::barrier and num_barriers.
void PlaceBarriers(Schedule& schedule);

// Sets the place of every unplaced storage and of the constants, and the sizes of the arenas. REQUIRES:
// PlaceBarriers ran.
void PlaceStorages(Schedule& schedule);

// Proves, from addresses and barriers alone, that (1) neither worker writes memory that two workers touch
// without a barrier in between, unless both move their parts in one instruction; (2) storages that share
// memory are in use at different times, as every worker sees it; (3) no storage reaches beyond its arena; (4) from the
// start of an operation across domains to the end of waiting for it, nobody writes what it sends, or touches what it
// receives.
// Error: Internal, naming the first violation; it means a bug in planning.
absl::Status CheckSchedule(const Schedule& schedule);

}  // namespace meshwork
