#include "meshwork/storage/zip.h"

#include <zip.h>
#include <zlib.h>

#include <algorithm>
#include <deque>
#include <new>
#include <utility>

#include "meshwork/base/saturate.h"
#include "meshwork/base/status.h"
#include "meshwork/storage/show_json.h"

namespace meshwork {
namespace {

constexpr int64_t kLeastHeader = 30;      // bytes before each member
constexpr int64_t kMostExpansion = 1032;  // of deflate: 258 bytes in two bits
// libzip does not always tell which of these it is.
constexpr std::string_view kUnlikeList =
    "it does not begin where the list of members says, is not as long, or does not unpack";

// The error that `place` is damaged. libzip's words are left out, because each version has others.
absl::Status Damaged(std::string_view place, std::string_view why) {
  return InvalidArgument("{}: is damaged: {}; write or fetch the file again.", place, why);
}

// The same, unless memory is short or the system did not read the file.
absl::Status DamagedUnless(zip_error_t* error, const std::string& place, std::string_view why) {
  const int code = zip_error_code_zip(error);
  if (code == ZIP_ER_MEMORY) throw std::bad_alloc();
  if ((code == ZIP_ER_OPEN || code == ZIP_ER_READ) && zip_error_code_system(error) != 0)
    return CannotRead(place, zip_error_code_system(error));
  return Damaged(place, why);
}

// Member `index`, if it is possible.
absl::StatusOr<ZipMember> ReadMember(zip_t* archive, uint64_t index, const std::string& path,
                                     int64_t file_size) {
  zip_stat_t stat;
  zip_stat_init(&stat);
  zip_stat_index(archive, index, ZIP_FL_ENC_RAW, &stat);
  const std::string name = stat.name != nullptr ? stat.name : "", place = PlaceOfTensor(path, name);
  if (stat.encryption_method != ZIP_EM_NONE)
    return InvalidArgument("{}: is encrypted; decrypt the file first.", place);
  if (stat.comp_method != ZIP_CM_STORE && stat.comp_method != ZIP_CM_DEFLATE)
    return InvalidArgument("{}: is compressed by method {}; stored (0) and deflated (8) members are read.",
                           place, stat.comp_method);
  const bool deflated = stat.comp_method == ZIP_CM_DEFLATE;
  if (stat.comp_size > static_cast<uint64_t>(file_size) || (!deflated && stat.size != stat.comp_size) ||
      stat.size / kMostExpansion > stat.comp_size)
    return InvalidArgument(
        "{}: {} bytes, {} packed, in a file of {}; that cannot be. Write or fetch the file again.", place,
        stat.size, stat.comp_size, file_size);
  return ZipMember{.name = name,
                   .index = index,
                   .deflated = deflated,
                   .crc = stat.crc,
                   .packed_size = static_cast<int64_t>(stat.comp_size),
                   .size = static_cast<int64_t>(stat.size)};
}

class MemberSource : public ByteSource {
 public:
  MemberSource(std::string place, const ZipMember& member, zip_file_t* file)
      : place_(std::move(place)), crc_(member.crc), left_(member.size), file_(file, zip_fclose) {}

  int64_t left() const override { return left_; }

  absl::Status Read(std::span<std::byte> bytes) override {
    if (static_cast<int64_t>(bytes.size()) > left_) return Damaged(place_, "it is too short");
    if (bytes.empty()) return absl::OkStatus();
    left_ -= static_cast<int64_t>(bytes.size());
    while (!bytes.empty()) {
      MESHWORK_ASSIGN_OR_RETURN(const size_t filled, Unpack(bytes));
      if (filled == 0) return Damaged(place_, kUnlikeList);
      bytes = bytes.subspan(filled);
    }
    return left_ == 0 ? Finish() : absl::OkStatus();
  }

 private:
  // Unpacks the next bytes: how many, which is 0 only at the end.
  absl::StatusOr<size_t> Unpack(std::span<std::byte> bytes) {
    const zip_int64_t filled = zip_fread(file_.get(), bytes.data(), bytes.size());
    if (filled >= 0) return static_cast<size_t>(filled);
    zip_error_t* const error = zip_file_get_error(file_.get());
    if (zip_error_code_zip(error) == ZIP_ER_CRC)
      return Damaged(place_, fmt::format("its CRC is not {:08x}, which the list of members says", crc_));
    return DamagedUnless(error, place_, kUnlikeList);
  }

  // libzip compares the CRC where a member ends.
  absl::Status Finish() {
    std::byte more;
    MESHWORK_ASSIGN_OR_RETURN(const size_t filled, Unpack({&more, 1}));
    return filled == 0 ? absl::OkStatus() : Damaged(place_, kUnlikeList);
  }

  const std::string place_;
  const uint32_t crc_;
  int64_t left_;
  std::unique_ptr<zip_file_t, decltype(&zip_fclose)> file_;
};

}  // namespace

absl::StatusOr<ZipFile> ZipFile::Open(const std::string& path, const UnpackOptions& options) {
  MESHWORK_ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path));
  int code = ZIP_ER_OK;
  ZipFile opened(path, zip_open(path.c_str(), ZIP_RDONLY, &code));
  if (opened.archive_ == nullptr) {
    zip_error_t error;
    zip_error_init_with_code(&error, code);
    const absl::Status damaged =
        DamagedUnless(&error, path, "it is cut off, one of several parts, or no zip archive");
    zip_error_fini(&error);
    return damaged;
  }
  int64_t packed = 0, unpacked = 0;
  for (zip_int64_t i = 0; i < zip_get_num_entries(opened.archive_.get(), 0); ++i) {
    MESHWORK_ASSIGN_OR_RETURN(ZipMember member,
                              ReadMember(opened.archive_.get(), static_cast<uint64_t>(i), path, file.size()));
    // Members that overlap could unpack to any length.
    packed += member.packed_size + kLeastHeader;
    if (packed > file.size()) return Damaged(path, "its members are together longer than the file");
    if (member.deflated) unpacked = SaturatedSum(unpacked, member.size);
    opened.members_.push_back(std::move(member));
  }
  MESHWORK_RETURN_IF_ERROR(CheckUnpacks(path, file.size(), unpacked, options));
  return opened;
}

void ZipFile::Closer::operator()(zip* archive) const { zip_discard(archive); }

absl::StatusOr<std::unique_ptr<ByteSource>> ZipFile::Read(const ZipMember& member) const {
  std::string place = PlaceOfTensor(path_, member.name);
  zip_file_t* const file = zip_fopen_index(archive_.get(), member.index, 0);
  if (file == nullptr) return DamagedUnless(zip_get_error(archive_.get()), place, kUnlikeList);
  return std::make_unique<MemberSource>(std::move(place), member, file);
}

// ---- Writing: by hand, because libzip goes back to what it has written, and WriteFileAtomically does not.

namespace {

constexpr uint32_t kLocalHeader = 0x04034b50, kDirectoryEntry = 0x02014b50, kEnd = 0x06054b50,
                   kEnd64 = 0x06064b50, kEnd64Place = 0x07064b50;
constexpr uint64_t kEnd64Size = 56;
constexpr uint32_t kIn64 = 0xffffffff;   // in a field of 4 bytes: the value is in the ZIP64 field
constexpr uint16_t kCountIn64 = 0xffff;  // the same in a field of 2 bytes
constexpr uint16_t kExtra64 = 1;         // the id of the ZIP64 extra field
constexpr uint16_t kStored = 0;
constexpr uint16_t kUtf8 = 1 << 11;                 // a flag
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

template <typename T>
void Append(std::string& record, T number) {
  for (size_t i = 0; i < sizeof(T); ++i) record += static_cast<char>(static_cast<uint64_t>(number) >> 8 * i);
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
