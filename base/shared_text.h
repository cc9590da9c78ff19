// SharedText: an immutable text whose copies share its memory.
//
//   SharedText file = "transformer.cc";
//   SharedText same = file;               // allocates nothing
//   EXPECT_EQ(same, "transformer.cc");    // reads as a std::string or a std::string_view
//
// For texts that many objects have in common, such as the file of a source location. To change one, assign
// another.
//
// Thread safety: that of std::shared_ptr. Copies of one text may be used in several threads.
#pragma once

#include <concepts>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "fmt/format.h"

namespace meshwork {

class SharedText {
 public:
  // The empty text, which allocates nothing.
  SharedText() = default;
  SharedText(std::string text)  // NOLINT: implicit, as std::string itself is made
      : text_(text.empty() ? nullptr : std::make_shared<const std::string>(std::move(text))) {}
  SharedText(std::string_view text) : SharedText(std::string(text)) {}  // NOLINT
  SharedText(const char* text) : SharedText(std::string_view(text)) {}  // NOLINT

  // Valid while a copy of this text exists: not beyond a temporary.
  const std::string& str() const { return text_ == nullptr ? Empty() : *text_; }
  operator const std::string&() const { return str(); }  // NOLINT
  operator std::string_view() const { return str(); }    // NOLINT
  const char* c_str() const { return str().c_str(); }
  bool empty() const { return text_ == nullptr; }

  friend bool operator==(const SharedText& a, const SharedText& b) {
    return a.text_ == b.text_ || a.str() == b.str();
  }
  template <typename T>
  requires(std::convertible_to<const T&, std::string_view> && !std::same_as<T, SharedText>) friend bool
  operator==(const SharedText& a, const T& b) {
    return std::string_view(a) == std::string_view(b);
  }

 private:
  static const std::string& Empty() {
    static const auto* const empty = new std::string;
    return *empty;
  }

  std::shared_ptr<const std::string> text_;  // null: empty
};

}  // namespace meshwork

template <>
struct fmt::formatter<meshwork::SharedText> : fmt::formatter<std::string_view> {
  template <typename Context>
  auto format(const meshwork::SharedText& text, Context& context) const {
    return fmt::formatter<std::string_view>::format(text.str(), context);
  }
};
