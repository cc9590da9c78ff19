// meshwork rendezvous.
#include "meshwork/runtime/transport/rendezvous.h"

#include <csignal>
#include <cstdio>
#include <memory>
#include <string>

#include "meshwork/base/status.h"
#include "meshwork/mesh/cluster.h"
#include "meshwork/runtime/transport/tls.h"
#include "tools/cli/commands.h"

namespace meshwork::tools {

absl::Status ServeRendezvous(Arguments args) {
  std::string address;
  bool insecure = false;
  FlagTable flags(
      "meshwork rendezvous",
      "Serves the rendezvous by which the processes of a job find each other, until SIGINT or SIGTERM.\n"
      "By default process 0 of a job serves it itself.\n\n"
      "The environment variable MESHWORK_TOKEN is the token of the job: requests with another one are\n"
      "refused. An address that other hosts reach needs one. MESHWORK_TLS_CERTIFICATE and MESHWORK_TLS_KEY\n"
      "name the files with which it speaks TLS, and MESHWORK_TLS_CLIENT_AUTHORITIES those whose signature\n"
      "the certificates of its clients must have (docs/security.md).");
  flags.Text("address", "host:port to listen at, as 0.0.0.0:4444; port 0 chooses a free one", &address);
  flags.Switch("insecure", "everybody who reaches the address is served: no MESHWORK_TOKEN is needed",
               &insecure);
  if (const auto done = Parse(flags, args)) return *done;
  if (address.empty()) return InvalidArgument("--address is missing. See --help.");
  // Before there are other threads, so that none of them is interrupted.
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  const Environment environment = ProcessEnvironment();
  MESHWORK_ASSIGN_OR_RETURN(const std::unique_ptr<RendezvousServer> server,
                            RendezvousServer::Start(address, environment("MESHWORK_TOKEN").value_or(""),
                                                    insecure, TlsFilesOf(environment)));
  fmt::print("meshwork rendezvous: listens at {}:{}\n", address.substr(0, address.rfind(':')),
             server->port());
  std::fflush(stdout);
  int signal = 0;
  sigwait(&ends, &signal);
  return absl::OkStatus();
}

}  // namespace meshwork::tools
