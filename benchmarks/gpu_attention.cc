// gpu_attention: attention and its gradients on a GPU in several tilings. See --help.
//
// Exit code 2: the input is wrong, or there is no GPU; 1: a kernel failed, or computes something else.
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "benchmarks/main_of.h"
#include "meshwork.h"
#include "meshwork/base/flags.h"
#include "meshwork/base/status.h"
#include "meshwork/ops/kernels/cuda/attention_tiling.h"

#ifdef MESHWORK_HAVE_CUDA

#include <algorithm>
#include <bit>
#include <cmath>
#include <future>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "meshwork/base/random.h"
#include "meshwork/runtime/cuda/cuda_buffer.h"
#include "meshwork/runtime/cuda/cuda_module.h"

#else

#include "meshwork/runtime/cuda/gpus.h"

#endif

namespace meshwork {
namespace {

struct BenchOptions {
  std::string ops = "attention attention_grad_q attention_grad_kv", tilings, causal = "on";
  int64_t batch = 8, heads = 12, sequence = 1024, dim = 64, launches = 20, repeats = 5;
  bool help = false;
  std::string help_text;
};

absl::StatusOr<BenchOptions> ParseOptions(int argc, const char* const* argv) {
  BenchOptions o;
  FlagTable flags(
      "gpu_attention",
      "Times attention in bf16 and its gradients on a GPU, each by several tilings, beside the tiling that the library\n"
      "takes, which is the first. All results are compared with the first one's. A tiling is row_tiles/others/chunk/at_once\n"
      "(ops/kernels/cuda/attention_tiling.h).");
  flags.Text("ops", "a list with spaces", &o.ops);
  flags.Text("tilings", "a list with spaces, for all ops; without, some for each op", &o.tilings);
  flags.Int("batch", "sequences", &o.batch, 1, 1 << 20);
  flags.Int("heads", "of a token", &o.heads, 1, 1 << 20);
  flags.Int("sequence", "tokens of a sequence", &o.sequence, 1, 1 << 20);
  flags.Int("dim", "dims of a head", &o.dim, 16, 128);
  flags.Choice("causal", "whether a query sees the keys before it alone", &o.causal, {"on", "off"});
  flags.Int("launches", "that are timed at once", &o.launches, 1, 1 << 20);
  flags.Int("repeats", "rounds of these, of which the fastest counts", &o.repeats, 1, 1 << 20);
  MESHWORK_RETURN_IF_ERROR(flags.Parse(argc, argv));
  o.help = flags.help_asked();
  o.help_text = flags.Help();
  return o;
}

#ifdef MESHWORK_HAVE_CUDA

std::vector<std::string> WordsOf(const std::string& text) {
  return absl::StrSplit(text, ' ', absl::SkipEmpty());
}

absl::StatusOr<AttentionTiling> ParseTiling(const std::string& text) {
  const std::vector<std::string> numbers = absl::StrSplit(text, '/');
  AttentionTiling t{};
  int64_t* const fields[] = {&t.row_tiles, &t.others, &t.chunk, &t.at_once};
  bool is_right = numbers.size() == std::size(fields);
  for (size_t i = 0; is_right && i < std::size(fields); ++i)
    is_right = absl::SimpleAtoi(numbers[i], fields[i]) && *fields[i] > 0;
  if (!is_right || t.chunk % 16 != 0 || t.others % t.chunk != 0)
    return InvalidArgument(
        "--tilings: \"{}\" is no row_tiles/others/chunk/at_once, such as 2/64/32/2: chunk is a multiple of 16, and "
        "others is one of chunk.",
        text);
  return t;
}

std::string ToString(const AttentionTiling& t) {
  return fmt::format("{}/{}/{}/{}", t.row_tiles, t.others, t.chunk, t.at_once);
}

// The tilings to measure if no flag gives them.
std::string_view UsualTilings(std::string_view op, int64_t dim) {
  if (dim <= 64) {
    if (op == "attention")
      return "2/64/64/2 2/32/32/2 2/32/32/3 1/64/64/3 1/64/64/4 1/32/32/4 1/64/64/2 2/64/64/1";
    if (op == "attention_grad_q")
      return "2/32/32/2 2/32/16/2 2/64/32/2 1/64/32/3 1/64/64/3 1/32/32/4 1/32/32/3 1/64/16/4";
    return "2/32/16/2 2/64/16/2 2/32/32/2 1/32/16/3 1/64/32/3 1/64/16/3 1/32/32/3 1/64/64/2";
  }
  if (op == "attention") return "1/32/32/3 1/32/32/2 2/32/32/2 2/32/32/1 1/16/16/3";
  if (op == "attention_grad_q") return "1/32/32/2 1/16/16/2 1/32/16/2 1/16/16/3 2/32/16/1";
  return "1/32/16/2 1/16/16/2 1/32/32/2 1/32/32/1 2/16/16/1";
}

// An op, its spec, its operands on the GPU, and its floating-point operations.
struct AttentionOp {
  const OpRow* row;
  KernelSpec spec;
  std::vector<const CudaBuffer*> in;
  double flops;
};

struct TiledKernel {
  AttentionTiling tiling;
  CudaKernel kernel;
  std::shared_ptr<const CudaModule> module;
};

class AttentionBench {
 public:
  static absl::Status Run(const BenchOptions& o) {
    AttentionBench bench(o);
    MESHWORK_RETURN_IF_ERROR(bench.Open());
    fmt::print("{}: b={} s={} h={} d={}, bf16{}\n{:<18} {:>12} {:>10} {:>10}  {}\n", bench.context_->name(),
               o.batch, o.sequence, o.heads, o.dim, o.causal == "on" ? ", causal" : "", "", "tiling", "us",
               "TFLOP/s", "difference");
    for (const std::string& op : WordsOf(o.ops)) MESHWORK_RETURN_IF_ERROR(bench.Measure(op));
    return absl::OkStatus();
  }

 private:
  explicit AttentionBench(const BenchOptions& o)
      : o_(o),
        rows_{BF16, {o.batch, o.sequence, o.heads, o.dim}},
        per_query_{F32, {o.batch, o.sequence, o.heads}} {}

  absl::Status Open() {
    MESHWORK_ASSIGN_OR_RETURN(const CudaApi* const api, LoadCudaApi());
    MESHWORK_ASSIGN_OR_RETURN(context_, CudaContext::Create(*api, 0));
    MESHWORK_ASSIGN_OR_RETURN(stream_, CudaStream::Create(context_));
    Random random(/*seed=*/3, 0);
    std::vector<uint16_t> numbers(static_cast<size_t>(rows_.num_elements()));
    for (CudaBuffer* to : {&q_, &k_, &v_, &slope_}) {
      for (uint16_t& number : numbers)
        number = static_cast<uint16_t>(
            std::bit_cast<uint32_t>(static_cast<float>(4 * random.Uniform() - 2)) >> 16);  // bf16
      MESHWORK_ASSIGN_OR_RETURN(*to, CudaBuffer::Allocate(stream_, rows_.bytes()));
      MESHWORK_RETURN_IF_ERROR(CopyToDevice(*stream_, to->address(), numbers.data(), to->bytes()));
      MESHWORK_RETURN_IF_ERROR(stream_->Synchronize());
    }
    // Gradients are timed and compared with the log-sums of the result, and with random shifts of about the right size.
    MESHWORK_ASSIGN_OR_RETURN(const AttentionOp op, OpOf("attention"));
    MESHWORK_ASSIGN_OR_RETURN(TiledKernel kernel, Compile(op, DefaultAttentionTiling("attention", o_.dim)));
    MESHWORK_ASSIGN_OR_RETURN(std::vector<CudaBuffer> results, ResultsOf(op));
    MESHWORK_RETURN_IF_ERROR(Launch(op, kernel, results));
    log_sums_ = std::move(results[1]);
    std::vector<float> shifts(static_cast<size_t>(per_query_.num_elements()));
    for (float& shift : shifts) shift = static_cast<float>(random.Uniform() - 0.5);
    MESHWORK_ASSIGN_OR_RETURN(shifts_, CudaBuffer::Allocate(stream_, per_query_.bytes()));
    MESHWORK_RETURN_IF_ERROR(CopyToDevice(*stream_, shifts_.address(), shifts.data(), shifts_.bytes()));
    return stream_->Synchronize();
  }

  absl::StatusOr<AttentionOp> OpOf(std::string_view name) const {
    const bool is_grad = name != "attention", of_keys = name == "attention_grad_kv";
    if (is_grad && !of_keys && name != "attention_grad_q")
      return InvalidArgument("--ops: there is no attention \"{}\".", name);
    // Products per pair of a query and a visible key: scores and results, and their gradients.
    const double products = !is_grad ? 2 : of_keys ? 4 : 3, part = o_.causal == "on" ? 0.5 : 1;
    AttentionOp op{.row = &GetOp(name),
                   .spec = {.operands = {},
                            .results = {{rows_, rows_}},
                            .attrs = {{"scale", 1 / std::sqrt(static_cast<double>(o_.dim))},
                                      {"causal", o_.causal == "on"},
                                      {"ring", false}}},
                   .in = {&q_, &k_, &v_},
                   .flops = part * 2 * products * static_cast<double>(rows_.num_elements()) *
                            static_cast<double>(o_.sequence)};
    if (is_grad) op.in.insert(op.in.end(), {&slope_, &log_sums_, &shifts_});
    for (size_t i = 0; i < op.in.size(); ++i) {
      const Type& type = i < 4 ? rows_ : per_query_;
      op.spec.operands.push_back({type, type});
    }
    if (!is_grad) op.spec.results.push_back({per_query_, per_query_});
    if (of_keys) op.spec.results.push_back({rows_, rows_});
    return op;
  }

  absl::StatusOr<TiledKernel> Compile(const AttentionOp& op, const AttentionTiling& tiling) const {
    std::optional<CudaKernel> kernel = MakeCudaAttention(*op.row, op.spec, tiling);
    if (!kernel.has_value())
      return InvalidArgument(
          "{} {}: heads of {} dims take no tensor cores, or more shared memory than there is; choose another tiling.",
          op.row->name, ToString(tiling), o_.dim);
    CudaSource source{.name = fmt::format("{}.cu", op.row->name), .text = CudaSourceOf({&*kernel, 1})};
    for (const std::string_view option : kCudaOptions) source.options.emplace_back(option);
    MESHWORK_ASSIGN_OR_RETURN(std::shared_ptr<const CudaModule> module,
                              CudaModule::Compile(context_, source));
    return TiledKernel{tiling, *std::move(kernel), std::move(module)};
  }

  absl::StatusOr<std::vector<CudaBuffer>> ResultsOf(const AttentionOp& op) const {
    std::vector<CudaBuffer> results;
    for (const TensorSpec& result : op.spec.results) {
      MESHWORK_ASSIGN_OR_RETURN(CudaBuffer buffer, CudaBuffer::Allocate(stream_, result.local.bytes()));
      results.push_back(std::move(buffer));
    }
    return results;
  }

  absl::Status Launch(const AttentionOp& op, const TiledKernel& of, std::span<const CudaBuffer> results,
                      int64_t times = 1) const {
    MESHWORK_ASSIGN_OR_RETURN(const CudaFunction function, of.module->GetKernel(of.kernel.name));
    KernelArguments arguments;
    for (const CudaBuffer* in : op.in) arguments.Add(in->address());
    for (const CudaBuffer& result : results) arguments.Add(result.address());
    for (const CudaKernel::BlockArgument& block : of.kernel.block_arguments)
      for (const int64_t size : op.spec.operands[static_cast<size_t>(block.index)].local.shape) {
        arguments.Add(0LL);
        arguments.Add(static_cast<long long>(size));
      }
    const LaunchShape shape{.grid = {static_cast<unsigned>(of.kernel.blocks)},
                            .block = {static_cast<unsigned>(of.kernel.threads)}};
    for (int64_t i = 0; i < times; ++i) MESHWORK_RETURN_IF_ERROR(function.Launch(*stream_, shape, arguments));
    return absl::OkStatus();
  }

  // All results in bf16, one after the other.
  absl::StatusOr<std::vector<float>> Read(const AttentionOp& op, std::span<const CudaBuffer> results) const {
    std::vector<float> all;
    for (size_t r = 0; r < results.size(); ++r) {
      if (op.spec.results[r].local.dtype != BF16) continue;
      std::vector<uint16_t> numbers(static_cast<size_t>(rows_.num_elements()));
      MESHWORK_RETURN_IF_ERROR(
          CopyToHost(*stream_, numbers.data(), results[r].address(), results[r].bytes()));
      MESHWORK_RETURN_IF_ERROR(stream_->Synchronize());
      for (const uint16_t number : numbers)
        all.push_back(std::bit_cast<float>(static_cast<uint32_t>(number) << 16));
    }
    return all;
  }

  absl::StatusOr<double> Seconds(const AttentionOp& op, const TiledKernel& of,
                                 std::span<const CudaBuffer> results) const {
    MESHWORK_ASSIGN_OR_RETURN(const auto start, CudaEvent::Create(context_, CudaEvent::Kind::kTiming));
    MESHWORK_ASSIGN_OR_RETURN(const auto end, CudaEvent::Create(context_, CudaEvent::Kind::kTiming));
    double best = std::numeric_limits<double>::infinity();
    for (int64_t repeat = 0; repeat < o_.repeats; ++repeat) {
      MESHWORK_RETURN_IF_ERROR(start->Record(*stream_));
      MESHWORK_RETURN_IF_ERROR(Launch(op, of, results, o_.launches));
      MESHWORK_RETURN_IF_ERROR(end->Record(*stream_));
      MESHWORK_RETURN_IF_ERROR(end->Synchronize());
      MESHWORK_ASSIGN_OR_RETURN(const double ms, end->MillisecondsSince(*start));
      best = std::min(best, 1e-3 * ms / static_cast<double>(o_.launches));
    }
    return best;
  }

  absl::Status Measure(std::string_view name) const {
    MESHWORK_ASSIGN_OR_RETURN(const AttentionOp op, OpOf(name));
    std::vector<AttentionTiling> tilings = {DefaultAttentionTiling(name, o_.dim)};
    const std::string list = o_.tilings.empty() ? std::string(UsualTilings(name, o_.dim)) : o_.tilings;
    for (const std::string& text : WordsOf(list)) {
      MESHWORK_ASSIGN_OR_RETURN(const AttentionTiling tiling, ParseTiling(text));
      if (tiling != tilings[0]) tilings.push_back(tiling);
    }
    std::vector<std::future<absl::StatusOr<TiledKernel>>> kernels;
    for (const AttentionTiling& tiling : tilings)
      kernels.push_back(std::async(std::launch::async, [&, tiling] { return Compile(op, tiling); }));
    std::vector<float> expected;
    absl::Status status;
    for (auto& kernel : kernels) {
      const absl::StatusOr<TiledKernel> of = kernel.get();
      if (status.ok()) status = of.ok() ? MeasureTiling(op, *of, expected) : of.status();
    }
    return status;
  }

  // Prints a line. expected: the results of the first tiling; the first call sets it.
  absl::Status MeasureTiling(const AttentionOp& op, const TiledKernel& of,
                             std::vector<float>& expected) const {
    MESHWORK_ASSIGN_OR_RETURN(const std::vector<CudaBuffer> results, ResultsOf(op));
    MESHWORK_RETURN_IF_ERROR(Launch(op, of, results));
    MESHWORK_ASSIGN_OR_RETURN(const std::vector<float> found, Read(op, results));
    if (expected.empty()) expected = found;
    double most = 0, difference = 0;
    bool is_number = true;
    for (size_t i = 0; i < found.size(); ++i) {
      is_number = is_number && std::isfinite(found[i]);
      most = std::max<double>(most, std::abs(expected[i]));
      difference = std::max<double>(difference, std::abs(found[i] - expected[i]));
    }
    MESHWORK_ASSIGN_OR_RETURN(const double seconds, Seconds(op, of, results));
    fmt::print("{:<18} {:>12} {:>10.1f} {:>10.1f}  {:.1e}\n", op.row->name, ToString(of.tiling),
               1e6 * seconds, 1e-12 * op.flops / seconds, difference / most);
    constexpr double kTolerance = 0.02;  // of the largest element, in bf16
    if (is_number && difference <= kTolerance * most) return absl::OkStatus();
    return absl::InternalError(fmt::format("{} {}: the results differ from the first tiling's by {} of {}.",
                                           op.row->name, ToString(of.tiling), difference, most));
  }

  const BenchOptions& o_;
  const Type rows_, per_query_;
  std::shared_ptr<const CudaContext> context_;
  std::shared_ptr<const CudaStream> stream_;
  CudaBuffer q_, k_, v_, slope_, log_sums_, shifts_;
};

absl::Status Main(const BenchOptions& o) { return AttentionBench::Run(o); }

#else

absl::Status Main(const BenchOptions&) { return NoCuda(); }

#endif

}  // namespace
}  // namespace meshwork

int main(int argc, char** argv) {
  return meshwork::MainOf("gpu_attention", meshwork::ParseOptions(argc, argv), meshwork::Main,
                          meshwork::IsNotInternal);
}
