// One op on many tensors in one launch gives the results of the row's kernel on each, bit by bit.
#include "meshwork/ops/kernels/cuda/parts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/ir/builder.h"
#include "meshwork/tools/check/double_tensor.h"
#include "support/cuda_player.h"

namespace meshwork::parts_test {
namespace {

using ImageOfPart = std::vector<std::byte>;

constexpr size_t kPartGuard = 64;

// A tensor in memory, `offset` bytes behind a multiple of 64, with guards.
struct GuardedTensor {
  GuardedTensor(const ImageOfPart& bytes, size_t offset) : size(bytes.size()) {
    image.assign(bytes.size() + 3 * kPartGuard + offset, std::byte{0x5a});
    const size_t beyond = reinterpret_cast<uintptr_t>(image.data()) % kPartGuard;
    begin = 2 * kPartGuard - beyond + offset;
    std::copy(bytes.begin(), bytes.end(), image.begin() + static_cast<ptrdiff_t>(begin));
  }
  std::byte* data() { return image.data() + begin; }
  ImageOfPart Bytes() const {
    const auto from = image.begin() + static_cast<ptrdiff_t>(begin);
    return {from, from + static_cast<ptrdiff_t>(size)};
  }
  bool IsGuarded() const {
    for (size_t i = 0; i < image.size(); ++i)
      if ((i < begin || i >= begin + size) && image[i] != std::byte{0x5a}) return false;
    return true;
  }

  ImageOfPart image;
  size_t size, begin = 0;
};

KernelSpec SpecOfUpdate(DType dtype, int64_t elements, bool has_rate) {
  const Type type{dtype, {elements}}, step{I64, {}}, rate{F64, {}};
  KernelSpec spec{.operands = {{type, type}, {type, type}, {type, type}, {type, type}, {step, step}},
                  .results = {{type, type}, {type, type}, {type, type}},
                  .attrs = {{"learning_rate", 0.1},
                            {"beta1", 0.9},
                            {"beta2", 0.999},
                            {"epsilon", 1e-8},
                            {"weight_decay", 0.25},
                            {"lazy", false}}};
  if (has_rate) spec.operands.push_back({rate, rate});
  return spec;
}

KernelSpec SpecOfCast(DType from, DType to, int64_t elements) {
  const Type operand{from, {elements}}, result{to, {elements}};
  return {.operands = {{operand, operand}}, .results = {{result, result}}, .attrs = {{"dtype", to}}};
}

// An op on parts of these sizes. `gradient`: the parts' dtype of operand 1; the row's kernel gets it after a cast.
struct TrialOfParts {
  std::string_view op;
  DType dtype, gradient;
  int64_t alignment, per_block;
  size_t offset;
  bool in_place = false;
};
constexpr int64_t kSizesOfParts[] = {1, 7, 1024, 1030, 2048 + 1, 4099, 9000};

KernelSpec SpecOfTrial(const TrialOfParts& trial, int64_t elements) {
  return trial.op == "cast" ? SpecOfCast(trial.gradient, trial.dtype, elements)
                            : SpecOfUpdate(trial.dtype, elements, trial.gradient != trial.dtype);
}
CudaKernel KernelOfTrial(const TrialOfParts& trial) {
  KernelSpec spec = SpecOfTrial(trial, 1);
  if (trial.op != "cast") spec.operands[1].local.dtype = trial.gradient;
  return MakeCudaParts(GetOp(trial.op), spec, trial.alignment);
}

void LaunchOnParts(PlayedKernels& kernels, const CudaKernel& kernel, int64_t blocks,
                   std::vector<void*> arguments) {
  const absl::Status status = kernels.Launch(kernel.name, {static_cast<unsigned>(blocks)},
                                             {static_cast<unsigned>(kernel.threads)}, 0, arguments.data());
  ASSERT_TRUE(status.ok()) << status;
}

void TryParts(PlayedKernels& kernels, const TrialOfParts& trial) {
  const OpRow& row = GetOp(trial.op);
  const size_t own = CudaOperandsOfPart(row).value();
  Sampler sampler(8);
  const ImageOfPart step = ToBytes(DoubleTensor{{I64, {}}, {3}}),
                    rate = ToBytes(DoubleTensor{{F64, {}}, {0.75}});
  GuardedTensor step_tensor(step, 0), rate_tensor(rate, 0);
  void *step_at = step_tensor.data(), *rate_at = rate_tensor.data();
  const bool has_rate = trial.op != "cast" && trial.gradient != trial.dtype;

  std::vector<std::vector<ImageOfPart>> expected;
  std::vector<std::vector<GuardedTensor>> tensors;
  std::vector<CudaPart> table;
  int64_t block = 0;
  for (const int64_t elements : kSizesOfParts) {
    const KernelSpec spec = SpecOfTrial(trial, elements);
    std::vector<ImageOfPart> wide;  // operands as the row takes them
    std::vector<GuardedTensor>& of_part = tensors.emplace_back();
    for (size_t o = 0; o < own; ++o) {
      DoubleTensor drawn = sampler.Draw(spec.operands[o].local, row);
      if (o == 1) {
        const ImageOfPart narrow = ToBytes({{trial.gradient, drawn.type.shape}, drawn.values});
        of_part.emplace_back(narrow, trial.offset);
        drawn.values = FromBytes({trial.gradient, drawn.type.shape}, narrow.data()).values;
      }
      wide.push_back(ToBytes(drawn));
      if (o != 1) of_part.emplace_back(wide.back(), trial.offset);
    }
    // By the row's kernel.
    const CudaKernel alone = MakeCudaKernel(row, spec).value();
    std::vector<GuardedTensor> given;
    for (const ImageOfPart& operand : wide) given.emplace_back(operand, 0);
    for (const TensorSpec& result : spec.results)
      given.emplace_back(ImageOfPart(static_cast<size_t>(result.local.bytes())), 0);
    std::vector<void*> addresses, arguments;
    for (GuardedTensor& tensor : given) addresses.push_back(tensor.data());
    if (trial.op != "cast") addresses.insert(addresses.begin() + static_cast<ptrdiff_t>(own), {step_at});
    if (has_rate) addresses.insert(addresses.begin() + static_cast<ptrdiff_t>(own) + 1, {rate_at});
    for (void*& address : addresses) arguments.push_back(static_cast<void*>(&address));
    LaunchOnParts(kernels, alone, alone.blocks, arguments);
    std::vector<ImageOfPart>& results = expected.emplace_back();
    for (size_t r = own; r < given.size(); ++r) results.push_back(given[r].Bytes());

    for (const ImageOfPart& result : results)
      if (!trial.in_place) of_part.emplace_back(ImageOfPart(result.size()), trial.offset);
    CudaPart& part = table.emplace_back();
    part.first_block = block;
    block += (elements + trial.per_block - 1) / trial.per_block;
    part.end_block = block;
    part.elements = elements;
    for (size_t t = 0; t < of_part.size(); ++t)
      part.pointers[t] = reinterpret_cast<uint64_t>(of_part[t].data());
    constexpr size_t kReplaced[] = {0, 2, 3};
    for (size_t r = 0; trial.in_place && r < results.size(); ++r)
      part.pointers[own + r] = part.pointers[kReplaced[r]];
  }
  const CudaKernel kernel = KernelOfTrial(trial);
  const CudaPart* at = table.data();
  auto count = static_cast<long long>(table.size()), per_block = static_cast<long long>(trial.per_block);
  std::vector<void*> arguments = {static_cast<void*>(&at), &count, &per_block};
  if (trial.op != "cast") arguments.push_back(static_cast<void*>(&step_at));
  if (has_rate) arguments.push_back(static_cast<void*>(&rate_at));
  LaunchOnParts(kernels, kernel, block, arguments);
  for (size_t p = 0; p < expected.size(); ++p) {
    for (const GuardedTensor& tensor : tensors[p]) EXPECT_TRUE(tensor.IsGuarded()) << kernel.source;
    constexpr size_t kReplaced[] = {0, 2, 3};
    for (size_t r = 0; r < expected[p].size(); ++r)
      EXPECT_TRUE(tensors[p][trial.in_place ? kReplaced[r] : own + r].Bytes() == expected[p][r])
          << "result " << r << " of " << kSizesOfParts[p] << " elements\n"
          << kernel.source;
  }
}

TEST(CudaPartsTest, ComputeWhatTheRowsKernelComputes) {
  const std::vector<TrialOfParts> trials = {
      {"adam_update", F32, F32, 16, 1024, 0},   {"adam_update", F32, F32, 16, 4096, 16, /*in_place=*/true},
      {"adam_update", F32, BF16, 16, 2048, 0},  {"adam_update", F32, F16, 16, 8192, 0, /*in_place=*/true},
      {"adam_update", F32, BF16, 4, 1024, 4},   {"adam_update", F32, BF16, 8, 3072, 8},
      {"adam_update", F64, F64, 16, 2048, 0},   {"adam_update", F64, F64, 1, 2048, 8, /*in_place=*/true},
      {"adam_update", BF16, BF16, 16, 8192, 0}, {"adam_update", BF16, BF16, 2, 2048, 2},
      {"cast", BF16, F32, 16, 2048, 0},         {"cast", F32, BF16, 4, 1024, 4},
      {"cast", BF16, F64, 8, 4096, 8},
  };
  std::vector<CudaKernel> kernels;
  for (const TrialOfParts& trial : trials) {
    kernels.push_back(KernelOfTrial(trial));
    for (const int64_t elements : kSizesOfParts)
      kernels.push_back(MakeCudaKernel(GetOp(trial.op), SpecOfTrial(trial, elements)).value());
  }
  const auto played = PlayCuda(CudaSourceOf(kernels)).value();
  for (size_t t = 0; t < trials.size(); ++t) {
    SCOPED_TRACE(t);
    played->set_seed(t);
    TryParts(*played, trials[t]);
  }
}

TEST(CudaPartsTest, ReadPacksWhereTheyMay) {
  EXPECT_EQ(KernelOfTrial({"adam_update", F32, BF16, 16, 1024, 0}).alignment, 16);
  EXPECT_EQ(KernelOfTrial({"adam_update", F32, BF16, 8, 1024, 0}).alignment, 8);
  EXPECT_EQ(KernelOfTrial({"adam_update", F32, BF16, 4, 1024, 0}).alignment, 1);
  EXPECT_EQ(KernelOfTrial({"adam_update", F64, F64, 8, 1024, 0}).alignment, 1);
  const KernelSpec spec = SpecOfUpdate(F32, 100, false);
  EXPECT_EQ(MakeCudaKernel(GetOp("adam_update"), spec, 16).value().alignment, 16);
}

// Few blocks would leave much of a GPU idle; many blocks would repeat the work that depends on the step alone.
TEST(CudaPartsTest, BlocksAreNeitherFewNorMany) {
  EXPECT_EQ(ElementsPerPartBlock(1), 1024);
  EXPECT_EQ(ElementsPerPartBlock(900'000), 1024);
  EXPECT_EQ(ElementsPerPartBlock(int64_t{1} << 24), 8192);
  EXPECT_EQ(ElementsPerPartBlock(4'000'000), 2048);
  EXPECT_EQ(ElementsPerPartBlock(int64_t{1} << 33), 8192);
}

}  // namespace
}  // namespace meshwork::parts_test
