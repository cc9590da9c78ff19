#include "spmd/compile.h"

#include <gtest/gtest.h>

#include "base/status.h"
#include "ops/text.h"

namespace meshwork {
namespace {

std::string CompileError(std::string_view text) {
  return std::string(MessageOf(Compile(ParseGraph(text).value()).status()));
}

TEST(CompileTest, RefusesAPinThatIsPartial) {
  EXPECT_EQ(CompileError("mesh [x=2]\nfunc f(%a: f32[4] {_ | sum:x}) {\n  %0 = tanh %a\n  return y=%0\n}\n"),
            "Compile: f32[4] is pinned as {_ | sum:x}; only whole values can be asked for.");
}

// Rotated pins that nobody agrees on: 12 letters, each with three offers.
TEST(CompileTest, ManyLettersAreDecidedWithoutTryingAllCombinations) {
  std::string mesh, shape, layouts[3];
  for (int i = 0; i < 12; ++i) {
    mesh += (i == 0 ? "" : ", ") + std::string(1, static_cast<char>('a' + i)) + "=2";
    shape += i == 0 ? "2" : ",2";
    for (int r = 0; r < 3; ++r)
      layouts[r] += (i == 0 ? "" : ",") + std::string(1, static_cast<char>('a' + (i + r) % 12));
  }
  const std::string text = fmt::format(
      "mesh [{0}]\nfunc f(%a: f32[{1}] {{{2}}}, %b: f32[{1}] {{{3}}}) {{\n  %0 = add %a, %b : f32[{1}] "
      "{{{4}}}\n  return y=%0\n}}\n",
      mesh, shape, layouts[0], layouts[1], layouts[2]);
  EXPECT_TRUE(Compile(ParseGraph(text).value()).ok());
}

}  // namespace
}  // namespace meshwork
