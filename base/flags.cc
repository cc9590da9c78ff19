#include "meshwork/base/flags.h"

#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "fmt/ranges.h"
#include "meshwork/base/status.h"
#include "meshwork/base/suggest.h"

namespace meshwork {
namespace {

template <typename T>
bool ReadNumber(const std::string& text, T* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size();
}

// "512KiB" -> 524288; nothing if it is no number of bytes, or too large.
std::optional<int64_t> ReadBytes(std::string_view text) {
  int shift = 0;
  for (const auto& [suffix, bits] : {std::pair(std::string_view("KiB"), 10), {"MiB", 20}, {"GiB", 30}}) {
    if (!text.ends_with(suffix)) continue;
    shift = bits;
    text.remove_suffix(suffix.size());
    break;
  }
  int64_t number = 0;
  if (!ReadNumber(std::string(text), &number) || number < 0 ||
      number > (std::numeric_limits<int64_t>::max() >> shift))
    return std::nullopt;
  return number << shift;
}

// "1.5min"; nothing if it is no time, or more than a hundred years.
std::optional<std::chrono::milliseconds> ReadDuration(std::string_view text) {
  constexpr double kMostMilliseconds = 3.2e12;
  for (const auto& [suffix, milliseconds] :
       {std::pair(std::string_view("ms"), 1.0), {"s", 1e3}, {"min", 60e3}, {"h", 3600e3}}) {
    if (!text.ends_with(suffix)) continue;
    double number = 0;
    if (!ReadNumber(std::string(text.substr(0, text.size() - suffix.size())), &number) || !(number >= 0) ||
        number * milliseconds > kMostMilliseconds)
      return std::nullopt;
    return std::chrono::milliseconds(std::llround(number * milliseconds));
  }
  return std::nullopt;
}

}  // namespace

std::string DurationToString(std::chrono::milliseconds duration) {
  for (const auto& [suffix, milliseconds] : {std::pair("h", 3600000), {"min", 60000}, {"s", 1000}})
    if (duration.count() != 0 && duration.count() % milliseconds == 0)
      return fmt::format("{}{}", duration.count() / milliseconds, suffix);
  return fmt::format("{}ms", duration.count());
}

void FlagTable::Texts(std::string name, std::string help, std::vector<std::string>* target) {
  flags_.push_back({std::move(name), std::move(help), "", [target](const std::string& value) {
                      target->push_back(value);
                      return absl::OkStatus();
                    }});
}

void FlagTable::Duration(const std::string& name, std::string help, std::chrono::milliseconds* target) {
  flags_.push_back({name, std::move(help), DurationToString(*target), [=](const std::string& value) {
                      const std::optional<std::chrono::milliseconds> duration = ReadDuration(value);
                      if (!duration.has_value())
                        return InvalidArgument(
                            "--{}: \"{}\" is not a time; write for example 500ms, 10s, 5min or 1h.", name,
                            value);
                      *target = *duration;
                      return absl::OkStatus();
                    }});
}

void FlagTable::Text(std::string name, std::string help, std::string* target) {
  flags_.push_back({std::move(name), std::move(help), *target, [target](const std::string& value) {
                      *target = value;
                      return absl::OkStatus();
                    }});
}

void FlagTable::Int(const std::string& name, std::string help, int64_t* target, int64_t at_least,
                    int64_t at_most) {
  const std::string range = at_most == std::numeric_limits<int64_t>::max()
                                ? fmt::format("of at least {}", at_least)
                                : fmt::format("from {} to {}", at_least, at_most);
  flags_.push_back({name, std::move(help), fmt::format("{}", *target), [=](const std::string& value) {
                      int64_t number = 0;
                      if (!ReadNumber(value, &number) || number < at_least || number > at_most)
                        return InvalidArgument("--{}: \"{}\" is not a whole number {}.", name, value, range);
                      *target = number;
                      return absl::OkStatus();
                    }});
}

void FlagTable::Bytes(const std::string& name, std::string help, int64_t* target) {
  flags_.push_back(
      {name, std::move(help), fmt::format("{}", *target), [=](const std::string& value) {
         const std::optional<int64_t> bytes = ReadBytes(value);
         if (!bytes.has_value())
           return InvalidArgument(
               "--{}: \"{}\" is not a number of bytes; write for example 500000, 512KiB, 16MiB or "
               "2GiB.",
               name, value);
         *target = *bytes;
         return absl::OkStatus();
       }});
}

void FlagTable::Real(const std::string& name, std::string help, double* target, double above) {
  flags_.push_back({name, std::move(help), fmt::format("{}", *target), [=](const std::string& value) {
                      double number = 0;
                      if (!ReadNumber(value, &number) || !std::isfinite(number) || number <= above)
                        return InvalidArgument("--{}: \"{}\" is not a number above {}.", name, value, above);
                      *target = number;
                      return absl::OkStatus();
                    }});
}

void FlagTable::Choice(const std::string& name, const std::string& help, std::string* target,
                       std::vector<std::string> choices) {
  const std::string all = fmt::format("{}", fmt::join(choices, ", "));
  flags_.push_back({name, fmt::format("{} ({})", help, all), *target, [=](const std::string& value) {
                      for (const std::string& choice : choices) {
                        if (choice != value) continue;
                        *target = value;
                        return absl::OkStatus();
                      }
                      const std::string hint = DidYouMean(value, choices);
                      return InvalidArgument("--{}: \"{}\" is not one of {}{}", name, value, all,
                                             hint.empty() ? "." : hint);
                    }});
}

void FlagTable::Switch(std::string name, std::string help, bool* target) {
  flags_.push_back({std::move(name), std::move(help), "",
                    [target](const std::string&) {
                      *target = true;
                      return absl::OkStatus();
                    },
                    /*is_switch=*/true});
}

void FlagTable::Positional(std::string name, std::string help, std::string* target) {
  places_.push_back({std::move(name), std::move(help), target});
}

void FlagTable::Rest(std::string name, std::string help, std::vector<std::string>* target) {
  rest_name_ = std::move(name);
  rest_help_ = std::move(help);
  rest_ = target;
}

absl::Status FlagTable::Parse(int argc, const char* const* argv) {
  std::vector<std::string> names = {"help"};
  for (const Flag& flag : flags_) names.push_back(flag.name);
  size_t given = 0;  // of the places
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--help" || argument == "-h") {
      help_asked_ = true;
      return absl::OkStatus();
    }
    if (rest_ != nullptr && argument == "--") {
      rest_->assign(argv + i + 1, argv + argc);
      break;
    }
    if (!places_.empty() && (argument == "-" || !argument.starts_with('-'))) {
      if (given == places_.size())
        return InvalidArgument("\"{}\" is one argument too many. See --help.", argument);
      *places_[given++].target = argument;
      continue;
    }
    if (rest_ != nullptr && !argument.starts_with('-'))
      return InvalidArgument("\"{}\" is not a flag; write -- in front of {}. See --help.", argument,
                             rest_name_);
    if (argument.size() < 3 || argument.substr(0, 2) != "--")
      return InvalidArgument("\"{}\" is not a flag; write --name value.", argument);
    const size_t equals = argument.find('=');
    const std::string name = argument.substr(2, equals == std::string::npos ? equals : equals - 2);
    if (name == "help") return InvalidArgument("--help takes no value.");
    const Flag* found = nullptr;
    for (const Flag& flag : flags_)
      if (flag.name == name) found = &flag;
    if (found == nullptr) {
      const std::string hint = DidYouMean(name, names);
      return InvalidArgument("there is no flag --{}{} See --help.", name, hint.empty() ? "." : hint);
    }
    if (found->is_switch) {
      if (equals != std::string::npos) return InvalidArgument("--{} takes no value.", name);
      MESHWORK_RETURN_IF_ERROR(found->set(""));
    } else if (equals != std::string::npos) {
      MESHWORK_RETURN_IF_ERROR(found->set(argument.substr(equals + 1)));
    } else if (i + 1 < argc) {
      MESHWORK_RETURN_IF_ERROR(found->set(argv[++i]));
    } else {
      return InvalidArgument("--{} needs a value.", name);
    }
  }
  if (given < places_.size()) return InvalidArgument("{} is missing. See --help.", places_[given].name);
  if (rest_ != nullptr && rest_->empty()) return InvalidArgument("-- {} is missing. See --help.", rest_name_);
  return absl::OkStatus();
}

std::string FlagTable::Help() const {
  std::string out = fmt::format("{}\n\nUsage: {}", about_, program_);
  for (const Place& place : places_) out += " " + place.name;
  out += " [--flag value]…";
  if (rest_ != nullptr) out += fmt::format(" -- {}", rest_name_);
  out += "\n\n";
  for (const Place& place : places_) out += fmt::format("  {:<18} {}\n", place.name, place.help);
  if (rest_ != nullptr) out += fmt::format("  {:<18} {}\n", rest_name_, rest_help_);
  for (const Flag& flag : flags_) {
    out += fmt::format("  --{:<16} {}{}\n", flag.name, flag.help,
                       flag.fallback.empty() ? "" : fmt::format(" [{}]", flag.fallback));
  }
  return out + fmt::format("  --{:<16} {}\n", "help", "prints this");
}

}  // namespace meshwork
