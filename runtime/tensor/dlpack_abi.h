// The binary interface of DLPack, written after its specification
// (https://dmlc.github.io/dlpack/latest/c_api.html): the part that runtime/tensor/dlpack.h needs. Each structure has
// the layout of the one in dlpack/dlpack.h whose name stands in the comment behind it.
//
//   auto* managed = reinterpret_cast<dlpack::ManagedTensor*>(ToDlpack(x).value());
//   managed->deleter(managed);
#pragma once

#include <cstddef>
#include <cstdint>

namespace meshwork::dlpack {

inline constexpr int32_t kCpu = 1;  // DLDeviceType; there are more

enum TypeCode : uint8_t {
  kInt = 0,
  kUInt = 1,
  kFloat = 2,
  kHandle = 3,
  kBfloat = 4,
  kComplex = 5,
  kBool = 6
};

struct DataType {  // DLDataType
  uint8_t code;    // a TypeCode, or one of a later version
  uint8_t bits;
  uint16_t lanes;
};

struct Device {  // DLDevice
  int32_t type;
  int32_t id;
};

struct TensorView {  // DLTensor
  void* data;
  Device device;
  int32_t ndim;
  DataType dtype;
  int64_t* shape;
  int64_t* strides;      // in elements; null if the tensor is dense and row-major
  uint64_t byte_offset;  // of the first element from `data`
};

struct ManagedTensor {  // DLManagedTensor
  TensorView dl_tensor;
  void* manager_ctx;
  void (*deleter)(ManagedTensor* self);  // null if there is nothing to release
};

static_assert(sizeof(DataType) == 4 && sizeof(Device) == 8);
static_assert(sizeof(void*) != 8 ||
              (offsetof(TensorView, shape) == 24 && sizeof(TensorView) == 48 && sizeof(ManagedTensor) == 64));

}  // namespace meshwork::dlpack
