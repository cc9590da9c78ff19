// Carries of a scan that are linear in themselves and in pending sums: they stay pending through the loop,
// which then sends nothing, and are reduced once after it. They give the numbers of one device, and a program
// that only claims to have such a loop is rejected.
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "meshwork/ir/regions.h"
#include "meshwork/ir/row.h"
#include "meshwork/ir/text.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/spmd/compile.h"
#include "meshwork/verify/verify.h"
#include "support/program_trial.h"

namespace meshwork::owed_carries_test {
namespace {

struct CarryCase {
  std::string name;
  std::string_view step;      // computes %next from %acc, %g and %c
  bool waits = true;          // the sum is reduced after the loop
  std::string_view pin = "";  // of the carry in the body
  std::string_view start = "%m";
  int length = 4;
};

void PrintTo(const CarryCase& c, std::ostream* out) { *out << c.name; }

const CarryCase kCases[] = {
    {"Added", "  %next = add %acc, %g\n"},
    {"AddedFromTheRight", "  %next = add %g, %acc\n"},
    {"Subtracted", "  %next = sub %acc, %g\n"},
    {"SubtractedFrom", "  %next = sub %g, %acc\n"},
    {"Decayed", "  %k = mul %acc, %c\n  %next = add %k, %g\n"},
    {"DecayedByANegative", "  %n = neg %c\n  %k = mul %acc, %n\n  %next = add %k, %g\n"},
    {"Averaged", "  %k = mul %acc, %c\n  %h = mul %g, %d\n  %next = add %k, %h\n"},
    {"Divided", "  %s = add %acc, %g\n  %next = div %s, %c\n"},
    {"Replaced", "  %next = neg %g\n"},
    {"Chosen", "  %s = add %acc, %g\n  %t = mul %g, %c\n  %next = select %p, %s, %t\n"},
    {"Twice", "  %s = add %acc, %g\n  %next = add %s, %acc\n"},
    {"Transposed", "  %t = transpose %acc permutation=[1,0]\n  %next = add %t, %g\n"},
    {"Product", "  %t = matmul %acc, %v\n  %next = add %t, %g\n"},
    {"BeginningWithAConstant", "  %next = add %acc, %g\n", true, "", "%one"},
    {"PinnedWhole", "  %next = add %acc, %g\n", true, " {_,_}"},
    // A carry that must be whole in an iteration is reduced there; so is that of a loop which adds up nothing.
    {"NoIteration", "  %next = add %acc, %g\n", false, "", "%m", 0},
    {"OneIteration", "  %next = add %acc, %g\n", false, "", "%m", 1},
    {"Bent", "  %t = tanh %acc\n  %next = add %t, %g\n", false},
    {"Squared", "  %t = mul %acc, %acc\n  %next = add %t, %g\n", false},
    {"TimesTheSum", "  %t = mul %acc, %g\n  %next = add %t, %g\n", false},
    {"PlusAConstant", "  %t = add %acc, %c\n  %next = add %t, %g\n", false},
    {"PinnedInBlocks", "  %next = add %acc, %g\n", false, " {x,_}"},
    {"SharedWithAReader", "  %t = tanh %acc\n  %s = add %acc, %g\n  %next = add %s, %t\n", false},
};

std::string TextOf(const CarryCase& c, std::string_view mesh, std::string_view x) {
  return fmt::format(R"(mesh [{mesh}]
func f(%xs: f64[{length},12,5] {x}, %m: f64[5,5] {{_,_}}, %v: f64[5,5] {{_,_}}, %p: bool[]) {{
  %one = constant value=1 dtype=f64 shape=[5,5]
  %r = scan {start}, %xs, %v, %p length={length} slices=1 (var %acc: f64[5,5]{pin}, %x: f64[12,5], %v: f64[5,5], %p: bool[]) {{
    %y = matmul %x, %v
    %g = matmul %x, %y transpose_a=true
    %c = constant value=0.75 dtype=f64 shape=[]
    %d = constant value=0.25 dtype=f64 shape=[]
{step}    update %acc = %next
  }}
  return r=%r
}}
)",
                     fmt::arg("mesh", mesh), fmt::arg("length", c.length), fmt::arg("x", x),
                     fmt::arg("start", c.start), fmt::arg("pin", c.pin), fmt::arg("step", c.step));
}

RandomProgram ProgramOf(const std::string& text) {
  RandomProgram random{ParseGraph(text).value(), {}};
  int at = 0;
  for (const Argument& argument : random.graph.arguments()) {
    const ValueInfo& info = random.graph.value(argument.value);
    std::vector<double>& numbers = random.feeds[info.name];
    for (int64_t i = 0; i < info.type.num_elements(); ++i)
      numbers.push_back(info.type.dtype == BOOL ? 1 : std::sin(static_cast<double>(++at)));
  }
  return random;
}

int Collectives(const Graph& graph) {
  int count = 0;
  for (const Node& node : graph.nodes()) count += node.row->kind == OpKind::kCollective ? 1 : 0;
  return count;
}

class OwedCarriesTest : public testing::TestWithParam<CarryCase> {};

TEST_P(OwedCarriesTest, GiveTheOneDeviceResultAndWaitWhereTheyCan) {
  const CarryCase& c = GetParam();
  CpuBackend backend(2);
  for (const auto& [mesh, x] : std::vector<std::pair<std::string_view, std::string_view>>{
           {"x=4", "{_,x,_}"}, {"x=2,y=2", "{_,x,_}"}, {"x=2,y=3", "{_,(x,y),_}"}, {"x=8", "{_,x,_}"}}) {
    const std::string text = TextOf(c, mesh, x);
    const RandomProgram random = ProgramOf(text);
    EXPECT_EQ(TryProgram(random, ExpectedOf(random), backend).error(), "") << text;
    EXPECT_EQ(TryProgram(random, ExpectedOf(random), backend, {}, {.share = false}).error(), "") << text;
    const Program program = Compile(random.graph).value();
    for (const Node& node : program.body.nodes()) {
      if (!IsControl(node)) continue;
      EXPECT_EQ(Collectives(*node.regions[0]) == 0, c.waits) << PrintGraph(program.body);
    }
    if (c.waits) {
      EXPECT_EQ(Collectives(program.body), 1) << PrintGraph(program.body);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Steps, OwedCarriesTest, testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

// ---- What is proven.

constexpr std::string_view kGlobal = R"(mesh [x=2, y=2]
func f(%xs: f64[3,8,4] {_,x,_}, %m: f64[4,4] {_,_}) {
  %r = scan %m, %xs length=3 slices=1 (var %acc: f64[4,4], %x: f64[8,4]) {
    %g = matmul %x, %x transpose_a=true
    %c = constant value=0.9 dtype=f64 shape=[]
    %k = mul %acc, %c
    %next = add %k, %g
    update %acc = %next
  }
  return r=%r
})";

constexpr std::string_view kLocal = R"(mesh [x=2, y=2]
func f(%xs: f64[3,4,4] of f64[3,8,4] {_,x,_}, %m: f64[4,4] {_,_}) {
  %0 = keep_first %m axes=(x) : f64[4,4] {_,_ | sum:x}
  %r = scan %0, %xs length=3 slices=1 (var %acc: f64[4,4] {_,_ | sum:x}, %x: f64[4,4] of f64[8,4] {x,_}) {
    %g = matmul %x, %x transpose_a=true : f64[4,4] {_,_ | sum:x}
    %c = constant value=0.9 dtype=f64 shape=[] : f64[] {}
    %k = mul %acc, %c : f64[4,4] {_,_ | sum:x}
    %next = add %k, %g : f64[4,4] {_,_ | sum:x}
    update %acc = %next
  } : f64[4,4] {_,_ | sum:x}
  %1 = all_reduce %r axes=(x) op=sum : f64[4,4] {_,_}
  return r=%1
})";

// Reads and verifies `local`. Errors in the text itself count, too.
absl::Status Proven(std::string_view local) {
  absl::StatusOr<Graph> read = ParseGraph(local);
  if (!read.ok()) return read.status();
  return Verify(ParseGraph(kGlobal).value(), *read).status();
}

TEST(OwedCarriesProofTest, AcceptsTheRightProgram) { EXPECT_TRUE(Proven(kLocal).ok()) << Proven(kLocal); }

TEST(OwedCarriesProofTest, RejectsWhatCountsOtherwise) {
  const std::vector<std::pair<std::string_view, std::string_view>> edits = {
      // The start is added on every device, or is pending over another axis.
      {"scan %0,", "scan %m,"},
      {"keep_first %m axes=(x) : f64[4,4] {_,_ | sum:x}", "keep_first %m axes=(y) : f64[4,4] {_,_ | sum:y}"},
      {"keep_first %m axes=(x) : f64[4,4] {_,_ | sum:x}",
       "keep_first %m axes=(x,y) : f64[4,4] {_,_ | sum:x, sum:y}"},
      {"keep_first %m axes=(x) :", "keep_first %m axes=(y) :"},
      {"keep_first %m axes=(x) :", "keep_first %m axes=(x,x) :"},
      {"keep_first %m axes=(x) : f64[4,4] {_,_ | sum:x}", "keep_first %m axes=(x) : f64[4,4] {_,_ | max:x}"},
      // The step's pending sum is not that of the start.
      {"mul %acc, %c :", "mul %acc, %acc :"},
      {"%next = add %k, %g", "%next = add %k, %k"},
      {"update %acc = %next", "update %acc = %g"},
      {"mul %acc, %c :", "tanh %acc :"},
      // The loop's result is still pending where it is used.
      {"return r=%1", "return r=%r"},
      {"all_reduce %r axes=(x) op=sum", "all_reduce %r axes=(x) op=max"},
      {"all_reduce %r axes=(x) op=sum", "all_reduce %r axes=(y) op=sum"},
      {"} : f64[4,4] {_,_ | sum:x}", "} : f64[4,4] {_,_}"},
  };
  for (const auto& [from, to] : edits) {
    std::string text(kLocal);
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    EXPECT_FALSE(Proven(text).ok()) << text;
  }
}

// Induction over iterations proves nothing about when a while ends: its carries must be whole.
TEST(OwedCarriesProofTest, RejectsWhatAWhileCarries) {
  const Graph global = ParseGraph(R"(mesh [x=2]
func f(%a: f64[4] {_}) {
  %r = while %a (var %c: f64[4]) {
    %go = constant value=0 dtype=bool shape=[]
    %n = neg %c
    update %c = %n
    return %go
  }
  return r=%r
})")
                           .value();
  const absl::StatusOr<Graph> local = ParseGraph(R"(mesh [x=2]
func f(%a: f64[4] {_}) {
  %0 = keep_first %a axes=(x) : f64[4] {_ | sum:x}
  %r = while %0 (var %c: f64[4] {_ | sum:x}) {
    %go = constant value=0 dtype=bool shape=[] : bool[] {}
    %n = neg %c : f64[4] {_ | sum:x}
    update %c = %n
    return %go
  } : f64[4] {_ | sum:x}
  %1 = all_reduce %r axes=(x) op=sum : f64[4] {_}
  return r=%1
})");
  EXPECT_FALSE(local.ok() && Verify(global, *local).ok());
}

}  // namespace
}  // namespace meshwork::owed_carries_test
