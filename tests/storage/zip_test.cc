#include "meshwork/storage/zip.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "support/npy_bytes.h"
#include "support/temp_dir.h"

namespace meshwork::zip_test {
namespace {

class ZipTest : public TempDirTest {
 protected:
  // The bytes of the members, read `at_once` bytes at a time.
  static absl::StatusOr<std::vector<std::string>> ReadAll(const std::string& path, size_t at_once = 7) {
    MESHWORK_ASSIGN_OR_RETURN(const ZipFile zip, ZipFile::Open(path));
    std::vector<std::string> all;
    for (const ZipMember& member : zip.members()) {
      MESHWORK_ASSIGN_OR_RETURN(const std::unique_ptr<ByteSource> source, zip.Read(member));
      std::string text;
      while (source->left() > 0) {
        std::string part(std::min(at_once, static_cast<size_t>(source->left())), '\0');
        MESHWORK_RETURN_IF_ERROR(source->Read(std::as_writable_bytes(std::span(part))));
        text += part;
      }
      all.push_back(text);
    }
    return all;
  }
};

// Compresses well, badly, and not at all.
std::vector<std::string> Texts() {
  std::string drawn;
  uint32_t state = 1;
  for (int i = 0; i < 300'000; ++i) drawn += static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  return {"some text", "", std::string(1'000'000, 'z'), drawn};
}

TEST_F(ZipTest, ReadsStoredAndDeflatedMembersNarrowAndWide) {
  for (const bool wide : {false, true}) {
    for (const bool deflated : {false, true}) {
      std::vector<ZipBytes> members;
      for (const std::string& text : Texts())
        members.push_back(deflated ? ZipBytes::Deflated("name", text) : ZipBytes::Stored("name", text));
      const std::string path = File("x.zip", EncodeZip(members, wide));
      for (const size_t at_once : {size_t{13}, size_t{4096}, size_t{1} << 30}) {
        const auto read = ReadAll(path, at_once);
        ASSERT_TRUE(read.ok()) << read.status();
        EXPECT_TRUE(*read == Texts()) << wide << deflated << at_once;
      }
    }
  }
}

TEST_F(ZipTest, WhatWasWrittenComesBackNarrowAndWide) {
  const std::vector<std::string> texts = Texts();
  std::vector<NewZipMember> members;
  for (const std::string& text : texts) {
    const std::string_view whole = text;
    members.push_back({fmt::format("{}.txt", members.size()),
                       {whole.substr(0, text.size() / 3), whole.substr(text.size() / 3)}});
  }
  // Sizes and offsets from here on use ZIP64: none; the long text and the members behind it; all.
  for (const uint64_t zip64_from : {uint64_t{0xffffffff}, uint64_t{1000}, uint64_t{0}}) {
    ASSERT_EQ(WriteZip(Path("x.zip"), members, zip64_from), absl::OkStatus());
    const auto read = ReadAll(Path("x.zip"), 4096);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_TRUE(*read == texts) << zip64_from;
    if (std::system("python3 -c 'import zipfile' 2>/dev/null") != 0) continue;
    const std::string check = fmt::format(
        "python3 -c 'import sys, zipfile; z = zipfile.ZipFile(sys.argv[1]); "
        "sys.exit(z.testzip() is not None or [len(z.read(n)) for n in z.namelist()] != [9, 0, 1000000, 300000])' {}",
        Path("x.zip"));
    EXPECT_EQ(std::system(check.c_str()), 0) << zip64_from;
  }
}

TEST_F(ZipTest, WritesMoreMembersThanANarrowCountHolds) {
  std::vector<NewZipMember> members(70'000);
  for (size_t i = 0; i < members.size(); ++i) members[i].name = fmt::format("{}", i);
  ASSERT_EQ(WriteZip(Path("x.zip"), members), absl::OkStatus());
  const absl::StatusOr<ZipFile> zip = ZipFile::Open(Path("x.zip"));
  ASSERT_TRUE(zip.ok()) << zip.status();
  ASSERT_EQ(zip->members().size(), members.size());
  EXPECT_EQ(zip->members().back().name, "69999");
}

// A member of a few bytes that is said to be of a terabyte costs no memory: it is refused before anything is unpacked.
TEST_F(ZipTest, RefusesWhatCannotBe) {
  ZipBytes wild = ZipBytes::Deflated("wild", "text");
  wild.size = uint64_t{1} << 40;
  EXPECT_FALSE(ZipFile::Open(File("x", EncodeZip({wild}, /*wide=*/true))).ok());
  ZipBytes shorter = ZipBytes::Deflated("shorter", "text");
  shorter.size = 3;
  EXPECT_EQ(
      MessageOf(ReadAll(File("x", EncodeZip({shorter}))).status()),
      fmt::format(
          "{}: tensor \"shorter\": is damaged: it does not begin where the list of members says, is not as long, or "
          "does not unpack; write or fetch the file again.",
          Path("x")));
  ZipBytes longer = ZipBytes::Deflated("longer", "text");
  longer.size = 5;
  EXPECT_EQ(
      MessageOf(ReadAll(File("x", EncodeZip({longer}))).status()),
      fmt::format(
          "{}: tensor \"longer\": is damaged: it does not begin where the list of members says, is not as long, or "
          "does not unpack; write or fetch the file again.",
          Path("x")));
}

// A list that names the same bytes again and again, which would unpack to any length.
TEST_F(ZipTest, RefusesMembersThatLieOverEachOther) {
  const std::string file = EncodeZip({ZipBytes::Stored("w", std::string(500, 'w'))});
  const size_t begin = file.find("PK\1\2"), end = file.find("PK\5\6");
  const std::string entry = file.substr(begin, end - begin);
  for (const int times : {1, 2, 3}) {
    std::string list, tail = file.substr(end);
    for (int i = 0; i < times; ++i) list += entry;
    tail.replace(8, 8, LittleEndian(times, 2) + LittleEndian(times, 2) + LittleEndian(list.size(), 4));
    const absl::Status status = ZipFile::Open(File("x", file.substr(0, begin) + list + tail)).status();
    EXPECT_EQ(status.ok(), times == 1) << status;
    EXPECT_EQ(
        MessageOf(status).find("its members are together longer than the file") != std::string_view::npos,
        times > 1);
  }
}

}  // namespace
}  // namespace meshwork::zip_test
