// LineChart draws series of numbers as one SVG file that reads well on light and on dark pages (base/svg.h).
//
//   LineChart chart{.title = "MLP on MNIST", .x_label = "step"};
//   chart.panels.push_back({.title = "Loss",
//                           .series = {{.name = "train", .points = losses, .style = LineStyle::kFaint},
//                                      {.name = "train, mean of 25", .points = MovingMean(losses, 25)},
//                                      {.name = "test", .points = tests, .style = LineStyle::kMarked}}});
//   MESHWORK_RETURN_IF_ERROR(WriteFileAtomically("loss.svg", chart.ToSvg()));
//
// Panels stand side by side and share the x axis. Each line except the faint ones has its last value written
// beside it. A value that is not finite, or beyond 10^300, is a gap in its line, and the panel says how many
// such values there were; a panel without any value says so. The file stays small however many points there
// are: of the points that share a pixel only the extremes are drawn.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "meshwork/base/svg.h"

namespace meshwork {

enum class LineStyle : uint8_t {
  kLine,
  kFaint,   // thin and pale: raw values behind their mean
  kMarked,  // dots at the points, and dashes in between, where no values are known
};

struct Series {
  std::string name = {};              // in the legend
  std::vector<SvgPoint> points = {};  // by ascending x
  LineStyle style = LineStyle::kLine;
  int paint = 0;  // see SeriesPaint; series that belong together share one
};

struct Panel {
  std::string title = {};
  std::vector<Series> series = {};
  bool log = false;  // the y axis is logarithmic; values that are not positive are gaps then
};

struct LineChart {
  std::string title = {};
  std::string note = {};  // beside the title
  std::string x_label = {};
  std::vector<Panel> panels = {};

  std::string ToSvg() const;
};

// For each point the mean of the finite ones among `window` points around it; a point that is not finite
// stays as it is. Near the start the window has as many points after a point as before it, so that the line
// starts where its points do; near the end it has as many as there are. A window below 1 counts as 1. Laws:
// MovingMean(p, 1) == p; a constant stays constant.
std::vector<SvgPoint> MovingMean(std::span<const SvgPoint> points, int64_t window);

// The ticks and labels of an axis, from its low end to its high end.
struct Ticks {
  std::vector<double> values;  // ascending, at least two
  std::vector<std::string> labels;
  bool log = false;

  double low() const { return values.front(); }
  double high() const { return values.back(); }
};

// Ticks at multiples of a step that is 1, 2 or 5 times a power of ten: the smallest such step of which at
// most `most` cover [low, high] and which is at least `finest` (for example 1, for counts). If low == high,
// ticks around it.
// REQUIRES: low <= high, both at most 2·10^300 in size; most >= 2. Laws, up to rounding: ticks are evenly
// spaced; low() <= low and high <= high(); without its first or its last tick the axis would be too short,
// unless low == high.
Ticks RoundTicks(double low, double high, int most, double finest = 0);

// The same for a logarithmic axis: 1, 2 and 5 times each power of ten; if that makes more than `most` steps,
// powers of ten, or every second, third, … of them. REQUIRES: 0 < low <= high <= 2·10^300; most >= 3.
Ticks LogTicks(double low, double high, int most);

}  // namespace meshwork
