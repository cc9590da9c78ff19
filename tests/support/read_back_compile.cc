// The checks of support/read_back.cc, for Compile: its input, and the result of each pass.
#include <atomic>

#include "gtest/gtest.h"
#include "meshwork/ir/text.h"
#include "meshwork/spmd/compile.h"
#include "support/read_back.h"

// NOLINTBEGIN(bugprone-reserved-identifier): the names are the linker's.
#define MESHWORK_COMPILE "_ZN8meshwork7CompileERKNS_5GraphERKNS_14CompileOptionsE"

namespace meshwork {

absl::StatusOr<Program> RealCompile(const Graph& global,
                                    const CompileOptions& options) asm("__real_" MESHWORK_COMPILE);
absl::StatusOr<Program> ObservedCompile(const Graph& global,
                                        const CompileOptions& options) asm("__wrap_" MESHWORK_COMPILE);
// NOLINTEND

namespace {

std::atomic<int> passes_seen = 0;  // tests compile on several threads

}  // namespace

absl::StatusOr<Program> ObservedCompile(const Graph& global, const CompileOptions& options) {
  ExpectReadsBack("a program to compile", global);
  CompileOptions observed = options;
  observed.dump = [&](std::string_view pass, const Graph& graph) {
    ++passes_seen;
    ExpectReadsBack("the program after the pass " + std::string(pass), graph);
    if (options.dump) options.dump(pass, graph);
  };
  return RealCompile(global, observed);
}

namespace {

TEST(ReadBackTest, SeesEveryPass) {
  const int before = passes_seen;
  const Program program = Compile(ParseGraph("mesh []\nfunc f() {\n}\n").value()).value();
  EXPECT_GT(passes_seen, before);
  EXPECT_LE(passes_seen - before, static_cast<int>(program.passes.size()));
}

}  // namespace
}  // namespace meshwork
