#include "meshwork/storage/gguf_values.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

namespace meshwork {
namespace {

constexpr int64_t kHeaderBuffer = int64_t{1} << 18;
constexpr int kMaxArrayDepth = 4;  // no known file nests arrays; each level is a call

// The numbers of types in the file.
enum ValueType : uint32_t {
  kValueU8,
  kValueI8,
  kValueU16,
  kValueI16,
  kValueU32,
  kValueI32,
  kValueF32,
  kValueBool,
  kValueText,
  kValueArray,
  kValueU64,
  kValueI64,
  kValueF64
};

constexpr int64_t kTextBytes = 8;    // at least, its length
constexpr int64_t kArrayBytes = 12;  // at least, its type and its length

absl::Status UnknownType(uint32_t type) {
  return InvalidArgument("its type is {}; the format has types 0 to 12, so the file is damaged.", type);
}

// What was read, as the type of GgufValue that holds it.
template <typename Held, typename Read>
absl::StatusOr<GgufValue> HeldAs(absl::StatusOr<Read> read) {
  if (!read.ok()) return read.status();
  return GgufValue(std::in_place_type<Held>, *std::move(read));
}

}  // namespace

absl::Status GgufBytes::CheckLeft(uint64_t count, int64_t size) const {
  const auto fits = [&](int64_t end) { return count <= static_cast<uint64_t>((end - at_) / size); };
  if (fits(std::min(file_.size(), kMaxGgufHeader))) return absl::OkStatus();
  if (fits(file_.size())) {
    return InvalidArgument("the header reaches beyond byte {}; this is no GGUF file, or it is damaged.",
                           kMaxGgufHeader);
  }
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(count, static_cast<uint64_t>(size), &bytes)) bytes = UINT64_MAX;
  return InvalidArgument(
      "needs {} bytes from byte {} on, but the file ends at byte {}; it is incomplete or damaged, fetch it again.",
      bytes, at_, file_.size());
}

absl::Status GgufBytes::Read(std::span<std::byte> bytes) {
  MESHWORK_RETURN_IF_ERROR(CheckLeft(1, static_cast<int64_t>(bytes.size())));
  while (!bytes.empty()) {
    if (next_ == buffer_.size()) {
      buffer_.resize(static_cast<size_t>(std::min(kHeaderBuffer, file_.size() - at_)));
      next_ = buffer_.size();  // nothing, if reading fails
      MESHWORK_RETURN_IF_ERROR(file_.ReadAt(at_, buffer_));
      next_ = 0;
    }
    const size_t count = std::min(bytes.size(), buffer_.size() - next_);
    std::memcpy(bytes.data(), buffer_.data() + next_, count);
    next_ += count;
    at_ += static_cast<int64_t>(count);
    bytes = bytes.subspan(count);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> GgufBytes::Text() {
  MESHWORK_ASSIGN_OR_RETURN(const uint64_t length, Number<uint64_t>());
  MESHWORK_RETURN_IF_ERROR(CheckLeft(length, 1));
  std::string text(length, '\0');
  if (length > 0) MESHWORK_RETURN_IF_ERROR(Read(std::as_writable_bytes(std::span(text))));
  return text;
}

absl::StatusOr<GgufValue> GgufBytes::Value() {
  MESHWORK_ASSIGN_OR_RETURN(const uint32_t type, Number<uint32_t>());
  switch (type) {
    case kValueU8: return HeldAs<int64_t>(Number<uint8_t>());
    case kValueI8: return HeldAs<int64_t>(Number<int8_t>());
    case kValueU16: return HeldAs<int64_t>(Number<uint16_t>());
    case kValueI16: return HeldAs<int64_t>(Number<int16_t>());
    case kValueU32: return HeldAs<int64_t>(Number<uint32_t>());
    case kValueI32: return HeldAs<int64_t>(Number<int32_t>());
    case kValueF32: return HeldAs<float>(Number<float>());
    case kValueBool: return HeldAs<bool>(Bool());
    case kValueText: return HeldAs<std::string>(Text());
    case kValueArray: return HeldAs<GgufArray>(Array(1));
    case kValueU64: return HeldAs<uint64_t>(Number<uint64_t>());
    case kValueI64: return HeldAs<int64_t>(Number<int64_t>());
    case kValueF64: return HeldAs<double>(Number<double>());
    default: return UnknownType(type);
  }
}

absl::StatusOr<bool> GgufBytes::Bool() {
  MESHWORK_ASSIGN_OR_RETURN(const uint8_t byte, Number<uint8_t>());
  if (byte <= 1) return byte == 1;
  return InvalidArgument("a bool is {}; it must be 0 or 1.", byte);
}

// The items that `item` reads, of at least `size` bytes each.
template <typename Item>
absl::StatusOr<GgufArray> GgufBytes::Items(uint64_t count, int64_t size, Item&& item) {
  MESHWORK_RETURN_IF_ERROR(CheckLeft(count, size));
  std::vector<typename std::invoke_result_t<Item>::value_type> items;
  for (uint64_t i = 0; i < count; ++i) {
    auto next = item();
    if (!next.ok()) return next.status();
    items.push_back(*std::move(next));
  }
  return GgufArray{std::move(items)};
}

template <typename Stored, typename Held>
absl::StatusOr<GgufArray> GgufBytes::Numbers(uint64_t count) {
  return Items(count, sizeof(Stored), [&]() -> absl::StatusOr<Held> { return Number<Stored>(); });
}

absl::StatusOr<GgufArray> GgufBytes::Array(int depth) {
  if (depth > kMaxArrayDepth)
    return InvalidArgument("arrays nest more than {} deep; no model needs that.", kMaxArrayDepth);
  MESHWORK_ASSIGN_OR_RETURN(const uint32_t type, Number<uint32_t>());
  MESHWORK_ASSIGN_OR_RETURN(const uint64_t count, Number<uint64_t>());
  switch (type) {
    case kValueU8: return Numbers<uint8_t, int64_t>(count);
    case kValueI8: return Numbers<int8_t, int64_t>(count);
    case kValueU16: return Numbers<uint16_t, int64_t>(count);
    case kValueI16: return Numbers<int16_t, int64_t>(count);
    case kValueU32: return Numbers<uint32_t, int64_t>(count);
    case kValueI32: return Numbers<int32_t, int64_t>(count);
    case kValueF32: return Numbers<float, float>(count);
    case kValueBool: return Items(count, 1, [&] { return Bool(); });
    case kValueText: return Items(count, kTextBytes, [&] { return Text(); });
    case kValueArray: return Items(count, kArrayBytes, [&] { return Array(depth + 1); });
    case kValueU64: return Numbers<uint64_t, uint64_t>(count);
    case kValueI64: return Numbers<int64_t, int64_t>(count);
    case kValueF64: return Numbers<double, double>(count);
    default: return UnknownType(type);
  }
}

}  // namespace meshwork
