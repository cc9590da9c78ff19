// Zip archives, such as .npz files, with members that are stored or deflated.
//
//   MESHWORK_ASSIGN_OR_RETURN(const ZipFile zip, ZipFile::Open("weights.npz"));
//   for (const ZipMember& member : zip.members()) {
//     MESHWORK_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> bytes, zip.Read(member));
//     …
//
// libzip reads: archives in one piece, methods 0 (stored) and 8 (deflate), and ZIP64; encryption, split archives and
// other compression are errors. Members are written after PKWARE's APPNOTE.TXT 6.3.10, stored and without a date, so
// that equal members make equal files.
//
// Only this room uses it. One thread at a time may use a ZipFile and its sources.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/storage/byte_source.h"
#include "meshwork/storage/unpack_limit.h"

struct zip;  // libzip's

namespace meshwork {

struct ZipMember {
  std::string name;    // as libzip gives it; no path to write to
  uint64_t index = 0;  // in the list
  bool deflated = false;
  uint32_t crc = 0;
  int64_t packed_size = 0;  // bytes in the file
  int64_t size = 0;         // bytes that they unpack to
};

class ZipFile {
 public:
  // Reads the list of members, and checks that it is possible: they are together no longer than the file, and none
  // unpacks to more than deflate allows. Errors: the file cannot be read; it is no such archive; those of CheckUnpacks
  // for all deflated members together.
  static absl::StatusOr<ZipFile> Open(const std::string& path, const UnpackOptions& options = {});

  const std::vector<ZipMember>& members() const { return members_; }
  // The bytes of a member. Reading the last byte also checks that no more follow, and the CRC. This ZipFile must
  // outlive the source. Errors: the member is damaged.
  absl::StatusOr<std::unique_ptr<ByteSource>> Read(const ZipMember& member) const;

 private:
  struct Closer {
    void operator()(zip* archive) const;
  };
  ZipFile(std::string path, zip* archive) : path_(std::move(path)), archive_(archive) {}

  std::string path_;
  std::unique_ptr<zip, Closer> archive_;
  std::vector<ZipMember> members_;
};

struct NewZipMember {
  std::string name;
  std::vector<std::string_view> pieces;  // its bytes
};

// Replaces the file in one step (base/io/file.h). Sizes and places of `zip64_from` bytes or more are written in ZIP64;
// tests make it smaller. Errors: those of WriteFileAtomically.
// REQUIRES: names are at most 65535 bytes long.
absl::Status WriteZip(const std::string& path, std::span<const NewZipMember> members,
                      uint64_t zip64_from = 0xffffffff);

}  // namespace meshwork
