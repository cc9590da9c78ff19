// Declarations of all libFuzzer targets: fuzzer.cc calls these two functions, which each target defines.
//
//   text_fuzzer --prepare=DIR [-dict=DIR/words.dict] CORPUS DIR/samples …
//
// ./dev fuzz builds and runs them.
#pragma once

#include <filesystem>
#include <string_view>

namespace meshwork {

// Tries to read the text. Reports violations by Finding.
void Try(std::string_view text);

// Writes the initial corpus below `folder`: the folder `samples`, and a dictionary for some targets.
void Prepare(const std::filesystem::path& folder);

[[noreturn]] void Finding(std::string_view what, std::string_view detail);

}  // namespace meshwork
