// The contract that every row keeps, for all its samples: inference agrees with the kernel, the text form is read
// back, and the sharding rule accepts exactly the placements that are right (tools/check/kernel_trial.h).
// contract/compiled_test.cc compiles and runs every placement of every letter.
#include <string>
#include <vector>

#include "contract/exceptions.h"
#include "contract/row_test.h"
#include "contract/tally.h"
#include "gmock/gmock.h"
#include "meshwork/ir/text.h"
#include "meshwork/ops/kernels/blas/cpu_kernels.h"
#include "meshwork/tools/check/kernel_trial.h"
#include "meshwork/tools/check/run_kernel.h"
#include "support/read_back.h"
#include "support/sample.h"

namespace meshwork::contract_test {
namespace {

using testing::IsEmpty;

class ContractTest : public RowTest {};

TEST_P(ContractTest, HasSamplesThatParse) {
  EXPECT_FALSE(row().samples.empty());
  for (std::string_view text : row().samples) {
    const absl::StatusOr<Sample> sample = ParseSample(row(), text);
    EXPECT_TRUE(sample.ok()) << sample.status();
  }
  EXPECT_NE(CpuKernelOf(row()), nullptr);
  EXPECT_NE(row().rule, nullptr);
}

TEST_P(ContractTest, KernelFillsTheInferredResults) {
  for (const Sample& sample : Samples()) EXPECT_EQ(TryWholeKernel(sample), absl::OkStatus());
}

TEST_P(ContractTest, TextReadsBack) {
  for (std::string_view text : row().samples) {
    const absl::StatusOr<Graph> graph = ParseGraph(ProgramText(row(), text));
    ASSERT_TRUE(graph.ok()) << graph.status();
    EXPECT_EQ(ReadBackError(*graph), "");
  }
}

TEST_P(ContractTest, RuleAcceptsWhatIsRight) {
  std::vector<std::string> texts;
  for (const Sample& sample : Samples()) {
    for (int64_t devices : {2, 3}) {
      std::vector<KernelFinding> findings;
      TheTally().placements += TryKernel(EvenSample(sample, devices), devices, findings);
      for (const KernelFinding& finding : findings) {
        if (IsMissingByDesign(row(), finding)) continue;
        ++(finding.is_wrong ? TheTally().wrong : TheTally().missing);
        texts.push_back(finding.text);
      }
    }
  }
  TheTally().rows.insert(row().name);
  EXPECT_THAT(texts, IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Rows, ContractTest, testing::ValuesIn(RowsUnderContract()),
                         [](const auto& info) { return std::string(info.param->name); });

}  // namespace
}  // namespace meshwork::contract_test
