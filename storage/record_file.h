// Files of records as TensorFlow writes them (TFRecord; TensorBoard's event files): one record after the other, each as
//
//   uint64 length          all numbers little-endian
//   uint32 checksum        masked CRC-32C of the eight bytes of the length (base/crc32c.h)
//   byte data[length]
//   uint32 checksum        masked CRC-32C of the data
//
//   MESHWORK_ASSIGN_OR_RETURN(RecordWriter writer, RecordWriter::Create("data.tfrecord"));
//   writer.Append("a record");
//   MESHWORK_RETURN_IF_ERROR(writer.Close());
//
//   MESHWORK_ASSIGN_OR_RETURN(RecordReader reader, RecordReader::Open("data.tfrecord"));
//   MESHWORK_ASSIGN_OR_RETURN(std::optional<std::string_view> record, reader.Next());   // nothing at the end
//
// The file grows in place and may be read while it is written. Thread safety: one thread at a time per object.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/base/io/file.h"

namespace meshwork {

// Appends a record, with its length and checksums, to the bytes of a file.
void AppendRecord(std::string& file, std::string_view record);

class RecordWriter {
 public:
  // Makes a new file. Errors: ALREADY_EXISTS, there is one; the folder is missing or not writable.
  static absl::StatusOr<RecordWriter> Create(const std::string& path);
  RecordWriter(RecordWriter&& other) noexcept;
  RecordWriter& operator=(RecordWriter&& other) noexcept;
  // Closes the file and discards what was not written.
  ~RecordWriter();

  const std::string& path() const { return path_; }
  // Keeps the record in memory until Write.
  void Append(std::string_view record) { AppendRecord(pending_, record); }
  int64_t pending_bytes() const { return static_cast<int64_t>(pending_.size()); }
  // Hands all kept records to the operating system: other processes can read them, and they outlive this process, but
  // not a power failure. On an error they are kept, and the next call writes them at the same place, so the file has
  // no gap.
  // Errors: RESOURCE_EXHAUSTED and others, the disk is full or fails; NOT_FOUND, the file was removed. Nobody could
  // read it then, so the kept records are discarded.
  absl::Status Write();
  // Writes what is kept and closes the file; a second call does nothing. Errors: Write's; the system's when it closes.
  absl::Status Close();

 private:
  RecordWriter(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  std::string path_;
  int fd_ = -1;
  int64_t written_ = 0;  // bytes
  std::string pending_;
};

class RecordReader {
 public:
  // Errors: InputFile::Open's.
  static absl::StatusOr<RecordReader> Open(const std::string& path);

  const std::string& path() const { return file_.path(); }
  // The next record, valid until the next call; nothing at the end that the file had when it was opened. Errors:
  // OUT_OF_RANGE, the file ends within a record, as when its writer was killed; DATA_LOSS, a checksum is wrong. After
  // an error, each call returns the same error.
  absl::StatusOr<std::optional<std::string_view>> Next();

 private:
  explicit RecordReader(InputFile file) : file_(std::move(file)) {}
  // `size` bytes from the current position on, valid until the next call. REQUIRES: the file has them.
  absl::StatusOr<std::string_view> Take(int64_t size);
  absl::Status CutShort() const;
  absl::Status WrongChecksum(std::string_view what) const;

  InputFile file_;
  int64_t at_ = 0;      // where the next byte to take stands
  int64_t record_ = 0;  // the record that is read, from 0, and where it begins
  int64_t begin_ = 0;
  std::string buffer_;  // bytes of the file from `buffered_` on
  int64_t buffered_ = 0;
};

}  // namespace meshwork
