// Errors of servers of stores and closures, of their clients, and of the coordinator.

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "errors/errors.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/base/version.h"
#include "meshwork/runtime/transport/gloo.h"
#include "meshwork/runtime/transport/rendezvous.h"
#include "meshwork/train/parameter_server/rpc/coordinator.h"
#include "meshwork/train/parameter_server/rpc/message.h"
#include "meshwork/train/parameter_server/rpc/run_request.h"
#include "meshwork/train/parameter_server/rpc/run_task.h"
#include "meshwork/train/parameter_server/rpc/store_messages.h"
#include "meshwork/train/parameter_server/rpc/store_server.h"
#include "meshwork/train/parameter_server/rpc/worker_server.h"
#include "support/clusters.h"
#include "support/environment.h"
#include "support/memory_store.h"
#include "support/silent_host.h"
#include "support/temp_dir.h"
#include "support/tls_files.h"

#ifdef MESHWORK_HAVE_GLOO
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#endif

namespace meshwork::parameter_server_rpc_test {
namespace {

using std::chrono::milliseconds;
using Results = absl::StatusOr<std::vector<Tensor>>;
constexpr milliseconds kShortly{200};

class ParameterServerErrors : public TempDirTest {
 protected:
  // Starts a store, and acts on it from outside.
  absl::Status AtStore(const std::function<absl::Status(RemoteStore& store)>& act, RpcOptions options = {}) {
    auto stored = std::make_shared<StoredPieces>();
    stored->pieces["table"] = Tensor::Zeros({F32, {3, 2}});
    stored->fails_saves = true;
    const auto server =
        StoreServer::Start(std::make_shared<MemoryStore>(stored), "127.0.0.1:0", options).value();
    return act(*RemoteStore::Connect(Seen(server->port()), options).value());
  }
  // A worker's closure, run by a coordinator.
  Results Closure(const std::string& name, std::vector<ClosureArgument> arguments = {},
                  RpcOptions options = {}) {
    const auto worker = WorkerServer::Start(Closures(), "127.0.0.1:0", options).value();
    const auto coordinator = ClusterCoordinator::Create({Seen(worker->port())}, {.rpc = options}).value();
    for (ClosureArgument& argument : arguments)
      if (std::holds_alternative<PerWorker>(argument))
        argument = coordinator->CreatePerWorker(std::get<PerWorker>(argument).name);
    return coordinator->Schedule(name, std::move(arguments)).value().Fetch();
  }
  static ClosureRegistry Closures() {
    ClosureRegistry closures;
    closures
        .Register("fail",
                  [](ClosureContext&, const auto&) -> Results { return absl::DataLossError("no luck."); })
        .IgnoreError();
    closures.Register("throw", [](ClosureContext&, const auto&) -> Results { throw std::bad_alloc(); })
        .IgnoreError();
    closures
        .Register("invalid", [](ClosureContext&, const auto&) -> Results { return std::vector<Tensor>(1); })
        .IgnoreError();
    closures
        .Register("large",
                  [](ClosureContext&, const auto&) -> Results {
                    return std::vector<Tensor>{Tensor::Zeros({F32, {1000}})};
                  })
        .IgnoreError();
    closures
        .Register(
            "resource_1",
            [](ClosureContext& context, const auto&) -> Results { return context.Resource<int>(1).status(); })
        .IgnoreError();
    closures
        .Register("next",
                  [](ClosureContext& context, const auto&) -> Results { return context.Next(0).status(); })
        .IgnoreError();
    closures.RegisterResource<int>("number", [](WorkerPlace) { return std::make_shared<int>(7); })
        .IgnoreError();
    closures
        .RegisterResource<int>("nothing",
                               [](WorkerPlace) -> absl::StatusOr<std::shared_ptr<int>> {
                                 return absl::NotFoundError("the disk is full.");
                               })
        .IgnoreError();
    return closures;
  }

  std::string Seen(int port) {
    hidden_.emplace_back(fmt::format(":{}", port), ":PORT");
    return fmt::format("127.0.0.1:{}", port);
  }
  std::vector<std::pair<std::string, std::string>> Hidden() const {
    std::vector<std::pair<std::string, std::string>> hidden = hidden_;
    hidden.emplace_back(dir(), "DIR");
    hidden.emplace_back("meshwork " MESHWORK_VERSION, "meshwork VERSION");
    return hidden;
  }
  void Expect(std::string_view area, const std::vector<Mistake>& mistakes) {
    ExpectErrors(area, mistakes, Hidden());
  }

  std::vector<std::pair<std::string, std::string>> hidden_;
};

absl::StatusOr<RpcMessage> ReadBytes(std::string bytes, int64_t max_bytes = 1000) {
  MessageReader reader(max_bytes);
  MESHWORK_RETURN_IF_ERROR(reader.Take(std::as_bytes(std::span(bytes))));
  return reader.End();
}
// The bytes of a message, with one byte replaced.
std::string BytesWith(const RpcMessage& message, size_t at, char byte) {
  std::string bytes;
  const std::vector<MessagePart> parts = PartsOf(message).value();
  for (const MessagePart& part : parts)
    bytes.append(reinterpret_cast<const char*>(part.bytes.data()), part.bytes.size());
  bytes[bytes.size() - 1 - at] = byte;
  return bytes;
}

TEST_F(ParameterServerErrors, Messages) {
  const RpcMessage flag{.tensors = {Tensor(true)}};
  RpcMessage wrong{.fields = "\x08"};
  Expect("parameter_server_messages",
         {
             MISTAKE(PartsOf({.tensors = {Tensor()}})),
             MISTAKE(PartsOf({.tensors = std::vector<Tensor>(65537, Tensor(1.f))})),
             MISTAKE(PartsOf({.fields = std::string(17 << 20, 'x')})),
             MISTAKE(ReadBytes("\xFF\xFF\xFF\x7F")),
             MISTAKE(ReadBytes(std::string("\1\0\0\0\xFF", 5))),
             MISTAKE(ReadBytes(BytesWith(flag, 1, 'x'))),
             MISTAKE(ReadBytes(BytesWith(flag, 0, 2))),
             MISTAKE(ReadBytes(BytesWith(flag, 0, 1) + "xx")),
             MISTAKE(ReadBytes("\1")),
             MISTAKE(ReadBytes(BytesWith({.tensors = {Tensor::Zeros({F32, {300}})}}, 0, 0))),
             MISTAKE(PullMessage({.pieces = {{"table", Tensor::From<int64_t>({2}, {1})}}})),
             MISTAKE(PushMessage({.gradients = {{{"table"}, Tensor()}}})),
             MISTAKE(PullFromMessage(wrong)),
             MISTAKE(PushFromMessage(wrong)),
             MISTAKE(PulledFromMessage(wrong)),
             MISTAKE(PushedFromMessage(wrong)),
             MISTAKE(FactsFromMessage(wrong)),
             MISTAKE(RunRequestFromMessage(wrong)),
         });
}

TEST_F(ParameterServerErrors, Tls) {
  if (!HasGloo()) GTEST_SKIP() << "this build has no gRPC";
  const std::string certificate = File("server.pem", kTestCertificate), key = File("server.key", kTestKey),
                    other = File("other.pem", kOtherAuthority), text = File("text", "no PEM");
  const auto serve = [&](const std::string& certificates, const std::string& its_key) {
    return StoreServer::Start(nullptr, "127.0.0.1:0", {.tls = {.certificate = certificates, .key = its_key}})
        .status();
  };
  const auto trust = [&](const std::string& authorities) {
    return RpcClient::Create("Worker", "127.0.0.1:1", {.tls = {.authorities = authorities}});
  };
  Expect("parameter_server_tls", {
                                     MISTAKE(serve(certificate, "")),
                                     MISTAKE(serve(Path("none"), key)),
                                     MISTAKE(serve(text, key)),
                                     MISTAKE(serve(certificate, text)),
                                     MISTAKE(serve(other, key)),
                                     MISTAKE(trust(Path("none"))),
                                     MISTAKE(trust(text)),
                                 });
}

#ifdef MESHWORK_HAVE_GLOO
// Refuses every call with this status.
class Refuser : public grpc::CallbackGenericService {
 public:
  explicit Refuser(grpc::Status status) : status_(std::move(status)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterCallbackGenericService(this);
    server_ = builder.BuildAndStart();
  }
  ~Refuser() override { server_->Shutdown(); }
  int port() const { return port_; }
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* context) override {
    context->AddTrailingMetadata("meshwork-protocol", "2");
    class Call : public grpc::ServerGenericBidiReactor {
     public:
      explicit Call(const grpc::Status& status) { Finish(status); }
      void OnDone() override { delete this; }
    };
    return new Call(status_);
  }

 private:
  const grpc::Status status_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};
#endif

// Gives an empty result to every pull.
class GivesNothing : public MemoryStore {
 public:
  GivesNothing() : MemoryStore(std::make_shared<StoredPieces>()) {}
  absl::StatusOr<Pulled> Pull(const PullRequest&) override { return Pulled(); }
};

TEST_F(ParameterServerErrors, Stores) {
  if (!HasGloo()) {
    ExpectErrors("parameter_server_none", {
                                              MISTAKE(StoreServer::Start(nullptr, "127.0.0.1:0", {})),
                                              MISTAKE(RemoteStore::Connect("127.0.0.1:1", {})),
                                          });
    return;
  }
  const auto connect = [&](int port, RpcOptions options = {}, const JobFacts& facts = {}) {
    options.deadline = kShortly;
    return RemoteStore::Connect(Seen(port), options, facts).status();
  };
  const auto other_job = [&] {
    const auto server =
        StoreServer::Start(std::make_shared<MemoryStore>(std::make_shared<StoredPieces>()), "127.0.0.1:0", {},
                           {{"program", "9f2c"}, {"pieces", "3"}, {"mesh", "a=2"}});
    return connect((*server)->port(), {}, {{"program", "8a1b"}, {"pieces", "3"}, {"seed", "7"}});
  };
  // The server is restarted with another program. Without `asks`, the client does not ask for its facts first.
  const auto other_job_later = [&](bool asks) {
    const auto store = std::make_shared<MemoryStore>(std::make_shared<StoredPieces>());
    auto server = StoreServer::Start(store, "127.0.0.1:0", {}, {{"program", "9f2c"}}).value();
    const std::string address = Seen(server->port());
    const auto remote = RemoteStore::Connect(address, {}, {{"program", "9f2c"}}).value();
    server.reset();
    server = StoreServer::Start(store, address, {}, {{"program", "8a1b"}}).value();
    if (asks) return remote->Pull({}).status();
    RpcMessage request = AskTakenMessage("worker 0");
    AddJob(JobOf({{"program", "9f2c"}}), request);
    return RpcClient::Create("Parameter server", address, {}).value()->Call(request).status();
  };
  const auto other_token = [&] {
    const auto server = WorkerServer::Start({}, "127.0.0.1:0", {.token = "a"});
    return connect((*server)->port(), {.token = "b"});
  };
  const auto worker_there = [&] {
    const auto server = WorkerServer::Start({}, "127.0.0.1:0", {});
    return connect((*server)->port());
  };
  const auto rendezvous_there = [&] {
    const auto server = RendezvousServer::Start("127.0.0.1:0", "");
    return connect((*server)->port());
  };
  const auto taken = [&] {
    const auto server = WorkerServer::Start({}, "127.0.0.1:0", {});
    return StoreServer::Start(nullptr, Seen((*server)->port()), {}).status();
  };
  // The server is alive, but its caller is gone when it wants to answer.
  const auto waits = [&] {
    auto store = std::make_shared<MemoryStore>(std::make_shared<StoredPieces>());
    store->Hold(true);
    const auto server = StoreServer::Start(store, "127.0.0.1:0", {}).value();
    const auto remote = RemoteStore::Connect(Seen(server->port()), {.deadline = kShortly}).value();
    return remote->Push({.pusher = "p", .sequence = 1}).status();
  };
  const auto save_lost = [&] {
    auto server = StoreServer::Start(std::make_shared<MemoryStore>(std::make_shared<StoredPieces>()),
                                     "127.0.0.1:0", {});
    const auto remote = RemoteStore::Connect(Seen((*server)->port()), {}).value();
    server->reset();
    absl::Status status;
    // The connection may break during the first call, whose error says so.
    for (int calls = 0; calls < 100; ++calls) {
      status = remote->Save().status();
      if (!absl::StrContains(status.message(), "the connection broke off")) break;
    }
    return status;
  };
  const auto call = [&](const char* name) {
    return AtStore([&](RemoteStore&) {
      const std::string address = hidden_.back().first;
      return RpcClient::Create("Parameter server", "127.0.0.1" + address, {})
          .value()
          ->Call({.call = name})
          .status();
    });
  };
  const auto silent = [&] { return AtSilentHost([&](int port) { return connect(port); }); };
  const auto wrong_store = [&] {
    const auto server = StoreServer::Start(std::make_shared<GivesNothing>(), "127.0.0.1:0", {}).value();
    return RemoteStore::Connect(Seen(server->port()), {}).value()->Pull({.pieces = {{"table"}}}).status();
  };
  const auto cancelled = [&] {
    const auto client = RpcClient::Create("Worker", "127.0.0.1:1", {}).value();
    client->Cancel();
    return client->Call({.call = "Ping"}).status();
  };
  // A push waits on the only stream.
  const auto too_many_streams = [&] {
    auto store = std::make_shared<MemoryStore>(std::make_shared<StoredPieces>());
    store->Hold(true);
    const auto server = StoreServer::Start(store, "127.0.0.1:0", {.max_streams = 1}).value();
    const auto remote = RemoteStore::Connect(Seen(server->port()), {}).value();
    std::thread waiting([&] { remote->Push({.pusher = "p", .sequence = 1}).IgnoreError(); });
    store->AwaitPushes(1);
    const absl::Status status = remote->Pull({}).status();
    store->Hold(false);
    waiting.join();
    return status;
  };
  const RpcOptions small{.max_message_bytes = 100};
  std::vector<Mistake> mistakes = {
      MISTAKE(StoreServer::Start(nullptr, "nonsense", {})),
      MISTAKE(taken()),
      MISTAKE(StoreServer::Start(nullptr, "0.0.0.0:0", {})),
      MISTAKE(WorkerServer::Start({}, "[::]:0", {})),
      MISTAKE(StoreServer::Start(nullptr, "127.0.0.1:0", {.max_streams = 0})),
      MISTAKE(too_many_streams()),
      MISTAKE(RemoteStore::Connect("nonsense", {})),
      MISTAKE(RemoteStore::Connect("127.0.0.1:1", {.token = std::string(5000, 't')})),
      {"nobody is there", [&] { return connect(FreePort()); }},
      {"a server with TLS",
       [&] {
         const TlsFiles tls{.certificate = File("server.pem", kTestCertificate),
                            .key = File("server.key", kTestKey)};
         return connect(WorkerServer::Start({}, "127.0.0.1:0", {.tls = tls}).value()->port());
       }},
      {"a server without",
       [&] {
         const auto server = WorkerServer::Start({}, "127.0.0.1:0", {}).value();
         return connect(server->port(), {.tls = {.authorities = File("ca.pem", kTestAuthority)}});
       }},
      MISTAKE(other_job()),
      MISTAKE(other_job_later(true)),
      MISTAKE(other_job_later(false)),
      MISTAKE(other_token()),
      MISTAKE(worker_there()),
      MISTAKE(rendezvous_there()),
      MISTAKE(waits()),
      MISTAKE(silent()),
      MISTAKE(wrong_store()),
      MISTAKE(save_lost()),
      MISTAKE(cancelled()),
      MISTAKE(call("Run")),
      MISTAKE(AtStore([](RemoteStore& store) { return store.Pull({.pieces = {{"tabel"}}}).status(); })),
      MISTAKE(AtStore([](RemoteStore& store) { return store.Save().status(); })),
      MISTAKE(AtStore([](RemoteStore& store) {
        return store.Push({.gradients = {{{"table"}, Tensor()}}}).status();
      })),
      MISTAKE(AtStore(
          [](RemoteStore& store) {
            return store.Pull({.pieces = {{"table"}, {"table"}, {"table"}, {"table"}, {"table"}}}).status();
          },
          small)),
      MISTAKE(AtStore(
          [](RemoteStore& store) {
            return store.Push({.gradients = {{{"table"}, Tensor::Zeros({F32, {100}})}}}).status();
          },
          small)),
  };
#ifdef MESHWORK_HAVE_GLOO
  mistakes.emplace_back("a server of another version", [&]() -> Refusal {
    const Refuser refuser({grpc::StatusCode::FAILED_PRECONDITION, "1 of meshwork 0.0.9"});
    return connect(refuser.port());
  });
#endif
  Expect("parameter_server_served", mistakes);
}

TEST_F(ParameterServerErrors, Closures) {
  ClosureRegistry closures = Closures();
  const auto done = [](ClosureContext&, const std::vector<Tensor>& x) -> Results { return x; };
  Expect("parameter_server_registry",
         {
             MISTAKE(closures.Register("fail", done)),
             MISTAKE(closures.Register("new", nullptr)),
             MISTAKE(closures.RegisterDataset("new", nullptr)),
             MISTAKE(closures.RegisterResource<int>("number",
                                                    [](WorkerPlace) { return std::make_shared<int>(1); })),
         });
  if (!HasGloo()) return;
  const auto cluster = [](const std::string& roles, const std::string& task) {
    return Cluster::FromTfConfig(
               fmt::format(R"({{"cluster": {{{}}}, "task": {{"type": "{}", "index": 0}}}})", roles, task))
        .value();
  };
  const auto away = [&](size_t count) {
    std::vector<std::string> addresses;
    for (size_t i = 0; i < count; ++i) addresses.push_back(Seen(FreePort()));
    const auto coordinator = ClusterCoordinator::Create(addresses, {.deadline = kShortly}).value();
    const RemoteValue value = coordinator->Schedule("fail").value();
    const absl::Status status = coordinator->Join();
    return count > 1 ? status : value.Fetch().status();
  };
  const auto refused = [&] {
    const auto worker = WorkerServer::Start(Closures(), "127.0.0.1:0", {.token = "a"}).value();
    const auto coordinator =
        ClusterCoordinator::Create({Seen(worker->port())}, {.rpc = {.token = "b"}}).value();
    coordinator->Schedule("fail").IgnoreError();
    return coordinator->Join();
  };
  const auto of_another = [&] {
    const auto one = ClusterCoordinator::Create({"127.0.0.1:1"}, {}).value(),
               other = ClusterCoordinator::Create({"127.0.0.1:1"}, {}).value();
    return one->Schedule("fail", {other->Schedule("fail").value()}).status();
  };
  const auto failed_argument = [&] {
    const auto worker = WorkerServer::Start(Closures(), "127.0.0.1:0", {}).value();
    const auto coordinator = ClusterCoordinator::Create({Seen(worker->port())}, {}).value();
    const RemoteValue failed = coordinator->Schedule("fail").value();
    coordinator->Join().IgnoreError();
    return coordinator->Schedule("large", {failed}).value().Fetch().status();
  };
  ClosureQueue queue(/*max_waiting=*/10, /*max_losses=*/2);
  const auto lost = [&](int times) {
    const auto coordinator = ClusterCoordinator::Create({"127.0.0.1:1"}, {}).value();
    const RemoteValue value = coordinator->Schedule("never").value();
    std::vector<Tensor> tensors;
    queue.Put({.name = "step", .arguments = {}, .value = value}).IgnoreError();
    for (int i = 0; i < times; ++i)
      queue.PutBack(*queue.Take(tensors), absl::UnavailableError("the connection broke off."));
    return queue.Join();
  };
  const auto lost_behind_an_error = [&] {
    const auto coordinator =
        ClusterCoordinator::Create({"127.0.0.1:1"}, {.deadline = std::chrono::hours(1)}).value();
    const RemoteValue value = coordinator->Schedule("never").value();
    std::vector<Tensor> tensors;
    queue.Put({.name = "step", .arguments = {}, .value = value}).IgnoreError();
    auto closure = queue.Take(tensors);
    queue.Fail(absl::DataLossError("no luck."));
    queue.PutBack(*std::move(closure), absl::UnavailableError("the connection broke off."));
    queue.Join().IgnoreError();
    return value.Fetch().status();
  };
  const auto ends = [] {
    const RemoteValue value =
        ClusterCoordinator::Create({"127.0.0.1:1"}, {}).value()->Schedule("never").value();
    return value.Fetch().status();
  };
  const auto ended = [&] {
    const auto coordinator = ClusterCoordinator::Create({"127.0.0.1:1"}, {}).value();
    const RemoteValue value = coordinator->Schedule("never").value();
    queue.End();
    queue.Join().IgnoreError();
    return queue.Put({.name = "step", .arguments = {}, .value = value});
  };
  const PerWorker number(0, "number");
  const std::string chief = R"("chief": ["a:1"])", worker = R"("worker": ["a:2"])", ps = R"("ps": ["a:3"])";
  Expect("parameter_server_closures",
         {
             MISTAKE(Closure("fial")),
             MISTAKE(Closure("fail")),
             MISTAKE(Closure("throw")),
             MISTAKE(Closure("invalid")),
             MISTAKE(Closure("large", {}, {.max_message_bytes = 1000})),
             MISTAKE(Closure("fail", {Tensor::Zeros({F32, {1000}})}, {.max_message_bytes = 1000})),
             MISTAKE(Closure("resource_1", {number})),
             MISTAKE(Closure("next", {number})),
             MISTAKE(Closure("fail", {PerWorker(0, "numbre")})),
             MISTAKE(Closure("fail", {PerWorker(0, "nothing")})),
             MISTAKE(ClusterCoordinator::Create(std::vector<std::string>(), {})),
             MISTAKE(ClusterCoordinator::Create({"127.0.0.1:1"}, {.max_waiting = 0})),
             MISTAKE(ClusterCoordinator::Create({"nonsense"}, {})),
             MISTAKE(ClusterCoordinator::Create(cluster(worker, "worker"), {})),
             MISTAKE(ClusterCoordinator::Create(cluster(chief, "chief"), {})),
             MISTAKE(ClusterCoordinator::Create({"127.0.0.1:1"}, {}).value()->Schedule("fail", {Tensor()})),
             MISTAKE(of_another()),
             MISTAKE(failed_argument()),
             MISTAKE(away(1)),
             MISTAKE(away(6)),
             MISTAKE(refused()),
             MISTAKE(lost(2)),
             MISTAKE(lost_behind_an_error()),
             MISTAKE(ends()),
             MISTAKE(ended()),
             MISTAKE(RunTask(
                 Cluster::FromLauncher(EnvironmentOf({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}})).value(), {})),
             MISTAKE(RunTask(cluster(worker + ", " + ps, "ps"), {})),
         });
}

}  // namespace
}  // namespace meshwork::parameter_server_rpc_test
