#include "meshwork/train/parameter_server/rpc/run_request.h"

#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/storage/wire_format.h"
#include "meshwork/train/parameter_server/rpc/field_reader.h"

namespace meshwork {
namespace {

// Fields of a RunRequest, and of a resource in it.
constexpr int kCoordinator = 1, kClosure = 2, kWorkerIndex = 3, kWorkerCount = 4, kResource = 5;
constexpr int kResourceId = 1, kResourceName = 2;

}  // namespace

RpcMessage RunMessage(RunRequest request) {
  WireWriter fields;
  fields.Text(kCoordinator, request.coordinator).Text(kClosure, request.closure);
  fields.Int(kWorkerIndex, request.worker.index).Int(kWorkerCount, request.worker.count);
  for (const PerWorker& resource : request.resources) {
    WireWriter entry;
    entry.Int(kResourceId, resource.id).Text(kResourceName, resource.name);
    fields.Message(kResource, entry);
  }
  return {.call = "Run", .fields = fields.bytes(), .tensors = std::move(request.arguments)};
}

absl::StatusOr<RunRequest> RunRequestFromMessage(const RpcMessage& message) {
  RunRequest request{.arguments = message.tensors};
  const bool is_right = internal::ForEachField(message.fields, [&](const WireField& f) {
    if (f.Is(kCoordinator, WireField::Kind::kBytes)) request.coordinator = f.bytes;
    if (f.Is(kClosure, WireField::Kind::kBytes)) request.closure = f.bytes;
    if (f.Is(kWorkerIndex, WireField::Kind::kVarint)) request.worker.index = f.as_int();
    if (f.Is(kWorkerCount, WireField::Kind::kVarint)) request.worker.count = f.as_int();
    if (!f.Is(kResource, WireField::Kind::kBytes)) return true;
    PerWorker& resource = request.resources.emplace_back();
    return internal::ForEachField(f.bytes, [&](const WireField& part) {
      if (part.Is(kResourceId, WireField::Kind::kVarint)) resource.id = part.as_int();
      if (part.Is(kResourceName, WireField::Kind::kBytes)) resource.name = part.bytes;
      return true;
    });
  });
  if (!is_right)
    return InvalidArgument("Run: its fields are wrong; the sender is no coordinator of meshwork.");
  return request;
}

}  // namespace meshwork
