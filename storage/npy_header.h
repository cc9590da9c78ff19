// The header of a .npy array (storage/npy.h), read and written. Only this room uses it.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "meshwork/ir/type.h"
#include "meshwork/storage/byte_source.h"
#include "meshwork/storage/stored_type.h"

namespace meshwork {

struct NpyHeader {
  StoredType stored = StoredType::kF32;
  bool is_u64 = false;         // unsigned 64-bit elements, which StoredType lacks: `stored` is kI64
  bool is_big_endian = false;  // the byte order of the elements
  bool is_fortran = false;     // the first dim varies fastest
  Shape shape;

  Type type() const { return {ReadType(stored), shape}; }  // of the tensor that is read
};

// Reads up to the first element. `place` is where the array is, for messages: "w.npy". Errors: it is not the beginning
// of such a file; element types that are not read; a shape that no Tensor has.
absl::StatusOr<NpyHeader> ReadNpyHeader(std::string_view place, ByteSource& source);

// The bytes in front of the elements of a tensor of this type, as numpy.save writes them. bf16, which the format lacks,
// becomes f32.
std::string NpyHeaderOf(const Type& type);

}  // namespace meshwork
