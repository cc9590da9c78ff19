#include "meshwork/storage/safetensors_file.h"

#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/safetensors_bytes.h"
#include "support/temp_dir.h"

namespace meshwork::safetensors_file_test {
namespace {

using SafetensorsFileTest = TempDirTest;

// Elements that are all different.
Tensor Counted(const Shape& shape) {
  Tensor tensor(Type{F32, shape});
  for (int64_t i = 0; i < tensor.num_elements(); ++i)
    tensor.mutable_values<float>()[static_cast<size_t>(i)] = static_cast<float>(i) + 0.5f;
  return tensor;
}

TEST_F(SafetensorsFileTest, TellsWhatAFileHolds) {
  ASSERT_TRUE(
      WriteSafetensors(Path("f"), {{"m", BoolTensor({1, 0})}, {"w", Counted({2, 3})}}, {{"step", "12"}})
          .ok());
  const SafetensorsFile file = SafetensorsFile::Open(Path("f")).value();
  EXPECT_EQ(file.path(), Path("f"));
  EXPECT_EQ(file.metadata(), (SafetensorsMetadata{{"step", "12"}}));
  ASSERT_EQ(file.entries().size(), 2u);
  EXPECT_EQ(file.entries()[0].name, "m");
  EXPECT_EQ(file.Find("w"), &file.entries()[1]);
  EXPECT_EQ(file.Find("v"), nullptr);
  EXPECT_EQ(file.Find("__metadata__"), nullptr);
  const SafetensorsEntry& w = *file.Find("w");
  EXPECT_EQ(w.type.ToString(), "f32[2,3]");
  EXPECT_EQ(w.stored, StoredType::kF32);
  EXPECT_EQ(w.end - w.begin, 24);
  EXPECT_EQ(file.bytes_read(), 0);
}

TEST_F(SafetensorsFileTest, ReadsTensorsAndGoesOnAfterAMove) {
  ASSERT_TRUE(WriteSafetensors(Path("f"), {{"m", BoolTensor({1, 0})}, {"w", Counted({2, 3})}}).ok());
  SafetensorsFile opened = SafetensorsFile::Open(Path("f")).value();
  const SafetensorsEntry* w = opened.Find("w");
  EXPECT_EQ(RawBytes(opened.Read(*w).value()), RawBytes(Counted({2, 3})));
  const SafetensorsFile file = std::move(opened);
  EXPECT_EQ(file.Find("w"), w);
  EXPECT_EQ(RawBytes(file.Read(*file.Find("m")).value()), RawBytes(BoolTensor({1, 0})));
  EXPECT_EQ(file.bytes_read(), 26);
}

// An open file is read to its end, even if it is replaced.
TEST_F(SafetensorsFileTest, ReadsTheFileThatItOpened) {
  ASSERT_TRUE(WriteSafetensors(Path("f"), {{"w", Counted({2, 3})}}).ok());
  const SafetensorsFile file = SafetensorsFile::Open(Path("f")).value();
  ASSERT_TRUE(WriteSafetensors(Path("f"), {{"v", Counted({1})}}).ok());
  EXPECT_EQ(RawBytes(file.Read(*file.Find("w")).value()), RawBytes(Counted({2, 3})));
}

// A random block of at most `size` elements.
Extent DrawExtent(std::mt19937_64& engine, int64_t size) {
  const auto start = static_cast<int64_t>(engine() % static_cast<uint64_t>(size + 1));
  return {start, static_cast<int64_t>(engine() % static_cast<uint64_t>(size - start + 1))};
}

// A box of a tensor, and a buffer that holds it with some elements around it.
struct BoxCase {
  Shape shape;
  Block box;
  BoxBuffer buffer;
};

BoxCase DrawBoxCase(std::mt19937_64& engine) {
  BoxCase drawn;
  for (uint64_t d = engine() % 5; d > 0; --d) {
    const auto size = static_cast<int64_t>(engine() % 6);
    const Extent extent = engine() % 3 == 0 ? Extent{0, size} : DrawExtent(engine, size);
    const int64_t before = std::min<int64_t>(static_cast<int64_t>(engine() % 2), extent.start);
    drawn.shape.push_back(size);
    drawn.box.push_back(extent);
    drawn.buffer.start.push_back(extent.start - before);
    // It may reach beyond the tensor, as the block of a device does.
    drawn.buffer.shape.push_back(before + extent.size + static_cast<int64_t>(engine() % 3));
  }
  return drawn;
}

// The expected `buffer`: zeros, with `box` of a Counted tensor copied in, element by element.
std::vector<double> ExpectedBuffer(const BoxCase& c) {
  std::vector<double> expected;
  const int64_t elements = NumElements(c.buffer.shape);
  for (int64_t i = 0; i < elements; ++i) {
    int64_t rest = i, flat = 0, stride = 1;
    bool is_inside = true;
    for (size_t d = c.shape.size(); d-- > 0;) {
      const int64_t index = c.buffer.start[d] + rest % c.buffer.shape[d];
      rest /= c.buffer.shape[d];
      is_inside = is_inside && index >= c.box[d].start && index < c.box[d].start + c.box[d].size;
      flat += index * stride;
      stride *= c.shape[d];
    }
    expected.push_back(is_inside ? static_cast<double>(flat) + 0.5 : 0);
  }
  return expected;
}

TEST_F(SafetensorsFileTest, ReadsBoxesIntoBuffers) {
  std::mt19937_64 engine(1);
  for (int i = 0; i < 500; ++i) {
    const BoxCase c = DrawBoxCase(engine);
    ASSERT_TRUE(WriteSafetensors(Path("f"), {{"before", Counted({1})}, {"w", Counted(c.shape)}}).ok());
    const SafetensorsFile file = SafetensorsFile::Open(Path("f")).value();
    const std::string what = fmt::format("{} of {}", BlockToString(c.box), ShapeToString(c.shape));
    const std::vector<double> expected = ExpectedBuffer(c);

    std::vector<float> floats(expected.size());
    auto* data = reinterpret_cast<std::byte*>(floats.data());
    ASSERT_EQ(file.ReadBox(*file.Find("w"), c.box, c.buffer, data), absl::OkStatus()) << what;
    EXPECT_EQ(std::vector<double>(floats.begin(), floats.end()), expected) << what;
    EXPECT_EQ(file.bytes_read(), 4 * NumElements(c.box)) << what;

    std::vector<double> doubles(expected.size());
    data = reinterpret_cast<std::byte*>(doubles.data());
    const SafetensorsEntry as = file.As(*file.Find("w"), F64).value();
    ASSERT_EQ(file.ReadBox(as, c.box, c.buffer, data), absl::OkStatus()) << what;
    EXPECT_EQ(doubles, expected) << what;
    EXPECT_EQ(file.bytes_read(), 8 * NumElements(c.box)) << what;
  }
}

// The box fills several internal buffers, whose ends lie within runs.
TEST_F(SafetensorsFileTest, ReadsLargeBoxesInSeveralPieces) {
  const Shape shape = {1500, 701};
  ASSERT_TRUE(WriteSafetensors(Path("f"), {{"w", Counted(shape)}}).ok());
  const SafetensorsFile file = SafetensorsFile::Open(Path("f")).value();
  for (const Block& box : {Block{{3, 1490}, {0, 701}}, Block{{3, 1490}, {1, 699}}}) {
    const BoxCase c{shape, box, {{3, 0}, {1490, 703}}};
    const std::vector<double> expected = ExpectedBuffer(c);
    std::vector<float> floats(expected.size());
    ASSERT_TRUE(
        file.ReadBox(*file.Find("w"), c.box, c.buffer, reinterpret_cast<std::byte*>(floats.data())).ok());
    EXPECT_TRUE(std::equal(floats.begin(), floats.end(), expected.begin()));
    std::vector<double> doubles(expected.size());
    const SafetensorsEntry as = file.As(*file.Find("w"), F64).value();
    ASSERT_TRUE(file.ReadBox(as, c.box, c.buffer, reinterpret_cast<std::byte*>(doubles.data())).ok());
    EXPECT_EQ(doubles, expected);
  }
}

// A block of a strided layout is a box of the tensor with its dims cut into factors.
TEST_F(SafetensorsFileTest, ReadsBoxesOfATensorInAnotherShape) {
  ASSERT_TRUE(WriteSafetensors(Path("f"), {{"w", Counted({16})}}).ok());
  const SafetensorsFile file = SafetensorsFile::Open(Path("f")).value();
  SafetensorsEntry entry = *file.Find("w");
  entry.type.shape = {8, 2};
  std::vector<float> odd(8);
  const Block box = {{0, 8}, {1, 1}};
  ASSERT_TRUE(file.ReadBox(entry, box, {{0, 1}, {8, 1}}, reinterpret_cast<std::byte*>(odd.data())).ok());
  EXPECT_EQ(odd, (std::vector<float>{1.5, 3.5, 5.5, 7.5, 9.5, 11.5, 13.5, 15.5}));
  EXPECT_EQ(file.bytes_read(), 32);
}

TEST_F(SafetensorsFileTest, ChecksTheBoolsThatItReadsAndNoOthers) {
  File("f", EncodeSafetensors(R"({"m":{"dtype":"BOOL","shape":[2,3],"data_offsets":[0,6]}})",
                              std::string_view("\1\0\1\0\2\1", 6)));
  const SafetensorsFile file = SafetensorsFile::Open(Path("f")).value();
  const SafetensorsEntry& m = *file.Find("m");
  std::vector<std::byte> row(3);
  EXPECT_TRUE(file.ReadBox(m, {{0, 1}, {0, 3}}, {{0, 0}, {1, 3}}, row.data()).ok());
  EXPECT_EQ(row, (std::vector<std::byte>{std::byte{1}, std::byte{0}, std::byte{1}}));
  EXPECT_FALSE(file.ReadBox(m, {{1, 1}, {0, 3}}, {{1, 0}, {1, 3}}, row.data()).ok());
  EXPECT_FALSE(file.Read(m).ok());
}

TEST_F(SafetensorsFileTest, AFileThatWasCutAfterItWasOpenedIsAnError) {
  ASSERT_TRUE(WriteSafetensors(Path("f"), {{"w", Counted({2, 3})}}).ok());
  const SafetensorsFile file = SafetensorsFile::Open(Path("f")).value();
  std::filesystem::resize_file(Path("f"), std::filesystem::file_size(Path("f")) - 1);
  EXPECT_FALSE(file.Read(*file.Find("w")).ok());
  std::vector<float> row(3);
  EXPECT_TRUE(file.ReadBox(*file.Find("w"), {{0, 1}, {0, 3}}, {{0, 0}, {1, 3}},
                           reinterpret_cast<std::byte*>(row.data()))
                  .ok());
}

TEST_F(SafetensorsFileTest, CountsWhatAllThreadsRead) {
  ASSERT_TRUE(WriteSafetensors(Path("f"), {{"w", Counted({64, 8})}}).ok());
  const SafetensorsFile file = SafetensorsFile::Open(Path("f")).value();
  std::vector<float> columns(64 * 8);
  std::vector<std::thread> threads;
  for (int64_t t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      auto* data = reinterpret_cast<std::byte*>(columns.data() + t * 64);
      EXPECT_TRUE(file.ReadBox(*file.Find("w"), {{0, 64}, {t, 1}}, {{0, t}, {64, 1}}, data).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(file.bytes_read(), 64 * 8 * 4);
  for (size_t i = 0; i < columns.size(); ++i) {
    const size_t row = i % 64, column = i / 64;
    EXPECT_EQ(columns[i], static_cast<float>(row * 8 + column) + 0.5f);
  }
}

}  // namespace
}  // namespace meshwork::safetensors_file_test
