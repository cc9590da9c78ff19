// docs/ops.md is generated from the rows. UPDATE_GOLDEN=1 rewrites it; read the diff before you commit it.
#include "meshwork/ir/reference.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "support/golden.h"

namespace meshwork::reference_test {
namespace {

TEST(ReferenceTest, ThePageIsWhatTheRowsSay) { ExpectGolden("../docs/ops.md", OpsReference()); }

TEST(ReferenceTest, NamesEveryRow) {
  const std::string page = OpsReference();
  for (const OpRow* row : AllOps())
    EXPECT_NE(page.find(fmt::format("| `{}` |", row->name)), std::string::npos) << row->name;
}

TEST(ReferenceTest, DescribesOneOp) {
  EXPECT_EQ(Describe(GetOp("take_along_dim")),
            "take_along_dim: y[a,i,b] = x[a,indices[a,i,b],b], i along dim; an index out of range counts as "
            "the nearest\n"
            "  attributes     dim: int\n"
            "  takes          operand 0: f32 f64 bf16 i32 i64 bool f16 u8 i8; operand 1: i32 i64\n"
            "  gradient       yes\n"
            "  of f32[4,6], i32[4,3]; dim=1: aZ,aY->aY\n"
            "    stays sharded a; Y\n"
            "    owes         Z (sum)\n"
            "    may wait     sum, max, min, prod, and, or (operand 0)\n");
  EXPECT_THAT(Describe(GetOp("sort")), testing::HasSubstr("    whole        b\n"));
}

}  // namespace
}  // namespace meshwork::reference_test
