// Feeds of an executor: feeds that do not fit are refused before anything runs, and feeds are never written.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/runtime/exec/executor.h"
#include "runtime/plan/programs.h"

namespace meshwork::executor_feeds_test {
namespace {

using ::testing::ElementsAre;

constexpr std::string_view kFeeds = R"(mesh [x=2]
func step(%image: f32[3,2] of f32[6,2] {x,_}, %label: i32[3] of i32[6] {x}, var %count: f32[] {}) {
  %one = constant value=1 shape=[] : f32[] of f32[] {}
  %n = add %count, %one : f32[] of f32[] {}
  update %count = %n
  return image=%image, label=%label
})";

TEST(ExecutorTest, WrongFeedsAreFoundBeforeAnythingRuns) {
  const Tensor image = Ramp({F32, {6, 2}}), label = Ramp({I32, {6}});
  const std::pair<Tensors, std::string> cases[] = {
      {{{"image", image}},
       "Run: feed \"label\" is missing; step(image: f32[6,2], label: i32[6]) takes every input at every step: "
       "feed it, or drop an input that nothing reads."},
      {{{"imgae", image}, {"label", label}},
       "Run: feed \"imgae\" is no input of step(image: f32[6,2], label: i32[6]); did you mean \"image\"?"},
      {{{"image", image}, {"label", label}, {"weights", image}},
       "Run: feed \"weights\" is no input of step(image: f32[6,2], label: i32[6])."},
      {{{"image", image}, {"label", label}, {"count", image}},
       "Run: feed \"count\" is a variable; the program keeps its value; set it between steps (Session::Set, "
       "or Pack)."},
      {{{"image", Ramp({F32, {5, 2}})}, {"label", label}},
       "Run: feed \"image\" is f32[5,2]; the program takes f32[6,2], compile it for this shape or feed that "
       "one."},
      {{{"image", Ramp({F64, {6, 2}})}, {"label", label}},
       "Run: feed \"image\" is f64[6,2]; the program takes f32[6,2], convert it or cast inside the program."},
      {{{"image", Tensor()}, {"label", label}},
       "Run: feed \"image\": Tensor: it has no elements yet; a default-constructed Tensor is empty, "
       "make one by Tensor::From or Tensor::Zeros."},
  };
  CpuBackend backend(2);
  std::map<std::string, DTensor> state;
  auto executor = Executor::Create(ParseProgram(kFeeds), backend, {}, &state).value();
  for (const auto& [feeds, message] : cases) {
    Tensors outputs = {{"before", image}};
    EXPECT_EQ(MessageOf(executor->Run(feeds, &outputs)), message);
    EXPECT_EQ(outputs.size(), 1u);
  }
  EXPECT_EQ(Unpack(state.at("count")).value().Scalar().value(), 0);
  Tensors outputs;
  EXPECT_EQ(MessageOf(executor->Run({{"image", image}, {"label", label}}, &outputs)), "");
  EXPECT_TRUE(BitwiseEqual(outputs.at("image"), image));
  EXPECT_EQ(Unpack(state.at("count")).value().Scalar().value(), 1);
}

TEST(ExecutorTest, FeedsMayBeViewsAndChangeBetweenSteps) {
  const Program program = ParseProgram(R"(mesh [x=2]
func step(%a: i32[3,2] of i32[5,2] {x,_}, %b: i32[5,1] of i32[5,2] {_,x}) {
  %c = neg %a : i32[3,2] of i32[5,2] {x,_}
  return c=%c, b=%b
})");
  for (const RunMode& mode : AllRunModes()) {
    CpuBackend backend(mode.workers);
    std::map<std::string, DTensor> state;
    auto executor = Executor::Create(program, backend,
                                     {.share = mode.share,
                                      .coalesce = mode.coalesce,
                                      .fuse = mode.fuse,
                                      .poison_padding = mode.poison},
                                     &state)
                        .value();
    const Tensor data = Ramp({I32, {20, 2}});
    const Tensor before = Ramp({I32, {20, 2}});
    Tensors outputs;
    for (int64_t batch = 0; batch < 4; ++batch) {
      const Tensor rows = data.Rows(5 * batch, 5 * batch + 5);
      ASSERT_EQ(MessageOf(executor->Run({{"a", rows}, {"b", rows}}, &outputs)), "");
      for (int64_t i = 0; i < 10; ++i) {
        EXPECT_EQ(outputs.at("c").values<int32_t>()[i], -(10 * batch + i + 1));
        EXPECT_EQ(outputs.at("b").values<int32_t>()[i], 10 * batch + i + 1);
      }
    }
    EXPECT_TRUE(BitwiseEqual(data, before)) << "feeds are only read";
  }
}

// The block of the second device begins after two rows of factors, not after two elements.
TEST(ExecutorTest, FeedsOfStridedDimsAreViewedWhereTheirBlocksLie) {
  const Program program = ParseProgram(R"(mesh [x=2]
func f(%a: f32[4] of f32[8] {4@x*2}) {
  %0 = neg %a : f32[4] of f32[8] {4@x*2}
  return y=%0
})");
  for (const RunMode& mode : AllRunModes()) {
    const Tensor y = RunProgram(program, {{"a", Ramp({F32, {8}})}}, {}, mode).outputs.at("y");
    EXPECT_THAT(y.values<float>(), ElementsAre(-1, -2, -3, -4, -5, -6, -7, -8)) << mode.ToString();
  }
}

TEST(ExecutorTest, EmptyAndScalarTensorsPass) {
  const Program program = ParseProgram(R"(mesh [x=4]
func step(%e: f32[0,2] of f32[0,2] {x,_}, %s: f64[] {}, %o: f32[1] of f32[2] {x}) {
  %n = neg %e : f32[0,2] of f32[0,2] {x,_}
  %t = neg %s : f64[] of f64[] {}
  %g = all_gather %o axes=(x) dim=0 : f32[2] of f32[2] {_}
  return n=%n, t=%t, g=%g
})");
  const Tensors feeds = {{"e", Tensor({F32, {0, 2}})},
                         {"s", Tensor::From<double>({}, {2.5})},
                         {"o", Tensor::From<float>({2}, {1, 2})}};
  for (const RunMode& mode : AllRunModes()) {
    const RunResult run = RunProgram(program, feeds, {}, mode);
    EXPECT_EQ(run.outputs.at("n").shape(), (Shape{0, 2}));
    EXPECT_EQ(run.outputs.at("t").Scalar().value(), -2.5);
    EXPECT_TRUE(BitwiseEqual(run.outputs.at("g"), feeds.at("o")));
  }
}

}  // namespace
}  // namespace meshwork::executor_feeds_test
