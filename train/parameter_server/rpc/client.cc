#include "meshwork/train/parameter_server/rpc/client.h"

#include "meshwork/base/quote.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/transport/grpc_use.h"

#ifdef MESHWORK_HAVE_GLOO
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/rpc_method.h>

#include <algorithm>
#include <cctype>
#include <mutex>
#include <set>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "meshwork/base/flags.h"
#include "meshwork/base/fork.h"
#include "meshwork/base/version.h"
#include "meshwork/runtime/transport/address.h"
#include "meshwork/train/parameter_server/rpc/call_stream.h"
#include "meshwork/train/parameter_server/rpc/grpc_stream.h"
#include "meshwork/train/parameter_server/rpc/presence.h"
#endif

namespace meshwork {

#ifndef MESHWORK_HAVE_GLOO

absl::StatusOr<std::unique_ptr<RpcClient>> RpcClient::Create(const std::string& what, const std::string&,
                                                             const RpcOptions&) {
  return NoGrpc(what);
}

#else

namespace {

using std::chrono::milliseconds;
using RpcClock = std::chrono::system_clock;  // gRPC's

constexpr int64_t kMostIdle = 4;  // streams that wait for a call
constexpr size_t kMaxTokenBytes = 4096;
const grpc::Status kAnotherProgram(grpc::StatusCode::UNIMPLEMENTED, "");
constexpr milliseconds kForEver = std::chrono::hours(10000);
constexpr milliseconds kPause{20};  // before the same server is asked again

// Pings are sent between calls, too. gRPC then looks for an answer on one connection every five seconds, so one
// connection of many may be closed though its server is there. The next call opens another.
constexpr GrpcPings kClientPings = {.ask_ms = 3000, .answer_ms = 7000};

// `address`: as the user knows it.
std::shared_ptr<grpc::Channel> OpenChannel(const std::string& address, const SocketAddress& resolved,
                                           const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(static_cast<int>(internal::kChunkBytes));
  for (const char* key : internal::kReadBytesKeys) arguments.SetInt(key, internal::kReadBytes);
  return OpenGrpcChannel(address, resolved, credentials, arguments, kClientPings);
}

// "Parameter server", as it stands within a sentence.
std::string Lower(std::string what) {
  if (!what.empty()) what[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(what[0])));
  return what;
}

// The options as gRPC can send them.
RpcOptions WithTask(RpcOptions options) {
  const auto is_plain = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == ' '; };
  if (!std::all_of(options.task.begin(), options.task.end(), is_plain)) options.task.clear();
  return options;
}

class GrpcRpcClient : public RpcClient {
 public:
  GrpcRpcClient(const std::string& what, std::string address, const RpcOptions& options,
                const std::shared_ptr<grpc::Channel>& channel)
      : where_(fmt::format("{} {}", what, address)),
        address_(std::move(address)),
        options_(WithTask(options)),
        connection_(new Connection(channel, fmt::format("the {} {}", Lower(what), address_))) {}

  absl::StatusOr<RpcMessage> Call(const RpcMessage& request, LateAnswer* late) override {
    MESHWORK_ASSIGN_OR_RETURN(const std::vector<MessagePart> parts, Parts(request));
    const RpcClock::time_point now = RpcClock::now(), end = now + std::min(options_.deadline, kForEver);
    while (true) {
      absl::StatusOr<RpcMessage> answer = RpcMessage();
      std::unique_ptr<internal::CallStream> stream;
      const grpc::Status status = Ask(parts, end, answer, late == nullptr ? nullptr : &stream);
      if (stream != nullptr) {
        const auto second = std::make_shared<SecondAnswer>(*this, std::move(stream), request.call);
        *late = [second] { return second->Get(); };
      }
      if (status.ok()) connection_->presence.NoteThere();
      if (!IsLost(status)) return Answer(status, request.call, options_.deadline, std::move(answer));
      connection_->presence.NoteAway(WhyLost(status));
      // The server is away: waits until somebody listens there again.
      if (RpcClock::now() + kPause < end) std::this_thread::sleep_for(kPause);
      connection_->channel->WaitForConnected(std::min(end, RpcClock::now() + milliseconds(500)));
      if (RpcClock::now() < end) continue;
      return absl::UnavailableError(fmt::format("{}: {} was not answered within {}: {}.", where_,
                                                request.call, DurationToString(options_.deadline),
                                                WhyLost(status)));
    }
  }

  Attempt TryCall(const RpcMessage& request, std::optional<milliseconds> deadline) override {
    const absl::StatusOr<std::vector<MessagePart>> parts = Parts(request);
    if (!parts.ok()) return {.answer = parts.status()};
    const milliseconds patience = std::min(deadline.value_or(kForEver), kForEver);
    absl::StatusOr<RpcMessage> answer = RpcMessage();
    const grpc::Status status = Ask(*parts, RpcClock::now() + patience, answer, nullptr);
    if (IsLost(status))
      return {
          .answer = absl::UnavailableError(fmt::format("{}: {}: {}.", where_, request.call, WhyLost(status))),
          .is_lost = true};
    return {.answer = Answer(status, request.call, patience, std::move(answer)),
            .is_lost = status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED};
  }

  bool WaitForConnection(milliseconds at_most) override {
    return made_.is_here() && connection_->channel->WaitForConnected(RpcClock::now() + at_most);
  }

  void LookForServer(milliseconds at_most) override {
    if (WaitForConnection(at_most)) connection_->presence.NoteThere();
    else if (made_.is_here()) connection_->presence.NoteAway("this process has no connection to it");
  }

  void Cancel() override {
    if (!made_.is_here()) return;
    const std::lock_guard lock(connection_->mutex);
    connection_->is_cancelled = true;
    for (internal::CallStream* stream : connection_->running) stream->Cancel();
  }

  const std::string& address() const override { return address_; }

 private:
  struct Connection {
    Connection(std::shared_ptr<grpc::Channel> made, std::string who)
        : channel(std::move(made)), presence(std::move(who)) {}

    const std::shared_ptr<grpc::Channel> channel;
    const grpc::internal::RpcMethod method{internal::kRpcMethod, grpc::internal::RpcMethod::BIDI_STREAMING,
                                           channel};
    Presence presence;  // of the server
    ReceiveMemory memory;
    std::mutex mutex;
    bool is_cancelled = false;
    std::set<internal::CallStream*> running;
    std::vector<std::unique_ptr<internal::CallStream>> idle;
  };

  // The second answer of a call; it still has the call's stream.
  class SecondAnswer {
   public:
    SecondAnswer(GrpcRpcClient& client, std::unique_ptr<internal::CallStream> stream, std::string call)
        : client_(client), stream_(stream.release()), call_(std::move(call)) {}
    ~SecondAnswer() {
      if (stream_ != nullptr && client_.made_.is_here()) client_.EndCall(*stream_);
    }
    SecondAnswer(const SecondAnswer&) = delete;
    SecondAnswer& operator=(const SecondAnswer&) = delete;

    absl::StatusOr<RpcMessage> Get() {
      MESHWORK_RETURN_IF_ERROR(client_.made_.Check(client_.where_));
      const milliseconds patience = std::min(client_.options_.deadline, kForEver);
      absl::StatusOr<RpcMessage> answer = RpcMessage();
      // Otherwise an answer that has already come would be read.
      if (client_.IsCancelled())
        return client_.Answer(grpc::Status::CANCELLED, call_, patience, std::move(answer));
      MessageReader reader(client_.options_.max_message_bytes, &client_.connection_->memory);
      const internal::CallStream::Ended ended = stream_->Receive(RpcClock::now() + patience, reader);
      client_.EndCall(*stream_);
      if (IsOpen(ended, reader)) client_.Keep(std::unique_ptr<internal::CallStream>(stream_.release()));
      stream_.reset();
      const grpc::Status status = Received(ended, reader, answer);
      return client_.Answer(status, call_, patience, std::move(answer));
    }

   private:
    GrpcRpcClient& client_;
    UnlessForked<internal::CallStream> stream_;
    const std::string call_;
  };

  absl::StatusOr<std::vector<MessagePart>> Parts(const RpcMessage& request) const {
    MESHWORK_RETURN_IF_ERROR(made_.Check(where_));
    absl::StatusOr<std::vector<MessagePart>> parts = PartsOf(request);
    MESHWORK_RETURN_IF_ERROR(Annotate(parts.status(), where_ + ": "));
    if (BytesOf(request) > options_.max_message_bytes)
      return absl::ResourceExhaustedError(fmt::format(
          "{}: {} has {} bytes; at most {} are sent, send less or raise RpcOptions::max_message_bytes in all "
          "processes.",
          where_, request.call, BytesOf(request), options_.max_message_bytes));
    return parts;
  }

  // Makes one call, until `end`. `answer` is set if the status is OK. `goes_on`: if the call has not failed, gets its
  // stream, on which another answer comes; null: there is no other answer.
  grpc::Status Ask(const std::vector<MessagePart>& parts, RpcClock::time_point end,
                   absl::StatusOr<RpcMessage>& answer, std::unique_ptr<internal::CallStream>* goes_on) {
    std::unique_ptr<internal::CallStream> stream = TakeStream();
    if (stream == nullptr) return grpc::Status::CANCELLED;
    MessageReader reader(options_.max_message_bytes, &connection_->memory);
    const internal::CallStream::Ended ended = stream->Call(parts, end, reader);
    const bool is_open = IsOpen(ended, reader);
    const grpc::Status status = Received(ended, reader, answer);
    if (goes_on != nullptr && is_open && answer.ok() && answer->status.ok()) {
      *goes_on = std::move(stream);
      return status;
    }
    EndCall(*stream);
    if (is_open) Keep(std::move(stream));
    return status;
  }

  static bool IsOpen(const internal::CallStream::Ended& ended, const MessageReader& reader) {
    return ended.status.ok() && ended.read.ok() && reader.IsWhole();
  }

  static grpc::Status Received(const internal::CallStream::Ended& ended, MessageReader& reader,
                               absl::StatusOr<RpcMessage>& answer) {
    if (ended.read.ok() && !ended.status.ok()) return ended.is_of_server ? ended.status : kAnotherProgram;
    answer = ended.read.ok() ? reader.End() : ended.read;
    return grpc::Status::OK;
  }

  void EndCall(internal::CallStream& stream) {
    const std::lock_guard lock(connection_->mutex);
    connection_->running.erase(&stream);
  }
  // Keeps a stream for the next call.
  void Keep(std::unique_ptr<internal::CallStream> stream) {
    const std::lock_guard lock(connection_->mutex);
    if (std::ssize(connection_->idle) < kMostIdle) connection_->idle.push_back(std::move(stream));
  }

  // A stream that was kept, or a new one. Null once calls are cancelled.
  std::unique_ptr<internal::CallStream> TakeStream() {
    while (true) {
      std::unique_ptr<internal::CallStream> stream;
      {
        const std::lock_guard lock(connection_->mutex);
        if (connection_->is_cancelled) return nullptr;
        if (!connection_->idle.empty()) {
          stream = std::move(connection_->idle.back());
          connection_->idle.pop_back();
        }
      }
      const bool is_new = stream == nullptr;
      if (is_new)
        stream = std::make_unique<internal::CallStream>(connection_->channel, connection_->method, options_);
      if (!is_new && !stream->IsOpen()) continue;
      const std::lock_guard lock(connection_->mutex);
      if (connection_->is_cancelled) return nullptr;
      connection_->running.insert(stream.get());
      return stream;
    }
  }

  bool IsCancelled() const {
    const std::lock_guard lock(connection_->mutex);
    return connection_->is_cancelled;
  }

  // A server that ends cancels its calls.
  bool IsLost(const grpc::Status& status) const {
    return status.error_code() == grpc::StatusCode::UNAVAILABLE ||
           (status.error_code() == grpc::StatusCode::CANCELLED && !IsCancelled());
  }

  static std::string WhyLost(const grpc::Status& status) { return WhyGrpcLost(status.error_message()); }

  // The result of a call whose status says more than that the server is away.
  absl::StatusOr<RpcMessage> Answer(const grpc::Status& status, const std::string& call,
                                    milliseconds deadline, absl::StatusOr<RpcMessage> answer) const {
    switch (status.error_code()) {
      case grpc::StatusCode::OK: break;
      case grpc::StatusCode::CANCELLED:
        return absl::CancelledError(fmt::format("{}: {} was cancelled.", where_, call));
      case grpc::StatusCode::UNAUTHENTICATED:
        return absl::UnauthenticatedError(fmt::format(
            "{}: it serves a job with another token; give all processes of a job the same.", where_));
      case grpc::StatusCode::FAILED_PRECONDITION:
        return absl::FailedPreconditionError(fmt::format(
            "{}: it speaks protocol {}, and this process {} of meshwork {}; build all processes of a job "
            "with one version.",
            where_, Printable(status.error_message()), kRpcProtocol, MESHWORK_VERSION));
      case grpc::StatusCode::UNIMPLEMENTED:
        return absl::UnimplementedError(
            fmt::format("{}: another program listens there; check the address.", where_));
      case grpc::StatusCode::DEADLINE_EXCEEDED:
        if (connection_->channel->GetState(false) != GRPC_CHANNEL_READY)
          return absl::UnavailableError(fmt::format(
              "{}: {} was not answered within {}: the host does not answer; check the address, and that the "
              "network lets connections through.",
              where_, call, DurationToString(deadline)));
        return absl::DeadlineExceededError(fmt::format(
            "{}: {} was not answered within {}, though the server is there; it is busy, or waits for others. "
            "Raise RpcOptions::deadline if that may take longer.",
            where_, call, DurationToString(deadline)));
      default:
        return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                            fmt::format("{}: {}: {}", where_, call, PrintableLines(status.error_message())));
    }
    MESHWORK_RETURN_IF_ERROR(Annotate(answer.status(), fmt::format("{}: {}: ", where_, call)));
    if (answer->status.ok()) return answer;
    return absl::Status(answer->status.code(),
                        fmt::format("{}: {}", where_, PrintableLines(MessageOf(answer->status))));
  }

  const std::string where_, address_;
  const RpcOptions options_;
  const ForkMark made_;
  const UnlessForked<Connection> connection_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RpcClient>> RpcClient::Create(const std::string& what,
                                                             const std::string& address,
                                                             const RpcOptions& options) {
  MESHWORK_RETURN_IF_ERROR(CheckMayUseGrpc());
  const std::string where = fmt::format("{} {}: ", what, address);
  const absl::StatusOr<SocketAddress> resolved = Resolve(address);
  MESHWORK_RETURN_IF_ERROR(Annotate(resolved.status(), what + ": "));
  if (options.token.size() > kMaxTokenBytes)
    return InvalidArgument("{}the token has {} bytes; at most {} are allowed.", where, options.token.size(),
                           kMaxTokenBytes);
  const auto credentials = GrpcClientCredentials(options.tls);
  MESHWORK_RETURN_IF_ERROR(Annotate(credentials.status(), where));
  return std::make_unique<GrpcRpcClient>(what, address, options,
                                         OpenChannel(address, *resolved, *credentials));
}

#endif

}  // namespace meshwork
