// A text to train on, made by a small grammar: nobody's, and the same on every machine.
#pragma once

#include <cstdint>
#include <string>

namespace meshwork {

// So many bytes of short English sentences in paragraphs. They have something to learn at every distance:
// letters make words, words sentences, and who a paragraph is about stays the same.
std::string SyntheticText(int64_t bytes, uint64_t seed);

}  // namespace meshwork
