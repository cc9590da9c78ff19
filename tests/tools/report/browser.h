// A Chromium without a window, driven by the DevTools protocol over pipes: JSON messages that end in a zero byte, which
// the browser reads from descriptor 3 and writes to descriptor 4 (--remote-debugging-pipe).
//
//   Browser browser(FindBrowser(), dir() + "/profile");
//   browser.Open(dir() + "/step.html");
//   EXPECT_EQ(browser.Evaluate("document.title"), "step");
//
// Nothing here sleeps: each call waits for an answer or an event of the browser.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "nlohmann/json.hpp"

namespace meshwork {

// The browser's path; empty if this machine has none. The environment variable CHROMIUM takes precedence over PATH.
std::string FindBrowser();

class Browser {
 public:
  // `profile`: a folder for the browser's own files. Failures fail the test, here and below; ok() is false then.
  Browser(const std::string& program, const std::string& profile);
  ~Browser();
  Browser(const Browser&) = delete;
  Browser& operator=(const Browser&) = delete;

  bool ok() const { return ok_; }
  void SetSize(int width, int height, bool dark);
  // They take room, as on most desktops; at first they are hidden.
  void ShowScrollbars(bool shown);
  // Returns when the page's scripts have run.
  void Open(const std::string& path);
  // The value of the JavaScript expression. If it is a promise, waits for it.
  nlohmann::json Evaluate(std::string_view expression);
  // Scrolls the first element that matches the CSS selector into view, and clicks its middle with the mouse.
  void Click(const std::string& selector);
  // `key`: "Enter", "Escape" or "Tab".
  void Press(const std::string& key);
  // A picture of the visible part of the page, as the bytes of a PNG file.
  std::string Screenshot();

  // Seen since Open: errors of scripts and of the page's security policy, and requested URLs
  // other than the page.
  const std::vector<std::string>& errors() const { return errors_; }
  const std::vector<std::string>& requests() const { return requests_; }

 private:
  nlohmann::json Call(const std::string& method, const nlohmann::json& params = nlohmann::json::object());
  // The next message; null after a failure.
  nlohmann::json Read();
  void Note(const nlohmann::json& event);
  void Fail(const std::string& why);

  bool ok_ = false;
  pid_t child_ = -1;
  int to_ = -1, from_ = -1;
  int64_t last_id_ = 0;
  std::string read_;     // of a message that is not complete yet
  std::string session_;  // the page's
  std::string url_;
  std::set<std::string> loaded_;  // loaders
  std::vector<std::string> errors_, requests_;
};

}  // namespace meshwork
