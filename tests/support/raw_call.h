// Calls of gRPC servers of this host without a client of meshwork. REQUIRES: MESHWORK_HAVE_GLOO.
#pragma once

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <map>
#include <memory>
#include <string>

namespace meshwork {

// A channel to an address such as "127.0.0.1:4444", without a proxy.
inline std::shared_ptr<grpc::Channel> RawChannel(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel("ipv4:" + address, grpc::InsecureChannelCredentials(), arguments);
}

// Sends `bytes`, with these metadata, and returns the status with which the server answers.
inline grpc::Status RawCall(const std::string& address, const std::string& method, const std::string& bytes,
                            const std::map<std::string, std::string>& metadata = {}) {
  grpc::GenericStub stub(RawChannel(address));
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  for (const auto& [key, value] : metadata) context.AddMetadata(key, value);
  const grpc::Slice slice(bytes);
  const grpc::ByteBuffer request(&slice, 1);
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareUnaryCall(&context, method, request, &queue);
  grpc::ByteBuffer answer;
  grpc::Status status;
  call->StartCall();
  call->Finish(&answer, &status, nullptr);
  void* tag;
  bool ok;
  queue.Next(&tag, &ok);
  return status;
}

}  // namespace meshwork
