// What has no form in StableHLO.
#include <string_view>

#include "errors/errors.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "meshwork/ir/text.h"
#include "meshwork/stablehlo/write.h"
#include "meshwork/stablehlo/write_shardy.h"
#include "support/swiglu.h"

namespace meshwork::stablehlo_errors {
namespace {

absl::Status Write(std::string_view text) {
  const Graph global = ParseGraph(text).value();
  return WriteStableHlo(Compile(global).value().body).status();
}

TEST(StableHloErrors, Forms) {
  ASSERT_TRUE(RegisterOp(SwigluRow("without_a_form")).ok());
  ExpectErrors("stablehlo", {
                                MISTAKE(Write(R"(mesh [x=4]
func f(%a: f32[8,8]) {
  %r = without_a_form %a, %a : f32[8,8]
  return r=%r
})")),
                            });
}

TEST(StableHloErrors, Pins) {
  ExpectErrors("shardy",
               {MISTAKE(WriteShardy(
                   ParseGraph("mesh [x=3] func f(%a: f32[12,8] {4@x*3,_}) { return a=%a }").value()))});
}

}  // namespace
}  // namespace meshwork::stablehlo_errors
