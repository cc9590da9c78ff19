#include "meshwork/train/parameter_server/rpc/message.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "meshwork/base/exceptions.h"
#include "meshwork/base/status.h"
#include "meshwork/storage/wire_format.h"

namespace meshwork {
namespace {

constexpr size_t kSizeBytes = 4;  // in front of the header
// Fields of the header, and of a tensor in it.
constexpr int kCall = 1, kFields = 2, kTensor = 3, kCode = 4, kText = 5;
constexpr int kDType = 1, kDims = 2;

absl::Status NoMessage(std::string_view why) {
  return InvalidArgument("{}; what came is no message of meshwork, or was damaged on its way.", why);
}

std::string HeaderOf(const RpcMessage& message) {
  WireWriter header;
  if (!message.call.empty()) header.Text(kCall, message.call);
  if (!message.fields.empty()) header.Text(kFields, message.fields);
  for (const Tensor& tensor : message.tensors) {
    WireWriter type;
    type.Text(kDType, DTypeName(tensor.dtype())).Ints(kDims, tensor.shape());
    header.Message(kTensor, type);
  }
  if (!message.status.ok()) {
    header.Int(kCode, static_cast<int64_t>(message.status.code()));
    header.Text(kText, MessageOf(message.status));
  }
  return header.bytes();
}

// Nothing if the bytes are no type.
std::optional<Type> TypeOf(std::string_view bytes) {
  Type type;
  bool has_dtype = false;
  WireReader reader(bytes);
  while (true) {
    const absl::StatusOr<std::optional<WireField>> field = reader.Next();
    if (!field.ok()) return std::nullopt;
    if (!field->has_value()) break;
    const WireField& f = **field;
    if (f.Is(kDType, WireField::Kind::kBytes)) {
      const absl::StatusOr<DType> dtype = DTypeFromName(f.bytes);
      if (!dtype.ok()) return std::nullopt;
      type.dtype = *dtype;
      has_dtype = true;
    } else if (f.Is(kDims, WireField::Kind::kBytes)) {
      WireReader dims(f.bytes);
      while (!dims.AtEnd()) {
        const std::optional<uint64_t> size = dims.NextPacked(WireField::Kind::kVarint);
        if (!size.has_value() || type.rank() == kMaxRank) return std::nullopt;
        type.shape.push_back(static_cast<int64_t>(*size));
      }
    }
  }
  if (!has_dtype || !CheckSize(type).ok()) return std::nullopt;
  return type;
}

// The size of the header that begins with these bytes, including the bytes of the size in front; until these
// have come, their number.
size_t HeaderSize(std::string_view header) {
  size_t size = 0;
  if (header.size() < kSizeBytes) return kSizeBytes;
  for (size_t byte = 0; byte < kSizeBytes; ++byte)
    size |= static_cast<size_t>(static_cast<unsigned char>(header[byte])) << (8 * byte);
  return kSizeBytes + size;
}

// Whether all bytes are values of a bool, 0 or 1.
bool AreBools(const Tensor& tensor) {
  const auto* const bytes = static_cast<const unsigned char*>(tensor.raw());
  return std::all_of(bytes, bytes + tensor.bytes(), [](unsigned char byte) { return byte <= 1; });
}

}  // namespace

int64_t BytesOf(const RpcMessage& message) {
  int64_t bytes = std::ssize(message.call) + std::ssize(message.fields) +
                  static_cast<int64_t>(MessageOf(message.status).size());
  for (const Tensor& tensor : message.tensors) bytes += tensor.bytes();
  return bytes;
}

absl::StatusOr<std::vector<MessagePart>> PartsOf(const RpcMessage& message) {
  for (const Tensor& tensor : message.tensors) MESHWORK_RETURN_IF_ERROR(tensor.status());
  if (std::ssize(message.tensors) > kMaxMessageTensors)
    return InvalidArgument("{} in one message; at most {} are allowed, send several messages.",
                           Count(std::ssize(message.tensors), "tensor"), kMaxMessageTensors);
  const std::string header = HeaderOf(message);
  if (std::ssize(header) > kMaxHeaderBytes)
    return InvalidArgument(
        "The names of a message take {} bytes; at most {} are allowed, send several messages.", header.size(),
        kMaxHeaderBytes);
  auto front = std::make_shared<std::string>();
  for (size_t byte = 0; byte < kSizeBytes; ++byte)
    *front += static_cast<char>(header.size() >> (8 * byte) & 0xFF);
  *front += header;
  std::vector<MessagePart> parts = {{front, std::as_bytes(std::span(*front))}};
  for (const Tensor& tensor : message.tensors) {
    if (tensor.bytes() == 0) continue;
    const auto kept = std::make_shared<const Tensor>(tensor);
    parts.push_back(
        {kept, {static_cast<const std::byte*>(kept->raw()), static_cast<size_t>(tensor.bytes())}});
  }
  return parts;
}

absl::Status MessageReader::Take(std::span<const std::byte> bytes) {
  while (!has_header_) {
    const size_t wanted = HeaderSize(header_);
    if (wanted > static_cast<size_t>(kMaxHeaderBytes) + kSizeBytes)
      return NoMessage(fmt::format("A header of {} bytes, where at most {} are allowed", wanted - kSizeBytes,
                                   kMaxHeaderBytes));
    const size_t n = std::min(wanted - header_.size(), bytes.size());
    header_.append(reinterpret_cast<const char*>(bytes.data()), n);
    bytes = bytes.subspan(n);
    if (header_.size() < wanted) return absl::OkStatus();
    if (wanted == HeaderSize(header_)) MESHWORK_RETURN_IF_ERROR(TakeHeader());
  }
  while (!bytes.empty()) {
    if (IsFilled()) MESHWORK_RETURN_IF_ERROR(BeginTensors());
    if (IsFilled())
      return NoMessage(fmt::format("{} behind the end of a message", Count(std::ssize(bytes), "byte")));
    Tensor& tensor = message_.tensors.back();
    const int64_t n = std::min(tensor.bytes() - filled_, std::ssize(bytes));
    std::memcpy(static_cast<std::byte*>(tensor.raw()) + filled_, bytes.data(), static_cast<size_t>(n));
    filled_ += n;
    bytes = bytes.subspan(static_cast<size_t>(n));
    if (IsFilled() && tensor.dtype() == BOOL && !AreBools(tensor))
      return NoMessage("A bool is neither 0 nor 1");
  }
  return absl::OkStatus();
}

absl::Status MessageReader::TakeHeader() {
  has_header_ = true;
  int64_t left = max_bytes_ - std::ssize(header_);
  WireReader reader(std::string_view(header_).substr(kSizeBytes));
  int64_t code = 0;
  std::string_view text;
  while (true) {
    const absl::StatusOr<std::optional<WireField>> field = reader.Next();
    if (!field.ok()) return NoMessage("The header is wrong");
    if (!field->has_value()) break;
    const WireField& f = **field;
    if (f.Is(kCall, WireField::Kind::kBytes)) message_.call = f.bytes;
    if (f.Is(kFields, WireField::Kind::kBytes)) message_.fields = f.bytes;
    if (f.Is(kText, WireField::Kind::kBytes)) text = f.bytes;
    if (f.Is(kCode, WireField::Kind::kVarint)) code = f.as_int();
    if (!f.Is(kTensor, WireField::Kind::kBytes)) continue;
    std::optional<Type> type = TypeOf(f.bytes);
    if (!type.has_value()) return NoMessage("The type of a tensor is wrong");
    if (std::ssize(types_) == kMaxMessageTensors || type->bytes() > left)
      return absl::ResourceExhaustedError(fmt::format(
          "A message of more than {} bytes or {} tensors; larger ones are refused, raise RpcOptions::max_message_bytes "
          "in all processes or send several messages.",
          max_bytes_, kMaxMessageTensors));
    left -= type->bytes();
    types_.push_back(*std::move(type));
  }
  if (code < 0 || code > static_cast<int64_t>(absl::StatusCode::kUnauthenticated))
    return NoMessage("The header is wrong");
  message_.status = absl::Status(static_cast<absl::StatusCode>(code), std::string(text));
  header_.clear();
  header_.shrink_to_fit();
  message_.tensors.reserve(types_.size());
  return absl::OkStatus();
}

// Makes the next tensors, up to one that has bytes to come.
absl::Status MessageReader::BeginTensors() {
  while (IsFilled() && message_.tensors.size() < types_.size()) {
    const Type& type = types_[message_.tensors.size()];
    try {
      message_.tensors.push_back(memory_ == nullptr ? Tensor(type)
                                                    : Tensor(type, memory_->Take(type.bytes())));
    } catch (...) {
      return CaughtStatus("A message", "there is not enough memory for its tensors");
    }
    filled_ = 0;
  }
  return absl::OkStatus();
}

bool MessageReader::IsFilled() const {
  return message_.tensors.empty() || filled_ == message_.tensors.back().bytes();
}

bool MessageReader::IsWhole() const {
  return has_header_ && IsFilled() &&
         std::all_of(types_.begin() + std::ssize(message_.tensors), types_.end(),
                     [](const Type& type) { return type.bytes() == 0; });
}

absl::StatusOr<RpcMessage> MessageReader::End() {
  if (has_header_) MESHWORK_RETURN_IF_ERROR(BeginTensors());  // empty ones at the end
  if (!has_header_ || message_.tensors.size() < types_.size() || !IsFilled())
    return NoMessage("A message ends too early");
  return std::move(message_);
}

}  // namespace meshwork
