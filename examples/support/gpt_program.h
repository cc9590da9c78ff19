// The program that trains the transformer of gpt.h on the bytes of a text and lets it write.
#pragma once

#include <cstdint>
#include <string>

namespace meshwork {

struct GptProgram {
  std::string name, about;         // as --help shows them
  int64_t experts_per_device = 0;  // a default, which flags override
};

// Reads flags, trains, writes a text. Returns the exit code. If the input is wrong, it writes one line to
// standard error, touches no file, and returns 2.
int RunGptProgram(const GptProgram& program, int argc, const char* const* argv);

}  // namespace meshwork
