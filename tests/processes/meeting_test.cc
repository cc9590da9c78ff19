// Processes that fail to meet over Gloo: their messages, and that all of them end.
#ifdef LAUNCH
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "gmock/gmock.h"
#include "meshwork/base/status.h"
#include "processes/launched.h"
#include "support/clusters.h"
#include "support/tls_files.h"

namespace meshwork::meeting_test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A port that somebody else listens on.
class Listener {
 public:
  Listener() : port_(FreePort()), fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port_));
    MESHWORK_CHECK(bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 &&
                   listen(fd_, 5) == 0);
  }
  ~Listener() { close(fd_); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  int port() const { return port_; }

 private:
  const int port_;
  const int fd_;
};

class MeetingTest : public LaunchedTest {
 protected:
  std::string Flags() const {
    return fmt::format("--data-dir synthetic --deadline 2 --log-dir {}", Path("logs"));
  }
};

TEST_P(MeetingTest, ATakenPortIsNamed) {
  const Listener other;
  const Finished finished = RunProcess(
      "/bin/sh", {"-c", fmt::format("PORT={} exec {} {} {}", other.port(), BY_TF_CONFIG, MLP_MNIST, Flags())},
      Path("launched"));
  EXPECT_EQ(finished.code, 1);
  EXPECT_THAT(finished.err, HasSubstr(fmt::format("mlp_mnist: Rendezvous: the address 127.0.0.1:{} is taken",
                                                  other.port())));
  EXPECT_THAT(LeftBehind(), IsEmpty());
}

TEST_P(MeetingTest, AStrangerIsRefused) {
  const Finished finished = LaunchEach(2, fmt::format("env MESHWORK_TOKEN=$RANK {}", MLP_MNIST), Flags());
  EXPECT_EQ(finished.code, 1);
  EXPECT_THAT(finished.err, HasSubstr("it serves a job with another token"));
  EXPECT_THAT(LeftBehind(), IsEmpty());
}

TEST_P(MeetingTest, TheRendezvousSpeaksTlsAsTheEnvironmentSays) {
  const std::string files = fmt::format(
      "MESHWORK_TLS_CERTIFICATE={} MESHWORK_TLS_KEY={} MESHWORK_TLS_AUTHORITIES={}",
      File("server.pem", kTestCertificate), File("server.key", kTestKey), File("ca.pem", kTestAuthority));
  const std::string flags =
      fmt::format("--data-dir synthetic --epochs 1 --steps 4 --log-dir {} --deadline", Path("logs"));
  const Finished all = LaunchEach(2, fmt::format("env {} {}", files, MLP_MNIST), flags + " 60");
  EXPECT_EQ(all.code, 0) << all.err;
  // Process 1 speaks plain text, and says so before process 0 ends.
  const Finished one = LaunchEach(2, fmt::format("env $(test $RANK = 1 || echo {}) {}", files, MLP_MNIST),
                                  flags + " $(test $RANK = 1 && echo 2 || echo 60)");
  EXPECT_EQ(one.code, 1);
  EXPECT_THAT(one.err, HasSubstr("that both sides speak TLS or neither does"));
  EXPECT_THAT(LeftBehind(), IsEmpty());
}

TEST_P(MeetingTest, AProcessThatIsKilledIsNamed) {
  const std::string run = fmt::format("{} {} --epochs 1000", MLP_MNIST, Flags());
  const Finished finished =
      Launch(2, "/bin/sh",
             {"-c", fmt::format("test {} = 0 && exec {}; {} & sleep 2; kill -KILL $!; wait $!",
                                GetParam().rank, run, run)});
  EXPECT_EQ(finished.code, 1);
  EXPECT_THAT(finished.err, HasSubstr("mlp_mnist: worker 0 on "));
  EXPECT_THAT(finished.err, HasSubstr("the connection to domain 1, worker 1 (127.0.0.1:"));
  EXPECT_THAT(LeftBehind(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Gloo, MeetingTest, testing::Values(LauncherByTfConfig()));

}  // namespace
}  // namespace meshwork::meeting_test
#endif
