#include "meshwork/base/text_error.h"

#include <algorithm>

#include "meshwork/base/status.h"
#include "meshwork/base/utf8.h"

namespace meshwork {
namespace {

constexpr size_t kShownBefore = 140, kShownAfter = 140;   // bytes of a line around the place
constexpr size_t kMessageHead = 600, kMessageTail = 300;  // bytes of a message that quotes a long text

bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

bool IsControl(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

struct Printable {
  std::string text;
  size_t columns = 0;
};

Printable MakePrintable(std::string_view raw) {
  Printable shown;
  while (!raw.empty()) {
    const size_t size = Utf8Size(raw);
    if (raw[0] == '\t' || raw[0] == '\n' || raw[0] == '\r') shown.text += ' ';
    else if (size == 0 || IsControl(raw[0])) shown.text += '?';
    else shown.text += raw.substr(0, size);
    ++shown.columns;
    raw.remove_prefix(std::max<size_t>(size, 1));
  }
  return shown;
}

std::string MessageText(std::string_view message) {
  if (message.size() <= kMessageHead + kMessageTail) return MakePrintable(message).text;
  return MakePrintable(message.substr(0, kMessageHead)).text + " ... " +
         MakePrintable(message.substr(message.size() - kMessageTail)).text;
}

// The line from `begin`, cut around `at`, and below it the caret.
std::string Excerpt(std::string_view text, size_t begin, size_t at) {
  size_t end = std::min(text.find('\n', begin), text.size());
  if (end > at && text[end - 1] == '\r') --end;
  std::string_view before_mark, after_mark;
  if (at - begin > kShownBefore) {
    begin = at - kShownBefore;
    while (begin < at && IsContinuation(text[begin])) ++begin;
    before_mark = "...";
  }
  if (end > at && end - at > kShownAfter) {
    end = at + kShownAfter;
    while (end > at && IsContinuation(text[end])) --end;
    after_mark = "...";
  }
  const Printable before = MakePrintable(text.substr(begin, at - begin));
  const Printable after = MakePrintable(text.substr(at, std::max(end, at) - at));
  return fmt::format("  {}{}{}{}\n  {:>{}}", before_mark, before.text, after.text, after_mark, '^',
                     before_mark.size() + before.columns + 1);
}

}  // namespace

absl::Status ErrorAt(std::string_view text, std::string_view file, size_t at, std::string_view message) {
  at = std::min(at, text.size());
  const std::string_view before = text.substr(0, at);
  const size_t newline = before.rfind('\n');
  const size_t begin = newline == std::string_view::npos ? 0 : newline + 1;
  return InvalidArgument("{}:{}:{}: {}\n{}", file, std::count(before.begin(), before.end(), '\n') + 1,
                         at - begin + 1, MessageText(message), Excerpt(text, begin, at));
}

std::string CharacterAt(std::string_view text, size_t at) {
  if (at >= text.size()) return "the end";
  const size_t size = Utf8Size(text.substr(at));
  if (size == 0 || IsControl(text[at]))
    return fmt::format("byte 0x{:02x}", static_cast<unsigned char>(text[at]));
  return fmt::format("'{}'", text.substr(at, size));
}

}  // namespace meshwork
