// Tensors in a file, in the safetensors format (https://github.com/huggingface/safetensors).
//
//   MESHWORK_RETURN_IF_ERROR(WriteSafetensors("model.safetensors", {{"w1", w1}, {"b1", b1}}));
//   MESHWORK_ASSIGN_OR_RETURN(auto tensors, ReadSafetensors("model.safetensors"));  // {{"w1", …}, {"b1", …}}
//   ReadSafetensors("published-in-f16.safetensors", {.reals = F32})                 // f32, whatever they are in the file
//
// The file is the length of its header as a little-endian 64-bit number; the header, a JSON object
// {"w1":{"dtype":"F32","shape":[784,700],"data_offsets":[0,2195200]}, …}, padded with spaces to a multiple
// of 8 bytes; and the elements, little-endian and row-major, without holes. The header may also have texts by
// name, "__metadata__". meshwork lists the tensors in the order given and writes their elements in the order
// of element size, widest first, so that each lies at a multiple of its size. Equal tensors and texts make
// equal files, byte for byte.
//
// Every dtype is written, under the format's name for it. The types that are read, and the dtypes that they become,
// without rounding unless the table says otherwise:
//
//   in the file        read as   with ReadSafetensorsOptions::as also as
//   F64, I64, BOOL     the same
//   F32                f32       f64
//   BF16               bf16      f32, f64
//   F16                f16       f32, f64; bf16, which rounds to the nearest, ties to even
//   I32                i32       i64
//   I8, U8             the same  i32, i64
//   I16, U16           i32       i64
//   U32                i64
//
// storage/safetensors_file.h reads single tensors and parts of them.
//
// Thread safety: that of files (base/io/file.h).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/runtime/tensor/tensor.h"

namespace meshwork {

using SafetensorsMetadata = std::map<std::string, std::string>;

// Replaces the file in one step. Errors: a name is given twice, reserved ("__metadata__") or not UTF-8; a
// text of the metadata is not UTF-8; a tensor that is invalid; the file cannot be written.
absl::Status WriteSafetensors(const std::string& path,
                              const std::vector<std::pair<std::string, Tensor>>& tensors,
                              const SafetensorsMetadata& metadata = {});

struct WrittenFile {
  int64_t bytes = 0;   // the size of the file
  std::string sha256;  // of its bytes, as Sha256OfFile gives
};
// As WriteSafetensors, but also hashes the file's bytes, in the same pass over memory.
absl::StatusOr<WrittenFile> WriteSafetensorsHashed(const std::string& path,
                                                   const std::vector<std::pair<std::string, Tensor>>& tensors,
                                                   const SafetensorsMetadata& metadata = {});

// The same for tensors that need not fit into memory together: `read` returns the i-th of `tensors`, of its type. It
// is called once for each tensor that has elements, in the order of the file. Further errors: those of `read`.
absl::StatusOr<WrittenFile> StreamSafetensors(const std::string& path,
                                              const std::vector<std::pair<std::string, Type>>& tensors,
                                              const std::function<absl::StatusOr<Tensor>(size_t i)>& read,
                                              const SafetensorsMetadata& metadata = {});

struct ReadSafetensorsOptions {
  std::map<std::string, DType> as = {};  // by the name of a tensor; others are read as the table above says
  // The dtype of all tensors of real numbers that `as` does not name, whatever type they have in the file. Take F32
  // to read weights that were published in f16 or bf16 for a model in f32.
  std::optional<DType> reals = {};
};
// The tensors in the order of the header. Law: what WriteSafetensors wrote comes back equal, in order.
// Everything in the file is checked before it is used; memory grows with the actual content, not with the
// sizes that the header claims. Errors: the file cannot be read; any violation of the format, with the tensor
// and the values; a dtype that is not in the table; `as` or `reals` has a conversion that is not in the table, or a
// name that is not in the file.
absl::StatusOr<std::vector<std::pair<std::string, Tensor>>> ReadSafetensors(
    const std::string& path, const ReadSafetensorsOptions& options = {});

}  // namespace meshwork
