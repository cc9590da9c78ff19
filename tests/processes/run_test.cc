// meshwork run, by several processes.
#include <string>

#include "gmock/gmock.h"
#include "meshwork/runtime/tensor/tensor.h"
#include "meshwork/storage/safetensors.h"
#include "processes/launched.h"
#include "runtime/plan/programs.h"
#include "support/tensors.h"

namespace meshwork::run_test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

using RunTest = LaunchedTest;

// Outputs and variables in blocks are gathered.
TEST_P(RunTest, WritesWhatOneProcessWrites) {
  File("program.mw",
       "mesh [batch=4]\n"
       "func f(%x: f64[7,4] {batch,_}, var %w: f64[4,6] {_,batch}) {\n"
       "  %y = matmul %x, %w : f64[7,6] {batch,_}\n"
       "  %total = reduce_sum %y dims=[0,1] : f64[]\n"
       "  %next = add %w, %w\n"
       "  update %w = %next\n"
       "  return y=%y, total=%total }\n");
  ASSERT_TRUE(
      WriteSafetensors(Path("inputs"), {{"x", Rough(Type{F64, {7, 4}})}, {"w", Rough(Type{F64, {4, 6}})}})
          .ok());
  auto args = [&](const std::string& outputs) -> std::vector<std::string> {
    return {"run",       Path("program.mw"), "--inputs",       Path("inputs"),
            "--outputs", Path(outputs),      "--deterministic"};
  };
  const Finished alone = Alone(MESHWORK, args("alone.st"));
  ASSERT_EQ(alone.code, 0) << alone.err;
  for (int processes : {2, 4}) {
    const Finished finished = Launch(processes, MESHWORK, args("launched.st"));
    ASSERT_EQ(finished.code, 0) << finished.err;
    EXPECT_TRUE(Contents(Path("launched.st")) == Contents(Path("alone.st"))) << processes << " processes";
    EXPECT_THAT(finished.out, HasSubstr(fmt::format("4 devices of {} processes\n", processes)));
    // The rest is printed, once, as by one process.
    EXPECT_EQ(finished.out.substr(finished.out.find("\ny: ")), alone.out.substr(alone.out.find("\ny: ")));
  }
}

TEST_P(RunTest, AMistakeEndsAll) {
  File("program.mw", "mesh [x=2]\nfunc f(%x: f32[4] {x}) { return %x }\n");
  const Finished finished = Launch(2, MESHWORK, {"run", Path("program.mw")});
  EXPECT_NE(finished.code, 0);
  EXPECT_THAT(finished.err, HasSubstr("--inputs is missing; the input %x: f32[4] needs a tensor."));
  EXPECT_THAT(LeftBehind(), IsEmpty());
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(RunTest);
INSTANTIATE_TEST_SUITE_P(Launchers, RunTest, testing::ValuesIn(Launchers()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace meshwork::run_test
