// CallStream: a gRPC stream on which a client makes its calls, one after the other, since to begin a stream takes as
// long as a small call. Only there with gRPC.
#pragma once

#ifdef MESHWORK_HAVE_GLOO

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/rpc_method.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/byte_buffer.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "meshwork/train/parameter_server/rpc/message.h"
#include "meshwork/train/parameter_server/rpc/options.h"

namespace meshwork::internal {

// Thread safety: Cancel may be called at any time; the others, one thread at a time.
class CallStream {
 public:
  struct Ended {
    grpc::Status status;
    absl::Status read;  // of the MessageReader
    // Whether `status` comes from gRPC itself or from a server of this protocol.
    bool is_of_server = true;
  };

  // Connects with the first call.
  CallStream(const std::shared_ptr<grpc::Channel>& channel, const grpc::internal::RpcMethod& method,
             const RpcOptions& options);
  // REQUIRES: no call runs.
  ~CallStream();
  CallStream(const CallStream&) = delete;
  CallStream& operator=(const CallStream&) = delete;

  // Whether the server has neither ended the stream nor gone away, as far as is known now.
  bool IsOpen();
  // Sends the request, and gives the answer to `answer`, which is whole if both statuses are OK. Otherwise the stream
  // has ended.
  Ended Call(const std::vector<MessagePart>& request, std::chrono::system_clock::time_point end,
             MessageReader& answer);
  // Gives another answer of the same call to `answer`.
  Ended Receive(std::chrono::system_clock::time_point end, MessageReader& answer);
  void Cancel() { context_.TryCancel(); }

 private:
  enum Event : int { kRead, kWritten, kFinished };
  static void* TagOf(Event event) { return reinterpret_cast<void*>(static_cast<intptr_t>(event)); }

  void Read();
  Ended Exchange(const std::vector<grpc::ByteBuffer>& chunks, std::chrono::system_clock::time_point end,
                 MessageReader& answer);
  Ended Finish(const absl::Status& read, bool timed_out);

  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::ClientAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>> stream_;
  // The buffer of the read. The read waits between calls, too, so that the end of the stream is noticed.
  grpc::ByteBuffer chunk_;
  bool is_reading_ = false, is_writing_ = false;
};

}  // namespace meshwork::internal

#endif
