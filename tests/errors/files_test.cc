// What is refused of files and data sets. DIR stands for a directory of this run.
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <functional>

#include "errors/errors.h"
#include "gtest/gtest.h"
#include "meshwork/base/io/file.h"
#include "meshwork/base/io/sha256.h"
#include "meshwork/storage/npy.h"
#include "meshwork/storage/safetensors.h"
#include "meshwork/storage/safetensors_file.h"
#include "meshwork/train/data/dataset.h"
#include "meshwork/train/data/idx.h"
#include "support/flushes.h"
#include "support/idx_file.h"
#include "support/npy_bytes.h"
#include "support/safetensors_bytes.h"
#include "support/temp_dir.h"

namespace meshwork::files_test {
namespace {

class FileErrors : public TempDirTest {
 protected:
  void Expect(std::string_view area, const std::vector<Mistake>& mistakes) {
    ExpectErrors(area, mistakes, {{dir(), "DIR"}});
  }
};

// ---- Files of any kind.

// The error of a write if no file may be larger than 1000 bytes.
absl::Status WriteWithoutRoom(const std::string& path) {
  rlimit before;
  EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 1000;
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const absl::Status status = WriteFileAtomically(path, std::string(5000, 'x'));
  EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  return status;
}

// The error of a write if the disk does not store the file's name.
absl::Status WriteWithoutFlush(const std::string& path) {
  const WatchedFlushes flushes(
      [](const std::string& flushed) { return std::filesystem::is_directory(flushed) ? EIO : 0; });
  return WriteFileAtomically(path, "x");
}

TEST_F(FileErrors, Files) {
  File("file", "x");
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  ASSERT_EQ(symlink(Path("loop").c_str(), Path("loop").c_str()), 0);
  const InputFile ten = InputFile::Open(File("ten", "0123456789")).value();
  std::byte bytes[3];
  Expect("files", {
                      MISTAKE(ReadFile(Path("none"))),
                      MISTAKE(ReadFile("")),
                      MISTAKE(ReadFile(dir())),
                      MISTAKE(ReadFile("/dev/zero")),
                      MISTAKE(ReadFile(Path("file/below"))),
                      MISTAKE(ReadFile(Path("loop"))),
                      MISTAKE(ReadFile(Path(std::string(300, 'n')))),
                      MISTAKE(WriteFileAtomically(Path("none/file"), "x")),
                      MISTAKE(WriteFileAtomically("", "x")),
                      MISTAKE(WriteFileAtomically(dir(), "x")),
                      MISTAKE(WriteFileAtomically(Path("pipe"), "x")),
                      MISTAKE(WriteFileAtomically(Path("loop"), "x")),
                      MISTAKE(WriteFileAtomically("/dev/null", "x")),
                      MISTAKE(WriteWithoutRoom(Path("file"))),
                      MISTAKE(WriteWithoutFlush(Path("file"))),
                      MISTAKE(CheckWritable(Path("none/file"))),
                      MISTAKE(CheckWritable(Path("pipe"))),
                      MISTAKE(CheckWritable(dir())),
                      MISTAKE(InputFile::Open(Path("none"))),
                      MISTAKE(InputFile::Open(dir())),
                      MISTAKE(InputFile::Open(Path("pipe"))),
                      MISTAKE(ten.ReadAt(8, bytes)),
                      MISTAKE(Sha256OfFile(Path("none"))),
                  });
}

// ---- IDX.

TEST_F(FileErrors, IdxFiles) {
  auto read = [&](const std::string& contents) { return ReadIdx(File("f", contents)); };
  auto damaged = [&](size_t from_end) {
    std::string zipped = Gzip(Idx({1000}, 1000));
    zipped[zipped.size() - from_end] ^= 1;
    return read(zipped);
  };
  const std::string zipped = Gzip(Idx({1000}, 1000));
  Expect("idx", {
                    MISTAKE(ReadIdx(Path("none"))),
                    MISTAKE(ReadIdx(dir())),
                    MISTAKE(read("")),
                    MISTAKE(read(Gzip(""))),
                    MISTAKE(read("<!DOCTYPE html>")),
                    MISTAKE(read(Gzip("<!DOCTYPE html>"))),
                    MISTAKE(read(Bytes({0, 0, 8}))),
                    MISTAKE(read(Bytes({0, 0, 0x09, 1, 0, 0, 0, 0}))),
                    MISTAKE(read(Bytes({0, 0, 0x0b, 1, 0, 0, 0, 0}))),
                    MISTAKE(read(Bytes({0, 0, 0x0c, 1, 0, 0, 0, 0}))),
                    MISTAKE(read(Bytes({0, 0, 0x0d, 1, 0, 0, 0, 0}))),
                    MISTAKE(read(Bytes({0, 0, 0x0e, 1, 0, 0, 0, 0}))),
                    MISTAKE(read(Bytes({0, 0, 0x0a, 1, 0, 0, 0, 0}))),
                    MISTAKE(read(Idx({}, 1))),
                    MISTAKE(read(Idx({3, 4}, 12).substr(0, 4))),
                    MISTAKE(read(Idx({3, 4}, 12).substr(0, 11))),
                    MISTAKE(read(Idx({3, 4}, 0))),
                    MISTAKE(read(Idx({3, 4}, 11))),
                    MISTAKE(read(Gzip(Idx({3, 4}, 11)))),
                    MISTAKE(read(Idx({3, 4}, 13))),
                    MISTAKE(read(Gzip(Idx({3, 4}, 13)))),
                    MISTAKE(ReadIdx(File("f", Gzip(Idx({3, 4}, 12))), {.max_bytes = 11})),
                    // Wild claims cost nothing.
                    MISTAKE(read(Idx({4000000000, 2000000000}, 10))),
                    MISTAKE(read(Idx({4000000000, 4000000000, 1}, 10))),
                    MISTAKE(read(Gzip(Idx({4000000000, 2000000000}, 10)))),
                    MISTAKE(read(zipped.substr(0, 2))),
                    MISTAKE(read(zipped.substr(0, zipped.size() - 1))),
                    MISTAKE(damaged(8)),
                    MISTAKE(damaged(4)),
                    MISTAKE(damaged(zipped.size() - 2)),
                    MISTAKE(read(zipped + "abc")),
                    MISTAKE(read(zipped + "a")),
                });
}

// ---- MNIST and other data sets.

class MnistErrors : public FileErrors {
 protected:
  // Loads a good copy in which one file is replaced or missing.
  absl::Status Load(std::string_view changed = "", std::string_view contents = "", DType dtype = F32) {
    const std::pair<std::string, std::string> files[] = {
        {"train-images-idx3-ubyte", Idx({3, 28, 28}, 3 * 784)},
        {"train-labels-idx1-ubyte", Idx({3}, 3)},
        {"t10k-images-idx3-ubyte", Idx({2, 28, 28}, 2 * 784)},
        {"t10k-labels-idx1-ubyte", Idx({2}, 2)}};
    for (const auto& [name, good] : files) {
      std::filesystem::remove_all(Path(name));
      if (name != changed || !contents.empty()) File(name, name == changed ? contents : good);
    }
    return LoadMnist(dir(), dtype).status();
  }
};

TEST_F(MnistErrors, Mnist) {
  const std::string train = "train-images-idx3-ubyte", labels = "t10k-labels-idx1-ubyte";
  auto directory = [&] {
    (void)Load();
    std::filesystem::remove(Path(train));
    std::filesystem::create_directory(Path(train));
    return LoadMnist(dir(), F32);
  };
  Expect("mnist", {
                      MISTAKE(Load("", "", I32)),
                      MISTAKE(Load("", "", BF16)),
                      MISTAKE(LoadMnist(Path("none"), F32)),
                      MISTAKE(Load(labels)),
                      MISTAKE(Load(train, Idx({3, 28, 29}, 3 * 28 * 29))),
                      MISTAKE(Load(train, Idx({3, 784}, 3 * 784))),
                      MISTAKE(Load(train, "<!DOCTYPE html>")),
                      MISTAKE(Load(labels, Idx({2, 1}, 2))),
                      MISTAKE(Load(labels, Idx({3}, 3))),
                      MISTAKE(Load(labels, Idx({2}, 0) + Bytes({0, 10}))),
                      {"a directory in the place of a file", directory},
                  });
}

TEST(DataErrors, Datasets) {
  const Tensor two = Tensor::Zeros({F32, {2, 3}}), three = Tensor::Zeros({I32, {3}});
  const Dataset dataset = Dataset::Create({{"image", two}, {"label", Tensor::Zeros({I32, {2}})}}).value();
  const auto shifted = [](int64_t rows) { return RowRange{1, rows + 1}; };
  ExpectErrors("dataset", {
                              MISTAKE(Dataset::Create({})),
                              MISTAKE(Dataset::Create({{"a", Tensor()}})),
                              MISTAKE(Dataset::Create({{"a", Tensor::Zeros({F32, {}})}})),
                              MISTAKE(Dataset::Create({{"a", two}, {"a", two}})),
                              MISTAKE(Dataset::Create({{"a", two}, {"b", three}})),
                              MISTAKE(dataset.column("lable")),
                              MISTAKE(dataset.column("weights")),
                              MISTAKE((*dataset.Batches({.batch_size = 2}).begin()).Get("imgae")),
                              MISTAKE(Batch().Get("x")),
                              MISTAKE(dataset.Batches({.batch_size = 0}).status()),
                              MISTAKE(dataset.Batches({.batch_size = INT64_MIN}).status()),
                              MISTAKE(dataset.Batches({.batch_size = 4, .lanes = 0}).status()),
                              MISTAKE(dataset.Batches({.batch_size = 4, .lanes = 3}).status()),
                              MISTAKE(dataset.Batches({.batch_size = 4, .first_batch = -1}).status()),
                              MISTAKE(dataset.Batches({.batch_size = 2, .rows = shifted}).status()),
                          });
}

// The error of a walk.
absl::Status Walk(const Dataset& dataset) {
  try {
    for ([[maybe_unused]] const Batch& batch : dataset.Batches({})) {
    }
  } catch (const absl::BadStatusOrAccess& error) {
    return error.status();
  }
  return absl::OkStatus();
}

TEST(DataErrors, DatasetsOfParts) {
  using Part = Dataset::Part;
  // A part of two examples whose loader gives these columns.
  const auto part = [](const Columns& columns) {
    return Part{2, [=]() -> absl::StatusOr<Columns> { return columns; }};
  };
  const Tensor image = Tensor::Zeros({F32, {2, 3}}), label = Tensor::Zeros({I32, {2}}),
               wide = Tensor::Zeros({F32, {2, 4}});
  const Part good = part({{"image", image}, {"label", label}});
  const Part failing{
      2, []() -> absl::StatusOr<Columns> { return ReadSafetensors("/none.safetensors").status(); }};
  const auto walk = [&](const Part& second) { return Walk(Dataset::FromParts({good, second}).value()); };
  ExpectErrors("dataset_parts", {
                                    MISTAKE(Dataset::FromParts({})),
                                    MISTAKE(Dataset::FromParts({good, {2}})),
                                    MISTAKE(Dataset::FromParts({good, {-1, good.load}})),
                                    MISTAKE(Dataset::FromParts({good, {int64_t{1} << 40, good.load}})),
                                    MISTAKE(Dataset::FromParts({{INT64_MAX, good.load}})),
                                    MISTAKE(walk(failing)),
                                    MISTAKE(Dataset::FromParts({failing})->column("image")),
                                    MISTAKE(Dataset::FromParts({good})->column("imgae")),
                                    MISTAKE(walk(part({}))),
                                    MISTAKE(walk(part({{"image", Tensor()}}))),
                                    MISTAKE(walk(part({{"image", image.Rows(0, 1)}}))),
                                    MISTAKE(walk(part({{"image", image}}))),
                                    MISTAKE(walk(part({{"label", label}, {"image", image}}))),
                                    MISTAKE(walk(part({{"image", wide}, {"label", label}}))),
                                    MISTAKE(walk(part({{"image", label}, {"label", label}}))),
                                });
}

// ---- NumPy's files.

TEST_F(FileErrors, NumpyArrays) {
  auto read = [&](const std::string& contents) { return ReadNpy(File("x.npy", contents)); };
  auto header = [&](std::string_view text) { return read(EncodeNpy(text)); };
  auto type = [&](std::string_view descriptor) {
    return header(fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': (2,), }}", descriptor));
  };
  auto shape = [&](std::string_view sizes) {
    return header(fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': {}, }}", sizes));
  };
  const std::string bools = "{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }",
                    u64 = "{'descr': '>u8', 'fortran_order': False, 'shape': (2,), }";
  Expect("npy", {
                    MISTAKE(ReadNpy(Path("none.npy"))),
                    MISTAKE(WriteNpy(Path("x.npy"), Tensor())),
                    MISTAKE(WriteNpy(Path("none/x.npy"), Tensor(1))),
                    MISTAKE(read("")),
                    MISTAKE(read("\x89PNG\r\n\x1a\n....")),
                    MISTAKE(read(std::string("\x93NUMPY\x04\x00\x00\x00\x00\x00", 12))),
                    MISTAKE(read(std::string("\x93NUMPY\x01", 7))),
                    MISTAKE(read(std::string("\x93NUMPY\x01\x00\x05\x00{}", 12))),
                    MISTAKE(read(std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff", 12))),
                    MISTAKE(header("")),
                    MISTAKE(header("{'descr' '<f4'}")),
                    MISTAKE(header("{descr: '<f4'}")),
                    MISTAKE(header("{'descr")),
                    MISTAKE(header("{'fortran_order': 0}")),
                    MISTAKE(header("{'shape': (), 'shape': ()}")),
                    MISTAKE(header("{'shape': (), 'shade': ()}")),
                    MISTAKE(header("{'descr': '<f4', 'shape': ()}")),
                    MISTAKE(header("{'descr': '<f4', 'fortran_order': False, 'shape': ()} \x01\xff")),
                    MISTAKE(header("{'descr': [('x', '<f4'), ('y', '<f4')], 'fortran_order': False}")),
                    MISTAKE(type("|O")),
                    MISTAKE(type("<U5")),
                    MISTAKE(type("<c8")),
                    MISTAKE(type("<M8[ns]")),
                    MISTAKE(type("|V2")),
                    MISTAKE(type("f4")),
                    MISTAKE(type("<f16")),
                    MISTAKE(type("")),
                    MISTAKE(shape("(2)")),
                    MISTAKE(shape("[2, 3]")),
                    MISTAKE(shape("(2, -3)")),
                    MISTAKE(shape("(2, 99999999999999999999)")),
                    MISTAKE(shape("(1099511627776, 1099511627776)")),
                    MISTAKE(shape("(2, 3)")),
                    MISTAKE(read(EncodeNpy(FloatHeader(1), "12345"))),
                    MISTAKE(read(EncodeNpy(bools, std::string("\0\1\2", 3)))),
                    MISTAKE(read(EncodeNpy(u64, std::string(8, '\0') + "\x80" + std::string(7, '\0')))),
                });
}

TEST_F(FileErrors, NumpyArchives) {
  const std::string array = EncodeNpy(FloatHeader(1), "1234");
  auto archive = [&](const std::vector<ZipBytes>& members, bool wide = false) {
    return ReadNpz(File("x.npz", EncodeZip(members, wide)));
  };
  // A deflated member after `change`.
  auto changed = [&](const std::function<void(ZipBytes&)>& change) {
    ZipBytes member = ZipBytes::Deflated("w.npy", array);
    change(member);
    return archive({member});
  };
  // The bytes of an archive of one member, with `bytes` written `offset` bytes behind the last `record`.
  auto patched = [&](std::string_view record, size_t offset, std::string_view bytes, bool wide = false) {
    std::string file = EncodeZip({ZipBytes::Stored("w.npy", array)}, wide);
    file.replace(file.find(record) + offset, bytes.size(), bytes);
    return ReadNpz(File("x.npz", file));
  };
  const ZipBytes w = ZipBytes::Stored("w.npy", array);
  const Tensor one(1.0f);
  Expect(
      "npz",
      {
          MISTAKE(ReadNpz(Path("none.npz"))),
          MISTAKE(WriteNpz(Path("x.npz"), {{"w", one}, {"w", one}})),
          MISTAKE(WriteNpz(Path("x.npz"), {{"w", Tensor()}})),
          MISTAKE(WriteNpz(Path("x.npz"), {{std::string(65001, 'n'), one}})),
          MISTAKE(WriteNpz(Path("x.npz"), {{std::string("a\0b", 3), one}})),
          MISTAKE(ReadNpz(File("x.npz", array))),
          MISTAKE(ReadNpz(File("x.npz", EncodeZip({w}).substr(0, 100)))),
          MISTAKE(archive({w, w})),
          MISTAKE(archive({ZipBytes::Stored("README\xff", "text")})),
          MISTAKE(archive({ZipBytes::Stored("w.npy", "text and text")})),
          MISTAKE(changed([](ZipBytes& m) { m.flags = 1; })),
          MISTAKE(changed([](ZipBytes& m) { m.method = 12; })),
          MISTAKE(changed([](ZipBytes& m) { m.size = 10'000'000; })),
          MISTAKE(ReadNpz(File("x.npz", EncodeZip({ZipBytes::Deflated("w.npy", array)})), {.max_bytes = 70})),
          MISTAKE(changed([](ZipBytes& m) { m.size -= 1; })),
          MISTAKE(changed([](ZipBytes& m) { m.size += 1; })),
          MISTAKE(changed([](ZipBytes& m) { m.packed.resize(20); })),
          MISTAKE(changed([](ZipBytes& m) { m.packed[0] = '\x07'; })),
          MISTAKE(changed([](ZipBytes& m) { m.crc ^= 1; })),
          MISTAKE(patched("PK\1\2", 0, "XX")),
          MISTAKE(patched("PK\1\2", 42, "\1")),
          MISTAKE(patched("PK\1\2", 42, "\xff\xff\xff\xff")),
          MISTAKE(patched("PK\5\6", 4, "\1")),
          MISTAKE(patched("PK\5\6", 10, "\xf0")),
          MISTAKE(patched("PK\6\6", 0, "XX", /*wide=*/true)),
          MISTAKE(patched("PK\6\7", 9, "\x7f", /*wide=*/true)),
          MISTAKE(patched("PK\3\4", 28, "\xff\xff")),
      });
}

// ---- Safetensors.

TEST_F(FileErrors, Safetensors) {
  const Tensor one = Tensor::Zeros({F32, {1}});
  auto read = [&](const std::string& contents) { return ReadSafetensors(File("f", contents)); };
  auto header = [&](std::string_view json) { return read(EncodeSafetensors(json)); };
  auto brackets = [](int n) { return std::string(n, '[') + std::string(n, ']'); };
  // Two tensors that lie at these bytes.
  auto pair = [&](int a_begin, int a_end, int b_begin, int b_end, size_t data) {
    auto entry = [](int begin, int end) {
      return fmt::format(R"({{"dtype":"F32","shape":[{}],"data_offsets":[{},{}]}})", (end - begin) / 4, begin,
                         end);
    };
    return read(
        EncodeSafetensors(fmt::format(R"({{"a":{},"b":{}}})", entry(a_begin, a_end), entry(b_begin, b_end)),
                          std::string(data, '\0')));
  };
  Expect("safetensors",
         {
             MISTAKE(WriteSafetensors(Path("f"), {{"w", one}, {"w", one}})),
             MISTAKE(WriteSafetensors(Path("f"), {{"__metadata__", one}})),
             MISTAKE(WriteSafetensors(Path("f"), {{"w", Tensor()}})),
             MISTAKE(WriteSafetensors(Path("f"), {{"w\xff", one}})),
             MISTAKE(WriteSafetensors(Path("f"), {{std::string(100'000'001, 'n'), one}})),
             MISTAKE(WriteSafetensors(Path("none/f"), {{"w", one}})),
             MISTAKE(WriteSafetensors(Path("f"), {{"w", one}}, {{"step\xff", "1"}})),
             MISTAKE(WriteSafetensors(Path("f"), {{"w", one}}, {{"step", "1\xff"}})),
             MISTAKE(WriteSafetensorsHashed(Path("none/f"), {{"w", one}})),
             MISTAKE(ReadSafetensors(Path("none"))),
             MISTAKE(ReadSafetensors(dir())),
             MISTAKE(read("")),
             MISTAKE(read("1")),
             MISTAKE(read("\x89PNG\r\n\x1a\n....")),
             MISTAKE(read(EncodeSafetensors(std::string(100, ' ')).substr(0, 50))),
             MISTAKE(header("")),
             MISTAKE(header(R"({"w":})")),
             MISTAKE(header("{\"w\xff\":1}")),
             MISTAKE(header("{} x")),
             MISTAKE(header(R"({"w":1e999})")),
             MISTAKE(header("[1,2]")),
             MISTAKE(header("null")),
             MISTAKE(header(R"({"w":)" + brackets(100000) + "}")),
             MISTAKE(header(R"({"w":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"w":{}})")),
             MISTAKE(header(R"({"w":{"dtype":"F32","dtype":"F64","shape":[0],"data_offsets":[0,0]}})")),
             MISTAKE(header(R"({"__metadata__":{"a":1}})")),
             MISTAKE(header(R"({"__metadata__":[]})")),
             MISTAKE(read(EncodeSafetensors("{}", "x"))),
             MISTAKE(pair(4, 8, 8, 16, 16)),
             MISTAKE(pair(0, 4, 8, 16, 16)),
             MISTAKE(pair(0, 12, 8, 16, 16)),
             MISTAKE(pair(0, 8, 8, 16, 15)),
             MISTAKE(pair(0, 8, 8, 16, 17)),
             MISTAKE(read(EncodeSafetensors(R"({"m":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]}})",
                                            std::string_view("\0\1\2", 3)))),
             // Wild claims cost nothing.
             MISTAKE(
                 header(R"({"w":{"dtype":"F32","shape":[1000000000000],"data_offsets":[0,4000000000000]}})")),
         });
}

TEST_F(FileErrors, SafetensorsEntries) {
  std::vector<Mistake> mistakes;
  for (
      std::string entry :
      {R"(3)",
       R"("a long text that would fill the terminal, were it shown as it is")",
       R"({"dtype":"F32","shape":[4]})",
       R"({"shape":[4],"data_offsets":[0,16]})",
       R"({"dtype":"F32","data_offsets":[0,16]})",
       R"({"dtype":"U64","shape":[2],"data_offsets":[0,16]})",
       R"({"dtype":"F8_E4M3","shape":[16],"data_offsets":[0,16]})",
       R"({"dtype":"f32","shape":[8],"data_offsets":[0,16]})",
       R"({"dtype":32,"shape":[4],"data_offsets":[0,16]})",
       R"({"dtype":"F32","shape":4,"data_offsets":[0,16]})",
       R"({"dtype":"F32","shape":[-4],"data_offsets":[0,16]})",
       R"({"dtype":"F32","shape":[4.0],"data_offsets":[0,16]})",
       R"({"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,16]})",
       R"({"dtype":"F32","shape":[4],"data_offsets":[0,8,16]})",
       R"({"dtype":"F32","shape":[4],"data_offsets":[16,0]})",
       R"({"dtype":"F32","shape":[4],"data_offsets":[0,-16]})",
       R"({"dtype":"F32","shape":[4],"data_offsets":{}})",
       R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,16]})",
       R"({"dtype":"F64","shape":[3],"data_offsets":[0,16]})",
       R"({"dtype":"F16","shape":[4],"data_offsets":[0,16]})",
       R"({"dtype":"BOOL","shape":[1],"data_offsets":[0,16]})",
       R"({"dtype":"F32","shape":[0,1099511627777],"data_offsets":[0,0]})",
       R"({"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,4],"data_offsets":[0,16]})"})
    mistakes.push_back(
        {entry, [=, this] {
           return ReadSafetensors(
               File("f", EncodeSafetensors(fmt::format("{{\"w\":{}}}", entry), std::string(16, '\0'))));
         }});
  Expect("safetensors_entries", mistakes);
}

TEST_F(FileErrors, SafetensorsConversions) {
  ASSERT_TRUE(
      WriteSafetensors(Path("f"), {{"w", Tensor::Zeros({F64, {2}})}, {"n", Tensor::Zeros({I32, {1}})}}).ok());
  const auto as = [&](const std::string& name, DType dtype) {
    return ReadSafetensors(Path("f"), {.as = {{name, dtype}}});
  };
  Expect("safetensors_conversions", {
                                        MISTAKE(as("w", F32)),
                                        MISTAKE(as("w", I64)),
                                        MISTAKE(as("n", F64)),
                                        MISTAKE(as("n", BOOL)),
                                        MISTAKE(as("weights", F64)),
                                        MISTAKE(as("W", F64)),
                                    });
}

TEST_F(FileErrors, SafetensorsBoxes) {
  File("f", EncodeSafetensors(R"({"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
                              R"("m":{"dtype":"BOOL","shape":[2,3],"data_offsets":[24,30]}})",
                              std::string(28, '\0') + "\7" + '\0'));
  const SafetensorsFile file = SafetensorsFile::Open(Path("f")).value();
  const SafetensorsEntry &w = *file.Find("w"), &m = *file.Find("m");
  std::byte data[24];
  const BoxBuffer whole = BoxBuffer::Whole({2, 3});
  const Block all = WholeBlock({2, 3});
  Expect("safetensors_boxes", {
                                  MISTAKE(SafetensorsFile::Open(Path("none")).status()),
                                  MISTAKE(file.ReadBox(w, {{0, 2}}, whole, data)),
                                  MISTAKE(file.ReadBox(w, {{0, 2}, {1, 3}}, whole, data)),
                                  MISTAKE(file.ReadBox(w, {{-1, 2}, {0, 3}}, whole, data)),
                                  MISTAKE(file.ReadBox(w, {{0, -1}, {0, 3}}, whole, data)),
                                  MISTAKE(file.ReadBox(w, {{INT64_MAX, 2}, {0, 3}}, whole, data)),
                                  MISTAKE(file.ReadBox(w, all, {{1, 0}, {2, 3}}, data)),
                                  MISTAKE(file.ReadBox(w, all, {{0, 0}, {2, 2}}, data)),
                                  MISTAKE(file.ReadBox(w, all, {{0}, {6}}, data)),
                                  MISTAKE(file.ReadBox(m, {{1, 1}, {1, 1}}, whole, data)),
                                  MISTAKE(file.Read(m)),
                              });
}

}  // namespace
}  // namespace meshwork::files_test
