// The contract that every row keeps, for all its samples: inference agrees with the kernel, the text form
// reads back, and the sharding rule accepts exactly the placements that are right (direct.h); what the
// compiler and the runtime make of every placement of every letter is in contract/compiled_test.cc.
#include <string>
#include <vector>

#include "contract/direct.h"
#include "contract/host_tensor.h"
#include "contract/tally.h"
#include "gmock/gmock.h"
#include "support/read_back.h"
#include "support/sample.h"

namespace meshwork {
namespace {

using testing::IsEmpty;

class ContractTest : public testing::TestWithParam<const OpRow*> {
 protected:
  const OpRow& row() const { return *GetParam(); }
  std::vector<Sample> Samples() const {
    std::vector<Sample> samples;
    for (std::string_view text : row().samples) samples.push_back(ParseSample(row(), text).value());
    return samples;
  }
};

TEST_P(ContractTest, HasSamplesThatParse) {
  EXPECT_FALSE(row().samples.empty());
  for (std::string_view text : row().samples) {
    const absl::StatusOr<Sample> sample = ParseSample(row(), text);
    EXPECT_TRUE(sample.ok()) << sample.status();
  }
  EXPECT_NE(row().cpu, nullptr);
  EXPECT_NE(row().rule, nullptr);
}

// The kernel writes every element of the inferred types and none beyond, however its work is cut.
TEST_P(ContractTest, KernelFillsTheInferredResults) {
  for (const Sample& sample : Samples()) {
    Random random(7);
    std::vector<HostTensor> in;
    for (const Type& type : sample.operands) in.push_back(random.Draw(type, row()));
    const std::vector<HostTensor> whole = RunKernel(WholeCall(sample, in));
    const std::vector<HostTensor> cut = RunKernel(WholeCall(sample, in), /*cuts=*/3, std::byte{0x5a});
    for (size_t i = 0; i < whole.size(); ++i) EXPECT_EQ(whole[i].values, cut[i].values) << sample.ToString();
  }
}

TEST_P(ContractTest, TextReadsBack) {
  for (std::string_view text : row().samples) {
    const absl::StatusOr<Graph> graph = ParseGraph(ProgramText(row(), text));
    ASSERT_TRUE(graph.ok()) << graph.status();
    EXPECT_EQ(ReadBackError(*graph), "");
  }
}

// The sample with every letter's size a multiple of `devices`, as far as it goes.
Sample Even(const Sample& sample, int64_t devices) {
  Sample even = sample;
  const size_t letters = sample.rule().letters.size();
  for (size_t l = 0; l < letters; ++l) {
    std::vector<int64_t> sizes;
    for (const Letter& letter : even.rule().letters) sizes.push_back(letter.size);
    if (sizes[l] % devices != 0) sizes[l] *= devices;
    if (std::optional<Sample> resized = Resize(even, sizes)) even = *std::move(resized);
  }
  return even;
}

TEST_P(ContractTest, RuleAcceptsWhatIsRight) {
  std::vector<std::string> findings;
  for (const Sample& sample : Samples())
    for (int64_t devices : {2, 3}) DirectTrial(Even(sample, devices), devices).Run(findings);
  TheTally().rows.insert(row().name);
  EXPECT_THAT(findings, IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Rows, ContractTest, testing::ValuesIn(RowsUnderContract()),
                         [](const auto& info) { return std::string(info.param->name); });

}  // namespace
}  // namespace meshwork
