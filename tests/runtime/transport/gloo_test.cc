// Over Gloo, with a process that is killed or stopped during an operation. This process is worker 0; worker 1 is
// another process of this program.
#include "meshwork/runtime/transport/gloo.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/exec/transport.h"
#include "meshwork/runtime/transport/rendezvous.h"
#include "meshwork/runtime/transport/tls.h"
#include "support/clusters.h"
#include "support/tls_files.h"

namespace meshwork::gloo_test {
namespace {

using ::testing::HasSubstr;

constexpr std::chrono::milliseconds kPatient = std::chrono::minutes(2);

// Sends the other domain as many bytes as it receives, once.
absl::Status Swap(RemoteOp& op, std::vector<std::byte>& bytes) {
  const std::byte* const sent = bytes.data();
  std::byte* const received = bytes.data() + bytes.size() / 2;
  return op.Run({&sent, 1}, {&received, 1});
}

std::unique_ptr<RemoteOp> PrepareSwap(Transport& end, const std::vector<std::byte>& bytes) {
  const RemotePart other{1 - end.domain(), std::ssize(bytes) / 2};
  return end.Prepare({.where = "swap", .sends = {other}, .receives = {other}}).value();
}

// The body of worker 1, in another process: it swaps until an operation fails or it is killed.
TEST(GlooWorker, Swaps) {
  if (std::getenv("MESHWORK_TEST_WORKER") == nullptr) return;
  const Cluster cluster = Cluster::FromEnvironment(ProcessEnvironment()).value();
  const auto end =
      MakeGloo(cluster, {.deadline = kPatient, .meeting = {.tls = TlsFilesOf(ProcessEnvironment())}}).value();
  std::vector<std::byte> bytes(200);
  const auto op = PrepareSwap(*end, bytes);
  while (Swap(*op, bytes).ok()) continue;
}

// The parameter: a rendezvous in plain text, or over TLS.
class GlooTest : public TlsTest, public testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    if (!HasGloo()) GTEST_SKIP() << "this build has no Gloo";
    const int port = FreePort();
    const std::string config = "TF_CONFIG=" + LocalTfConfig(2, 1, port);
    const std::string is_worker = "MESHWORK_TEST_WORKER=1";
    TlsFiles files;
    if (GetParam()) {
      files = Server();
      files.authorities = authorities_;
    }
    const std::string trusts = "MESHWORK_TLS_AUTHORITIES=" + files.authorities;
    const std::vector<std::string> args = {"runtime_test", "--gtest_filter=GlooWorker.*", "--gtest_brief=1"};
    std::vector<char*> argv;
    std::vector<char*> environment = {const_cast<char*>(config.c_str()), const_cast<char*>(is_worker.c_str()),
                                      const_cast<char*>(trusts.c_str())};
    for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
    argv.push_back(nullptr);
    for (char** variable = environ; *variable != nullptr; ++variable) environment.push_back(*variable);
    environment.push_back(nullptr);
    ASSERT_EQ(posix_spawn(&worker_, "/proc/self/exe", nullptr, nullptr, argv.data(), environment.data()), 0);
    end_ = MakeGloo(LocalCluster(2, 0, port), {.deadline = kPatient, .meeting = {.tls = files}}).value();
    op_ = PrepareSwap(*end_, bytes_);
    ASSERT_TRUE(Swap(*op_, bytes_).ok());
  }

  void TearDown() override {
    op_.reset();
    end_.reset();
    if (worker_ == 0) return;
    kill(worker_, SIGKILL);
    waitpid(worker_, nullptr, 0);
  }

  pid_t worker_ = 0;
  std::unique_ptr<Transport> end_;
  std::vector<std::byte> bytes_{200};
  std::unique_ptr<RemoteOp> op_;
};

TEST_P(GlooTest, AKilledProcessIsNamed) {
  kill(worker_, SIGKILL);
  absl::Status status;
  while (status.ok()) status = Swap(*op_, bytes_);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(MessageOf(status), HasSubstr("the connection to domain 1, worker 1 (127.0.0.1:1), is broken"));
  EXPECT_EQ(end_->Prepare({}).status(), status);
}

TEST_P(GlooTest, AKilledProcessIsNoticedBetweenOperations) {
  kill(worker_, SIGKILL);
  absl::Status status;
  while (status.ok()) status = end_->Prepare({}).status();
  EXPECT_THAT(MessageOf(status),
              HasSubstr("Gloo: the connection to domain 1, worker 1 (127.0.0.1:1), is broken"));
}

// An abort ends the wait of the other process, and tells it the reason.
TEST_P(GlooTest, AnAbortEndsTheOtherProcess) {
  end_->Abort(absl::UnavailableError("domain 0 has no memory."));
  EXPECT_EQ(MessageOf(Swap(*op_, bytes_)), "domain 0 has no memory.");
  int code = -1;
  ASSERT_EQ(waitpid(worker_, &code, 0), worker_);
  EXPECT_EQ(code, 0);
  worker_ = 0;
}

INSTANTIATE_TEST_SUITE_P(Tls, GlooTest, testing::Values(false, true),
                         [](const auto& info) { return info.param ? "On" : "Off"; });

// Domain 1 has joined, but no process connects at the port that it names, and domain 0 waits. The abort of another
// process ends the wait.
TEST(GlooJoinTest, AnAbortEndsConnecting) {
  if (!HasGloo()) GTEST_SKIP() << "this build has no Gloo";
  const auto server = RendezvousServer::Start("127.0.0.1:0", "").value();
  const std::string address = fmt::format("127.0.0.1:{}", server->port());
  absl::Status joined;
  std::thread domain0([&] {
    joined = MakeGloo(LocalCluster(2, 0, server->port()),
                      {.deadline = kPatient, .meeting = {.rendezvous = address}})
                 .status();
  });
  const auto rendezvous = Rendezvous::Connect(address, "", kPatient).value();
  const std::string hello = rendezvous->Get("0/0/hello 0", kPatient).value();
  ASSERT_TRUE(rendezvous->Set("0/0/hello 1", hello, kPatient).ok());
  std::string port = rendezvous->Get("0/0/0", kPatient).value();
  port[2] = '\xff';  // of a sockaddr_in; the process with the lower port waits for the other one
  ASSERT_TRUE(rendezvous->Set("0/0/1", port, kPatient).ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // it connects now
  ASSERT_TRUE(
      rendezvous->Set("0/0/abort", EncodeReason(absl::UnavailableError("domain 1 is lost.")), kPatient).ok());
  domain0.join();
  EXPECT_EQ(joined, absl::UnavailableError("domain 1 is lost."));
}

}  // namespace
}  // namespace meshwork::gloo_test
