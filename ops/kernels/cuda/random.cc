// Random values, with the bits of ops/kernels/philox.cc: an element is a function of the seed, the stream and its index
// in the whole tensor (ops/random.cc).
#include <cmath>

#include "meshwork/base/status.h"
#include "meshwork/ops/kernels/cuda/families.h"
#include "meshwork/ops/kernels/cuda/text.h"

namespace meshwork::cuda {
namespace {

std::string Unsigned(int64_t x) { return fmt::format("{}ULL", static_cast<uint64_t>(x)); }

// `number`: an expression of `block`, the element's random bits, to be rounded to the result's dtype.
CudaKernel Drawn(const OpRow& row, const KernelSpec& spec, std::string_view lines, std::string_view element) {
  const Type& result = spec.results[0].local;
  KernelText text = TextOf(row, spec);
  TakeBlock(text, spec, /*is_result=*/true, 0);
  const bool is_placed = spec.attrs.Get<bool>("placed");
  const size_t keys = spec.operands.size() - (is_placed ? 3 : 0);
  std::string seed = Unsigned(spec.attrs.Get<int64_t>("seed"));
  for (size_t o = 0; o < keys; ++o) seed = fmt::format("SeedOfStep({}, (unsigned long long)a{}[0])", seed, o);
  std::string body = PlacesAlong(result.shape, "i", "p");
  body += fmt::format("const unsigned long long seed = {};\nunsigned long long index = 0;\n", seed);
  const auto add_dim = [&](size_t d) {
    body += fmt::format("index = index * {1} + (unsigned long long)(r0_start{0} + p{0});\n", d,
                        Unsigned(spec.results[0].global.shape[d]));
  };
  if (!result.shape.empty()) add_dim(0);
  // The row of the whole tensor.
  if (is_placed)
    body += fmt::format(
        "index = ((unsigned long long)a{}[0] * {} + index) * (unsigned long long)a{}[0] + (unsigned long "
        "long)a{}[0];\n",
        keys, Unsigned(result.shape.empty() ? 1 : spec.results[0].global.shape[0]), keys + 2, keys + 1);
  for (size_t d = 1; d < result.shape.size(); ++d) add_dim(d);
  body += fmt::format("const Philox block = PhiloxAt(seed, {}, index);\n{}r0[i] = {};\n",
                      Unsigned(spec.attrs.Get<int64_t>("stream")), lines, element);
  return ForEach(std::move(text), result.num_elements(), body);
}

// The number before `high`, seen from `low`, in the type that is drawn.
double Before(DType dtype, double high, double low) {
  if (dtype == F64) return std::nextafter(high, low);
  return std::nextafter(static_cast<float>(high), static_cast<float>(low));
}

CudaKernel Uniform(const OpRow& row, const KernelSpec& spec) {
  const DType dtype = spec.results[0].local.dtype, drawn = dtype == F64 ? F64 : F32;
  double low = spec.attrs.Get<double>("low"), high = spec.attrs.Get<double>("high");
  if (dtype == BF16) {
    low = BFloat16(static_cast<float>(low));
    high = BFloat16(static_cast<float>(high));
  }
  const std::string_view type = ComputeName(drawn);
  const std::string first = Number(drawn, low), end = Number(drawn, high);
  std::string lines = fmt::format("const {0} x = UniformWithin<{0}>(block, {1}, {2} - {1}, {3});\n", type,
                                  first, end, Number(drawn, Before(drawn, high, low)));
  if (dtype != BF16 || !(low < high)) return Drawn(row, spec, lines, Rounded(dtype, "x"));
  // Rounded to bf16, a value may reach the upper end, which it cannot in the type that is drawn; it then becomes the
  // largest bf16 below the end.
  BFloat16 below(static_cast<float>(high));
  if (high == 0) below.bits = 0x8001;
  else below.bits = static_cast<uint16_t>(high > 0 ? below.bits - 1 : below.bits + 1);
  lines += fmt::format("const unsigned short rounded = ToBf16(x);\n");
  return Drawn(row, spec, lines,
               fmt::format("FromBf16(rounded) >= {} ? (unsigned short){} : rounded", end, below.bits));
}

CudaKernel NormalBy(const OpRow& row, const KernelSpec& spec, std::string_view function) {
  const DType dtype = spec.results[0].local.dtype, drawn = dtype == F64 ? F64 : F32;
  return Drawn(
      row, spec, "",
      Rounded(dtype,
              fmt::format("{} + {} * ({}){}(block)", Number(drawn, spec.attrs.Get<double>("mean")),
                          Number(drawn, spec.attrs.Get<double>("stddev")), ComputeName(drawn), function)));
}
CudaKernel Normal(const OpRow& row, const KernelSpec& spec) { return NormalBy(row, spec, "NormalOf"); }
CudaKernel TruncatedNormal(const OpRow& row, const KernelSpec& spec) {
  return NormalBy(row, spec, "TruncatedNormalOf");
}

CudaKernel Bernoulli(const OpRow& row, const KernelSpec& spec) {
  const DType dtype = spec.results[0].local.dtype;
  return Drawn(
      row, spec,
      fmt::format("const bool is_one = UniformOf(block, 0.0) < {};\n", Real(spec.attrs.Get<double>("p"))),
      Rounded(dtype, fmt::format("({})is_one", ComputeName(dtype))));
}

CudaKernel WholeNumbers(const OpRow& row, const KernelSpec& spec) {
  const int64_t low = spec.attrs.Get<int64_t>("low"), high = spec.attrs.Get<int64_t>("high");
  const uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  return Drawn(
      row, spec, "",
      Rounded(spec.results[0].local.dtype, fmt::format("WholeOf(block, {}, {}ULL)", Whole(low), range)));
}

}  // namespace

std::span<const Generator> RandomKernels() {
  static constexpr Generator kGenerators[] = {
      {"random_uniform", Uniform},
      {"random_normal", Normal},
      {"random_truncated_normal", TruncatedNormal},
      {"random_bernoulli", Bernoulli},
      {"random_int", WholeNumbers},
  };
  return kGenerators;
}

}  // namespace meshwork::cuda
