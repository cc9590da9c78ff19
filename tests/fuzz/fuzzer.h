// What the libFuzzer targets share: fuzzer.cc calls these two, which each target defines.
//
//   text_fuzzer --prepare=DIR [-dict=DIR/words.dict] CORPUS DIR/samples …
//
// ./dev fuzz builds and runs them.
#pragma once

#include <filesystem>
#include <string_view>

namespace meshwork {

// Reads the text; what must not be is a Finding.
void Try(std::string_view text);

// Writes what to start from below `folder`: its folder `samples`, and a dictionary where one helps.
void Prepare(const std::filesystem::path& folder);

[[noreturn]] void Finding(std::string_view what, std::string_view detail);

}  // namespace meshwork
