// CheckOp accepts a correct row, and names the mistake in a wrong one.
#include "meshwork/tools/check/check_op.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/ir/registry.h"
#include "support/swiglu.h"

namespace meshwork::check_op_test {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

std::string ErrorOf(const OpRow& row) {
  const absl::StatusOr<OpReport> report = CheckOp(row);
  return report.ok() ? "" : std::string(MessageOf(report.status()));
}

TEST(CheckOpTest, ARowThatIsRightIsSaidToBe) {
  const absl::StatusOr<OpReport> report = CheckOp(SwigluRow());
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_GT(report->placements, 100);
  EXPECT_GT(report->programs, 50);
  EXPECT_EQ(report->slopes, 2 * 24 + 2 * 5);
  EXPECT_THAT(report->notes, IsEmpty());
  EXPECT_THAT(report->ToString(), HasSubstr(" and 58 slopes are right\n"));
}

TEST(CheckOpTest, ItNeedNotBeRegisteredAndIsNotAfterwards) {
  ASSERT_TRUE(CheckOp(SwigluRow("never_registered")).ok());
  EXPECT_FALSE(FindOp("never_registered").ok());
}

TEST(CheckOpTest, RowsOfTheLibraryPass) {
  for (const char* name : {"matmul", "reduce_max", "slice", "gather", "iota"}) {
    const absl::StatusOr<OpReport> report = CheckOp(GetOp(name));
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_THAT(report->notes, Each(Not(HasSubstr("missing")))) << name;
  }
}

TEST(CheckOpTest, WhatTheRuleForgotIsNoted) {
  OpRow row = SwigluRow();
  row.rule = OpaqueRule;
  const absl::StatusOr<OpReport> report = CheckOp(row);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->notes, Each(HasSubstr("missing: swiglu ")));
  EXPECT_THAT(report->notes, testing::Contains(HasSubstr("{_}, {_ | sum:x} -> {_ | sum:x}")));
}

TEST(CheckOpTest, APassThatIsWrongIsNamed) {
  OpRow row = SwigluRow();
  row.rule = [](const OpView& view) { return ElementwiseRule(view, Linear(Which::kOne)); };
  EXPECT_THAT(ErrorOf(row), HasSubstr("{_,_ | sum:x}, {_,_} -> {_,_ | sum:x}"));
}

// The last dim is normalized as a whole.
OpRow SumRow() {
  OpRow row{.name = "over_sum",
            .doc = "x over the sum of its row",
            .infer = [](const OpView& view) -> absl::StatusOr<std::vector<Type>> { return view.operands; },
            .cpu =
                [](const KernelSpec& spec) {
                  const int64_t n = spec.operands[0].local.shape.back();
                  return Kernel{.run =
                                    [n](const KernelArgs& args) {
                                      for (int64_t i = args.begin; i < args.end; ++i) {
                                        const float* x = args.In<float>(0) + i * n;
                                        float sum = 0;
                                        for (int64_t j = 0; j < n; ++j) sum += x[j];
                                        for (int64_t j = 0; j < n; ++j)
                                          args.Out<float>(0)[i * n + j] = x[j] / sum;
                                      }
                                    },
                                .units = spec.operands[0].local.shape[0]};
                },
            .samples = {"f32[4,6]"},
            .sample_low = 1,
            .sample_high = 2};
  row.rule = [](const OpView& view) { return MakeRule("mn!->mn", view.operands, view.results); };
  return row;
}

TEST(CheckOpTest, ADimThatMustStayWholeIsNamed) {
  EXPECT_EQ(ErrorOf(SumRow()), "");
  OpRow cut = SumRow();
  cut.rule = [](const OpView& view) { return MakeRule("mn->mn", view.operands, view.results); };
  EXPECT_THAT(ErrorOf(cut),
              testing::StartsWith("CheckOp \"over_sum\": wrong: over_sum f32[4,6] -> f32[4,6] (sample "
                                  "\"f32[4,6]\"): {_,x} -> {_,x}"));
}

TEST(CheckOpTest, AGradientThatIsOffIsNamedByItsElement) {
  OpRow row = SwigluRow();
  row.grad = [](const GradView& view) {
    const Value &a = view.operands[0], &b = view.operands[1], &g = view.result_grads[0];
    return std::vector<Value>{g * b * Sigmoid(a), g * a * Sigmoid(a)};  // forgets the gate's own derivative
  };
  const std::string error = ErrorOf(row);
  EXPECT_THAT(error, HasSubstr("in f64: the gradient by element 0 of operand 0 is "));
  EXPECT_THAT(error, Not(HasSubstr("operand 1 is")));
}

TEST(CheckOpTest, WithoutF64TheGradientIsNotCompared) {
  OpRow row = SumRow();
  row.infer = [](const OpView& view) -> absl::StatusOr<std::vector<Type>> {
    if (view.operands[0].dtype != F32) return InvalidArgument("takes f32.");
    return view.operands;
  };
  row.grad = [](const GradView& view) { return std::vector<Value>{view.result_grads[0]}; };
  const absl::StatusOr<OpReport> report = CheckOp(row);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->notes, testing::Contains(HasSubstr("the gradient is not compared")));
}

TEST(CheckOpTest, AKernelThatTakesTheWholeForTheBlockIsNamed) {
  OpRow row = SwigluRow();
  row.cpu = [](const KernelSpec& spec) {
    const Type& whole = spec.results[0].global;
    return Kernel{.run = whole.dtype == F32 ? RunSwiglu<float> : RunSwiglu<double>,
                  .units = whole.num_elements()};
  };
  EXPECT_THAT(ErrorOf(row), HasSubstr("the kernel writes beyond result 0, "));
}

// The kernel is right on even blocks. Only a program has other blocks.
TEST(CheckOpTest, AKernelThatCountsPaddingIsNamedWithItsProgram) {
  OpRow row = SumRow();
  row.name = "count";
  row.infer = [](const OpView& view) -> absl::StatusOr<std::vector<Type>> {
    return std::vector<Type>{{F32, {view.operands[0].shape[0]}}};
  };
  row.rule = [](const OpView& view) { return MakeRule("mn->m", view.operands, view.results); };
  row.cpu = [](const KernelSpec& spec) {
    const auto n = static_cast<float>(spec.operands[0].local.shape[1]);
    return Kernel{.run =
                      [n](const KernelArgs& args) {
                        std::fill(args.Out<float>(0) + args.begin, args.Out<float>(0) + args.end, n);
                      },
                  .units = spec.results[0].local.shape[0]};
  };
  const std::string error = ErrorOf(row);
  EXPECT_THAT(error,
              testing::StartsWith("CheckOp \"count\": count f32[4,6] -> f32[4] (sample \"f32[4,6]\") on "
                                  "[x=2]: {_,"));
  EXPECT_THAT(error, HasSubstr(": other values:\nmesh [x=2]\n"));
}

TEST(CheckOpTest, AKernelThatStopsEarlyIsNamed) {
  OpRow row = SwigluRow();
  row.cpu = [](const KernelSpec& spec) {
    const Type& block = spec.results[0].local;
    return Kernel{.run = block.dtype == F32 ? RunSwiglu<float> : RunSwiglu<double>,
                  .units = block.num_elements() - 1};
  };
  EXPECT_THAT(ErrorOf(row), HasSubstr("leaves elements of result 0 unwritten"));
}

}  // namespace
}  // namespace meshwork::check_op_test
