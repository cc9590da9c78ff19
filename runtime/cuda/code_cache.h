// The machine code of CUDA kernels, kept on the disk by the hash of everything that determines it: so a program that
// runs again does not compile its kernels again.
//
//   const std::string path = CodePath(folder, {.nvrtc_version = 13000, .architecture = 90, .options = …, .source = …});
//   std::optional<std::string> code = ReadCode(path);
//   if (!code.has_value()) KeepCode(path, code.emplace(…));
//
// A file has the hash of its code before the code; a damaged or truncated file counts as missing. Files are replaced
// whole, so several processes may share a folder. Nothing is removed; a folder may be emptied at any time.
// Thread-safe.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace meshwork {

// Everything that determines the code.
struct CodeOrigin {
  int nvrtc_version = 0;  // 13000 is 13.0
  int architecture = 0;   // 90 is sm_90
  std::span<const std::string> options = {};
  std::string_view source = {};
  std::string_view nvrtc_build = {};  // builds of one version, 13.0.48 and 13.0.88, may make different code
};

// The folder that a process with these environment variables uses: $MESHWORK_CUDA_CACHE, or
// $XDG_CACHE_HOME/meshwork/cuda, or $HOME/.cache/meshwork/cuda; the first that is set, and not empty. "" for none:
// $MESHWORK_CUDA_CACHE is "off", or none of them is set.
std::string CodeFolder(const std::function<std::optional<std::string>(const std::string& name)>& variable);

// The file in which the code is kept. Law: origins that differ have different paths.
std::string CodePath(std::string_view folder, const CodeOrigin& origin);

// Nullopt: there is no such file, it cannot be read, or it is not what KeepCode has written.
std::optional<std::string> ReadCode(const std::string& path);
// Makes the folder where it is missing. Does nothing if it cannot: the code is compiled the next time, too.
void KeepCode(const std::string& path, std::string_view code);

}  // namespace meshwork
