// Files that NumPy wrote: tests/fixtures/numpy_test.cc. Here: all that meshwork writes can be read back, and any file
// gives a tensor or a Status.
#include "meshwork/storage/npy.h"

#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "meshwork/base/io/file.h"
#include "meshwork/runtime/tensor/tensor_compare.h"
#include "support/memory_file.h"
#include "support/npy_bytes.h"
#include "support/safetensors_bytes.h"
#include "support/temp_dir.h"

namespace meshwork::npy_test {
namespace {

using NpyTest = TempDirTest;
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

NamedTensors Some() {
  return {
      {"w", Tensor::Arange(F32, 0, 6).Reshaped({2, 3})},
      {"b", Tensor::Arange(F64, -1, 1, 0.25)},
      {"mask", BoolTensor({1, 0, 1})},
      {"step", Tensor(int64_t{-1} << 40)},
      {"", Tensor(Type{I32, {3, 0, 2}})},
      {"layer/\u00e9", Tensor::Full({I32, {1, 1, 1, 1}}, 7)},
  };
}

void ExpectEqual(const NamedTensors& got, const NamedTensors& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].first, want[i].first);
    EXPECT_EQ(got[i].second.type(), want[i].second.type());
    EXPECT_EQ(RawBytes(got[i].second), RawBytes(want[i].second));
  }
}

TEST_F(NpyTest, WhatWasWrittenComesBack) {
  for (const auto& [name, tensor] : Some()) {
    ASSERT_EQ(WriteNpy(Path("x.npy"), tensor), absl::OkStatus());
    ExpectEqual({{name, ReadNpy(Path("x.npy")).value()}}, {{name, tensor}});
  }
  ASSERT_EQ(WriteNpz(Path("x.npz"), Some()), absl::OkStatus());
  ExpectEqual(ReadNpz(Path("x.npz")).value(), Some());
  ASSERT_EQ(WriteNpz(Path("none.npz"), {}), absl::OkStatus());
  EXPECT_TRUE(ReadNpz(Path("none.npz"))->empty());
}

// The limit is exact to the byte. Members that are stored uncompressed do not count.
TEST_F(NpyTest, CompressedArraysUnpackAsFarAsIsAllowed) {
  ASSERT_EQ(WriteNpy(Path("x.npy"), Tensor::Zeros({F32, {1 << 18}})), absl::OkStatus());
  const std::string array = ReadFile(Path("x.npy")).value();
  const int64_t size = std::ssize(array);
  const std::string two = EncodeZip({ZipBytes::Deflated("a.npy", array), ZipBytes::Stored("s.npy", array),
                                     ZipBytes::Deflated("b.npy", array)}),
                    stored = EncodeZip({ZipBytes::Stored("s.npy", array)});
  EXPECT_EQ(ReadNpz(MemoryFile(two).path(), {.max_bytes = 2 * size})->size(), 3u);
  EXPECT_EQ(ReadNpz(MemoryFile(two).path())->size(), 3u);
  EXPECT_EQ(ReadNpz(MemoryFile(two).path(), {.max_bytes = 2 * size - 1}).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReadNpz(MemoryFile(stored).path(), {.max_bytes = 1})->size(), 1u);
  // 4 MB that say that they are 3.8 GB, which deflate could make of them.
  ZipBytes bomb = ZipBytes::Deflated("a.npy", array);
  bomb.packed.resize(size_t{4} << 20);
  bomb.size = uint64_t{3800} << 20;
  EXPECT_EQ(ReadNpz(MemoryFile(EncodeZip({bomb})).path()).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST_F(NpyTest, BfloatsAreWrittenAsFloats) {
  const Tensor x = Tensor::Arange(BF16, -2, 2, 0.5);
  ASSERT_EQ(WriteNpy(Path("x.npy"), x), absl::OkStatus());
  const Tensor read = ReadNpy(Path("x.npy")).value();
  EXPECT_EQ(read.dtype(), F32);
  EXPECT_EQ(AllEqual(read, x), absl::OkStatus());
}

TEST_F(NpyTest, ReadsHeadersOfOtherWriters) {
  for (const std::string_view header : {
           "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }",
           "{'shape':(2,3),'fortran_order':False,'descr':'<i4'}",
           " { \"descr\" : \"=i4\" , \"shape\" : ( 2L , 3L , ) , \"fortran_order\" : False , } \n\n",
       }) {
    const std::string file =
        EncodeNpy(header, std::string("\1\0\0\0\2\0\0\0\3\0\0\0\4\0\0\0\5\0\0\0\6\0\0\0", 24));
    const absl::StatusOr<Tensor> x = ReadNpy(File("x.npy", file));
    ASSERT_TRUE(x.ok()) << x.status();
    EXPECT_EQ(AllEqual(*x, Tensor::Arange(I32, 1, 7).Reshaped({2, 3})), absl::OkStatus());
  }
}

// The array is longer than the part that is converted at once.
TEST_F(NpyTest, ReadsLongArraysInParts) {
  constexpr int64_t kLength = (int64_t{1} << 20) + 5;
  std::string data;
  for (int64_t i = 0; i < kLength; ++i) {  // big-endian numbers of two bytes
    data += static_cast<char>(i >> 8);
    data += static_cast<char>(i);
  }
  const std::string header =
      fmt::format("{{'descr': '>u2', 'fortran_order': False, 'shape': ({},), }}", kLength);
  const Tensor x = ReadNpy(File("x.npy", EncodeNpy(header, data))).value();
  for (int64_t i = 0; i < kLength; ++i) ASSERT_EQ(x.values<int32_t>()[static_cast<size_t>(i)], i % 65536);
}

// A file that is shorter, or has one byte changed, gives an error or tensors.
TEST_F(NpyTest, SurvivesEveryDamagedByteOfAnArray) {
  ASSERT_EQ(WriteNpy(Path("good"), BoolTensor({1, 0})), absl::OkStatus());
  const std::string good = ReadFile(Path("good")).value();
  for (size_t size = 0; size < good.size(); ++size)
    EXPECT_FALSE(ReadNpy(MemoryFile(good.substr(0, size)).path()).ok());
  EXPECT_FALSE(ReadNpy(MemoryFile(good + "x").path()).ok());
  for (size_t i = 0; i < good.size(); ++i) {
    for (const int other :
         {0x00, 0x20, 0x28, 0x29, 0x2c, 0x2d, 0x39, 0x7b, 0xff, good[i] ^ 1, good[i] ^ 0x80}) {
      std::string bad = good;
      bad[i] = static_cast<char>(other);
      const absl::StatusOr<Tensor> x = ReadNpy(MemoryFile(bad).path());
      EXPECT_LE(x.ok() ? x->num_elements() : 0, 2) << i;
    }
  }
}

TEST_F(NpyTest, SurvivesEveryDamagedByteOfAnArchive) {
  const NamedTensors some = {{"a", Tensor::From<float>({2}, {1, 2})}, {"b", Tensor(true)}};
  ASSERT_EQ(WriteNpz(Path("stored"), some), absl::OkStatus());
  for (const std::string& good :
       {ReadFile(Path("stored")).value(),
        DeflatedZip({{"a.npy", EncodeNpy(FloatHeader(2), std::string(8, '\1'))}})}) {
    ASSERT_TRUE(ReadNpz(File("good", good)).ok()) << ReadNpz(Path("good")).status();
    for (size_t size = 0; size < good.size(); ++size)
      EXPECT_FALSE(ReadNpz(MemoryFile(good.substr(0, size)).path()).ok());
    for (size_t i = 0; i < good.size(); ++i) {
      for (const int other : {0x00, 0xff, good[i] ^ 1, good[i] ^ 0x10, good[i] ^ 0x80}) {
        std::string bad = good;
        bad[i] = static_cast<char>(other);
        const auto read = ReadNpz(MemoryFile(bad).path());
        EXPECT_LE(read.ok() ? read->size() : 0, 2u) << i;
      }
    }
  }
}

// The CRC finds a flipped bit of an element.
TEST_F(NpyTest, SeesEveryDamagedElementOfAnArchive) {
  ASSERT_EQ(WriteNpz(Path("good"), {{"a", Tensor::From<int32_t>({2}, {0x11223344, 0x55667788})}}),
            absl::OkStatus());
  const std::string good = ReadFile(Path("good")).value();
  const size_t at = good.find("\x44\x33\x22\x11");
  ASSERT_NE(at, std::string::npos);
  for (size_t i = at; i < at + 8; ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ 1 << bit);
      EXPECT_NE(MessageOf(ReadNpz(MemoryFile(bad).path()).status()).find("CRC"), std::string_view::npos);
    }
  }
}

TEST_F(NpyTest, WritesNothingOfWhatItRefuses) {
  const Tensor one(1.0f);
  EXPECT_FALSE(WriteNpz(Path("x"), {{"w", one}, {"w", one}}).ok());
  EXPECT_FALSE(WriteNpz(Path("x"), {{"w", one}, {"v", Tensor()}}).ok());
  EXPECT_FALSE(WriteNpy(Path("x"), Tensor()).ok());
  EXPECT_EQ(NumFiles(), 0);
}

// Python's own archive reader opens them; it checks the CRCs.
TEST_F(NpyTest, PythonOpensItsArchives) {
  if (std::system("python3 -c 'import zipfile' 2>/dev/null") != 0) GTEST_SKIP() << "there is no Python";
  ASSERT_EQ(WriteNpz(Path("x.npz"), Some()), absl::OkStatus());
  const std::string check = fmt::format(
      "python3 -c 'import sys, zipfile; z = zipfile.ZipFile(sys.argv[1]); "
      "sys.exit(z.testzip() is not None or len(z.namelist()) != {} or z.namelist()[0] != \"w.npy\")' {}",
      Some().size(), Path("x.npz"));
  EXPECT_EQ(std::system(check.c_str()), 0);
}

}  // namespace
}  // namespace meshwork::npy_test
