// The kernels' text compiles for GPUs.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "meshwork/ops/kernels/blas/cpu_kernels.h"
#include "meshwork/ops/kernels/cuda/parts.h"
#include "ops/kernels/cuda/arithmetic_trials.h"
#include "ops/kernels/cuda/trials.h"
#include "support/temp_dir.h"

namespace meshwork::nvcc_test {
namespace {

class NvccTest : public TempDirTest {};

// The first sample of every row; compiling all samples takes minutes.
[[maybe_unused]] std::string SourceOfRows() {
  std::vector<CudaKernel> kernels;
  for (const OpRow* row : AllOps())
    if (CpuKernelOf(*row) != nullptr && HasCudaKernel(*row)) kernels.push_back(TrialsOf(*row)[0].kernel);
  // By tensor cores.
  const Type heads{BF16, {1, 64, 1, 64}}, per_query{F32, {1, 64, 1}};
  for (const std::string_view op : {"attention", "attention_grad_q", "attention_grad_kv"}) {
    KernelSpec spec{
        .operands = {}, .results = {}, .attrs = {{"scale", 0.125}, {"causal", true}, {"ring", false}}};
    const bool is_grad = op != "attention";
    for (int o = 0; o < (is_grad ? 4 : 3); ++o) spec.operands.push_back({heads, heads});
    for (int o = 0; o < (is_grad ? 2 : 0); ++o) spec.operands.push_back({per_query, per_query});
    spec.results.push_back({heads, heads});
    if (op == "attention") spec.results.push_back({per_query, per_query});
    if (op == "attention_grad_kv") spec.results.push_back({heads, heads});
    kernels.push_back(MakeCudaKernel(GetOp(op), spec).value());
  }
  // Of many tensors, with gradients of half the size.
  const Type weight{F32, {8}}, gradient{BF16, {8}}, step{I64, {}};
  KernelSpec update{
      .operands = {{weight, weight}, {weight, weight}, {weight, weight}, {weight, weight}, {step, step}},
      .results = {{weight, weight}, {weight, weight}, {weight, weight}},
      .attrs = TrialsOf(GetOp("adam_update"))[0].spec.attrs};
  update.operands[1].local = gradient;
  for (const int64_t alignment : {1, 16})
    kernels.push_back(MakeCudaParts(GetOp("adam_update"), update, alignment));
  // Of tables: lookups, and updates of rows.
  const Type table{F32, {50, 12}}, indices{I32, {9}}, rows{F32, {9, 12}};
  const KernelSpec lookup{.operands = {{table, table}, {indices, indices}},
                          .results = {{rows, rows}},
                          .attrs = {{"dim", int64_t{0}}}};
  for (const int64_t alignment : {4, 16})
    kernels.push_back(MakeCudaParts(GetOp("gather"), lookup, alignment));
  const KernelSpec scatter{.operands = {{rows, rows}, {indices, indices}},
                           .results = {{table, table}},
                           .attrs = {{"dim", int64_t{0}}}};
  update.operands[1].local = weight;
  update.attrs.Set("lazy", true);
  kernels.push_back(MakeCudaRowUpdates(GetOp("adam_update"), update, scatter));
  return CudaSourceOf(kernels).append(kArithmeticKernel);
}

TEST_F(NvccTest, CompilesEveryRowForAmpereAndHopper) {
#ifndef NVCC
  GTEST_SKIP() << "there is no nvcc";
#else
  const std::string source = File("kernels.cu", SourceOfRows()), messages = Path("messages");
  std::string options;
  for (const std::string_view option : kCudaOptions) options += fmt::format(" {}", option);
  const std::string command = fmt::format(
      "{}{} -ccbin {} -fatbin -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90 -o {} {} 2> {}",
      NVCC, options, CUDA_PLAYER_COMPILER, Path("kernels.fatbin"), source, messages);
  const int failed = std::system(command.c_str());
  std::ifstream file(messages);
  EXPECT_EQ(failed, 0) << std::string(std::istreambuf_iterator<char>(file), {});
#endif
}

}  // namespace
}  // namespace meshwork::nvcc_test
