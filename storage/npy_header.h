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
  bool is_u64 = false;         // 64 bits without a sign, which StoredType has not: `stored` is kI64
  bool is_big_endian = false;  // the elements are
  bool is_fortran = false;     // the first dim varies fastest
  Shape shape;

  Type type() const { return {ReadType(stored), shape}; }  // that it is read as
};

// Reads up to the first element. `place` is where the array is, for messages: "w.npy". Errors: it is not the beginning of
// such a file; element types that are not read; a shape that no Tensor has.
absl::StatusOr<NpyHeader> ReadNpyHeader(std::string_view place, ByteSource& source);

// What stands in front of the elements of a tensor of this type, byte for byte as numpy.save writes it. A bf16, which the
// format has not, is one of f32.
std::string NpyHeaderOf(const Type& type);

}  // namespace meshwork
