// Unpacker: the bytes of a file, a portion at a time; unpacked if the content of the file is gzipped.
//
//   Unpacker in("train.gz", more);    // more() gives the file's bytes, portion by portion
//   in.Read(out)                      // fills `out`, or gives what is left
//
// Not thread-safe. Moved only before the first Read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace meshwork::internal {

class Unpacker {
 public:
  // The next bytes of the file; "" at its end, also if called again. They stay as they are until the next call.
  using More = std::function<absl::StatusOr<std::string_view>()>;

  // `path` is for messages.
  Unpacker(std::string path, More more);
  Unpacker(Unpacker&&) noexcept;
  Unpacker& operator=(Unpacker&&) noexcept;
  ~Unpacker();

  // Fills `out` as far as the data goes; returns how far. Fewer bytes than asked for mean the end, and that the
  // checksum was right. Errors: those of More; gzipped data is damaged, or cut off, or something else follows it.
  absl::StatusOr<size_t> Read(std::span<uint8_t> out);
  // Whether the file is gzipped. REQUIRES: Read was called.
  bool is_packed() const { return inflater_ != nullptr; }

 private:
  struct Inflater;

  // Makes rest_ hold at least `bytes` bytes, unless the file ends before.
  absl::Status Have(size_t bytes);
  absl::Status Begin();
  absl::StatusOr<size_t> Inflate(std::span<uint8_t> out);
  absl::Status EndMember();

  std::string path_;
  More more_;
  std::string_view rest_;  // of what more_ has given
  std::string joined_;     // the memory of rest_ if it comes from two portions
  bool begun_ = false, ended_ = false;
  uint64_t unpacked_ = 0;
  std::unique_ptr<Inflater> inflater_;  // null: the file is not gzipped
};

}  // namespace meshwork::internal
