#include "meshwork/base/quote.h"

#include <algorithm>
#include <cstddef>

#include "fmt/format.h"
#include "meshwork/base/utf8.h"

namespace meshwork {
namespace {

constexpr size_t kMostShown = 200;

// C0 and DEL in one byte, C1 in two. REQUIRES: `character` is one of UTF-8.
bool IsControl(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) return first < 0x20 || first == 0x7F;
  return character.size() == 2 && first == 0xC2 && static_cast<unsigned char>(character[1]) < 0xA0;
}

// The character at the start of `text` as JSON writes it. `size`: its bytes; 0 if the text starts with no character.
std::string Escaped(std::string_view text, size_t size) {
  if (size == 0) return "\\ufffd";
  const std::string_view character = text.substr(0, size);
  switch (character[0]) {
    case '\n': return "\\n";
    case '\r': return "\\r";
    case '\t': return "\\t";
    case '"': return "\\\"";
    case '\\': return "\\\\";
    default: break;
  }
  if (!IsControl(character)) return std::string(character);
  return fmt::format("\\u{:04x}", static_cast<unsigned char>(character.back()));
}

bool IsPlain(std::string_view text) {
  while (!text.empty()) {
    const size_t size = Utf8Size(text);
    if (size == 0 || IsControl(text.substr(0, size))) return false;
    text.remove_prefix(size);
  }
  return true;
}

}  // namespace

std::string Quoted(std::string_view text) {
  const bool is_plain = IsPlain(text);
  std::string shown = "\"";
  while (!text.empty()) {
    const size_t size = Utf8Size(text);
    const std::string next = is_plain && size > 0 ? std::string(text.substr(0, size)) : Escaped(text, size);
    if (shown.size() + next.size() > kMostShown) return shown + "...\"";
    shown += next;
    text.remove_prefix(std::max<size_t>(size, 1));
  }
  return shown + "\"";
}

std::string Printable(std::string_view text) {
  return !text.empty() && IsPlain(text) ? std::string(text) : Quoted(text);
}

std::string PrintableLines(std::string_view message) {
  std::string shown;
  while (!message.empty()) {
    const size_t size = Utf8Size(message);
    const bool stays =
        size > 0 && (message[0] == '\n' || message[0] == '\t' || !IsControl(message.substr(0, size)));
    shown += stays ? std::string(message.substr(0, size)) : Escaped(message, size);
    message.remove_prefix(std::max<size_t>(size, 1));
  }
  return shown;
}

}  // namespace meshwork
