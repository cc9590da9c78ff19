// The library's cross-device ops are right, and CheckCrossDeviceOps finds what is wrong with others.
#include "meshwork/tools/check/check_cross_device.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/cpu/cross_device_ops.h"
#include "support/cross_device_ops.h"

namespace meshwork::check_cross_device_test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

std::string FindingsOf(CrossDeviceOps& ops) {
  const absl::StatusOr<CrossDeviceReport> report = CheckCrossDeviceOps(ops);
  return report.ok() ? "" : std::string(MessageOf(report.status()));
}

TEST(CheckCrossDeviceTest, TheLibrarysAreRight) {
  std::vector<std::shared_ptr<CrossDeviceOps>> all = {ReductionToOneDevice(), RingAllReduce()};
  for (const int64_t groups : {1, 2, 3, 8, 100}) all.push_back(HierarchicalCopyAllReduce(groups).value());
  for (const auto& ops : all) {
    const absl::StatusOr<CrossDeviceReport> report = CheckCrossDeviceOps(*ops);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_THAT(report->notes, IsEmpty());
    // For 7 dtypes and 6 counts: 4 reductions over n devices, in one call for all and 1, 2 or 3 for one of them, and n
    // broadcasts. Then 1 + (1, 2 or 3) calls with many elements.
    const int64_t roots = 1 + 2 + 6 * 3;  // over 1 to 8 devices
    EXPECT_EQ(report->cases, 7 * 6 * (4 * (8 + roots) + 36) + 8 + roots);
    EXPECT_EQ(report->ToString(), fmt::format("{}: {} calls are right\n", ops->name(), report->cases));
  }
}

TEST(CheckCrossDeviceTest, ARightOneIsSaidToBe) {
  BackwardsOps ops;
  EXPECT_EQ(FindingsOf(ops), "");
}

TEST(CheckCrossDeviceTest, DevicesThatGetNothingAreFound) {
  ForgetsTheLast last;
  EXPECT_THAT(FindingsOf(last),
              HasSubstr("forgets the last: broadcast of f32[1] from device 10 to 2 devices: "
                        "device 12 has other bytes."));
  KeepsToItself none;
  EXPECT_THAT(FindingsOf(none),
              HasSubstr("keeps to itself: sum of f32[1] over 2 devices: element 0 on device 12 is "));
}

// Wrong moves are found before any of them is made.
TEST(CheckCrossDeviceTest, WrongMovesAreFound) {
  EXPECT_EQ(FindingsOf(*MakeCrossDeviceOps(std::make_shared<BackwardsAlgorithm>())), "");
  using How = MistakenMoves::How;
  const auto expect = [](std::string_view function, const std::vector<How>& hows) {
    for (const How how : hows)
      EXPECT_THAT(FindingsOf(*MakeCrossDeviceOps(std::make_shared<MistakenMoves>(how))),
                  StartsWith(fmt::format("mistaken: {} of 1 element over 3 devices, from or to number 0: ",
                                         function)))
          << static_cast<int>(how);
  };
  expect("AllReduce", {How::kBeyond, How::kNoSource, How::kWritesTerm, How::kAddsItself, How::kRoom,
                       How::kNoDevice, How::kSameRound});
  expect("Reduce", {How::kOtherResult});
  expect("Broadcast", {How::kReadsTerm});
}

// check_replicas cannot find it, for all devices hold the same value.
TEST(CheckCrossDeviceTest, ATermThatIsLeftOutIsFound) {
  LeavesOneOut ops;
  const std::string findings = FindingsOf(ops);
  EXPECT_THAT(findings,
              StartsWith("leaves one out: sum of f32[1] over 2 devices: element 0 on device 10 is "));
  EXPECT_THAT(findings, HasSubstr("leaves one out: sum of f32[1] over 2 devices, for device 10: element 0"));
}

TEST(CheckCrossDeviceTest, FailuresAreFindings) {
  for (const auto how : {FailsOps::How::kStatus, FailsOps::How::kThrow, FailsOps::How::kThrowNumber}) {
    FailsOps ops(how);
    EXPECT_THAT(FindingsOf(ops), StartsWith("fails: sum of f32[0] over 1 device: "));
  }
}

// The full messages are in tests/errors/cross_device_check.txt.
TEST(CheckCrossDeviceTest, OtherMistakesAreFound) {
  using How = MistakenOps::How;
  for (const How how : {How::kNoName, How::kChangesTerms, How::kWritesBeyond, How::kBroadcastsBeyond,
                        How::kOtherOrder, How::kOtherBits, How::kOtherThread, How::kMaxAsSum}) {
    MistakenOps ops(how);
    EXPECT_THAT(FindingsOf(ops), Not(IsEmpty())) << static_cast<int>(how);
  }
}

// Implements only sums.
class SumsOnly : public BackwardsOps {
 public:
  std::string_view name() const override { return "sums only"; }
  absl::Status Reduce(const ReducePack& pack) override {
    if (pack.op != ReduceOp::kSum) return absl::UnimplementedError("sums only.");
    return BackwardsOps::Reduce(pack);
  }
};

TEST(CheckCrossDeviceTest, WhatIsNotImplementedIsANote) {
  SumsOnly ops;
  const absl::StatusOr<CrossDeviceReport> report = CheckCrossDeviceOps(ops);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->notes.size(), 3 * 7);
  EXPECT_THAT(report->ToString(), HasSubstr("\n  max of bf16 is not implemented\n"));
}

}  // namespace
}  // namespace meshwork::check_cross_device_test
