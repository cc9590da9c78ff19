// A libFuzzer target: any bytes that a peer sends to a parameter server, a worker or a rendezvous get an answer or a
// refusal in time; the service still answers the next peer; and without the token nothing is done.
//
// The first byte of an input chooses the service, the second one the token and the sizes of chunks. The rest are the
// bytes to send. --prepare writes an initial corpus of requests, and a dictionary.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/fuzzer.h"
#include "meshwork.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/transport/rendezvous.h"
#include "meshwork/train/parameter_server/rpc/client.h"
#include "meshwork/train/parameter_server/rpc/run_request.h"
#include "meshwork/train/parameter_server/rpc/store_server.h"
#include "meshwork/train/parameter_server/rpc/worker_server.h"
#include "meshwork/train/parameter_server/shard_store.h"
#include "meshwork/train/parameter_server/split.h"
#include "support/raw_call.h"

namespace meshwork {
namespace {

constexpr char kToken[] = "t";
// kWait ends a wait for a key that is never set. Any other answer that takes kPatience is a finding.
constexpr std::chrono::milliseconds kWait{5}, kPatience{10000};
constexpr size_t kStore = 0, kWorker = 1, kFirstOfRendezvous = 2;

// The gradient of `w` is pushed whole, that of `table` by rows.
Graph Lookups() {
  Graph graph(Mesh::Parse("batch=1").value());
  const Variable w = graph.Var("w", Zeros({3, 2})), table = graph.Var("table", Zeros({9, 2}));
  const Value found = Gather(table, graph.Input("ids", I32, {3}), 0);
  const Value loss = ReduceSum(found * w);
  graph.Output("loss", loss);
  Sgd({}).Minimize(loss);
  return graph;
}

// All services in this process, and connections to them.
struct Services {
  Services() {
    closures
        .Register("echo",
                  [](ClosureContext&, const std::vector<Tensor>& x) -> absl::StatusOr<std::vector<Tensor>> {
                    return x;
                  })
        .IgnoreError();
    const RpcOptions options{.token = kToken, .max_message_bytes = int64_t{1} << 26};
    ShardStoreOptions of_shard;
    of_shard.session.workers = 1;
    shard = ShardStore::Create(SplitTraining(Lookups()).value(), of_shard).value();
    store = StoreServer::Start(shard, "127.0.0.1:0", options).value();
    worker = WorkerServer::Start(closures, "127.0.0.1:0", options).value();
    rendezvous = RendezvousServer::Start("127.0.0.1:0", kToken).value();
    for (const int port : {store->port(), worker->port(), rendezvous->port()}) {
      const std::string address = fmt::format("127.0.0.1:{}", port);
      stubs.push_back(std::make_unique<grpc::GenericStub>(RawChannel(address)));
    }
  }

  std::shared_ptr<ShardStore> shard;
  ClosureRegistry closures;
  std::unique_ptr<StoreServer> store;
  std::unique_ptr<WorkerServer> worker;
  std::unique_ptr<RendezvousServer> rendezvous;
  std::vector<std::unique_ptr<grpc::GenericStub>> stubs;  // to the three servers, in this order
};
Services& All() {
  static auto* const services = new Services;
  return *services;
}

// The result of an exchange on one stream: the chunks are sent one after the other, then the stream is closed.
struct Exchanged {
  grpc::Status status;
  std::string answer;  // all that came back
};
Exchanged Exchange(grpc::GenericStub& stub, const std::string& method, bool has_metadata,
                   const std::string& token, const std::vector<std::string_view>& chunks,
                   std::chrono::milliseconds patience) {
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  context.set_deadline(std::chrono::system_clock::now() + patience);
  if (has_metadata) {
    context.AddMetadata("meshwork-protocol", std::to_string(kRpcProtocol));
    context.AddMetadata("meshwork-token-bin", token);
  }
  grpc::CompletionQueue queue;
  void* tag;
  bool ok;
  const auto wait = [&] { return queue.Next(&tag, &ok) && ok; };
  const auto stream = stub.PrepareCall(&context, method, &queue);
  stream->StartCall(nullptr);
  bool goes_on = wait();
  for (size_t c = 0; c < chunks.size() && goes_on; ++c) {
    const grpc::Slice slice(chunks[c].data(), chunks[c].size());
    stream->Write(grpc::ByteBuffer(&slice, 1), nullptr);
    goes_on = wait();
  }
  if (goes_on) {
    stream->WritesDone(nullptr);
    wait();
  }
  Exchanged exchanged;
  for (grpc::ByteBuffer part;;) {
    stream->Read(&part, nullptr);
    if (!wait()) break;
    std::vector<grpc::Slice> slices;
    if (!part.Dump(&slices).ok()) break;
    for (const grpc::Slice& slice : slices)
      exchanged.answer.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  stream->Finish(&exchanged.status, nullptr);
  wait();
  return exchanged;
}

bool Refuses(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::INVALID_ARGUMENT:
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
    case grpc::StatusCode::UNAUTHENTICATED:
    case grpc::StatusCode::PERMISSION_DENIED:
    case grpc::StatusCode::NOT_FOUND:
    case grpc::StatusCode::UNIMPLEMENTED: return true;
    default: return false;
  }
}

// The beginning of an answer must be a message, and its error must not be a bug of ours.
void CheckAnswer(const Exchanged& exchanged) {
  if (exchanged.answer.empty()) return;
  MessageReader reader(int64_t{1} << 30);
  // Other messages may follow it.
  for (size_t at = 0; at < exchanged.answer.size() && !reader.IsWhole(); ++at) {
    const absl::Status taken = reader.Take({reinterpret_cast<const std::byte*>(&exchanged.answer[at]), 1});
    if (!taken.ok()) Finding("an answer that is no message", MessageOf(taken));
  }
  const absl::StatusOr<RpcMessage> answer = reader.End();
  if (!answer.ok()) Finding("an answer that is cut off", MessageOf(answer.status()));
  if (answer->status.code() == absl::StatusCode::kInternal)
    Finding("an answer that is a bug", MessageOf(answer->status));
}

void TryRpc(size_t service, bool has_token, const std::vector<std::string_view>& chunks) {
  const int64_t version = All().shard->version();
  const Exchanged exchanged = Exchange(*All().stubs[service], "/meshwork.Rpc/Call", /*has_metadata=*/true,
                                       has_token ? kToken : "another", chunks, kPatience);
  const grpc::StatusCode code = exchanged.status.error_code();
  if (!has_token && (code != grpc::StatusCode::UNAUTHENTICATED || !exchanged.answer.empty()))
    Finding("a stranger is answered", exchanged.status.error_message());
  if (!has_token && All().shard->version() != version) Finding("a stranger pushes", "");
  if (code != grpc::StatusCode::OK && !Refuses(code))
    Finding(fmt::format("status {}", static_cast<int>(code)), exchanged.status.error_message());
  CheckAnswer(exchanged);
}

void TryRendezvous(size_t method, bool has_token, std::string_view bytes) {
  const std::vector<std::string> calls = RendezvousServer::Calls();
  const std::string& call = calls[method % calls.size()];
  const std::string token = has_token ? kToken : "another";
  std::string message;
  for (size_t byte = 0; byte < 4; ++byte) message += static_cast<char>(token.size() >> (8 * byte) & 0xFF);
  message += token;
  message += bytes;
  const Exchanged exchanged = Exchange(*All().stubs[2], call, /*has_metadata=*/false, "", {message},
                                       call.ends_with("/Get") ? kWait : kPatience);
  const grpc::StatusCode code = exchanged.status.error_code();
  if (!has_token && (code == grpc::StatusCode::OK || !exchanged.answer.empty()))
    Finding("a stranger is answered", call);
  const bool waits = call.ends_with("/Get") && code == grpc::StatusCode::DEADLINE_EXCEEDED;
  if (code != grpc::StatusCode::OK && !Refuses(code) && !waits)
    Finding(fmt::format("status {} of {}", static_cast<int>(code), call), exchanged.status.error_message());
}

// Makes the calls of an honest client to each service.
void ExpectTheyServe() {
  for (const int port : {All().store->port(), All().worker->port()}) {
    static const RpcOptions options{.token = kToken, .deadline = kPatience};
    const auto client = RpcClient::Create("Service", fmt::format("127.0.0.1:{}", port), options).value();
    const char* const call = port == All().store->port() ? "Hello" : "Ping";
    const absl::Status status = client->Call({.call = call}).status();
    if (!status.ok()) Finding("a service is gone", MessageOf(status));
  }
  const auto found =
      Rendezvous::Connect(fmt::format("127.0.0.1:{}", All().rendezvous->port()), kToken, kPatience);
  if (!found.ok()) Finding("the rendezvous is gone", MessageOf(found.status()));
}

}  // namespace

void Try(std::string_view text) {
  static int64_t tries = 0;
  if (text.size() < 2) return;
  const size_t service = static_cast<unsigned char>(text[0]) % 6;
  const auto shape = static_cast<unsigned char>(text[1]);
  const bool has_token = shape % 4 != 0;
  text.remove_prefix(2);
  if (service >= kFirstOfRendezvous) {
    TryRendezvous(service - kFirstOfRendezvous, has_token, text);
  } else {
    std::vector<std::string_view> chunks;
    for (const size_t most = shape < 128 ? text.size() : 1 + shape % 16;
         !text.empty() && chunks.size() < 64;) {
      chunks.push_back(text.substr(0, most));
      text.remove_prefix(chunks.back().size());
    }
    TryRpc(service == kStore ? 0 : kWorker, has_token, chunks);
  }
  if (++tries % 100 == 1) ExpectTheyServe();
}

void Prepare(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder / "samples");
  std::ofstream dictionary(folder / "words.dict");
  std::vector<RpcMessage> requests;
  for (const std::vector<std::string>& calls : {StoreServer::Calls(), WorkerServer::Calls()}) {
    for (const std::string& call : calls) {
      dictionary << fmt::format("\"{}\"\n", call);
      requests.push_back({.call = call});
    }
  }
  const Tensor rows = Tensor::From<int64_t>({2}, {0, 2}), gradient = Tensor::Zeros({F32, {2, 2}});
  requests.push_back(PullMessage({.pieces = {{"table", rows}, {"w"}}}).value());
  requests.push_back(
      PushMessage({.pusher = "p",
                   .sequence = 1,
                   .gradients = {{{"table", rows}, gradient}, {{"w"}, Tensor::Zeros({F32, {3, 2}})}},
                   .next = {"w"}})
          .value());
  requests.push_back(AskTakenMessage("p"));
  requests.push_back(RunMessage({.coordinator = "c",
                                 .closure = "echo",
                                 .worker = {0, 1},
                                 .resources = {},
                                 .arguments = {gradient, rows}}));
  int number = 0;
  const auto write = [&](char service, char shape, const std::string& bytes) {
    std::ofstream(folder / "samples" / std::to_string(number++), std::ios::binary)
        << service << shape << bytes;
  };
  for (RpcMessage& request : requests) {
    AddJob(JobOf({}), request);
    std::string bytes;
    const std::vector<MessagePart> parts = PartsOf(request).value();
    for (const MessagePart& part : parts)
      bytes.append(reinterpret_cast<const char*>(part.bytes.data()), part.bytes.size());
    for (const char service : {'\0', '\1'})
      for (const char shape : {'\0', '\1', '\x83'}) write(service, shape, bytes);
  }
  for (char service = 2; service < 6; ++service)
    write(service, '\1', std::string("\3\0\0\0key\5\0\0\0value", 16));
}

}  // namespace meshwork
