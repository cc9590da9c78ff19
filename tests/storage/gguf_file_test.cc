#include "meshwork/storage/gguf_file.h"

#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "support/gguf_bytes.h"
#include "support/temp_dir.h"

namespace meshwork::gguf_file_test {
namespace {

using ::testing::ElementsAre;

using GgufFileTest = TempDirTest;

constexpr GgmlType kTypes[] = {GgmlType::kF32,  GgmlType::kF16,  GgmlType::kBF16,
                               GgmlType::kQ4_0, GgmlType::kQ4_1, GgmlType::kQ8_0};

// Random bytes of elements, all of them finite numbers.
std::string DrawElements(std::mt19937_64& engine, GgmlType type, int64_t elements) {
  const GgmlForm form = FormOf(type).value();
  std::string bytes;
  for (int64_t b = 0; b < elements / form.block; ++b) {
    std::string block;
    for (int64_t i = 0; i < form.bytes; ++i) block += static_cast<char>(engine());
    // The exponents of scales, and of numbers, must not be all ones.
    const bool is_wide = type == GgmlType::kF32;
    block[is_wide ? 3 : 1] = static_cast<char>(block[is_wide ? 3 : 1] & 0xbb);
    if (type == GgmlType::kQ4_1) block[3] = static_cast<char>(block[3] & 0xbb);
    bytes += block;
  }
  return bytes;
}

std::vector<double> Doubles(const Tensor& tensor) {
  const Tensor wide = tensor.Cast(F64);
  return {wide.values<double>().begin(), wide.values<double>().end()};
}

// What a tensor of these bytes is read as: f32 for quantised types, rounded once; the others are not rounded.
std::vector<double> ExpectedNumbers(GgmlType type, std::string_view bytes) {
  std::vector<double> numbers = GgmlNumbers(type, bytes);
  for (double& number : numbers) number = static_cast<float>(number);
  return numbers;
}

// A tensor of each type, of a shape that all of them can have.
std::vector<GgufTensorBytes> OneOfEach(std::mt19937_64& engine) {
  std::vector<GgufTensorBytes> tensors;
  for (GgmlType type : kTypes) {
    tensors.push_back({.name = "w." + GgmlTypeName(type),
                       .shape = {3, 2, 64},
                       .type = type,
                       .data = DrawElements(engine, type, 3 * 2 * 64)});
  }
  return tensors;
}

TEST_F(GgufFileTest, TellsWhatAFileHolds) {
  std::mt19937_64 engine(1);
  File("f",
       EncodeGguf(
           {GgufKey("general.name", "tiny")},
           {{.name = "scalar", .shape = {}, .data = NumberBytes(1.5f)},
            {.name = "w", .shape = {2, 3, 64}, .type = GgmlType::kQ4_1, .data = std::string(240, '\1')},
            {.name = "later", .shape = {2, 256}, .type = GgmlType{14}, .data = std::string(420, '\1')}}));
  const GgufFile file = GgufFile::Open(Path("f")).value();
  EXPECT_EQ(file.path(), Path("f"));
  ASSERT_EQ(file.entries().size(), 3u);
  EXPECT_EQ(file.entries()[0].name, "scalar");
  EXPECT_EQ(file.entries()[0].type.ToString(), "f32[]");
  const GgufEntry& w = *file.Find("w");
  EXPECT_EQ(&w, &file.entries()[1]);
  EXPECT_EQ(w.type.ToString(), "f32[2,3,64]");
  EXPECT_EQ(w.stored, GgmlType::kQ4_1);
  EXPECT_EQ(w.begin, 32);
  EXPECT_EQ(w.end, 32 + 240);
  EXPECT_EQ(file.Find("v"), nullptr);
  EXPECT_EQ(file.FindMetadata("general.nam"), nullptr);
  EXPECT_EQ(std::get<std::string>(*file.FindMetadata("general.name")), "tiny");
  EXPECT_EQ(file.Read(*file.Find("scalar"))->Scalar().value(), 1.5);

  // A type that is not read does not disturb the others.
  const GgufEntry& later = *file.Find("later");
  EXPECT_EQ(GgmlTypeName(later.stored), "Q6_K");
  EXPECT_EQ(later.type.ToString(), "f32[2,256]");
  EXPECT_TRUE(file.Read(w).ok());
  EXPECT_FALSE(file.Read(later).ok());
  EXPECT_FALSE(file.ReadRows(later, 0, 1).ok());
}

TEST_F(GgufFileTest, ReadsMetadataOfAllTypes) {
  const std::string nested = NumberBytes(uint32_t{9}) + NumberBytes(uint64_t{2}) +
                             GgufArrayBytes(std::vector<int32_t>{1, -2}) +
                             GgufArrayBytes(std::vector<std::string>{"a"});
  File("f", EncodeGguf({GgufKey("u8", uint8_t{200}),
                        GgufKey("i8", int8_t{-3}),
                        GgufKey("u16", uint16_t{60000}),
                        GgufKey("i16", int16_t{-300}),
                        GgufKey("u32", uint32_t{4000000000}),
                        GgufKey("i32", int32_t{-70000}),
                        GgufKey("u64", UINT64_MAX),
                        GgufKey("i64", INT64_MIN),
                        GgufKey("f32", 0.1f),
                        GgufKey("f64", 0.1),
                        GgufKey("yes", true),
                        GgufKey("no", false),
                        GgufKey("text", "\xff"),
                        GgufKey("u8s", std::vector<uint8_t>{1, 255}),
                        GgufKey("u64s", std::vector<uint64_t>{1, UINT64_MAX}),
                        GgufKey("f32s", std::vector<float>{0.5f}),
                        GgufKey("f64s", std::vector<double>{0.1}),
                        GgufKey("bools", std::vector<bool>{true, false}),
                        GgufKey("texts", std::vector<std::string>{"", "b c"}),
                        GgufRawKey("nested", 9, nested)}));
  const GgufFile file = GgufFile::Open(Path("f")).value();
  const auto whole = [&](const char* key) { return WholeNumber(*file.FindMetadata(key)); };
  EXPECT_EQ(whole("u8"), 200);
  EXPECT_EQ(whole("i8"), -3);
  EXPECT_EQ(whole("u16"), 60000);
  EXPECT_EQ(whole("i16"), -300);
  EXPECT_EQ(whole("u32"), 4000000000);
  EXPECT_EQ(whole("i32"), -70000);
  EXPECT_EQ(whole("u64"), std::nullopt);
  EXPECT_EQ(std::get<uint64_t>(*file.FindMetadata("u64")), UINT64_MAX);
  EXPECT_EQ(whole("i64"), INT64_MIN);
  EXPECT_EQ(whole("f32"), std::nullopt);
  EXPECT_EQ(std::get<float>(*file.FindMetadata("f32")), 0.1f);
  EXPECT_EQ(std::get<double>(*file.FindMetadata("f64")), 0.1);
  EXPECT_TRUE(std::get<bool>(*file.FindMetadata("yes")));
  EXPECT_FALSE(std::get<bool>(*file.FindMetadata("no")));
  EXPECT_EQ(std::get<std::string>(*file.FindMetadata("text")), "\xff");
  const auto items = [&](const char* key) { return std::get<GgufArray>(*file.FindMetadata(key)).items; };
  EXPECT_THAT(std::get<std::vector<int64_t>>(items("u8s")), ElementsAre(1, 255));
  EXPECT_THAT(std::get<std::vector<uint64_t>>(items("u64s")), ElementsAre(1, UINT64_MAX));
  EXPECT_THAT(std::get<std::vector<float>>(items("f32s")), ElementsAre(0.5f));
  EXPECT_THAT(std::get<std::vector<double>>(items("f64s")), ElementsAre(0.1));
  EXPECT_THAT(std::get<std::vector<bool>>(items("bools")), ElementsAre(true, false));
  EXPECT_THAT(std::get<std::vector<std::string>>(items("texts")), ElementsAre("", "b c"));
  const auto arrays = std::get<std::vector<GgufArray>>(items("nested"));
  ASSERT_EQ(arrays.size(), 2u);
  EXPECT_THAT(std::get<std::vector<int64_t>>(arrays[0].items), ElementsAre(1, -2));
  EXPECT_THAT(std::get<std::vector<std::string>>(arrays[1].items), ElementsAre("a"));
  EXPECT_EQ(file.metadata().size(), 20u);
  EXPECT_EQ(file.metadata()[1].first, "i8");
}

TEST_F(GgufFileTest, ReadsLongArraysOfTexts) {
  std::vector<std::string> tokens;
  for (int i = 0; i < 200000; ++i) tokens.push_back(fmt::format("token {}", i));
  File("f", EncodeGguf({GgufKey("tokens", tokens)}));
  const GgufFile file = GgufFile::Open(Path("f")).value();
  EXPECT_EQ(std::get<std::vector<std::string>>(std::get<GgufArray>(*file.FindMetadata("tokens")).items),
            tokens);
}

TEST_F(GgufFileTest, ReadsElementsOfAllTypes) {
  std::mt19937_64 engine(2);
  for (uint32_t version : {2, 3}) {
    for (uint32_t alignment : {8, 32, 4096}) {
      const std::vector<GgufTensorBytes> tensors = OneOfEach(engine);
      File("f", EncodeGguf({GgufKey("general.alignment", alignment)}, tensors,
                           {.version = version, .alignment = alignment}));
      const GgufFile file = GgufFile::Open(Path("f")).value();
      for (const GgufTensorBytes& tensor : tensors)
        EXPECT_EQ(Doubles(file.Read(*file.Find(tensor.name)).value()),
                  ExpectedNumbers(tensor.type, tensor.data))
            << tensor.name;
    }
  }
}

TEST_F(GgufFileTest, ReadsElementsAsOtherDtypes) {
  std::mt19937_64 engine(3);
  const std::vector<GgufTensorBytes> tensors = OneOfEach(engine);
  File("f", EncodeGguf({}, tensors));
  const GgufFile file = GgufFile::Open(Path("f")).value();
  EXPECT_EQ(file.Find("w.F16")->type.dtype, F16);
  EXPECT_EQ(file.Find("w.BF16")->type.dtype, BF16);
  for (const GgufTensorBytes& tensor : tensors) {
    const GgufEntry as = file.As(*file.Find(tensor.name), F64).value();
    const Tensor read = file.Read(as).value();
    EXPECT_EQ(read.type().ToString(), "f64[3,2,64]");
    EXPECT_EQ(Doubles(read), ExpectedNumbers(tensor.type, tensor.data)) << tensor.name;
    EXPECT_EQ(Doubles(file.ReadRows(as, 1, 1).value()), Doubles(read.Rows(1, 2))) << tensor.name;
  }
  const Tensor narrow = file.Read(file.As(*file.Find("w.F16"), BF16).value()).value();
  EXPECT_EQ(Doubles(narrow), Doubles(file.Read(*file.Find("w.F16"))->Cast(BF16)));
  EXPECT_FALSE(file.As(*file.Find("w.Q4_0"), F16).ok());
  EXPECT_FALSE(file.As(*file.Find("w.F32"), I32).ok());
}

// Rows of a tensor with one dim are elements, which begin and end within blocks.
TEST_F(GgufFileTest, ReadsRowsAlone) {
  std::mt19937_64 engine(4);
  std::vector<GgufTensorBytes> tensors = OneOfEach(engine);
  for (GgmlType type : kTypes)
    tensors.push_back({.name = "v." + GgmlTypeName(type),
                       .shape = {96},
                       .type = type,
                       .data = DrawElements(engine, type, 96)});
  File("f", EncodeGguf({}, tensors));
  const GgufFile file = GgufFile::Open(Path("f")).value();
  for (const GgufEntry& entry : file.entries()) {
    const Tensor all = file.Read(entry).value();
    const int64_t rows = entry.type.shape[0];
    for (int64_t begin = 0; begin <= rows; ++begin) {
      for (int64_t count = 0; begin + count <= rows; ++count) {
        const Tensor read = file.ReadRows(entry, begin, count).value();
        const Tensor expected = all.Rows(begin, begin + count);
        ASSERT_EQ(read.type(), expected.type()) << entry.name;
        ASSERT_EQ(Doubles(read), Doubles(expected)) << entry.name << " " << begin << " " << count;
      }
    }
  }
}

// What blocks that lie apart stand for, as MatMulQ says it.
std::vector<double> NumbersOf(const QuantizedMatrix& w) {
  const std::vector<double> scales = Doubles(w.scale), bytes = Doubles(w.q);
  const std::vector<double> zeros =
      w.zero.valid() ? Doubles(w.zero) : std::vector<double>(scales.size(), 0.0);
  const bool is_8_bits = w.q.dtype() == I8;
  std::vector<double> numbers;
  for (size_t b = 0; b < scales.size(); ++b) {
    for (size_t i = 0; i < 32; ++i) {
      const double byte = bytes[is_8_bits ? 32 * b + i : 16 * b + i % 16];
      const double q = is_8_bits ? byte : i < 16 ? std::fmod(byte, 16) : std::floor(byte / 16);
      numbers.push_back(static_cast<float>(scales[b] * q + zeros[b]));
    }
  }
  return numbers;
}

TEST_F(GgufFileTest, ReadsBlocksAsTheyAre) {
  std::mt19937_64 engine(6);
  for (const GgmlType type : {GgmlType::kQ4_0, GgmlType::kQ4_1, GgmlType::kQ8_0}) {
    SCOPED_TRACE(GgmlTypeName(type));
    // More than the buffer that blocks pass through.
    const std::vector<uint64_t> shape = {3, 700, 1024};
    const std::string bytes = DrawElements(engine, type, 3 * 700 * 1024);
    File("f", EncodeGguf({}, {{.name = "first", .shape = {}, .data = NumberBytes(1.5f)},
                              {.name = "w", .shape = shape, .type = type, .data = bytes},
                              {.name = "empty", .shape = {0, 32}, .type = type}}));
    const GgufFile file = GgufFile::Open(Path("f")).value();
    const QuantizedMatrix w = file.ReadBlocks(*file.Find("w")).value();
    EXPECT_EQ(w.q.type().ToString(), type == GgmlType::kQ8_0 ? "i8[3,700,32,32]" : "u8[3,700,32,16]");
    EXPECT_EQ(w.scale.type().ToString(), "f16[3,700,32]");
    EXPECT_EQ(w.zero.valid(), type != GgmlType::kQ8_0);
    EXPECT_EQ(NumbersOf(w), ExpectedNumbers(type, bytes));
    EXPECT_EQ(file.ReadBlocks(*file.Find("empty"))->scale.type().ToString(), "f16[0,1]");
  }
}

// More elements than a buffer holds, whose ends lie within blocks.
TEST_F(GgufFileTest, ReadsLargeTensorsInSeveralPieces) {
  std::mt19937_64 engine(5);
  constexpr int64_t kPart = 32 * 71, kElements = 1000 * kPart;
  for (GgmlType type : kTypes) {
    const std::string part = DrawElements(engine, type, kPart);
    std::string data;
    while (std::ssize(data) < 1000 * std::ssize(part)) data += part;
    File("f", EncodeGguf({}, {{.name = "w", .shape = {kElements}, .type = type, .data = data}}));
    const GgufFile file = GgufFile::Open(Path("f")).value();
    const GgufEntry as = file.As(*file.Find("w"), F64).value();
    const std::vector<double> expected = ExpectedNumbers(type, data);
    const std::vector<double> read = Doubles(file.ReadRows(as, 5, kElements - 12).value());
    EXPECT_TRUE(std::equal(read.begin(), read.end(), expected.begin() + 5)) << GgmlTypeName(type);
    EXPECT_TRUE(Doubles(file.Read(as).value()) == expected) << GgmlTypeName(type);
  }
}

TEST_F(GgufFileTest, ReadsEmptyTensorsAndFilesWithoutAny) {
  File("f", EncodeGguf({}, {{.name = "a", .shape = {0, 32}, .type = GgmlType::kQ8_0},
                            {.name = "b", .shape = {4, 0}, .type = GgmlType::kF16}}));
  const GgufFile file = GgufFile::Open(Path("f")).value();
  for (const GgufEntry& entry : file.entries()) EXPECT_EQ(file.Read(entry)->num_elements(), 0);
  EXPECT_EQ(file.ReadRows(*file.Find("b"), 1, 2)->type().ToString(), "f16[2,0]");
  // A vocabulary alone need not be padded.
  const std::string alone = EncodeGguf({GgufKey("k", uint8_t{1})});
  File("g", alone.substr(0, 24 + 8 + 1 + 4 + 1));
  EXPECT_EQ(GgufFile::Open(Path("g"))->metadata().size(), 1u);
}

TEST_F(GgufFileTest, GoesOnAfterAMoveAndRefusesAFileThatWasCut) {
  std::mt19937_64 engine(6);
  const std::string data = DrawElements(engine, GgmlType::kQ4_0, 64);
  File("f", EncodeGguf({GgufKey("k", "v")},
                       {{.name = "w", .shape = {2, 32}, .type = GgmlType::kQ4_0, .data = data}}));
  GgufFile opened = GgufFile::Open(Path("f")).value();
  const GgufEntry* w = opened.Find("w");
  const GgufValue* k = opened.FindMetadata("k");
  const GgufFile file = std::move(opened);
  EXPECT_EQ(file.Find("w"), w);
  EXPECT_EQ(file.FindMetadata("k"), k);
  EXPECT_EQ(Doubles(file.Read(*w).value()), ExpectedNumbers(GgmlType::kQ4_0, data));
  std::filesystem::resize_file(Path("f"), std::filesystem::file_size(Path("f")) - 1);
  EXPECT_FALSE(file.Read(*w).ok());
  EXPECT_TRUE(file.ReadRows(*w, 0, 1).ok());
  EXPECT_FALSE(file.ReadRows(*w, 1, 1).ok());
}

// ---- Damage.

struct Sound {
  std::string bytes;
  std::vector<GgufTensorBytes> tensors;
  size_t data = 0;  // where the tensors begin
};

Sound SoundFile() {
  std::mt19937_64 engine(7);
  Sound sound{.bytes = {}, .tensors = OneOfEach(engine)};
  const std::vector<std::string> keys = {GgufKey("general.alignment", uint32_t{32}),
                                         GgufKey("general.name", "tiny"),
                                         GgufKey("tokens", std::vector<std::string>{"a", "bc", ""}),
                                         GgufKey("rates", std::vector<float>{1, 2}), GgufKey("flag", true)};
  sound.bytes = EncodeGguf(keys, sound.tensors);
  size_t data = 0;
  for (const GgufTensorBytes& tensor : sound.tensors) data = (data + 31) / 32 * 32 + tensor.data.size();
  sound.data = sound.bytes.size() - data;
  return sound;
}

// Changes some bytes, cuts the file, or takes some out.
std::string Damaged(std::mt19937_64& engine, std::string bytes, size_t header) {
  const auto draw = [&](size_t below) { return static_cast<size_t>(engine() % below); };
  switch (draw(4)) {
    case 0:
      for (size_t n = 1 + draw(3); n > 0; --n) bytes[draw(header)] = static_cast<char>(engine());
      break;
    case 1: bytes[draw(header)] = static_cast<char>(draw(2) == 0 ? 0xff : 0x80); break;
    case 2: bytes.resize(draw(bytes.size())); break;
    default: bytes.erase(draw(header), 1 + draw(12)); break;
  }
  return bytes;
}

TEST_F(GgufFileTest, RefusesADamagedHeaderOrReadsWhatItSays) {
  const Sound sound = SoundFile();
  ASSERT_TRUE(GgufFile::Open(File("f", sound.bytes)).ok());
  std::mt19937_64 engine(8);
  int opened = 0;
  for (int i = 0; i < 700; ++i) {
    const std::string bytes = Damaged(engine, sound.bytes, sound.data);
    const absl::StatusOr<GgufFile> file = GgufFile::Open(File("f", bytes));
    if (!file.ok()) {
      EXPECT_TRUE(MessageOf(file.status()).starts_with(Path("f") + ": ")) << file.status();
      continue;
    }
    ++opened;
    for (const GgufEntry& entry : file->entries()) {
      const absl::StatusOr<Tensor> read = file->Read(entry);
      EXPECT_EQ(read.ok(), FormOf(entry.stored).has_value()) << read.status();
      if (read.ok()) {
        EXPECT_EQ(read->type(), entry.type);
      }
    }
  }
  EXPECT_GT(opened, 20);  // texts of metadata may be anything
}

// Every prefix of a file, but for one that lacks the end of a tensor's padding, lacks something.
TEST_F(GgufFileTest, RefusesEveryFileThatIsCut) {
  const Sound sound = SoundFile();
  for (size_t size = 0; size < sound.bytes.size(); size += size < sound.data + 40 ? 1 : 37)
    ASSERT_FALSE(GgufFile::Open(File("f", sound.bytes.substr(0, size))).ok()) << size;
}

TEST_F(GgufFileTest, ReadsDamagedElementsAsWhatTheyAreNow) {
  Sound sound = SoundFile();
  std::mt19937_64 engine(9);
  for (int i = 0; i < 200; ++i) {
    const size_t at = sound.data + engine() % (sound.bytes.size() - sound.data);
    sound.bytes[at] = static_cast<char>(engine() & 0x33);  // no infinite scales
    const GgufFile file = GgufFile::Open(File("f", sound.bytes)).value();
    for (const GgufEntry& entry : file.entries()) {
      const std::string_view bytes = std::string_view(sound.bytes)
                                         .substr(sound.data + static_cast<size_t>(entry.begin),
                                                 static_cast<size_t>(entry.end - entry.begin));
      EXPECT_EQ(Doubles(file.Read(entry).value()), ExpectedNumbers(entry.stored, bytes)) << entry.name;
    }
  }
}

}  // namespace
}  // namespace meshwork::gguf_file_test
