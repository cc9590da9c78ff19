#include "ops/kernels/cuda/chain_trials.h"

#include <gtest/gtest.h>

#include <utility>

#include "absl/status/status.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/builder.h"
#include "meshwork/ir/row.h"
#include "meshwork/layout/block.h"
#include "meshwork/tools/check/double_tensor.h"

namespace meshwork {
namespace {

// With its second kernel.
void LaunchBoth(PlayedKernels& kernels, const CudaKernel& kernel, std::vector<ChainBytes*> tensors,
                const Block& block) {
  if (kernel.second == nullptr) return LaunchChain(kernels, kernel, std::move(tensors), block);
  ChainBytes scratch(static_cast<size_t>(kernel.scratch_bytes));
  ChainBytes* const result = tensors.back();
  tensors.back() = &scratch;
  LaunchChain(kernels, kernel, std::move(tensors), block);
  LaunchChain(kernels, *kernel.second, {&scratch, result});
}

}  // namespace

ChainSpecs::ChainSpecs(const TriedChain& chain, bool is_chain) {
  const Shape shape = is_chain ? BroadcastShapes(chain.types).value() : Shape();
  std::vector<Type> types;  // of the results
  for (const TriedChain::Op& op : chain.ops) {
    KernelSpec spec{.operands = {}, .results = {}, .attrs = op.attrs};
    for (const CudaChainOperand& operand : op.operands) {
      const Type type = operand.is_op ? types[static_cast<size_t>(operand.index)]
                                      : chain.types[static_cast<size_t>(operand.index)];
      spec.operands.push_back({type, type});
    }
    std::vector<Type> operand_types;
    for (const TensorSpec& operand : spec.operands) operand_types.push_back(operand.local);
    Type result = InferTypes(GetOp(op.name), operand_types, op.attrs).value()[0];
    if (is_chain) result.shape = shape;
    blocks.push_back(WholeBlock(result.shape));
    spec.results.push_back({result, result});
    types.push_back(result);
    of.push_back(std::move(spec));
  }
  for (size_t i = 0; i < of.size(); ++i)
    ops.push_back({&GetOp(chain.ops[i].name), &of[i], chain.ops[i].operands, &blocks[i]});
}

void LaunchChain(PlayedKernels& kernels, const CudaKernel& kernel, std::vector<ChainBytes*> tensors,
                 const Block& block) {
  std::vector<void*> pointers, arguments;
  for (ChainBytes* tensor : tensors) pointers.push_back(tensor->data());
  for (void*& pointer : pointers) arguments.push_back(static_cast<void*>(&pointer));
  ASSERT_EQ(kernel.pointers, static_cast<int64_t>(pointers.size()));
  std::vector<long long> places;
  for (const Extent& extent : block) places.insert(places.end(), {extent.start, extent.size});
  if (!kernel.block_arguments.empty())
    for (long long& place : places) arguments.push_back(&place);
  if (kernel.blocks == 0) return;
  const absl::Status status = kernels.Launch(kernel.name, {static_cast<unsigned>(kernel.blocks)},
                                             {static_cast<unsigned>(kernel.threads)},
                                             static_cast<size_t>(kernel.shared_bytes), arguments.data());
  ASSERT_TRUE(status.ok()) << status;
}

void TryChain(const TriedChain& chain, ChainKind kind, const SharedMemory& shared) {
  const ChainSpecs specs(chain, kind == ChainKind::kChain);
  std::vector<CudaKernel> all;
  for (const int64_t alignment : {1, 4, 16}) {
    all.push_back(kind == ChainKind::kChain  ? MakeCudaChain(specs.ops, chain.stored, alignment)
                  : kind == ChainKind::kRows ? MakeCudaRows(specs.ops, chain.stored, alignment, shared.bytes)
                                             : MakeCudaColumns(specs.ops, chain.stored, alignment));
    EXPECT_EQ(all.back().shared_bytes > 0, shared.is_used);
  }
  const size_t num_tried = all.size();
  for (const CudaChainOp& op : specs.ops) all.push_back(MakeCudaKernel(*op.row, *op.spec).value());
  const auto kernels = PlayCuda(CudaSourceOf(all)).value();
  Sampler sampler(8);
  std::vector<ChainBytes> given, made;
  for (const Type& type : chain.types) given.push_back(ToBytes(sampler.Draw(type, GetOp("add"))));
  for (const KernelSpec& spec : specs.of)
    made.emplace_back(static_cast<size_t>(spec.results[0].local.bytes()));
  for (size_t i = 0; i < specs.ops.size(); ++i) {
    std::vector<ChainBytes*> tensors;
    for (const CudaChainOperand& operand : specs.ops[i].operands)
      tensors.push_back(&(operand.is_op ? made : given)[static_cast<size_t>(operand.index)]);
    tensors.push_back(&made[i]);
    LaunchBoth(*kernels, all[num_tried + i], tensors, specs.blocks[i]);
  }
  for (size_t k = 0; k < num_tried; ++k) {
    EXPECT_EQ(all[k].alignment & (all[k].alignment - 1), 0);
    std::vector<ChainBytes> found;
    std::vector<ChainBytes*> tensors;
    for (ChainBytes& operand : given) tensors.push_back(&operand);
    for (int op : chain.stored) found.emplace_back(made[static_cast<size_t>(op)].size());
    for (ChainBytes& result : found) tensors.push_back(&result);
    kernels->set_seed(k);
    LaunchBoth(*kernels, all[k], tensors, {});
    for (size_t r = 0; r < found.size(); ++r)
      EXPECT_TRUE(found[r] == made[static_cast<size_t>(chain.stored[r])]) << "result " << r << "\n"
                                                                          << all[k].source;
  }
}

}  // namespace meshwork
