// NVRTC, modules and launches.
#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "fmt/format.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/cuda/kernel_arguments.h"
#include "support/simulated_world.h"

namespace meshwork {
namespace {

// The code of a source: "simulated sm_90 7".
constexpr std::string_view kCode = "simulated sm_", kPtx = "simulated compute_";
constexpr int kMostSharedBytes = 227 << 10;

nvrtcResult GetSize(const std::string& text, size_t* bytes) {
  if (bytes == nullptr) return NVRTC_ERROR_INVALID_INPUT;
  *bytes = text.size() + 1;
  return NVRTC_SUCCESS;
}

nvrtcResult GetText(const std::string& text, char* to) {
  if (to == nullptr) return NVRTC_ERROR_INVALID_INPUT;
  std::memcpy(to, text.c_str(), text.size() + 1);
  return NVRTC_SUCCESS;
}

}  // namespace

nvrtcResult SimulatedWorld::nvrtcVersion(int* major, int* minor) {
  *major = 13;
  *minor = 0;
  return NVRTC_SUCCESS;
}

nvrtcResult SimulatedWorld::nvrtcGetNumSupportedArchs(int* count) {
  *count = static_cast<int>(options.nvrtc_architectures.size());
  return NVRTC_SUCCESS;
}

nvrtcResult SimulatedWorld::nvrtcGetSupportedArchs(int* architectures) {
  std::copy(options.nvrtc_architectures.begin(), options.nvrtc_architectures.end(), architectures);
  return NVRTC_SUCCESS;
}

nvrtcResult SimulatedWorld::nvrtcCreateProgram(nvrtcProgram* program, const char* source, const char* name,
                                               int num_headers, const char* const*, const char* const*) {
  if (program == nullptr || source == nullptr || num_headers != 0) return NVRTC_ERROR_INVALID_INPUT;
  const uintptr_t handle = NewHandle();
  programs_[handle] = {.source = source, .name = name == nullptr ? "default_program" : name};
  *program = reinterpret_cast<nvrtcProgram>(handle);
  return NVRTC_SUCCESS;
}

nvrtcResult SimulatedWorld::nvrtcDestroyProgram(nvrtcProgram* program) {
  if (program == nullptr || programs_.erase(reinterpret_cast<uintptr_t>(*program)) == 0)
    return NVRTC_ERROR_INVALID_PROGRAM;
  *program = nullptr;
  return NVRTC_SUCCESS;
}

nvrtcResult SimulatedWorld::nvrtcCompileProgram(nvrtcProgram handle, int num_options,
                                                const char* const* given) {
  SimulatedProgram* const program = FindHandle(programs_, handle);
  if (program == nullptr) return NVRTC_ERROR_INVALID_PROGRAM;
  std::string target = "sm_75";
  for (int i = 0; i < num_options; ++i) {
    const std::string_view option = given[i];
    constexpr std::string_view kTarget = "--gpu-architecture=";
    if (option.starts_with(kTarget)) {
      target = option.substr(kTarget.size());
    } else if (!option.starts_with("--") && !option.starts_with("-D")) {
      program->log = fmt::format("nvrtc: error: invalid value for option {}\n", option);
      return NVRTC_ERROR_INVALID_OPTION;
    }
  }
  if (options.compiler == nullptr) {
    program->log = "the simulated GPU has no compiler\n";
    return NVRTC_ERROR_COMPILATION;
  }
  absl::StatusOr<std::unique_ptr<SimulatedKernels>> kernels = options.compiler->Compile(program->source);
  if (!kernels.ok()) {
    program->log = fmt::format("{}\n", MessageOf(kernels.status()));
    return NVRTC_ERROR_COMPILATION;
  }
  const std::string number = fmt::format("{}", compiled_.size());
  compiled_[number] = std::move(*kernels);
  (target.starts_with("sm_") ? program->code : program->ptx) = fmt::format("simulated {} {}", target, number);
  return NVRTC_SUCCESS;
}

nvrtcResult SimulatedWorld::nvrtcGetProgramLogSize(nvrtcProgram handle, size_t* bytes) {
  const SimulatedProgram* const program = FindHandle(programs_, handle);
  return program == nullptr ? NVRTC_ERROR_INVALID_PROGRAM : GetSize(program->log, bytes);
}

nvrtcResult SimulatedWorld::nvrtcGetProgramLog(nvrtcProgram handle, char* log) {
  const SimulatedProgram* const program = FindHandle(programs_, handle);
  return program == nullptr ? NVRTC_ERROR_INVALID_PROGRAM : GetText(program->log, log);
}

nvrtcResult SimulatedWorld::nvrtcGetCUBINSize(nvrtcProgram handle, size_t* bytes) {
  const SimulatedProgram* const program = FindHandle(programs_, handle);
  return program == nullptr ? NVRTC_ERROR_INVALID_PROGRAM : GetSize(program->code, bytes);
}

nvrtcResult SimulatedWorld::nvrtcGetCUBIN(nvrtcProgram handle, char* code) {
  const SimulatedProgram* const program = FindHandle(programs_, handle);
  return program == nullptr ? NVRTC_ERROR_INVALID_PROGRAM : GetText(program->code, code);
}

nvrtcResult SimulatedWorld::nvrtcGetPTXSize(nvrtcProgram handle, size_t* bytes) {
  const SimulatedProgram* const program = FindHandle(programs_, handle);
  return program == nullptr ? NVRTC_ERROR_INVALID_PROGRAM : GetSize(program->ptx, bytes);
}

nvrtcResult SimulatedWorld::nvrtcGetPTX(nvrtcProgram handle, char* ptx) {
  const SimulatedProgram* const program = FindHandle(programs_, handle);
  return program == nullptr ? NVRTC_ERROR_INVALID_PROGRAM : GetText(program->ptx, ptx);
}

CUresult SimulatedWorld::cuModuleLoadData(CUmodule* module, const void* image) {
  int device = 0;
  if (const CUresult result = Current(device); result != CUDA_SUCCESS) return result;
  if (module == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::string_view code = static_cast<const char*>(image);
  const bool is_ptx = code.starts_with(kPtx);
  if (!is_ptx && !code.starts_with(kCode)) return CUDA_ERROR_INVALID_IMAGE;
  const int made_for = std::atoi(code.data() + (is_ptx ? kPtx : kCode).size());
  const int architecture = options.gpus[static_cast<size_t>(device)].architecture;
  // Code is for GPUs of the same generation, from its own on; PTX for all newer ones.
  if (made_for > architecture || (!is_ptx && made_for / 10 != architecture / 10))
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
  const auto kernels = compiled_.find(std::string(code.substr(code.rfind(' ') + 1)));
  if (kernels == compiled_.end()) return CUDA_ERROR_INVALID_IMAGE;
  const uintptr_t handle = NewHandle();
  modules_[handle] = {.device = device, .kernels = kernels->second};
  *module = reinterpret_cast<CUmodule>(handle);
  return CUDA_SUCCESS;
}

CUresult SimulatedWorld::cuModuleUnload(CUmodule handle) {
  const SimulatedModule* const module = FindHandle(modules_, handle);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const int device = module->device;
  const auto key = reinterpret_cast<uintptr_t>(handle);
  modules_.erase(key);
  std::erase_if(functions_, [key](const auto& entry) { return entry.second.module == key; });
  return StateOf(device);
}

CUresult SimulatedWorld::cuModuleGetFunction(CUfunction* function, CUmodule handle, const char* name) {
  const SimulatedModule* const module = FindHandle(modules_, handle);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (function == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult lost = StateOf(module->device); lost != CUDA_SUCCESS) return lost;
  if (!module->kernels->Has(name)) return CUDA_ERROR_NOT_FOUND;
  const uintptr_t made = NewHandle();
  functions_[made] = {.module = reinterpret_cast<uintptr_t>(handle), .name = name};
  *function = reinterpret_cast<CUfunction>(made);
  return CUDA_SUCCESS;
}

CUresult SimulatedWorld::cuFuncSetAttribute(CUfunction handle, CUfunction_attribute attribute, int value) {
  SimulatedFunction* const function = FindHandle(functions_, handle);
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 || value > kMostSharedBytes)
    return CUDA_ERROR_INVALID_VALUE;
  function->shared_bytes = value;
  return CUDA_SUCCESS;
}

bool SimulatedWorld::CheckArguments(const std::string& who, int device,
                                    const std::vector<std::vector<std::byte>>& arguments, bool is_enqueued) {
  for (const std::vector<std::byte>& argument : arguments) {
    for (size_t at = 0; at + sizeof(uintptr_t) <= argument.size(); at += sizeof(uintptr_t)) {
      uintptr_t address = 0;
      std::memcpy(&address, argument.data() + at, sizeof(address));
      int holder = 0;
      if (!memory.Holds(address, holder)) continue;  // a number
      if (!memory.Check(who, holder == kPinned ? kPinned : device, address, 0, is_enqueued)) return false;
    }
  }
  return true;
}

CUresult SimulatedWorld::cuLaunchKernel(CUfunction handle, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                        unsigned block_x, unsigned block_y, unsigned block_z,
                                        unsigned shared_bytes, CUstream stream_handle, void** given,
                                        void** extra) {
  SimulatedStream* stream = nullptr;
  if (const CUresult result = StreamOf(stream_handle, stream); result != CUDA_SUCCESS) return result;
  const SimulatedFunction* const function = FindHandle(functions_, handle);
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const SimulatedModule& module = modules_.at(function->module);
  int current = 0;
  if (Current(current); current != stream->device || module.device != stream->device)
    return CUDA_ERROR_INVALID_HANDLE;
  if (given == nullptr || extra != nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Dim3 grid{grid_x, grid_y, grid_z}, block{block_x, block_y, block_z};
  for (const unsigned size : {grid.x, grid.y, grid.z, block.x, block.y, block.z})
    if (size == 0) return CUDA_ERROR_INVALID_VALUE;
  if (grid.y > 65535 || grid.z > 65535 || grid.x > 2147483647u || block.z > 64 ||
      uint64_t{block.x} * block.y * block.z > 1024 ||
      shared_bytes > static_cast<unsigned>(function->shared_bytes))
    return CUDA_ERROR_INVALID_VALUE;
  std::vector<std::vector<std::byte>> arguments;
  for (; *given != nullptr; ++given) {
    const auto* const begin = static_cast<const std::byte*>(*given);
    arguments.emplace_back(begin, begin + KernelArguments::SizeOf(*given));
  }
  const int device = stream->device;
  const std::string who = fmt::format("kernel {} on GPU {}", function->name, device);
  if (!CheckArguments(who, device, arguments, true)) {
    Lose(device, CUDA_ERROR_ILLEGAL_ADDRESS);
    return CUDA_SUCCESS;
  }
  const std::string name = function->name;
  const std::shared_ptr<SimulatedKernels> kernels = module.kernels;
  const uintptr_t module_handle = function->module;
  Enqueue(*stream, [=, this] {
    if (!modules_.contains(module_handle)) {
      Find(fmt::format("{} runs after its module was unloaded.", who));
      return Lose(device, CUDA_ERROR_ILLEGAL_ADDRESS);
    }
    if (!CheckArguments(who, device, arguments, false)) return Lose(device, CUDA_ERROR_ILLEGAL_ADDRESS);
    if (FailsWork(device)) return;
    // Each run has its own copy, aligned as KernelArguments aligns it: a kernel may change its arguments.
    std::vector<std::vector<std::max_align_t>> copies;
    std::vector<void*> pointers;
    for (const auto& argument : arguments) {
      copies.emplace_back(argument.size() / sizeof(std::max_align_t) + 1);
      std::memcpy(copies.back().data(), argument.data(), argument.size());
      pointers.push_back(copies.back().data());
    }
    pointers.push_back(nullptr);
    const absl::Status status = kernels->Launch(name, grid, block, shared_bytes, pointers.data());
    if (status.ok()) return;
    kernel_error = fmt::format("{}: {}", who, MessageOf(status));
    Lose(device, CUDA_ERROR_LAUNCH_FAILED);
  });
  return CUDA_SUCCESS;
}

}  // namespace meshwork
