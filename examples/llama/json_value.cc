#include "examples/llama/json_value.h"

#include "meshwork/base/io/file.h"
#include "meshwork/base/quote.h"
#include "meshwork/base/status.h"

namespace meshwork {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxShown = 60;

// Appends the value as dump() writes it, but stops soon after kMaxShown bytes: dump() would take long for a long value, and
// run out of stack for a deep one.
void AppendShown(const Json& json, std::string& shown) {
  if (shown.size() > kMaxShown) return;
  if (!json.is_structured()) {
    shown += json.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
    return;
  }
  shown += json.is_array() ? '[' : '{';
  for (auto item = json.begin(); item != json.end() && shown.size() <= kMaxShown; ++item) {
    if (item != json.begin()) shown += ',';
    if (json.is_object()) AppendShown(item.key(), shown), shown += ':';
    AppendShown(*item, shown);
  }
  shown += json.is_array() ? ']' : '}';
}

std::string Show(const Json& json) {
  std::string shown;
  AppendShown(json, shown);
  if (shown.size() <= kMaxShown) return shown;
  size_t end = kMaxShown;
  while ((static_cast<unsigned char>(shown[end]) & 0xc0) == 0x80) --end;  // not within a character
  return shown.substr(0, end) + "…";
}

}  // namespace

absl::StatusOr<Json> ReadJsonFile(const std::string& path) {
  MESHWORK_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    return InvalidArgument("{}: it is no JSON, from its byte {} on.", path, error.byte);
  } catch (const Json::exception&) {
    return InvalidArgument("{}: it has a number that is too large for double precision.", path);
  }
}

bool JsonValue::Has(const std::string& key) const {
  const auto found = json_->find(key);
  return found != json_->end() && !found->is_null();
}

bool JsonValue::IsOff(const std::string& key) const {
  return !Has(key) || (*json_)[key] == false || (*json_)[key] == 0 || (*json_)[key] == "";
}

absl::StatusOr<JsonValue> JsonValue::Get(const std::string& key) const {
  if (!json_->is_object()) return Expected("an object");
  const auto found = json_->find(key);
  if (found == json_->end()) return InvalidArgument("{}: {} has no {}.", document_, Path(), Quoted(key));
  return JsonValue(*found, document_, path_.empty() ? Printable(key) : path_ + "." + Printable(key));
}

absl::StatusOr<std::vector<std::string>> JsonValue::Keys() const {
  if (!json_->is_object()) return Expected("an object");
  std::vector<std::string> keys;
  for (const auto& [key, value] : json_->items()) keys.push_back(key);
  return keys;
}

absl::StatusOr<std::vector<JsonValue>> JsonValue::Items() const {
  if (!json_->is_array()) return Expected("a list");
  std::vector<JsonValue> items;
  items.reserve(json_->size());
  for (size_t i = 0; i < json_->size(); ++i)
    items.push_back(JsonValue((*json_)[i], document_, fmt::format("{}[{}]", path_, i)));
  return items;
}

absl::StatusOr<std::string> JsonValue::String() const {
  if (!json_->is_string()) return Expected("a string");
  return json_->get<std::string>();
}

absl::StatusOr<int64_t> JsonValue::Integer() const {
  const bool fits = json_->is_number_integer() &&
                    (!json_->is_number_unsigned() || json_->get<uint64_t>() <= uint64_t{INT64_MAX});
  if (!fits) return Expected("a whole number");
  return json_->get<int64_t>();
}

absl::StatusOr<double> JsonValue::Real() const {
  if (!json_->is_number()) return Expected("a number");
  return json_->get<double>();
}

absl::StatusOr<double> JsonValue::RealOf(const std::string& key, std::optional<double> absent) const {
  if (!Has(key) && absent.has_value()) return *absent;
  MESHWORK_ASSIGN_OR_RETURN(const JsonValue value, Get(key));
  return value.Real();
}

absl::StatusOr<std::string> JsonValue::StringOf(const std::string& key) const {
  MESHWORK_ASSIGN_OR_RETURN(const JsonValue value, Get(key));
  return value.String();
}

absl::StatusOr<bool> JsonValue::BoolOf(const std::string& key, std::optional<bool> absent) const {
  if (!Has(key) && absent.has_value()) return *absent;
  MESHWORK_ASSIGN_OR_RETURN(const JsonValue value, Get(key));
  if (!value.json_->is_boolean()) return value.Expected("true or false");
  return value.json_->get<bool>();
}

absl::Status JsonValue::Expected(std::string_view rule) const {
  return InvalidArgument("{}: {} is {}; it must be {}.", document_, Path(), Show(*json_), rule);
}

absl::Status JsonValue::Unsupported(std::string_view supported) const {
  return absl::UnimplementedError(
      fmt::format("{} Nothing else is supported.", MessageOf(Expected(supported))));
}

}  // namespace meshwork
