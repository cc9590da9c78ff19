#include "meshwork/storage/record_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "meshwork/base/io/file.h"
#include "support/full_disk.h"
#include "support/temp_dir.h"

namespace meshwork::record_file_test {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

std::string Framed(const std::vector<std::string>& records) {
  std::string file;
  for (const std::string& record : records) AppendRecord(file, record);
  return file;
}

class RecordFileTest : public TempDirTest {
 protected:
  // The records before the first error. `end_` is that error.
  std::vector<std::string> Read(const std::string& contents) {
    RecordReader reader = RecordReader::Open(File("f", contents)).value();
    std::vector<std::string> records;
    while (true) {
      const absl::StatusOr<std::optional<std::string_view>> next = reader.Next();
      end_ = next.status();
      if (!next.ok()) {
        EXPECT_EQ(reader.Next().status(), end_);
      }
      if (!next.ok() || !next->has_value()) return records;
      records.emplace_back(**next);
    }
  }

  absl::Status end_;
};

// The checksums were computed bit by bit in Python. tests/oracle/check_tensorboard has TensorBoard itself read files.
TEST_F(RecordFileTest, FramesAsTheFormatSays) {
  EXPECT_EQ(Framed({"Hello"}), std::string("\x05\0\0\0\0\0\0\0"
                                           "\xea\xb2\x04\x3e"
                                           "Hello"
                                           "\x8a\xee\xb9\xbe",
                                           21));
}

TEST_F(RecordFileTest, ReadsWhatWasWritten) {
  const std::vector<std::string> records = {"", "a", std::string(100, '\0'), std::string(3 << 20, 'x'),
                                            "the end"};
  RecordWriter writer = RecordWriter::Create(Path("records")).value();
  for (const std::string& record : records) {
    writer.Append(record);
    ASSERT_TRUE(writer.Write().ok());
    EXPECT_EQ(writer.pending_bytes(), 0);
  }
  ASSERT_TRUE(writer.Close().ok());
  ASSERT_TRUE(writer.Close().ok());
  EXPECT_EQ(ReadFile(Path("records")).value(), Framed(records));
  EXPECT_THAT(Read(Framed(records)), ElementsAreArray(records));
  EXPECT_TRUE(end_.ok());
}

TEST_F(RecordFileTest, NeverWritesIntoAFileThatIsThere) {
  File("records", "old");
  EXPECT_TRUE(absl::IsAlreadyExists(RecordWriter::Create(Path("records")).status()));
  EXPECT_EQ(ReadFile(Path("records")).value(), "old");
}

TEST_F(RecordFileTest, EveryCutIsWithinTheLastRecord) {
  const std::string file = Framed({"first", "second"});
  const size_t first = Framed({"first"}).size();
  for (size_t size = 0; size < file.size(); ++size) {
    const size_t whole = size < first ? 0 : 1;
    EXPECT_EQ(Read(file.substr(0, size)).size(), whole) << size;
    const bool is_cut = size != 0 && size != first;
    EXPECT_EQ(end_.code(), is_cut ? absl::StatusCode::kOutOfRange : absl::StatusCode::kOk) << size;
  }
}

TEST_F(RecordFileTest, EveryFlippedBitIsFound) {
  const std::string file = Framed({"first", "second"});
  for (size_t bit = 0; bit < 8 * file.size(); ++bit) {
    std::string damaged = file;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_LT(Read(damaged).size(), 2u) << bit;
    EXPECT_TRUE(absl::IsDataLoss(end_)) << bit << " " << end_;
  }
}

// A length beyond the end of the file costs no memory.
TEST_F(RecordFileTest, AWildLengthIsACut) {
  const std::string length(8, '\xff');
  const std::string as_data = Framed({length});  // ends with the checksum of these bytes
  EXPECT_THAT(Read(length + as_data.substr(as_data.size() - 4) + "data"), ElementsAre());
  EXPECT_TRUE(absl::IsOutOfRange(end_)) << end_;
}

TEST_F(RecordFileTest, AFullDiskLosesNothingThatFitsLater) {
  RecordWriter writer = RecordWriter::Create(Path("records")).value();
  writer.Append("before");
  ASSERT_TRUE(writer.Write().ok());
  {
    const FullDisk full(1000);
    writer.Append(std::string(5000, 'x'));
    const absl::Status failed = writer.Write();
    EXPECT_THAT(std::string(MessageOf(failed)), HasSubstr("File too large"));
    EXPECT_EQ(writer.Write(), failed);
  }
  EXPECT_GT(writer.pending_bytes(), 5000);

  writer.Append("after");
  ASSERT_TRUE(writer.Close().ok());
  EXPECT_EQ(ReadFile(Path("records")).value(), Framed({"before", std::string(5000, 'x'), "after"}));
}

TEST_F(RecordFileTest, AFileThatWasRemovedIsSaid) {
  RecordWriter writer = RecordWriter::Create(Path("records")).value();
  std::filesystem::remove(Path("records"));
  writer.Append("lost");
  EXPECT_TRUE(absl::IsNotFound(writer.Write()));
  EXPECT_EQ(writer.pending_bytes(), 0);
  EXPECT_TRUE(absl::IsNotFound(writer.Close()));
}

}  // namespace
}  // namespace meshwork::record_file_test
