// What has no form in StableHLO.
#include <string_view>

#include "errors/errors.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "meshwork/ir/text.h"
#include "meshwork/stablehlo/write.h"

namespace meshwork::stablehlo_errors {
namespace {

absl::Status Write(std::string_view text) {
  const Graph global = ParseGraph(text).value();
  return WriteStableHlo(Compile(global).value().body).status();
}

TEST(StableHloErrors, Forms) {
  ExpectErrors("stablehlo", {
                                MISTAKE(Write(R"(mesh [x=4]
func f(%a: f32[8,8]) {
  %r = manual %a (%b: f32[2,8] {x,_}) {
    %s = device_all_reduce %b axes=(x) op=sum : f32[2,8]
    %0 = device_block %s {x,_}
    return %0
  } : f32[8,8]
  return r=%r
})")),
                            });
}

}  // namespace
}  // namespace meshwork::stablehlo_errors
