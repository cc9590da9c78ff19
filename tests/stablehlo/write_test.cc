// What tests/stablehlo/check does not see, which runs the modules: their frame, and what has no form.
#include "meshwork/stablehlo/write.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/gradients.h"
#include "meshwork/ir/program.h"
#include "meshwork/ir/text.h"
#include "meshwork/ops/operators.h"
#include "meshwork/ops/ops.h"
#include "meshwork/spmd/compile.h"
#include "meshwork/stablehlo/write_shardy.h"
#include "nlohmann/json.hpp"
#include "support/golden.h"

namespace meshwork::write_stable_hlo_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Module(std::string_view text) {
  return WriteStableHlo(Compile(ParseGraph(text).value()).value().body).value();
}

constexpr std::string_view kStep = R"(mesh [batch=2]
func step(%x: f32[4,3] {batch,_}, var %w: f32[3,5] {_,_}) {
  %y = matmul %x, %w : f32[4,5]
  %s = reduce_sum %y dims=[0] : f32[5] {_}
  %n = add %w, %s : f32[3,5]
  update %w = %n
  return s=%s
})";

TEST(WriteStableHloTest, OneModuleIsForAllDevices) {
  EXPECT_THAT(
      Module(kStep),
      AllOf(HasSubstr("module @step attributes {mhlo.num_replicas = 2 : i32, mhlo.num_partitions = 1 : i32}"),
            HasSubstr("func.func public @main(%0: tensor<2x3xf32>, %1: tensor<3x5xf32>"),
            HasSubstr("replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>")));
}

TEST(WriteStableHloTest, AVariableMayBeWrittenOver) {
  EXPECT_THAT(Module(kStep),
              AllOf(HasSubstr("%1: tensor<3x5xf32> {tf.aliasing_output = 1 : i32}"),
                    HasSubstr("// argument 1: w f32[3,5] {_,_}\n"), HasSubstr("// result 0: s f32[5] {_}\n"),
                    HasSubstr("// result 1: w f32[3,5] {_,_}\n")));
}

TEST(WriteStableHloTest, OpsSayWhereTheyComeFrom) {
  EXPECT_THAT(Module(kStep), HasSubstr("loc(\"matmul\"(\"program\":3:0))"));
}

TEST(WriteStableHloTest, ProductsAskForAllDigits) {
  EXPECT_THAT(Module(kStep),
              HasSubstr("precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]"));
}

// A loop's body is written once; its replicas are the program's.
TEST(WriteStableHloTest, ALoopIsALoop) {
  const std::string module = Module(R"(mesh [batch=2]
func f(%h: f32[4,6] {batch,_}) {
  %r = scan %h length=3 (var %c: f32[4,6]) {
    %t = tanh %c : f32[4,6]
    update %c = %t
  } : f32[4,6]
  return r=%r
})");
  EXPECT_THAT(module, AllOf(HasSubstr("\"stablehlo.while\""), HasSubstr("\"stablehlo.tanh\"")));
  EXPECT_THAT(module, Not(HasSubstr("all_gather")));
}

// Notes leave nothing in a local program.
TEST(WriteStableHloTest, EveryRowButThoseOfGlobalManualRegionsHasAForm) {
  EXPECT_THAT(OpsWithoutStableHlo(),
              ElementsAre("device_index", "device_all_reduce", "device_all_gather", "device_reduce_scatter",
                          "device_all_to_all", "device_shift", "device_vary", "device_block"));
}

TEST(WriteStableHloTest, AManualRegionIsWrittenInPlace) {
  EXPECT_THAT(Module(R"(mesh [x=4]
func f(%a: f32[8,8] {x,_}) {
  %r = manual %a (%b: f32[2,8] {x,_}) {
    %s = device_all_reduce %b axes=(x) op=sum : f32[2,8]
    %0 = device_block %s {x,_}
    return %0
  } : f32[8,8]
  return r=%r
})"),
              HasSubstr("replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>"));
}

// ---- Global programs.

std::string Sharded(std::string_view text) { return WriteShardy(ParseGraph(text).value()).value(); }

TEST(WriteShardyTest, PinsAreShardings) {
  EXPECT_THAT(
      Sharded(R"(mesh [x=2, y=4]
func f(%a: f32[8,8] {x,?}, %b: f32[8,8], var %w: f32[8,8] {(y,x),_}) {
  %c = add %a, %b : f32[8,8] {?,y}
  %d = relayout %c {_,x}
  %e = add %d, %w
  update %w = %e
  return d=%d
})"),
      AllOf(HasSubstr("sdy.mesh @mesh = <[\"x\"=2, \"y\"=4]>"),
            HasSubstr("%0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"x\"}, {?}]>}, "
                      "%1: tensor<8x8xf32>, "
                      "%2: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"y\", \"x\"}, {}]>}) -> "
                      "(tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {\"x\"}]>}, "
                      "tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"y\", \"x\"}, {}]>})"),
            HasSubstr("sdy.sharding_constraint %3 <@mesh, [{?}, {\"y\"}]> : tensor<8x8xf32>"),
            HasSubstr("sdy.sharding_constraint %4 <@mesh, [{}, {\"x\"}]> : tensor<8x8xf32>")));
}

TEST(WriteShardyTest, PartsOfAnAxisAreNamedByTheirPlaces) {
  const std::string module = Sharded(R"(mesh [x=2*2*2]
func f(%a: f32[8,8] {x:(1)2,x:(2)2}, %b: f32[8,8] {(x:(2)2,x:(4)2),_}, %c: f32[8,8] {x,_}) {
  return a=%a, b=%b, c=%c
})");
  EXPECT_THAT(module,
              AllOf(HasSubstr("sdy.mesh @mesh = <[\"x\"=8]>"), HasSubstr("[{\"x\":(1)2}, {\"x\":(2)2}]"),
                    HasSubstr("[{\"x\":(2)4}, {}]"), HasSubstr("[{\"x\"}, {}]")));
}

// shardy.json, which shardy.py writes, has the bytes that each golden case sends by meshwork and by Shardy.
TEST(WriteShardyTest, TheTableIsOfThisCompiler) {
  const nlohmann::json table = nlohmann::json::parse(ReadGolden("stablehlo/shardy.json"));
  EXPECT_GT(table.size(), 130u);
  for (const auto& [name, bytes] : table.items()) {
    const std::string text = ReadGolden(fmt::format("spmd/cases/{}.mw", name));
    const Graph graph = ParseGraph(text.substr(0, text.find("----\n"))).value();
    int64_t sent = 0;
    for (const CollectiveSummary& collective : SummarizeCollectives(Compile(graph).value().body))
      sent += collective.bytes;
    EXPECT_EQ(sent, bytes[0]) << name;
  }
}

}  // namespace
}  // namespace meshwork::write_stable_hlo_test
