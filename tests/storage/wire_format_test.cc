#include "meshwork/storage/wire_format.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace meshwork::wire_format_test {
namespace {

// The examples of https://protobuf.dev/programming-guides/encoding.
TEST(WireFormatTest, WritesTheExamplesOfTheGuide) {
  EXPECT_EQ(WireWriter().Int(1, 150).bytes(), "\x08\x96\x01");
  EXPECT_EQ(WireWriter().Text(2, "testing").bytes(), "\x12\x07testing");
  EXPECT_EQ(WireWriter().Message(3, WireWriter().Int(1, 150)).bytes(), "\x1a\x03\x08\x96\x01");
  EXPECT_EQ(WireWriter().Int(1, -2).bytes(), "\x08\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01");
  EXPECT_EQ(WireWriter().Ints(6, std::vector<int64_t>{3, 270, 86942}).bytes(),
            "\x32\x06\x03\x8e\x02\x9e\xa7\x05");
}

TEST(WireFormatTest, NumbersOfFixedSizeAreLittleEndian) {
  EXPECT_EQ(WireWriter().Float(5, 1.5f).bytes(), std::string("\x2d\0\0\xc0\x3f", 5));
  EXPECT_EQ(WireWriter().Double(1, -2.0).bytes(), std::string("\x09\0\0\0\0\0\0\0\xc0", 9));
}

TEST(WireFormatTest, FieldsAboveFifteenHaveLongerTags) {
  EXPECT_EQ(WireWriter().Int(16, 1).bytes(), std::string("\x80\x01\x01"));
}

TEST(WireFormatTest, ReadsWhatWasWritten) {
  WireWriter message;
  message.Int(1, std::numeric_limits<int64_t>::min())
      .Double(2, 0.1)
      .Text(300, "text")
      .Float(4, -0.25f)
      .Text(5, "");
  WireReader reader(message.bytes());
  const auto next = [&] { return reader.Next().value().value(); };
  WireField field = next();
  EXPECT_TRUE(field.Is(1, WireField::Kind::kVarint));
  EXPECT_EQ(field.as_int(), std::numeric_limits<int64_t>::min());
  field = next();
  EXPECT_TRUE(field.Is(2, WireField::Kind::kFixed64));
  EXPECT_EQ(field.as_double(), 0.1);
  field = next();
  EXPECT_TRUE(field.Is(300, WireField::Kind::kBytes));
  EXPECT_EQ(field.bytes, "text");
  field = next();
  EXPECT_TRUE(field.Is(4, WireField::Kind::kFixed32));
  EXPECT_EQ(field.as_float(), -0.25f);
  EXPECT_EQ(next().bytes, "");
  EXPECT_FALSE(reader.Next().value().has_value());
}

TEST(WireFormatTest, RefusesWhatIsNoMessage) {
  const std::string long_number = std::string(10, '\xff') + "\x01";
  for (const std::string& bytes :
       {std::string("\x08"), std::string("\x08\xff"), "\x08" + long_number,
        std::string("\x12\x05"
                    "abcd"),
        std::string("\x09\0\0", 3), std::string("\x0d\0", 2), std::string("\x0b"), std::string("\x0e"),
        std::string("\0", 1), "\x12" + long_number, long_number}) {
    const absl::Status status = WireReader(bytes).Next().status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << testing::PrintToString(bytes) << " " << status;
  }
}

}  // namespace
}  // namespace meshwork::wire_format_test
