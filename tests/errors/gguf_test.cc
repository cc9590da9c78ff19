// What is refused of GGUF files. DIR stands for a directory of this run.
#include <filesystem>

#include "errors/errors.h"
#include "gtest/gtest.h"
#include "meshwork/storage/gguf_file.h"
#include "support/gguf_bytes.h"
#include "support/temp_dir.h"

namespace meshwork::gguf_test {
namespace {

class GgufErrors : public TempDirTest {
 protected:
  absl::Status Open(const std::string& bytes) const { return GgufFile::Open(File("f", bytes)).status(); }
  absl::Status Keys(const std::vector<std::string>& keys) const { return Open(EncodeGguf(keys)); }
  absl::Status Tensors(const std::vector<GgufTensorBytes>& tensors) const {
    return Open(EncodeGguf({}, tensors));
  }
  absl::Status OneTensor(const std::vector<uint64_t>& shape, GgmlType type = GgmlType::kF32) const {
    return Tensors({{.name = "w", .shape = shape, .type = type}});
  }
  // The same for a file that goes on with 200 MB of zeros, which take no room on the disk.
  absl::Status Long(const std::string& bytes) const {
    const std::string path = File("f", bytes);
    std::filesystem::resize_file(path, 200'000'000);
    return GgufFile::Open(path).status();
  }
  void Expect(std::string_view area, const std::vector<Mistake>& mistakes) {
    ExpectErrors(area, mistakes, {{dir(), "DIR"}});
  }
};

// A header that says that it has so many tensors and keys.
std::string Claims(uint64_t tensors, uint64_t keys) {
  return EncodeGguf({}, {}, {.tensors = tensors, .keys = keys});
}
// An array's beginning.
std::string ArrayClaims(uint32_t type, uint64_t count) { return NumberBytes(type) + NumberBytes(count); }
std::string Array(const std::string& bytes) { return GgufRawKey("a", 9, bytes); }

TEST_F(GgufErrors, Headers) {
  const std::string good = EncodeGguf({GgufKey("k", "text")});
  const auto magic = [](std::string text, uint32_t version = 3) {
    return EncodeGguf({}, {}, {.magic = std::move(text), .version = version});
  };
  std::string deep;
  for (int depth = 0; depth < 4; ++depth) deep += ArrayClaims(9, 1);
  Expect("gguf_headers", {
                             MISTAKE(GgufFile::Open(Path("none"))),
                             MISTAKE(GgufFile::Open(dir())),
                             MISTAKE(Open("")),
                             MISTAKE(Open("GGU")),
                             MISTAKE(Open(magic("\x89PNG"))),
                             MISTAKE(Open(magic("GGUF", 1))),
                             MISTAKE(Open(magic("GGUF", 4))),
                             MISTAKE(Open(magic("GGUF", 0x03000000))),
                             MISTAKE(Open(good.substr(0, 20))),
                             MISTAKE(Open(good.substr(0, 28))),
                             MISTAKE(Open(good.substr(0, 37))),
                             MISTAKE(Open(good.substr(0, 48))),
                             // Wild claims cost nothing.
                             MISTAKE(Open(Claims(0, UINT64_MAX))),
                             MISTAKE(Open(Claims(UINT64_MAX, 0))),
                             MISTAKE(Open(Claims(0, 1'000'000))),
                             MISTAKE(Keys({GgufRawKey("k", 8, NumberBytes(uint64_t{1'000'000'000}))})),
                             MISTAKE(Keys({Array(ArrayClaims(0, UINT64_MAX))})),
                             MISTAKE(Keys({Array(ArrayClaims(8, 1'000'000'000))})),
                             MISTAKE(Keys({Array(ArrayClaims(12, uint64_t{1} << 62))})),
                             MISTAKE(Long(EncodeGguf({Array(ArrayClaims(0, 150'000'000))}))),
                             MISTAKE(Keys({GgufKey("k\xff", uint8_t{1})})),
                             MISTAKE(Keys({GgufKey("k", uint8_t{1}), GgufKey("k", "text")})),
                             MISTAKE(Keys({GgufRawKey("k", 13, "")})),
                             MISTAKE(Keys({Array(ArrayClaims(99, 0))})),
                             MISTAKE(Keys({GgufRawKey("k", 7, "\2")})),
                             MISTAKE(Keys({Array(ArrayClaims(7, 1) + "\3")})),
                             MISTAKE(Keys({Array(deep + ArrayClaims(4, 0))})),
                             MISTAKE(Keys({GgufKey("general.alignment", uint32_t{0})})),
                             MISTAKE(Keys({GgufKey("general.alignment", uint32_t{12})})),
                             MISTAKE(Keys({GgufKey("general.alignment", uint64_t{1} << 62)})),
                             MISTAKE(Keys({GgufKey("general.alignment", "32")})),
                         });
}

TEST_F(GgufErrors, Tensors) {
  const std::string row(34, '\1');
  const auto at = [&](const std::string& name, uint64_t begin) {
    return GgufTensorBytes{
        .name = name, .shape = {2, 32}, .type = GgmlType::kQ8_0, .data = row + row, .begin = begin};
  };
  const std::string good = EncodeGguf({}, {at("w", 0)});
  Expect("gguf_tensors", {
                             MISTAKE(Open(good.substr(0, 40))),
                             MISTAKE(Open(good.substr(0, 60))),
                             MISTAKE(Tensors({at("w\xff", 0)})),
                             MISTAKE(Tensors({at("w", 0), at("w", 96)})),
                             MISTAKE(OneTensor(std::vector<uint64_t>(27, 1))),
                             MISTAKE(OneTensor({UINT64_MAX})),
                             MISTAKE(OneTensor({uint64_t{1} << 40, 2})),
                             MISTAKE(OneTensor({32, 33}, GgmlType::kQ4_0)),
                             MISTAKE(OneTensor({}, GgmlType::kQ8_0)),
                             MISTAKE(Tensors({at("w", 16)})),
                             MISTAKE(Tensors({at("w", uint64_t{1} << 63)})),
                             MISTAKE(Tensors({at("w", (uint64_t{1} << 63) - 32)})),
                             MISTAKE(OneTensor({1000, 1000})),
                             MISTAKE(Open(good.substr(0, good.size() - 1))),
                             MISTAKE(Tensors({at("v", 0), at("w", 32)})),
                             MISTAKE(Tensors({at("v", 96), at("u", 0), at("w", 96)})),
                         });
}

TEST_F(GgufErrors, Entries) {
  const std::string row(34, '\1'),
      path = File(
          "f",
          EncodeGguf({}, {{.name = "w", .shape = {2, 32}, .type = GgmlType::kQ8_0, .data = row + row},
                          {.name = "h", .shape = {4}, .type = GgmlType::kF16, .data = "12345678"},
                          {.name = "s", .shape = {}, .type = GgmlType::kF32, .data = "1234"},
                          {.name = "k", .shape = {256}, .type = GgmlType{12}, .data = std::string(144, '\1')},
                          {.name = "x", .shape = {256}, .type = GgmlType{99}}}));
  const GgufFile file = GgufFile::Open(path).value();
  const auto entry = [&](const char* name) { return *file.Find(name); };
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 190);
  Expect("gguf_entries", {
                             MISTAKE(file.Read(entry("k"))),
                             MISTAKE(file.ReadRows(entry("x"), 0, 1)),
                             MISTAKE(file.As(entry("k"), F32)),
                             MISTAKE(file.As(entry("w"), F16)),
                             MISTAKE(file.As(entry("h"), I32)),
                             MISTAKE(file.ReadRows(entry("w"), 1, 2)),
                             MISTAKE(file.ReadRows(entry("w"), -1, 1)),
                             MISTAKE(file.ReadRows(entry("w"), 0, -1)),
                             MISTAKE(file.ReadRows(entry("s"), 0, 1)),
                             MISTAKE(file.Read(entry("s"))),
                         });
}

}  // namespace
}  // namespace meshwork::gguf_test
