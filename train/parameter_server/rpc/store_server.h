// A StoreServer serves a ParameterStore to other processes, and a RemoteStore is the store as they see it.
//
//   StoreServer::Start(store, "0.0.0.0:4444", {.token = token}, {{"program", Fingerprint(graph)}})   // on the server
//   RemoteStore::Connect("host-p:4444", {.token = token}, {{"program", Fingerprint(graph)}})         // on each worker
//
// Large values travel as streams of chunks; nothing but RpcOptions::max_message_bytes limits them. Tensors that Pull
// returned, or that Push was given, must keep their elements until the call has ended: they are sent from where they
// lie.
//
// A RemoteStore asks again while the server is away: its server may be started again at the same address, with the
// checkpoint of the last one, and workers go on. A push that was asked twice has the same sequence number, by which the
// store knows it. If its first try was taken, and only the answer got lost, Pushed::applied is false though it was
// applied.
//
// Every request has a hash of what its client knows of the job. A server that knows otherwise refuses it, even one that
// was started later, with another program, at the address of the server that Connect found.
//
// Thread-safe. In the child of a fork that came after one of them was made, there is neither.
// Source: Li et al., "Scaling Distributed Machine Learning with the Parameter Server", OSDI 2014, section 3.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/base/fork.h"
#include "meshwork/train/parameter_server/rpc/client.h"
#include "meshwork/train/parameter_server/rpc/options.h"
#include "meshwork/train/parameter_server/rpc/server.h"
#include "meshwork/train/parameter_server/rpc/shutdown_flag.h"
#include "meshwork/train/parameter_server/rpc/store_messages.h"
#include "meshwork/train/parameter_server/store.h"

namespace meshwork {

class StoreServer {
 public:
  // Listens at host:port; port 0 chooses a free one. Errors: those of RpcServer::Start. REQUIRES: a store.
  static absl::StatusOr<std::unique_ptr<StoreServer>> Start(std::shared_ptr<ParameterStore> store,
                                                            const std::string& address,
                                                            const RpcOptions& options, JobFacts facts = {});
  // Stops the store, as somebody may wait in it, and waits for the calls that run.
  ~StoreServer();

  int port() const { return server_->port(); }
  bool IsConnected(const std::string& task) const { return server_->IsConnected(task); }  // RpcServer's
  // The names of all calls that a client may make.
  static std::vector<std::string> Calls();
  // Waits until a client has asked the server to end (ShutDownServer), at most for so long. Whether one has.
  bool WaitForShutdown(std::chrono::milliseconds at_most) { return shutdown_.WaitFor(at_most); }

 private:
  using Handler = absl::StatusOr<RpcMessage> (StoreServer::*)(const RpcMessage& request);
  static const std::map<std::string, Handler>& Handlers();  // by call

  StoreServer(std::shared_ptr<ParameterStore> store, JobFacts facts);
  absl::StatusOr<RpcMessage> Answer(const RpcMessage& request);
  absl::StatusOr<RpcMessage> AnswerHello(const RpcMessage& request);
  absl::StatusOr<RpcMessage> AnswerPull(const RpcMessage& request);
  absl::StatusOr<RpcMessage> AnswerPush(const RpcMessage& request);
  absl::StatusOr<RpcMessage> AnswerTakenFrom(const RpcMessage& request);
  absl::StatusOr<RpcMessage> AnswerSave(const RpcMessage& request);
  absl::StatusOr<RpcMessage> AnswerShutdown(const RpcMessage& request);
  absl::StatusOr<RpcMessage> Pull(const PullRequest& request);

  const std::shared_ptr<ParameterStore> store_;
  const JobFacts facts_;
  const int64_t job_;  // JobOf(facts_)
  const ForkMark made_;
  internal::ShutdownFlag shutdown_;
  std::unique_ptr<RpcServer> server_;
};

class RemoteStore : public ParameterStore {
 public:
  // Waits for the server, until the deadline of the options. Errors: those of RpcClient; the server serves another job:
  // which facts differ, and how.
  static absl::StatusOr<std::unique_ptr<RemoteStore>> Connect(const std::string& address,
                                                              const RpcOptions& options,
                                                              const JobFacts& facts = {});

  // Errors of all calls: those of the store, behind the server's address; those of RpcClient::Call; the server serves
  // another job, as for Connect.
  absl::StatusOr<Pulled> Pull(const PullRequest& request) override;
  // The server sends PushRequest::next behind the answer, while others work.
  absl::StatusOr<Pushed> Push(const PushRequest& request) override;
  absl::StatusOr<SequenceSet> TakenFrom(const std::string& pusher) override;
  // Saves into the folder that the server was started with. Is asked once, and takes as long as it takes.
  absl::StatusOr<int64_t> Save() override;
  void LookForServer(std::chrono::milliseconds at_most) override { client_->LookForServer(at_most); }
  // Stops this client only: the store itself serves others.
  void Stop() override;

 private:
  RemoteStore(std::unique_ptr<RpcClient> client, JobFacts facts)
      : client_(std::move(client)), facts_(std::move(facts)), job_(JobOf(facts_)) {}

  std::string Where() const;
  absl::Status CheckFacts();
  // `late`: as of RpcClient::Call, for a request that may be repeated.
  absl::StatusOr<RpcMessage> Ask(RpcMessage request, bool is_repeated = true,
                                 RpcClient::LateAnswer* late = nullptr);
  absl::StatusOr<Pulled> PulledOf(RpcMessage answer, size_t num_pieces) const;

  const std::unique_ptr<RpcClient> client_;
  const JobFacts facts_;
  const int64_t job_;  // JobOf(facts_)
};

// Asks the server at this address, a parameter server or a worker, to end. Returns when it has said that it will.
// Errors: those of RpcClient::Call.
absl::Status ShutDownServer(const std::string& address, const RpcOptions& options);

}  // namespace meshwork
