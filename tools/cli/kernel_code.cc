#include "tools/cli/kernel_code.h"

#include <cstdlib>
#include <memory>
#include <optional>

#include "meshwork/base/io/file.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/cuda/code_backend.h"
#include "meshwork/runtime/cuda/code_cache.h"
#include "meshwork/runtime/cuda/gpus.h"
#include "meshwork/runtime/pjrt/pjrt_spec.h"
#include "meshwork/session/session.h"
#include "tools/cli/program_file.h"

namespace meshwork::tools {
namespace {

absl::StatusOr<int> ArchitectureOf(const KernelCodeChoice& choice) {
  if (!choice.arch.empty()) {
    absl::StatusOr<int> architecture = ParseArchitecture(choice.arch);
    if (!architecture.ok()) return Annotate(architecture.status(), "--arch: ");
    return architecture;
  }
  const absl::StatusOr<Gpus> found = ListGpus();
  if (found.ok()) return found->gpus[0].architecture;
  return InvalidArgument(
      "--arch is missing, and this machine has no GPU to take it from ({}); say it, as --arch=sm_90.",
      MessageOf(found.status()));
}

absl::StatusOr<std::string> FolderOf(const KernelCodeChoice& choice) {
  if (!choice.cache.empty()) return choice.cache;
  std::string folder = CodeFolder([](const std::string& name) -> std::optional<std::string> {
    const char* const value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  });
  if (!folder.empty()) return folder;
  return InvalidArgument(
      "--cache is missing, and the environment names no folder for machine code; say where it is to be kept, as "
      "--cache=codes.");
}

// Whether the error says that this machine, or build, cannot compile kernels; then no flag is wrong.
bool HasNoCompiler(const absl::Status& status) {
  return status.code() == absl::StatusCode::kFailedPrecondition ||
         status.code() == absl::StatusCode::kUnimplemented;
}

}  // namespace

void AddKernelCode(FlagTable& flags, KernelCodeChoice& choice) {
  flags.Text(
      "devices",
      "cuda: compiles the program's kernels for a GPU, which need not be there, and keeps them for a run; tpu, or "
      "pjrt:PATH: has a PJRT plugin compile the program, and prints what it says",
      &choice.devices);
  flags.Text(
      "arch",
      "with --devices=cuda, the GPU's architecture, as sm_90; that of GPU 0 if it is left out. With a PJRT plugin, its "
      "name of the devices, as v5e:2x4",
      &choice.arch);
  flags.Text("cache", "with --devices=cuda, the folder of the code, MESHWORK_CUDA_CACHE of the run",
             &choice.cache);
}

absl::Status CheckKernelCode(const KernelCodeChoice& choice) {
  if (choice.is_plugin())
    MESHWORK_RETURN_IF_ERROR(Annotate(PjrtSpec::Parse(choice.devices).status(), "--devices: "));
  else if (choice.devices != "cpu" && choice.devices != "cuda")
    return InvalidArgument("--devices: \"{}\" is none of cpu, cuda, pjrt:PATH and tpu.", choice.devices);
  if (choice.is_plugin() && !choice.cache.empty())
    return InvalidArgument("--cache is of kernels for GPUs; leave it out.");
  if (choice.is_asked() || (choice.arch.empty() && choice.cache.empty())) return absl::OkStatus();
  if (choice.arch.empty())
    return InvalidArgument("--cache is of kernels for GPUs; add --devices=cuda, or leave it out.");
  return InvalidArgument(
      "--arch is of devices that need not be there; add --devices=cuda, tpu or pjrt:PATH, or leave it out.");
}

absl::StatusOr<std::string> CompileKernelCode(const Graph& global, const CompileOptions& options,
                                              const KernelCodeChoice& choice) {
  MESHWORK_ASSIGN_OR_RETURN(const int architecture, ArchitectureOf(choice));
  MESHWORK_ASSIGN_OR_RETURN(const std::string folder, FolderOf(choice));
  MESHWORK_RETURN_IF_ERROR(BadInput(Annotate(MakeFolders(folder), "--cache: ")));
  const absl::StatusOr<std::shared_ptr<CodeBackend>> backend =
      CodeBackend::Create({.architecture = architecture, .folder = folder});
  if (HasNoCompiler(backend.status())) return backend.status();
  MESHWORK_RETURN_IF_ERROR(BadInput(Annotate(backend.status(), "--cache: ")));
  const absl::Status created =
      Session::Create(global, {.backend = *backend, .gather_outputs = true, .compile = options}).status();
  if (created.code() == absl::StatusCode::kResourceExhausted && options.memory_budget > 0)
    return BadInput(created);
  MESHWORK_RETURN_IF_ERROR(created);
  const auto& [kernels, compiled] = (*backend)->counts();
  return fmt::format("{} on mesh {}: {} for sm_{} in {}, {} of them compiled now\n", global.name,
                     global.mesh().ToString(), Count(kernels, "kernel"), architecture, folder, compiled);
}

}  // namespace meshwork::tools
