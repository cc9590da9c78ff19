// The types and numbers of runtime/cuda/cudnn_api.h are those of cudnn_graph.h, if that header is installed.
#if defined(MESHWORK_HAVE_CUDA) && __has_include(<cudnn_graph.h>)
#include <cudnn_graph.h>

#include "gtest/gtest.h"
#include "meshwork/runtime/cuda/cudnn_api.h"

namespace meshwork::cudnn_header_test {
namespace {

template <typename Ours, typename Theirs>
constexpr bool Is(Ours ours, Theirs theirs) {
  static_assert(sizeof(Ours) == sizeof(Theirs));
  return static_cast<int>(ours) == static_cast<int>(theirs);
}

TEST(CudnnHeaderTest, StatusesAreTheSame) {
  EXPECT_TRUE(Is(CudnnStatus::kSuccess, CUDNN_STATUS_SUCCESS));
  EXPECT_TRUE(Is(CudnnStatus::kBadParam, CUDNN_STATUS_BAD_PARAM));
  EXPECT_TRUE(Is(CudnnStatus::kNotSupported, CUDNN_STATUS_NOT_SUPPORTED));
  EXPECT_TRUE(Is(CudnnStatus::kInternalError, CUDNN_STATUS_INTERNAL_ERROR));
  EXPECT_TRUE(Is(CudnnStatus::kHostAllocationFailed, CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED));
  EXPECT_TRUE(Is(CudnnStatus::kDeviceAllocationFailed, CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED));
  EXPECT_TRUE(Is(CudnnStatus::kExecutionFailed, CUDNN_STATUS_EXECUTION_FAILED));
}

TEST(CudnnHeaderTest, DescriptorsAreTheSame) {
  using T = CudnnDescriptorType;
  EXPECT_TRUE(Is(T::kConvolution, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR));
  EXPECT_TRUE(Is(T::kEngine, CUDNN_BACKEND_ENGINE_DESCRIPTOR));
  EXPECT_TRUE(Is(T::kEngineConfig, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
  EXPECT_TRUE(Is(T::kEngineHeuristic, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR));
  EXPECT_TRUE(Is(T::kExecutionPlan, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR));
  EXPECT_TRUE(Is(T::kForward, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR));
  EXPECT_TRUE(Is(T::kFilterGrad, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR));
  EXPECT_TRUE(Is(T::kInputGrad, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR));
  EXPECT_TRUE(Is(T::kOperationGraph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR));
  EXPECT_TRUE(Is(T::kVariantPack, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR));
  EXPECT_TRUE(Is(T::kTensor, CUDNN_BACKEND_TENSOR_DESCRIPTOR));
}

TEST(CudnnHeaderTest, AttributesAreTheSame) {
  using A = CudnnAttribute;
  EXPECT_TRUE(Is(A::kConvolutionComputeType, CUDNN_ATTR_CONVOLUTION_COMP_TYPE));
  EXPECT_TRUE(Is(A::kConvolutionMode, CUDNN_ATTR_CONVOLUTION_CONV_MODE));
  EXPECT_TRUE(Is(A::kConvolutionDilations, CUDNN_ATTR_CONVOLUTION_DILATIONS));
  EXPECT_TRUE(Is(A::kConvolutionStrides, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES));
  EXPECT_TRUE(Is(A::kConvolutionPostPaddings, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS));
  EXPECT_TRUE(Is(A::kConvolutionPrePaddings, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS));
  EXPECT_TRUE(Is(A::kConvolutionSpatialDims, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS));
  EXPECT_TRUE(Is(A::kHeuristicMode, CUDNN_ATTR_ENGINEHEUR_MODE));
  EXPECT_TRUE(Is(A::kHeuristicOperationGraph, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH));
  EXPECT_TRUE(Is(A::kHeuristicResults, CUDNN_ATTR_ENGINEHEUR_RESULTS));
  EXPECT_TRUE(Is(A::kEngineConfigEngine, CUDNN_ATTR_ENGINECFG_ENGINE));
  EXPECT_EQ(static_cast<int>(A::kPlanHandle), 400);  // the header warns of it
  EXPECT_TRUE(Is(A::kPlanEngineConfig, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG));
  EXPECT_TRUE(Is(A::kPlanWorkspaceSize, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
  EXPECT_TRUE(Is(A::kForwardAlpha, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA));
  EXPECT_TRUE(Is(A::kForwardBeta, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA));
  EXPECT_TRUE(Is(A::kForwardConvolution, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC));
  EXPECT_TRUE(Is(A::kForwardW, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W));
  EXPECT_TRUE(Is(A::kForwardX, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X));
  EXPECT_TRUE(Is(A::kForwardY, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y));
  EXPECT_TRUE(Is(A::kInputGradAlpha, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA));
  EXPECT_TRUE(Is(A::kInputGradBeta, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA));
  EXPECT_TRUE(Is(A::kInputGradConvolution, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC));
  EXPECT_TRUE(Is(A::kInputGradW, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W));
  EXPECT_TRUE(Is(A::kInputGradX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX));
  EXPECT_TRUE(Is(A::kInputGradY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY));
  EXPECT_TRUE(Is(A::kFilterGradAlpha, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA));
  EXPECT_TRUE(Is(A::kFilterGradBeta, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA));
  EXPECT_TRUE(Is(A::kFilterGradConvolution, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC));
  EXPECT_TRUE(Is(A::kFilterGradW, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW));
  EXPECT_TRUE(Is(A::kFilterGradX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X));
  EXPECT_TRUE(Is(A::kFilterGradY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY));
  EXPECT_EQ(static_cast<int>(A::kGraphHandle), 800);
  EXPECT_TRUE(Is(A::kGraphOperations, CUDNN_ATTR_OPERATIONGRAPH_OPS));
  EXPECT_TRUE(Is(A::kTensorAlignment, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT));
  EXPECT_TRUE(Is(A::kTensorDataType, CUDNN_ATTR_TENSOR_DATA_TYPE));
  EXPECT_TRUE(Is(A::kTensorDimensions, CUDNN_ATTR_TENSOR_DIMENSIONS));
  EXPECT_TRUE(Is(A::kTensorStrides, CUDNN_ATTR_TENSOR_STRIDES));
  EXPECT_TRUE(Is(A::kTensorUniqueId, CUDNN_ATTR_TENSOR_UNIQUE_ID));
  EXPECT_TRUE(Is(A::kPackUniqueIds, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS));
  EXPECT_TRUE(Is(A::kPackPointers, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS));
  EXPECT_TRUE(Is(A::kPackWorkspace, CUDNN_ATTR_VARIANT_PACK_WORKSPACE));
  EXPECT_TRUE(Is(A::kEngineNumericalNotes, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE));
}

TEST(CudnnHeaderTest, ElementsAreTheSame) {
  EXPECT_TRUE(Is(CudnnType::kHandle, CUDNN_TYPE_HANDLE));
  EXPECT_TRUE(Is(CudnnType::kDataType, CUDNN_TYPE_DATA_TYPE));
  EXPECT_TRUE(Is(CudnnType::kInt64, CUDNN_TYPE_INT64));
  EXPECT_TRUE(Is(CudnnType::kFloat, CUDNN_TYPE_FLOAT));
  EXPECT_TRUE(Is(CudnnType::kPointer, CUDNN_TYPE_VOID_PTR));
  EXPECT_TRUE(Is(CudnnType::kConvolutionMode, CUDNN_TYPE_CONVOLUTION_MODE));
  EXPECT_TRUE(Is(CudnnType::kHeuristicMode, CUDNN_TYPE_HEUR_MODE));
  EXPECT_TRUE(Is(CudnnType::kNumericalNote, CUDNN_TYPE_NUMERICAL_NOTE));
  EXPECT_TRUE(Is(CudnnType::kDescriptor, CUDNN_TYPE_BACKEND_DESCRIPTOR));
  EXPECT_TRUE(Is(CudnnDataType::kFloat32, CUDNN_DATA_FLOAT));
  EXPECT_TRUE(Is(CudnnDataType::kBfloat16, CUDNN_DATA_BFLOAT16));
  EXPECT_TRUE(Is(CudnnConvolutionMode::kCrossCorrelation, CUDNN_CROSS_CORRELATION));
  EXPECT_TRUE(Is(CudnnHeuristicMode::kA, CUDNN_HEUR_MODE_A));
  EXPECT_TRUE(Is(CudnnHeuristicMode::kFallback, CUDNN_HEUR_MODE_FALLBACK));
  EXPECT_TRUE(Is(CudnnNote::kTensorCore, CUDNN_NUMERICAL_NOTE_TENSOR_CORE));
  EXPECT_TRUE(Is(CudnnNote::kDownConvertsInputs, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS));
  EXPECT_TRUE(Is(CudnnNote::kReducedPrecisionReduction, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION));
  EXPECT_TRUE(Is(CudnnNote::kFft, CUDNN_NUMERICAL_NOTE_FFT));
  EXPECT_TRUE(Is(CudnnNote::kNondeterministic, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC));
  EXPECT_TRUE(Is(CudnnNote::kWinograd, CUDNN_NUMERICAL_NOTE_WINOGRAD));
  EXPECT_TRUE(Is(CudnnNote::kWinograd4x4, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4));
  EXPECT_TRUE(Is(CudnnNote::kWinograd6x6, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6));
  EXPECT_TRUE(Is(CudnnNote::kWinograd13x13, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13));
  EXPECT_LE(CUDNN_NUMERICAL_NOTE_TYPE_COUNT, kMostCudnnNotes);
}

// The function types of the table have the parameters of the library's functions. Only types are compared: this test
// is not linked with cuDNN.
template <typename Function>
constexpr int kParameters = -1;
template <typename R, typename... A>
constexpr int kParameters<R(A...)> = sizeof...(A);

TEST(CudnnHeaderTest, ParametersAreAsMany) {
#define MESHWORK_COUNT(result, name, parameters) \
  EXPECT_EQ(kParameters<result parameters>, kParameters<decltype(::name)>) << #name;
  MESHWORK_CUDNN_FUNCTIONS(MESHWORK_COUNT)
#undef MESHWORK_COUNT
}

}  // namespace
}  // namespace meshwork::cudnn_header_test

#endif
