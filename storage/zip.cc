#include "meshwork/storage/zip.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <utility>

#include "meshwork/base/saturate.h"
#include "meshwork/base/status.h"
#include "meshwork/storage/safetensors_header.h"

namespace meshwork {
namespace {

constexpr uint32_t kLocalHeader = 0x04034b50, kDirectoryEntry = 0x02014b50, kEnd = 0x06054b50,
                   kEnd64 = 0x06064b50, kEnd64Place = 0x07064b50;
constexpr int64_t kLocalHeaderSize = 30, kEntrySize = 46, kEndSize = 22, kEnd64Size = 56,
                  kEnd64PlaceSize = 20;
constexpr int64_t kMaxComment = 0xffff;
constexpr uint32_t kIn64 = 0xffffffff;   // in a field of 4 bytes: the value is in the ZIP64 field
constexpr uint16_t kCountIn64 = 0xffff;  // the same in a field of 2 bytes
constexpr uint16_t kExtra64 = 1;         // the id of the ZIP64 extra field
constexpr uint16_t kStored = 0, kDeflated = 8;
constexpr uint16_t kEncrypted = 1, kUtf8 = 1 << 11;  // flags
constexpr int64_t kMostExpansion = 1032;             // of deflate: 258 bytes in two bits
constexpr size_t kPortion = size_t{1} << 16;

// Reads little-endian numbers of a record, one after the other. After the end of the record they are 0, and ok() is
// false.
class Fields {
 public:
  explicit Fields(std::string_view record) : rest_(record) {}

  template <typename T>
  T Next() {
    if (rest_.size() < sizeof(T)) {
      ok_ = false;
      return 0;
    }
    uint64_t number = 0;
    for (size_t i = 0; i < sizeof(T); ++i) number |= uint64_t{static_cast<uint8_t>(rest_[i])} << 8 * i;
    rest_.remove_prefix(sizeof(T));
    return static_cast<T>(number);
  }
  std::string_view Text(size_t size) {
    ok_ = ok_ && size <= rest_.size();
    const std::string_view text = rest_.substr(0, size);
    rest_.remove_prefix(text.size());
    return text;
  }
  void Skip(size_t size) { Text(size); }
  bool ok() const { return ok_; }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

template <typename T>
void Append(std::string& record, T number) {
  for (size_t i = 0; i < sizeof(T); ++i) record += static_cast<char>(static_cast<uint64_t>(number) >> 8 * i);
}

absl::StatusOr<std::string> ReadBytes(const InputFile& file, int64_t offset, int64_t size) {
  std::string text(static_cast<size_t>(size), '\0');
  MESHWORK_RETURN_IF_ERROR(file.ReadAt(offset, std::as_writable_bytes(std::span(text))));
  return text;
}

// ---- The directory.

struct Directory {
  uint64_t begin = 0, size = 0, members = 0;
};

absl::Status DamagedDirectory(const std::string& path, std::string_view why) {
  return InvalidArgument("{}: the list of members at its end is damaged: {}; write or fetch the file again.",
                         path, why);
}

// Finds the directory, by the record at the end of the file or the ZIP64 record before it.
absl::StatusOr<Directory> FindDirectory(const InputFile& file) {
  const int64_t tail_size = std::min(file.size(), kEndSize + kMaxComment);
  MESHWORK_ASSIGN_OR_RETURN(const std::string tail, ReadBytes(file, file.size() - tail_size, tail_size));
  size_t at = tail.rfind("PK\5\6");
  // A comment may contain these letters, too. The record is where the length that it gives for the comment fits.
  const auto ends_there = [&] {
    const std::string_view record = std::string_view(tail).substr(at);
    const auto comment = static_cast<int64_t>(record.size()) - kEndSize;
    return comment >= 0 && Fields(record.substr(kEndSize - 2)).Next<uint16_t>() == comment;
  };
  while (at != std::string::npos && !ends_there())
    at = at == 0 ? std::string::npos : tail.rfind("PK\5\6", at - 1);
  if (at == std::string::npos)
    return InvalidArgument("{}: has no list of members at its end; it is cut off, or no zip archive.",
                           file.path());

  Fields end(std::string_view(tail).substr(at + 4));
  const auto disk = end.Next<uint16_t>(), first_disk = end.Next<uint16_t>();
  end.Skip(2);
  const auto members = end.Next<uint16_t>();
  const auto size = end.Next<uint32_t>(), begin = end.Next<uint32_t>();
  if (members != kCountIn64 && size != kIn64 && begin != kIn64 && (disk != 0 || first_disk != 0))
    return InvalidArgument("{}: is a part of an archive that is split over several files; join them first.",
                           file.path());
  if (members != kCountIn64 && size != kIn64 && begin != kIn64) return Directory{begin, size, members};

  const int64_t place = file.size() - tail_size + static_cast<int64_t>(at) - kEnd64PlaceSize;
  if (place < 0) return Directory{begin, size, members};
  MESHWORK_ASSIGN_OR_RETURN(const std::string place_record, ReadBytes(file, place, kEnd64PlaceSize));
  Fields pointer(place_record);
  if (pointer.Next<uint32_t>() != kEnd64Place) return Directory{begin, size, members};
  pointer.Skip(4);
  const auto end64_at = pointer.Next<uint64_t>();
  if (end64_at > static_cast<uint64_t>(place) || static_cast<uint64_t>(place) - end64_at < kEnd64Size)
    return DamagedDirectory(file.path(), "its ZIP64 record lies elsewhere");
  MESHWORK_ASSIGN_OR_RETURN(const std::string record,
                            ReadBytes(file, static_cast<int64_t>(end64_at), kEnd64Size));
  Fields end64(record);
  if (end64.Next<uint32_t>() != kEnd64)
    return DamagedDirectory(file.path(), "its ZIP64 record lies elsewhere");
  end64.Skip(28);
  Directory directory;
  directory.members = end64.Next<uint64_t>();
  directory.size = end64.Next<uint64_t>();
  directory.begin = end64.Next<uint64_t>();
  return directory;
}

// Replaces the numbers that are kIn64 by those of the ZIP64 field. False: the field lacks them.
bool Widen(std::string_view extra, std::initializer_list<uint64_t*> numbers) {
  Fields fields(extra);
  while (fields.ok() && !fields.rest().empty()) {
    const auto id = fields.Next<uint16_t>(), size = fields.Next<uint16_t>();
    Fields field(fields.Text(size));
    if (!fields.ok()) return false;
    if (id != kExtra64) continue;
    for (uint64_t* number : numbers)
      if (*number == kIn64) *number = field.Next<uint64_t>();
    return field.ok();
  }
  return std::none_of(numbers.begin(), numbers.end(),
                      [](const uint64_t* number) { return *number == kIn64; });
}

absl::StatusOr<ZipMember> ReadMember(const InputFile& file, Fields& entry) {
  const std::string& path = file.path();
  const bool is_entry = entry.Next<uint32_t>() == kDirectoryEntry;
  entry.Skip(4);
  const auto flags = entry.Next<uint16_t>(), method = entry.Next<uint16_t>();
  entry.Skip(4);
  ZipMember member{.deflated = method == kDeflated, .crc = entry.Next<uint32_t>()};
  uint64_t packed_size = entry.Next<uint32_t>(), size = entry.Next<uint32_t>();
  const auto name_size = entry.Next<uint16_t>(), extra_size = entry.Next<uint16_t>(),
             comment_size = entry.Next<uint16_t>();
  entry.Skip(8);
  uint64_t header = entry.Next<uint32_t>();
  member.name = entry.Text(name_size);
  const std::string_view extra = entry.Text(extra_size);
  entry.Skip(comment_size);
  if (!is_entry || !entry.ok())
    return DamagedDirectory(path, "it ends inside of a member, or what is there is none");
  const std::string place = PlaceOfTensor(path, member.name);
  if (!Widen(extra, {&size, &packed_size, &header}))
    return InvalidArgument("{}: its sizes are missing; write or fetch the file again.", place);
  if ((flags & kEncrypted) != 0) return InvalidArgument("{}: is encrypted; decrypt the file first.", place);
  if (method != kStored && method != kDeflated)
    return InvalidArgument("{}: is compressed by method {}; stored (0) and deflated (8) members are read.",
                           place, method);
  const auto length = static_cast<uint64_t>(file.size());
  if (header > length || packed_size > length - header || (!member.deflated && size != packed_size) ||
      size / kMostExpansion > packed_size)
    return InvalidArgument(
        "{}: {} bytes, {} packed, at byte {} of a file of {}; that cannot be. Write or fetch the file "
        "again.",
        place, size, packed_size, header, length);
  member.packed_size = static_cast<int64_t>(packed_size);
  member.size = static_cast<int64_t>(size);
  member.header = static_cast<int64_t>(header);
  return member;
}

// ---- Members.

class MemberSource : public ByteSource {
 public:
  MemberSource(const InputFile& file, const ZipMember& member, int64_t begin)
      : file_(file),
        place_(PlaceOfTensor(file.path(), member.name)),
        member_(member),
        at_(begin),
        end_(begin + member.packed_size),
        left_(member.size) {
    // -15: the largest window; no header of zlib's.
    if (member.deflated) MESHWORK_CHECK(inflateInit2(&stream_, -15) == Z_OK, "zlib {}", zlibVersion());
  }
  MemberSource(const MemberSource&) = delete;
  MemberSource& operator=(const MemberSource&) = delete;
  ~MemberSource() override {
    if (member_.deflated) inflateEnd(&stream_);
  }

  int64_t left() const override { return left_; }

  absl::Status Read(std::span<std::byte> bytes) override {
    if (static_cast<int64_t>(bytes.size()) > left_) return Damaged("it is too short");
    if (bytes.empty()) return absl::OkStatus();
    if (member_.deflated) {
      MESHWORK_RETURN_IF_ERROR(Inflate(bytes));
    } else {
      MESHWORK_RETURN_IF_ERROR(file_.ReadAt(at_, bytes));
      at_ += static_cast<int64_t>(bytes.size());
    }
    crc_ = crc32_z(crc_, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
    left_ -= static_cast<int64_t>(bytes.size());
    return left_ == 0 ? Finish() : absl::OkStatus();
  }

 private:
  absl::Status Damaged(std::string_view why) const {
    return InvalidArgument("{}: is damaged: {}; write or fetch the file again.", place_, why);
  }

  // Unpacks the next bytes: how many, which is 0 only at the end.
  absl::StatusOr<size_t> Unpack(std::span<std::byte> bytes) {
    size_t filled = 0;
    while (filled == 0 && !ended_) {
      if (stream_.avail_in == 0 && at_ < end_) {
        const auto portion = std::min<int64_t>(kPortion, end_ - at_);
        MESHWORK_RETURN_IF_ERROR(file_.ReadAt(at_, std::span(packed_).first(static_cast<size_t>(portion))));
        at_ += portion;
        stream_.next_in = reinterpret_cast<Bytef*>(packed_.data());
        stream_.avail_in = static_cast<uInt>(portion);
      }
      const auto wanted = static_cast<uInt>(std::min(bytes.size(), size_t{1} << 30));
      stream_.next_out = reinterpret_cast<Bytef*>(bytes.data());
      stream_.avail_out = wanted;
      const int result = inflate(&stream_, Z_NO_FLUSH);
      filled = wanted - stream_.avail_out;
      ended_ = result == Z_STREAM_END;
      if (result == Z_BUF_ERROR) return Damaged("it is cut off");
      if (result != Z_OK && !ended_) return Damaged(stream_.msg != nullptr ? stream_.msg : zError(result));
    }
    return filled;
  }

  absl::Status Inflate(std::span<std::byte> bytes) {
    while (!bytes.empty()) {
      MESHWORK_ASSIGN_OR_RETURN(const size_t filled, Unpack(bytes));
      if (filled == 0) return Damaged("it is shorter than the list of members says");
      bytes = bytes.subspan(filled);
    }
    return absl::OkStatus();
  }

  absl::Status Finish() {
    if (member_.deflated) {
      std::byte more;
      MESHWORK_ASSIGN_OR_RETURN(const size_t filled, Unpack({&more, 1}));
      if (filled > 0) return Damaged("it is longer than the list of members says");
    }
    if (crc_ == member_.crc) return absl::OkStatus();
    return Damaged(fmt::format("its CRC is {:08x}, and the list of members says {:08x}", crc_, member_.crc));
  }

  const InputFile& file_;
  const std::string place_;
  const ZipMember member_;
  int64_t at_, end_;  // the packed bytes that are still to be read
  int64_t left_;
  uLong crc_ = 0;
  z_stream stream_ = {};
  bool ended_ = false;  // the stream
  std::array<std::byte, kPortion> packed_;
};

}  // namespace

absl::StatusOr<ZipFile> ZipFile::Open(const std::string& path, const UnpackOptions& options) {
  MESHWORK_ASSIGN_OR_RETURN(InputFile file, InputFile::Open(path));
  MESHWORK_ASSIGN_OR_RETURN(const Directory directory, FindDirectory(file));
  const auto length = static_cast<uint64_t>(file.size());
  if (directory.begin > length || directory.size > length - directory.begin ||
      directory.members > directory.size / kEntrySize)
    return DamagedDirectory(path, fmt::format("{} members in {} bytes from byte {} on, of {}",
                                              directory.members, directory.size, directory.begin, length));
  MESHWORK_ASSIGN_OR_RETURN(const std::string text, ReadBytes(file, static_cast<int64_t>(directory.begin),
                                                              static_cast<int64_t>(directory.size)));
  ZipFile zip(std::move(file));
  Fields entries(text);
  int64_t packed = 0, unpacked = 0;
  for (uint64_t i = 0; i < directory.members; ++i) {
    MESHWORK_ASSIGN_OR_RETURN(ZipMember member, ReadMember(*zip.file_, entries));
    // Members that overlap could unpack to any length.
    packed += member.packed_size + kLocalHeaderSize;
    if (packed > zip.file_->size())
      return DamagedDirectory(path, "its members are together longer than the file");
    if (member.deflated) unpacked = SaturatedSum(unpacked, member.size);
    zip.members_.push_back(std::move(member));
  }
  MESHWORK_RETURN_IF_ERROR(CheckUnpacks(path, zip.file_->size(), unpacked, options));
  return zip;
}

absl::StatusOr<std::unique_ptr<ByteSource>> ZipFile::Read(const ZipMember& member) const {
  const auto damaged = [&] {
    return InvalidArgument(
        "{}: the list of members says that it begins at byte {}, where it does not; write or fetch "
        "the file again.",
        PlaceOfTensor(file_->path(), member.name), member.header);
  };
  if (member.header > file_->size() - kLocalHeaderSize) return damaged();
  MESHWORK_ASSIGN_OR_RETURN(const std::string record, ReadBytes(*file_, member.header, kLocalHeaderSize));
  Fields header(record);
  if (header.Next<uint32_t>() != kLocalHeader) return damaged();
  header.Skip(22);
  const int64_t name_size = header.Next<uint16_t>(), extra_size = header.Next<uint16_t>();
  const int64_t begin = member.header + kLocalHeaderSize + name_size + extra_size;
  if (begin > file_->size() || member.packed_size > file_->size() - begin) return damaged();
  return std::make_unique<MemberSource>(*file_, member, begin);
}

// ---- Writing.

namespace {

constexpr uint16_t kVersion = 20, kVersion64 = 45;  // of the format that a reader must know
constexpr uint16_t kFirstDay = 1 << 5 | 1;          // January 1, 1980

struct NewMember {
  uint64_t header = 0, size = 0;
  uint32_t crc = 0;
  uint16_t flags = 0;
};

uint16_t FlagsOf(std::string_view name) {
  return std::any_of(name.begin(), name.end(), [](char c) { return (c & 0x80) != 0; }) ? kUtf8 : 0;
}

// A local header, or the entry of the directory, which also says where that is.
std::string HeaderOf(const NewZipMember& member, const NewMember& written, bool is_entry,
                     uint64_t zip64_from) {
  const bool wide_size = written.size >= zip64_from, wide_header = is_entry && written.header >= zip64_from;
  std::string extra;
  if (wide_size || wide_header) {
    Append<uint16_t>(extra, kExtra64);
    Append<uint16_t>(extra, (wide_size ? 16 : 0) + (wide_header ? 8 : 0));
    if (wide_size) Append<uint64_t>(extra, written.size);
    if (wide_size) Append<uint64_t>(extra, written.size);
    if (wide_header) Append<uint64_t>(extra, written.header);
  }
  const uint16_t version = extra.empty() ? kVersion : kVersion64;
  const auto size = static_cast<uint32_t>(wide_size ? kIn64 : written.size);
  std::string record;
  Append<uint32_t>(record, is_entry ? kDirectoryEntry : kLocalHeader);
  if (is_entry) Append<uint16_t>(record, version);  // made by
  Append<uint16_t>(record, version);
  Append<uint16_t>(record, written.flags);
  Append<uint16_t>(record, kStored);
  Append<uint16_t>(record, 0);  // the time
  Append<uint16_t>(record, kFirstDay);
  Append<uint32_t>(record, written.crc);
  Append<uint32_t>(record, size);
  Append<uint32_t>(record, size);
  Append<uint16_t>(record, member.name.size());
  Append<uint16_t>(record, extra.size());
  if (is_entry) {
    record.append(10, '\0');  // no comment, the first disk, no attributes
    Append<uint32_t>(record, wide_header ? kIn64 : written.header);
  }
  return record + member.name + extra;
}

// The records at the end, behind a directory.
std::string EndOf(uint64_t members, uint64_t begin, uint64_t size, uint64_t zip64_from) {
  const bool wide = members >= kCountIn64 || begin >= zip64_from || size >= zip64_from;
  std::string end;
  if (wide) {
    Append<uint32_t>(end, kEnd64);
    Append<uint64_t>(end, kEnd64Size - 12);
    Append<uint16_t>(end, kVersion64);
    Append<uint16_t>(end, kVersion64);
    Append<uint64_t>(end, 0);  // disks
    Append<uint64_t>(end, members);
    Append<uint64_t>(end, members);
    Append<uint64_t>(end, size);
    Append<uint64_t>(end, begin);
    Append<uint32_t>(end, kEnd64Place);
    Append<uint32_t>(end, 0);
    Append<uint64_t>(end, begin + size);
    Append<uint32_t>(end, 1);  // disk in all
  }
  Append<uint32_t>(end, kEnd);
  Append<uint32_t>(end, 0);  // disks
  Append<uint16_t>(end, wide ? kCountIn64 : members);
  Append<uint16_t>(end, wide ? kCountIn64 : members);
  Append<uint32_t>(end, wide ? kIn64 : size);
  Append<uint32_t>(end, wide ? kIn64 : begin);
  Append<uint16_t>(end, 0);  // no comment
  return end;
}

}  // namespace

absl::Status WriteZip(const std::string& path, std::span<const NewZipMember> members, uint64_t zip64_from) {
  std::deque<std::string> headers;  // which stay where they are
  std::vector<std::string_view> pieces;
  std::string directory;
  uint64_t at = 0;
  for (const NewZipMember& member : members) {
    NewMember written{.header = at, .flags = FlagsOf(member.name)};
    uLong crc = 0;
    for (const std::string_view piece : member.pieces) {
      written.size += piece.size();
      if (!piece.empty()) crc = crc32_z(crc, reinterpret_cast<const Bytef*>(piece.data()), piece.size());
    }
    written.crc = static_cast<uint32_t>(crc);
    pieces.push_back(headers.emplace_back(HeaderOf(member, written, /*is_entry=*/false, zip64_from)));
    pieces.insert(pieces.end(), member.pieces.begin(), member.pieces.end());
    directory += HeaderOf(member, written, /*is_entry=*/true, zip64_from);
    at += headers.back().size() + written.size;
  }
  directory += EndOf(members.size(), at, directory.size(), zip64_from);
  pieces.push_back(directory);
  return WriteFileAtomically(path, pieces);
}

}  // namespace meshwork
