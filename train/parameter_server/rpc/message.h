// RpcMessage: a request or an answer, of some fields and some tensors, and how it goes over the wire.
//
//   WireWriter fields;
//   fields.Text(1, "dense/kernel");
//   RpcMessage request{.call = "Pull", .fields = fields.bytes()};
//   MESHWORK_ASSIGN_OR_RETURN(std::vector<MessagePart> parts, PartsOf(request));   // the bytes, where they lie
//
//   MessageReader reader(max_bytes);
//   for (…) MESHWORK_RETURN_IF_ERROR(reader.Take(bytes));               // as they come, in pieces of any size
//   MESHWORK_ASSIGN_OR_RETURN(RpcMessage message, reader.End());
//
// The bytes are the size of the header in four bytes, the lowest first; the header, a message of protocol buffers
// (storage/wire_format.h); then the elements of the tensors, one tensor after the other. Nothing is copied to send a
// tensor, and it is copied once when it arrives, into aligned memory. The hosts of a job must be little-endian, as all
// are that meshwork runs on.
//
// Bytes from others are not trusted: any bytes give a message or an error, and memory is taken only for tensors whose
// elements have begun to arrive.
//
// Thread safety: one thread at a time per MessageReader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/runtime/tensor/tensor.h"
#include "meshwork/train/parameter_server/rpc/receive_memory.h"

namespace meshwork {

inline constexpr int64_t kMaxHeaderBytes = int64_t{16} << 20, kMaxMessageTensors = int64_t{1} << 16;

struct RpcMessage {
  std::string call = {};    // of a request: what is asked for
  std::string fields = {};  // of this call; a message of protocol buffers
  std::vector<Tensor> tensors = {};
  absl::Status status = {};  // of an answer: why there is nothing else in it
  // In an answer: makes another answer, which a server sends behind this one (RpcClient::LateAnswer). Is not sent
  // itself.
  std::function<absl::StatusOr<RpcMessage>()> then = nullptr;
};

// Bytes of a message, where they lie.
struct MessagePart {
  std::shared_ptr<const void> owner;  // keeps them
  std::span<const std::byte> bytes;
};

// The bytes of the elements and of the texts.
int64_t BytesOf(const RpcMessage& message);
// One after the other they are the message. Errors: an invalid tensor; more than kMaxMessageTensors, or names so long
// that the header is larger than kMaxHeaderBytes.
absl::StatusOr<std::vector<MessagePart>> PartsOf(const RpcMessage& message);

class MessageReader {
 public:
  // `memory`: where tensors are put; it must outlive the reader. Null: fresh memory.
  explicit MessageReader(int64_t max_bytes, ReceiveMemory* memory = nullptr)
      : max_bytes_(max_bytes), memory_(memory) {}

  // The next bytes. Errors, after which the reader is of no use: they are no message; it is larger than `max_bytes`;
  // there is not enough memory.
  absl::Status Take(std::span<const std::byte> bytes);
  // Whether all bytes of the message have come.
  bool IsWhole() const;
  // Error: the bytes ended within the message.
  absl::StatusOr<RpcMessage> End();

 private:
  absl::Status TakeHeader();
  absl::Status BeginTensors();
  bool IsFilled() const;  // the last tensor that has begun

  const int64_t max_bytes_;
  ReceiveMemory* const memory_;
  std::string header_;  // with its size in front, until it is whole
  bool has_header_ = false;
  RpcMessage message_;
  std::vector<Type> types_;  // of all tensors
  int64_t filled_ = 0;       // bytes of the last one in message_.tensors
};

}  // namespace meshwork
