// The kernels of ops/kernels/blas are found by names of rows: each name must be a row's.
#include <gtest/gtest.h>

#include <set>

#include "meshwork/ir/registry.h"
#include "meshwork/ops/kernels/blas/cpu_kernels.h"

namespace meshwork::library_kernels_test {
namespace {

TEST(LibraryKernelsTest, EveryRowThatComputesHasAKernel) {
  for (const OpFamily& family : OpFamilies())
    for (const OpRow& row : family.rows) {
      if (row.kind != OpKind::kCompute) continue;
      EXPECT_NE(CpuKernelOf(row), nullptr) << row.name;
    }
}

TEST(LibraryKernelsTest, EachIsOfARowThatHasNoneOfItsOwn) {
  std::set<std::string_view> names;
  for (const LibraryKernel& kernel : LibraryKernels()) {
    EXPECT_TRUE(names.insert(kernel.op).second) << kernel.op << " stands twice";
    const absl::StatusOr<const OpRow*> row = FindOp(kernel.op);
    ASSERT_TRUE(row.ok()) << row.status();
    EXPECT_EQ((*row)->cpu, nullptr) << kernel.op;
    EXPECT_EQ(CpuKernelOf(**row), kernel.cpu) << kernel.op;
  }
}

TEST(LibraryKernelsTest, ARowsOwnKernelComesFirst) {
  OpRow row = GetOp("matmul");
  const KernelFactory own = [](const KernelSpec&) { return Kernel(); };
  row.cpu = own;
  EXPECT_EQ(CpuKernelOf(row), own);
  EXPECT_EQ(CpuKernelOf({.name = "no_such_op"}), nullptr);
}

}  // namespace
}  // namespace meshwork::library_kernels_test
