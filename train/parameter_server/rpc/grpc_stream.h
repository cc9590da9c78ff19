// Messages on streams of gRPC: one after the other, each in chunks. Of no use without gRPC.
#pragma once

#ifdef MESHWORK_HAVE_GLOO

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "meshwork/base/status.h"
#include "meshwork/train/parameter_server/rpc/message.h"

namespace meshwork::internal {

// The only method: what is asked for stands in the message.
inline constexpr const char* kRpcMethod = "/meshwork.Rpc/Call";
// Facts of the caller, with every call.
inline constexpr const char* kTokenKey = "meshwork-token-bin";
inline constexpr const char* kProtocolKey = "meshwork-protocol";
inline constexpr const char* kTaskKey = "meshwork-task";  // RpcOptions::task; may be missing

// A message is sent in chunks of so many bytes: gRPC holds one chunk at either end before it passes it on. Larger
// chunks are not taken, so that the memory that gRPC holds for a peer is bounded.
inline constexpr size_t kChunkBytes = size_t{1} << 20;
// So many bytes are read from a connection at a time, if they have come: arguments of a channel and their value. gRPC's
// own 8 KiB make a message of some hundred KiB a tenth slower.
inline constexpr const char* kReadBytesKeys[] = {"grpc.experimental.tcp_read_chunk_size",
                                                 "grpc.experimental.tcp_min_read_chunk_size"};
inline constexpr int kReadBytes = 256 << 10;
// A slice over the bytes, which keeps their owner.
inline grpc::Slice SliceOver(const std::shared_ptr<const void>& owner, std::span<const std::byte> bytes) {
  return grpc::Slice(
      const_cast<std::byte*>(bytes.data()), bytes.size(),
      [](void* kept) { delete static_cast<std::shared_ptr<const void>*>(kept); },
      new std::shared_ptr<const void>(owner));
}

// A message in chunks, over the bytes where they lie.
inline std::vector<grpc::ByteBuffer> ChunksOf(const std::vector<MessagePart>& parts) {
  std::vector<grpc::ByteBuffer> chunks;
  std::vector<grpc::Slice> slices;
  size_t size = 0;
  for (const MessagePart& part : parts) {
    std::span<const std::byte> rest = part.bytes;
    while (!rest.empty()) {
      if (size == kChunkBytes) {
        chunks.emplace_back(slices.data(), slices.size());
        slices.clear();
        size = 0;
      }
      const size_t n = std::min(rest.size(), kChunkBytes - size);
      slices.push_back(SliceOver(part.owner, rest.first(n)));
      size += n;
      rest = rest.subspan(n);
    }
  }
  chunks.emplace_back(slices.data(), slices.size());
  return chunks;
}

// Errors: those of MessageReader.
inline absl::Status TakeChunk(const grpc::ByteBuffer& chunk, MessageReader& reader) {
  std::vector<grpc::Slice> slices;
  if (!chunk.Dump(&slices).ok()) return absl::InternalError("gRPC");
  for (const grpc::Slice& slice : slices)
    MESHWORK_RETURN_IF_ERROR(reader.Take({reinterpret_cast<const std::byte*>(slice.begin()), slice.size()}));
  return absl::OkStatus();
}

}  // namespace meshwork::internal

#endif
