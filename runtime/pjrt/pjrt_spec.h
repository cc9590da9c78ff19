// PjrtSpec: which PJRT plugin, with which options; SessionOptions::devices as text.
//
//   MESHWORK_ASSIGN_OR_RETURN(const PjrtSpec spec, PjrtSpec::Parse("pjrt:/opt/xla_cpu_pjrt.so:cpu_device_count=8"));
//
// Pure functions of the text and, for "tpu", of the environment; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace meshwork {

// A plugin, and the options that its client gets.
struct PjrtSpec {
  std::string path;
  std::vector<std::pair<std::string, std::string>> options = {};  // in the order of their names

  // Whether the text begins as one of the two forms.
  static bool IsOne(std::string_view devices);
  // "pjrt:PATH[:NAME=VALUE,…]", or "tpu[:NAME=VALUE,…]", the plugin for TPUs, which is $TPU_LIBRARY_PATH or libtpu.so. A
  // value is an int64 if it reads as one, a bool if it is true or false, otherwise a text. Errors: it is neither form; an
  // option without "=" or without a name, or given twice.
  static absl::StatusOr<PjrtSpec> Parse(std::string_view devices);
};

// Bytes on one device, as the plugin's compiler counts them; all 0 if it does not say.
struct PjrtMemoryUse {
  int64_t arguments = 0, outputs = 0, aliased = 0, temporary = 0;
};

}  // namespace meshwork
