#include "examples/llama/regex.h"

#include <array>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "examples/llama/utf8.h"
#include "meshwork/base/quote.h"
#include "meshwork/base/status.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace meshwork {
namespace {

constexpr uint32_t kMaxSteps = 10'000'000;

// Unicode's property White_Space, and all else. PCRE2's own \s has U+180E, too.
constexpr std::string_view kSpace =
    R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view kNoSpace =
    R"(\x{0}-\x{8}\x{e}-\x{1f}\x{21}-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff})"
    R"(\x{200b}-\x{2027}\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff})";

// Escapes of letters and digits that mean the same in both syntaxes.
constexpr std::string_view kSharedEscapes = "dDpPnrtfx";

absl::Status Refused(std::string_view pattern, std::string_view what) {
  return absl::UnimplementedError(fmt::format(
      "the pattern {} has {}, which is not supported; the escapes \\s, \\S, \\d, \\D, \\p, \\P, \\n, \\r, \\t, \\f "
      "and \\x are, and classes without classes in them.",
      Quoted(pattern), what));
}

// The pattern for PCRE2.
absl::StatusOr<std::string> Translate(std::string_view pattern) {
  std::string translated;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    const char next = i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (c == '\\' && (next == 's' || next == 'S')) {
      const std::string_view members = next == 's' ? kSpace : kNoSpace;
      translated += in_class ? std::string(members) : fmt::format("[{}]", members);
      ++i;
    } else if (c == '\\') {
      if (absl::ascii_isalnum(static_cast<unsigned char>(next)) &&
          kSharedEscapes.find(next) == std::string_view::npos)
        return Refused(pattern, fmt::format("\\{}", next));
      translated += pattern.substr(i, 2);
      ++i;
    } else if (in_class) {
      if (c == '[') return Refused(pattern, "[ in a class");
      if (c == '&' && next == '&') return Refused(pattern, "&& in a class");
      translated += c;
      in_class = c != ']';
    } else {
      translated += c;
      in_class = c == '[';
      if (!in_class) continue;
      // A ] that comes first does not end the class.
      if (next == '^') translated += pattern[++i];
      if (i + 1 < pattern.size() && pattern[i + 1] == ']') translated += pattern[++i];
    }
  }
  return translated;
}

PCRE2_SPTR Units(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

struct CodeFree {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  void operator()(pcre2_compile_context* context) const { pcre2_compile_context_free(context); }
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
template <typename T>
using Owned = std::unique_ptr<T, CodeFree>;

struct Range {
  size_t begin, end;
};

}  // namespace

struct Regex::Code {
  Owned<pcre2_code> code;
  Owned<pcre2_match_context> context;

  // The first match at or after `from`. Nothing if there is none, or if it takes too many steps.
  std::optional<Range> Match(std::string_view text, size_t from, pcre2_match_data* data) const {
    // The text is known to be UTF-8. To check it for each match would take quadratic time.
    const auto match = [&](uint32_t options) {
      return pcre2_match(code.get(), Units(text), text.size(), from, PCRE2_NO_UTF_CHECK | options, data,
                         context.get());
    };
    int found = match(0);
    // The interpreter keeps its stack on the heap, with room for more.
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) found = match(PCRE2_NO_JIT);
    if (found < 0) return std::nullopt;
    const size_t* const ends = pcre2_get_ovector_pointer(data);
    return Range{ends[0], ends[1]};
  }
};

absl::StatusOr<Regex> Regex::Compile(std::string_view pattern) {
  MESHWORK_ASSIGN_OR_RETURN(const std::string translated, Translate(pattern));
  const Owned<pcre2_compile_context> compile(pcre2_compile_context_create(nullptr));
  pcre2_set_newline(compile.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  size_t place = 0;
  // In Oniguruma's syntax, ^ and $ are at the ends of lines.
  Owned<pcre2_code> code(pcre2_compile(Units(translated), translated.size(),
                                       PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                                       &error, &place, compile.get()));
  if (code == nullptr) {
    std::array<PCRE2_UCHAR, 256> text{};
    pcre2_get_error_message(error, text.data(), text.size());
    return InvalidArgument("the pattern {} is no regular expression: {}.", Quoted(pattern),
                           reinterpret_cast<const char*>(text.data()));
  }
  // Where the system allows no code to be made, the pattern is interpreted.
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
  Owned<pcre2_match_context> context(pcre2_match_context_create(nullptr));
  pcre2_set_match_limit(context.get(), kMaxSteps);
  return Regex(std::make_shared<const Code>(Code{std::move(code), std::move(context)}));
}

void Regex::Cut(std::string_view text, std::vector<std::string>& pieces) const {
  const Owned<pcre2_match_data> data(pcre2_match_data_create(1, nullptr));
  const auto add = [&](size_t begin, size_t end) {
    if (begin < end) pieces.emplace_back(text.substr(begin, end - begin));
  };
  size_t done = 0;  // the end of the pieces so far
  bool has_match = false;
  for (size_t from = 0; from <= text.size();) {
    const std::optional<Range> match = code_->Match(text, from, data.get());
    if (!match.has_value()) break;
    if (match->begin == match->end && match->end == done && has_match) {
      // An empty match right after another one: the search goes on behind the next character.
      from = done < text.size() ? done + CharacterSize(text.substr(done)) : done + 1;
      continue;
    }
    add(done, match->begin);
    add(match->begin, match->end);
    done = from = match->end;
    has_match = true;
  }
  add(done, text.size());
}

}  // namespace meshwork
