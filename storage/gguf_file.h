// A GGUF file (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md) that is open, from which its metadata and
// tensors are read. llama.cpp keeps models in such files, most often quantised.
//
//   MESHWORK_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open("model.gguf"));
//   const GgufValue* name = file.FindMetadata("general.name");               // a std::string, most often
//   const GgufEntry* w = file.Find("blk.0.ffn_up.weight");                   // f32[1536,576], stored as Q4_1
//   MESHWORK_ASSIGN_OR_RETURN(const Tensor tensor, file.Read(*w));           // all of it
//   MESHWORK_ASSIGN_OR_RETURN(const Tensor rows, file.ReadRows(*w, 10, 2));  // f32[2,576]
//
// Versions 2 and 3 are read, little-endian. Shapes are row-major, as everywhere here; the file lists sizes in the other
// order. The types of elements that are read, and the dtypes that they become, without rounding unless the table says
// otherwise:
//
//   in the file        read as   with As also as
//   F32                f32       f64
//   F16                f16       f32, f64; bf16, which rounds to the nearest, ties to even
//   BF16               bf16      f32, f64
//   Q4_0, Q4_1, Q8_0   f32       f64; storage/ggml_type.h has the formulas, which round to f32
//
// A file may also have tensors of other types, as long as they are not read.
//
// Thread safety: const functions may be called concurrently. The file must not be written while it is read.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/base/io/file.h"
#include "meshwork/runtime/tensor/quantized.h"
#include "meshwork/runtime/tensor/tensor.h"
#include "meshwork/storage/ggml_type.h"

namespace meshwork {

// An array of a file's metadata. Its items have one type: whole numbers of all widths are int64_t, but uint64 is
// uint64_t. Texts need not be UTF-8.
struct GgufArray {
  std::variant<std::vector<int64_t>, std::vector<uint64_t>, std::vector<float>, std::vector<double>,
               std::vector<bool>, std::vector<std::string>, std::vector<GgufArray>>
      items;
};
// A value of a file's metadata.
using GgufValue = std::variant<int64_t, uint64_t, float, double, bool, std::string, GgufArray>;

// The value as a whole number. Nothing: it is none, or is above 2^63-1.
std::optional<int64_t> WholeNumber(const GgufValue& value);

// A tensor of a file.
struct GgufEntry {
  std::string name;
  GgmlType stored = GgmlType::kF32;  // how its elements lie in the file
  Type type;                         // what it is read as; of dtype f32 if `stored` is not read here
  int64_t begin = 0,
          end = 0;  // its bytes, counted from where the tensors begin; `end` is `begin` if `stored` is not
                    // read here
};

class GgufFile {
 public:
  // Reads the header and checks it; reads no elements. Takes no more memory than the file has bytes, times a constant,
  // whatever the header claims. Errors: the file cannot be read; any violation of the format; more than 100 MB of header;
  // a tensor of more than 2^40 elements or kMaxRank dims.
  static absl::StatusOr<GgufFile> Open(const std::string& path);

  const std::string& path() const { return file_.path(); }
  // Both in the order of the file, without repeated names.
  const std::vector<GgufEntry>& entries() const { return entries_; }
  const std::vector<std::pair<std::string, GgufValue>>& metadata() const { return metadata_; }
  // Null: the file has no such tensor, or no such key. The result lives as long as the file, also if that is moved.
  const GgufEntry* Find(std::string_view name) const;
  const GgufValue* FindMetadata(std::string_view key) const;
  // The same tensor, to be read as `dtype`. Error: the table above does not have this conversion.
  absl::StatusOr<GgufEntry> As(const GgufEntry& entry, DType dtype) const;

  // A tensor of entry.type. REQUIRES, here and below: `entry` is one of this file, or As gave it.
  // Errors: its elements have a type that is not read here; the file ends early (it was changed); the disk fails.
  absl::StatusOr<Tensor> Read(const GgufEntry& entry) const;
  // `count` rows of its first dim, from `begin` on; reads only the blocks that they lie in. Law: it is
  // Read(entry)->Rows(begin, begin + count). Errors: those of Read; the tensor has no such rows, or no dims.
  absl::StatusOr<Tensor> ReadRows(const GgufEntry& entry, int64_t begin, int64_t count) const;

  // A tensor of Q4_0, Q4_1 or Q8_0 […,k] as it is stored: the bytes of q, the scales and, for the types of 4 bits, the
  // zeros, in f16 as in the file. The zero of Q4_0 is -8 scale. Law: what they stand for (MatMulQ) is Read(entry).
  // Errors: those of Read; another type; -8 scale is beyond f16.
  absl::StatusOr<QuantizedMatrix> ReadBlocks(const GgufEntry& entry) const;

 private:
  GgufFile(InputFile file, int64_t data_begin) : file_(std::move(file)), data_begin_(data_begin) {}

  // The elements of a tensor from `first` on, as many as `type` has, of its type.
  absl::StatusOr<Tensor> ReadElements(const GgufEntry& entry, int64_t first, const Type& type) const;

  InputFile file_;
  int64_t data_begin_ = 0;  // where the tensors begin in the file
  std::vector<GgufEntry> entries_;
  std::vector<std::pair<std::string, GgufValue>> metadata_;
  std::map<std::string, size_t, std::less<>> entry_index_, metadata_index_;  // by name
};

}  // namespace meshwork
