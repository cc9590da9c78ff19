#include "meshwork/runtime/pjrt/pjrt_plugin.h"

#include <dlfcn.h>

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>

#include "fmt/format.h"
#include "meshwork/base/status.h"

namespace meshwork {
namespace {

absl::Status NotUsable(std::string_view path, std::string_view why) {
  return absl::FailedPreconditionError(fmt::format("PJRT: {}: {}", path, why));
}

// Null: the table has no such function.
pjrt::Function FunctionOf(const pjrt::Api& api, int number) {
  const auto index = static_cast<size_t>(number - pjrt::kFirstFunction);
  const size_t needed = offsetof(pjrt::Api, functions) + (index + 1) * sizeof(pjrt::Function);
  return api.head.size < needed ? nullptr : api.functions[index];
}

}  // namespace

absl::StatusOr<const PjrtPlugin*> PjrtPlugin::Load(const std::string& path) {
  static std::mutex mutex;
  static auto* const loaded = new std::map<std::string, const PjrtPlugin*>;
  const std::lock_guard lock(mutex);
  if (const auto found = loaded->find(path); found != loaded->end()) return found->second;
  MESHWORK_ASSIGN_OR_RETURN(const pjrt::Api* const api, Open(path));
  // A file may have several names, and is initialized once.
  for (const auto& [name, other] : *loaded)
    if (other->api_ == api) return loaded->emplace(path, other).first->second;
  std::unique_ptr<const PjrtPlugin> plugin(new PjrtPlugin(path.substr(path.rfind('/') + 1), api));
  pjrt::PluginInitialize initialize;
  MESHWORK_RETURN_IF_ERROR(plugin->Call(initialize, "its initialization"));
  return (*loaded)[path] = plugin.release();
}

absl::StatusOr<const pjrt::Api*> PjrtPlugin::Open(const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = dlerror();
    return NotUsable(
        path, fmt::format("cannot be opened as a shared library: {}; give the path of a PJRT plugin, as "
                          "pip's jax-plugins and libtpu bring them.",
                          why == nullptr ? "no reason is given" : why));
  }
  auto* const get = reinterpret_cast<const pjrt::Api* (*)()>(dlsym(library, "GetPjrtApi"));
  const pjrt::Api* const api = get == nullptr ? nullptr : get();
  if (api == nullptr) {
    dlclose(library);
    return NotUsable(path, "is no PJRT plugin: it has no GetPjrtApi; give the path of one.");
  }
  const pjrt::ApiVersion& version = api->version;
  if (version.major != pjrt::kApiMajor || version.minor < pjrt::kOldestMinor)
    return NotUsable(
        path,
        fmt::format("speaks version {}.{} of PJRT's C API, and meshwork speaks {}.{} and later ones of {}; "
                    "take a plugin that fits.",
                    version.major, version.minor, pjrt::kApiMajor, pjrt::kOldestMinor, pjrt::kApiMajor));
  return api;
}

absl::Status PjrtPlugin::Call(int number, void* arguments, std::string_view what) const {
  const pjrt::Function function = FunctionOf(*api_, number);
  if (function == nullptr)
    return absl::UnimplementedError(fmt::format(
        "PJRT plugin {}: {}: the plugin, of version {} of the API, has no function {} of it; take a newer plugin.",
        name_, what, version(), number));
  return Take(function(arguments), what);
}

absl::Status PjrtPlugin::Take(pjrt::Error* error, std::string_view what) const {
  if (error == nullptr) return absl::OkStatus();
  pjrt::ErrorGetCode code{.head = {.size = sizeof(code)}, .error = error};
  (void)FunctionOf(*api_, pjrt::ErrorGetCode::kNumber)(&code);
  pjrt::ErrorMessage message{.head = {.size = sizeof(message)}, .error = error};
  api_->error_message(&message);
  const auto status =
      absl::Status(code.code == 0 ? absl::StatusCode::kUnknown : static_cast<absl::StatusCode>(code.code),
                   fmt::format("PJRT plugin {}: {}: {}", name_, what,
                               std::string_view(message.message, message.message_size)));
  pjrt::ErrorDestroy destroy{.head = {.size = sizeof(destroy)}, .error = error};
  api_->destroy_error(&destroy);
  return status;
}

std::string PjrtPlugin::version() const {
  return fmt::format("{}.{}", api_->version.major, api_->version.minor);
}

}  // namespace meshwork
