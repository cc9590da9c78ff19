#ifdef MESHWORK_HAVE_CUDA
#include "meshwork/runtime/cuda/cuda_convolutions.h"

#include <algorithm>
#include <array>
#include <utility>

#include "fmt/ranges.h"
#include "meshwork/base/status.h"

namespace meshwork {
namespace {

constexpr int64_t kMostConvolutionBytes = int64_t{1} << 30;
constexpr std::array<int64_t, 3> kUniqueIds = {1, 2, 3};  // of x, w and y

bool LacksMemory(CudnnStatus status) {
  return status == CudnnStatus::kHostAllocationFailed || status == CudnnStatus::kDeviceAllocationFailed;
}

// A descriptor of cuDNN, which is destroyed at the end. After an error its functions do nothing, and status() is that
// error.
class BackendDescriptor {
 public:
  BackendDescriptor(const CudaApi& api, CudnnDescriptorType type) : api_(&api) {
    status_ = api.cudnnBackendCreateDescriptor(type, &handle_);
  }
  BackendDescriptor(BackendDescriptor&& other) noexcept
      : api_(other.api_), handle_(std::exchange(other.handle_, nullptr)), status_(other.status_) {}
  BackendDescriptor& operator=(BackendDescriptor&&) = delete;
  ~BackendDescriptor() {
    if (handle_ != nullptr) api_->cudnnBackendDestroyDescriptor(handle_);
  }

  template <typename T>
  BackendDescriptor& Set(CudnnAttribute attribute, CudnnType type, const std::vector<T>& values) {
    if (status_ == CudnnStatus::kSuccess)
      status_ = api_->cudnnBackendSetAttribute(handle_, attribute, type, std::ssize(values), values.data());
    return *this;
  }
  template <typename T>
  BackendDescriptor& Set(CudnnAttribute attribute, CudnnType type, const T& value) {
    return Set(attribute, type, std::vector<T>{value});
  }
  // REQUIRES: `other` was finalized.
  BackendDescriptor& Set(CudnnAttribute attribute, const BackendDescriptor& other) {
    if (status_ == CudnnStatus::kSuccess) status_ = other.status_;
    return Set(attribute, CudnnType::kDescriptor, other.handle_);
  }
  BackendDescriptor& Finalize() {
    if (status_ == CudnnStatus::kSuccess) status_ = api_->cudnnBackendFinalize(handle_);
    return *this;
  }

  // Reads the attribute's elements to `values`, which has room for `most`. Returns how many were written.
  template <typename T>
  int64_t Get(CudnnAttribute attribute, CudnnType type, int64_t most, T* values) {
    int64_t count = 0;
    if (status_ == CudnnStatus::kSuccess)
      status_ = api_->cudnnBackendGetAttribute(handle_, attribute, type, most, &count, values);
    return status_ == CudnnStatus::kSuccess ? std::min(count, most) : 0;
  }

  // The number of elements of the attribute.
  int64_t Count(CudnnAttribute attribute, CudnnType type) {
    int64_t count = 0;
    if (status_ == CudnnStatus::kSuccess)
      status_ = api_->cudnnBackendGetAttribute(handle_, attribute, type, 0, &count, nullptr);
    return status_ == CudnnStatus::kSuccess ? count : 0;
  }

  CudnnDescriptor handle() const { return handle_; }
  CudnnStatus status() const { return status_; }

 private:
  const CudaApi* api_;
  CudnnDescriptor handle_ = nullptr;
  CudnnStatus status_ = CudnnStatus::kSuccess;
};

// The descriptor of an operation, and its attributes.
struct ConvolutionOperation {
  CudnnDescriptorType type;
  CudnnAttribute alpha, beta, convolution, x, w, y;
};
ConvolutionOperation OperationOf(CudaConvolution::Kind kind) {
  using A = CudnnAttribute;
  switch (kind) {
    case CudaConvolution::Kind::kForward: break;
    case CudaConvolution::Kind::kInputGrad:
      return {CudnnDescriptorType::kInputGrad,
              A::kInputGradAlpha,
              A::kInputGradBeta,
              A::kInputGradConvolution,
              A::kInputGradX,
              A::kInputGradW,
              A::kInputGradY};
    case CudaConvolution::Kind::kFilterGrad:
      return {CudnnDescriptorType::kFilterGrad,
              A::kFilterGradAlpha,
              A::kFilterGradBeta,
              A::kFilterGradConvolution,
              A::kFilterGradX,
              A::kFilterGradW,
              A::kFilterGradY};
  }
  return {CudnnDescriptorType::kForward,
          A::kForwardAlpha,
          A::kForwardBeta,
          A::kForwardConvolution,
          A::kForwardX,
          A::kForwardW,
          A::kForwardY};
}

using Ints = std::vector<int64_t>;

Ints OfDims(const CudaConvolution& convolution, int64_t CudaConvolution::Dim::*field) {
  Ints values;
  for (const CudaConvolution::Dim& dim : convolution.dims) values.push_back(dim.*field);
  return values;
}

// cuDNN names dims as [n, c, spatial..], wherever they lie: the strides say that channels are the last.
BackendDescriptor TensorOf(const CudaApi& api, DType dtype, int64_t id, int64_t alignment, int64_t n,
                           int64_t c, const Ints& spatial) {
  Ints sizes = {n, c}, strides(2 + spatial.size());
  sizes.insert(sizes.end(), spatial.begin(), spatial.end());
  strides[1] = 1;
  int64_t stride = c;
  for (size_t d = sizes.size(); d-- > 2; stride *= sizes[d]) strides[d] = stride;
  strides[0] = stride;
  BackendDescriptor tensor(api, CudnnDescriptorType::kTensor);
  tensor
      .Set(CudnnAttribute::kTensorDataType, CudnnType::kDataType,
           dtype == BF16 ? CudnnDataType::kBfloat16 : CudnnDataType::kFloat32)
      .Set(CudnnAttribute::kTensorDimensions, CudnnType::kInt64, sizes)
      .Set(CudnnAttribute::kTensorStrides, CudnnType::kInt64, strides)
      .Set(CudnnAttribute::kTensorUniqueId, CudnnType::kInt64, id)
      .Set(CudnnAttribute::kTensorAlignment, CudnnType::kInt64, alignment)
      .Finalize();
  return tensor;
}

BackendDescriptor WindowsOf(const CudaApi& api, const CudaConvolution& convolution) {
  using Dim = CudaConvolution::Dim;
  BackendDescriptor windows(api, CudnnDescriptorType::kConvolution);
  windows.Set(CudnnAttribute::kConvolutionComputeType, CudnnType::kDataType, CudnnDataType::kFloat32)
      .Set(CudnnAttribute::kConvolutionMode, CudnnType::kConvolutionMode,
           CudnnConvolutionMode::kCrossCorrelation)
      .Set(CudnnAttribute::kConvolutionSpatialDims, CudnnType::kInt64, std::ssize(convolution.dims))
      .Set(CudnnAttribute::kConvolutionDilations, CudnnType::kInt64, OfDims(convolution, &Dim::dilation))
      .Set(CudnnAttribute::kConvolutionStrides, CudnnType::kInt64, OfDims(convolution, &Dim::stride))
      .Set(CudnnAttribute::kConvolutionPrePaddings, CudnnType::kInt64, OfDims(convolution, &Dim::low))
      .Set(CudnnAttribute::kConvolutionPostPaddings, CudnnType::kInt64, OfDims(convolution, &Dim::high))
      .Finalize();
  return windows;
}

// The operation, as a graph of one.
struct DescribedConvolution {
  BackendDescriptor x, w, y, windows, operation, graph;
};
DescribedConvolution DescribeConvolution(const CudaApi& api, CudnnHandle* handle,
                                         const CudaConvolution& convolution, int64_t alignment) {
  const auto& [kind, dtype, batch, in_channels, out_channels, groups, dims] = convolution;
  const ConvolutionOperation named = OperationOf(kind);
  using Dim = CudaConvolution::Dim;
  const auto tensor = [&, dtype = dtype](int64_t id, int64_t n, int64_t c, const Ints& spatial) {
    return TensorOf(api, dtype, id, alignment, n, c, spatial);
  };
  DescribedConvolution made{
      .x = tensor(kUniqueIds[0], batch, in_channels, OfDims(convolution, &Dim::in)),
      .w = tensor(kUniqueIds[1], out_channels, in_channels / groups, OfDims(convolution, &Dim::filter)),
      .y = tensor(kUniqueIds[2], batch, out_channels, OfDims(convolution, &Dim::out)),
      .windows = WindowsOf(api, convolution),
      .operation = BackendDescriptor(api, named.type),
      .graph = BackendDescriptor(api, CudnnDescriptorType::kOperationGraph)};
  made.operation.Set(named.x, made.x)
      .Set(named.w, made.w)
      .Set(named.y, made.y)
      .Set(named.convolution, made.windows)
      .Set(named.alpha, CudnnType::kFloat, 1.0f)
      .Set(named.beta, CudnnType::kFloat, 0.0f)
      .Finalize();
  made.graph.Set(CudnnAttribute::kGraphHandle, CudnnType::kHandle, handle)
      .Set(CudnnAttribute::kGraphOperations, made.operation)
      .Finalize();
  return made;
}

// Whether an engine with these notes may be used (see the header).
bool IsWelcome(const std::vector<CudnnNote>& notes, DType dtype, MatmulPrecision precision) {
  return std::none_of(notes.begin(), notes.end(), [&](CudnnNote note) {
    switch (note) {
      case CudnnNote::kTensorCore: return dtype == F32 && precision == MatmulPrecision::kFull;
      case CudnnNote::kDownConvertsInputs:
      case CudnnNote::kReducedPrecisionReduction:
      case CudnnNote::kFft:
      case CudnnNote::kNondeterministic:
      case CudnnNote::kWinograd:
      case CudnnNote::kWinograd4x4:
      case CudnnNote::kWinograd6x6:
      case CudnnNote::kWinograd13x13: return true;
    }
    return false;
  });
}

}  // namespace

struct CudaConvolutions::Plan {
  BackendDescriptor config, plan;
  int64_t workspace_bytes = 0;
};

CudaConvolutions::CudaConvolutions(std::shared_ptr<const CudaContext> context)
    : context_(std::move(context)), unusable_(context_->api().cudnn_status) {}

CudaConvolutions::~CudaConvolutions() {
  if (handle_ == nullptr || !context_->is_here()) return;
  const CudaContext::Scope scope(*context_);
  entries_.clear();
  context_->api().cudnnDestroy(handle_);
}

absl::Status CudaConvolutions::ToStatus(CudnnStatus status, const CudaConvolution& convolution,
                                        std::string_view what) const {
  if (status == CudnnStatus::kSuccess) return absl::OkStatus();
  constexpr std::string_view kNames[] = {"a convolution", "the gradient of an image",
                                         "the gradient of a filter"};
  using Dim = CudaConvolution::Dim;
  return absl::Status(
      LacksMemory(status) ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kInternal,
      fmt::format("{}: cuDNN {}: {} {}, {} [{},{},{}] with filters of [{}]: {}.", context_->where(),
                  CudnnVersionToString(context_->api().cudnn_version), what,
                  kNames[static_cast<size_t>(convolution.kind)], DTypeName(convolution.dtype),
                  convolution.batch, fmt::join(OfDims(convolution, &Dim::in), ","), convolution.in_channels,
                  fmt::join(OfDims(convolution, &Dim::filter), ","),
                  context_->api().cudnnGetErrorString(status)));
}

absl::StatusOr<std::optional<TakenConvolution>> CudaConvolutions::Add(const CudaConvolution& convolution,
                                                                      int64_t alignment,
                                                                      MatmulPrecision precision) {
  // cuDNN has few engines for f64.
  if (convolution.dtype == F64) return std::nullopt;
  MESHWORK_RETURN_IF_ERROR(Start(convolution));
  if (!unusable_.ok()) {
    ReportMissing(context_->api(), "cuDNN", unusable_);
    return std::nullopt;
  }
  auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.convolution == convolution && entry.alignment == alignment && entry.precision == precision;
  });
  if (found == entries_.end()) {
    MESHWORK_ASSIGN_OR_RETURN(UnlessForked<Plan> plan, FindPlan(convolution, alignment, precision));
    entries_.push_back({convolution, alignment, precision, std::move(plan)});
    found = entries_.end() - 1;
  }
  if (found->plan == nullptr) return std::nullopt;
  return TakenConvolution{static_cast<size_t>(found - entries_.begin()), found->plan->workspace_bytes};
}

// Looks for the plan of one convolution.
class CudaConvolutions::Search {
 public:
  Search(const CudaConvolutions& convolutions, const CudaConvolution& convolution, int64_t alignment,
         MatmulPrecision precision)
      : convolutions_(convolutions),
        api_(convolutions.context_->api()),
        convolution_(convolution),
        alignment_(alignment),
        precision_(precision) {}

  // Null: cuDNN has no engine. Error: there is not enough memory. Other failures are passed over, as the heuristic
  // also lists engines that cannot be made ready.
  absl::StatusOr<UnlessForked<Plan>> Find() {
    const DescribedConvolution described =
        DescribeConvolution(api_, convolutions_.handle_, convolution_, alignment_);
    MESHWORK_RETURN_IF_ERROR(Note(described.graph));
    for (const CudnnHeuristicMode mode : {CudnnHeuristicMode::kA, CudnnHeuristicMode::kFallback}) {
      MESHWORK_ASSIGN_OR_RETURN(std::vector<BackendDescriptor> configs, ConfigsOf(described.graph, mode));
      for (BackendDescriptor& config : configs) {
        MESHWORK_ASSIGN_OR_RETURN(UnlessForked<Plan> plan, PlanOf(std::move(config)));
        if (plan != nullptr) return plan;
      }
    }
    return nullptr;
  }

  // The last status of cuDNN that was no success.
  CudnnStatus failed() const { return failed_; }

 private:
  // Error: there was not enough memory.
  absl::Status Note(const BackendDescriptor& descriptor) {
    if (descriptor.status() != CudnnStatus::kSuccess) failed_ = descriptor.status();
    return LacksMemory(descriptor.status())
               ? convolutions_.ToStatus(descriptor.status(), convolution_, "choosing an engine for")
               : absl::OkStatus();
  }

  // Configurations of engines, the fastest first.
  absl::StatusOr<std::vector<BackendDescriptor>> ConfigsOf(const BackendDescriptor& graph,
                                                           CudnnHeuristicMode mode) {
    constexpr CudnnAttribute kResults = CudnnAttribute::kHeuristicResults;
    BackendDescriptor heuristic(api_, CudnnDescriptorType::kEngineHeuristic);
    heuristic.Set(CudnnAttribute::kHeuristicOperationGraph, graph)
        .Set(CudnnAttribute::kHeuristicMode, CudnnType::kHeuristicMode, mode)
        .Finalize();
    std::vector<BackendDescriptor> configs;
    std::vector<CudnnDescriptor> handles;
    for (int64_t left = heuristic.Count(kResults, CudnnType::kDescriptor); left > 0; --left) {
      configs.emplace_back(api_, CudnnDescriptorType::kEngineConfig);
      MESHWORK_RETURN_IF_ERROR(Note(configs.back()));
      handles.push_back(configs.back().handle());
    }
    const int64_t found = handles.empty() ? 0
                                          : heuristic.Get(kResults, CudnnType::kDescriptor,
                                                          std::ssize(handles), handles.data());
    MESHWORK_RETURN_IF_ERROR(Note(heuristic));
    while (std::ssize(configs) > found) configs.pop_back();
    return configs;
  }

  // Null if the engine may not be used, or does not take the configuration that the heuristic gives it.
  absl::StatusOr<UnlessForked<Plan>> PlanOf(BackendDescriptor config) {
    BackendDescriptor engine(api_, CudnnDescriptorType::kEngine);
    CudnnDescriptor handle = engine.handle();
    config.Get(CudnnAttribute::kEngineConfigEngine, CudnnType::kDescriptor, 1, &handle);
    std::vector<CudnnNote> notes(kMostCudnnNotes);
    notes.resize(static_cast<size_t>(engine.Get(CudnnAttribute::kEngineNumericalNotes,
                                                CudnnType::kNumericalNote, kMostCudnnNotes, notes.data())));
    MESHWORK_RETURN_IF_ERROR(Note(config));
    MESHWORK_RETURN_IF_ERROR(Note(engine));
    const bool is_known =
        config.status() == CudnnStatus::kSuccess && engine.status() == CudnnStatus::kSuccess;
    if (!is_known || !IsWelcome(notes, convolution_.dtype, precision_)) return nullptr;
    BackendDescriptor plan(api_, CudnnDescriptorType::kExecutionPlan);
    plan.Set(CudnnAttribute::kPlanHandle, CudnnType::kHandle, convolutions_.handle_)
        .Set(CudnnAttribute::kPlanEngineConfig, config)
        .Finalize();
    int64_t bytes = 0;
    plan.Get(CudnnAttribute::kPlanWorkspaceSize, CudnnType::kInt64, 1, &bytes);
    MESHWORK_RETURN_IF_ERROR(Note(plan));
    if (plan.status() != CudnnStatus::kSuccess || bytes > kMostConvolutionBytes) return nullptr;
    return UnlessForked<Plan>(new Plan{std::move(config), std::move(plan), bytes});
  }

  const CudaConvolutions& convolutions_;
  const CudaApi& api_;
  const CudaConvolution& convolution_;
  const int64_t alignment_;
  const MatmulPrecision precision_;
  CudnnStatus failed_ = CudnnStatus::kNotSupported;
};

absl::Status CudaConvolutions::Start(const CudaConvolution& convolution) {
  if (handle_ != nullptr || !unusable_.ok()) return absl::OkStatus();
  const CudaContext::Scope scope(*context_);
  MESHWORK_RETURN_IF_ERROR(scope.status());
  absl::Status started = ToStatus(context_->api().cudnnCreate(&handle_), convolution, "starting for");
  if (started.ok() || started.code() == absl::StatusCode::kResourceExhausted) return started;
  handle_ = nullptr;
  unusable_ = std::move(started);
  return absl::OkStatus();
}

absl::StatusOr<UnlessForked<CudaConvolutions::Plan>> CudaConvolutions::FindPlan(
    const CudaConvolution& convolution, int64_t alignment, MatmulPrecision precision) {
  const CudaContext::Scope scope(*context_);
  MESHWORK_RETURN_IF_ERROR(scope.status());
  Search search(*this, convolution, alignment, precision);
  absl::StatusOr<UnlessForked<Plan>> plan = search.Find();
  if (plan.ok() && *plan == nullptr)
    ReportMissing(context_->api(), "an engine of cuDNN",
                  ToStatus(search.failed(), convolution, "no engine for"));
  return plan;
}

void CudaConvolutions::CheckAlignment(size_t number, const Addresses& addresses) const {
  const auto alignment = static_cast<CUdeviceptr>(entries_[number].alignment);
  for (const CUdeviceptr address : {addresses.x, addresses.w, addresses.y})
    MESHWORK_CHECK(address % alignment == 0, "address {:#x} for a convolution that needs multiples of {}",
                   address, alignment);
}

absl::Status CudaConvolutions::Launch(const CudaStream& stream, size_t number, const Addresses& addresses,
                                      CUdeviceptr workspace) const {
  const Entry& entry = entries_[number];
  const CudaApi& api = context_->api();
  const CudaContext::Scope scope(*context_);
  MESHWORK_RETURN_IF_ERROR(scope.status());
  const auto pointer = [](CUdeviceptr address) { return reinterpret_cast<void*>(address); };
  const std::vector<void*> pointers = {pointer(addresses.x), pointer(addresses.w), pointer(addresses.y)};
  BackendDescriptor pack(api, CudnnDescriptorType::kVariantPack);
  pack.Set(CudnnAttribute::kPackUniqueIds, CudnnType::kInt64, Ints(kUniqueIds.begin(), kUniqueIds.end()))
      .Set(CudnnAttribute::kPackPointers, CudnnType::kPointer, pointers)
      .Set(CudnnAttribute::kPackWorkspace, CudnnType::kPointer, pointer(workspace))
      .Finalize();
  CudnnStatus status = pack.status();
  if (status == CudnnStatus::kSuccess) status = api.cudnnSetStream(handle_, stream.handle());
  if (status == CudnnStatus::kSuccess)
    status = api.cudnnBackendExecute(handle_, entry.plan->plan.handle(), pack.handle());
  return ToStatus(status, entry.convolution, "launching");
}

}  // namespace meshwork

#endif  // MESHWORK_HAVE_CUDA
