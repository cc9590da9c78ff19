// Convolutions as products of matrices in tiles. Where groups have few channels, a thread makes one element of the result.
#include <algorithm>

#include "meshwork/base/status.h"
#include "meshwork/ops/kernels/cuda/families.h"
#include "meshwork/ops/kernels/cuda/windows.h"

namespace meshwork::cuda {
namespace {

// y[n,r,o] sums x[n, r strides - low + k dilation, c] w[k,c,o] over k and the c of o's group.

struct Convolution {
  Windows windows;
  int64_t in_channels, out_channels, groups;

  Convolution(const KernelSpec& spec, const Shape& x, const Shape& w, const Shape& y)
      : windows(spec, x, y, std::vector<int64_t>(w.begin(), w.end() - 2)),
        in_channels(x.back()),
        out_channels(y.back()),
        groups(spec.attrs.Get<int64_t>("groups")) {}

  int64_t in_group() const { return in_channels / groups; }
  int64_t out_group() const { return out_channels / groups; }
  std::string X(std::string_view channel) const {
    return Windows::PlaceIn(windows.in, 'x', in_channels, channel);
  }
  std::string Y(std::string_view channel) const {
    return Windows::PlaceIn(windows.out, 'y', out_channels, channel);
  }
};

std::string AtLeastOneOf(int64_t x) { return Whole(std::max<int64_t>(x, 1)); }

// ---- A thread for each element of the result: for groups of few channels.

CudaKernel ConvByElements(const OpRow& row, const KernelSpec& spec) {
  const Type& y = spec.results[0].local;
  const Convolution c(spec, spec.operands[0].local.shape, spec.operands[1].local.shape, y.shape);
  const std::string lines = fmt::format(
      "for (Index c = 0; c < {0}; ++c)\n  all = MultiplyAdd({1}, {2}, all);\n", Whole(c.in_group()),
      Loaded(y.dtype,
             fmt::format("a0[{}]", c.X(fmt::format("channel / {} * {} + c", AtLeastOneOf(c.out_group()),
                                                   Whole(c.in_group()))))),
      Loaded(y.dtype,
             fmt::format("a1[(tap * {} + c) * {} + channel]", Whole(c.in_group()), Whole(c.out_channels))));
  return ForEach(TextOf(row, spec), y.num_elements(),
                 fmt::format("{}{} all = 0;\n{}r0[i] = {};\n", ImagePlaces(y.shape, 'y'),
                             ComputeName(y.dtype), c.windows.OverElements(lines), Rounded(y.dtype, "all")));
}

CudaKernel ConvInputGradByElements(const OpRow& row, const KernelSpec& spec) {
  const Type& x = spec.results[0].local;
  const Convolution c(spec, x.shape, spec.operands[1].local.shape, spec.operands[0].local.shape);
  KernelText text = TextOf(row, spec);
  TakeBlock(text, spec, /*is_result=*/true, 0);
  const std::string lines = fmt::format(
      "for (Index o = first; o < first + {0}; ++o)\n  all = MultiplyAdd({1}, {2}, all);\n",
      Whole(c.out_group()), Loaded(x.dtype, fmt::format("a0[{}]", c.Y("o"))),
      Loaded(x.dtype, fmt::format("a1[(tap * {0} + channel % {1}) * {2} + o]", Whole(c.in_group()),
                                  AtLeastOneOf(c.in_group()), Whole(c.out_channels))));
  return ForEach(std::move(text), x.num_elements(),
                 fmt::format("{}const Index first = channel / {} * {};\n{} all = 0;\n{}r0[i] = {};\n",
                             ImagePlaces(x.shape, 'x'), AtLeastOneOf(c.in_group()), Whole(c.out_group()),
                             ComputeName(x.dtype), c.windows.OverResults(lines), Rounded(x.dtype, "all")));
}

// ---- Products of matrices in tiles, whose elements are found in the images (implicit matrix products).

// A product [m,k] x [k,n] for each group. `a` and `b` are lines that return an element of the operand at m, k and k, n.
struct GroupProduct {
  int64_t m, n, k;
  std::string before;    // lines at the start
  std::string a, b, at;  // `at`: the place of m, n in the result
  bool a_by_k, b_by_k;   // along which dim neighbours lie in memory
  bool is_long;          // k is much larger than m and n
};

CudaKernel Multiply(KernelText text, const GroupProduct& p, DType dtype, int64_t groups) {
  constexpr std::string_view kLines = R"(__shared__ {type} tiles[{numbers}];
{before}const Index group = (Index)blockIdx.x % {groups}, tile = (Index)blockIdx.x / {groups};
const auto a_of = [&](Index m, Index k) -> {type} {{
{a}}};
const auto b_of = [&](Index k, Index n) -> {type} {{
{b}}};
const auto store = [&](Index m, Index n, {type} sum) {{ r0[{at}] = {rounded}; }};
MultiplyTiled<{tile_m}, {tile_n}, {tile_k}, {slices}, {a_by_k}, {b_by_k}, {type}>(
    (Index){m}, (Index){n}, (Index){k}, tile / {tiles_n} * {tile_m}, tile % {tiles_n} * {tile_n}, tiles, a_of, b_of, store);
)";
  // 256 threads, each with 4 x 4 results; for long sums, each with a part of the terms.
  const int64_t tile_n = p.is_long   ? (p.m <= 16 || p.n <= 16 ? 16 : 32)
                         : p.n <= 16 ? 16
                         : p.n <= 32 ? 32
                                     : 64;
  const int64_t tile_m = p.is_long ? tile_n : 4096 / tile_n;
  const int64_t slices = 4096 / (tile_m * tile_n);
  const int64_t tile_k = !p.is_long ? 16 : tile_n == 32 ? 64 : dtype == F64 ? 128 : 256;
  const int64_t numbers = std::max(tile_k * (tile_m + tile_n + 8), slices > 1 ? int64_t{4096} : 0);
  const int64_t tiles_m = (p.m + tile_m - 1) / tile_m, tiles_n = (p.n + tile_n - 1) / tile_n;
  text.threads = 256;
  text.blocks = groups * tiles_m * tiles_n;
  text.most_elements = std::max({p.m + tile_m, p.n + tile_n, p.k + tile_k, text.blocks});
  text.body = Indented(fmt::format(
      kLines, fmt::arg("type", ComputeName(dtype)), fmt::arg("numbers", numbers),
      fmt::arg("before", p.before), fmt::arg("groups", AtLeastOneOf(groups)), fmt::arg("a", Indented(p.a)),
      fmt::arg("b", Indented(p.b)), fmt::arg("at", p.at), fmt::arg("rounded", Rounded(dtype, "sum")),
      fmt::arg("tile_m", tile_m), fmt::arg("tile_n", tile_n), fmt::arg("tile_k", tile_k),
      fmt::arg("slices", slices), fmt::arg("a_by_k", p.a_by_k), fmt::arg("b_by_k", p.b_by_k),
      fmt::arg("m", Whole(p.m)), fmt::arg("n", Whole(p.n)), fmt::arg("k", Whole(p.k)),
      fmt::arg("tiles_n", AtLeastOneOf(tiles_n))));
  return Finish(text);
}

// With fewer channels in a group, most of a tile would be empty.
constexpr int64_t kFewChannels = 4;

// The sizes of an image without its channels; and those of a filter with the channels of a group.
Shape PositionsOf(const Shape& image) { return {image.begin(), image.end() - 1}; }
Shape TapsOf(const Shape& w, int64_t channels) {
  Shape sizes(w.begin(), w.end() - 2);
  sizes.push_back(channels);
  return sizes;
}

// The lines that return the element of x (operand 0) that result n, y0, … meets at tap t0, …; 0 outside of x.
std::string ElementOfX(const Convolution& c, DType dtype, size_t spatial) {
  std::string lines = "const Index n = p0;\n";
  for (size_t d = 0; d < spatial; ++d) {
    const Sliding& s = c.windows.dims[d];
    lines += fmt::format(
        "const Index x{0} = p{1} * {2} - {3} + t{0} * {4};\nif (x{0} < 0 || x{0} >= {5}) return 0;\n", d,
        d + 1, Whole(s.stride), Whole(s.low), Whole(s.dilation), Whole(c.windows.in[d]));
  }
  return lines +
         fmt::format("return {};\n",
                     Loaded(dtype, fmt::format("a0[{}]", c.X(fmt::format("group * {} + t{}",
                                                                         Whole(c.in_group()), spatial)))));
}

CudaKernel Conv(const OpRow& row, const KernelSpec& spec) {
  const Type& y = spec.results[0].local;
  const Shape& w = spec.operands[1].local.shape;
  const Convolution c(spec, spec.operands[0].local.shape, w, y.shape);
  if (c.out_group() < kFewChannels) return ConvByElements(row, spec);
  const size_t spatial = w.size() - 2;
  const Shape positions = PositionsOf(y.shape), taps = TapsOf(w, c.in_group());
  const std::string at_n = fmt::format("* {} + group * {} + n", Whole(c.out_channels), Whole(c.out_group()));
  return Multiply(
      TextOf(row, spec),
      {.m = NumElements(positions),
       .n = c.out_group(),
       .k = NumElements(taps),
       .before = "",
       .a = PlacesAlong(positions, "m", "p") + PlacesAlong(taps, "k", "t") + ElementOfX(c, y.dtype, spatial),
       .b = fmt::format("return {};\n", Loaded(y.dtype, fmt::format("a1[k {}]", at_n))),
       .at = fmt::format("m {}", at_n),
       .a_by_k = true,
       .b_by_k = false,
       .is_long = false},
      y.dtype, c.groups);
}

CudaKernel ConvInputGrad(const OpRow& row, const KernelSpec& spec) {
  const Type& x = spec.results[0].local;
  const Shape& w = spec.operands[1].local.shape;
  const Convolution c(spec, x.shape, w, spec.operands[0].local.shape);
  if (c.in_group() < kFewChannels) return ConvInputGradByElements(row, spec);
  const size_t spatial = w.size() - 2;
  const Shape positions = PositionsOf(x.shape), taps = TapsOf(w, c.out_group());
  std::string element = "const Index n = p0;\n";
  for (size_t d = 0; d < spatial; ++d) {
    const Sliding& s = c.windows.dims[d];
    element += fmt::format(
        "const Index o{0} = p{1} + (Index)low{0} - t{0} * {2};\n"
        "if (o{0} < 0 || o{0} % {3} != 0 || o{0} / {3} >= {4}) return 0;\nconst Index y{0} = o{0} / {3};\n",
        d, d + 1, Whole(s.dilation), Whole(s.stride), Whole(c.windows.out[d]));
  }
  element += fmt::format(
      "return {};\n",
      Loaded(x.dtype,
             fmt::format("a0[{}]", c.Y(fmt::format("group * {} + t{}", Whole(c.out_group()), spatial)))));
  KernelText text = TextOf(row, spec);
  TakeBlock(text, spec, /*is_result=*/true, 0);
  return Multiply(
      std::move(text),
      {.m = NumElements(positions),
       .n = c.in_group(),
       .k = NumElements(taps),
       .before = c.windows.Lows(),
       .a = PlacesAlong(positions, "m", "p") + PlacesAlong(taps, "k", "t") + element,
       .b = fmt::format("return {};\n",
                        Loaded(x.dtype, fmt::format("a1[(k / {0} * {1} + n) * {2} + group * {0} + k % {0}]",
                                                    AtLeastOneOf(c.out_group()), Whole(c.in_group()),
                                                    Whole(c.out_channels)))),
       .at = fmt::format("m * {} + group * {} + n", Whole(c.in_channels), Whole(c.in_group())),
       .a_by_k = true,
       .b_by_k = true,
       .is_long = false},
      x.dtype, c.groups);
}

CudaKernel ConvFilterGrad(const OpRow& row, const KernelSpec& spec) {
  const Type& w = spec.results[0].local;
  const Shape& y = spec.operands[1].local.shape;
  const Convolution c(spec, spec.operands[0].local.shape, w.shape, y);
  const size_t spatial = w.shape.size() - 2;
  const Shape positions = PositionsOf(y), taps = TapsOf(w.shape, c.in_group());
  const std::string at_n = fmt::format("* {} + group * {} + n", Whole(c.out_channels), Whole(c.out_group()));
  return Multiply(
      TextOf(row, spec),
      {.m = NumElements(taps),
       .n = c.out_group(),
       .k = NumElements(positions),
       .before = "",
       .a = PlacesAlong(positions, "k", "p") + PlacesAlong(taps, "m", "t") + ElementOfX(c, w.dtype, spatial),
       .b = fmt::format("return {};\n", Loaded(w.dtype, fmt::format("a1[k {}]", at_n))),
       .at = fmt::format("m {}", at_n),
       .a_by_k = false,
       .b_by_k = false,
       .is_long = true},
      w.dtype, c.groups);
}

}  // namespace

std::span<const Generator> ConvolutionKernels() {
  static constexpr Generator kGenerators[] = {
      {"conv", Conv},
      {"conv_input_grad", ConvInputGrad},
      {"conv_filter_grad", ConvFilterGrad},
  };
  return kGenerators;
}

}  // namespace meshwork::cuda
