// Loops and branches of a global program that Verify accepts as equal, and others that it does not.
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/regions.h"
#include "meshwork/ir/text.h"
#include "meshwork/spmd/compile.h"
#include "meshwork/verify/verify.h"

namespace meshwork::verify_bodies_test {
namespace {

// A program with two loops that have these bodies.
Graph BodyPair(std::string_view kind, std::string_view first, std::string_view second) {
  std::string loops;
  for (const auto& [name, body] : {std::pair("p", first), std::pair("q", second)}) {
    if (kind == "scan")
      loops += fmt::format(
          "%{0}, %{0}2, %{0}3 = scan %a, %b, %b, %w length=4 slices=1 (var %x: f32[4,4], var %y: f32[4,4], "
          "%row: f32[4], %w: f32[4,4]) {{ {1} }}\n",
          name, body);
    else if (kind == "while")
      loops += fmt::format(
          "%{0}, %{0}2, %{0}3 = while %n, %a, %b (var %n: i32[], var %x: f32[4,4], var %y: f32[4,4]) "
          "{{ %go = less %n, %n {1} return %go }}\n",
          name, body);
    else
      loops += fmt::format(
          "%{0} = if %c, %a, %b (%x: f32[4,4], %y: f32[4,4]) {{ {1} }} else (%x: f32[4,4], %y: f32[4,4]) "
          "{{ return %y }}\n",
          name, body);
  }
  const char* const more = kind == "if" ? "" : ", p2=%p2, q2=%q2, p3=%p3, q3=%q3";
  return ParseGraph(
             fmt::format("mesh [x=2]\nfunc f(%a: f32[4,4] {{x,_}}, %b: f32[4,4] {{x,_}}, %w: f32[4,4], "
                         "%n: i32[], %c: bool[]) {{\n{}return p=%p, q=%q{}\n}}",
                         loops, more))
      .value();
}

// Whether Verify accepts a program that runs one of two loops, and uses its results for both.
bool AreOne(std::string_view kind, std::string_view first, std::string_view second) {
  const absl::StatusOr<Program> one = Compile(BodyPair(kind, first, first));
  EXPECT_TRUE(one.ok()) << one.status();
  size_t loops = 0;
  for (const Node& node : one->body.nodes()) loops += IsControl(node);
  EXPECT_EQ(loops, 1u) << first;
  const absl::StatusOr<Program> both = Compile(BodyPair(kind, first, second));
  EXPECT_TRUE(both.ok()) << both.status();
  return Verify(BodyPair(kind, first, second), one->body).ok();
}

struct Bodies {
  std::string_view kind, first, second;
};

TEST(VerifyBodiesTest, TakesBodiesThatGiveTheSameForOne) {
  const Bodies cases[] = {
      // Dead code.
      {"scan", "%t = tanh %x update %x = %t return %y", "%d = exp %x %t = tanh %x update %x = %t return %y"},
      {"while", "%t = tanh %x update %x = %t", "%t = tanh %x %d = reduce_sum %t dims=[0] update %x = %t"},
      {"if", "%t = tanh %x return %t",
       "%n = constant value=nan dtype=f32 shape=[] %d = mul %x, %n %t = tanh %x return %t"},
      // An op that is computed twice.
      {"scan", "%t = tanh %x %s = mul %t, %t update %x = %s return %t",
       "%t = tanh %x %u = tanh %x %s = mul %t, %u update %x = %s return %u"},
      {"if", "%t = tanh %x %s = mul %t, %t return %s", "%t = tanh %x %u = tanh %x %s = mul %u, %t return %s"},
      // Sums in another order.
      {"scan", "%1 = add %x, %y %2 = add %1, %w update %x = %2 return %2",
       "%1 = add %y, %w %2 = add %1, %x update %x = %2 return %2"},
      {"if", "%1 = sub %x, %y return %1", "%1 = sub %y, %x %2 = neg %1 return %2"},
      // Sizes, notes to the compiler, reshapes, pins.
      {"scan", "%f = constant value=4 dtype=f32 shape=[] %2 = mul %x, %f update %x = %2 return %2",
       "%f = dimension_size %row dims=[0] dtype=f32 %2 = mul %x, %f update %x = %2 return %2"},
      {"if", "%1 = tanh %x return %1",
       "%0 = stop_gradient %x %2 = relayout %0 {_,x} %r = reshape %2 shape=[16] %s = reshape %r shape=[4,4] "
       "%1 = tanh %s : f32[4,4] {x,_} return %1"},
      // Carries that stay as they are.
      {"scan", "%t = tanh %x update %x = %t return %y",
       "%t = tanh %x update %x = %t update %y = %y return %y"},
      // NaN.
      {"if", "%n = constant value=nan dtype=f32 shape=[] %1 = maximum %x, %n return %1",
       "%d = constant value=-inf dtype=f32 shape=[] %n = constant value=nan dtype=f32 shape=[] "
       "%1 = maximum %x, %n return %1"},
      // Bodies in bodies.
      {"if", "%1 = scan %x length=2 (var %z: f32[4,4]) { %t = tanh %z update %z = %t } return %1",
       "%1 = scan %x length=2 (var %z: f32[4,4]) { %d = exp %z %t = tanh %z update %z = %t } return %1"},
      {"scan",
       "%1 = scan %x length=2 (var %z: f32[4,4]) { %t = tanh %z update %z = %t } %2 = add %1, %1 update %x = "
       "%2 return %x",
       "%1 = scan %x length=2 (var %z: f32[4,4]) { %d = exp %z %t = tanh %z update %z = %t } "
       "%3 = scan %x length=2 (var %z: f32[4,4]) { %t = tanh %z update %z = %t } "
       "%2 = add %1, %3 update %x = %2 return %x"},
  };
  for (const auto& [kind, first, second] : cases) {
    EXPECT_TRUE(AreOne(kind, first, second)) << kind << "\n" << first << "\n" << second;
    EXPECT_TRUE(AreOne(kind, second, first)) << kind << "\n" << second << "\n" << first;
  }
}

TEST(VerifyBodiesTest, TellsApartWhatGivesSomethingElse) {
  const Bodies cases[] = {
      {"scan", "%t = tanh %x update %x = %t return %y", "%t = sin %x update %x = %t return %y"},
      {"scan", "%t = tanh %x update %x = %t return %y", "%t = tanh %y update %x = %t return %y"},
      {"scan", "%t = tanh %x update %x = %t return %y", "%t = tanh %x update %y = %t return %y"},
      {"scan", "%t = tanh %x update %x = %t return %y", "%t = tanh %x update %x = %t return %t"},
      {"scan", "%t = tanh %x update %x = %t return %t", "%t = tanh %x update %x = %t return %x"},
      {"scan", "%t = tanh %x update %x = %t return %y", "%t = tanh %x return %y"},
      {"scan", "%t = tanh %x update %x = %t return %y",
       "%t = tanh %x update %x = %t update %y = %t return %y"},
      {"while", "%t = tanh %x update %x = %t", "%t = tanh %x update %y = %t"},
      {"if", "%1 = sub %x, %y return %1", "%1 = sub %y, %x return %1"},
      {"if", "%1 = add %x, %y return %1", "%1 = add %x, %y %2 = add %1, %y return %2"},
      {"if", "%n = constant value=0 dtype=f32 shape=[] %1 = div %x, %n return %1",
       "%n = constant value=-0.0 dtype=f32 shape=[] %1 = div %x, %n return %1"},
      {"if", "%n = constant value=nan dtype=f32 shape=[] %1 = maximum %x, %n return %1",
       "%n = constant value=inf dtype=f32 shape=[] %1 = maximum %x, %n return %1"},
      {"if", "%1 = scan %x length=2 (var %z: f32[4,4]) { %t = tanh %z update %z = %t } return %1",
       "%1 = scan %x length=3 (var %z: f32[4,4]) { %t = tanh %z update %z = %t } return %1"},
      {"if", "%1 = scan %x length=2 (var %z: f32[4,4]) { %t = tanh %z update %z = %t } return %1",
       "%1 = scan %x length=2 (var %z: f32[4,4]) { %t = sin %z update %z = %t } return %1"},
  };
  for (const auto& [kind, first, second] : cases) {
    EXPECT_FALSE(AreOne(kind, first, second)) << kind << "\n" << first << "\n" << second;
    EXPECT_FALSE(AreOne(kind, second, first)) << kind << "\n" << second << "\n" << first;
  }
}

}  // namespace
}  // namespace meshwork::verify_bodies_test
