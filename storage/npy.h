// NumPy's files: an array in a .npy, several by name in a .npz.
//
//   MESHWORK_ASSIGN_OR_RETURN(Tensor x, ReadNpy("x.npy"));               // numpy.save("x.npy", x)
//   MESHWORK_ASSIGN_OR_RETURN(auto arrays, ReadNpz("weights.npz"));      // numpy.savez("weights.npz", w=w, b=b)
//   MESHWORK_RETURN_IF_ERROR(WriteNpy("y.npy", y));                      // numpy.load("y.npy")
//   MESHWORK_RETURN_IF_ERROR(WriteNpz("out.npz", {{"w", w}, {"b", b}}));
//
// The format is that of numpy.lib.format, versions 1.0, 2.0 and 3.0; a .npz is a zip archive of such files, stored or
// deflated (numpy.savez_compressed). Both byte orders are read, and arrays in Fortran order, which become row-major.
//
// The types that are read, and the dtype that each becomes, without rounding:
//
//   in the file             read as
//   f8, f4, f2              f64, f32, f16
//   i8, i4, i1, u1, b1      i64, i32, i8, u8, bool
//   i2, u2                  i32
//   u4                      i64
//   u8                      i64, if all elements are below 2^63
//
// Python objects (object arrays), structures, texts, complex numbers and dates are never read. Elements of a Tensor are
// written as they are, but bf16, which NumPy lacks, as f4. Equal tensors make equal files, byte for byte.
//
// Everything in a file is checked before it is used; memory grows with the content of the file, not with what its
// headers claim. Thread safety: that of files (base/io/file.h).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/runtime/tensor/tensor.h"
#include "meshwork/storage/unpack_limit.h"

namespace meshwork {

// Errors: the file cannot be read; any violation of the format; elements that are not in the table; more or fewer of
// them than the header says.
absl::StatusOr<Tensor> ReadNpy(const std::string& path);
// The arrays in the order of the archive, without the ".npy" of their names. Further errors: a member is no array, is
// encrypted or has a wrong CRC; two members have one name; the deflated arrays unpack to more than `options` allows.
absl::StatusOr<std::vector<std::pair<std::string, Tensor>>> ReadNpz(const std::string& path,
                                                                    const UnpackOptions& options = {});

// Replace the file in one step. Errors: a tensor that is invalid; a name is given twice or longer than 65000 bytes; the
// file cannot be written.
absl::Status WriteNpy(const std::string& path, const Tensor& tensor);
absl::Status WriteNpz(const std::string& path, const std::vector<std::pair<std::string, Tensor>>& tensors);

}  // namespace meshwork
