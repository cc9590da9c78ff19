#include "meshwork/runtime/exec/binding.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "runtime/plan/programs.h"

namespace meshwork::binding_test {
namespace {

using ::testing::ElementsAre;

// twice = 2 a; total = the sum of all a so far.
constexpr std::string_view kProgram = R"(mesh [x=2]
func step(%a: f32[2] of f32[3] {x}, var %n: f32[] {}) {
  %twice = add %a, %a : f32[2] of f32[3] {x}
  %m = mask_padding %a dims=[0] op=sum : f32[2] of f32[3] {x}
  %p = reduce_sum %m dims=[0] : f32[] of f32[] {| sum:x}
  %s = all_reduce %p axes=(x) op=sum : f32[] of f32[] {}
  %n1 = add %n, %s : f32[] of f32[] {}
  update %n = %n1
  return twice=%twice, total=%n1
})";

class BindingTest : public testing::Test {
 protected:
  std::unique_ptr<Executor> Make(const ExecutorOptions& options = {}) {
    return Executor::Create(ParseProgram(kProgram), backend_, options, &state_).value();
  }

  CpuBackend backend_{2};
  std::map<std::string, DTensor> state_;
};

void Fill(Tensor& tensor, std::vector<float> values) {
  std::copy(values.begin(), values.end(), tensor.mutable_values<float>().begin());
}

TEST_F(BindingTest, EachStepReadsWhatTheFeedsHoldThen) {
  for (bool share : {true, false}) {
    state_.clear();
    auto executor = Make({.share = share, .poison_padding = true});
    Tensor a({F32, {3}});
    BoundStep step = executor->Bind({{"a", a}}, executor->NewOutputs()).value();
    const Tensor twice = step.outputs().at("twice");
    Fill(a, {1, 2, 3});
    ASSERT_EQ(MessageOf(step.Run()), "");
    EXPECT_THAT(twice.values<float>(), ElementsAre(2, 4, 6));
    EXPECT_EQ(step.outputs().at("total").Scalar().value(), 6);
    Fill(a, {10, 20, 30});
    ASSERT_EQ(MessageOf(step.Run()), "");
    EXPECT_THAT(twice.values<float>(), ElementsAre(20, 40, 60));
    EXPECT_EQ(step.outputs().at("total").Scalar().value(), 66);
  }
}

TEST_F(BindingTest, OutputsThatAreNotBoundAreNotWritten) {
  auto executor = Make();
  Tensor twice = Tensor::From<float>({3}, {7, 7, 7});
  const Tensors feeds = {{"a", Tensor::From<float>({3}, {1, 2, 3})}};
  BoundStep all = executor->Bind(feeds, executor->NewOutputs()).value();
  BoundStep one = executor->Bind(feeds, {{"twice", twice}}).value();
  BoundStep none = executor->Bind(feeds, {}).value();
  ASSERT_EQ(MessageOf(all.Run()), "");
  EXPECT_EQ(all.outputs().at("total").Scalar().value(), 6);
  ASSERT_EQ(MessageOf(none.Run()), "");
  EXPECT_THAT(twice.values<float>(), ElementsAre(7, 7, 7));
  ASSERT_EQ(MessageOf(one.Run()), "");
  EXPECT_THAT(twice.values<float>(), ElementsAre(2, 4, 6));
  EXPECT_EQ(all.outputs().at("total").Scalar().value(), 6) << "the memory of another binding";
  EXPECT_EQ(Unpack(state_.at("n")).value().Scalar().value(), 18);
}

TEST_F(BindingTest, ABoundStepKeepsItsMemoryAlive) {
  auto executor = Make();
  BoundStep step = [&] {
    return executor->Bind({{"a", Tensor::From<float>({3}, {1, 2, 3})}}, executor->NewOutputs()).value();
  }();
  ASSERT_EQ(MessageOf(step.Run()), "");
  EXPECT_THAT(step.outputs().at("twice").values<float>(), ElementsAre(2, 4, 6));
}

TEST_F(BindingTest, RowsOfTensorsMayBeBound) {
  auto executor = Make();
  const Tensor in = Ramp({F32, {9}});
  Tensor out = Tensor::Zeros({F32, {9}});
  BoundStep step = executor->Bind({{"a", in.Rows(3, 6)}}, {{"twice", out.Rows(6, 9)}}).value();
  ASSERT_EQ(MessageOf(step.Run()), "");
  EXPECT_THAT(out.values<float>(), ElementsAre(0, 0, 0, 0, 0, 0, 8, 10, 12));
}

TEST_F(BindingTest, OutputsLieApart) {
  const Program program = ParseProgram(R"(mesh []
func step(%a: f32[2] of f32[2] {_}) {
  %n = neg %a : f32[2] of f32[2] {_}
  return n=%n, m=%n
})");
  auto executor = Executor::Create(program, backend_, {}, &state_).value();
  const Tensor out({F32, {4}});
  const Tensors feeds = {{"a", Ramp({F32, {2}})}};
  EXPECT_EQ(
      MessageOf(executor->Bind(feeds, {{"n", out.Rows(0, 2)}, {"m", out.Rows(1, 3)}}).status()),
      "Run: output \"n\" lies in the memory of output \"m\"; it is written while others are read or written, "
      "so bind memory of its own.");
  EXPECT_EQ(MessageOf(executor->Bind(feeds, {{"n", out.Rows(0, 2)}, {"m", out.Rows(2, 4)}}).status()), "");
}

}  // namespace
}  // namespace meshwork::binding_test
