// A text to train on, made by a small grammar: owned by nobody, and the same on every machine.
#pragma once

#include <cstdint>
#include <string>

namespace meshwork {

// This many bytes of short English sentences in paragraphs. There is something to learn at every distance:
// letters make words, words make sentences, and a paragraph is about one person.
std::string SyntheticText(int64_t bytes, uint64_t seed);

}  // namespace meshwork
