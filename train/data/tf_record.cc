// TfRecords and TfRecordWriter.
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "meshwork/base/crc32c.h"
#include "meshwork/base/status.h"
#include "meshwork/storage/record_file.h"
#include "meshwork/train/data/file_source.h"
#include "meshwork/train/data/pipeline_files.h"

namespace meshwork {
namespace {

using internal::ByteReader;

constexpr int64_t kLengthBytes = 8, kCrcBytes = 4;

uint64_t LittleEndian(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[i]);
  return value;
}

class TfRecordReader : public internal::FormatReader {
 public:
  explicit TfRecordReader(TfRecordOptions options) : options_(options) {}

  absl::Status Begin(ByteReader&, int64_t&) override { return absl::OkStatus(); }
  absl::StatusOr<std::optional<Example>> Next(ByteReader& in, int64_t& number) override {
    const int64_t offset = in.offset();
    MESHWORK_ASSIGN_OR_RETURN(const int byte, in.Peek());
    if (byte < 0) return std::nullopt;
    absl::StatusOr<std::string> record = Read(in);
    if (!record.ok())
      return Annotate(record.status(), fmt::format("{}: record {} at byte {}: ", in.path(), number, offset));
    ++number;
    Example example;
    example.SetText("record", *std::move(record));
    return example;
  }

 private:
  absl::StatusOr<std::string> Read(ByteReader& in) const {
    MESHWORK_ASSIGN_OR_RETURN(const std::string head, ReadChecked(in, kLengthBytes, "length"));
    const uint64_t length = LittleEndian(head);
    if (length > static_cast<uint64_t>(std::max<int64_t>(options_.longest, 0)))
      return InvalidArgument("its length is {} bytes, and {} are allowed; allow longer records.", length,
                             options_.longest);
    return ReadChecked(in, static_cast<int64_t>(length), "data");
  }
  // Bytes that their checksum follows.
  static absl::StatusOr<std::string> ReadChecked(ByteReader& in, int64_t length, std::string_view what) {
    std::string bytes, crc;
    MESHWORK_ASSIGN_OR_RETURN(const int64_t read, in.Append(length, bytes));
    MESHWORK_ASSIGN_OR_RETURN(const int64_t of_crc, in.Append(kCrcBytes, crc));
    if (read < length || of_crc < kCrcBytes)
      return InvalidArgument(
          "the file ends at byte {}, within the record's {}; it is incomplete: fetch or write it again.",
          in.offset(), what);
    if (LittleEndian(crc) == MaskedCrc32cOf(bytes)) return bytes;
    return InvalidArgument(
        "the checksum of its {} is {:08x}, and of the bytes that are there {:08x}; the file is "
        "damaged, or no TFRecord file.",
        what, LittleEndian(crc), MaskedCrc32cOf(bytes));
  }

  const TfRecordOptions options_;
};

}  // namespace

Pipeline TfRecords(std::vector<std::string> paths, TfRecordOptions options) {
  return internal::PipelineOf(internal::FileSource("TfRecords", "tf_records", std::move(paths), [=] {
    return std::make_unique<TfRecordReader>(options);
  }));
}

struct TfRecordWriter::File {
  ~File() {
    if (gz != nullptr) gzclose(gz);
  }
  absl::Status Failed(std::string_view what) const {
    return absl::ErrnoToStatus(errno, fmt::format("TfRecordWriter: {}: cannot be {}", path, what));
  }

  std::string path;
  gzFile gz = nullptr;  // null: closed
};

TfRecordWriter::TfRecordWriter(std::unique_ptr<File> file) : file_(std::move(file)) {}
TfRecordWriter::TfRecordWriter(TfRecordWriter&&) noexcept = default;
TfRecordWriter& TfRecordWriter::operator=(TfRecordWriter&&) noexcept = default;
TfRecordWriter::~TfRecordWriter() = default;

absl::StatusOr<TfRecordWriter> TfRecordWriter::Create(const std::string& path) {
  auto file = std::make_unique<File>();
  file->path = path;
  // e: not for programs that are started; T: as it is, without gzip.
  file->gz = gzopen(path.c_str(), path.ends_with(".gz") ? "wbe" : "wbeT");
  if (file->gz == nullptr) return file->Failed("made");
  return TfRecordWriter(std::move(file));
}

absl::Status TfRecordWriter::Write(std::string_view record) {
  if (file_ == nullptr || file_->gz == nullptr)
    return absl::FailedPreconditionError("TfRecordWriter: the file is closed; create another writer.");
  std::string framed;
  AppendRecord(framed, record);
  if (gzfwrite(framed.data(), 1, framed.size(), file_->gz) != framed.size()) return file_->Failed("written");
  return absl::OkStatus();
}

absl::Status TfRecordWriter::Close() {
  if (file_ == nullptr || file_->gz == nullptr) return absl::OkStatus();
  if (gzclose(std::exchange(file_->gz, nullptr)) != Z_OK) return file_->Failed("written to its end");
  return absl::OkStatus();
}

}  // namespace meshwork
