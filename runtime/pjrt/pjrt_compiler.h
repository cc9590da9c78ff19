// What PJRT's compilers are given and what they say, with a client or without one (pjrt_client.h, pjrt_ahead.h).
// Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "meshwork/runtime/pjrt/pjrt_client.h"
#include "meshwork/runtime/pjrt/pjrt_plugin.h"

namespace meshwork {

// The options, as a plugin takes them: an int64 where the text reads as one, a bool for true and false, otherwise a text. They
// point into `spec`.
std::vector<pjrt::NamedValue> NamedValuesOf(const PjrtSpec& spec);

// A CompileOptionsProto (xla/pjrt/proto/compile_options.proto): this many replicas, of one partition each; replica r on the
// device with the id ids[r].
std::string CompileOptionsOf(std::span<const int> ids);

// The text as a program; it points into `module`.
pjrt::Program ProgramOf(std::string& module);

// What the plugin says of a program; nothing if it does not say.
PjrtMemoryUse MemoryUseOf(const PjrtPlugin& plugin, pjrt::Executable* executable);
std::map<std::string, double> CostsOf(const PjrtPlugin& plugin, pjrt::Executable* executable);

// Says on the log that a program is being compiled, if that takes long: while it lives.
class CompilePatience {
 public:
  CompilePatience(const PjrtPlugin& plugin, std::string_view name, int64_t num_devices);
  ~CompilePatience();
  CompilePatience(const CompilePatience&) = delete;
  CompilePatience& operator=(const CompilePatience&) = delete;

 private:
  void Watch();

  const std::string plugin_, name_;
  const int64_t num_devices_;
  std::mutex mutex_;
  std::condition_variable over_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace meshwork
