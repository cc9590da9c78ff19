#include "support/cuda_player.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <random>
#include <regex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/ops/kernels/cuda/cuda_kernel.h"
#include "tools/cli/process.h"

namespace meshwork {
namespace {

constexpr size_t kStackBytes = size_t{128} << 10;
constexpr int kWarp = 32;

struct DeviceIndex {
  unsigned x, y, z;
};

// The functions and variables of the text's shared object that the player uses (cuda_player_device.h).
struct Device {
  DeviceIndex *thread, *block, *block_dim, *grid_dim;
  void (**barrier)(int line);
  void (**warp_barrier)(unsigned mask, int line);
  void** dynamic_shared;
  char *shared_begin, *shared_end;
};

enum class Wait { kReady, kBarrier, kWarp, kEnded };

struct Thread {
  Wait wait = Wait::kReady;
  int line = 0;       // of the barrier that it waits at
  unsigned mask = 0;  // of kWarp
  int fiber = -1;     // that it waits on; -1: not yet begun
};

// A stack of its own. It is entered by its context, which is a system call, and from then on left and resumed by jumps.
struct Fiber {
  ucontext_t context;
  jmp_buf place;
  std::unique_ptr<char[]> stack{new char[kStackBytes]};
};

// The threads of one block. A fiber runs threads until one of them waits; then it is that thread's until it ends.
class BlockPlayer {
 public:
  BlockPlayer(const Device& device, void (*kernel)(void**), void** args, Dim3 block, std::mt19937_64& engine)
      : device_(device), kernel_(kernel), args_(args), dim_(block), engine_(engine) {}
  BlockPlayer(const BlockPlayer&) = delete;
  BlockPlayer& operator=(const BlockPlayer&) = delete;

  absl::Status Play() {
    current_ = this;
    const size_t count = size_t{dim_.x} * dim_.y * dim_.z;
    threads_.assign(count, Thread());
    for (size_t t = 0; t < count; ++t) ready_.push_back(t);
    free_.clear();
    for (size_t f = 0; f < fibers_.size(); ++f) free_.push_back(static_cast<int>(f));
    while (!ready_.empty()) {
      std::shuffle(ready_.begin(), ready_.end(), engine_);
      while (!ready_.empty()) RunNext();
      MESHWORK_RETURN_IF_ERROR(Release());
    }
    return absl::OkStatus();
  }

  static void WaitAtBarrier(int line) { current_->Stop(Wait::kBarrier, 0, line); }
  static void WaitInWarp(unsigned mask, int line) { current_->Stop(Wait::kWarp, mask, line); }

 private:
  // Runs the last ready thread, and more threads that end on the same fiber, until a thread waits or none is ready.
  void RunNext() {
    const size_t t = ready_.back();
    const bool resumes = threads_[t].fiber >= 0;
    if (resumes) {
      ready_.pop_back();
      Enter(t);
      fiber_ = threads_[t].fiber;
    } else {
      if (free_.empty()) {
        fibers_.push_back(std::make_unique<Fiber>());
        free_.push_back(static_cast<int>(fibers_.size()) - 1);
      }
      fiber_ = free_.back();
      free_.pop_back();
      ucontext_t& context = fibers_[fiber_]->context;
      getcontext(&context);
      context.uc_stack.ss_sp = fibers_[fiber_]->stack.get();
      context.uc_stack.ss_size = kStackBytes;
      context.uc_link = nullptr;
      makecontext(&context, &BlockPlayer::Main, 0);
    }
    if (_setjmp(home_) != 0) return;                   // NOLINT(cert-err52-cpp)
    if (resumes) _longjmp(fibers_[fiber_]->place, 1);  // NOLINT(cert-err52-cpp)
    setcontext(&fibers_[fiber_]->context);
  }

  static void Main() {
    current_->RunThreads();
    _longjmp(current_->home_, 1);  // NOLINT(cert-err52-cpp)
  }
  void RunThreads() {
    while (true) {
      if (!ready_.empty() && threads_[ready_.back()].fiber < 0) {
        const size_t t = ready_.back();
        ready_.pop_back();
        Enter(t);
        const int fiber = fiber_;
        kernel_(args_);
        fiber_ = fiber;
        threads_[running_].wait = Wait::kEnded;
      } else {
        free_.push_back(fiber_);
        return;
      }
    }
  }

  void Enter(size_t t) {
    running_ = t;
    const auto at = static_cast<unsigned>(t);
    *device_.thread = {at % dim_.x, at / dim_.x % dim_.y, at / dim_.x / dim_.y};
  }

  void Stop(Wait wait, unsigned mask, int line) {
    Thread& thread = threads_[running_];
    thread = {.wait = wait, .line = line, .mask = mask, .fiber = fiber_};
    if (_setjmp(fibers_[thread.fiber]->place) == 0) _longjmp(home_, 1);  // NOLINT(cert-err52-cpp)
  }

  // Makes threads ready whose barrier has been reached by all threads that it waits for.
  absl::Status Release() {
    bool any = false;
    for (size_t first = 0; first < threads_.size(); first += kWarp) {
      const size_t end = std::min(threads_.size(), first + kWarp);
      for (size_t t = first; t < end; ++t) {
        if (threads_[t].wait != Wait::kWarp) continue;
        const Thread one = threads_[t];
        const auto waits = [&](size_t lane) {
          return (one.mask >> (lane - first) & 1) == 0 ||
                 (threads_[lane].wait == Wait::kWarp && threads_[lane].line == one.line);
        };
        bool all = true;
        for (size_t lane = first; lane < end; ++lane) all = all && waits(lane);
        if (!all) continue;
        for (size_t lane = first; lane < end; ++lane)
          if ((one.mask >> (lane - first) & 1) != 0) MakeReady(lane);
        any = true;
      }
    }
    if (any) return absl::OkStatus();
    const auto ended = std::find_if(threads_.begin(), threads_.end(),
                                    [](const Thread& t) { return t.wait == Wait::kEnded; });
    const auto waiting = std::find_if(threads_.begin(), threads_.end(),
                                      [](const Thread& t) { return t.wait != Wait::kEnded; });
    if (waiting == threads_.end()) return absl::OkStatus();
    if (ended != threads_.end())
      return InvalidArgument("thread {} waits at line {}, and thread {} has ended.",
                             waiting - threads_.begin(), waiting->line, ended - threads_.begin());
    for (const Thread& thread : threads_) {
      if (thread.wait != Wait::kBarrier || thread.line != waiting->line)
        return InvalidArgument("thread {} waits at line {}, and thread {} at line {}.",
                               waiting - threads_.begin(), waiting->line, &thread - threads_.data(),
                               thread.line);
    }
    for (size_t t = 0; t < threads_.size(); ++t) MakeReady(t);
    return absl::OkStatus();
  }

  // Fibers are kept from launch to launch.
  static std::vector<std::unique_ptr<Fiber>>& AllFibers() {
    static auto* const fibers = new std::vector<std::unique_ptr<Fiber>>;
    return *fibers;
  }

  void MakeReady(size_t t) {
    threads_[t].wait = Wait::kReady;
    ready_.push_back(t);
  }

  static BlockPlayer* current_;
  const Device& device_;
  void (*kernel_)(void**);
  void** args_;
  Dim3 dim_;
  std::mt19937_64& engine_;
  std::vector<Thread> threads_;
  std::vector<size_t> ready_;
  std::vector<std::unique_ptr<Fiber>>& fibers_ = AllFibers();
  std::vector<int> free_;  // fibers that no thread waits on
  jmp_buf home_;
  int fiber_ = -1;
  size_t running_ = 0;
};
BlockPlayer* BlockPlayer::current_ = nullptr;

class Library : public PlayedKernels {
 public:
  Library(void* handle, const Device& device) : handle_(handle), device_(device) {}
  ~Library() override { dlclose(handle_); }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  void set_seed(uint64_t seed) override { seed_ = seed; }

  absl::Status Launch(const std::string& name, Dim3 grid, Dim3 block, size_t shared_bytes,
                      void** args) override {
    using Kernel = void (*)(void**);
    const auto kernel = reinterpret_cast<Kernel>(dlsym(handle_, ("played_" + name).c_str()));
    if (kernel == nullptr) return absl::NotFoundError(fmt::format("there is no kernel {}.", name));
    const size_t threads = size_t{block.x} * block.y * block.z;
    if (threads == 0 || threads > 1024)
      return InvalidArgument("{}: a block has 1 to 1024 threads, not {}.", name, threads);
    std::mt19937_64 engine(seed_);
    std::vector<size_t> order(size_t{grid.x} * grid.y * grid.z);
    if (order.empty()) return InvalidArgument("{}: the grid is empty.", name);
    for (size_t b = 0; b < order.size(); ++b) order[b] = b;
    std::shuffle(order.begin(), order.end(), engine);
    *device_.block_dim = {block.x, block.y, block.z};
    *device_.grid_dim = {grid.x, grid.y, grid.z};
    *device_.barrier = &BlockPlayer::WaitAtBarrier;
    *device_.warp_barrier = &BlockPlayer::WaitInWarp;
    std::vector<double> shared((shared_bytes + sizeof(double) - 1) / sizeof(double));
    *device_.dynamic_shared = shared.data();
    BlockPlayer player(device_, kernel, args, block, engine);
    for (const size_t b : order) {
      const auto at = static_cast<unsigned>(b);
      *device_.block = {at % grid.x, at / grid.x % grid.y, at / grid.x / grid.y};
      std::fill(device_.shared_begin, device_.shared_end, '\xff');
      std::fill_n(reinterpret_cast<char*>(shared.data()), shared.size() * sizeof(double), '\xff');
      if (const absl::Status status = player.Play(); !status.ok())
        return InvalidArgument("{}, block {}: {}", name, b, MessageOf(status));
    }
    return absl::OkStatus();
  }

 private:
  void* handle_;
  Device device_;
  uint64_t seed_ = 0;
};

template <typename T>
T* Symbol(void* handle, const char* name) {
  return reinterpret_cast<T*>(dlsym(handle, name));
}

absl::StatusOr<std::unique_ptr<PlayedKernels>> OpenLibrary(const std::string& path) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return absl::InternalError(dlerror());
  using Edge = char*();
  const Device device{.thread = Symbol<DeviceIndex>(handle, "threadIdx"),
                      .block = Symbol<DeviceIndex>(handle, "blockIdx"),
                      .block_dim = Symbol<DeviceIndex>(handle, "blockDim"),
                      .grid_dim = Symbol<DeviceIndex>(handle, "gridDim"),
                      .barrier = Symbol<void (*)(int)>(handle, "played_barrier"),
                      .warp_barrier = Symbol<void (*)(unsigned, int)>(handle, "played_warp_barrier"),
                      .dynamic_shared = Symbol<void*>(handle, "played_dynamic_shared"),
                      .shared_begin = Symbol<Edge>(handle, "played_shared_begin")(),
                      .shared_end = Symbol<Edge>(handle, "played_shared_end")()};
  return std::make_unique<Library>(handle, device);
}

// Compiles texts in a folder that exists until the process ends. The header that all texts include, and the
// beginning that kernels' texts share, are read once (precompiled).
class Workshop {
 public:
  static Workshop& Of() {
    static Workshop workshop;
    return workshop;
  }
  ~Workshop() {
    if (getpid() != process_) return;  // one that was forked
    std::error_code ignored;
    std::filesystem::remove_all(dir_, ignored);
  }

  // Returns a separate shared object for each call. A text is compiled once: tests play many kernels again.
  absl::StatusOr<std::filesystem::path> SharedObjectOf(const std::string& source) {
    const std::scoped_lock lock(mutex_);
    const auto [at, is_new] = compiled_.try_emplace(source);
    if (is_new) at->second = Compile(source);
    MESHWORK_RETURN_IF_ERROR(at->second.status());
    const std::filesystem::path copy = dir_ / fmt::format("{}-copy-{}.so", getpid(), copies_++);
    std::filesystem::copy_file(*at->second, copy);
    return copy;
  }

 private:
  // Products and sums are rounded one by one, as ops/kernels/cuda asks of nvcc. One cast reads the bits of another
  // type.
  static constexpr std::string_view kCompiler =
      CUDA_PLAYER_COMPILER " -std=c++17 -Og -w -ffp-contract=off -fno-strict-aliasing -fPIC";

  Workshop() {
    std::filesystem::create_directories(dir_);
    const std::string device = fmt::format("#include \"{}\"\n", CUDA_PLAYER_DEVICE);
    Precompile("device.h", device);
    Precompile("kernels.h", fmt::format("{}#line 1\n{}", device, AsHostSource(std::string(CudaPrelude()))));
  }
  void Precompile(const char* name, const std::string& text) const {
    const std::string header = dir_ / name, precompiled = header + ".gch";
    std::ofstream(header, std::ios::binary) << text;
    if (std::system(fmt::format("{} -x c++-header {} -o {}", kCompiler, header, precompiled).c_str()) != 0)
      std::filesystem::remove(precompiled);  // so that the header itself is read
  }

  // Lines count from the text's beginning: a barrier is identified by its line. The process has the libraries.
  absl::StatusOr<std::filesystem::path> Compile(std::string_view source) const {
    const std::filesystem::path base = dir_ / fmt::format("{}-{}", getpid(), compiled_.size());
    const std::string name = base.string();
    const std::string_view prelude = CudaPrelude();
    const bool has_prelude = source.starts_with(prelude);
    const int64_t line = 1 + (has_prelude ? std::count(prelude.begin(), prelude.end(), '\n') : 0);
    if (has_prelude) source.remove_prefix(prelude.size());
    std::ofstream(name + ".cc", std::ios::binary) << "#line " << line << "\n"
                                                  << AsHostSource(std::string(source));
    const std::string command =
        fmt::format("{} -include {}/{}.h -shared -nostdlib -o {}.so {}.cc 2> {}.messages", kCompiler,
                    dir_.string(), has_prelude ? "kernels" : "device", name, name, name);
    if (std::system(command.c_str()) != 0) return absl::InvalidArgumentError(Contents(name + ".messages"));
    return name + ".so";
  }

  const pid_t process_ = getpid();
  const std::filesystem::path dir_ =
      std::filesystem::temp_directory_path() / fmt::format("meshwork-cuda-player-{}", process_);
  std::mutex mutex_;
  std::unordered_map<std::string, absl::StatusOr<std::filesystem::path>> compiled_;
  int copies_ = 0;
};

}  // namespace

std::string AsHostSource(const std::string& source) {
  static const auto* const kernel =
      new std::regex(R"(__global__\s+void\s+(?:__launch_bounds__\([\d, ]+\)\s+)?(\w+)\s*\()");
  static const auto* const dynamic =
      new std::regex(R"(extern\s+__shared__\s+([\w ]+?)\s+(\w+)\s*\[\s*\]\s*;)");
  std::string text = std::regex_replace(source, *dynamic, "$1* const $2 = ($1*)played_dynamic_shared;");
  std::string calls;
  for (auto it = std::sregex_iterator(text.begin(), text.end(), *kernel); it != std::sregex_iterator();
       ++it) {
    const std::string name = (*it)[1].str();
    calls +=
        fmt::format("extern \"C\" void played_{}(void** args) {{ PlayedCall(&{}, args); }}\n", name, name);
  }
  return text + "\n" + calls;
}

absl::StatusOr<std::unique_ptr<PlayedKernels>> PlayCuda(const std::string& source) {
  MESHWORK_ASSIGN_OR_RETURN(const std::filesystem::path object, Workshop::Of().SharedObjectOf(source));
  auto kernels = OpenLibrary(object);
  std::filesystem::remove(object);  // stays for as long as it is open
  return kernels;
}

absl::StatusOr<std::unique_ptr<SimulatedKernels>> CudaPlayer::Compile(const std::string& source) {
  MESHWORK_ASSIGN_OR_RETURN(std::unique_ptr<PlayedKernels> kernels, PlayCuda(source));
  kernels->set_seed(seed_);
  return kernels;
}

}  // namespace meshwork
