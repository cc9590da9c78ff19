#ifdef MESHWORK_HAVE_CUDA
#include "meshwork/runtime/cuda/cuda_products.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "meshwork/base/status.h"

namespace meshwork {
namespace {

// The size that NVIDIA advises for Hopper. Only as much as the chosen algorithms need is allocated.
constexpr uint64_t kMostWorkspaceBytes = uint64_t{32} << 20;

// A descriptor of cuBLASLt, which is destroyed at the end.
template <typename Handle>
class Descriptor {
 public:
  using Destroy = cublasStatus_t (*)(Handle);
  explicit Descriptor(Destroy destroy) : destroy_(destroy) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (handle != nullptr) destroy_(handle);
  }

  Handle handle = nullptr;

 private:
  const Destroy destroy_;
};

cudaDataType_t DataTypeOf(DType dtype) {
  return dtype == F64 ? CUDA_R_64F : dtype == BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

cublasComputeType_t ComputeTypeOf(DType dtype, MatmulPrecision precision) {
  if (dtype == F64) return CUBLAS_COMPUTE_64F;
  return dtype == F32 && precision == MatmulPrecision::kTf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                             : CUBLAS_COMPUTE_32F;
}

// The alignment that all matrices of a tensor have, in bytes, if the tensor is aligned to `alignment`.
uint32_t AlignmentOfMatrices(const CudaProduct& product, int64_t alignment, int64_t stride,
                             int64_t CudaProduct::Call::*start) {
  const int64_t size = DTypeSize(product.dtype);
  if (product.batch > 1) alignment = std::gcd(alignment, stride * size);
  for (const CudaProduct::Call& call : product.calls) alignment = std::gcd(alignment, call.*start * size);
  return static_cast<uint32_t>(alignment);
}

// Whether the status says that cuBLASLt does not compute such a product, or not on this GPU.
bool Declines(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE ||
         status == CUBLAS_STATUS_ARCH_MISMATCH;
}

const void* At(CUdeviceptr start, int64_t element, DType dtype) {
  return reinterpret_cast<const void*>(start + static_cast<CUdeviceptr>(element * DTypeSize(dtype)));
}

}  // namespace

// cuBLASLt is column-major: it takes a row-major matrix for its transpose. So it computes the transpose of the
// product, bᵀ aᵀ: its first operand is b, its second a, and its number of rows is n.
struct CudaProducts::Descriptors {
  explicit Descriptors(const CudaApi& api)
      : operation(api.cublasLtMatmulDescDestroy),
        a(api.cublasLtMatrixLayoutDestroy),
        b(api.cublasLtMatrixLayoutDestroy),
        d(api.cublasLtMatrixLayoutDestroy) {}

  Descriptor<cublasLtMatmulDesc_t> operation;
  Descriptor<cublasLtMatrixLayout_t> a, b, d;
  cublasLtMatmulAlgo_t algorithm = {};
};

CudaProducts::CudaProducts(std::shared_ptr<const CudaContext> context) : context_(std::move(context)) {}

CudaProducts::~CudaProducts() {
  if (handle_ == nullptr || !context_->is_here()) return;
  const CudaContext::Scope scope(*context_);
  entries_.clear();
  context_->api().cublasLtDestroy(handle_);
}

absl::Status CudaProducts::ToStatus(cublasStatus_t status, const CudaProduct& product,
                                    std::string_view what) const {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  return absl::Status(
      status == CUBLAS_STATUS_ALLOC_FAILED ? absl::StatusCode::kResourceExhausted
                                           : absl::StatusCode::kInternal,
      fmt::format("{}: cuBLASLt {}: {} {} of {} [{},{}] * [{},{}]: {}.", context_->where(),
                  CublasVersionToString(context_->api().cublas_version), what,
                  product.batch == 1 ? "a product" : fmt::format("{} products", product.batch),
                  DTypeName(product.dtype), product.m, product.k, product.k, product.n,
                  context_->api().cublasLtGetStatusName(status)));
}

absl::StatusOr<std::optional<size_t>> CudaProducts::Add(const CudaProduct& product,
                                                        const ProductAlignment& alignment,
                                                        MatmulPrecision precision) {
  if (const absl::Status& why = context_->api().cublas_status; !why.ok()) {
    ReportMissing(context_->api(), "cuBLASLt", why);
    return std::nullopt;
  }
  auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.product == product && entry.alignment == alignment && entry.precision == precision;
  });
  if (found == entries_.end()) {
    MESHWORK_ASSIGN_OR_RETURN(UnlessForked<Descriptors> descriptors, Describe(product, alignment, precision));
    entries_.push_back({product, alignment, precision, std::move(descriptors)});
    found = entries_.end() - 1;
  }
  if (found->descriptors == nullptr) return std::nullopt;
  return static_cast<size_t>(found - entries_.begin());
}

absl::StatusOr<UnlessForked<CudaProducts::Descriptors>> CudaProducts::Describe(
    const CudaProduct& product, const ProductAlignment& alignment, MatmulPrecision precision) {
  const CudaApi& api = context_->api();
  const CudaContext::Scope scope(*context_);
  MESHWORK_RETURN_IF_ERROR(scope.status());
  const auto check = [&](cublasStatus_t status, std::string_view what = "describing") {
    return ToStatus(status, product, what);
  };
  if (handle_ == nullptr) {
    const cublasStatus_t status = api.cublasLtCreate(&handle_);
    if (Declines(status)) return nullptr;
    MESHWORK_RETURN_IF_ERROR(check(status, "starting for"));
  }

  UnlessForked<Descriptors> descriptors(new Descriptors(api));
  const cudaDataType_t type = DataTypeOf(product.dtype);
  MESHWORK_RETURN_IF_ERROR(check(
      api.cublasLtMatmulDescCreate(&descriptors->operation.handle, ComputeTypeOf(product.dtype, precision),
                                   product.dtype == F64 ? CUDA_R_64F : CUDA_R_32F)));
  const auto transpose = [&](cublasLtMatmulDescAttributes_t attribute, bool is_transposed) {
    const int32_t value = is_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    return check(
        api.cublasLtMatmulDescSetAttribute(descriptors->operation.handle, attribute, &value, sizeof(value)));
  };
  MESHWORK_RETURN_IF_ERROR(transpose(CUBLASLT_MATMUL_DESC_TRANSA, product.transpose_b));
  MESHWORK_RETURN_IF_ERROR(transpose(CUBLASLT_MATMUL_DESC_TRANSB, product.transpose_a));

  // Makes the layout of row-major matrices with `rows` and `columns`.
  const auto layout = [&](cublasLtMatrixLayout_t& made, int64_t rows, int64_t columns,
                          int64_t stride) -> absl::Status {
    MESHWORK_RETURN_IF_ERROR(check(api.cublasLtMatrixLayoutCreate(&made, type, static_cast<uint64_t>(columns),
                                                                  static_cast<uint64_t>(rows), columns)));
    if (product.batch == 1) return absl::OkStatus();
    const auto batch = static_cast<int32_t>(product.batch);
    MESHWORK_RETURN_IF_ERROR(check(api.cublasLtMatrixLayoutSetAttribute(
        made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof(batch))));
    return check(api.cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                                      &stride, sizeof(stride)));
  };
  const auto& [dtype, m, n, k, transpose_a, transpose_b, batch, stride_a, stride_b, stride_d, calls] =
      product;
  MESHWORK_RETURN_IF_ERROR(layout(descriptors->a.handle, transpose_a ? k : m, transpose_a ? m : k, stride_a));
  MESHWORK_RETURN_IF_ERROR(layout(descriptors->b.handle, transpose_b ? n : k, transpose_b ? k : n, stride_b));
  MESHWORK_RETURN_IF_ERROR(layout(descriptors->d.handle, m, n, stride_d));

  Descriptor<cublasLtMatmulPreference_t> preference(api.cublasLtMatmulPreferenceDestroy);
  MESHWORK_RETURN_IF_ERROR(check(api.cublasLtMatmulPreferenceCreate(&preference.handle)));
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    return check(
        api.cublasLtMatmulPreferenceSetAttribute(preference.handle, attribute, &value, sizeof(value)));
  };
  MESHWORK_RETURN_IF_ERROR(prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMostWorkspaceBytes));
  // Not INPLACE, whose order of sums is left open, nor OUTPUT_TYPE, which rounds to bf16 between them.
  MESHWORK_RETURN_IF_ERROR(
      prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE}));
  const uint32_t of_a = AlignmentOfMatrices(product, alignment.a, stride_a, &CudaProduct::Call::a);
  const uint32_t of_b = AlignmentOfMatrices(product, alignment.b, stride_b, &CudaProduct::Call::b);
  const uint32_t of_d = AlignmentOfMatrices(product, alignment.d, stride_d, &CudaProduct::Call::d);
  MESHWORK_RETURN_IF_ERROR(prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, of_b));
  MESHWORK_RETURN_IF_ERROR(prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, of_a));
  MESHWORK_RETURN_IF_ERROR(prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, of_d));
  MESHWORK_RETURN_IF_ERROR(prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, of_d));

  cublasLtMatmulHeuristicResult_t result = {};
  int num_results = 0;
  const cublasStatus_t status = api.cublasLtMatmulAlgoGetHeuristic(
      handle_, descriptors->operation.handle, descriptors->b.handle, descriptors->a.handle,
      descriptors->d.handle, descriptors->d.handle, preference.handle, 1, &result, &num_results);
  if (Declines(status)) return nullptr;
  MESHWORK_RETURN_IF_ERROR(check(status, "choosing an algorithm for"));
  if (num_results == 0 || result.state != CUBLAS_STATUS_SUCCESS) return nullptr;
  descriptors->algorithm = result.algo;
  workspace_bytes_ = std::max(workspace_bytes_, static_cast<int64_t>(result.workspaceSize));
  return descriptors;
}

void CudaProducts::CheckAlignment(size_t number, const Addresses& addresses) const {
  const ProductAlignment& alignment = entries_[number].alignment;
  for (const auto& [address, multiple] :
       {std::pair(addresses.a, alignment.a), std::pair(addresses.b, alignment.b),
        std::pair(addresses.d, alignment.d)})
    MESHWORK_CHECK(address % static_cast<CUdeviceptr>(multiple) == 0,
                   "address {:#x} for a product that needs multiples of {}", address, multiple);
}

absl::Status CudaProducts::Launch(const CudaStream& stream, size_t number, const Addresses& addresses,
                                  CUdeviceptr workspace) const {
  const CudaProduct& product = entries_[number].product;
  const Descriptors& descriptors = *entries_[number].descriptors;
  const CudaContext::Scope scope(*context_);
  MESHWORK_RETURN_IF_ERROR(scope.status());
  // Factors are of the type of the sums.
  const double one_f64 = 1, zero_f64 = 0;
  const float one_f32 = 1, zero_f32 = 0;
  const bool is_f64 = product.dtype == F64;
  const void* const one = is_f64 ? static_cast<const void*>(&one_f64) : &one_f32;
  const void* const zero = is_f64 ? static_cast<const void*>(&zero_f64) : &zero_f32;
  for (const CudaProduct::Call& call : product.calls) {
    void* const d = const_cast<void*>(At(addresses.d, call.d, product.dtype));
    const cublasStatus_t status = context_->api().cublasLtMatmul(
        handle_, descriptors.operation.handle, one, At(addresses.b, call.b, product.dtype),
        descriptors.b.handle, At(addresses.a, call.a, product.dtype), descriptors.a.handle,
        call.adds ? one : zero, d, descriptors.d.handle, d, descriptors.d.handle, &descriptors.algorithm,
        reinterpret_cast<void*>(workspace), static_cast<size_t>(workspace_bytes_), stream.handle());
    MESHWORK_RETURN_IF_ERROR(ToStatus(status, product, "launching"));
  }
  return absl::OkStatus();
}

bool FactorsFitTf32(const Graph& graph, int node) {
  const auto fits = [&](const auto& self, ValueId value) -> bool {
    const int producer = graph.value(value).node;
    if (producer < 0) return false;
    const Node& made = graph.nodes()[static_cast<size_t>(producer)];
    const std::string_view op = made.row->name;
    if (op == "widen") return true;
    if (op == "cast" && graph.value(made.operands[0]).type.dtype == BF16) return true;
    return (op == "mask_padding" || op == "reshape" || op == "transpose") && self(self, made.operands[0]);
  };
  const auto& operands = graph.nodes()[static_cast<size_t>(node)].operands;
  return std::all_of(operands.begin(), operands.end(), [&](ValueId value) { return fits(fits, value); });
}

}  // namespace meshwork

#endif  // MESHWORK_HAVE_CUDA
