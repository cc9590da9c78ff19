#include "meshwork/storage/wire_format.h"

#include "meshwork/base/status.h"

namespace meshwork {
namespace {

void AppendLittleEndian(std::string& out, uint64_t bits, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(bits >> (8 * i));
}

absl::Status Malformed() {
  return absl::DataLossError("the message is no protocol buffer; the file is damaged, or of another kind.");
}

}  // namespace

void WireWriter::Varint(uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
  bytes_ += static_cast<char>(value);
}

void WireWriter::Tag(int field, int type) {
  Varint(static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(type));
}

WireWriter& WireWriter::Int(int field, int64_t value) {
  Tag(field, 0);
  Varint(static_cast<uint64_t>(value));
  return *this;
}

WireWriter& WireWriter::Float(int field, float value) {
  Tag(field, 5);
  AppendLittleEndian(bytes_, std::bit_cast<uint32_t>(value), 4);
  return *this;
}

WireWriter& WireWriter::Double(int field, double value) {
  Tag(field, 1);
  AppendLittleEndian(bytes_, std::bit_cast<uint64_t>(value), 8);
  return *this;
}

WireWriter& WireWriter::Text(int field, std::string_view value) {
  Tag(field, 2);
  Varint(value.size());
  bytes_ += value;
  return *this;
}

WireWriter& WireWriter::Ints(int field, std::span<const int64_t> values) {
  WireWriter packed;
  for (int64_t value : values) packed.Varint(static_cast<uint64_t>(value));
  return Message(field, packed);
}

WireWriter& WireWriter::Floats(int field, std::span<const float> values) {
  WireWriter packed;
  for (float value : values) AppendLittleEndian(packed.bytes_, std::bit_cast<uint32_t>(value), 4);
  return Message(field, packed);
}

std::optional<uint64_t> WireReader::Varint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(rest_.front());
    rest_.remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) return value;
  }
  return std::nullopt;
}

absl::StatusOr<std::optional<WireField>> WireReader::Next() {
  if (rest_.empty()) return std::nullopt;
  const std::optional<uint64_t> tag = Varint();
  if (!tag.has_value() || *tag >> 3 == 0 || *tag >> 32 != 0) return Malformed();
  WireField field{.number = static_cast<int>(*tag >> 3), .kind = static_cast<WireField::Kind>(*tag & 7)};
  if (field.kind != WireField::Kind::kBytes) {
    const std::optional<uint64_t> bits = NextPacked(field.kind);
    if (!bits.has_value()) return Malformed();
    field.number_bits = *bits;
    return field;
  }
  const std::optional<uint64_t> size = Varint();
  if (!size.has_value() || *size > rest_.size()) return Malformed();
  field.bytes = rest_.substr(0, *size);
  rest_.remove_prefix(*size);
  return field;
}

std::optional<uint64_t> WireReader::NextPacked(WireField::Kind kind) {
  switch (kind) {
    case WireField::Kind::kVarint: return Varint();
    case WireField::Kind::kFixed64: return Fixed(8);
    case WireField::Kind::kFixed32: return Fixed(4);
    default: return std::nullopt;
  }
}

std::optional<uint64_t> WireReader::Fixed(size_t bytes) {
  if (rest_.size() < bytes) return std::nullopt;
  uint64_t bits = 0;
  for (size_t i = bytes; i-- > 0;) bits = bits << 8 | static_cast<unsigned char>(rest_[i]);
  rest_.remove_prefix(bytes);
  return bits;
}

}  // namespace meshwork
