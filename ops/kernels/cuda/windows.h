// Text about windows that slide over channels-last images, for pooling and convolution.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/ir/sliding.h"
#include "meshwork/ops/kernels/cuda/text.h"

namespace meshwork::cuda {

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
    return Lows() + Over(lines, [&](size_t d) {
             const Sliding& s = dims[d];
             return fmt::format(
                 "const Index o{0} = x{0} + (Index)low{0} - t{0} * {1};\n"
                 "if (o{0} < 0 || o{0} % {2} != 0 || o{0} / {2} >= {3}) continue;\nconst Index y{0} = o{0} / {2};\n",
                 d, Whole(s.dilation), Whole(s.stride), Whole(out[d]));
           });
  }

  // "long long low0 = …;": Sliding::LowAt of each dim, for the block of result 0.
  std::string Lows() const {
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
    return text;
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
inline std::string ImagePlaces(const Shape& shape, char prefix) {
  std::string lines = PlacesAlong(shape, "i", "p");
  lines += "const Index n = p0;\n";
  for (size_t d = 0; d + 2 < shape.size(); ++d)
    lines += fmt::format("const Index {}{} = p{};\n", prefix, d, d + 1);
  return lines + fmt::format("const Index channel = p{};\n", shape.size() - 1);
}

}  // namespace meshwork::cuda
