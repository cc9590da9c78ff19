// A safetensors file (storage/safetensors.h) that is open, from which tensors and boxes of them are read.
//
//   MESHWORK_ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::Open("model.safetensors"));
//   const SafetensorsEntry* w = file.Find("w");                          // f32[784,700]
//   MESHWORK_ASSIGN_OR_RETURN(const Tensor tensor, file.Read(*w));       // all of it
//   std::vector<float> rows(2 * 700);                                    // rows 10 and 11
//   file.ReadBox(*w, {{10, 2}, {0, 700}}, {{10, 0}, {2, 700}}, reinterpret_cast<std::byte*>(rows.data()));
//
// Thread safety: const functions may be called concurrently. The file must not be written while it is read;
// WriteFileAtomically replaces it, which does not disturb a reader.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/base/io/file.h"
#include "meshwork/runtime/tensor/box.h"
#include "meshwork/runtime/tensor/tensor.h"
#include "meshwork/storage/safetensors.h"
#include "meshwork/storage/stored_type.h"

namespace meshwork {

// A tensor of a file.
struct SafetensorsEntry {
  std::string name;
  StoredType stored = StoredType::kF32;  // how its elements lie in the file
  Type type;                             // what it is read as
  int64_t begin = 0, end = 0;            // its bytes, counted from the end of the header
};

class SafetensorsFile {
 public:
  // Reads the header and checks it; reads no elements. Errors: as ReadSafetensors, but for those of elements.
  static absl::StatusOr<SafetensorsFile> Open(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const InputFile& file() const { return file_; }
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }  // in the order of the header
  const SafetensorsMetadata& metadata() const { return metadata_; }
  // Null: the file has no such tensor. The entry lives as long as the file, also if that is moved.
  const SafetensorsEntry* Find(std::string_view name) const;
  // The same tensor, to be read as `dtype`. Error: the table in storage/safetensors.h does not have this conversion.
  absl::StatusOr<SafetensorsEntry> As(const SafetensorsEntry& entry, DType dtype) const;

  // A tensor of entry.type. REQUIRES, here and below: `entry` is one of this file, or As gave it; its
  // type.shape may be replaced by another with as many elements (Layout::FactorShape).
  // Errors: the file ends early (it was changed); the disk fails; a BOOL is neither 0 nor 1.
  absl::StatusOr<Tensor> Read(const SafetensorsEntry& entry) const;
  // Reads the elements of `box`, a block of the tensor, to their places in a buffer that holds another block.
  // `data`: the elements of `to`, of entry.type.dtype; those outside of `box` are left as they are. Only the
  // bytes of `box` are read from the file; bytes that lie side by side are read together.
  // Errors: those of Read; `box` does not lie in the tensor, or not in `to`.
  absl::Status ReadBox(const SafetensorsEntry& entry, const Block& box, const BoxBuffer& to,
                       std::byte* data) const;

  // The bytes of elements that all threads have read from the file so far.
  int64_t bytes_read() const { return *bytes_read_; }

 private:
  SafetensorsFile(InputFile file, int64_t data_begin) : file_(std::move(file)), data_begin_(data_begin) {}

  // Fills `bytes` with elements from `begin` on, as they lie in the file.
  absl::Status ReadRun(const SafetensorsEntry& entry, int64_t begin, std::span<std::byte> bytes) const;

  InputFile file_;
  int64_t data_begin_ = 0;  // where the elements begin in the file
  std::vector<SafetensorsEntry> entries_;
  SafetensorsMetadata metadata_;
  std::map<std::string, size_t, std::less<>> index_;  // of entries_, by name
  std::unique_ptr<std::atomic<int64_t>> bytes_read_ = std::make_unique<std::atomic<int64_t>>(0);
};

}  // namespace meshwork
