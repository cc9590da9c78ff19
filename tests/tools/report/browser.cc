#include "tools/report/browser.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "fmt/format.h"
#include "gtest/gtest.h"

namespace meshwork {
namespace {

using nlohmann::json;

// For one answer; only a browser that hangs takes so long.
constexpr int kPatienceMs = 120'000;

std::string FromBase64(std::string_view text) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (char c : text) {
    const size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) continue;  // '='
    bits = bits << 6 | static_cast<uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xff);
  }
  return bytes;
}

}  // namespace

std::string FindBrowser() {
  if (const char* chosen = std::getenv("CHROMIUM"); chosen != nullptr) return chosen;
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');)
    for (const char* name : {"chromium", "chromium-browser", "google-chrome"})
      if (const std::string file = folder + "/" + name; access(file.c_str(), X_OK) == 0) return file;
  return "";
}

Browser::Browser(const std::string& program, const std::string& profile) {
  // Both ends are above 4, so that they do not collide when the child gets them as 3 and 4.
  const auto open_pipe = [](int ends[2]) {
    int low[2];
    if (pipe2(low, O_CLOEXEC) != 0) return false;
    for (int i = 0; i < 2; ++i) {
      ends[i] = fcntl(low[i], F_DUPFD_CLOEXEC, 10);
      close(low[i]);
    }
    return ends[0] >= 0 && ends[1] >= 0;
  };
  int down[2], up[2];
  if (!open_pipe(down) || !open_pipe(up)) {
    Fail("no pipes");
    return;
  }
  signal(SIGPIPE, SIG_IGN);
  std::vector<std::string> args = {program,
                                   "--headless=new",
                                   "--remote-debugging-pipe",
                                   "--user-data-dir=" + profile,
                                   "--no-sandbox",  // root may not use the sandbox
                                   "--disable-gpu",
                                   "--disable-dev-shm-usage",
                                   "--disable-background-networking",
                                   "--disable-component-update",
                                   "--disable-extensions",
                                   "--no-first-run",
                                   "--no-default-browser-check",
                                   "about:blank"};
  std::vector<char*> argv;
  for (std::string& arg : args) argv.push_back(arg.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, down[0], 3);
  posix_spawn_file_actions_adddup2(&actions, up[1], 4);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // A process group of its own, so that helpers of the browser can be ended with it.
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  const int error = posix_spawn(&child_, program.c_str(), &actions, &attributes, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  close(down[0]);
  close(up[1]);
  to_ = down[1];
  from_ = up[0];
  if (error != 0) {
    child_ = -1;
    Fail(fmt::format("{}: {}", program, std::strerror(error)));
    return;
  }
  ok_ = true;
  const json target = Call("Target.createTarget", {{"url", "about:blank"}});
  if (!ok_) return;
  session_ = Call("Target.attachToTarget", {{"targetId", target["targetId"]}, {"flatten", true}})
                 .value("sessionId", "");
  for (const char* domain : {"Page", "Runtime", "Network", "Log"}) Call(fmt::format("{}.enable", domain));
  Call("Page.setLifecycleEventsEnabled", {{"enabled", true}});
  ShowScrollbars(false);
  // ResizeObserver errors are only events of the window; this script copies them to the console.
  Call(
      "Page.addScriptToEvaluateOnNewDocument",
      {{"source",
        "addEventListener('error', e => { if (e.message?.startsWith('ResizeObserver')) console.error(e.message); })"}});
}

Browser::~Browser() {
  session_.clear();
  if (ok_) Call("Browser.close");
  if (to_ >= 0) close(to_);
  if (from_ >= 0) close(from_);
  if (child_ < 0) return;
  if (!ok_) kill(-child_, SIGKILL);
  while (waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Browser::Fail(const std::string& why) {
  ok_ = false;
  ADD_FAILURE() << "browser: " << why;
}

json Browser::Read() {
  for (;;) {
    if (const size_t end = read_.find('\0'); end != std::string::npos) {
      json message = json::parse(read_.substr(0, end), nullptr, false);
      read_.erase(0, end + 1);
      return message;
    }
    pollfd wait = {.fd = from_, .events = POLLIN};
    const int ready = poll(&wait, 1, kPatienceMs);
    if (ready < 0 && errno == EINTR) continue;
    char bytes[1 << 16];
    const ssize_t n = ready <= 0 ? -1 : read(from_, bytes, sizeof(bytes));
    if (n <= 0) {
      Fail(ready == 0 ? "no answer" : "it has ended");
      return nullptr;
    }
    read_.append(bytes, static_cast<size_t>(n));
  }
}

void Browser::Note(const json& event) {
  const std::string method = event.value("method", "");
  const json& params = event.contains("params") ? event["params"] : event;
  if (method == "Page.lifecycleEvent" && params["name"] == "load") loaded_.insert(params["loaderId"]);
  if (method == "Runtime.exceptionThrown") errors_.push_back(params["exceptionDetails"].dump());
  if (method == "Runtime.consoleAPICalled" && params["type"] != "log")
    errors_.push_back(params["args"].dump());
  if (method == "Log.entryAdded" && params["entry"]["level"] == "error")
    errors_.push_back(params["entry"]["text"]);
  if (method == "Network.requestWillBeSent") {
    const std::string url = params["request"]["url"];
    if (url != url_ && !url.starts_with("data:")) requests_.push_back(url);
  }
}

json Browser::Call(const std::string& method, const json& params) {
  if (!ok_) return json::object();
  const int64_t id = ++last_id_;
  json message = {{"id", id}, {"method", method}, {"params", params}};
  if (!session_.empty()) message["sessionId"] = session_;
  const std::string text = message.dump() + '\0';
  for (size_t sent = 0; sent < text.size();) {
    const ssize_t n = write(to_, text.data() + sent, text.size() - sent);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      Fail("it reads no more");
      return json::object();
    }
    sent += static_cast<size_t>(n);
  }
  while (ok_) {
    const json answer = Read();
    if (!answer.is_object()) continue;
    if (!answer.contains("id")) Note(answer);
    else if (answer["id"] == id) {
      if (answer.contains("error")) Fail(fmt::format("{}: {}", method, answer["error"].dump()));
      return answer.value("result", json::object());
    }
  }
  return json::object();
}

void Browser::SetSize(int width, int height, bool dark) {
  Call("Emulation.setDeviceMetricsOverride",
       {{"width", width}, {"height", height}, {"deviceScaleFactor", 1}, {"mobile", false}});
  Call("Emulation.setEmulatedMedia",
       {{"features", json::array({{{"name", "prefers-color-scheme"}, {"value", dark ? "dark" : "light"}}})}});
}

void Browser::ShowScrollbars(bool shown) { Call("Emulation.setScrollbarsHidden", {{"hidden", !shown}}); }

void Browser::Open(const std::string& path) {
  url_ = "file://" + std::filesystem::absolute(path).lexically_normal().string();
  errors_.clear();
  requests_.clear();
  const json result = Call("Page.navigate", {{"url", url_}});
  if (result.contains("errorText")) Fail(fmt::format("{}: {}", url_, result["errorText"].dump()));
  // Each navigation has its own loader. The loader of the blank page before may still report.
  const std::string loader = result.value("loaderId", "");
  while (ok_ && !loaded_.contains(loader)) {
    const json event = Read();
    if (event.is_object()) Note(event);
  }
}

json Browser::Evaluate(std::string_view expression) {
  const json result =
      Call("Runtime.evaluate", {{"expression", expression}, {"returnByValue", true}, {"awaitPromise", true}});
  if (result.contains("exceptionDetails")) {
    ADD_FAILURE() << expression << ": " << result["exceptionDetails"].dump();
    return nullptr;
  }
  return result.contains("result") ? result["result"].value("value", json()) : json();
}

void Browser::Click(const std::string& selector) {
  // Scrolled content is drawn after two frames.
  const json at = Evaluate(fmt::format(
      "(async () => {{ const find = () => document.querySelector({0}); if (!find()) return null;"
      "  find().scrollIntoView({{block: 'center', inline: 'center'}});"
      "  for (let i = 0; i < 2; ++i) await new Promise(requestAnimationFrame);"
      "  const box = find().getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; }})()",
      json(selector).dump()));
  if (!at.is_array()) {
    ADD_FAILURE() << "there is no " << selector;
    return;
  }
  for (const char* type : {"mousePressed", "mouseReleased"})
    Call("Input.dispatchMouseEvent",
         {{"type", type}, {"x", at[0]}, {"y", at[1]}, {"button", "left"}, {"clickCount", 1}});
}

void Browser::Press(const std::string& key) {
  const int code = key == "Enter" ? 13 : key == "Escape" ? 27 : 9;
  for (const char* type : {"keyDown", "keyUp"}) {
    json params = {{"type", type}, {"key", key}, {"code", key}, {"windowsVirtualKeyCode", code}};
    if (key == "Enter" && params["type"] == "keyDown") params["text"] = "\r";
    Call("Input.dispatchKeyEvent", params);
  }
}

std::string Browser::Screenshot() {
  return FromBase64(Call("Page.captureScreenshot", {{"format", "png"}}).value("data", ""));
}

}  // namespace meshwork
