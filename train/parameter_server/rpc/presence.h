// Presence: whether another process is there. The log (base/log.h) gets a line when it is lost, one when it is there
// again, and one when it has been away for long.
//
//   Presence server("parameter server host-p:4444");
//   server.NoteThere();
//   server.NoteAway("nobody listens there");   // W] parameter server host-p:4444 is lost: nobody listens there.
//   …                                          // W] waits for parameter server host-p:4444, which has been away for 10s: …
//   server.NoteThere();                        // I] parameter server host-p:4444 is there again, after 12s.
//
// Thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace meshwork {

struct PresenceOptions {
  bool is_waited_for = true;           // else nothing is said of a process that is away for long
  std::chrono::milliseconds grace{0};  // a process that is away for less is not lost
  std::chrono::milliseconds patience = std::chrono::seconds(10);  // "for long"
  std::function<std::chrono::steady_clock::time_point()> clock = std::chrono::steady_clock::now;
};

class Presence {
 public:
  // `who`: its name in a sentence.
  explicit Presence(std::string who, PresenceOptions options = {});

  void NoteThere();
  // Called as often as somebody finds it away. `why`: a sentence without its full stop.
  void NoteAway(std::string_view why);

 private:
  const std::string who_;
  const PresenceOptions options_;
  std::mutex mutex_;
  bool was_there_ = false, is_said_lost_ = false, is_said_away_ = false;
  std::optional<std::chrono::steady_clock::time_point> away_since_;
};

}  // namespace meshwork
