#include "meshwork/base/cpu_dispatch.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace meshwork::cpu_dispatch_test {
namespace {

// Restores the CPU level after each test.
class CpuDispatchTest : public ::testing::Test {
 protected:
  CpuDispatchTest() : before_(UsedCpuLevel()) {}
  ~CpuDispatchTest() override { UseCpuLevel(before_); }

 private:
  const CpuLevel before_;
};

TEST_F(CpuDispatchTest, UsesTheBestUnlessTold) { EXPECT_EQ(UsedCpuLevel(), BestCpuLevel()); }

TEST_F(CpuDispatchTest, EachLevelGivesTheSameBitsWhereverTheLoopIsCut) {
  constexpr size_t kSize = 1003;
  std::mt19937 random(1);
  std::vector<float> x(kSize), y(kSize);
  for (size_t i = 0; i < kSize; ++i) {  // any bits: infinities and denormals too
    x[i] = std::bit_cast<float>(static_cast<uint32_t>(random()));
    y[i] = std::bit_cast<float>(static_cast<uint32_t>(random()));
  }
  auto run = [&](std::vector<float>& out, size_t begin, size_t end) {
    RunOnThisCpu([&] {
      for (size_t i = begin; i < end; ++i) {
        const float root = std::sqrt(x[i] > 0 ? x[i] : 0.5f);
        out[i] = x[i] * y[i] + root / (y[i] * y[i] + 0.1f);
      }
    });
  };
  UseCpuLevel(CpuLevel::kBaseline);
  std::vector<float> expected(kSize);
  run(expected, 0, kSize);
  for (int level = 0; level <= static_cast<int>(BestCpuLevel()); ++level) {
    UseCpuLevel(static_cast<CpuLevel>(level));
    for (const size_t cut : {size_t{0}, size_t{1}, size_t{15}, size_t{16}, size_t{500}, size_t{1002}}) {
      std::vector<float> out(kSize);
      run(out, 0, cut);
      run(out, cut, kSize);
      for (size_t i = 0; i < kSize; ++i) {
        if (std::isnan(expected[i])) ASSERT_TRUE(std::isnan(out[i]));
        else
          ASSERT_EQ(std::bit_cast<uint32_t>(out[i]), std::bit_cast<uint32_t>(expected[i]))
              << CpuLevelName(static_cast<CpuLevel>(level)) << " cut at " << cut << ", element " << i;
      }
    }
  }
}

TEST(CpuDispatchDeathTest, ALevelThatTheCpuLacksIsABug) {
  if (BestCpuLevel() == CpuLevel::kV4) GTEST_SKIP() << "this CPU has all";
  EXPECT_DEATH(UseCpuLevel(CpuLevel::kV4), "this CPU has no v4");
}

}  // namespace
}  // namespace meshwork::cpu_dispatch_test
