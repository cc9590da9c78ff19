#include "meshwork/runtime/exec/replicas.h"

#include <cmath>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "runtime/plan/programs.h"
#include "runtime/plan/schedules.h"

namespace meshwork::replicas_test {
namespace {

constexpr std::string_view kRule =
    "devices that a layout gives the same block must hold the same bits, so the program misses a collective "
    "or declares a wrong layout.";

// The message of a step's error, or "OK".
std::string RunError(const Program& program, const Tensors& feeds, const ExecutorOptions& options,
                     int workers = 1) {
  CpuBackend backend(workers);
  std::map<std::string, DTensor> state;
  auto executor = Executor::Create(program, backend, options, &state);
  if (!executor.ok()) return std::string(MessageOf(executor.status()));
  Tensors outputs;
  const absl::Status status = (*executor)->Run(feeds, &outputs);
  return status.ok() ? "OK" : std::string(MessageOf(status));
}

// The layout claims the sum over all rows, but each device only sums its own rows.
constexpr std::string_view kLie = R"(mesh [x=2, y=2]
func step(%a: f32[2,3] of f32[4,5] {x,y}) {
  %s = reduce_sum %a dims=[0] : f32[3] of f32[5] {y}
  return s=%s
})";
// Both halves of the rows have the same sums, except for column 3.
Tensor HalvesThatDiffer() {
  return Tensor::From<float>({4, 5}, {1, 2, 3, 4, 5, 1, 2, 3, 4, 5,  //
                                      2, 2, 2, 2, 9, 0, 2, 4, 7, 1});
}

TEST(ReplicasTest, AnOutputThatLiesAboutItsLayoutIsCaught) {
  const Program program = ParseProgram(kLie);
  for (int workers : {1, 2, 3, 8}) {
    for (bool share : {true, false}) {
      for (bool poison : {true, false}) {
        SCOPED_TRACE(fmt::format("workers={} share={} poison={}", workers, share, poison));
        EXPECT_EQ(RunError(program, {{"a", HalvesThatDiffer()}},
                           {.share = share, .poison_padding = poison, .check_replicas = true}, workers),
                  fmt::format("Run: output \"s\" is f32[5] {{y}} on [x=2, y=2], but its replicas differ: "
                              "element [3] is 8 on device 1 (x=0, y=1) and 9 on device 3 (x=1, y=1); {}",
                              kRule));
      }
    }
  }
}

TEST(ReplicasTest, AVariableThatLiesAboutItsLayoutIsCaught) {
  const Program program = ParseProgram(R"(mesh [x=2, y=2]
func step(%a: f32[2,3] of f32[4,5] {x,y}, var %w: f32[3] of f32[5] {y}) {
  %s = reduce_sum %a dims=[0] : f32[3] of f32[5] {y}
  %n = add %w, %s : f32[3] of f32[5] {y}
  update %w = %n
})");
  for (int workers : {1, 2, 3}) {
    for (bool share : {true, false}) {
      EXPECT_EQ(
          RunError(program, {{"a", HalvesThatDiffer()}}, {.share = share, .check_replicas = true}, workers),
          fmt::format("Run: variable \"w\" is f32[5] {{y}} on [x=2, y=2], but its replicas differ: "
                      "element [3] is 8 on device 1 (x=0, y=1) and 9 on device 3 (x=1, y=1); {}",
                      kRule));
    }
  }
}

TEST(ReplicasTest, NothingIsComparedUnlessAskedFor) {
  for (bool share : {true, false}) {
    EXPECT_EQ(
        RunError(ParseProgram(kLie), {{"a", HalvesThatDiffer()}}, {.share = share, .check_replicas = false}),
        "OK");
  }
}

TEST(ReplicasTest, RightProgramsPassAndCostNothingWhereTheyShare) {
  const Program program = ParseProgram(R"(mesh [x=2, y=2]
func step(%a: f32[2,3] of f32[4,5] {x,y}, var %w: f32[3] of f32[5] {y}) {
  %p = reduce_sum %a dims=[0] : f32[3] of f32[5] {y | sum:x}
  %s = all_reduce %p axes=(x) op=sum : f32[3] of f32[5] {y}
  update %w = %s
  return s=%s
})");
  for (bool share : {true, false}) {
    CpuBackend backend(2);
    std::map<std::string, DTensor> state;
    auto executor =
        Executor::Create(program, backend, {.share = share, .check_replicas = true}, &state).value();
    int comparisons = 0;
    for (const Instruction& i : ScheduleOf(*executor).instructions)
      comparisons += i.kind == Instruction::Kind::kCompare;
    EXPECT_EQ(comparisons, share ? 0 : 1);
    Tensors outputs;
    ASSERT_EQ(MessageOf(executor->Run({{"a", HalvesThatDiffer()}}, &outputs)), "");
    EXPECT_THAT(outputs.at("s").values<float>(), testing::ElementsAre(4, 8, 12, 17, 20));
  }
}

TEST(ReplicasTest, NansWithTheSameBitsAgree) {
  const Program program = ParseProgram(R"(mesh [x=4]
func step(%a: f64[3] of f64[3] {_}) {
  %n = neg %a : f64[3] of f64[3] {_}
  return n=%n
})");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(RunError(program, {{"a", Tensor::From<double>({3}, {1, nan, -nan})}},
                     {.share = false, .check_replicas = true}, 2),
            "OK");
}

// The report does not depend on which worker finds a difference first, or on how the work is cut.
TEST(ReplicasTest, TheFirstDifferenceIsReportedWhateverTheWorkers) {
  const Program program = ParseProgram(R"(mesh [x=2]
func step(%a: i32[1,40000] of i32[2,40000] {x,_}) {
  %s = reduce_sum %a dims=[0] : i32[40000] of i32[40000] {_}
  %t = neg %s : i32[40000] of i32[40000] {_}
  return t=%t, s=%s
})");
  Tensor a = Tensor::Zeros({I32, {2, 40000}});
  for (int64_t column : {7000, 7001, 15000, 39999}) a.mutable_values<int32_t>()[40000 + column] = -1;
  for (int workers : {1, 2, 3, 8}) {
    EXPECT_EQ(RunError(program, {{"a", a}}, {.check_replicas = true}, workers),
              fmt::format("Run: output \"t\" is i32[40000] {{_}} on [x=2], but its replicas differ: element "
                          "[7000] is 0 on device 0 (x=0) and 1 on device 1 (x=1); {}",
                          kRule));
  }
}

// ---- The message.

template <typename T>
std::string Report(const std::vector<T>& first, const std::vector<T>& second) {
  const Tensor a = Tensor::From<T>({2, 2}, first), b = Tensor::From<T>({2, 2}, second);
  const BoxBuffer whole = BoxBuffer::Whole({2, 2});
  const std::optional<Difference> difference =
      FindDifference(BoxCopy(WholeBlock({2, 2}), whole, whole), 0, 4, DTypeSize(a.dtype()),
                     static_cast<const std::byte*>(a.raw()), static_cast<const std::byte*>(b.raw()));
  if (!difference.has_value()) return "the same";
  const Layout layout = Layout::Replicated(Mesh::Parse("x=2").value(), 2);
  const std::string text(MessageOf(DifferenceError("It", a.type(), layout, 0, 1, *difference)));
  const size_t begin = text.find("element");
  return text.substr(begin, text.find(';') - begin);
}

TEST(ReplicasTest, ValuesOfEveryTypeAreShown) {
  EXPECT_EQ(Report<float>({1, 2, 3, 4}, {1, 2, 3, 4}), "the same");
  EXPECT_EQ(Report<float>({1, 2, 3, 4}, {1, 2, 3.5, 5}),
            "element [1,0] is 3 on device 0 (x=0) and 3.5 on device 1 (x=1)");
  EXPECT_EQ(Report<double>({1, 0.0, 3, 4}, {1, -0.0, 3, 4}),
            "element [0,1] is 0 on device 0 (x=0) and -0 on device 1 (x=1)");
  EXPECT_EQ(Report<BFloat16>({BFloat16(1.0f), BFloat16(2.0f), BFloat16(3.0f), BFloat16(4.0f)},
                             {BFloat16(1.0f), BFloat16(2.0f), BFloat16(3.0f), BFloat16(4.5f)}),
            "element [1,1] is 4 on device 0 (x=0) and 4.5 on device 1 (x=1)");
  EXPECT_EQ(Report<int64_t>({1, 2, 3, int64_t{1} << 60}, {1, 2, 3, 4}),
            "element [1,1] is 1152921504606846976 on device 0 (x=0) and 4 on device 1 (x=1)");
  EXPECT_EQ(Report<float>({std::nanf("1"), 2, 3, 4}, {std::nanf("2"), 2, 3, 4}),
            "element [0,0] is nan (0x7fc00001) on device 0 (x=0) and nan (0x7fc00002) on device 1 (x=1)");
}

// Eight elements as [4,2], sharded by x along the dim of two: device 1 holds the odd ones.
TEST(ReplicasTest, TheElementOfAStridedDimIsFound) {
  const Layout layout = Layout::Parse(Mesh::Parse("x=2,y=2").value(), "{4*2@x}").value();
  EXPECT_EQ(MessageOf(DifferenceError("It", {I32, {8}}, layout, 2, 3, Difference{.offset = 2})),
            fmt::format("It is i32[8] {{4*2@x}} on [x=2, y=2], but its replicas differ: element [5] is 0 "
                        "(0x00000000) on device 2 (x=1, y=0) and 0 (0x00000000) on device 3 (x=1, y=1); {}",
                        kRule));
}

TEST(ReplicasTest, BoolsAreComparedAsBytes) {
  Difference difference{0};
  difference.first[0] = std::byte{1};
  const Layout layout = Layout::Replicated(Mesh::Parse("x=2").value(), 0);
  EXPECT_EQ(MessageOf(DifferenceError("It", {BOOL, {}}, layout, 0, 1, difference)),
            fmt::format("It is bool[] {{}} on [x=2], but its replicas differ: element [] is true on device 0 "
                        "(x=0) and false on device 1 (x=1); {}",
                        kRule));
  difference.second[0] = std::byte{3};
  EXPECT_EQ(MessageOf(DifferenceError("It", {BOOL, {}}, layout, 0, 1, difference)),
            fmt::format("It is bool[] {{}} on [x=2], but its replicas differ: element [] is true (0x01) on "
                        "device 0 (x=0) and true (0x03) on device 1 (x=1); {}",
                        kRule));
}

}  // namespace
}  // namespace meshwork::replicas_test
