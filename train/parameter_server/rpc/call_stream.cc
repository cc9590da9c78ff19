#include "meshwork/train/parameter_server/rpc/call_stream.h"

#ifdef MESHWORK_HAVE_GLOO

#include "meshwork/train/parameter_server/rpc/grpc_stream.h"
#include "meshwork/train/parameter_server/rpc/options.h"

namespace meshwork::internal {

using NextStatus = grpc::CompletionQueue::NextStatus;
using StreamFactory = grpc::internal::ClientAsyncReaderWriterFactory<grpc::ByteBuffer, grpc::ByteBuffer>;

CallStream::CallStream(const std::shared_ptr<grpc::Channel>& channel, const grpc::internal::RpcMethod& method,
                       const RpcOptions& options) {
  context_.set_initial_metadata_corked(true);  // sent with the first chunk
  context_.AddMetadata(kTokenKey, options.token);
  context_.AddMetadata(kProtocolKey, std::to_string(kRpcProtocol));
  if (!options.task.empty()) context_.AddMetadata(kTaskKey, options.task);
  stream_.reset(StreamFactory::Create(channel.get(), &queue_, method, &context_, /*start=*/true, nullptr));
}

CallStream::~CallStream() {
  context_.TryCancel();
  queue_.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) {
  }
}

void CallStream::Read() {
  is_reading_ = true;
  stream_->Read(&chunk_, TagOf(kRead));
}

// Between calls only the read can give an event: the stream has ended, or the server sends something that nobody asked
// for.
bool CallStream::IsOpen() {
  void* tag = nullptr;
  bool ok = false;
  // A deadline that is now would be rounded up to the next millisecond.
  const gpr_timespec past = gpr_inf_past(GPR_CLOCK_REALTIME);
  if (queue_.AsyncNext(&tag, &ok, past) != NextStatus::GOT_EVENT) return true;
  is_reading_ = false;
  return false;
}

CallStream::Ended CallStream::Call(const std::vector<MessagePart>& request,
                                   std::chrono::system_clock::time_point end, MessageReader& answer) {
  return Exchange(ChunksOf(request), end, answer);
}

CallStream::Ended CallStream::Receive(std::chrono::system_clock::time_point end, MessageReader& answer) {
  return Exchange({}, end, answer);
}

CallStream::Ended CallStream::Exchange(const std::vector<grpc::ByteBuffer>& chunks,
                                       std::chrono::system_clock::time_point end, MessageReader& answer) {
  size_t sent = 0;
  const auto write = [&] {
    is_writing_ = true;
    stream_->Write(chunks[sent++], TagOf(kWritten));
  };
  if (!chunks.empty()) write();
  if (!is_reading_) Read();
  while (!answer.IsWhole() || is_writing_ || sent < chunks.size()) {
    void* tag = nullptr;
    bool ok = false;
    if (queue_.AsyncNext(&tag, &ok, end) != NextStatus::GOT_EVENT)
      return Finish(absl::OkStatus(), /*timed_out=*/true);
    if (tag == TagOf(kWritten)) {
      is_writing_ = false;
      // If the other side does not listen any more, the read ends, too.
      if (ok && sent < chunks.size()) write();
      continue;
    }
    is_reading_ = false;
    if (!ok) return Finish(absl::OkStatus(), /*timed_out=*/false);
    const absl::Status read = TakeChunk(chunk_, answer);
    chunk_.Clear();
    if (!read.ok()) return Finish(read, /*timed_out=*/false);
    Read();
  }
  return {};
}

CallStream::Ended CallStream::Finish(const absl::Status& read, bool timed_out) {
  if (timed_out || !read.ok()) context_.TryCancel();
  Ended ended{.read = read};
  stream_->Finish(&ended.status, TagOf(kFinished));
  bool is_finished = false;
  while (!is_finished || is_reading_ || is_writing_) {
    void* tag = nullptr;
    bool ok = false;
    queue_.Next(&tag, &ok);
    if (tag == TagOf(kFinished)) is_finished = true;
    if (tag == TagOf(kRead)) is_reading_ = false;
    if (tag == TagOf(kWritten)) is_writing_ = false;
  }
  if (timed_out) {
    ended.status = grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED, "");
    return ended;
  }
  switch (ended.status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::CANCELLED: break;
    default: ended.is_of_server = context_.GetServerTrailingMetadata().count(kProtocolKey) > 0;
  }
  return ended;
}

}  // namespace meshwork::internal

#endif
