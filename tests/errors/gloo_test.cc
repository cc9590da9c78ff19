// Messages of the transport over Gloo, and of the rendezvous, if processes do not find each other or act differently.
#include "meshwork/runtime/transport/gloo.h"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "errors/errors.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/base/version.h"
#include "meshwork/runtime/transport/membership.h"
#include "meshwork/runtime/transport/rendezvous.h"
#include "support/clusters.h"
#include "support/environment.h"

namespace meshwork::gloo_test {
namespace {

constexpr std::chrono::milliseconds kPatient = std::chrono::minutes(2), kImpatient{20}, kShort{500};

// Ports, each for one mistake, and their names in the messages.
class GlooErrors : public testing::Test {
 protected:
  int NextPort() { return ports_[next_++]; }
  std::string NextAddress() { return fmt::format("127.0.0.1:{}", NextPort()); }

  std::vector<std::pair<std::string, std::string>> Hidden() const {
    std::vector<std::pair<std::string, std::string>> hidden = {
        {"meshwork " MESHWORK_VERSION, "meshwork VERSION"}};
    for (int port : ports_) hidden.emplace_back(fmt::format(":{}", port), ":PORT");
    return hidden;
  }

 private:
  static std::vector<int> FreePorts() {
    std::vector<int> ports;
    for (int i = 0; i < 20; ++i) ports.push_back(FreePort());
    return ports;
  }

  const std::vector<int> ports_ = FreePorts();
  size_t next_ = 0;
};

// The transport of one of two workers, or the error.
using Made = absl::StatusOr<std::unique_ptr<Transport>>;

// Both of two workers make their ends.
std::pair<Made, Made> MakeBoth(int port, const GlooOptions& first, const GlooOptions& second) {
  Made other;
  std::thread thread([&] { other = MakeGloo(LocalCluster(2, 1, port), second); });
  Made mine = MakeGloo(LocalCluster(2, 0, port), first);
  thread.join();
  return {std::move(mine), std::move(other)};
}

// Domain 0 sends this many bytes to domain 1, which expects another number. Returns domain 0's error.
absl::Status Send(int port, int64_t sent, int64_t expected, std::chrono::milliseconds deadline = kPatient) {
  const GlooOptions options{.deadline = deadline, .join_deadline = kPatient};
  const auto [first, second] = MakeBoth(port, options, options);
  auto send = [&](Transport& end) -> absl::Status {
    RemoteSpec spec{.where = "all_gather %7 (model.cc:41)"};
    std::vector<std::byte> bytes(100);
    const std::byte* const from = bytes.data();
    std::byte* const into = bytes.data();
    if (end.domain() == 0) spec.sends = {{1, sent}};
    else spec.receives = {{0, expected}};
    const std::unique_ptr<RemoteOp> op = end.Prepare(spec).value();
    if (end.domain() == 0) return op->Run({&from, 1}, {});
    return op->Run({}, {&into, 1});
  };
  std::thread other([&, &end = **second] {
    if (expected > 0) send(end).IgnoreError();
  });
  absl::Status status = send(**first);
  other.join();
  return status;
}

TEST_F(GlooErrors, Processes) {
  if (!HasGloo()) {
    ExpectErrors("gloo_none", {
                                  MISTAKE(MakeGloo(Cluster())),
                                  MISTAKE(RendezvousServer::Start("127.0.0.1:0", "")),
                              });
    return;
  }
  auto worker = [&](int64_t index, int64_t count, GlooOptions options = {}) {
    return MakeGloo(LocalCluster(count, index, NextPort()), options).status();
  };
  auto read = [](const std::string& text) { return MakeGloo(Cluster::FromTfConfig(text).value()); };
  auto launched = [](const std::string& size) {
    return Cluster::FromLauncher(EnvironmentOf({{"PMI_RANK", "0"}, {"PMI_SIZE", size}})).value();
  };
  auto differ = [&] {
    const auto [mine, other] =
        MakeBoth(NextPort(), {.deadline = kPatient}, {.deadline = kPatient, .num_domains = 1});
    return mine.status();
  };
  auto no_domain = [&] {
    const GlooOptions options{.deadline = kPatient, .num_domains = 1};
    return MakeBoth(NextPort(), options, options).second.status();
  };
  // Worker 1 joins twice, by two names of the rendezvous's host.
  auto joins_twice = [&]() -> absl::Status {
    const auto server = RendezvousServer::Start(NextAddress(), "").value();
    for (const char* host : {"127.0.0.1", "localhost"}) {
      const GlooOptions options{.num_domains = 1,
                                .meeting = {.rendezvous = fmt::format("{}:{}", host, server->port())}};
      const absl::Status status = MakeGloo(LocalCluster(2, 1, 4444), options).status();
      if (status.code() != absl::StatusCode::kNotFound) return status;
    }
    return absl::OkStatus();
  };
  // Domain 1 gives up, and the reason reaches nobody.
  auto breaks = [&]() -> absl::Status {
    auto server = RendezvousServer::Start(NextAddress(), "").value();
    const GlooOptions options{.deadline = kPatient,
                              .meeting = {.rendezvous = fmt::format("127.0.0.1:{}", server->port())}};
    const auto [first, second] = MakeBoth(4444, options, options);
    server.reset();
    (*second)->Abort(absl::UnavailableError("there is no memory."));
    absl::Status status;
    while (status.ok()) status = (*first)->Prepare({}).status();
    return status;
  };
  const std::string ps = R"({"cluster": {"worker": ["127.0.0.1:1"], "ps": ["127.0.0.1:2"]}, )"
                         R"("task": {"type": "ps", "index": 0}})";
  auto elsewhere = [&] {
    const std::string workers = fmt::format(R"(["127.0.0.1:{}", "192.0.2.1:1"])", NextPort());
    Made other;
    auto make = [&](int index) {
      return read(fmt::format(R"({{"cluster": {{"worker": {}}}, "task": {{"type": "worker", "index": {}}}}})",
                              workers, index));
    };
    std::thread thread([&] { other = make(1); });
    const Made mine = make(0);
    thread.join();
    return other.status();
  };
  const std::string nobody = NextAddress();
  ExpectErrors("gloo",
               {
                   MISTAKE(read(ps)),
                   MISTAKE(worker(0, 2, {.num_domains = 3})),
                   MISTAKE(MakeGloo(launched("4"))),
                   MISTAKE(no_domain()),
                   MISTAKE(worker(0, 3, {.join_deadline = kShort})),
                   MISTAKE(worker(1, 2, {.join_deadline = kImpatient})),
                   MISTAKE(worker(1, 2, {.join_deadline = kImpatient, .meeting = {.rendezvous = nobody}})),
                   MISTAKE(worker(0, 2, {.meeting = {.rendezvous = "host-a"}})),
                   MISTAKE(worker(0, 2, {.meeting = {.rendezvous = "no-such-host.invalid:4444"}})),
                   MISTAKE(differ()),
                   MISTAKE(joins_twice()),
                   MISTAKE(elsewhere()),
                   MISTAKE(breaks()),
                   MISTAKE(Send(NextPort(), 24, 8)),
                   MISTAKE(Send(NextPort(), 24, 32)),
                   MISTAKE(Send(NextPort(), 24, -1, std::chrono::milliseconds(50))),
                   MISTAKE(Send(NextPort(), 24, -1, std::chrono::milliseconds(60))),
               },
               Hidden());
}

TEST_F(GlooErrors, Rendezvous) {
  if (!HasGloo()) GTEST_SKIP() << "this build has no gRPC";
  const std::string address = NextAddress();
  const auto server = RendezvousServer::Start(address, "a token").value();
  auto start = [](const std::string& where, const std::string& token = "") {
    return RendezvousServer::Start(where, token).status();
  };
  auto connect = [](const std::string& where, const std::string& token) {
    return Rendezvous::Connect(where, token, kShort).status();
  };
  auto get = [&](const std::string& key) {
    return Rendezvous::Connect(address, "a token", kPatient).value()->Get(key, kImpatient).status();
  };
  const std::string nobody = NextAddress();
  ExpectErrors("rendezvous",
               {
                   MISTAKE(start("4444")),
                   MISTAKE(start("::1:4444")),
                   MISTAKE(start("127.0.0.1:65536")),
                   MISTAKE(start("no-such-host.invalid:4444")),
                   MISTAKE(start(address)),
                   MISTAKE(start("192.0.2.1:4444", "a token")),
                   MISTAKE(start("0.0.0.0:0")),
                   MISTAKE(start("[::]:0")),
                   MISTAKE(connect("host-a", "a token")),
                   MISTAKE(connect(address, "another token")),
                   MISTAKE(connect(nobody, "a token")),
                   MISTAKE(get("the address of worker 1")),
               },
               Hidden());
}

TEST_F(GlooErrors, Membership) {
  if (!HasGloo()) GTEST_SKIP() << "this build has no gRPC";
  const std::string address = NextAddress();
  const auto server = RendezvousServer::Start(address, "a token").value();
  const auto rendezvous = Rendezvous::Connect(address, "a token", kPatient).value();
  auto form = [&](int64_t process) {
    return Members(*rendezvous, {.process = process, .num_processes = 3, .deadline = kShort}).Form();
  };
  auto used_by_another_program = [&]() -> absl::Status {
    MESHWORK_RETURN_IF_ERROR(rendezvous->Set("generation 0/members", "0:a x:b", kPatient));
    return form(1).status();
  };
  auto replaced = [&] {
    Members first(*rendezvous, {.process = 2, .num_processes = 3, .deadline = kShort});
    EXPECT_FALSE(first.Form().ok());
    EXPECT_FALSE(form(2).ok());
    return first.Form().status();
  };
  auto late = [&]() -> absl::Status {
    MESHWORK_RETURN_IF_ERROR(rendezvous->Set("the job is over", "", kPatient));
    return form(2).status();
  };
  ExpectErrors("membership",
               {
                   MISTAKE(form(1)),
                   MISTAKE(replaced()),
                   MISTAKE(used_by_another_program()),
                   MISTAKE(late()),
               },
               Hidden());
}

}  // namespace
}  // namespace meshwork::gloo_test
