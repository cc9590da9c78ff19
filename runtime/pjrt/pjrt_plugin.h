// PjrtPlugin: a shared library that speaks the PJRT C API (pjrt_api.h), as XLA's for CPUs, GPUs and TPUs do.
//
//   MESHWORK_ASSIGN_OR_RETURN(const PjrtPlugin* const plugin, PjrtPlugin::Load("/opt/pjrt_c_api_cpu_plugin.so"));
//   pjrt::ClientCreate create;
//   MESHWORK_RETURN_IF_ERROR(plugin->Call(create, "starts"));
//
// Thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/runtime/pjrt/pjrt_api.h"

namespace meshwork {

class PjrtPlugin {
 public:
  // Opens the library and initializes it, once. It stays open. Errors
  // (FAILED_PRECONDITION): the file cannot be opened, is no such plugin, or is of another version of the API than those that
  // are called here; what the plugin says when it is initialized.
  static absl::StatusOr<const PjrtPlugin*> Load(const std::string& path);

  // Calls the function that `arguments` are for. Error: the plugin's, as "PJRT plugin NAME: WHAT: its message", with its code;
  // UNIMPLEMENTED: its table lacks the function.
  template <typename Arguments>
  absl::Status Call(Arguments& arguments, std::string_view what) const {
    arguments.head.size = sizeof(Arguments);
    return Call(Arguments::kNumber, &arguments, what);
  }
  // The status of an error that the plugin has returned, which is destroyed; null is OK.
  absl::Status Take(pjrt::Error* error, std::string_view what) const;

  // The name of its file.
  const std::string& name() const { return name_; }
  // "0.81": the version of the API that it was built with.
  std::string version() const;

 private:
  PjrtPlugin(std::string name, const pjrt::Api* api) : name_(std::move(name)), api_(api) {}
  static absl::StatusOr<const pjrt::Api*> Open(const std::string& path);
  absl::Status Call(int number, void* arguments, std::string_view what) const;

  const std::string name_;
  const pjrt::Api* const api_;
};

}  // namespace meshwork
