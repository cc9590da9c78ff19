#include "fuzz/fuzzer.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "fmt/format.h"

namespace meshwork {

void Finding(std::string_view what, std::string_view detail) {
  std::fputs(fmt::format("FINDING: {}\n{}\n", what, detail).c_str(), stderr);
  std::abort();
}

}  // namespace meshwork

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  constexpr std::string_view kPrepare = "--prepare=";
  for (int i = 1; i < *argc; ++i) {
    const std::string_view argument = (*argv)[i];
    if (argument.starts_with(kPrepare)) meshwork::Prepare(argument.substr(kPrepare.size()));
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  meshwork::Try({reinterpret_cast<const char*>(data), size});
  return 0;
}
