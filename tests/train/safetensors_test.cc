#include "train/safetensors.h"

#include <cstring>
#include <filesystem>

#include "train/file.h"
#include "train/temp_dir.h"

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

TEST_F(SafetensorsTest, RejectsWhatItCannotWrite) {
  const Tensor one = Tensor::From<float>({1}, {1});
  ExpectInvalid(WriteSafetensors(Path("f"), {{"w", one}, {"b", one}, {"w", one}}), Path("f"),
                "$: tensor \"w\" is given twice; names must be unique.");
  ExpectInvalid(WriteSafetensors(Path("f"), {{"__metadata__", one}}), Path("f"),
                "$: a tensor is called \"__metadata__\"; the format keeps that name for itself.");
  ExpectInvalid(WriteSafetensors(Path("f"), {{"w", Tensor()}}), Path("f"),
                "$: tensor \"w\" has no elements yet; fill it first.");
  ExpectInvalid(WriteSafetensors(Path("f"), {{"w\xff", one}}), Path("f"),
                "$: the name of a tensor is not UTF-8; the format allows no other.");
  ExpectInvalid(WriteSafetensors(Path("f"), {{std::string(100'000'001, 'n'), one}}), Path("f"),
                "$: the names and shapes of 1 tensors take more than the 100000000 bytes of a header; give "
                "shorter names, or several files.");
  EXPECT_EQ(NumFiles(), 0);
  ExpectError(
      WriteSafetensors(Path("none/f"), {{"w", one}}), absl::StatusCode::kNotFound, Path("none/f"),
      "$: cannot be written: No such file or directory; its directory must exist, be writable and have "
      "room. Nothing was changed.");
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

TEST_F(SafetensorsTest, RejectsFilesItCannotOpen) {
  ExpectError(ReadSafetensors(Path("f")).status(), absl::StatusCode::kNotFound, Path("f"),
              "$: cannot be read: No such file or directory; check the path.");
  ExpectInvalid(ReadSafetensors(dir()).status(), dir(),
                "$: is not a regular file; directories, pipes and devices are not read here.");
}

TEST_F(SafetensorsTest, RejectsDamagedHeaders) {
  const struct {
    std::string file;
    std::string_view message;
  } cases[] = {
      {"", "$: has 0 bytes; a safetensors file starts with 8 bytes of header length."},
      {"1234567", "$: has 7 bytes; a safetensors file starts with 8 bytes of header length."},
      {"\x89PNG\r\n\x1a\n....",
       "$: its header would have 727905341920923785 bytes; at most 100000000 are allowed, so this is not a "
       "safetensors file."},
      {Encode(std::string(100, ' ')).substr(0, 50),
       "$: its header has 100 bytes but the file only 50; it is incomplete, fetch it again."},
      {Encode(""), "$: the header is not JSON, at its byte 1; this is not a safetensors file."},
      {Encode("{\"w\":}"), "$: the header is not JSON, at its byte 6; this is not a safetensors file."},
      {Encode("{\"w\xff\":1}"), "$: the header is not JSON, at its byte 4; this is not a safetensors file."},
      {Encode("{} x"), "$: the header is not JSON, at its byte 4; this is not a safetensors file."},
      {Encode("{\"w\":1e999}"),
       "$: the header has a number that is too large; this is not a safetensors file."},
      {Encode("[1,2]"), "$: the header is [1,2]; it must be a JSON object of tensors."},
      {Encode("null"), "$: the header is null; it must be a JSON object of tensors."},
      {Encode("{\"w\":" + std::string(100000, '[') + std::string(100000, ']') + "}"),
       "$: the header nests brackets more than 16 deep; the format needs 3."},
      {Encode(R"({"w":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"w":{}})"),
       "$: the header has the key \"w\" twice; names must be unique."},
      {Encode(R"({"w":{"dtype":"F32","dtype":"F64","shape":[0],"data_offsets":[0,0]}})"),
       "$: the header has the key \"dtype\" twice; names must be unique."},
      {Encode(R"({"__metadata__":{"a":1}})"),
       "$: __metadata__ is {\"a\":1}; it must be an object of strings."},
      {Encode(R"({"__metadata__":[]})"), "$: __metadata__ is []; it must be an object of strings."},
  };
  for (const auto& [file, message] : cases) {
    ExpectInvalid(ReadSafetensors(File("f", file)).status(), Path("f"), message);
  }
}

TEST_F(SafetensorsTest, RejectsDamagedEntries) {
  const struct {
    std::string_view entry;  // with 16 bytes of data
    std::string_view message;
  } cases[] = {
      {"3", "is 3; it must be an object with dtype, shape and data_offsets."},
      {R"("a long text that would fill the terminal, were it shown as it is")",
       "is \"a long text that would fill the terminal, were it shown ...; it must be an object with dtype, "
       "shape "
       "and data_offsets."},
      {R"({"dtype":"F32","shape":[4]})",
       "has no \"data_offsets\"; it must have dtype, shape and data_offsets."},
      {R"({"shape":[4],"data_offsets":[0,16]})",
       "has no \"dtype\"; it must have dtype, shape and data_offsets."},
      {R"({"dtype":"F32","data_offsets":[0,16]})",
       "has no \"shape\"; it must have dtype, shape and data_offsets."},
      {R"({"dtype":"F16","shape":[8],"data_offsets":[0,16]})",
       "its dtype is \"F16\"; F32, F64, BF16, I32, I64 and BOOL are read."},
      {R"({"dtype":32,"shape":[4],"data_offsets":[0,16]})",
       "its dtype is 32; F32, F64, BF16, I32, I64 and BOOL are read."},
      {R"({"dtype":"F32","shape":4,"data_offsets":[0,16]})",
       "its shape is 4; it must be an array of whole numbers from 0 to 2^63-1."},
      {R"({"dtype":"F32","shape":[-4],"data_offsets":[0,16]})",
       "its shape is [-4]; it must be an array of whole numbers from 0 to 2^63-1."},
      {R"({"dtype":"F32","shape":[4.0],"data_offsets":[0,16]})",
       "its shape is [4.0]; it must be an array of whole numbers from 0 to 2^63-1."},
      {R"({"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,16]})",
       "its shape is [9223372036854775808]; it must be an array of whole numbers from 0 to 2^63-1."},
      {R"({"dtype":"F32","shape":[4],"data_offsets":[0,8,16]})",
       "its data_offsets are [0,8,16]; they must be [begin,end] with 0 <= begin <= end."},
      {R"({"dtype":"F32","shape":[4],"data_offsets":[16,0]})",
       "its data_offsets are [16,0]; they must be [begin,end] with 0 <= begin <= end."},
      {R"({"dtype":"F32","shape":[4],"data_offsets":[0,-16]})",
       "its data_offsets are [0,-16]; they must be [begin,end] with 0 <= begin <= end."},
      {R"({"dtype":"F32","shape":[4],"data_offsets":{}})",
       "its data_offsets are {}; they must be [begin,end] with 0 <= begin <= end."},
      {R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,16]})",
       "f32[4294967296,4294967296] has more than 2^63 bytes; its shape is damaged."},
      {R"({"dtype":"F64","shape":[3],"data_offsets":[0,16]})",
       "f64[3] has 24 bytes but data_offsets [0,16] span 16; they must be equal."},
  };
  for (const auto& [entry, message] : cases) {
    const std::string file = Encode(fmt::format("{{\"w\":{}}}", entry), std::string(16, '\0'));
    ExpectInvalid(ReadSafetensors(File("f", file)).status(), Path("f"),
                  fmt::format("$: tensor \"w\": {}", message));
  }
}

TEST_F(SafetensorsTest, RejectsHolesOverlapsAndMissingOrExtraData) {
  const auto file = [](int a_begin, int a_end, int b_begin, int b_end, size_t data) {
    const auto entry = [](int begin, int end) {
      return fmt::format(R"({{"dtype":"F32","shape":[{}],"data_offsets":[{},{}]}})", (end - begin) / 4, begin,
                         end);
    };
    return Encode(fmt::format(R"({{"a":{},"b":{}}})", entry(a_begin, a_end), entry(b_begin, b_end)),
                  std::string(data, '\0'));
  };
  EXPECT_TRUE(ReadSafetensors(File("f", file(8, 16, 0, 8, 16))).ok());
  ExpectInvalid(
      ReadSafetensors(File("f", file(4, 8, 8, 16, 16))).status(), Path("f"),
      "$: tensor \"a\" begins at byte 4 but the tensors before it end at 0; there must be no holes and no "
      "overlaps.");
  ExpectInvalid(
      ReadSafetensors(File("f", file(0, 4, 8, 16, 16))).status(), Path("f"),
      "$: tensor \"b\" begins at byte 8 but the tensors before it end at 4; there must be no holes and no "
      "overlaps.");
  ExpectInvalid(
      ReadSafetensors(File("f", file(0, 12, 8, 16, 16))).status(), Path("f"),
      "$: tensor \"b\" begins at byte 8 but the tensors before it end at 12; there must be no holes and no "
      "overlaps.");
  ExpectInvalid(
      ReadSafetensors(File("f", file(0, 8, 8, 16, 15))).status(), Path("f"),
      "$: the tensors have 16 bytes but the file holds 15 after its header; it is incomplete, fetch it "
      "again.");
  ExpectInvalid(
      ReadSafetensors(File("f", file(0, 8, 8, 16, 17))).status(), Path("f"),
      "$: the tensors have 16 bytes but the file holds 17 after its header; they must be equal, the rest "
      "belongs to no tensor.");
  ExpectInvalid(
      ReadSafetensors(File("f", Encode("{}", "x"))).status(), Path("f"),
      "$: the tensors have 0 bytes but the file holds 1 after its header; they must be equal, the rest "
      "belongs to no tensor.");
}

TEST_F(SafetensorsTest, RejectsWildClaimsWithoutAllocatingThem) {
  ExpectInvalid(ReadSafetensors(File("f", Encode(R"({"w":{"dtype":"F32","shape":[1000000000000],)"
                                                 R"("data_offsets":[0,4000000000000]}})")))
                    .status(),
                Path("f"),
                "$: the tensors have 4000000000000 bytes but the file holds 0 after its header; it is "
                "incomplete, fetch it "
                "again.");
}

TEST_F(SafetensorsTest, RejectsBoolsThatAreNeither) {
  ExpectInvalid(ReadSafetensors(File("f", Encode(R"({"m":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]}})",
                                                 std::string_view("\0\1\2", 3))))
                    .status(),
                Path("f"), "$: tensor \"m\": element 2 is 2; a BOOL is 0 or 1.");
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
