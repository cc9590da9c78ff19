// The messages that the library's sources can make, read from the sources: string literals, with wildcards
// for the arguments of fmt.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace meshwork {

// `Mesh: axis "{}" appears twice in {}; axis names must be unique.` as the texts between the holes.
struct MessagePattern {
  std::string where;  // "mesh/mesh.cc:62"
  std::string literal;
  std::vector<std::string> pieces;

  // Whether `text` holds the pieces, one after the other.
  bool Matches(std::string_view text) const;
};

// A message is a literal of two words or more that ends a sentence, wherever it stands, or a literal of at
// least four letters among the arguments of a function that makes errors. Checks of bugs (MESHWORK_CHECK) are
// left out, and lines of the log (Log of base/log.h), which are tested where they are logged.
std::vector<MessagePattern> MessagesOf(std::string_view file, std::string_view source);

// A literal and its holes: `{}`, `{:02x}`; `{{` is a brace.
std::vector<std::string> PiecesOf(std::string_view literal);

}  // namespace meshwork
