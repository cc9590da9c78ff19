#include "meshwork/runtime/pjrt/pjrt_spec.h"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "fmt/format.h"
#include "meshwork/base/status.h"

namespace meshwork {
namespace {

constexpr std::string_view kPjrt = "pjrt:", kTpu = "tpu";

// "tpu", with or without options.
bool IsTpu(std::string_view devices) { return devices == kTpu || devices.starts_with("tpu:"); }

// The first colon with NAME= behind it: a path may have others.
size_t ColonBeforeOptions(std::string_view text) {
  for (size_t colon = text.find(':'); colon != std::string_view::npos; colon = text.find(':', colon + 1)) {
    const size_t end = text.find_first_of("=:/", colon + 1);
    if (end != std::string_view::npos && text[end] == '=') return colon;
  }
  return std::string_view::npos;
}

absl::Status ParseOptions(std::string_view devices, std::string_view text, PjrtSpec& spec) {
  std::map<std::string, std::string> options;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(item.size() + 1, text.size()));
    const size_t equals = item.find('=');
    if (equals == std::string_view::npos || equals == 0)
      return InvalidArgument("Devices: \"{}\": \"{}\" is no option of a PJRT plugin; write NAME=VALUE.",
                             devices, item);
    if (!options.emplace(item.substr(0, equals), item.substr(equals + 1)).second)
      return InvalidArgument("Devices: \"{}\" gives the option {} twice; give it once.", devices,
                             item.substr(0, equals));
  }
  spec.options.assign(options.begin(), options.end());
  return absl::OkStatus();
}

}  // namespace

bool PjrtSpec::IsOne(std::string_view devices) { return devices.starts_with(kPjrt) || IsTpu(devices); }

absl::StatusOr<PjrtSpec> PjrtSpec::Parse(std::string_view devices) {
  PjrtSpec spec;
  if (IsTpu(devices)) {
    const char* const path = std::getenv("TPU_LIBRARY_PATH");
    spec.path = path == nullptr || *path == 0 ? "libtpu.so" : path;
    MESHWORK_RETURN_IF_ERROR(
        ParseOptions(devices, devices.substr(std::min(devices.size(), kTpu.size() + 1)), spec));
    return spec;
  }
  if (!devices.starts_with(kPjrt) || devices.size() == kPjrt.size())
    return InvalidArgument(
        "Devices: \"{}\" names no PJRT plugin; write pjrt:PATH, or pjrt:PATH:NAME=VALUE,… with options.",
        devices);
  std::string_view path = devices.substr(kPjrt.size());
  if (const size_t colon = ColonBeforeOptions(path); colon != std::string_view::npos) {
    MESHWORK_RETURN_IF_ERROR(ParseOptions(devices, path.substr(colon + 1), spec));
    path = path.substr(0, colon);
  }
  spec.path = path;
  return spec;
}

}  // namespace meshwork
