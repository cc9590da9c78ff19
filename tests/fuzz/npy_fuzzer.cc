// A libFuzzer target: any bytes, read as a .npy or a .npz, give an error that names the place, or arrays that are equal
// after they are written and read again.
//
// --prepare writes the initial corpus and a dictionary.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fuzz/fuzzer.h"
#include "meshwork/base/status.h"
#include "meshwork/storage/npy.h"
#include "support/memory_file.h"
#include "support/npy_bytes.h"
#include "support/safetensors_bytes.h"

namespace meshwork {
namespace {

constexpr std::string_view kWords[] = {"descr", "fortran_order", "shape", "<f4", ">f8", "<f2",  ">i8",  "|i1",
                                       "|u1",   "<u8",           "|b1",   "|O",  "<c8", "True", "False"};

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

void CheckBlames(const absl::Status& status, const std::string& path) {
  if (!MessageOf(status).starts_with(path)) Finding("an error that does not say where", MessageOf(status));
}

void CheckSame(const Tensor& a, const Tensor& b, std::string_view name) {
  if (a.type() != b.type() || RawBytes(a) != RawBytes(b)) Finding("an array that changes", name);
}

// The files are written beside the file that is fuzzed; there is no other folder.
std::string OwnPath(std::string_view name) {
  return fmt::format("{}/meshwork-npy-fuzzer-{}-{}", std::filesystem::temp_directory_path().string(),
                     getpid(), name);
}

void TryArray(std::string_view bytes) {
  const MemoryFile file(bytes);
  const absl::StatusOr<Tensor> x = ReadNpy(file.path());
  if (!x.ok()) return CheckBlames(x.status(), file.path());
  const std::string path = OwnPath("x.npy");
  if (!WriteNpy(path, *x).ok()) Finding("an array that is not written", path);
  CheckSame(*x, ReadNpy(path).value(), "x");
  std::filesystem::remove(path);
}

void TryArchive(std::string_view bytes) {
  const MemoryFile file(bytes);
  const absl::StatusOr<NamedTensors> arrays = ReadNpz(file.path());
  if (!arrays.ok()) return CheckBlames(arrays.status(), file.path());
  const std::string path = OwnPath("x.npz");
  const absl::Status written = WriteNpz(path, *arrays);
  if (!written.ok()) Finding("arrays that are not written", MessageOf(written));
  const NamedTensors again = ReadNpz(path).value();
  if (again.size() != arrays->size()) Finding("another number of arrays", path);
  for (size_t i = 0; i < again.size(); ++i) {
    if (again[i].first != (*arrays)[i].first) Finding("a name that changes", again[i].first);
    CheckSame((*arrays)[i].second, again[i].second, again[i].first);
  }
  std::filesystem::remove(path);
}

}  // namespace

void Try(std::string_view text) {
  TryArray(text);
  TryArchive(text);
  // As a header and data, as a member, and as a packed member: a mutation need not guess lengths and checksums.
  const size_t end = text.rfind('}');
  if (end == std::string_view::npos || end > 0xffff) return;
  const std::string array = EncodeNpy(text.substr(0, end + 1), text.substr(end + 1));
  TryArray(array);
  TryArchive(EncodeZip({ZipBytes::Stored("a.npy", array), ZipBytes::Deflated("b.npy", array)}));
  ZipBytes packed = ZipBytes::Stored("c.npy", std::string(text));
  packed.method = 8;
  packed.size = array.size();
  TryArchive(EncodeZip({packed}, /*wide=*/true));
}

void Prepare(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder / "samples");
  std::ofstream dictionary(folder / "words.dict");
  for (std::string_view word : kWords) dictionary << fmt::format("\"{}\"\n", word);
  const std::string header = "{'descr': '>u2', 'fortran_order': True, 'shape': (2, 3), }";
  const std::string array = EncodeNpy(header, std::string(12, '?'));
  std::ofstream(folder / "samples" / "array") << array;
  std::ofstream(folder / "samples" / "header_and_data") << FloatHeader(2) << "12345678";
  std::ofstream(folder / "samples" / "stored") << EncodeZip({ZipBytes::Stored("a.npy", array)});
  std::ofstream(folder / "samples" / "deflated")
      << EncodeZip({ZipBytes::Deflated("a.npy", array)}, /*wide=*/true);
}

}  // namespace meshwork
