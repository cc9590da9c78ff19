#include "cuda_backend/product_trials.h"

#include <cmath>
#include <string_view>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/ir/sample.h"
#include "meshwork/layout/block.h"
#include "meshwork/ops/kernels/cuda/cuda_product.h"
#include "meshwork/runtime/cuda/cuda_graph.h"
#include "meshwork/tools/check/double_tensor.h"

namespace meshwork {
namespace {

const OpRow& MatmulRow() { return GetOp("matmul"); }

CudaTrial TrialOfSpec(std::string name, const KernelSpec& spec) {
  Sampler sampler(8);
  CudaTrial trial{std::move(name), &MatmulRow(), spec, MakeCudaKernel(MatmulRow(), spec).value(), {}, {}, {}};
  for (const TensorSpec& operand : spec.operands) {
    trial.in.push_back(ToBytes(sampler.Draw(operand.local, MatmulRow())));
    trial.in_blocks.push_back(WholeBlock(operand.local.shape));
  }
  trial.out_blocks.push_back(WholeBlock(spec.results[0].local.shape));
  return trial;
}

// The product on one device, and stacks of its instances.
void AddProductTrials(const std::string& text, std::vector<CudaTrial>& trials) {
  const KernelSpec spec = ProductSpec(text);
  trials.push_back(TrialOfSpec(text, spec));
  const std::vector<bool> both = {true, true}, first = {true, false}, second = {false, true};
  for (const std::vector<bool>& outer : {both, first, second})
    for (const std::vector<bool>& inner : {both, first, second})
      for (int reduced = 0; reduced < 4; ++reduced) {
        StackDims dims = {{2, outer}, {3, inner}};
        if (reduced & 1) dims[0].reduced = ReduceOp::kSum;
        if (reduced & 2) dims[1].reduced = ReduceOp::kSum;
        if (const std::optional<KernelSpec> stacked = MatmulRow().stack(spec, dims))
          trials.push_back(TrialOfSpec(fmt::format("{} stacked, reduced {}", text, reduced), *stacked));
      }
}

}  // namespace

KernelSpec ProductSpec(const std::string& text) {
  const Sample sample = ParseSample(MatmulRow(), text).value();
  KernelSpec spec{.operands = {}, .results = {}, .attrs = sample.attrs};
  for (const Type& type : sample.operands) spec.operands.push_back({type, type});
  for (const Type& type : sample.results) spec.results.push_back({type, type});
  return spec;
}

CudaTrial ProductTrial(const std::string& text) { return TrialOfSpec(text, ProductSpec(text)); }

std::vector<CudaTrial> AllProductTrials() {
  const std::pair<const char*, const char*> batches[] = {{"", ""},         {"5,", ""},      {"", "5,"},
                                                         {"5,", "5,"},     {"2,5,", ""},    {"2,5,", "5,"},
                                                         {"2,1,", "1,5,"}, {"2,5,", "2,5,"}};
  std::vector<CudaTrial> trials = TrialsOf(MatmulRow());
  for (const char* dtype : {"f32", "f64", "bf16"})
    for (const bool transpose_a : {false, true})
      for (const bool transpose_b : {false, true})
        for (const auto& [of_a, of_b] : batches)
          for (const bool sums : {false, true}) {
            if (sums && (std::string_view(of_a) != of_b || *of_a == '\0')) continue;
            const std::string text =
                fmt::format("{0}[{1}{2}], {0}[{3}{4}]; transpose_a={5} transpose_b={6} sum_batch={7}", dtype,
                            of_a, transpose_a ? "4,3" : "3,4", of_b, transpose_b ? "7,4" : "4,7", transpose_a,
                            transpose_b, sums);
            AddProductTrials(text, trials);
          }
  return trials;
}

CudaTrial OfSines(CudaTrial trial) {
  for (size_t o = 0; o < 2; ++o) {
    DoubleTensor sines{trial.spec.operands[o].local, {}};
    for (int64_t i = 0; i < sines.type.num_elements(); ++i)
      sines.values.push_back(std::sin(static_cast<double>(i + 1)));
    trial.in[o] = ToBytes(sines);
  }
  return trial;
}

absl::StatusOr<std::optional<Bytes>> ProductRunner::Run(const CudaTrial& trial, int64_t offset,
                                                        bool captures) {
  const std::optional<CudaProduct> product = MakeCudaProduct(*trial.row, trial.spec);
  if (!product.has_value()) return std::nullopt;
  const int64_t size = DTypeSize(product->dtype), aligned = offset == 0 ? 256 : size;
  MESHWORK_ASSIGN_OR_RETURN(const std::optional<size_t> number,
                            products_.Add(*product, {.a = aligned, .b = aligned, .d = aligned}, precision_));
  if (!number.has_value()) return std::nullopt;
  Bytes result(static_cast<size_t>(trial.spec.results[0].local.bytes()));
  MESHWORK_ASSIGN_OR_RETURN(const CudaBuffer a,
                            CudaBuffer::Allocate(stream_, std::ssize(trial.in[0]) + offset * size));
  MESHWORK_ASSIGN_OR_RETURN(const CudaBuffer b,
                            CudaBuffer::Allocate(stream_, std::ssize(trial.in[1]) + offset * size));
  MESHWORK_ASSIGN_OR_RETURN(const CudaBuffer d,
                            CudaBuffer::Allocate(stream_, std::ssize(result) + offset * size));
  MESHWORK_ASSIGN_OR_RETURN(const CudaBuffer workspace,
                            CudaBuffer::Allocate(stream_, products_.workspace_bytes()));
  const auto from = static_cast<CUdeviceptr>(offset * size);
  const CudaProducts::Addresses addresses{a.address() + from, b.address() + from, d.address() + from};
  MESHWORK_RETURN_IF_ERROR(CopyToDevice(*stream_, addresses.a, trial.in[0].data(), std::ssize(trial.in[0])));
  MESHWORK_RETURN_IF_ERROR(CopyToDevice(*stream_, addresses.b, trial.in[1].data(), std::ssize(trial.in[1])));
  const auto launch = [&] { return products_.Launch(*stream_, *number, addresses, workspace.address()); };
  if (captures) {
    MESHWORK_ASSIGN_OR_RETURN(const CudaGraph graph, CudaGraph::Capture(*stream_, launch));
    MESHWORK_RETURN_IF_ERROR(graph.Launch(*stream_));
    MESHWORK_RETURN_IF_ERROR(stream_->Synchronize());
  } else {
    MESHWORK_RETURN_IF_ERROR(launch());
  }
  MESHWORK_RETURN_IF_ERROR(CopyToHost(*stream_, result.data(), addresses.d, std::ssize(result)));
  MESHWORK_RETURN_IF_ERROR(stream_->Synchronize());
  return result;
}

}  // namespace meshwork
