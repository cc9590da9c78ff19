// MPI: a transport between the processes that mpirun or srun has started, one domain per process.
//
//   MESHWORK_ASSIGN_OR_RETURN(const std::unique_ptr<Transport> end, MakeMpi());
//   end->domain()        this process among end->num_domains()
//
// Data goes by nonblocking point-to-point messages (MPI 3.1, section 3.7) of a communicator of its own. MPI itself
// would wait for ever and say nothing; here an error names a domain that does not come within the deadline, and all
// domains are aborted. An abort reaches processes that are busy elsewhere within some 20 ms.
//
// MPI is initialised at the first call with MPI_THREAD_SERIALIZED, unless the program has done so, and finalised at the
// end of the process. After an abort, a process waits there for the others for 2 s, and then ends without them, so that
// the launcher ends the whole job.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "meshwork/runtime/exec/transport.h"

namespace meshwork {

struct MpiOptions {
  // How long a domain waits for another one before it aborts the transport.
  std::chrono::milliseconds deadline = std::chrono::seconds(30);
  // How long the processes wait for each other when they make the transport; 0: `deadline`.
  std::chrono::milliseconds join_deadline = std::chrono::milliseconds(0);
  // The number of launched processes, from the first on, that have a domain; 0: all.
  int64_t num_domains = 0;
};

// Whether this build has MPI.
bool HasMpi();

// This process's end. All launched processes must call it, in the same order. Errors: this build has no MPI; MPI is
// finalised, or was initialised for fewer threads than MPI_THREAD_SERIALIZED; there are fewer processes than
// `num_domains`; this process has no domain (NOT_FOUND); what MPI reports.
absl::StatusOr<std::unique_ptr<Transport>> MakeMpi(const MpiOptions& options = {});

}  // namespace meshwork
