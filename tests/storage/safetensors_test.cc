#include "meshwork/storage/safetensors.h"

#include <string>
#include <utility>
#include <vector>

#include "meshwork/base/io/file.h"
#include "meshwork/base/io/sha256.h"
#include "support/safetensors_bytes.h"
#include "support/temp_dir.h"

namespace meshwork::safetensors_test {
namespace {

using SafetensorsTest = TempDirTest;
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

TEST_F(SafetensorsTest, WritesTheFormatByteForByte) {
  const NamedTensors tensors = {
      {"mask", BoolTensor({1, 0, 1})},
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
  EXPECT_EQ(ReadFile(Path("f")).value(), EncodeSafetensors(padded, data));
}

TEST_F(SafetensorsTest, WhatWasWrittenComesBackEqualAndInOrder) {
  const NamedTensors tensors = {
      {"z", Tensor::From<float>({2, 3}, {1, 2, 3, 4, 5, 6})},
      {"a/\"quoted\"\n\u00e9", Tensor::From<double>({2}, {1e300, -0.0})},
      {"", Tensor::From<int32_t>({1, 1, 1}, {-7})},
      {"i64", Tensor::From<int64_t>({}, {INT64_MIN})},
      {"bool", BoolTensor({0, 1, 1, 0, 1})},
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

TEST_F(SafetensorsTest, WritesMetadataFirstAndSorted) {
  const SafetensorsMetadata metadata = {{"step", "120"}, {"a \"text\"", "\u00e9\n"}};
  ASSERT_TRUE(WriteSafetensors(Path("f"), {{"m", BoolTensor({1})}}, metadata).ok());
  std::string header = R"({"__metadata__":{"a \"text\"":")"
                       "\u00e9"
                       R"(\n","step":"120"},"m":{"dtype":"BOOL","shape":[1],"data_offsets":[0,1]}})";
  header.append((8 - header.size() % 8) % 8, ' ');
  EXPECT_EQ(ReadFile(Path("f")).value(), EncodeSafetensors(header, "\1"));
  EXPECT_EQ(ReadSafetensors(Path("f")).value().size(), 1u);
}

TEST_F(SafetensorsTest, HashesWhatItWrites) {
  const NamedTensors tensors = {{"long", Tensor::Zeros({F32, {700, 1000}})}, {"m", BoolTensor({1, 0})}};
  const WrittenFile written = WriteSafetensorsHashed(Path("f"), tensors, {{"step", "1"}}).value();
  EXPECT_EQ(written.bytes, static_cast<int64_t>(ReadFile(Path("f")).value().size()));
  EXPECT_EQ(written.sha256, Sha256OfFile(Path("f")).value());
  ASSERT_TRUE(WriteSafetensors(Path("plain"), tensors, {{"step", "1"}}).ok());
  EXPECT_EQ(ReadFile(Path("plain")).value(), ReadFile(Path("f")).value());
}

// The same file as from tensors in memory. The tensors are asked for one by one, in the order of the file.
TEST_F(SafetensorsTest, WritesTensorsThatAreReadOneByOne) {
  const NamedTensors tensors = {{"m", BoolTensor({1, 0})},
                                {"empty", Tensor::Zeros({F64, {0, 3}})},
                                {"w", Tensor::From<float>({2}, {1, 2})},
                                {"long", Tensor::Zeros({F64, {300, 1000}})},
                                {"b", Tensor::From<float>({}, {3})}};
  std::vector<std::pair<std::string, Type>> types;
  for (const auto& [name, tensor] : tensors) types.emplace_back(name, tensor.type());
  std::vector<size_t> asked;
  const auto read = [&](size_t i) {
    asked.push_back(i);
    return tensors[i].second;
  };
  const WrittenFile written = StreamSafetensors(Path("f"), types, read, {{"step", "1"}}).value();
  const WrittenFile together = WriteSafetensorsHashed(Path("together"), tensors, {{"step", "1"}}).value();
  EXPECT_EQ(ReadFile(Path("f")).value(), ReadFile(Path("together")).value());
  EXPECT_EQ(written.bytes, together.bytes);
  EXPECT_EQ(written.sha256, together.sha256);
  EXPECT_EQ(asked, (std::vector<size_t>{3, 2, 4, 0}));
  EXPECT_EQ(StreamSafetensors(Path("none"), {}, read).value().bytes, 16);
  EXPECT_TRUE(ReadSafetensors(Path("none")).value().empty());
}

TEST_F(SafetensorsTest, ATensorThatCannotBeReadLeavesTheOldFile) {
  File("f", "old");
  const auto read = [](size_t i) -> absl::StatusOr<Tensor> {
    if (i == 1) return absl::DataLossError("damaged");
    return Tensor::Zeros({F32, {4}});
  };
  EXPECT_EQ(MessageOf(StreamSafetensors(Path("f"), {{"a", {F32, {4}}}, {"b", {F32, {4}}}}, read).status()),
            "damaged");
  EXPECT_EQ(ReadFile(Path("f")).value(), "old");
  EXPECT_EQ(NumFiles(), 1);
}

TEST_F(SafetensorsTest, ReadsOtherTypesOfTheFormat) {
  const std::string file = EncodeSafetensors(R"({"f16":{"dtype":"F16","shape":[2],"data_offsets":[0,4]},)"
                                             R"("bf16":{"dtype":"BF16","shape":[1],"data_offsets":[4,6]},)"
                                             R"("i8":{"dtype":"I8","shape":[2],"data_offsets":[6,8]},)"
                                             R"("u8":{"dtype":"U8","shape":[1,1],"data_offsets":[8,9]},)"
                                             R"("i16":{"dtype":"I16","shape":[],"data_offsets":[9,11]},)"
                                             R"("u16":{"dtype":"U16","shape":[1],"data_offsets":[11,13]},)"
                                             R"("u32":{"dtype":"U32","shape":[1],"data_offsets":[13,17]},)"
                                             R"("i32":{"dtype":"I32","shape":[1],"data_offsets":[17,21]},)"
                                             R"("f32":{"dtype":"F32","shape":[1],"data_offsets":[21,25]}})",
                                             std::string_view("\x00\x3e\x00\xc0"   // 1.5, -2
                                                              "\x40\x40"           // 3
                                                              "\xff\x7f"           // -1, 127
                                                              "\xff"               // 255
                                                              "\x00\x80"           // -32768
                                                              "\xff\xff"           // 65535
                                                              "\xff\xff\xff\xff"   // 2^32-1
                                                              "\xfe\xff\xff\xff"   // -2
                                                              "\x00\x00\x80\x3e",  // 0.25
                                                              25));
  File("f", file);
  const auto texts = [&](const ReadSafetensorsOptions& options) {
    std::vector<std::string> read;
    const NamedTensors tensors = ReadSafetensors(Path("f"), options).value();
    for (const auto& [name, tensor] : tensors) {
      read.push_back(name + " " + tensor.type().ToString());
      for (int64_t i = 0; i < tensor.num_elements(); ++i)
        read.back() +=
            fmt::format(" {}", tensor.Reshaped({tensor.num_elements()}).Rows(i, i + 1).Scalar().value());
    }
    return read;
  };
  EXPECT_EQ(texts({}),
            (std::vector<std::string>{"f16 f16[2] 1.5 -2", "bf16 bf16[1] 3", "i8 i8[2] -1 127",
                                      "u8 u8[1,1] 255", "i16 i32[] -32768", "u16 i32[1] 65535",
                                      "u32 i64[1] 4294967295", "i32 i32[1] -2", "f32 f32[1] 0.25"}));
  EXPECT_EQ(texts({{{"f16", BF16}, {"bf16", F64}, {"i8", I64}, {"i16", I32}, {"i32", I64}, {"f32", F64}}}),
            (std::vector<std::string>{"f16 bf16[2] 1.5 -2", "bf16 f64[1] 3", "i8 i64[2] -1 127",
                                      "u8 u8[1,1] 255", "i16 i32[] -32768", "u16 i32[1] 65535",
                                      "u32 i64[1] 4294967295", "i32 i64[1] -2", "f32 f64[1] 0.25"}));
  EXPECT_EQ(texts({.as = {{"u8", I32}, {"bf16", F64}}, .reals = F32}),
            (std::vector<std::string>{"f16 f32[2] 1.5 -2", "bf16 f64[1] 3", "i8 i8[2] -1 127",
                                      "u8 i32[1,1] 255", "i16 i32[] -32768", "u16 i32[1] 65535",
                                      "u32 i64[1] 4294967295", "i32 i32[1] -2", "f32 f32[1] 0.25"}));
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
  const std::string file = EncodeSafetensors(
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
      WriteSafetensors(Path("good"), {{"w", Tensor::From<float>({2}, {1, 2})}, {"m", BoolTensor({1})}}).ok());
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
}  // namespace meshwork::safetensors_test
