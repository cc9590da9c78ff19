#include "tools/cli/gguf_metadata.h"

#include <optional>
#include <type_traits>
#include <variant>

#include "meshwork/base/quote.h"
#include "meshwork/base/status.h"
#include "nlohmann/json.hpp"

namespace meshwork::tools {
namespace {

absl::StatusOr<const GgufValue*> ValueAt(const GgufFile& file, std::string_view key) {
  if (const GgufValue* value = file.FindMetadata(key); value != nullptr) return value;
  return InvalidArgument("{}: the metadata has no {}, which is needed; get a file that has it.", file.path(),
                         key);
}

absl::Status OtherKind(const GgufFile& file, std::string_view key, std::string_view what) {
  return InvalidArgument("{}: {} of the metadata must be {}.", file.path(), key, what);
}

}  // namespace

absl::StatusOr<int64_t> WholeNumberAt(const GgufFile& file, std::string_view key, int64_t at_least) {
  MESHWORK_ASSIGN_OR_RETURN(const GgufValue* const value, ValueAt(file, key));
  const std::optional<int64_t> number = WholeNumber(*value);
  if (!number.has_value() || *number < at_least)
    return OtherKind(file, key, fmt::format("a whole number of at least {}", at_least));
  return *number;
}

absl::StatusOr<nlohmann::ordered_json> RealAt(const GgufFile& file, std::string_view key,
                                              std::optional<double> fallback) {
  if (fallback.has_value() && file.FindMetadata(key) == nullptr) return nlohmann::ordered_json(*fallback);
  MESHWORK_ASSIGN_OR_RETURN(const GgufValue* const value, ValueAt(file, key));
  if (!std::holds_alternative<float>(*value) && !std::holds_alternative<double>(*value))
    return OtherKind(file, key, "a real number");
  return ScalarToJson(*value);
}

absl::StatusOr<const std::string*> TextAt(const GgufFile& file, std::string_view key) {
  MESHWORK_ASSIGN_OR_RETURN(const GgufValue* const value, ValueAt(file, key));
  if (const auto* text = std::get_if<std::string>(value); text != nullptr) return text;
  return OtherKind(file, key, "a text");
}

absl::StatusOr<const std::vector<std::string>*> TextsAt(const GgufFile& file, std::string_view key) {
  MESHWORK_ASSIGN_OR_RETURN(const GgufValue* const value, ValueAt(file, key));
  const auto* array = std::get_if<GgufArray>(value);
  const auto* texts = array == nullptr ? nullptr : std::get_if<std::vector<std::string>>(&array->items);
  if (texts == nullptr) return OtherKind(file, key, "an array of texts");
  return texts;
}

nlohmann::ordered_json ScalarToJson(const GgufValue& value) {
  return std::visit(
      [](const auto& held) -> nlohmann::ordered_json {
        using Held = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<Held, GgufArray>) return nullptr;
        else if constexpr (std::is_same_v<Held, float>) return std::stod(fmt::format("{}", held));
        else return held;
      },
      value);
}

}  // namespace meshwork::tools
