#include "meshwork/train/fit/history.h"

#include <cmath>
#include <cstdlib>
#include <set>

#include "meshwork/base/status.h"
#include "nlohmann/json.hpp"

namespace meshwork {

namespace internal {

std::string ToExactText(const Metrics& values) {
  std::string text;
  for (const auto& [name, value] : values)
    text += fmt::format("{}{}={:a}", text.empty() ? "" : " ", name, value);
  return text;
}

absl::StatusOr<Metrics> FromExactText(std::string_view text) {
  Metrics values;
  while (!text.empty()) {
    const size_t space = std::min(text.find(' '), text.size());
    const std::string_view term = text.substr(0, space);
    const size_t equals = term.rfind('=');
    const std::string number(equals == std::string_view::npos ? "" : term.substr(equals + 1));
    char* end = nullptr;
    const double value = std::strtod(number.c_str(), &end);
    if (number.empty() || *end != '\0')
      return InvalidArgument("\"{}\" is no name with a number, as in \"loss=0x1.8p+0\".", term);
    values[std::string(term.substr(0, equals))] = value;
    text.remove_prefix(std::min(space + 1, text.size()));
  }
  return values;
}

}  // namespace internal

std::vector<double> History::Of(std::string_view name) const {
  std::vector<double> values;
  for (const EpochLog& epoch : epochs)
    if (const auto found = epoch.values.find(std::string(name)); found != epoch.values.end())
      values.push_back(found->second);
  return values;
}

std::string History::ToCsv() const {
  std::set<std::pair<bool, std::string>> columns;
  for (const EpochLog& epoch : epochs)
    for (const auto& [name, value] : epoch.values) columns.emplace(name.starts_with("val_"), name);
  std::string text = "epoch,step";
  for (const auto& [is_validation, name] : columns) text += "," + name;
  text += "\n";
  for (const EpochLog& epoch : epochs) {
    text += fmt::format("{},{}", epoch.epoch + 1, epoch.step);
    for (const auto& [is_validation, name] : columns) {
      const auto found = epoch.values.find(name);
      text += found == epoch.values.end() ? "," : fmt::format(",{}", found->second);
    }
    text += "\n";
  }
  return text;
}

std::string History::ToText() const {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const EpochLog& epoch : epochs)
    json.push_back({epoch.epoch, epoch.steps, epoch.examples, epoch.step, fmt::format("{:a}", epoch.seconds),
                    internal::ToExactText(epoch.values)});
  return nlohmann::ordered_json{{"epochs", json}, {"steps", steps}, {"stopped", stopped}}.dump();
}

absl::StatusOr<History> History::FromText(std::string_view text) {
  const auto damaged = [](std::string_view why) {
    return InvalidArgument("History: the text is not from ToText: {}", why);
  };
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    History history{.steps = json.at("steps"), .stopped = json.at("stopped")};
    for (const nlohmann::json& epoch : json.at("epochs")) {
      absl::StatusOr<Metrics> values = internal::FromExactText(epoch.at(5).get<std::string>());
      if (!values.ok()) return damaged(MessageOf(values.status()));
      history.epochs.push_back({.epoch = epoch.at(0),
                                .steps = epoch.at(1),
                                .examples = epoch.at(2),
                                .step = epoch.at(3),
                                .seconds = std::strtod(epoch.at(4).get<std::string>().c_str(), nullptr),
                                .values = *std::move(values)});
    }
    return history;
  } catch (const nlohmann::json::exception& error) {
    return damaged(error.what());
  }
}

}  // namespace meshwork
