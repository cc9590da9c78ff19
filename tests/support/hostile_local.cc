// DrawHostileLocal of support/hostile_program.h.
#include <cctype>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "meshwork/ir/row.h"
#include "support/hostile_chance.h"
#include "support/hostile_program.h"

namespace meshwork {
namespace {

struct Piece {
  size_t begin, size;
};

bool IsNameCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) ||
         std::string_view("_./-").find(c) != std::string_view::npos;
}

// The places of all numbers, values (%x) or layouts ({x,_}) in the text.
std::vector<Piece> PiecesOf(const std::string& text, char kind) {
  std::vector<Piece> pieces;
  const size_t from = text.find('{');
  for (size_t i = text.find('('); i < text.size(); ++i) {
    size_t end = i;
    if (kind == '0' && std::isdigit(static_cast<unsigned char>(text[i])) && !IsNameCharacter(text[i - 1]) &&
        text[i - 1] != '%') {
      while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end]))) ++end;
    } else if (kind == '%' && text[i] == '%') {
      ++end;
      while (end < text.size() && IsNameCharacter(text[end])) ++end;
    } else if (kind == '{' && text[i] == '{' && i != from) {
      end = text.find('}', i) + 1;
      if (end == 0 || text.substr(i, end - i).find('\n') != std::string::npos) end = i;
    }
    if (end > i) {
      pieces.push_back({i, end - i});
      i = end - 1;
    }
  }
  return pieces;
}

}  // namespace

std::string DrawHostileLocal(const std::string& text, uint64_t seed) {
  HostileChance chance(seed);
  std::string changed = text;
  for (int times = 1 + chance.Below(3); times > 0; --times) {
    const int what = chance.Below(10);
    if (what < 2) {  // a line is dropped, or doubled
      const size_t at =
          changed.find('\n', static_cast<size_t>(chance.Below(static_cast<int>(changed.size()))));
      const size_t end = at == std::string::npos ? at : changed.find('\n', at + 1);
      if (end == std::string::npos) continue;
      changed.erase(at, end - at);
      continue;
    }
    if (what < 3) {  // another op
      const size_t at =
          changed.find(" = ", static_cast<size_t>(chance.Below(static_cast<int>(changed.size()))));
      if (at == std::string::npos) continue;
      const size_t end = changed.find_first_of(" \n", at + 3);
      if (end == std::string::npos) continue;
      changed.replace(at + 3, end - at - 3, chance.Of(AllOps())->name);
      continue;
    }
    const char kind = what < 6 ? '0' : what < 8 ? '%' : '{';
    const std::vector<Piece> pieces = PiecesOf(changed, kind);
    if (pieces.empty()) continue;
    const Piece at = chance.Of(pieces), other = chance.Of(pieces);
    changed.replace(at.begin, at.size,
                    kind == '0' && chance.Percent(60) ? fmt::format("{}", chance.Number())
                                                      : changed.substr(other.begin, other.size));
  }
  return changed;
}

}  // namespace meshwork
