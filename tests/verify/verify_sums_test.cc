// Sums that a local program adds up in another order than the global one.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/text.h"
#include "meshwork/verify/verify.h"

namespace meshwork::verify_sums_test {
namespace {

// The nodes of a global and of a local program on four values of one type and %b, which is broadcast.
std::string VerifiedSums(std::string_view global, std::string_view local) {
  auto program = [](std::string_view type, std::string_view bias, std::string_view nodes) {
    return ParseGraph(fmt::format("mesh [x=2] func f(%p: {0}, %q: {0}, %r: {0}, %s: {0}, %b: {1}) {{ {2} }}",
                                  type, bias, nodes))
        .value();
  };
  std::string blocks;  // each node's result with its global type and layout
  for (char c : local) blocks += c == ';' ? std::string(" : f32[4,4] of f32[4,4] {_,_} ") : std::string(1, c);
  const absl::StatusOr<Proof> proof =
      Verify(program("f32[4,4]", "f32[4]", global),
             program("f32[4,4] of f32[4,4] {_,_}", "f32[4] of f32[4] {_}", blocks));
  return std::string(MessageOf(proof.status()));
}

TEST(VerifySumsTest, AcceptsTheSameTermsInAnyOrder) {
  for (const auto& [global, local] : std::vector<std::pair<std::string_view, std::string_view>>{
           {"%1 = add %p, %r %2 = add %1, %q return y=%2", "%1 = add %p, %q; %2 = add %1, %r; return y=%2"},
           {"%1 = sub %r, %p %2 = sub %1, %q return y=%2", "%1 = add %p, %q; %2 = sub %r, %1; return y=%2"},
           {"%1 = sub %r, %p %2 = sub %1, %q return y=%2",
            "%1 = sub %p, %r; %2 = add %q, %1; %3 = neg %2; return y=%3"},
           {"%1 = add %b, %p %2 = add %q, %1 return y=%2", "%1 = add %p, %q; %2 = add %1, %b; return y=%2"},
           {"%1 = add %p, %p %2 = add %1, %q return y=%2", "%1 = add %p, %q; %2 = add %1, %p; return y=%2"},
           // One of two equal sums is enough.
           {"%1 = add %p, %r %2 = add %1, %q %3 = add %q, %p %4 = add %3, %r return y=%2, z=%4",
            "%1 = add %p, %r; %2 = add %1, %q; return y=%2, z=%2"},
           // An op on one sum equals the op on the other.
           {"%1 = add %p, %r %2 = add %1, %q %3 = exp %2 return y=%3",
            "%1 = add %p, %q; %2 = add %1, %r; %3 = exp %2; return y=%3"}})
    EXPECT_EQ(VerifiedSums(global, local), "") << local;
}

TEST(VerifySumsTest, RejectsOtherTerms) {
  constexpr std::string_view kGlobal = "%1 = add %p, %r %2 = sub %1, %q %3 = exp %2 return y=%2, z=%3";
  const std::string_view others[] = {
      "%2 = add %p, %r;",                                                     // a term is missing
      "%1 = sub %p, %q; %0 = add %1, %r; %2 = add %0, %r;",                   // is there twice
      "%1 = add %p, %q; %2 = add %1, %r;",                                    // has another sign
      "%1 = sub %q, %p; %2 = sub %1, %r;",                                    // all have
      "%1 = sub %p, %q; %2 = add %1, %s;",                                    // is another
      "%1 = sub %p, %q; %2 = add %1, %b;",                                    // is another that is broadcast
      "%1 = sub %p, %q; %0 = add %1, %r; %2 = add %0, %0;",                   // the whole is there twice
      "%1 = add %p, %r; %0 = sub %1, %q; %4 = add %0, %s; %2 = sub %4, %s;",  // only over the reals
  };
  for (const std::string_view other : others) {
    EXPECT_NE(VerifiedSums(kGlobal, std::string(other) + " %3 = exp %2; return y=%2, z=%3"), "") << other;
    EXPECT_NE(VerifiedSums(kGlobal, std::string(other) +
                                        " %5 = add %p, %r; %6 = sub %5, %q; %3 = exp %2; return y=%6, z=%3"),
              "")
        << other;
  }
}

// x = x + f(x), L times: the terms of every sum must not be listed anew for each. Half of the additions have
// swapped operands in the local program.
TEST(VerifySumsTest, FollowsALongChain) {
  std::string global, local;
  std::string x = "%p";
  for (int i = 0; i < 4000; ++i) {
    const std::string f = fmt::format("%f{}", i), s = fmt::format("%s{}", i), y = fmt::format("%y{}", i);
    global += fmt::format("{1} = exp {0} {2} = add {0}, {1} {3} = add {2}, %q ", x, f, s, y);
    local += fmt::format("{1} = exp {0}; {2} = add {1}, %q; {3} = add {2}, {0}; ", x, f, s, y);
    x = y;
  }
  EXPECT_EQ(VerifiedSums(global + "return y=" + x, local + "return y=" + x), "");
}

// The text of every sum in the chain would be as long as the chain.
TEST(VerifySumsTest, GivesUpOnSumsOfManyTermsThatAreNoValues) {
  for (const int terms : {64, 65}) {
    std::string local = "%1 = add %p, %q; ";
    for (int i = 2; i < terms; ++i) local += fmt::format("%{} = add %{}, %q; ", i, i - 1);
    const std::string message = VerifiedSums("%1 = exp %p return y=%1", local + "%e = exp %p; return y=%e");
    EXPECT_EQ(message.empty(), terms == 64) << message;
  }
}

}  // namespace
}  // namespace meshwork::verify_sums_test
