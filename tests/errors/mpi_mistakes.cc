// One mistake of a program that mpirun starts as two processes. Prints the status that rank 0 gets: its code and
// its message.
//
//   mpiexec -n 2 mpi_mistakes finalized
//
// Some mistakes are MPI's: this program overrides its functions, as MPI lets profilers do (MPI 3.1, section 14.2).
#include <mpi.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "fmt/format.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/transport/connect.h"
#include "meshwork/runtime/transport/mpi.h"
#include "meshwork/train/cluster/processes.h"
#include "support/environment.h"

namespace {
bool has_one_thread = false, loses_messages = false;
}  // namespace

extern "C" {

int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  return PMPI_Init_thread(argc, argv, has_one_thread ? MPI_THREAD_SINGLE : required, provided);
}

int MPI_Query_thread(int* provided) {
  const int code = PMPI_Query_thread(provided);
  if (has_one_thread) *provided = MPI_THREAD_SINGLE;
  return code;
}

int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request* request) {
  if (loses_messages) return MPI_ERR_OTHER;
  return PMPI_Isend(data, count, type, to, tag, comm, request);
}

}  // extern "C"

namespace meshwork {
namespace {

using std::chrono::milliseconds;

int Rank() { return std::atoi(std::getenv("OMPI_COMM_WORLD_RANK")); }

absl::Status Initialized(int level) {
  int given = 0;
  PMPI_Init_thread(nullptr, nullptr, level, &given);
  has_one_thread = level == MPI_THREAD_SINGLE;
  const absl::Status status = MakeMpi().status();
  PMPI_Finalize();
  return status;
}

const std::map<std::string, std::function<absl::Status()>>& Mistakes() {
  static const auto* const mistakes = new std::map<std::string, std::function<absl::Status()>>{
      {"finalized",
       [] {
         MESHWORK_CHECK(MakeMpi().ok());
         MPI_Finalize();
         return MakeMpi().status();
       }},
      {"initialized for one thread", [] { return Initialized(MPI_THREAD_SINGLE); }},
      {"built for one thread",
       [] {
         has_one_thread = true;
         return MakeMpi().status();
       }},
      {"more domains than processes", [] { return MakeMpi({.num_domains = 3}).status(); }},
      {"a process without a domain",
       [] {
         // Rank 0 prints the error of rank 1.
         const absl::StatusOr<std::unique_ptr<Transport>> end = MakeMpi({.num_domains = 1});
         const std::string mine(MessageOf(end.status()));
         const absl::StatusOr<std::unique_ptr<Transport>> both = MakeMpi();
         return absl::NotFoundError((*both)->AllGather("messages", mine).value()[1]);
       }},
      {"a process that does not come",
       [] {
         if (Rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(1));
         return MakeMpi({.deadline = milliseconds(300)}).status();
       }},
      {"a message that is lost",
       [] {
         const std::unique_ptr<Transport> end = MakeMpi().value();
         loses_messages = Rank() == 0;
         return Agree(*end, "the program", std::string("9f2c"));
       }},
      {"processes in another order",
       [] {
         const std::string worker = fmt::format("worker:{}", 1 - Rank());
         const Cluster cluster = Cluster::FromFile(R"({"cluster": {"worker": ["a:1", "b:1"]}})",
                                                   "cluster.json", EnvironmentOf({{"MESHWORK_TASK", worker}}))
                                     .value();
         return Connect(cluster, {.engine = Engine::kMpi}).status();
       }},
      {"an exception",
       [] {
         Processes processes = Processes::Join({}).value();
         const auto fails = []() -> absl::Status { throw std::runtime_error("a stack is empty"); };
         const auto waits = [&] { return Agree(*processes.transport(), "the step", std::string("1")); };
         try {
           if (Rank() == 1) return processes.Run(fails);
         } catch (const std::exception&) {
         }
         return processes.Run(waits);
       }},
  };
  return *mistakes;
}

}  // namespace
}  // namespace meshwork

int main(int argc, char** argv) {
  const auto mistake = meshwork::Mistakes().find(argc < 2 ? "" : argv[1]);
  MESHWORK_CHECK(mistake != meshwork::Mistakes().end());
  const absl::Status status = mistake->second();
  if (meshwork::Rank() == 0)
    fmt::print("{} {}", static_cast<int>(status.code()), meshwork::MessageOf(status));
  std::fflush(stdout);
  std::_Exit(0);  // without MPI_Finalize, which would wait for the missing process
}
