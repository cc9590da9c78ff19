#include "meshwork/train/cluster/pulse.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "fmt/ranges.h"
#include "meshwork/base/clock.h"
#include "meshwork/base/log.h"
#include "meshwork/base/status.h"

namespace meshwork {
namespace {

constexpr int64_t kMostSteps = 1 << 20;
// A process is slow if, in kSlowPulses pulses in a row, it computes kSlow times as long as the others, and makes the
// step longer by kLongerStep, a tenth, or more.
constexpr double kSlow = 1.5, kLongerStep = 0.1;
constexpr int64_t kSlowPulses = 5, kBetweenReports = 10;

double Median(std::vector<double> values) {
  auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Texts of any bytes as one text: "4:save0:".
std::string Join(const std::vector<std::string>& fields) {
  std::string text;
  for (const std::string& field : fields) text += fmt::format("{}:{}", field.size(), field);
  return text;
}

// Nothing if Join has not made the text.
std::optional<std::vector<std::string>> Split(std::string_view text) {
  std::vector<std::string> fields;
  while (!text.empty()) {
    size_t size = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
    const auto begin = static_cast<size_t>(end - text.data()) + 1;
    if (error != std::errc() || begin > text.size() || size > text.size() - begin) return std::nullopt;
    fields.emplace_back(text.substr(begin, size));
    text.remove_prefix(begin + size);
  }
  return fields;
}

template <typename T>
bool ReadNumber(const std::string& text, T& value) {
  return std::from_chars(text.data(), text.data() + text.size(), value).ec == std::errc();
}

}  // namespace

// The message of a process in a pulse.
struct Pulse::Said {
  std::string process;
  bool stops = false;
  int64_t steps = 0;                      // to the next pulse, as this process would have it
  double computing = 0;                   // seconds of a step
  std::vector<std::string> names, texts;  // of the parts

  std::string Encode() const {
    return Join({process, stops ? "1" : "0", fmt::format("{}", steps), fmt::format("{}", computing),
                 Join(names), Join(texts)});
  }
  static std::optional<Said> Decode(std::string_view text) {
    const std::optional<std::vector<std::string>> fields = Split(text);
    if (!fields.has_value() || fields->size() != 6) return std::nullopt;
    Said said{.process = (*fields)[0], .stops = (*fields)[1] == "1"};
    if (!ReadNumber((*fields)[2], said.steps) || !ReadNumber((*fields)[3], said.computing))
      return std::nullopt;
    const std::optional<std::vector<std::string>> names = Split((*fields)[4]), texts = Split((*fields)[5]);
    if (!names.has_value() || !texts.has_value() || names->size() != texts->size()) return std::nullopt;
    said.names = *names;
    said.texts = *texts;
    return said;
  }
};

Pulse::Pulse(Transport* transport, PulseOptions options)
    : transport_(transport),
      options_([&] {
        if (options.name.empty())
          options.name =
              transport == nullptr ? "this process" : fmt::format("process {}", transport->domain());
        if (options.clock == nullptr) options.clock = SteadySeconds;
        if (options.report == nullptr)
          options.report = [](std::string_view line) { LogText(LogLevel::kWarning, line); };
        return std::move(options);
      }()),
      last_(options_.clock()),
      last_waited_(transport == nullptr ? 0 : transport->seconds_waited()) {}

void Pulse::Add(PulsePart part) {
  for (const PulsePart& other : parts_) MESHWORK_CHECK(other.name != part.name, "{}", part.name);
  parts_.push_back(std::move(part));
}

void Pulse::Remove(std::string_view name) {
  std::erase_if(parts_, [&](const PulsePart& part) { return part.name == name; });
}

absl::Status Pulse::AfterStep() {
  ++steps_;
  // A process that is alone stops at once: nobody else has to know.
  const bool stops_alone = transport_ == nullptr && options_.stop != nullptr && !stops() && options_.stop();
  return steps_ < steps_between_ && !stops_alone ? absl::OkStatus() : Beat();
}

absl::Status Pulse::Beat() {
  const double seconds = options_.clock() - last_;
  const Said mine = Say(seconds);
  std::vector<Said> said = {mine};
  if (transport_ != nullptr) {
    MESHWORK_ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                              transport_->AllGather("the pulse", mine.Encode()));
    said.clear();
    for (const std::string& text : texts) {
      const std::optional<Said> other = Said::Decode(text);
      if (!other.has_value())
        return InvalidArgument(
            "Pulse: process {} says \"{}\", and this is no pulse; all processes call AfterStep after the same steps.",
            said.size(), text);
      said.push_back(*other);
    }
  }
  const bool is_long = steps_ > 0 && seconds > options_.seconds / 2;
  steps_ = 0;
  last_ = options_.clock();
  if (transport_ != nullptr) last_waited_ = transport_->seconds_waited();
  if (is_long && (transport_ == nullptr || transport_->domain() == 0)) FindSlow(said, seconds_per_step_);
  return Hear(said);
}

Pulse::Said Pulse::Say(double seconds) {
  Said said{.process = options_.name,
            .stops = options_.stop != nullptr && options_.stop(),
            .steps = steps_between_};
  if (steps_ > 0) {
    seconds_per_step_ = seconds / static_cast<double>(steps_);
    const double waited = transport_ == nullptr ? 0 : transport_->seconds_waited() - last_waited_;
    said.computing = (seconds - waited) / static_cast<double>(steps_);
    said.steps = NextSteps();
  }
  for (const PulsePart& part : parts_) {
    said.names.push_back(part.name);
    said.texts.push_back(part.say());
  }
  return said;
}

// Grows slowly: the first steps are not like the others.
int64_t Pulse::NextSteps() const {
  const double fitting = options_.seconds / std::max(seconds_per_step_, 1e-9);
  return std::clamp<int64_t>(std::llround(std::min(fitting, 1e9)), 1,
                             std::min(2 * steps_between_, kMostSteps));
}

absl::Status Pulse::Hear(const std::vector<Said>& said) {
  for (const Said& other : said) {
    if (other.names == said[0].names) continue;
    return InvalidArgument("Pulse: {} tells ({}) and {} tells ({}); all processes add the same parts.",
                           said[0].process, fmt::join(said[0].names, ", "), other.process,
                           fmt::join(other.names, ", "));
  }
  steps_between_ = said[0].steps;
  for (const Said& other : said)
    if (other.stops && stopped_by_.empty()) stopped_by_ = other.process;
  for (size_t p = 0; p < parts_.size(); ++p) {
    std::vector<std::string> texts;
    for (const Said& other : said) texts.push_back(other.texts[p]);
    MESHWORK_RETURN_IF_ERROR(parts_[p].hear(texts));
  }
  return absl::OkStatus();
}

void Pulse::FindSlow(const std::vector<Said>& said, double step) {
  if (said.size() < 2) return;
  slow_.resize(said.size());
  for (size_t p = 0; p < said.size(); ++p) {
    std::vector<double> others;
    for (size_t q = 0; q < said.size(); ++q)
      if (q != p) others.push_back(said[q].computing);
    const double usual = Median(std::move(others)), mine = said[p].computing;
    slow_[p] = mine > kSlow * usual && mine - usual > kLongerStep * step ? slow_[p] + 1 : 0;
    int64_t reported = kSlowPulses;
    while (reported < slow_[p]) reported *= kBetweenReports;
    if (slow_[p] != reported) continue;
    options_.report(fmt::format(
        "{} computes {:.1f} times as long as the others ({:.1f} ms a step, the others {:.1f} ms); every "
        "step waits for it.",
        said[p].process, mine / std::max(usual, 1e-9), 1e3 * mine, 1e3 * usual));
  }
}

}  // namespace meshwork
