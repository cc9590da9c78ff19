// The text that stands for bytes in the vocabulary of a byte-level tokenizer. Each byte is one character: a printable one of
// Latin-1 is itself, and the other 68 are U+0100 to U+0143 in order (Radford et al., "Language models are unsupervised
// multitask learners", 2019, section 2.2, and the code published with it).
//
//   BytesOf("Ġis")      // " is"
//   BytesOf("Ã©")       // "é", whose bytes are c3 a9
//   BytesOf("日")       // nothing: no byte is this character
//
// Pure functions; thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace meshwork {

// The bytes for which `text` stands; nothing if one of its characters is that of no byte. REQUIRES: `text` is UTF-8.
std::optional<std::string> BytesOf(std::string_view text);

}  // namespace meshwork
