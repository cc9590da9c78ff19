// Bytes that are read one after the other: of a file, or of a member of an archive (storage/zip.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "meshwork/base/io/file.h"

namespace meshwork {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // How many bytes are still to be read. For a member of an archive this is the archive's claim; if it is wrong, Read
  // fails.
  virtual int64_t left() const = 0;
  // Fills `bytes` with the next bytes. Errors: there are not enough; they are damaged; the disk fails.
  virtual absl::Status Read(std::span<std::byte> bytes) = 0;
};

// A file from its beginning on.
class FileSource : public ByteSource {
 public:
  explicit FileSource(InputFile file) : file_(std::move(file)) {}
  int64_t left() const override { return file_.size() - at_; }
  absl::Status Read(std::span<std::byte> bytes) override {
    const int64_t at = at_;
    at_ += static_cast<int64_t>(bytes.size());
    return file_.ReadAt(at, bytes);
  }

 private:
  InputFile file_;
  int64_t at_ = 0;
};

}  // namespace meshwork
