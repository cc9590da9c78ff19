// Tensors from and for other libraries, without a copy: DLPack (https://dmlc.github.io/dlpack/latest), as PyTorch, JAX,
// NumPy, TensorFlow and CuPy exchange arrays.
//
//   // at::Tensor -> Tensor -> at::Tensor, the same elements:
//   MESHWORK_ASSIGN_OR_RETURN(Tensor x, FromDlpack(at::toDLPack(torch_tensor)));
//   MESHWORK_ASSIGN_OR_RETURN(DLManagedTensor * managed, ToDlpack(x));
//   at::Tensor back = at::fromDLPack(managed);
//
// The structure is the unversioned DLManagedTensor of DLPack 0.2 to 1.x, which a Python capsule "dltensor" holds. Only
// its name is declared here, so that dlpack/dlpack.h may be included beside this header; the structures without that
// header are in runtime/tensor/dlpack_abi.h.
//
// Only tensors in memory of the CPU. Their elements may have any of our dtypes, in one lane.
//
// Thread-safe. The deleter that came with a tensor is called by the thread that drops the last copy.
#pragma once

#include "absl/status/statusor.h"
#include "meshwork/runtime/tensor/tensor.h"

struct DLManagedTensor;  // of dlpack/dlpack.h

namespace meshwork {

// A tensor over the elements of `managed`, whose deleter is called once, with the last copy of the tensor. Elements
// that do not lie dense in row-major order, or at multiples of their size, are copied, and then the deleter is called
// at once. Otherwise writing to the tensor writes to the other library's memory.
// Errors: null; another device than the CPU; element types other than those above; sizes that no Tensor has; a bool
// other than 0 and 1. After an error `managed` still belongs to the caller.
absl::StatusOr<Tensor> FromDlpack(DLManagedTensor* managed);

// The elements of `x` for another library. They are shared, and kept until the receiver calls the deleter. For a tensor
// without elements the address is null. Errors: x.status().
absl::StatusOr<DLManagedTensor*> ToDlpack(const Tensor& x);

}  // namespace meshwork
