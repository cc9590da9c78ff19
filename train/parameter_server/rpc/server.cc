#include "meshwork/train/parameter_server/rpc/server.h"

#include "meshwork/base/status.h"
#include "meshwork/runtime/transport/grpc_use.h"

#ifdef MESHWORK_HAVE_GLOO
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/rpc_service_method.h>
#include <grpcpp/support/method_handler.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "meshwork/base/exceptions.h"
#include "meshwork/base/fork.h"
#include "meshwork/base/version.h"
#include "meshwork/runtime/transport/address.h"
#include "meshwork/train/parameter_server/rpc/grpc_stream.h"
#endif

namespace meshwork {

#ifndef MESHWORK_HAVE_GLOO

absl::StatusOr<std::unique_ptr<RpcServer>> RpcServer::Start(const std::string& what, const std::string&,
                                                            const RpcOptions&, Handler) {
  return NoGrpc(what);
}

#else

namespace {

using ServerStream = grpc::ServerReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>;

// A host that was switched off closes no connection. A client between two calls looks for messages every five seconds.
constexpr GrpcPings kServerPings{.ask_ms = 20000, .answer_ms = 20000};
// How long a server that ends waits for calls that run, and then for answers that are under way. gRPC itself would wait
// for all clients to close their connections; between two calls they would not notice that they should.
constexpr std::chrono::milliseconds kFarewell{1000}, kFlush{50};
// The number of callers' tasks that are remembered; callers choose these names.
constexpr size_t kMostTasks = size_t{1} << 16;

class CallService : public grpc::Service {
 public:
  CallService(const RpcOptions& options, RpcServer::Handler handler)
      : options_(options), handler_(std::move(handler)) {
    using Method = grpc::internal::RpcServiceMethod;
    AddMethod(
        new Method(internal::kRpcMethod, grpc::internal::RpcMethod::BIDI_STREAMING,
                   new grpc::internal::BidiStreamingHandler<CallService, grpc::ByteBuffer, grpc::ByteBuffer>(
                       [](CallService* service, grpc::ServerContext* context, ServerStream* stream) {
                         return service->Serve(*context, *stream);
                       },
                       this)));
  }

  void BeginToEnd() { ends_ = true; }
  bool IsConnected(const std::string& task) const {
    const std::lock_guard lock(mutex_);
    const bool was = came_.erase(task) > 0;
    return was || streams_of_.contains(task);
  }
  // Waits until no call runs, at most for so long.
  void WaitForCalls(std::chrono::milliseconds at_most) {
    std::unique_lock lock(mutex_);
    ended_.wait_for(lock, at_most, [&] { return num_running_ == 0; });
  }

 private:
  // While one lives, WaitForCalls waits.
  class RunningCall {
   public:
    explicit RunningCall(CallService& service) : service_(service) {
      const std::lock_guard lock(service_.mutex_);
      ++service_.num_running_;
    }
    ~RunningCall() {
      const std::lock_guard lock(service_.mutex_);
      if (--service_.num_running_ == 0) service_.ended_.notify_all();
    }
    RunningCall(const RunningCall&) = delete;
    RunningCall& operator=(const RunningCall&) = delete;

   private:
    CallService& service_;
  };

  // While one lives, it counts as an open stream.
  class OpenStream {
   public:
    // `task`: the one that the caller names; "" if it names none.
    OpenStream(CallService& service, std::string_view task)
        : service_(service), task_(task), number_(++service.num_streams_) {
      if (task_.empty()) return;
      const std::lock_guard lock(service_.mutex_);
      ++service_.streams_of_[task_];
      if (service_.came_.size() < kMostTasks) service_.came_.insert(task_);
    }
    ~OpenStream() {
      --service_.num_streams_;
      if (task_.empty()) return;
      const std::lock_guard lock(service_.mutex_);
      const auto found = service_.streams_of_.find(task_);
      if (--found->second == 0) service_.streams_of_.erase(found);
    }
    OpenStream(const OpenStream&) = delete;
    OpenStream& operator=(const OpenStream&) = delete;
    int64_t number() const { return number_; }  // of those that were open when it was opened, itself included

   private:
    CallService& service_;
    const std::string task_;
    const int64_t number_;
  };

  // Calls, one after the other, until the caller needs no more or one is refused.
  grpc::Status Serve(grpc::ServerContext& context, ServerStream& stream) {
    context.AddTrailingMetadata(internal::kProtocolKey, std::to_string(kRpcProtocol));
    if (ends_) return Ends();
    if (grpc::Status refusal = CheckCaller(context); !refusal.ok()) return refusal;
    // Only callers with the token get here: others keep nothing open.
    const OpenStream open(*this, ValueOf(context, internal::kTaskKey).value_or(""));
    if (open.number() > options_.max_streams) return TooManyStreams();
    for (grpc::ByteBuffer chunk; stream.Read(&chunk);) {
      const RunningCall running(*this);
      const grpc::Status status = ServeCall(chunk, stream);
      if (!status.ok()) return status;
    }
    return grpc::Status::OK;
  }

  // `chunk`: the first of the message.
  grpc::Status ServeCall(grpc::ByteBuffer& chunk, ServerStream& stream) {
    if (ends_) return Ends();
    MessageReader reader(options_.max_message_bytes, &memory_);
    do {
      const absl::Status read = internal::TakeChunk(chunk, reader);
      if (!read.ok()) return Refuse(read);
    } while (!reader.IsWhole() && stream.Read(&chunk));
    chunk.Clear();
    const absl::StatusOr<RpcMessage> request = reader.End();
    if (!request.ok()) return Refuse(request.status());
    absl::StatusOr<RpcMessage> answer = Handle(request->call, [&] { return handler_(*request); });
    if (ends_ && answer.status().code() == absl::StatusCode::kAborted) return Ends();
    const auto then = answer.ok() ? answer->then : nullptr;
    const bool is_sent = Send(request->call, std::move(answer), stream);
    if (is_sent && then != nullptr) Send(request->call, Handle(request->call, then), stream);
    return grpc::Status::OK;
  }

  // False: the answer is an error, or nobody listens any more; the next read finds the latter, too.
  bool Send(const std::string& call, absl::StatusOr<RpcMessage> answer, ServerStream& stream) const {
    const int64_t bytes = answer.ok() ? BytesOf(*answer) : 0;
    if (bytes > options_.max_message_bytes)
      answer = absl::ResourceExhaustedError(
          fmt::format("the answer to {} has {} bytes; at most {} are sent, ask for less or raise "
                      "RpcOptions::max_message_bytes in all processes.",
                      call, bytes, options_.max_message_bytes));
    if (!answer.ok()) answer = RpcMessage{.status = answer.status()};
    absl::StatusOr<std::vector<MessagePart>> parts = PartsOf(*answer);
    if (!parts.ok()) parts = PartsOf(RpcMessage{.status = parts.status()});
    for (const grpc::ByteBuffer& part : internal::ChunksOf(*parts))
      if (!stream.Write(part)) return false;
    return answer->status.ok();
  }

  template <typename F>
  static absl::StatusOr<RpcMessage> Handle(const std::string& call, const F& make_answer) {
    try {
      return make_answer();
    } catch (...) {
      return CaughtStatus(call, "there is not enough memory");
    }
  }

  // The version is checked first: callers of another version may give other facts of themselves.
  grpc::Status CheckCaller(const grpc::ServerContext& context) const {
    if (ValueOf(context, internal::kProtocolKey) != std::to_string(kRpcProtocol))
      return {grpc::StatusCode::FAILED_PRECONDITION,
              fmt::format("{} of meshwork {}", kRpcProtocol, MESHWORK_VERSION)};
    const std::optional<std::string_view> token = ValueOf(context, internal::kTokenKey);
    if (!token.has_value() || !IsSameToken(*token, options_.token))
      return {grpc::StatusCode::UNAUTHENTICATED, "token"};
    return grpc::Status::OK;
  }

  static std::optional<std::string_view> ValueOf(const grpc::ServerContext& context, const char* key) {
    const auto found = context.client_metadata().find(key);
    if (found == context.client_metadata().end()) return std::nullopt;
    return std::string_view(found->second.data(), found->second.size());
  }

  grpc::Status TooManyStreams() const {
    return {
        grpc::StatusCode::RESOURCE_EXHAUSTED,
        fmt::format(
            "{} of calls are open there, and no more are allowed; let fewer calls run at a time, or raise "
            "RpcOptions::max_streams of the server.",
            Count(options_.max_streams, "stream"))};
  }
  static grpc::Status Ends() { return {grpc::StatusCode::UNAVAILABLE, "ends"}; }
  static grpc::Status Refuse(const absl::Status& status) {
    return {static_cast<grpc::StatusCode>(status.code()), std::string(MessageOf(status))};
  }

  const RpcOptions options_;
  const RpcServer::Handler handler_;
  ReceiveMemory memory_;
  std::atomic<bool> ends_{false};
  std::atomic<int64_t> num_streams_{0};
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  int64_t num_running_ = 0;
  std::map<std::string, int64_t> streams_of_;  // that are open, by the caller's task
  mutable std::set<std::string> came_;  // tasks that have opened one, until IsConnected has told of them
};

class GrpcRpcServer : public RpcServer {
 public:
  GrpcRpcServer(const RpcOptions& options, Handler handler)
      : serving_(new Serving{.service = CallService(options, std::move(handler))}) {}

  bool Listen(const SocketAddress& address, const std::shared_ptr<grpc::ServerCredentials>& credentials) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address.ToString(), credentials, &port_);
    SetGrpcServerArguments(builder, kServerPings);
    builder.SetMaxReceiveMessageSize(static_cast<int>(internal::kChunkBytes));
    for (const char* key : internal::kReadBytesKeys) builder.AddChannelArgument(key, internal::kReadBytes);
    builder.RegisterService(&serving_->service);
    serving_->server = builder.BuildAndStart();
    return serving_->server != nullptr && port_ != 0;
  }

  int port() const override { return port_; }
  bool IsConnected(const std::string& task) const override {
    return made_.is_here() && serving_->service.IsConnected(task);
  }
  void BeginToEnd() override { serving_->service.BeginToEnd(); }

 private:
  struct Serving {
    ~Serving() {
      service.BeginToEnd();
      if (server == nullptr) return;
      service.WaitForCalls(kFarewell);
      server->Shutdown(std::chrono::system_clock::now() + kFlush);
    }
    CallService service;
    std::unique_ptr<grpc::Server> server;
  };
  const ForkMark made_;
  const UnlessForked<Serving> serving_;
  int port_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RpcServer>> RpcServer::Start(const std::string& what,
                                                            const std::string& address,
                                                            const RpcOptions& options, Handler handler) {
  MESHWORK_RETURN_IF_ERROR(CheckMayUseGrpc());
  const std::string where = what + ": ";
  const absl::StatusOr<SocketAddress> resolved = Resolve(address);
  MESHWORK_RETURN_IF_ERROR(Annotate(resolved.status(), where));
  MESHWORK_RETURN_IF_ERROR(
      Annotate(CheckMayListen(*resolved, address, options.token, options.insecure), where));
  if (options.max_streams < 1)
    return InvalidArgument("{}max_streams is {}; a server needs at least 1, or nobody can call it.", where,
                           options.max_streams);
  // gRPC would only log why it cannot.
  MESHWORK_RETURN_IF_ERROR(Annotate(CanListen(*resolved, address), where));
  const auto credentials = GrpcServerCredentials(options.tls);
  MESHWORK_RETURN_IF_ERROR(Annotate(credentials.status(), where));
  auto server = std::make_unique<GrpcRpcServer>(options, std::move(handler));
  if (server->Listen(*resolved, *credentials)) return server;
  // Another process was quicker.
  MESHWORK_RETURN_IF_ERROR(Annotate(CanListen(*resolved, address), where));
  return absl::UnavailableError(address);
}

#endif

}  // namespace meshwork
