// Every CUDA kernel computes what the row's CPU kernel computes, played on the CPU (support/cuda_player.h).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "meshwork/base/status.h"
#include "meshwork/ops/kernels/blas/cpu_kernels.h"
#include "meshwork/ops/kernels/cuda/families.h"
#include "ops/kernels/cuda/trials.h"
#include "support/cuda_player.h"
#include "support/long_tests.h"

namespace meshwork::contract_test {
namespace {

using ::testing::IsEmpty;

// Every row that computes on a device. Rows that are notes for the compiler do not.
std::vector<const OpRow*> ComputingRows() {
  std::vector<const OpRow*> rows;
  for (const OpRow* row : AllOps())
    if (CpuKernelOf(*row) != nullptr && row->kind != OpKind::kIdentity) rows.push_back(row);
  return rows;
}
// The trials of all rows, compiled together: the first trial of each row, and half of the others, or all in long tests.
struct Trials {
  std::map<const OpRow*, std::vector<CudaTrial>> by_row;
  absl::StatusOr<std::unique_ptr<PlayedKernels>> kernels;

  static Trials& All() {
    static auto* const all = new Trials(Make());
    return *all;
  }

 private:
  static Trials Make() {
    Trials trials;
    std::vector<CudaKernel> kernels;
    std::mt19937_64 engine(1);
    const auto many = static_cast<uint64_t>(EverySo(2));
    for (const OpRow* row : RowsWithCudaKernels()) {
      std::vector<CudaTrial>& chosen = trials.by_row[row];
      for (CudaTrial& trial : TrialsOf(*row))
        if (const bool is_drawn = engine() % many == 0; is_drawn || chosen.empty())
          chosen.push_back(std::move(trial));
      for (const CudaTrial& trial : chosen) kernels.push_back(trial.kernel);
    }
    trials.kernels = PlayCuda(CudaSourceOf(kernels));
    return trials;
  }
};

class CudaKernelTest : public testing::TestWithParam<const OpRow*> {};

TEST_P(CudaKernelTest, ComputesWhatTheCpuKernelDoes) {
  Trials& all = Trials::All();
  ASSERT_TRUE(all.kernels.ok()) << all.kernels.status();
  const std::vector<CudaTrial>& trials = all.by_row.at(GetParam());
  ASSERT_FALSE(trials.empty());
  for (const CudaTrial& trial : trials) {
    const std::vector<Bytes> expected = RunOnCpu(trial);
    std::vector<Bytes> first;
    for (const uint64_t seed : {1, 2, 3}) {
      (*all.kernels)->set_seed(seed);
      const absl::StatusOr<std::vector<Bytes>> found = RunPlayed(**all.kernels, trial);
      ASSERT_TRUE(found.ok()) << found.status() << "\n" << trial.kernel.source;
      if (seed == 1) {
        first = *found;
        const std::string difference = DifferenceOf(trial, expected, *found, IsExactOnCuda(*GetParam()));
        EXPECT_EQ(difference, "") << trial.kernel.source;
        if (!difference.empty()) break;
      } else {
        EXPECT_TRUE(*found == first) << trial.name << " depends on the order of threads\n"
                                     << trial.kernel.source;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, CudaKernelTest, testing::ValuesIn(RowsWithCudaKernels()),
                         [](const auto& info) { return std::string(info.param->name); });

// A new row without a CUDA kernel is listed here until it has one.
TEST(CudaKernelsTest, EveryRowThatComputesHasOne) {
  std::vector<std::string_view> without;
  for (const OpRow* row : ComputingRows())
    if (!HasCudaKernel(*row)) without.push_back(row->name);
  EXPECT_THAT(without, IsEmpty());
}

TEST(CudaKernelsTest, EveryGeneratorIsOfARowThatComputes) {
  // The first two are ops of lowered loops (runtime/plan/loop.cc), which belong to no family; tests/cuda_backend tests
  // them.
  std::set<std::string_view> names = {"loop_slice", "loop_store"}, generated;
  for (const OpRow* row : ComputingRows()) names.insert(row->name);
  for (const cuda::Generator& generator : cuda::AllGenerators()) {
    EXPECT_TRUE(names.contains(generator.op)) << generator.op;
    EXPECT_TRUE(generated.insert(generator.op).second) << generator.op << " stands twice";
  }
  for (const OpRow* row : ComputingRows())
    EXPECT_FALSE(IsCudaChainOp(*row) && generated.contains(row->name)) << row->name << " has both";
}

}  // namespace
}  // namespace meshwork::contract_test
