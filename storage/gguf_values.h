// The bytes of a GGUF header (storage/gguf_file.h), read one after the other as numbers, texts and values of metadata.
// Only this room uses it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/base/io/file.h"
#include "meshwork/base/status.h"
#include "meshwork/storage/gguf_file.h"

namespace meshwork {

inline constexpr int64_t kMaxGgufHeader = 100'000'000;  // bytes; vocabularies take a fifth of it at most

// Every function fails if the file, or a header of kMaxGgufHeader bytes, ends before what it reads. Messages do not name
// the file: the caller adds it. Belongs to one thread; `file` must outlive it.
class GgufBytes {
 public:
  explicit GgufBytes(const InputFile& file) : file_(file) {}

  int64_t at() const { return at_; }  // the position of the next byte in the file
  // Whether `count` items, which take at least `size` bytes each, can still follow. To be asked before memory is taken
  // for as many items as the file claims.
  absl::Status CheckLeft(uint64_t count, int64_t size) const;

  template <typename T>
  absl::StatusOr<T> Number() {
    T number;
    MESHWORK_RETURN_IF_ERROR(Read(std::as_writable_bytes(std::span(&number, 1))));
    return number;
  }
  // A length, and as many bytes.
  absl::StatusOr<std::string> Text();
  // The number of a type, and a value of it. Further errors: no such type; a bool other than 0 and 1; arrays that nest
  // too deep.
  absl::StatusOr<GgufValue> Value();

 private:
  absl::Status Read(std::span<std::byte> bytes);
  absl::StatusOr<bool> Bool();
  absl::StatusOr<GgufArray> Array(int depth);
  template <typename Stored, typename Held>
  absl::StatusOr<GgufArray> Numbers(uint64_t count);
  template <typename Item>
  absl::StatusOr<GgufArray> Items(uint64_t count, int64_t size, Item&& item);

  const InputFile& file_;
  int64_t at_ = 0;
  std::vector<std::byte> buffer_;  // what follows at_ in the file, from next_ on
  size_t next_ = 0;
};

}  // namespace meshwork
