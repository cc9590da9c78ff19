#include "meshwork/storage/safetensors.h"

#include <cstring>
#include <filesystem>

#include "meshwork/storage/file.h"
#include "support/temp_dir.h"

namespace meshwork {
namespace {

using SafetensorsTest = TempDirTest;
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

std::string RawBytes(const Tensor& tensor) {
  return std::string(static_cast<const char*>(tensor.raw()), static_cast<size_t>(tensor.bytes()));
}

// A file with this header and data.
std::string Encode(std::string_view header, std::string_view data = "") {
  const uint64_t length = header.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, 8);
  return file.append(header).append(data);
}

Tensor Bools(const std::vector<uint8_t>& values) {
  Tensor tensor(Type{BOOL, {static_cast<int64_t>(values.size())}});
  std::memcpy(tensor.raw(), values.data(), values.size());
  return tensor;
}

TEST_F(SafetensorsTest, WritesTheFormatByteForByte) {
  const NamedTensors tensors = {
      {"mask", Bools({1, 0, 1})},
      {"w", Tensor::From<float>({1, 2}, {1.0f, -2.0f})},
      {"step", Tensor::From<int64_t>({}, {258})},
  };
  ASSERT_TRUE(WriteSafetensors(Path("f"), tensors).ok());
  const std::string header = R"({"mask":{"dtype":"BOOL","shape":[3],"data_offsets":[16,19]},)"
                             R"("w":{"dtype":"F32","shape":[1,2],"data_offsets":[8,16]},)"
                             R"("step":{"dtype":"I64","shape":[],"data_offsets":[0,8]}})";
  const std::string data("\x02\x01\0\0\0\0\0\0\0\0\x80\x3f\0\0\0\xc0\1\0\1", 19);
  std::string padded = header;
  while (padded.size() % 8 != 0) padded += ' ';
  ASSERT_NE(padded.size(), header.size());
  EXPECT_EQ(ReadFile(Path("f")).value(), Encode(padded, data));
}

TEST_F(SafetensorsTest, WhatWasWrittenComesBackEqualAndInOrder) {
  const NamedTensors tensors = {
      {"z", Tensor::From<float>({2, 3}, {1, 2, 3, 4, 5, 6})},
      {"a/\"quoted\"\n\u00e9", Tensor::From<double>({2}, {1e300, -0.0})},
      {"", Tensor::From<int32_t>({1, 1, 1}, {-7})},
      {"i64", Tensor::From<int64_t>({}, {INT64_MIN})},
      {"bool", Bools({0, 1, 1, 0, 1})},
      {"empty", Tensor(Type{F32, {3, 0}})},
      {"empty too", Tensor(Type{F64, {0}})},
      {"last", Tensor::From<float>({1}, {0.1f})},
  };
  for (size_t n = 0; n <= tensors.size(); ++n) {
    const NamedTensors some(tensors.begin(), tensors.begin() + n);
    ASSERT_TRUE(WriteSafetensors(Path("f"), some).ok());
    const NamedTensors read = ReadSafetensors(Path("f")).value();
    ASSERT_EQ(read.size(), n);
    for (size_t i = 0; i < n; ++i) {
      EXPECT_EQ(read[i].first, some[i].first);
      EXPECT_EQ(read[i].second.type(), some[i].second.type());
      EXPECT_EQ(RawBytes(read[i].second), RawBytes(some[i].second));
    }
    const std::string file = ReadFile(Path("f")).value();
    ASSERT_TRUE(WriteSafetensors(Path("again"), read).ok());
    EXPECT_EQ(ReadFile(Path("again")).value(), file);
  }
}

TEST_F(SafetensorsTest, WritesViews) {
  const Tensor tensor = Tensor::From<int32_t>({3, 2}, {1, 2, 3, 4, 5, 6});
  ASSERT_TRUE(WriteSafetensors(Path("f"), {{"rows", tensor.Rows(1, 3)}}).ok());
  const NamedTensors read = ReadSafetensors(Path("f")).value();
  EXPECT_EQ(read[0].second.type().ToString(), "i32[2,2]");
  EXPECT_EQ(
      std::vector<int32_t>(read[0].second.values<int32_t>().begin(), read[0].second.values<int32_t>().end()),
      (std::vector<int32_t>{3, 4, 5, 6}));
}

TEST_F(SafetensorsTest, WritesNothingOfWhatItRefuses) {
  const Tensor one = Tensor::From<float>({1}, {1});
  EXPECT_FALSE(WriteSafetensors(Path("f"), {{"w", one}, {"b", one}, {"w", one}}).ok());
  EXPECT_FALSE(WriteSafetensors(Path("f"), {{"w\xff", one}}).ok());
  EXPECT_EQ(NumFiles(), 0);
}

TEST_F(SafetensorsTest, ReadsFilesOfOtherWriters) {
  // Other key order, white space, metadata, unknown fields, and neither sorted nor aligned data.
  const std::string file = Encode(
      "{ \"__metadata__\": {\"format\":\"pt\"}, \"b\" : "
      "{\"data_offsets\":[1,9],\"shape\":[2],\"dtype\":\"F32\","
      "\"extra\":[{}]},\n\"a\":{\"dtype\":\"BOOL\",\"shape\":[1,1],\"data_offsets\":[0,1]}}   ",
      std::string_view("\1\0\0\x80\x3f\0\0\0\x40", 9));
  const NamedTensors read = ReadSafetensors(File("f", file)).value();
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(read[0].first, "b");
  EXPECT_EQ(read[0].second.values<float>()[0], 1);
  EXPECT_EQ(read[0].second.values<float>()[1], 2);
  EXPECT_EQ(read[1].first, "a");
  EXPECT_EQ(read[1].second.type().ToString(), "bool[1,1]");
  EXPECT_TRUE(read[1].second.values<bool>()[0]);
}

TEST_F(SafetensorsTest, SurvivesEveryDamagedByte) {
  ASSERT_TRUE(
      WriteSafetensors(Path("good"), {{"w", Tensor::From<float>({2}, {1, 2})}, {"m", Bools({1})}}).ok());
  const std::string good = ReadFile(Path("good")).value();
  for (size_t i = 0; i < good.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = good;
      damaged[i] ^= static_cast<char>(1 << bit);
      (void)ReadSafetensors(File("f", damaged));
    }
    EXPECT_FALSE(ReadSafetensors(File("f", good.substr(0, i))).ok()) << i;
  }
}

}  // namespace
}  // namespace meshwork
