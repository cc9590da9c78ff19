// Pooling and convolution: windows that slide over channels-last images. A thread makes one element of the result, and
// goes through the places of its window (the taps) in their order.
#include <algorithm>
#include <functional>

#include "meshwork/base/status.h"
#include "meshwork/ir/sliding.h"
#include "meshwork/kernels/cuda/families.h"
#include "meshwork/kernels/cuda/text.h"

namespace meshwork::cuda {
namespace {

// The windows of x: [n, in.., c] that make y: [n, out.., o].
struct Windows {
  Slidings dims;
  Shape in, out;  // spatial

  Windows(const KernelSpec& spec, const Shape& x, const Shape& y, const std::vector<int64_t>& filter)
      : dims(SlidingsOf(spec.attrs, x.size() - 2, filter)),
        in(x.begin() + 1, x.end() - 1),
        out(y.begin() + 1, y.end() - 1) {}

  // For each tap whose element of x lies in x: `lines`, where x0, x1, … is its place and `tap` its number. The result's
  // places are y0, y1, …
  std::string OverElements(std::string_view lines) const {
    return Over(lines, [&](size_t d) {
      const Sliding& s = dims[d];
      return fmt::format(
          "const Index x{0} = y{0} * {1} - {2} + t{0} * {3};\nif (x{0} < 0 || x{0} >= {4}) continue;\n", d,
          Whole(s.stride), Whole(s.low), Whole(s.dilation), Whole(in[d]));
    });
  }

  // For each tap by which a result sees the element of x at x0, x1, …: `lines`, where y0, y1, … is the result's place.
  // The block of x may begin between the windows.
  std::string OverResults(std::string_view lines) const {
    std::string text;
    for (size_t d = 0; d < dims.size(); ++d) {
      const Sliding& s = dims[d];
      text += fmt::format("long long low{} = {};\n", d, Whole(s.low));
      // Sliding::LowAt: the window of results begins at (start + low - extent + 1) / stride, rounded up.
      if (s.windowed)
        text += fmt::format(
            "{{\n  const long long before = r0_start{1} + {2} - {3};\n"
            "  low{0} = r0_start{1} + {2} - (before / {4} + (before % {4} > 0 ? 1 : 0)) * {4};\n}}\n",
            d, d + 1, Whole(s.low), Whole(s.extent() - 1), Whole(s.stride));
    }
    return text + Over(lines, [&](size_t d) {
             const Sliding& s = dims[d];
             return fmt::format(
                 "const Index o{0} = x{0} + (Index)low{0} - t{0} * {1};\n"
                 "if (o{0} < 0 || o{0} % {2} != 0 || o{0} / {2} >= {3}) continue;\nconst Index y{0} = o{0} / {2};\n",
                 d, Whole(s.dilation), Whole(s.stride), Whole(out[d]));
           });
  }

  // "n * 96 + x0 * 24 + x1 * 3 + channel": the place of an element of an image of `channels`.
  static std::string PlaceIn(const Shape& sizes, char prefix, int64_t channels, std::string_view channel) {
    std::string place = "n";
    for (size_t d = 0; d < sizes.size(); ++d)
      place = fmt::format("({} * {} + {}{})", place, Whole(sizes[d]), prefix, d);
    return fmt::format("{} * {} + {}", place, Whole(channels), channel);
  }

 private:
  std::string Over(std::string_view lines, const std::function<std::string(size_t)>& step) const {
    std::string tap = "t0";
    for (size_t d = 1; d < dims.size(); ++d)
      tap = fmt::format("({} * {} + t{})", tap, Whole(dims[d].filter), d);
    std::string text = fmt::format("const Index tap = {};\n{}", tap, lines);
    for (size_t d = dims.size(); d-- > 0;)
      text = fmt::format("for (Index t{0} = 0; t{0} < {1}; ++t{0}) {{\n{2}}}\n", d, Whole(dims[d].filter),
                         Indented(step(d) + text));
    return text;
  }
};

// n, <prefix>0, … and channel: the place of element i of an image.
std::string ImagePlaces(const Shape& shape, char prefix) {
  std::string lines = PlacesAlong(shape, "i", "p");
  lines += "const Index n = p0;\n";
  for (size_t d = 0; d + 2 < shape.size(); ++d)
    lines += fmt::format("const Index {}{} = p{};\n", prefix, d, d + 1);
  return lines + fmt::format("const Index channel = p{};\n", shape.size() - 1);
}

// ---- Pooling.

struct Pooling {
  const OpRow& row;
  const KernelSpec& spec;
  DType dtype;
  bool is_forward;  // the result is y, else x
  Windows windows;
  int64_t channels;

  Pooling(const OpRow& row, const KernelSpec& spec, bool is_forward)
      : row(row),
        spec(spec),
        dtype(spec.results[0].local.dtype),
        is_forward(is_forward),
        windows(spec, X().shape, Y().shape, spec.attrs.Get<std::vector<int64_t>>("window")),
        channels(X().shape.back()) {}

  const Type& X() const { return is_forward ? spec.operands[0].local : spec.results[0].local; }
  const Type& Y() const { return is_forward ? spec.results[0].local : spec.operands[0].local; }

  // `start`, then for each seen element `lines`, where `at` is its place, then `end`.
  CudaKernel Make(std::string_view start, std::string_view lines, std::string_view end) const {
    const char own = is_forward ? 'y' : 'x', seen = is_forward ? 'x' : 'y';
    KernelText text = TextOf(row, spec);
    TakeBlock(text, spec, /*is_result=*/true, 0);
    const std::string at =
        fmt::format("const Index at = {};\n",
                    Windows::PlaceIn(is_forward ? windows.in : windows.out, seen, channels, "channel"));
    const std::string visited = at + std::string(lines);
    return ForEach(std::move(text), spec.results[0].local.num_elements(),
                   ImagePlaces(spec.results[0].local.shape, own) + std::string(start) +
                       (is_forward ? windows.OverElements(visited) : windows.OverResults(visited)) +
                       std::string(end));
  }
  std::string Zero() const { return fmt::format("{} all = 0;\n", ComputeName(dtype)); }
  std::string Stored() const { return fmt::format("r0[i] = {};\n", Rounded(dtype, "all")); }
};

CudaKernel SumPoolOf(const Pooling& p) {
  return p.Make(p.Zero(), fmt::format("all += {};\n", Loaded(p.dtype, "a0[at]")), p.Stored());
}
CudaKernel SumPool(const OpRow& row, const KernelSpec& spec) { return SumPoolOf(Pooling(row, spec, true)); }
CudaKernel SumPoolGrad(const OpRow& row, const KernelSpec& spec) {
  return SumPoolOf(Pooling(row, spec, false));
}

CudaKernel MaxPool(const OpRow& row, const KernelSpec& spec) {
  const Pooling p(row, spec, true);
  return p.Make(
      fmt::format("{0} all = Limits<{0}>::Least();\nint place = -1;\n", ComputeName(p.dtype)),
      fmt::format(
          "const {} value = {};\n"
          "if (value > all || (value != value && all == all)) {{\n  all = value;\n  place = (int)tap;\n}}\n",
          ComputeName(p.dtype), Loaded(p.dtype, "a0[at]")),
      p.Stored() + "r1[i] = place;\n");
}
CudaKernel MaxPoolGrad(const OpRow& row, const KernelSpec& spec) {
  const Pooling p(row, spec, false);
  return p.Make(
      p.Zero(),
      fmt::format("all += a1[at] == tap ? {0} : ({1})0;\n", Loaded(p.dtype, "a0[at]"), ComputeName(p.dtype)),
      p.Stored());
}
CudaKernel MaxPoolAt(const OpRow& row, const KernelSpec& spec) {
  const Pooling p(row, spec, true);
  return p.Make(p.Zero(), fmt::format("if (a1[i] == tap) all = {};\n", Loaded(p.dtype, "a0[at]")),
                p.Stored());
}

// ---- Convolution: y[n,r,o] sums x[n, r strides - low + k dilation, c] w[k,c,o] over k and the c of o's group.

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

CudaKernel Conv(const OpRow& row, const KernelSpec& spec) {
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

CudaKernel ConvInputGrad(const OpRow& row, const KernelSpec& spec) {
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

// A thread goes through all images and results, for one element of the filter.
CudaKernel ConvFilterGrad(const OpRow& row, const KernelSpec& spec) {
  const Type& w = spec.results[0].local;
  const Shape& y = spec.operands[1].local.shape;
  const Convolution c(spec, spec.operands[0].local.shape, w.shape, y);
  const size_t spatial = w.shape.size() - 2;
  std::string lines = PlacesAlong(w.shape, "i", "p");
  lines += fmt::format("const Index channel = p{}, in = channel / {} * {} + p{};\n{} all = 0;\n", spatial + 1,
                       AtLeastOneOf(c.out_group()), Whole(c.in_group()), spatial, ComputeName(w.dtype));
  std::string inner =
      fmt::format("all = MultiplyAdd({}, {}, all);\n", Loaded(w.dtype, fmt::format("a0[{}]", c.X("in"))),
                  Loaded(w.dtype, fmt::format("a1[{}]", c.Y("channel"))));
  for (size_t d = spatial; d-- > 0;) {
    const Sliding& s = c.windows.dims[d];
    inner = fmt::format(
        "for (Index y{0} = 0; y{0} < {1}; ++y{0}) {{\n  const Index x{0} = y{0} * {2} - {3} + p{0} * {4};\n"
        "  if (x{0} < 0 || x{0} >= {5}) continue;\n{6}}}\n",
        d, Whole(y[d + 1]), Whole(s.stride), Whole(s.low), Whole(s.dilation), Whole(c.windows.in[d]),
        Indented(inner));
  }
  lines += fmt::format("for (Index n = 0; n < {}; ++n) {{\n{}}}\nr0[i] = {};\n", Whole(y[0]), Indented(inner),
                       Rounded(w.dtype, "all"));
  return ForEach(TextOf(row, spec), w.num_elements(), lines);
}

}  // namespace

std::span<const Generator> WindowKernels() {
  static constexpr Generator kGenerators[] = {
      {"max_pool", MaxPool},
      {"max_pool_grad", MaxPoolGrad},
      {"max_pool_at", MaxPoolAt},
      {"sum_pool", SumPool},
      {"sum_pool_grad", SumPoolGrad},
      {"conv", Conv},
      {"conv_input_grad", ConvInputGrad},
      {"conv_filter_grad", ConvFilterGrad},
  };
  return kGenerators;
}

}  // namespace meshwork::cuda
