// The wire format of protocol buffers (https://protobuf.dev/programming-guides/encoding), for small messages that are
// written and read field by field. With it, the library needs neither protobuf nor generated code.
//
//   WireWriter value;
//   value.Text(1, "loss").Float(2, 0.25f);       // message Value { string tag = 1; float simple_value = 2; }
//   WireWriter summary;
//   summary.Message(1, value);                   // message Summary { repeated Value value = 1; }
//
//   WireReader reader(summary.bytes());
//   MESHWORK_ASSIGN_OR_RETURN(std::optional<WireField> field, reader.Next());   // number 1, bytes() of the value
//
// Fields are written in the order of the calls, also with default values. One thread at a time per object.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace meshwork {

class WireWriter {
 public:
  // int32, int64, bool and enums. A negative number takes ten bytes.
  WireWriter& Int(int field, int64_t value);
  WireWriter& Float(int field, float value);
  WireWriter& Double(int field, double value);
  // strings, which must be UTF-8, and bytes.
  WireWriter& Text(int field, std::string_view value);
  WireWriter& Message(int field, const WireWriter& message) { return Text(field, message.bytes_); }
  // Repeated numbers in the packed form.
  WireWriter& Ints(int field, std::span<const int64_t> values);
  WireWriter& Floats(int field, std::span<const float> values);

  const std::string& bytes() const { return bytes_; }

 private:
  void Tag(int field, int type);
  void Varint(uint64_t value);

  std::string bytes_;
};

// A field as it was written. The message's definition says which of the as_… functions is right for it.
struct WireField {
  enum class Kind : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

  int64_t as_int() const { return static_cast<int64_t>(number_bits); }
  double as_double() const { return std::bit_cast<double>(number_bits); }
  float as_float() const { return std::bit_cast<float>(static_cast<uint32_t>(number_bits)); }
  bool Is(int field, Kind wanted) const { return number == field && kind == wanted; }

  int number = 0;
  Kind kind = Kind::kVarint;
  uint64_t number_bits = 0;  // of all kinds but kBytes
  std::string_view bytes;    // of kBytes; a part of the reader's message
};

class WireReader {
 public:
  // Keeps a view of `message`.
  explicit WireReader(std::string_view message) : rest_(message) {}

  // The next field; nothing at the end. Errors: the bytes end within a field; there is no such field or kind.
  absl::StatusOr<std::optional<WireField>> Next();
  // The next number of a packed list of numbers of this kind (kVarint, kFixed64 or kFixed32). Nothing if the bytes
  // end within the number, or if it has more than 64 bits.
  std::optional<uint64_t> NextPacked(WireField::Kind kind);
  bool AtEnd() const { return rest_.empty(); }

 private:
  std::optional<uint64_t> Varint();
  std::optional<uint64_t> Fixed(size_t bytes);

  std::string_view rest_;
};

}  // namespace meshwork
