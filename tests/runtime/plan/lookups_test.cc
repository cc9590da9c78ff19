// Lookups of several devices of a process become one lookup, in tables that they share or whose rows are sharded.
#include <string>
#include <string_view>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/plan/programs.h"

namespace meshwork::lookups_test {
namespace {

// A table of 10 rows is sharded over `model`, so that the last device has one row, and a batch of 11 over `batch`. Each
// row that is looked up is added to the row that it came from.
constexpr std::string_view kCutTable = R"(mesh [batch=2, model=4]
func step(%i: i32[6] of i32[11] {batch}, var %t: f32[3,2] of f32[10,2] {model,_}) {
  %g = gather %t, %i dim=0 : f32[6,2] of f32[11,2] {batch,_ | sum:model}
  %s = all_reduce %g axes=(model) op=sum : f32[6,2] of f32[11,2] {batch,_}
  %m = mask_padding %s dims=[0] op=sum : f32[6,2] of f32[11,2] {batch,_}
  %d = scatter_add %m, %i shape=[3,2] dim=0 : f32[3,2] of f32[10,2] {model,_ | sum:batch}
  %D = all_reduce %d axes=(batch) op=sum : f32[3,2] of f32[10,2] {model,_}
  %n = add %t, %D : f32[3,2] of f32[10,2] {model,_}
  update %t = %n
  return s=%s
})";

// `batch` shards table and batch: all devices get all indices, and each gets the rows of its examples and of its table.
constexpr std::string_view kCutAlike = R"(mesh [batch=4]
func step(%i: i32[2] of i32[8] {batch}, var %t: f32[3,2] of f32[12,2] {batch,_}) {
  %I = all_gather %i dim=0 axes=(batch) : i32[8] of i32[8] {_}
  %g = gather %t, %I dim=0 : f32[8,2] of f32[8,2] {_,_ | sum:batch}
  %s = reduce_scatter %g dim=0 axes=(batch) op=sum : f32[2,2] of f32[8,2] {batch,_}
  %d = scatter_add %s, %i shape=[12,2] dim=0 : f32[12,2] of f32[12,2] {_,_ | sum:batch}
  %D = reduce_scatter %d dim=0 axes=(batch) op=sum : f32[3,2] of f32[12,2] {batch,_}
  %n = add %t, %D : f32[3,2] of f32[12,2] {batch,_}
  update %t = %n
  return s=%s
})";

// The same, with numbers of examples and of rows that 4 devices do not divide.
constexpr std::string_view kCutUnevenly = R"(mesh [batch=4]
func step(%i: i32[2] of i32[5] {batch}, var %t: f32[3,2] of f32[9,2] {batch,_}) {
  %I = all_gather %i dim=0 axes=(batch) : i32[5] of i32[5] {_}
  %g = gather %t, %I dim=0 : f32[5,2] of f32[5,2] {_,_ | sum:batch}
  %s = reduce_scatter %g dim=0 axes=(batch) op=sum : f32[2,2] of f32[5,2] {batch,_}
  %m = mask_padding %s dims=[0] op=sum : f32[2,2] of f32[5,2] {batch,_}
  %d = scatter_add %m, %i shape=[9,2] dim=0 : f32[9,2] of f32[9,2] {_,_ | sum:batch}
  %D = reduce_scatter %d dim=0 axes=(batch) op=sum : f32[3,2] of f32[9,2] {batch,_}
  %n = add %t, %D : f32[3,2] of f32[9,2] {batch,_}
  update %t = %n
  return s=%s
})";

struct LookupCase {
  std::string_view program;
  int64_t indices, rows;
};

TEST(LookupsTest, GiveWhatOneDeviceGives) {
  for (const LookupCase& of : {LookupCase{kCutTable, 11, 10}, {kCutAlike, 8, 12}, {kCutUnevenly, 5, 9}}) {
    std::vector<int32_t> indices;
    std::vector<float> table, expected, looked_up;
    for (int64_t i = 0; i < of.indices; ++i) indices.push_back(static_cast<int32_t>(i * i % of.rows));
    for (int64_t i = 0; i < 2 * of.rows; ++i) table.push_back(static_cast<float>(1 + i));
    expected = table;
    for (const int32_t row : indices)
      for (int64_t c = 0; c < 2; ++c) {
        looked_up.push_back(table[static_cast<size_t>(2 * row + c)]);
        expected[static_cast<size_t>(2 * row + c)] += looked_up.back();
      }
    const Program program = ParseProgram(of.program);
    for (const RunMode& mode : AllRunModes()) {
      SCOPED_TRACE(mode.ToString());
      const RunResult run = RunProgram(program, {{"i", Tensor::From<int32_t>({of.indices}, indices)}},
                                       {{"t", Tensor::From<float>({of.rows, 2}, table)}}, mode);
      EXPECT_THAT(run.outputs.at("s").values<float>(), testing::ElementsAreArray(looked_up));
      EXPECT_THAT(run.variables.at("t").values<float>(), testing::ElementsAreArray(expected));
    }
  }
}

}  // namespace
}  // namespace meshwork::lookups_test
