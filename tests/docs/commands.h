// Checks the lines of `sh` blocks: commands that a reader is told to type.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace meshwork::docs {

// The inputs of the check: the repository, and the example whose flags the pages name.
struct CommandContext {
  std::filesystem::path root;
  std::string mlp_mnist;  // path of the program
  std::string scratch;    // prefix for files that a command's output may go to
};

// Every line is a command whose words are known: one of ./dev with a command that it lists, the example with
// flags that its help has, a launcher with such a program, cmake or ctest with a preset that there is, a package
// manager with names of packages. What follows " # " is a comment; NAME=value before a command, `cd FOLDER` and
// lines ended by a backslash are as in a shell. Returns what is wrong, or "".
std::string CheckCommands(std::string_view text, const CommandContext& context);

}  // namespace meshwork::docs
