#include "meshwork/base/json.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "fmt/ranges.h"
#include "meshwork/base/quote.h"
#include "meshwork/base/suggest.h"
#include "meshwork/base/text_error.h"
#include "nlohmann/json.hpp"

namespace meshwork {

using Json = nlohmann::json;

namespace {

constexpr size_t kMaxShown = 60;

// Writes `json` as dump() does, but no further than a little beyond kMaxShown: neither long values nor deep
// ones, for which dump() runs out of stack, cost more.
void Show(const Json& json, std::string& out) {
  if (out.size() > kMaxShown) return;
  if (!json.is_structured()) {
    out += json.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
    return;
  }
  out += json.is_array() ? '[' : '{';
  for (auto item = json.begin(); item != json.end() && out.size() <= kMaxShown; ++item) {
    if (item != json.begin()) out += ',';
    if (json.is_object()) Show(item.key(), out), out += ':';
    Show(*item, out);
  }
  out += json.is_array() ? ']' : '}';
}

// Reads a text only to find oddities. The library could call back while it makes values, but would then look
// through all items of a list at each of them.
class Watch : public nlohmann::json_sax<Json> {
 public:
  JsonOddities Take() && { return std::move(odd_); }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(Json::number_integer_t) override { return true; }
  bool number_unsigned(Json::number_unsigned_t) override { return true; }
  bool number_float(Json::number_float_t, const Json::string_t&) override { return true; }
  bool string(Json::string_t&) override { return true; }
  bool binary(Json::binary_t&) override { return true; }
  bool start_array(size_t) override { return Open(); }
  bool end_array() override { return Close(); }
  bool start_object(size_t) override {
    keys_.emplace_back();
    return Open();
  }
  bool end_object() override {
    keys_.pop_back();
    return Close();
  }
  bool key(Json::string_t& key) override {
    if (keys_.size() == 1) odd_.keys.push_back(key);
    if (!keys_.back().insert(key).second) odd_.repeated = key;
    return true;
  }
  bool parse_error(size_t, const std::string&, const Json::exception&) override { return false; }

 private:
  bool Open() {
    ++depth_;
    odd_.too_deep = odd_.too_deep || depth_ > kMaxJsonDepth;
    return true;
  }
  bool Close() {
    --depth_;
    return true;
  }

  JsonOddities odd_;
  int depth_ = 0;                            // open brackets
  std::vector<std::set<std::string>> keys_;  // of each open object
};

}  // namespace

JsonOddities ParseJsonWatched(std::string_view text, Json* json) {
  *json = Json::parse(text);
  Watch watch;
  Json::sax_parse(text, &watch);
  return std::move(watch).Take();
}

std::string PrintJson(const nlohmann::ordered_json& json) {
  return json.dump(2, ' ', /*ensure_ascii=*/false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

absl::StatusOr<Json> ParseJson(std::string_view text, std::string_view document) {
  Json json;
  JsonOddities odd;
  try {
    odd = ParseJsonWatched(text, &json);
  } catch (const Json::parse_error& error) {
    const size_t end = text.find_last_not_of(" \t\r\n") + 1;
    if (error.byte > end) return ErrorAt(text, document, end, "this is no JSON: it ends here, too early.");
    return ErrorAt(text, document, error.byte == 0 ? 0 : error.byte - 1, "this is no JSON.");
  } catch (const Json::exception&) {
    return InvalidArgument("{}: it has a number that is too large for double precision.", document);
  }
  if (odd.too_deep) return InvalidArgument("{}: brackets nest more than {} deep.", document, kMaxJsonDepth);
  if (odd.repeated.has_value())
    return InvalidArgument("{}: the key {} is given twice; keys are unique.", document,
                           Json(*odd.repeated).dump());
  return json;
}

bool JsonReader::IsList() const { return json_->is_array(); }
bool JsonReader::IsObject() const { return json_->is_object(); }
bool JsonReader::IsString() const { return json_->is_string(); }

absl::Status JsonReader::ExpectKeys(const std::vector<std::string>& keys) const {
  if (!IsObject()) return Expected("an object");
  for (const auto& [key, value] : json_->items()) {
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
    const std::string hint = DidYouMean(key, keys);
    return InvalidArgument("{}: {} has the key {}; the keys are {}{}", document_, Path(), Quoted(key),
                           fmt::join(keys, ", "), hint.empty() ? "." : hint);
  }
  return absl::OkStatus();
}

bool JsonReader::Has(const std::string& key) const { return IsObject() && json_->contains(key); }

absl::StatusOr<JsonReader> JsonReader::Get(const std::string& key) const {
  if (!IsObject()) return Expected("an object");
  if (!Has(key)) return InvalidArgument("{}: {} has no \"{}\".", document_, Path(), key);
  return Child((*json_)[key], path_.empty() ? Printable(key) : path_ + "." + Printable(key));
}

absl::StatusOr<std::string> JsonReader::StringOf(const std::string& key) const {
  MESHWORK_ASSIGN_OR_RETURN(const JsonReader value, Get(key));
  return value.String();
}

absl::StatusOr<std::vector<std::string>> JsonReader::Keys() const {
  if (!IsObject()) return Expected("an object");
  std::vector<std::string> keys;
  for (const auto& [key, value] : json_->items()) keys.push_back(key);
  return keys;
}

absl::StatusOr<std::vector<JsonReader>> JsonReader::Items() const {
  if (!IsList()) return Expected("a list");
  std::vector<JsonReader> items;
  for (size_t i = 0; i < json_->size(); ++i)
    items.push_back(Child((*json_)[i], fmt::format("{}[{}]", path_, i)));
  return items;
}

absl::StatusOr<std::string> JsonReader::String() const {
  if (!IsString()) return Expected("a string");
  return json_->get<std::string>();
}

absl::StatusOr<std::vector<std::string>> JsonReader::Strings() const {
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<JsonReader> items, Items());
  std::vector<std::string> strings;
  for (const JsonReader& item : items) {
    MESHWORK_ASSIGN_OR_RETURN(strings.emplace_back(), item.String());
  }
  return strings;
}

absl::StatusOr<int64_t> JsonReader::Integer() const {
  const bool fits =
      json_->is_number_integer() && (!json_->is_number_unsigned() ||
                                     json_->get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()});
  if (!fits) return Expected("a whole number");
  return json_->get<int64_t>();
}

absl::StatusOr<double> JsonReader::Real() const {
  if (!json_->is_number()) return Expected("a number");
  return json_->get<double>();
}

absl::Status JsonReader::Expected(std::string_view what) const {
  std::string shown;
  Show(*json_, shown);
  if (shown.size() > kMaxShown) {
    size_t end = kMaxShown;
    while ((static_cast<unsigned char>(shown[end]) & 0xC0) == 0x80) --end;  // not within a character
    shown = shown.substr(0, end) + "…";
  }
  return InvalidArgument("{}: {} is {}; it must be {}.", document_, Path(), shown, what);
}

JsonReader JsonReader::Child(const Json& json, std::string path) const {
  JsonReader child(json, document_);
  child.path_ = std::move(path);
  return child;
}

}  // namespace meshwork
