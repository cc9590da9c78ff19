// Chains of elementwise rows as one kernel compute what their kernels compute one by one.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/check/double_tensor.h"
#include "meshwork/ir/builder.h"
#include "meshwork/kernels/cuda/cuda_kernel.h"
#include "support/cuda_player.h"

namespace meshwork {
namespace {

using Buffer = std::vector<std::byte>;

// A chain over operands of the given types.
struct Chain {
  struct Op {
    std::string_view name;
    Attrs attrs;
    std::vector<CudaChainOperand> operands;
  };
  std::vector<Type> types;
  std::vector<Op> ops;
  std::vector<int> stored;
};

CudaChainOperand Given(int index) { return {false, index}; }
CudaChainOperand Of(int op) { return {true, op}; }

const std::vector<Chain>& Chains() {
  static const auto* const chains = new std::vector<Chain>{
      // A layer's bias and activation, broadcast; both results are kept.
      {{{F32, {37, 51}}, {F32, {51}}},
       {{"add", {}, {Given(0), Given(1)}}, {"gelu", {{"tanh", true}}, {Of(0)}}},
       {0, 1}},
      // Intermediate values in bf16 are rounded; the first operand is read twice.
      {{{BF16, {4, 6}}, {BF16, {4, 1}}, {BF16, {}}},
       {{"mul", {}, {Given(0), Given(1)}},
        {"sub", {}, {Of(0), Given(2)}},
        {"exp", {}, {Of(1)}},
        {"div", {}, {Given(0), Of(2)}}},
       {3}},
      // Through other dtypes and a condition.
      {{{F32, {3, 100}}, {I32, {100}}},
       {{"cast", {{"dtype", F32}}, {Given(1)}},
        {"greater", {}, {Given(0), Of(0)}},
        {"select", {}, {Of(1), Given(0), Of(0)}}},
       {2, 1}},
      // No elements.
      {{{F64, {0, 3}}}, {{"square", {}, {Given(0)}}, {"neg", {}, {Of(0)}}}, {1}},
  };
  return *chains;
}

// Specs of the ops, whose results have the shape of all operands together.
struct Specs {
  std::vector<KernelSpec> of;
  std::vector<CudaChainOp> ops;

  explicit Specs(const Chain& chain) {
    const Shape shape = BroadcastShapes(chain.types).value();
    std::vector<Type> types;  // of the results
    for (const Chain::Op& op : chain.ops) {
      KernelSpec spec{.operands = {}, .results = {}, .attrs = op.attrs};
      for (const CudaChainOperand& operand : op.operands) {
        const Type type = operand.is_op ? types[static_cast<size_t>(operand.index)]
                                        : chain.types[static_cast<size_t>(operand.index)];
        spec.operands.push_back({type, type});
      }
      std::vector<Type> operand_types;
      for (const TensorSpec& operand : spec.operands) operand_types.push_back(operand.local);
      Type result = InferTypes(GetOp(op.name), operand_types, op.attrs).value()[0];
      result.shape = shape;
      spec.results.push_back({result, result});
      types.push_back(result);
      of.push_back(std::move(spec));
    }
    for (size_t i = 0; i < of.size(); ++i)
      ops.push_back({&GetOp(chain.ops[i].name), &of[i], chain.ops[i].operands});
  }
};

void Launch(PlayedKernels& kernels, const CudaKernel& kernel, std::vector<Buffer*> tensors) {
  std::vector<void*> pointers, arguments;
  for (Buffer* tensor : tensors) pointers.push_back(tensor->data());
  for (void*& pointer : pointers) arguments.push_back(static_cast<void*>(&pointer));
  ASSERT_EQ(kernel.pointers, static_cast<int64_t>(pointers.size()));
  if (kernel.blocks == 0) return;
  const absl::Status status = kernels.Launch(kernel.name, {static_cast<unsigned>(kernel.blocks)},
                                             {static_cast<unsigned>(kernel.threads)}, 0, arguments.data());
  ASSERT_TRUE(status.ok()) << status;
}

TEST(CudaChainTest, ComputesWhatItsOpsComputeOneByOne) {
  for (const Chain& chain : Chains()) {
    const Specs specs(chain);
    std::vector<CudaKernel> all = {MakeCudaChain(specs.ops, chain.stored)};
    for (const CudaChainOp& op : specs.ops) all.push_back(MakeCudaKernel(*op.row, *op.spec).value());
    const auto kernels = PlayCuda(CudaSourceOf(all)).value();
    Sampler sampler(8);
    std::vector<Buffer> given, made, found;
    for (const Type& type : chain.types) given.push_back(ToBytes(sampler.Draw(type, GetOp("add"))));
    for (const KernelSpec& spec : specs.of)
      made.emplace_back(static_cast<size_t>(spec.results[0].local.bytes()));
    for (size_t i = 0; i < specs.ops.size(); ++i) {
      std::vector<Buffer*> tensors;
      for (const CudaChainOperand& operand : specs.ops[i].operands)
        tensors.push_back(&(operand.is_op ? made : given)[static_cast<size_t>(operand.index)]);
      tensors.push_back(&made[i]);
      Launch(*kernels, all[1 + i], tensors);
    }
    std::vector<Buffer*> tensors;
    for (Buffer& operand : given) tensors.push_back(&operand);
    for (int op : chain.stored) found.emplace_back(made[static_cast<size_t>(op)].size());
    for (Buffer& result : found) tensors.push_back(&result);
    Launch(*kernels, all[0], tensors);
    for (size_t r = 0; r < found.size(); ++r)
      EXPECT_TRUE(found[r] == made[static_cast<size_t>(chain.stored[r])]) << all[0].source;
  }
}

TEST(CudaChainTest, AResultMayLieInAnOperand) {
  const Chain chain = {
      {{F32, {300}}, {F32, {300}}}, {{"add", {}, {Given(0), Given(1)}}, {"mul", {}, {Of(0), Given(1)}}}, {1}};
  const Specs specs(chain);
  const CudaKernel kernel = MakeCudaChain(specs.ops, chain.stored);
  const auto kernels = PlayCuda(CudaSourceOf({&kernel, 1})).value();
  DoubleTensor a{chain.types[0], {}}, b = a;
  for (int i = 0; i < 300; ++i) a.values.push_back(i), b.values.push_back(2);
  Buffer first = ToBytes(a), second = ToBytes(b);
  Launch(*kernels, kernel, {&first, &second, &first});
  const DoubleTensor result = FromBytes(chain.types[0], first.data());
  for (int i = 0; i < 300; ++i) EXPECT_EQ(result.values[static_cast<size_t>(i)], 2.0 * (i + 2));
}

// Kernels of equal text have one name, so that they are compiled once.
TEST(CudaSourceTest, HasEachTextOnce) {
  const Type type{F32, {4, 6}}, other{F32, {4, 7}};
  const auto make = [](const Type& t) {
    return MakeCudaKernel(GetOp("relu"), {.operands = {{t, t}}, .results = {{t, t}}, .attrs = {}}).value();
  };
  const std::vector<CudaKernel> kernels = {make(type), make(other), make(type)};
  EXPECT_EQ(kernels[0].name, kernels[2].name);
  EXPECT_NE(kernels[0].name, kernels[1].name);
  const std::string source = CudaSourceOf(kernels);
  size_t count = 0;
  for (size_t at = source.find("__global__"); at != std::string::npos; at = source.find("__global__", at + 1))
    ++count;
  EXPECT_EQ(count, 2u);
  EXPECT_EQ(source.rfind(CudaPrelude(), 0), 0u);
}

// Of an operand of 2^33 elements only the end is there.
TEST(CudaSourceTest, PlacesMayLieBeyond32Bits) {
  const Type whole{F32, {int64_t{1} << 31, 4}}, part{F32, {2, 4}};
  const int64_t rows = whole.shape[0];
  const KernelSpec spec{.operands = {{whole, whole}},
                        .results = {{part, part}},
                        .attrs = {{"start", std::vector<int64_t>{rows - 2, 0}},
                                  {"limit", std::vector<int64_t>{rows, 4}},
                                  {"stride", std::vector<int64_t>{}}}};
  const CudaKernel kernel = MakeCudaKernel(GetOp("slice"), spec).value();
  const auto kernels = PlayCuda(CudaSourceOf({&kernel, 1})).value();
  std::vector<float> end = {1, 2, 3, 4, 5, 6, 7, 8}, result(8);
  const auto in =
      reinterpret_cast<uintptr_t>(end.data()) - static_cast<uintptr_t>((rows - 2) * 4) * sizeof(float);
  float* out = result.data();
  void* args[] = {const_cast<uintptr_t*>(&in), &out};
  ASSERT_TRUE(kernels->Launch(kernel.name, {1}, {256}, 0, args).ok());
  EXPECT_EQ(result, end);
}

TEST(CudaSourceTest, ARowFromOutsideHasNoKernel) {
  const OpRow row = {.name = "no_such_op"};
  EXPECT_FALSE(HasCudaKernel(row));
  EXPECT_FALSE(MakeCudaKernel(row, {}).has_value());
}

}  // namespace
}  // namespace meshwork
