#include "meshwork/train/data/idx.h"

#include "support/idx_file.h"
#include "support/temp_dir.h"

namespace meshwork::idx_test {
namespace {

using IdxTest = TempDirTest;

TEST_F(IdxTest, ReadsPlainAndGzippedFiles) {
  const std::string file = Idx({3, 2, 5}, 30);
  for (const std::string& path :
       {File("plain", file), File("zipped.gz", Gzip(file)), File("zipped", Gzip(file))}) {
    const IdxData data = ReadIdx(path).value();
    EXPECT_EQ(data.shape, Shape({3, 2, 5}));
    ASSERT_EQ(data.bytes.size(), 30u);
    for (int i = 0; i < 30; ++i) EXPECT_EQ(data.bytes[i], i);
  }
}

TEST_F(IdxTest, ReadsFilesOfManyPortions) {
  const std::string file = Idx({5000, 700}, 3500000);
  for (const std::string& path : {File("plain", file), File("zipped", Gzip(file))}) {
    const IdxData data = ReadIdx(path).value();
    EXPECT_EQ(data.shape, Shape({5000, 700}));
    EXPECT_EQ(std::string(data.bytes.begin(), data.bytes.end()), file.substr(12));
  }
}

TEST_F(IdxTest, GzippedFilesUnpackAsFarAsIsAllowed) {
  const std::string file = Idx({5000}, 5000);
  EXPECT_EQ(ReadIdx(File("f", Gzip(file)), {.max_bytes = 5000})->bytes.size(), 5000u);
  EXPECT_EQ(ReadIdx(File("f", Gzip(file)), {.max_bytes = 4999}).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReadIdx(File("f", file), {.max_bytes = 1})->bytes.size(), 5000u);
}

TEST_F(IdxTest, ReadsEmptyDims) {
  EXPECT_EQ(ReadIdx(File("f", Idx({0, 28}, 0))).value().shape, Shape({0, 28}));
  EXPECT_EQ(ReadIdx(File("g", Gzip(Idx({0}, 0)))).value().bytes.size(), 0u);
}

TEST_F(IdxTest, ReadsAGzipFileOfSeveralMembers) {
  const std::string file = Idx({1000}, 1000);
  const std::string path =
      File("f", Gzip(file.substr(0, 2)) + Gzip("") + Gzip(file.substr(2, 500)) + Gzip(file.substr(502)));
  EXPECT_EQ(ReadIdx(path).value().bytes.size(), 1000u);
}

TEST_F(IdxTest, RejectsTruncatedGzip) {
  const std::string zipped = Gzip(Idx({1000}, 1000));
  // If the trailer is cut, all elements are there, but the checksum is not.
  ExpectInvalid(
      ReadIdx(File("f", zipped.substr(0, zipped.size() - 1))).status(), Path("f"),
      "$: the gzip data is cut off after 1008 unpacked bytes; the file is incomplete, fetch it again.");
  ExpectInvalid(
      ReadIdx(File("f", zipped.substr(0, 2))).status(), Path("f"),
      "$: the gzip data is cut off after 0 unpacked bytes; the file is incomplete, fetch it again.");
  for (size_t size = 2; size < zipped.size(); ++size) {
    EXPECT_NE(
        MessageOf(ReadIdx(File("f", zipped.substr(0, size))).status()).find("the gzip data is cut off after"),
        std::string_view::npos)
        << size;
  }
}

TEST_F(IdxTest, RejectsDamagedGzip) {
  const std::string zipped = Gzip(Idx({1000}, 1000));
  std::string damaged = zipped;
  damaged[zipped.size() - 8] ^= 1;
  ExpectInvalid(
      ReadIdx(File("f", damaged)).status(), Path("f"),
      "$: the gzip data is damaged after 1008 unpacked bytes (incorrect data check); fetch the file "
      "again.");
  damaged = zipped;
  damaged[zipped.size() - 4] ^= 1;
  ExpectInvalid(
      ReadIdx(File("f", damaged)).status(), Path("f"),
      "$: the gzip data is damaged after 1008 unpacked bytes (incorrect length check); fetch the file "
      "again.");
  damaged = zipped;
  damaged[2] ^= 1;
  ExpectInvalid(
      ReadIdx(File("f", damaged)).status(), Path("f"),
      "$: the gzip data is damaged after 0 unpacked bytes (unknown compression method); fetch the file "
      "again.");
  // Except in header fields that say nothing about the data, every damaged byte is found.
  for (size_t i = 10; i < zipped.size(); ++i) {
    damaged = zipped;
    damaged[i] ^= 1;
    EXPECT_FALSE(ReadIdx(File("f", damaged)).ok()) << i;
  }
}

}  // namespace
}  // namespace meshwork::idx_test
