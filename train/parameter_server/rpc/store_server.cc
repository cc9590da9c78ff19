#include "meshwork/train/parameter_server/rpc/store_server.h"

#include <set>
#include <utility>

#include "meshwork/base/quote.h"
#include "meshwork/base/status.h"

namespace meshwork {
namespace {

// "" if both have the same facts.
std::string DifferencesOf(const JobFacts& there, const JobFacts& here) {
  std::set<std::string> names;
  for (const auto& [name, value] : there) names.insert(name);
  for (const auto& [name, value] : here) names.insert(name);
  const auto value_of = [](const JobFacts& facts, const std::string& name) {
    const auto found = facts.find(name);
    return found == facts.end() ? std::string("not known") : Quoted(found->second);
  };
  std::string differences;
  for (const std::string& name : names) {
    const std::string server = value_of(there, name), client = value_of(here, name);
    if (server == client) continue;
    differences += fmt::format("{}{} is {} there and {} here", differences.empty() ? "" : ", ", Quoted(name),
                               server, client);
  }
  return differences;
}

}  // namespace

StoreServer::StoreServer(std::shared_ptr<ParameterStore> store, JobFacts facts)
    : store_(std::move(store)), facts_(std::move(facts)), job_(JobOf(facts_)) {}

absl::StatusOr<std::unique_ptr<StoreServer>> StoreServer::Start(std::shared_ptr<ParameterStore> store,
                                                                const std::string& address,
                                                                const RpcOptions& options, JobFacts facts) {
  std::unique_ptr<StoreServer> made(new StoreServer(std::move(store), std::move(facts)));
  MESHWORK_ASSIGN_OR_RETURN(made->server_, RpcServer::Start("Parameter server", address, options,
                                                            [server = made.get()](const RpcMessage& request) {
                                                              return server->Answer(request);
                                                            }));
  return made;
}

StoreServer::~StoreServer() {
  if (server_ == nullptr || !made_.is_here()) return;
  server_->BeginToEnd();
  store_->Stop();
  server_.reset();
}

absl::StatusOr<RpcMessage> StoreServer::Answer(const RpcMessage& request) {
  if (IsOfAnotherJob(request, job_))
    return absl::FailedPreconditionError(
        fmt::format("{}: this server serves another job; start all processes of a job with the same program.",
                    request.call));
  const auto handler = Handlers().find(request.call);
  if (handler != Handlers().end()) return (this->*handler->second)(request);
  return absl::UnimplementedError(fmt::format(
      "{}: this is a parameter server, which has no such call; check the address.", Printable(request.call)));
}

const std::map<std::string, StoreServer::Handler>& StoreServer::Handlers() {
  static const auto* const handlers = new std::map<std::string, Handler>{
      {"Hello", &StoreServer::AnswerHello}, {"Pull", &StoreServer::AnswerPull},
      {"Push", &StoreServer::AnswerPush},   {"TakenFrom", &StoreServer::AnswerTakenFrom},
      {"Save", &StoreServer::AnswerSave},   {"Shutdown", &StoreServer::AnswerShutdown}};
  return *handlers;
}

std::vector<std::string> StoreServer::Calls() {
  std::vector<std::string> calls;
  for (const auto& [call, handler] : Handlers()) calls.push_back(call);
  return calls;
}

absl::StatusOr<RpcMessage> StoreServer::AnswerHello(const RpcMessage&) { return FactsMessage(facts_); }

absl::StatusOr<RpcMessage> StoreServer::AnswerPull(const RpcMessage& request) {
  MESHWORK_ASSIGN_OR_RETURN(const PullRequest pull, PullFromMessage(request));
  return Pull(pull);
}

absl::StatusOr<RpcMessage> StoreServer::AnswerPush(const RpcMessage& request) {
  MESHWORK_ASSIGN_OR_RETURN(const PushRequest push, PushFromMessage(request));
  MESHWORK_ASSIGN_OR_RETURN(const Pushed pushed, store_->Push(push));
  RpcMessage answer = PushedMessage(pushed);
  if (!push.next.empty())
    answer.then = [this, next = push.next] {
      PullRequest pull;
      for (const std::string& piece : next) pull.pieces.push_back({piece});
      return Pull(pull);
    };
  return answer;
}

absl::StatusOr<RpcMessage> StoreServer::AnswerTakenFrom(const RpcMessage& request) {
  MESHWORK_ASSIGN_OR_RETURN(const std::string pusher, PusherFromMessage(request));
  MESHWORK_ASSIGN_OR_RETURN(const SequenceSet taken, store_->TakenFrom(pusher));
  return TakenMessage(taken);
}

absl::StatusOr<RpcMessage> StoreServer::AnswerSave(const RpcMessage&) {
  MESHWORK_ASSIGN_OR_RETURN(const int64_t version, store_->Save());
  return SavedMessage(version);
}

absl::StatusOr<RpcMessage> StoreServer::AnswerShutdown(const RpcMessage&) {
  shutdown_.Ask();
  return RpcMessage();
}

absl::StatusOr<RpcMessage> StoreServer::Pull(const PullRequest& request) {
  MESHWORK_ASSIGN_OR_RETURN(Pulled pulled, store_->Pull(request));
  return PulledMessage(std::move(pulled));
}

std::string RemoteStore::Where() const { return fmt::format("Parameter server {}: ", client_->address()); }

absl::StatusOr<std::unique_ptr<RemoteStore>> RemoteStore::Connect(const std::string& address,
                                                                  const RpcOptions& options,
                                                                  const JobFacts& facts) {
  MESHWORK_ASSIGN_OR_RETURN(std::unique_ptr<RpcClient> client,
                            RpcClient::Create("Parameter server", address, options));
  std::unique_ptr<RemoteStore> store(new RemoteStore(std::move(client), facts));
  MESHWORK_RETURN_IF_ERROR(store->CheckFacts());
  return store;
}

absl::Status RemoteStore::CheckFacts() {
  MESHWORK_ASSIGN_OR_RETURN(const RpcMessage answer, client_->Call({.call = "Hello"}));
  const absl::StatusOr<JobFacts> there = FactsFromMessage(answer);
  MESHWORK_RETURN_IF_ERROR(Annotate(there.status(), Where()));
  const std::string differences = DifferencesOf(*there, facts_);
  if (differences.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("{}it serves another job: {}; start all processes of a job with the same program.", Where(),
                  differences));
}

absl::StatusOr<RpcMessage> RemoteStore::Ask(RpcMessage request, bool is_repeated,
                                            RpcClient::LateAnswer* late) {
  AddJob(job_, request);
  absl::StatusOr<RpcMessage> answer =
      is_repeated ? client_->Call(request, late) : client_->TryCall(request, std::nullopt).answer;
  // It may be another server than the one that Connect found. CheckFacts says which facts differ.
  if (absl::IsFailedPrecondition(answer.status())) MESHWORK_RETURN_IF_ERROR(CheckFacts());
  return answer;
}

absl::StatusOr<Pulled> RemoteStore::Pull(const PullRequest& request) {
  absl::StatusOr<RpcMessage> message = PullMessage(request);
  MESHWORK_RETURN_IF_ERROR(Annotate(message.status(), Where() + "Pull: "));
  MESHWORK_ASSIGN_OR_RETURN(RpcMessage answer, Ask(*std::move(message)));
  return PulledOf(std::move(answer), request.pieces.size());
}

absl::StatusOr<Pulled> RemoteStore::PulledOf(RpcMessage answer, size_t num_pieces) const {
  absl::StatusOr<Pulled> pulled = PulledFromMessage(std::move(answer));
  MESHWORK_RETURN_IF_ERROR(Annotate(pulled.status(), Where()));
  if (pulled->values.size() != num_pieces)
    return absl::InternalError(fmt::format("{}it gave {} for {}; its store is wrong.", Where(),
                                           Count(std::ssize(pulled->values), "value"),
                                           Count(static_cast<int64_t>(num_pieces), "piece")));
  return pulled;
}

absl::StatusOr<Pushed> RemoteStore::Push(const PushRequest& request) {
  absl::StatusOr<RpcMessage> message = PushMessage(request);
  MESHWORK_RETURN_IF_ERROR(Annotate(message.status(), Where() + "Push: "));
  RpcClient::LateAnswer late;
  MESHWORK_ASSIGN_OR_RETURN(const RpcMessage answer, Ask(*std::move(message), /*is_repeated=*/true,
                                                         request.next.empty() ? nullptr : &late));
  absl::StatusOr<Pushed> pushed = PushedFromMessage(answer);
  MESHWORK_RETURN_IF_ERROR(Annotate(pushed.status(), Where()));
  if (late != nullptr)
    pushed->next = [this, late, num_pieces = request.next.size()]() -> absl::StatusOr<Pulled> {
      MESHWORK_ASSIGN_OR_RETURN(RpcMessage values, late());
      return PulledOf(std::move(values), num_pieces);
    };
  return pushed;
}

absl::StatusOr<SequenceSet> RemoteStore::TakenFrom(const std::string& pusher) {
  MESHWORK_ASSIGN_OR_RETURN(const RpcMessage answer, Ask(AskTakenMessage(pusher)));
  absl::StatusOr<SequenceSet> taken = TakenFromMessage(answer);
  MESHWORK_RETURN_IF_ERROR(Annotate(taken.status(), Where()));
  return taken;
}

absl::StatusOr<int64_t> RemoteStore::Save() {
  MESHWORK_ASSIGN_OR_RETURN(const RpcMessage answer, Ask({.call = "Save"}, /*is_repeated=*/false));
  const absl::StatusOr<int64_t> version = SavedFromMessage(answer);
  MESHWORK_RETURN_IF_ERROR(Annotate(version.status(), Where()));
  return version;
}

void RemoteStore::Stop() { client_->Cancel(); }

absl::Status ShutDownServer(const std::string& address, const RpcOptions& options) {
  MESHWORK_ASSIGN_OR_RETURN(const std::unique_ptr<RpcClient> client,
                            RpcClient::Create("Server", address, options));
  return client->Call({.call = "Shutdown"}).status();
}

}  // namespace meshwork
