#include "meshwork/train/parameter_server/rpc/presence.h"

#include <utility>

#include "meshwork/base/flags.h"
#include "meshwork/base/log.h"

namespace meshwork {

namespace {

// "12s", "5min", "300ms".
std::string InWords(std::chrono::steady_clock::duration duration) {
  using std::chrono::milliseconds, std::chrono::seconds;
  const auto exact = std::chrono::round<milliseconds>(duration);
  return DurationToString(exact < seconds(1) ? exact : milliseconds(std::chrono::round<seconds>(exact)));
}

}  // namespace

Presence::Presence(std::string who, PresenceOptions options)
    : who_(std::move(who)), options_(std::move(options)) {}

void Presence::NoteThere() {
  const std::lock_guard lock(mutex_);
  if (is_said_lost_ || is_said_away_)
    Log(LogLevel::kInfo, "{} is there{}, after {}.", who_, was_there_ ? " again" : "",
        InWords(options_.clock() - *away_since_));
  was_there_ = true;
  is_said_lost_ = is_said_away_ = false;
  away_since_.reset();
}

void Presence::NoteAway(std::string_view why) {
  const std::lock_guard lock(mutex_);
  const auto now = options_.clock();
  if (!away_since_.has_value()) away_since_ = now;
  const auto away = now - *away_since_;
  if (was_there_ && away >= options_.grace && !std::exchange(is_said_lost_, true))
    Log(LogLevel::kWarning, "{} is lost: {}.", who_, why);
  if (options_.is_waited_for && away >= options_.patience && !std::exchange(is_said_away_, true))
    Log(LogLevel::kWarning, "waits for {}, which has been away for {}: {}.", who_, InWords(away), why);
}

}  // namespace meshwork
