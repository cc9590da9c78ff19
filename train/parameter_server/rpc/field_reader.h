// The fields of a message of protocol buffers, one after the other, for readers that know what they expect.
//
//   ForEachField(message.fields, [&](const WireField& f) {
//     if (f.Is(1, WireField::Kind::kBytes)) name = f.bytes;
//     return true;
//   });
#pragma once

#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "meshwork/storage/wire_format.h"

namespace meshwork::internal {

// Calls `take` with each field. False: the bytes are no message, or `take` has returned false.
template <typename Take>
bool ForEachField(std::string_view bytes, Take&& take) {
  WireReader reader(bytes);
  while (true) {
    const absl::StatusOr<std::optional<WireField>> field = reader.Next();
    if (!field.ok()) return false;
    if (!field->has_value()) return true;
    if (!take(**field)) return false;
  }
}

}  // namespace meshwork::internal
