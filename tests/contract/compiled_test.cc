// One op, compiled and run on every placement of its letters and on random ones, gives the result of one device
// (tools/check/program_trial.h). MESHWORK_LONG_TESTS=1 takes all placements; without it, every nth.
#include <string>
#include <string_view>
#include <vector>

#include "contract/row_test.h"
#include "contract/tally.h"
#include "gmock/gmock.h"
#include "meshwork/tools/check/program_trial.h"
#include "support/long_tests.h"
#include "support/read_back.h"

namespace meshwork::compiled_test {
namespace {

using testing::IsEmpty;

// The meshes divide 12 evenly, but not 5 and 7; of 1, 3 and 5, some devices get nothing.
ProgramTrialOptions Options() {
  return {.meshes = {"x=2", "x=3", "x=4", "x=2,y=2", "x=2,y=3"},
          .sizes = {1, 3, 5, 7, 12},
          .random_placements = static_cast<int>(12 / EverySo(4)),
          .every = EverySo(4),
          .inspect = [](const Program& program) {
            const std::string error = ReadBackError(program.body);
            return error.empty() ? "" : "the local program does not read back: " + error;
          }};
}

class CompiledContractTest : public RowTest {};

TEST_P(CompiledContractTest, EveryPlacementGivesTheOneDeviceResult) {
  std::vector<std::string> findings;
  for (const Sample& sample : Samples()) TheTally().placements += TryPrograms(sample, Options(), findings);
  TheTally().wrong += std::ssize(findings);
  EXPECT_THAT(findings, IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Rows, CompiledContractTest, testing::ValuesIn(RowsUnderContract()),
                         [](const auto& info) { return std::string(info.param->name); });

}  // namespace
}  // namespace meshwork::compiled_test
