#include "meshwork/runtime/transport/rendezvous.h"

#include "meshwork/base/fork.h"
#include "meshwork/base/quote.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/transport/grpc_use.h"

#ifdef MESHWORK_HAVE_GLOO
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>
#include <thread>
#include <utility>

#include "meshwork/runtime/transport/address.h"
#endif

namespace meshwork {

#ifndef MESHWORK_HAVE_GLOO

absl::StatusOr<std::unique_ptr<RendezvousServer>> RendezvousServer::Start(const std::string&,
                                                                          const std::string&, bool,
                                                                          const TlsFiles&) {
  return NoGrpc("Rendezvous");
}

std::vector<std::string> RendezvousServer::Calls() { return {}; }

absl::StatusOr<std::unique_ptr<Rendezvous>> Rendezvous::Connect(const std::string&, const std::string&,
                                                                std::chrono::milliseconds, const TlsFiles&) {
  return NoGrpc("Rendezvous");
}

#else

namespace {

using SystemClock = std::chrono::system_clock;  // gRPC's

constexpr const char* kSet = "/meshwork.Rendezvous/Set";
constexpr const char* kSetFirst = "/meshwork.Rendezvous/SetFirst";
constexpr const char* kGet = "/meshwork.Rendezvous/Get";  // waits
constexpr const char* kFind =
    "/meshwork.Rendezvous/Find";  // does not; without a key it asks whether the server is there

constexpr const char* kCalls[] = {kSet, kSetFirst, kGet, kFind};

constexpr int kMaxMessageBytes = static_cast<int>(Rendezvous::kMaxValueBytes) + (1 << 16);
constexpr int64_t kMaxBytes = int64_t{256} << 20;
constexpr size_t kMaxKeys = 1 << 20, kMaxWaits = 1 << 18;
// The most requests whose token is not read yet, so that they may be anybody's; each holds up to
// kMaxMessageBytes.
constexpr int64_t kMaxUnread = 4096;
constexpr const char* kBusy = "busy";                // the answer to further ones
constexpr auto kFarewell = std::chrono::seconds(1);  // for answers under way when the server ends
// The time in which gRPC can say why it has not connected, when the deadline has passed.
constexpr std::chrono::milliseconds kLastLook{50};

// ---- Messages: fields, each with its length in front, in four bytes, the lowest first.

grpc::ByteBuffer Encoded(const std::vector<std::string_view>& fields) {
  std::string text;
  for (std::string_view field : fields) {
    for (int byte = 0; byte < 4; ++byte) text += static_cast<char>(field.size() >> (8 * byte) & 0xFF);
    text += field;
  }
  const grpc::Slice slice(text);
  return grpc::ByteBuffer(&slice, 1);
}

// The fields of the message; nullopt unless there are `count` of them.
std::optional<std::vector<std::string>> Decoded(const grpc::ByteBuffer& message, size_t count) {
  std::vector<grpc::Slice> slices;
  if (!message.Dump(&slices).ok()) return std::nullopt;
  std::string text;
  for (const grpc::Slice& slice : slices)
    text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  std::string_view rest = text;
  std::vector<std::string> fields;
  while (fields.size() < count) {
    if (rest.size() < 4) return std::nullopt;
    size_t size = 0;
    for (size_t byte = 0; byte < 4; ++byte)
      size |= static_cast<size_t>(static_cast<unsigned char>(rest[byte])) << (8 * byte);
    rest.remove_prefix(4);
    if (rest.size() < size) return std::nullopt;
    fields.emplace_back(rest.substr(0, size));
    rest.remove_prefix(size);
  }
  if (!rest.empty()) return std::nullopt;
  return fields;
}

// ---- The server.

// The values that the server keeps, and the calls that wait for them.
class Values : public grpc::CallbackGenericService {
 public:
  explicit Values(std::string token) : token_(std::move(token)) {}

  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* context) override {
    ++num_unread_;
    return new Call(this, context->method());
  }

  // Lets go those who wait.
  void End() {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    for (auto& [key, calls] : waits_)
      for (Call* call : calls) call->Finish({grpc::StatusCode::UNAVAILABLE, "ends"});
    waits_.clear();
    num_waits_ = 0;
  }

 private:
  // Deletes itself once it is done.
  class Call : public grpc::ServerGenericBidiReactor {
   public:
    Call(Values* values, std::string method) : values_(values), method_(std::move(method)) {
      if (values_->num_unread_ > kMaxUnread) Finish({grpc::StatusCode::UNAVAILABLE, kBusy});
      else StartRead(&message_);
    }
    void OnReadDone(bool ok) override {
      if (ok) values_->Handle(this);
      else Finish({grpc::StatusCode::INVALID_ARGUMENT, "no message"});
    }
    void OnCancel() override { values_->Forget(this); }
    void OnDone() override {
      HasRead();
      delete this;
    }
    // To be called when its token is read, or never will be.
    void HasRead() {
      if (std::exchange(is_unread_, false)) --values_->num_unread_;
    }

    void Answer(std::string_view value) {
      message_ = Encoded({value});
      StartWriteAndFinish(&message_, grpc::WriteOptions(), grpc::Status::OK);
    }

   private:
    friend class Values;
    Values* const values_;
    const std::string method_;
    grpc::ByteBuffer message_;
    std::string key_;  // that it waits for
    bool is_unread_ = true;
    bool is_cancelled_ = false;  // by Values::mutex_, as is key_
  };

  void Handle(Call* call) {
    const grpc::Status status = TryHandle(call);
    if (!status.ok()) call->Finish(status);
  }

  // Answers the call, or lets it wait; or returns why it is refused.
  grpc::Status TryHandle(Call* call) {
    using grpc::StatusCode;
    if (std::find(std::begin(kCalls), std::end(kCalls), call->method_) == std::end(kCalls))
      return {StatusCode::UNIMPLEMENTED, "method"};
    const std::optional<std::vector<std::string>> fields = Decoded(call->message_, 3);
    if (!fields.has_value()) return {StatusCode::INVALID_ARGUMENT, "malformed"};
    const std::string &token = (*fields)[0], &key = (*fields)[1], &value = (*fields)[2];
    if (!IsSameToken(token, token_)) return {StatusCode::PERMISSION_DENIED, "token"};
    call->HasRead();
    if (std::ssize(key) > Rendezvous::kMaxKeyBytes || std::ssize(value) > Rendezvous::kMaxValueBytes)
      return {StatusCode::INVALID_ARGUMENT, "too long"};
    const std::lock_guard lock(mutex_);
    if (ended_) return {StatusCode::UNAVAILABLE, "ends"};
    const auto found = values_.find(key);
    const bool is_there = found != values_.end();
    if (call->method_ == kFind) {
      if (!is_there && !key.empty()) return {StatusCode::NOT_FOUND, "no value"};
      call->Answer(is_there ? found->second : "");
    } else if (call->method_ == kGet) {
      if (is_there) call->Answer(found->second);
      else return Wait(call, key);
    } else if (is_there && call->method_ == kSetFirst) {
      call->Answer(found->second);
    } else {
      return SetLocked(call, key, value);
    }
    return grpc::Status::OK;
  }

  grpc::Status Wait(Call* call, const std::string& key) {
    if (call->is_cancelled_) return grpc::Status::CANCELLED;
    if (num_waits_ == kMaxWaits) return {grpc::StatusCode::RESOURCE_EXHAUSTED, "full"};
    call->key_ = key;
    waits_[key].insert(call);
    ++num_waits_;
    return grpc::Status::OK;
  }

  grpc::Status SetLocked(Call* call, const std::string& key, const std::string& value) {
    const auto found = values_.find(key);
    const int64_t more = found == values_.end() ? std::ssize(key) + std::ssize(value)
                                                : std::ssize(value) - std::ssize(found->second);
    if (bytes_ + more > kMaxBytes || (found == values_.end() && values_.size() == kMaxKeys))
      return {grpc::StatusCode::RESOURCE_EXHAUSTED, "full"};
    bytes_ += more;
    values_[key] = value;
    call->Answer(value);
    const auto waits = waits_.find(key);
    if (waits == waits_.end()) return grpc::Status::OK;
    for (Call* waiting : waits->second) waiting->Answer(value);
    num_waits_ -= waits->second.size();
    waits_.erase(waits);
    return grpc::Status::OK;
  }

  // The client does not wait any more.
  void Forget(Call* call) {
    const std::lock_guard lock(mutex_);
    call->is_cancelled_ = true;
    const auto waits = waits_.find(call->key_);
    if (waits == waits_.end() || waits->second.erase(call) == 0) return;
    --num_waits_;
    if (waits->second.empty()) waits_.erase(waits);
    call->Finish(grpc::Status::CANCELLED);
  }

  const std::string token_;
  std::atomic<int64_t> num_unread_{0};
  std::mutex mutex_;
  bool ended_ = false;
  int64_t bytes_ = 0;
  std::map<std::string, std::string> values_;
  size_t num_waits_ = 0;
  std::map<std::string, std::set<Call*>> waits_;
};

class GrpcServer : public RendezvousServer {
 public:
  explicit GrpcServer(const std::string& token) : serving_(new Serving{.values = Values(token)}) {}

  bool Listen(const SocketAddress& address, const std::shared_ptr<grpc::ServerCredentials>& credentials) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address.ToString(), credentials, &port_);
    SetGrpcServerArguments(builder);
    builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
    builder.RegisterCallbackGenericService(&serving_->values);
    serving_->server = builder.BuildAndStart();
    return serving_->server != nullptr && port_ != 0;
  }

  int port() const override { return port_; }

 private:
  struct Serving {
    ~Serving() {
      values.End();
      if (server != nullptr) server->Shutdown(SystemClock::now() + kFarewell);
    }
    Values values;
    std::unique_ptr<grpc::Server> server;
  };
  const UnlessForked<Serving> serving_;
  int port_ = 0;
};

// ---- The client.

// One call; calls `done` when it has ended.
struct Request {
  grpc::ClientContext context;
  grpc::ByteBuffer sent, received;
};

class WatchCall {
 public:
  WatchCall(grpc::GenericStub& stub, const grpc::ByteBuffer& request,
            std::function<void(const grpc::Status&, const grpc::ByteBuffer&)> told)
      : told_(std::move(told)) {
    request_.sent = request;
    request_.context.set_wait_for_ready(true);
    stub.UnaryCall(&request_.context, kGet, grpc::StubOptions(), &request_.sent, &request_.received,
                   [this](const grpc::Status& status) { End(status); });
  }

  ~WatchCall() {
    std::unique_lock lock(mutex_);
    stop_ = true;
    lock.unlock();
    request_.context.TryCancel();
    lock.lock();
    ended_.wait(lock, [&] { return is_ended_; });
  }

 private:
  void End(const grpc::Status& status) {
    std::unique_lock lock(mutex_);
    if (!stop_) {
      lock.unlock();
      told_(status, request_.received);
      lock.lock();
    }
    is_ended_ = true;
    ended_.notify_all();
  }

  const std::function<void(const grpc::Status&, const grpc::ByteBuffer&)> told_;
  Request request_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool stop_ = false, is_ended_ = false;
};

class GrpcWatch : public Rendezvous::Watch {
 public:
  explicit GrpcWatch(UnlessForked<WatchCall> call) : call_(std::move(call)) {}

 private:
  const UnlessForked<WatchCall> call_;
};

class GrpcRendezvous : public Rendezvous {
 public:
  GrpcRendezvous(const std::string& address, const SocketAddress& resolved, std::string token,
                 const std::shared_ptr<grpc::ChannelCredentials>& credentials)
      : address_(address),
        token_(std::move(token)),
        client_(new Client(ChannelTo(address, resolved, credentials))) {}

  // Waits until the server is there.
  absl::Status Meet(std::chrono::milliseconds deadline) {
    return Ask(kFind, "", "", deadline, /*patient=*/true).status();
  }

  absl::Status Set(const std::string& key, const std::string& value,
                   std::chrono::milliseconds deadline) override {
    return Ask(kSet, key, value, deadline, /*patient=*/false).status();
  }

  absl::StatusOr<std::string> SetFirst(const std::string& key, const std::string& value,
                                       std::chrono::milliseconds deadline) override {
    return Ask(kSetFirst, key, value, deadline, /*patient=*/false);
  }

  absl::StatusOr<std::string> Get(const std::string& key, std::chrono::milliseconds deadline) override {
    return Ask(kGet, key, "", deadline, /*patient=*/true);
  }

  absl::StatusOr<std::string> Find(const std::string& key, std::chrono::milliseconds deadline) override {
    return Ask(kFind, key, "", deadline, /*patient=*/false);
  }

  std::unique_ptr<Watch> WatchKey(const std::string& key,
                                  std::function<void(absl::StatusOr<std::string>)> told) override {
    if (const absl::Status forked = made_.Check(Where()); !forked.ok()) {
      told(forked);
      return std::make_unique<GrpcWatch>(nullptr);
    }
    return std::make_unique<GrpcWatch>(UnlessForked<WatchCall>(new WatchCall(
        client_->stub, Encoded({token_, key, ""}),
        [this, key, told = std::move(told)](const grpc::Status& status, const grpc::ByteBuffer& received) {
          told(Answer(status, received, key, std::chrono::milliseconds(0)));
        })));
  }

 private:
  struct Client {
    explicit Client(std::shared_ptr<grpc::Channel> made) : channel(std::move(made)), stub(channel) {}
    const std::shared_ptr<grpc::Channel> channel;
    grpc::GenericStub stub;
  };

  std::string Where() const { return fmt::format("Rendezvous {}", address_); }

  static std::shared_ptr<grpc::Channel> ChannelTo(
      const std::string& address, const SocketAddress& resolved,
      const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
    return OpenGrpcChannel(address, resolved, credentials, arguments);
  }

  // A server that ends cancels new calls.
  static bool IsAway(const grpc::Status& status) {
    return status.error_code() == grpc::StatusCode::UNAVAILABLE ||
           status.error_code() == grpc::StatusCode::CANCELLED;
  }
  static bool IsLate(const grpc::Status& status) {
    return status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
  }
  bool IsConnected() const { return client_->channel->GetState(false) == GRPC_CHANNEL_READY; }

  // `patient`: a server that is not there, or goes away, may come until the deadline.
  absl::StatusOr<std::string> Ask(const char* method, const std::string& key, const std::string& value,
                                  std::chrono::milliseconds deadline, bool patient) {
    MESHWORK_CHECK(std::ssize(key) <= kMaxKeyBytes && std::ssize(value) <= kMaxValueBytes, "{}", key);
    MESHWORK_RETURN_IF_ERROR(made_.Check(Where()));
    const SystemClock::time_point now = SystemClock::now();
    const SystemClock::time_point end =
        deadline < std::chrono::hours(10000) ? now + deadline : now + std::chrono::hours(10000);
    while (true) {
      Request request;
      const grpc::Status status = Try(method, key, value, end, patient, request);
      if (patient && IsLate(status) && !IsConnected()) break;
      if (!IsAway(status) || !patient || SystemClock::now() >= end)
        return Answer(status, request.received, key, deadline);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    // A call that waits for a connection does not say why there is none.
    Request last;
    const grpc::Status status =
        Try(method, key, value, SystemClock::now() + kLastLook, /*waits=*/false, last);
    return Answer(status, last.received, key, deadline);
  }

  grpc::Status Try(const char* method, const std::string& key, const std::string& value,
                   SystemClock::time_point end, bool waits, Request& request) {
    request.sent = Encoded({token_, key, value});
    request.context.set_deadline(end);
    request.context.set_wait_for_ready(waits);
    return CallAndWait(method, request);
  }

  grpc::Status CallAndWait(const char* method, Request& request) {
    std::mutex mutex;
    std::condition_variable ended;
    std::optional<grpc::Status> result;
    client_->stub.UnaryCall(&request.context, method, grpc::StubOptions(), &request.sent, &request.received,
                            [&](const grpc::Status& status) {
                              const std::lock_guard lock(mutex);
                              result = status;
                              ended.notify_all();
                            });
    std::unique_lock lock(mutex);
    ended.wait(lock, [&] { return result.has_value(); });
    return *result;
  }

  absl::StatusOr<std::string> Answer(const grpc::Status& status, const grpc::ByteBuffer& received,
                                     const std::string& key, std::chrono::milliseconds deadline) {
    if (status.ok()) {
      std::optional<std::vector<std::string>> fields = Decoded(received, 1);
      if (fields.has_value()) return std::move((*fields)[0]);
    }
    if (IsLate(status) && !key.empty() && IsConnected())
      return absl::DeadlineExceededError(
          fmt::format("Rendezvous {}: nobody has set \"{}\" within {} ms.", address_, key, deadline.count()));
    if (IsLate(status) || status.error_message() == kBusy)
      return absl::UnavailableError(fmt::format(
          "Rendezvous {}: there is no answer; check the address, that the server runs, and that the network "
          "lets connections through.",
          address_));
    if (IsAway(status))
      return absl::UnavailableError(
          fmt::format("Rendezvous {}: {}.", address_, WhyGrpcLost(status.error_message())));
    if (status.error_code() == grpc::StatusCode::PERMISSION_DENIED)
      return absl::PermissionDeniedError(fmt::format(
          "Rendezvous {}: it serves a job with another token; give all processes of a job the same.",
          address_));
    return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                        fmt::format("Rendezvous {}: {}", address_, PrintableLines(status.error_message())));
  }

  const std::string address_, token_;
  const ForkMark made_;
  const UnlessForked<Client> client_;
};

}  // namespace

std::vector<std::string> RendezvousServer::Calls() { return {std::begin(kCalls), std::end(kCalls)}; }

absl::StatusOr<std::unique_ptr<RendezvousServer>> RendezvousServer::Start(const std::string& address,
                                                                          const std::string& token,
                                                                          bool insecure,
                                                                          const TlsFiles& tls) {
  MESHWORK_RETURN_IF_ERROR(CheckMayUseGrpc());
  const absl::StatusOr<SocketAddress> resolved = Resolve(address);
  MESHWORK_RETURN_IF_ERROR(Annotate(resolved.status(), "Rendezvous: "));
  MESHWORK_RETURN_IF_ERROR(Annotate(CheckMayListen(*resolved, address, token, insecure), "Rendezvous: "));
  // gRPC would only log why it cannot.
  MESHWORK_RETURN_IF_ERROR(Annotate(CanListen(*resolved, address), "Rendezvous: "));
  const auto credentials = GrpcServerCredentials(tls);
  MESHWORK_RETURN_IF_ERROR(Annotate(credentials.status(), "Rendezvous: "));
  auto server = std::make_unique<GrpcServer>(token);
  if (server->Listen(*resolved, *credentials)) return server;
  // Another process was quicker.
  MESHWORK_RETURN_IF_ERROR(Annotate(CanListen(*resolved, address), "Rendezvous: "));
  return absl::UnavailableError(address);
}

absl::StatusOr<std::unique_ptr<Rendezvous>> Rendezvous::Connect(const std::string& address,
                                                                const std::string& token,
                                                                std::chrono::milliseconds deadline,
                                                                const TlsFiles& tls) {
  MESHWORK_RETURN_IF_ERROR(CheckMayUseGrpc());
  const absl::StatusOr<SocketAddress> resolved = Resolve(address);
  MESHWORK_RETURN_IF_ERROR(Annotate(resolved.status(), "Rendezvous: "));
  const auto credentials = GrpcClientCredentials(tls);
  MESHWORK_RETURN_IF_ERROR(Annotate(credentials.status(), fmt::format("Rendezvous {}: ", address)));
  auto rendezvous = std::make_unique<GrpcRendezvous>(address, *resolved, token, *credentials);
  MESHWORK_RETURN_IF_ERROR(rendezvous->Meet(deadline));
  return rendezvous;
}

#endif

}  // namespace meshwork
