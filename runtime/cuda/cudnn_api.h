// The functions of cuDNN that meshwork calls, and their types, as cudnn_graph.h of version 9 declares them: so a build
// needs no cuDNN (tests/runtime/cuda/cudnn_header_test.cc compares them with that header where there is one). They are
// fields of CudaApi.
//
// cuDNN's graph API describes an operation by *descriptors*: one is created, its attributes are set, and it is
// finalized; its attributes can be read then. An *engine* is an implementation; a heuristic lists configurations of
// engines, the fastest first. A *plan* is a configuration made ready for a handle. A *variant pack* has the addresses
// with which a plan is executed.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

// F(result, name, parameters) for each function.
#define MESHWORK_CUDNN_FUNCTIONS(F)                                                     \
  F(size_t, cudnnGetVersion, ())                                                        \
  F(const char*, cudnnGetErrorString, (CudnnStatus))                                    \
  F(CudnnStatus, cudnnCreate, (CudnnHandle**))                                          \
  F(CudnnStatus, cudnnDestroy, (CudnnHandle*))                                          \
  F(CudnnStatus, cudnnSetStream, (CudnnHandle*, CUstream))                              \
  F(CudnnStatus, cudnnBackendCreateDescriptor, (CudnnDescriptorType, CudnnDescriptor*)) \
  F(CudnnStatus, cudnnBackendDestroyDescriptor, (CudnnDescriptor))                      \
  F(CudnnStatus, cudnnBackendFinalize, (CudnnDescriptor))                               \
  F(CudnnStatus, cudnnBackendSetAttribute,                                              \
    (CudnnDescriptor, CudnnAttribute, CudnnType, int64_t, const void*))                 \
  F(CudnnStatus, cudnnBackendGetAttribute,                                              \
    (CudnnDescriptor, CudnnAttribute, CudnnType, int64_t, int64_t*, void*))             \
  F(CudnnStatus, cudnnBackendExecute, (CudnnHandle*, CudnnDescriptor, CudnnDescriptor))

namespace meshwork {

struct CudnnHandle;  // opaque
using CudnnDescriptor = void*;

// The thousands say what kind of error it is.
enum class CudnnStatus : int {
  kSuccess = 0,
  kBadParam = 2000,
  kNotSupported = 3000,
  kInternalError = 4000,
  kHostAllocationFailed = 4003,
  kDeviceAllocationFailed = 4004,
  kExecutionFailed = 5000,
};

enum class CudnnDescriptorType : int {
  kConvolution = 1,
  kEngine = 2,
  kEngineConfig = 3,
  kEngineHeuristic = 4,
  kExecutionPlan = 5,
  kForward = 10,  // operations of a convolution
  kFilterGrad = 11,
  kInputGrad = 12,
  kOperationGraph = 15,
  kVariantPack = 16,
  kTensor = 17,
};

enum class CudnnAttribute : int {
  kConvolutionComputeType = 100,
  kConvolutionMode = 101,
  kConvolutionDilations = 102,
  kConvolutionStrides = 103,
  kConvolutionPostPaddings = 104,
  kConvolutionPrePaddings = 105,
  kConvolutionSpatialDims = 106,
  kHeuristicMode = 200,
  kHeuristicOperationGraph = 201,
  kHeuristicResults = 202,
  kEngineConfigEngine = 300,
  kPlanHandle = 400,
  kPlanEngineConfig = 401,
  kPlanWorkspaceSize = 402,
  kForwardAlpha = 700,
  kForwardBeta = 701,
  kForwardConvolution = 702,
  kForwardW = 703,
  kForwardX = 704,
  kForwardY = 705,
  kInputGradAlpha = 706,
  kInputGradBeta = 707,
  kInputGradConvolution = 708,
  kInputGradW = 709,
  kInputGradX = 710,
  kInputGradY = 711,
  kFilterGradAlpha = 712,
  kFilterGradBeta = 713,
  kFilterGradConvolution = 714,
  kFilterGradW = 715,
  kFilterGradX = 716,
  kFilterGradY = 717,
  kGraphHandle = 800,
  kGraphOperations = 801,
  kTensorAlignment = 900,
  kTensorDataType = 901,
  kTensorDimensions = 902,
  kTensorStrides = 903,
  kTensorUniqueId = 906,
  kPackUniqueIds = 1000,
  kPackPointers = 1001,
  kPackWorkspace = 1003,
  kEngineNumericalNotes = 1303,
};

// The type of an attribute's elements.
enum class CudnnType : int {
  kHandle = 0,
  kDataType = 1,
  kInt64 = 3,
  kFloat = 4,
  kPointer = 6,
  kConvolutionMode = 7,
  kHeuristicMode = 8,
  kNumericalNote = 11,
  kDescriptor = 15,
};

enum class CudnnDataType : int { kFloat32 = 0, kBfloat16 = 9 };
enum class CudnnConvolutionMode : int { kCrossCorrelation = 1 };
enum class CudnnHeuristicMode : int { kFallback = 2, kA = 3 };

// Notes of an engine about its numbers.
enum class CudnnNote : int {
  kTensorCore = 0,
  kDownConvertsInputs = 1,
  kReducedPrecisionReduction = 2,
  kFft = 3,
  kNondeterministic = 4,
  kWinograd = 5,
  kWinograd4x4 = 6,
  kWinograd6x6 = 7,
  kWinograd13x13 = 8,
};
inline constexpr int64_t kMostCudnnNotes = 32;  // of an engine; cuDNN 9 has ten kinds

// The oldest version that is used, as cuDNN counts: 9.0.0.
inline constexpr int kOldestCudnn = 90000;

}  // namespace meshwork
