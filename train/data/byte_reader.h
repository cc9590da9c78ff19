// ByteReader: a file from its beginning on, plain or gzipped, in bounded memory.
//
//   MESHWORK_ASSIGN_OR_RETURN(ByteReader in, ByteReader::Open("train.csv.gz"));
//   std::string line;
//   for (int64_t number = 1; in.ReadLine(line, 1 << 20, number).value(); ++number) …
//
// The content of the file, not its name, decides whether it is gzipped. Offsets count unpacked bytes. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/train/data/unpacker.h"

namespace meshwork::internal {

class ByteReader {
 public:
  // Errors: those of InputFile::Open.
  static absl::StatusOr<ByteReader> Open(const std::string& path);

  const std::string& path() const { return path_; }
  int64_t offset() const { return offset_; }  // of the next byte

  // The next byte; -1 at the end. Errors of all functions that read: those of InputFile::ReadAt and Unpacker::Read.
  absl::StatusOr<int> Get();
  // The next byte, which stays the next one.
  absl::StatusOr<int> Peek();
  // Appends up to n bytes, fewer at the end, and returns how many. Memory grows with what is there.
  absl::StatusOr<int64_t> Append(int64_t n, std::string& to);
  // Appends the bytes before the next character of `stops`, or up to the end, but no more than n, and returns how many.
  absl::StatusOr<int64_t> AppendUntil(std::string_view stops, int64_t n, std::string& to);
  // Replaces `line` by the next one, without its end, "\n" or "\r\n". False: there is none. Error: it has more than
  // `longest` bytes. `number`: of the line, for messages.
  absl::StatusOr<bool> ReadLine(std::string& line, int64_t longest, int64_t number);
  // Goes on to an offset. Errors: the file ends before. REQUIRES: offset >= this->offset().
  absl::Status SkipTo(int64_t offset);

 private:
  ByteReader(std::string path, Unpacker unpacker);
  // The bytes that were read and not taken; reads more if there are none. Empty: the file has ended.
  absl::StatusOr<std::string_view> Buffered();
  void Take(size_t n) {
    next_ += n;
    offset_ += static_cast<int64_t>(n);
  }

  std::string path_;
  Unpacker unpacker_;
  std::vector<uint8_t> buffer_;
  size_t next_ = 0, end_ = 0;  // of buffer_
  int64_t offset_ = 0;
};

}  // namespace meshwork::internal
