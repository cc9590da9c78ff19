// Tensors in a file, in the safetensors format (https://github.com/huggingface/safetensors).
//
//   MESHWORK_RETURN_IF_ERROR(WriteSafetensors("model.safetensors", {{"w1", w1}, {"b1", b1}}));
//   MESHWORK_ASSIGN_OR_RETURN(auto tensors, ReadSafetensors("model.safetensors"));  // {{"w1", …}, {"b1", …}}
//
// The file is the length of its header as a little-endian 64-bit number; the header, a JSON object
// {"w1":{"dtype":"F32","shape":[784,700],"data_offsets":[0,2195200]}, …}, padded with spaces to a multiple
// of 8 bytes; and the elements, little-endian and row-major, without holes. meshwork lists the tensors in the
// order given and writes their elements in the order of element size, widest first, so that each lies at a
// multiple of its size. Equal tensors make equal files, byte for byte. Dtypes: F32, F64, BF16, I32, I64,
// BOOL.
//
// Thread safety: that of files (storage/file.h).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/runtime/tensor.h"

namespace meshwork {

// Replaces the file in one step. Errors: a name is given twice, reserved ("__metadata__") or not UTF-8; a
// tensor that is invalid; the file cannot be written.
absl::Status WriteSafetensors(const std::string& path,
                              const std::vector<std::pair<std::string, Tensor>>& tensors);

// The tensors in the order of the header. Law: what WriteSafetensors wrote comes back equal, in order.
// Everything in the file is checked before it is used; memory grows with the actual content, not with the
// sizes that the header claims. Errors: the file cannot be read; any violation of the format, with the tensor
// and the values; a dtype that meshwork does not have.
absl::StatusOr<std::vector<std::pair<std::string, Tensor>>> ReadSafetensors(const std::string& path);

}  // namespace meshwork
