// The program that trains the transformer of gpt.h on the bytes of a text and lets it write.
#pragma once

#include <cstdint>
#include <string>

namespace meshwork {

struct GptProgram {
  std::string name, about;         // as --help says them
  int64_t experts_per_device = 0;  // unless flags say otherwise
};

// Reads flags, trains, writes. Returns the exit code: 2, after one line on standard error and with no file
// touched, where something about the input is wrong.
int RunGptProgram(const GptProgram& program, int argc, const char* const* argv);

}  // namespace meshwork
