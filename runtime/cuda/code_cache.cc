#include "meshwork/runtime/cuda/code_cache.h"

#include <filesystem>
#include <utility>

#include "meshwork/base/io/file.h"
#include "meshwork/base/io/sha256.h"
#include "meshwork/base/status.h"

namespace meshwork {
namespace {

// The form of a file. If the number is changed, files that were kept before are not used any more.
constexpr std::string_view kCodeForm = "meshwork CUDA code 1";
constexpr size_t kHashDigits = 64;

std::string HashOf(std::string_view text) {
  Sha256 hash;
  hash.Update(std::as_bytes(std::span(text)));
  return hash.Hex();
}

}  // namespace

std::string CodeFolder(const std::function<std::optional<std::string>(const std::string& name)>& variable) {
  const auto value = [&](const char* name) { return variable(name).value_or(""); };
  if (const std::string folder = value("MESHWORK_CUDA_CACHE"); !folder.empty())
    return folder == "off" ? "" : folder;
  if (const std::string folder = value("XDG_CACHE_HOME"); !folder.empty()) return folder + "/meshwork/cuda";
  if (const std::string home = value("HOME"); !home.empty()) return home + "/.cache/meshwork/cuda";
  return "";
}

std::string CodePath(std::string_view folder, const CodeOrigin& origin) {
  std::string text =
      fmt::format("{}, NVRTC {}, build {}, sm_{}, {} options\n", kCodeForm, origin.nvrtc_version,
                  origin.nvrtc_build, origin.architecture, origin.options.size());
  // The sizes say where each ends.
  for (const std::string& option : origin.options) text += fmt::format("{} {}\n", option.size(), option);
  text += origin.source;
  return fmt::format("{}/{}.code", folder, HashOf(text));
}

std::optional<std::string> ReadCode(const std::string& path) {
  absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok() || text->size() <= kHashDigits) return std::nullopt;
  std::string code = text->substr(kHashDigits);
  if (HashOf(code) != text->substr(0, kHashDigits)) return std::nullopt;
  return code;
}

void KeepCode(const std::string& path, std::string_view code) {
  if (!MakeFolders(std::filesystem::path(path).parent_path().string()).ok()) return;
  const std::string hash = HashOf(code);
  const std::string_view pieces[] = {hash, code};
  WriteFileAtomically(path, pieces).IgnoreError();
}

}  // namespace meshwork
