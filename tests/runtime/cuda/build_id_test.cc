#include "meshwork/runtime/cuda/build_id.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace meshwork::build_id_test {
namespace {

using ::testing::MatchesRegex;

std::string OfSymbol(const char* library, const char* symbol) {
  void* const opened = dlopen(library, RTLD_NOW);
  return opened == nullptr ? "" : BuildIdOf(dlsym(opened, symbol));
}

TEST(BuildIdTest, IsThatOfTheLibrary) {
  const std::string c = OfSymbol("libc.so.6", "fopen"), math = OfSymbol("libm.so.6", "cos");
  if (c.empty()) GTEST_SKIP() << "this system's libraries have none";
  EXPECT_THAT(c, MatchesRegex("[0-9a-f]+"));
  EXPECT_EQ(OfSymbol("libc.so.6", "fclose"), c);
  EXPECT_NE(math, c);
}

TEST(BuildIdTest, NothingHasNone) {
  int local = 0;
  EXPECT_EQ(BuildIdOf(nullptr), "");
  EXPECT_EQ(BuildIdOf(&local), "");
}

}  // namespace
}  // namespace meshwork::build_id_test
