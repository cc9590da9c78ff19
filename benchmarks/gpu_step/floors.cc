#include "benchmarks/gpu_step/floors.h"

#include "meshwork/base/status.h"

#ifdef MESHWORK_HAVE_CUDA

#include <bit>
#include <limits>
#include <memory>

#include "benchmarks/machine.h"
#include "meshwork/base/random.h"
#include "meshwork/runtime/cuda/cuda_buffer.h"

namespace meshwork {
namespace {

absl::Status BlasStatus(const CudaApi& api, cublasStatus_t status) {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  return absl::InternalError(fmt::format("cuBLASLt: {}", api.cublasLtGetStatusName(status)));
}

absl::StatusOr<std::shared_ptr<const CudaStream>> NewStream() {
  MESHWORK_ASSIGN_OR_RETURN(const CudaApi* const api, LoadCudaApi());
  MESHWORK_ASSIGN_OR_RETURN(std::shared_ptr<const CudaContext> context, CudaContext::Create(*api, 0));
  return CudaStream::Create(std::move(context));
}

// y = a b, all bf16 and row-major: to cuBLAS, which counts columns first, b a.
class Product {
 public:
  static absl::StatusOr<std::unique_ptr<Product>> Create(int64_t size) {
    std::unique_ptr<Product> product(new Product(size));
    MESHWORK_RETURN_IF_ERROR(product->Open());
    return product;
  }
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;
  ~Product() {
    if (stream_ != nullptr) stream_->Synchronize().IgnoreError();
    if (layout_ != nullptr) api().cublasLtMatrixLayoutDestroy(layout_);
    if (operation_ != nullptr) api().cublasLtMatmulDescDestroy(operation_);
    if (handle_ != nullptr) api().cublasLtDestroy(handle_);
  }

  absl::Status Run() const {
    MESHWORK_RETURN_IF_ERROR(Enqueue(algorithm_));
    return stream_->Synchronize();
  }

 private:
  static constexpr int64_t kWorkspace = int64_t{64} << 20;

  explicit Product(int64_t size) : size_(size) {}
  const CudaApi& api() const { return stream_->context().api(); }

  absl::Status Open() {
    MESHWORK_ASSIGN_OR_RETURN(stream_, NewStream());
    MESHWORK_RETURN_IF_ERROR(api().cublas_status);
    const CudaContext::Scope scope(stream_->context());
    MESHWORK_RETURN_IF_ERROR(scope.status());
    MESHWORK_RETURN_IF_ERROR(BlasStatus(api(), api().cublasLtCreate(&handle_)));
    MESHWORK_RETURN_IF_ERROR(
        BlasStatus(api(), api().cublasLtMatmulDescCreate(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F)));
    const auto n = static_cast<uint64_t>(size_);
    MESHWORK_RETURN_IF_ERROR(
        BlasStatus(api(), api().cublasLtMatrixLayoutCreate(&layout_, CUDA_R_16BF, n, n, size_)));
    for (CudaBuffer* matrix : {&a_, &b_, &y_}) {
      MESHWORK_ASSIGN_OR_RETURN(*matrix, CudaBuffer::Allocate(stream_, 2 * size_ * size_));
    }
    MESHWORK_ASSIGN_OR_RETURN(workspace_, CudaBuffer::Allocate(stream_, kWorkspace));
    Random random(/*seed=*/3, 0);
    std::vector<uint16_t> matrix(static_cast<size_t>(size_ * size_));
    for (uint16_t& number : matrix)
      number = static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(2 * random.Uniform() - 1)) >>
                                     16);  // bf16
    for (const CudaBuffer* to : {&a_, &b_})
      MESHWORK_RETURN_IF_ERROR(CopyToDevice(*stream_, to->address(), matrix.data(), to->bytes()));
    MESHWORK_RETURN_IF_ERROR(stream_->Synchronize());
    return ChooseAlgorithm();
  }

  // The fastest of those that cuBLASLt thinks fast.
  absl::Status ChooseAlgorithm() {
    cublasLtMatmulPreference_t preference = nullptr;
    MESHWORK_RETURN_IF_ERROR(BlasStatus(api(), api().cublasLtMatmulPreferenceCreate(&preference)));
    const auto bytes = static_cast<uint64_t>(kWorkspace);
    cublasLtMatmulHeuristicResult_t found[8];
    int count = 0;
    cublasStatus_t status = api().cublasLtMatmulPreferenceSetAttribute(
        preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof(bytes));
    if (status == CUBLAS_STATUS_SUCCESS)
      status = api().cublasLtMatmulAlgoGetHeuristic(handle_, operation_, layout_, layout_, layout_, layout_,
                                                    preference, 8, found, &count);
    api().cublasLtMatmulPreferenceDestroy(preference);
    MESHWORK_RETURN_IF_ERROR(BlasStatus(api(), status));
    double best = std::numeric_limits<double>::infinity();
    for (int i = 0; i < count; ++i) {
      absl::Status ran = Enqueue(found[i].algo);
      if (ran.ok()) ran = stream_->Synchronize();
      const double seconds = Seconds([&] {
        for (int times = 0; times < 5 && ran.ok(); ++times) ran = Enqueue(found[i].algo);
        if (ran.ok()) ran = stream_->Synchronize();
      });
      MESHWORK_RETURN_IF_ERROR(ran);
      if (seconds < best) algorithm_ = found[i].algo;
      best = std::min(best, seconds);
    }
    if (count == 0) return absl::InternalError("cuBLASLt knows no algorithm for this product.");
    return absl::OkStatus();
  }

  absl::Status Enqueue(const cublasLtMatmulAlgo_t& algorithm) const {
    const CudaContext::Scope scope(stream_->context());
    MESHWORK_RETURN_IF_ERROR(scope.status());
    const auto at = [](const CudaBuffer& buffer) { return reinterpret_cast<void*>(buffer.address()); };
    const float one = 1, zero = 0;
    return BlasStatus(api(),
                      api().cublasLtMatmul(handle_, operation_, &one, at(b_), layout_, at(a_), layout_, &zero,
                                           at(y_), layout_, at(y_), layout_, &algorithm, at(workspace_),
                                           static_cast<size_t>(kWorkspace), stream_->handle()));
  }

  const int64_t size_;
  std::shared_ptr<const CudaStream> stream_;
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t layout_ = nullptr;
  CudaBuffer a_, b_, y_, workspace_;
  cublasLtMatmulAlgo_t algorithm_ = {};
};

}  // namespace

absl::StatusOr<GpuWork> CublasFloor(const GpuOptions& options) {
  MESHWORK_ASSIGN_OR_RETURN(std::unique_ptr<Product> made, Product::Create(options.size));
  const std::shared_ptr<Product> product = std::move(made);
  const auto size = static_cast<double>(options.size);
  return GpuWork{.flops = 2 * size * size * size, .step = [product]() -> absl::StatusOr<double> {
                   MESHWORK_RETURN_IF_ERROR(product->Run());
                   return 0.0;
                 }};
}

absl::StatusOr<GpuWork> CopyFloor(const GpuOptions& options) {
  MESHWORK_ASSIGN_OR_RETURN(const std::shared_ptr<const CudaStream> stream, NewStream());
  const int64_t bytes = options.elements * 4 * 3 / 2;
  const auto from = std::make_shared<CudaBuffer>(), to = std::make_shared<CudaBuffer>();
  MESHWORK_ASSIGN_OR_RETURN(*from, CudaBuffer::Allocate(stream, bytes));
  MESHWORK_ASSIGN_OR_RETURN(*to, CudaBuffer::Allocate(stream, bytes));
  MESHWORK_RETURN_IF_ERROR(Fill(*stream, from->address(), std::byte{1}, bytes));
  return GpuWork{.bytes = 2.0 * static_cast<double>(bytes), .step = [=]() -> absl::StatusOr<double> {
                   MESHWORK_RETURN_IF_ERROR(CopyOnDevice(*stream, to->address(), from->address(), bytes));
                   MESHWORK_RETURN_IF_ERROR(stream->Synchronize());
                   return 0.0;
                 }};
}

}  // namespace meshwork

#else

#include "meshwork/runtime/cuda/gpus.h"

namespace meshwork {

absl::StatusOr<GpuWork> CublasFloor(const GpuOptions&) { return NoCuda(); }
absl::StatusOr<GpuWork> CopyFloor(const GpuOptions&) { return NoCuda(); }

}  // namespace meshwork

#endif
