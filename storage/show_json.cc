#include "meshwork/storage/show_json.h"

#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace meshwork {

std::string ShowJson(const nlohmann::json& value) {
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace);
  if (text.size() > 60) text.replace(57, std::string::npos, "...");
  return text;
}

std::string PlaceOfTensor(const std::string& path, const std::string& name) {
  return fmt::format("{}: tensor {}", path, ShowJson(name));
}

}  // namespace meshwork
