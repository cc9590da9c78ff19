// Elementwise rows and reductions as one kernel compute what their kernels compute one by one.
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
using Ints = std::vector<int64_t>;

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
      // Rows of whole Packs, of types of several sizes.
      {{{F32, {37, 52}}, {F32, {52}}, {BF16, {37, 1}}, {BOOL, {37, 52}}},
       {{"add", {}, {Given(0), Given(1)}},
        {"cast", {{"dtype", F32}}, {Given(2)}},
        {"select", {}, {Given(3), Of(0), Of(1)}},
        {"cast", {{"dtype", BF16}}, {Of(2)}}},
       {0, 3}},
      // A tail behind the last Pack; fewer elements than one has.
      {{{BF16, {1003}}, {BF16, {}}}, {{"mul", {}, {Given(0), Given(1)}}, {"neg", {}, {Of(0)}}}, {1, 0}},
      {{{BOOL, {5}}}, {{"and", {}, {Given(0), Given(0)}}, {"not", {}, {Of(0)}}}, {1}},
      // Two Packs for each thread, and a tail.
      {{{F32, {1200003}}}, {{"cast", {{"dtype", BF16}}, {Given(0)}}}, {0}},
      // Blocks in the middle are repeated.
      {{{F64, {3, 1, 8}}, {F64, {1, 5, 8}}, {F64, {3, 5, 1}}},
       {{"mul", {}, {Given(0), Given(1)}}, {"add", {}, {Of(0), Given(2)}}},
       {1}},
      {{{F32, {4, 8}}},
       {{"broadcast_to", {{"shape", Ints{4, 8}}, {"dims", Ints{0, 1}}}, {Given(0)}}, {"exp", {}, {Of(0)}}},
       {1}},
      // Marks and spreads.
      {{{F32, {52, 52}}, {I32, {52}}, {F32, {52}}},
       {{"one_hot", {{"depth", int64_t{52}}, {"dtype", BOOL}}, {Given(1)}},
        {"broadcast_to", {{"shape", Ints{52, 52}}, {"dims", Ints{0}}}, {Given(2)}},
        {"select", {}, {Of(0), Given(0), Of(1)}}},
       {2, 0}},
      // No elements.
      {{{F64, {0, 3}}}, {{"square", {}, {Given(0)}}, {"neg", {}, {Of(0)}}}, {1}},
  };
  return *chains;
}

// Specs of the ops.
struct Specs {
  std::vector<KernelSpec> of;
  std::vector<CudaChainOp> ops;
  std::vector<Block> blocks;  // of the results

  // `is_chain`: all results have the shape of all operands together.
  explicit Specs(const Chain& chain, bool is_chain = true) {
    const Shape shape = is_chain ? BroadcastShapes(chain.types).value() : Shape();
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
      if (is_chain) result.shape = shape;
      blocks.push_back(WholeBlock(result.shape));
      spec.results.push_back({result, result});
      types.push_back(result);
      of.push_back(std::move(spec));
    }
    for (size_t i = 0; i < of.size(); ++i)
      ops.push_back({&GetOp(chain.ops[i].name), &of[i], chain.ops[i].operands, &blocks[i]});
  }
};

void Launch(PlayedKernels& kernels, const CudaKernel& kernel, std::vector<Buffer*> tensors,
            const Block& block = {}) {
  std::vector<void*> pointers, arguments;
  for (Buffer* tensor : tensors) pointers.push_back(tensor->data());
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

// With its second kernel.
void LaunchBoth(PlayedKernels& kernels, const CudaKernel& kernel, std::vector<Buffer*> tensors,
                const Block& block) {
  if (kernel.second == nullptr) return Launch(kernels, kernel, std::move(tensors), block);
  Buffer scratch(static_cast<size_t>(kernel.scratch_bytes));
  Buffer* const result = tensors.back();
  tensors.back() = &scratch;
  Launch(kernels, kernel, std::move(tensors), block);
  Launch(kernels, *kernel.second, {&scratch, result});
}

enum class Make { kChain, kRows, kColumns };

// The shared memory that a kernel of rows may have, and whether it takes some.
struct Shared {
  int64_t bytes = 0;
  bool is_used = false;
};
constexpr int64_t kAllShared = 227 << 10;  // that an H100 has

// The kernel of all ops beside those of each, with pointers that are aligned and with others.
void TryChain(const Chain& chain, Make make, const Shared& shared = {}) {
  const Specs specs(chain, make == Make::kChain);
  std::vector<CudaKernel> all;
  for (const int64_t alignment : {1, 4, 16}) {
    all.push_back(make == Make::kChain  ? MakeCudaChain(specs.ops, chain.stored, alignment)
                  : make == Make::kRows ? MakeCudaRows(specs.ops, chain.stored, alignment, shared.bytes)
                                        : MakeCudaColumns(specs.ops, chain.stored, alignment));
    EXPECT_EQ(all.back().shared_bytes > 0, shared.is_used);
  }
  const size_t num_tried = all.size();
  for (const CudaChainOp& op : specs.ops) all.push_back(MakeCudaKernel(*op.row, *op.spec).value());
  const auto kernels = PlayCuda(CudaSourceOf(all)).value();
  Sampler sampler(8);
  std::vector<Buffer> given, made;
  for (const Type& type : chain.types) given.push_back(ToBytes(sampler.Draw(type, GetOp("add"))));
  for (const KernelSpec& spec : specs.of)
    made.emplace_back(static_cast<size_t>(spec.results[0].local.bytes()));
  for (size_t i = 0; i < specs.ops.size(); ++i) {
    std::vector<Buffer*> tensors;
    for (const CudaChainOperand& operand : specs.ops[i].operands)
      tensors.push_back(&(operand.is_op ? made : given)[static_cast<size_t>(operand.index)]);
    tensors.push_back(&made[i]);
    LaunchBoth(*kernels, all[num_tried + i], tensors, specs.blocks[i]);
  }
  for (size_t k = 0; k < num_tried; ++k) {
    EXPECT_EQ(all[k].alignment & (all[k].alignment - 1), 0);
    std::vector<Buffer> found;
    std::vector<Buffer*> tensors;
    for (Buffer& operand : given) tensors.push_back(&operand);
    for (int op : chain.stored) found.emplace_back(made[static_cast<size_t>(op)].size());
    for (Buffer& result : found) tensors.push_back(&result);
    kernels->set_seed(k);
    LaunchBoth(*kernels, all[k], tensors, {});
    for (size_t r = 0; r < found.size(); ++r)
      EXPECT_TRUE(found[r] == made[static_cast<size_t>(chain.stored[r])]) << "result " << r << "\n"
                                                                          << all[k].source;
  }
}

TEST(CudaChainTest, ComputesWhatItsOpsComputeOneByOne) {
  for (const Chain& chain : Chains()) TryChain(chain, Make::kChain);
}

// Elements are read and written 16 bytes at a time where they lie so.
TEST(CudaChainTest, ReadsPacksWhereItMay) {
  const auto alignment_of = [](const Chain& chain, int64_t alignment) {
    const Specs specs(chain);
    return MakeCudaChain(specs.ops, chain.stored, alignment).alignment;
  };
  const std::vector<Chain>& chains = Chains();
  EXPECT_EQ(alignment_of(chains[0], 16), 1);  // rows of 51
  EXPECT_EQ(alignment_of(chains[3], 16), 16);
  EXPECT_EQ(alignment_of(chains[3], 8), 8);
  EXPECT_EQ(alignment_of(chains[3], 1), 1);
}

Chain Softmax(DType dtype, const Shape& shape) {
  const Ints last = {std::ssize(shape) - 1};
  return {{{dtype, shape}},
          {{"reduce_max", {{"dims", last}, {"keep_dims", true}}, {Given(0)}},
           {"sub", {}, {Given(0), Of(0)}},
           {"exp", {}, {Of(1)}},
           {"reduce_sum", {{"dims", last}, {"keep_dims", true}}, {Of(2)}},
           {"div", {}, {Of(2), Of(3)}}},
          {4, 0}};
}

// x: [r,n], scale, offset: [n], epsilon: [].
Chain LayerNorm(DType dtype, int64_t r, int64_t n) {
  const Attrs mean = {{"dims", Ints{1}}, {"keep_dims", true}};
  return {{{dtype, {r, n}}, {F32, {n}}, {F32, {n}}, {F32, {}}},
          {{"cast", {{"dtype", F32}}, {Given(0)}},
           {"reduce_mean", mean, {Of(0)}},
           {"sub", {}, {Of(0), Of(1)}},
           {"square", {}, {Of(2)}},
           {"reduce_mean", mean, {Of(3)}},
           {"add", {}, {Of(4), Given(3)}},
           {"rsqrt", {}, {Of(5)}},
           {"mul", {}, {Of(2), Of(6)}},
           {"mul", {}, {Of(7), Given(1)}},
           {"add", {}, {Of(8), Given(2)}},
           {"cast", {{"dtype", dtype}}, {Of(9)}}},
          {10, 2, 6}};
}

// Of logits [r,n], labels [r], a weight of each row [r] and 0 []: -log softmax, and its gradient.
Chain CrossEntropy(DType dtype, int64_t r, int64_t n) {
  const Attrs sum = {{"dims", Ints{1}}, {"keep_dims", false}};
  const Attrs spread = {{"shape", Ints{r, n}}, {"dims", Ints{0}}};
  return {{{dtype, {r, n}}, {I32, {r}}, {F32, {r}}, {F32, {}}},
          {{"cast", {{"dtype", F32}}, {Given(0)}},
           {"reduce_max", {{"dims", Ints{1}}, {"keep_dims", true}}, {Of(0)}},
           {"sub", {}, {Of(0), Of(1)}},
           {"exp", {}, {Of(2)}},
           {"reduce_sum", sum, {Of(3)}},
           {"one_hot", {{"depth", n}, {"dtype", BOOL}}, {Given(1)}},
           {"select", {}, {Of(5), Of(2), Given(3)}},
           {"reduce_sum", sum, {Of(6)}},
           {"log", {}, {Of(4)}},
           {"sub", {}, {Of(8), Of(7)}},
           {"mul", {}, {Of(9), Given(2)}},
           {"div", {}, {Given(2), Of(4)}},
           {"broadcast_to", spread, {Of(11)}},
           {"mul", {}, {Of(12), Of(3)}},
           {"broadcast_to", spread, {Given(2)}},
           {"select", {}, {Of(5), Of(14), Given(3)}},
           {"sub", {}, {Of(13), Of(15)}},
           {"cast", {{"dtype", dtype}}, {Of(16)}}},
          {10, 17}};
}

// Rows of a chunk, of a warp, of several, of so many elements that they are read again.
TEST(CudaRowsTest, ComputeWhatTheirOpsComputeOneByOne) {
  for (const Shape& shape : std::vector<Shape>{{37, 51}, {1, 7}, {300, 2}, {2, 3, 64}, {5, 333}, {4, 512}})
    TryChain(Softmax(F32, shape), Make::kRows);
  TryChain(Softmax(BF16, {9, 136}), Make::kRows);
  TryChain(Softmax(F64, {3, 700}), Make::kRows);
  TryChain(Softmax(F32, {2, 20000}), Make::kRows);
  for (const int64_t n : {10, 64, 200, 1028}) TryChain(LayerNorm(BF16, 9, n), Make::kRows);
  TryChain(LayerNorm(F32, 3, 8190), Make::kRows);
  TryChain(CrossEntropy(F32, 40, 10), Make::kRows);
  TryChain(CrossEntropy(F32, 3, 260), Make::kRows);
  TryChain(CrossEntropy(BF16, 2, 20008), Make::kRows);
  // Rows of several rounds of chunks, the last one not whole, in shared memory.
  TryChain(CrossEntropy(BF16, 2, 20008), Make::kRows, {kAllShared, true});
  TryChain(Softmax(F32, {2, 18001}), Make::kRows, {kAllShared, true});
}

// Of short rows a block has many, which would keep theirs at one place.
TEST(CudaRowsTest, OnlyARowWithItsOwnBlockIsKeptInSharedMemory) {
  Chain chain = {{}, {}, {9, 10, 11}};
  for (int o = 0; o < 10; ++o) {
    chain.types.push_back({F64, {40, 7}});
    if (o > 0) chain.ops.push_back({"add", {}, {o == 1 ? Given(0) : Of(o - 2), Given(o)}});
  }
  chain.types.push_back({BOOL, {40, 7}});
  chain.ops.push_back({"select", {}, {Given(10), Of(8), Given(0)}});
  chain.ops.push_back({"reduce_sum", {{"dims", Ints{1}}, {"keep_dims", true}}, {Of(9)}});
  chain.ops.push_back({"mul", {}, {Of(9), Of(10)}});
  TryChain(chain, Make::kRows, {kAllShared, false});
}

// Any of the reductions; whole numbers and bools.
TEST(CudaRowsTest, FoldWhatRowsFold) {
  const Attrs sum = {{"dims", Ints{1, 2}}, {"keep_dims", false}};
  TryChain({{{I32, {7, 3, 50}}, {I32, {}}},
            {{"mul", {}, {Given(0), Given(1)}},
             {"reduce_sum", sum, {Of(0)}},
             {"reduce_min", sum, {Of(0)}},
             {"greater", {}, {Of(0), Given(1)}},
             {"reduce_any", sum, {Of(3)}},
             {"reduce_all", sum, {Of(3)}},
             {"reduce_prod", sum, {Of(0)}},
             {"sub", {}, {Of(1), Of(2)}}},
            {7, 4, 5, 6, 0}},
           Make::kRows);
}

// g: [64,16,n], x: [64,16,n], b: [n]: what the columns of b + g * x sum up to.
Chain ColumnSum(int64_t outer, int64_t n, std::vector<int> stored) {
  return {{{BF16, {outer, 16, n}}, {F32, {outer, 16, n}}, {F32, {n}}},
          {{"cast", {{"dtype", F32}}, {Given(0)}},
           {"mul", {}, {Of(0), Given(1)}},
           {"add", {}, {Of(1), Given(2)}},
           {"reduce_sum", {{"dims", Ints{0, 1}}, {"keep_dims", false}}, {Of(2)}}},
          std::move(stored)};
}

// In one kernel and in two; also what is read besides.
TEST(CudaColumnsTest, ComputeWhatTheirOpsComputeOneByOne) {
  TryChain(ColumnSum(3, 12, {3}), Make::kColumns);
  TryChain(ColumnSum(70, 132, {3}), Make::kColumns);
  TryChain(ColumnSum(70, 132, {2, 0, 3}), Make::kColumns);
  TryChain({{{F32, {5, 40, 8}}},
            {{"exp", {}, {Given(0)}}, {"reduce_max", {{"dims", Ints{1}}, {"keep_dims", true}}, {Of(0)}}},
            {0, 1}},
           Make::kColumns);
}

TEST(CudaRowsTest, AResultMayLieInAnOperand) {
  Chain chain = Softmax(F32, {6, 300});
  chain.stored = {4};
  const Specs specs(chain, false);
  for (const int64_t alignment : {1, 16}) {
    const CudaKernel kernel = MakeCudaRows(specs.ops, chain.stored, alignment);
    const auto kernels = PlayCuda(CudaSourceOf({&kernel, 1})).value();
    Sampler sampler(3);
    const Buffer x = ToBytes(sampler.Draw(chain.types[0], GetOp("add")));
    Buffer operand = x, result(x.size()), in_place = x;
    Launch(*kernels, kernel, {&operand, &result});
    Launch(*kernels, kernel, {&in_place, &in_place});
    EXPECT_TRUE(in_place == result);
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
