// Messages about wrong processes of mpirun, and about builds without MPI.
#include "meshwork/runtime/transport/mpi.h"

#include <string>

#include "errors/errors.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "support/temp_dir.h"
#include "tools/cli/process.h"

// The functions of a build without MPI.
#define HasMpi HasMpiWithout
#define MakeMpi MakeMpiWithout
namespace meshwork {
bool HasMpi();
absl::StatusOr<std::unique_ptr<Transport>> MakeMpi(const MpiOptions& options);
}  // namespace meshwork
#include "../runtime/transport/mpi.cc"  // NOLINT: not what the library has
#undef MakeMpi
#undef HasMpi

namespace meshwork {
namespace {

class MpiErrors : public TempDirTest {
 protected:
  // The error of rank 0 of two processes.
  absl::Status Make(const std::string& mistake) const {
#ifdef MPIEXEC
    const Finished finished =
        RunProcess(MPIEXEC, {"-n", "2", "--oversubscribe", MPI_MISTAKES, mistake}, Path("mistake"),
                   {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"});
    const size_t space = std::min(finished.out.find(' '), finished.out.size());
    const int code = std::atoi(finished.out.substr(0, space).c_str());
    return {static_cast<absl::StatusCode>(code),
            finished.out.substr(std::min(space + 1, finished.out.size()))};
#else
    return absl::UnimplementedError(mistake);
#endif
  }
};

std::string HostName() {
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  return name;
}

TEST_F(MpiErrors, Builds) { ExpectErrors("mpi_builds", {MISTAKE(MakeMpiWithout({}))}); }

TEST_F(MpiErrors, Processes) {
#ifndef MPIEXEC
  GTEST_SKIP() << "there is no MPI, or no mpiexec";
#endif
  std::vector<Mistake> mistakes;
  for (const std::string name :
       {"finalized", "initialized for one thread", "built for one thread", "more domains than processes",
        "a process without a domain", "a process that does not come", "a message that is lost",
        "processes in another order", "an exception"})
    mistakes.emplace_back(name, [this, name]() -> Refusal { return Make(name); });
  ExpectErrors("mpi", mistakes, {{" on " + HostName(), " on HOST"}});
}

}  // namespace
}  // namespace meshwork
