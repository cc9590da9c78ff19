#include "meshwork/train/log/plot.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "meshwork/base/status.h"

namespace meshwork {
namespace {

constexpr double kPanelWidth = 400, kPlotHeight = 230;
constexpr double kLeft = 56, kRight = 54;  // of a panel: room for ticks and for last values
constexpr double kTop = 82, kBottom = 58;  // room for title and legend; for ticks and x label
constexpr double kLegendLine = 16, kSmall = 11;

bool Drawable(const SvgPoint& p) {
  return std::abs(p.x) <= 1e300 && std::abs(p.y) <= 1e300;
}  // no NaN either
bool Drawable(const SvgPoint& p, bool log) { return Drawable(p) && (!log || p.y > 0); }

// The ticks of an axis without values.
Ticks NoTicks() { return {{0, 1}, {"0", "1"}}; }

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  void Add(double x) {
    low = std::min(low, x);
    high = std::max(high, x);
  }
  bool empty() const { return low > high; }
};

// Ticks and the pixels they lie on.
struct PageAxis {
  Ticks ticks;
  double from, to;  // where the low and the high end are

  double At(double value) const {
    if (ticks.log) return At(std::log(ticks.low()), std::log(ticks.high()), std::log(value));
    return At(ticks.low(), ticks.high(), value);
  }

 private:
  // By halves: the difference of the ends may be beyond the largest number.
  double At(double low, double high, double value) const {
    return from + (value / 2 - low / 2) / (high / 2 - low / 2) * (to - from);
  }
};

// The runs of a line between its gaps, on the page. Of neighbouring points within half a pixel, only the
// first, the last and the extremes stay.
std::vector<std::vector<SvgPoint>> Runs(const std::vector<SvgPoint>& points, const PageAxis& x,
                                        const PageAxis& y) {
  constexpr double kColumn = 0.5;
  std::vector<std::vector<SvgPoint>> runs(1);
  std::vector<SvgPoint> column;
  const auto flush = [&] {
    if (column.empty()) return;
    const auto [low, high] = std::minmax_element(
        column.begin(), column.end(), [](const SvgPoint& a, const SvgPoint& b) { return a.y < b.y; });
    std::vector<std::ptrdiff_t> kept = {0, low - column.begin(), high - column.begin(),
                                        std::ssize(column) - 1};
    std::sort(kept.begin(), kept.end());
    kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
    for (const std::ptrdiff_t i : kept) runs.back().push_back(column[static_cast<size_t>(i)]);
    column.clear();
  };
  for (const SvgPoint& p : points) {
    if (!Drawable(p, y.ticks.log)) {
      flush();
      if (!runs.back().empty()) runs.emplace_back();
      continue;
    }
    const SvgPoint at{x.At(p.x), y.At(p.y)};
    if (!column.empty() && at.x - column.front().x >= kColumn) flush();
    column.push_back(at);
  }
  flush();
  if (runs.back().empty()) runs.pop_back();
  return runs;
}

class ChartDrawer {
 public:
  explicit ChartDrawer(const LineChart& chart)
      : chart_(chart),
        svg_(Width(chart), kTop + LegendHeight(chart) + kPlotHeight + kBottom, chart.title,
             Description(chart)),
        top_(kTop + LegendHeight(chart)) {}

  std::string Draw() {
    const SvgFont heading{.size = 15, .bold = true};
    svg_.Text({16, 28}, chart_.title, heading);
    svg_.Text({16 + Svg::TextWidth(chart_.title, heading) + 12, 28}, chart_.note, {.paint = Paint::kMuted});
    Range x;
    bool whole = true;
    for (const Panel& panel : chart_.panels) {
      for (const Series& series : panel.series) {
        for (const SvgPoint& p : series.points) {
          if (!Drawable(p)) continue;
          x.Add(p.x);
          whole &= p.x == std::floor(p.x);
        }
      }
    }
    const Ticks ticks = x.empty() ? NoTicks() : RoundTicks(x.low, x.high, 8, whole ? 1 : 0);
    for (size_t i = 0; i < chart_.panels.size(); ++i)
      DrawPanel(chart_.panels[i], static_cast<double>(i) * kPanelWidth, ticks);
    return svg_.ToString();
  }

 private:
  static double Width(const LineChart& chart) {
    return static_cast<double>(std::max<size_t>(chart.panels.size(), 1)) * kPanelWidth;
  }

  // "Loss: train (40 points, last 0.12), test (3 points, last 0.2)."
  static std::string Description(const LineChart& chart) {
    std::string text;
    for (const Panel& panel : chart.panels) {
      text += fmt::format("{}{}: ", text.empty() ? "" : " ", panel.title);
      for (size_t s = 0; s < panel.series.size(); ++s) {
        const Series& series = panel.series[s];
        text += fmt::format("{}{} ({} points", s == 0 ? "" : ", ", series.name, series.points.size());
        if (!series.points.empty()) {
          const double last = series.points.back().y;
          text += std::isfinite(last) ? fmt::format(", last {:.4g}", last) : ", last not finite";
        }
        text += ")";
      }
      text += ".";
    }
    return text;
  }

  struct Entry {
    const Series* series;
    double x;
    int line;
  };
  static constexpr double kSwatch = 22;

  static std::vector<Entry> Legend(const Panel& panel) {
    std::vector<Entry> entries;
    double x = kLeft;
    int line = 0;
    for (const Series& series : panel.series) {
      const double width = kSwatch + 6 + Svg::TextWidth(series.name) + 14;
      if (x > kLeft && x + width > kPanelWidth) {
        x = kLeft;
        ++line;
      }
      entries.push_back({&series, x, line});
      x += width;
    }
    return entries;
  }

  // The height of the legend beyond its first line.
  static double LegendHeight(const LineChart& chart) {
    int lines = 0;
    for (const Panel& panel : chart.panels)
      for (const Entry& entry : Legend(panel)) lines = std::max(lines, entry.line);
    return lines * kLegendLine;
  }

  static SvgStyle StyleOf(const Series& series) {
    const Paint paint = SeriesPaint(series.paint);
    if (series.style == LineStyle::kFaint) return {.stroke = paint, .width = 1, .stroke_opacity = 0.35};
    const bool marked = series.style == LineStyle::kMarked;
    return {.stroke = paint, .width = marked ? 1.5 : 2, .dashed = marked};
  }

  void DrawMark(SvgPoint at, const Series& series) {
    svg_.Circle(at, 3.5, {.fill = SeriesPaint(series.paint), .stroke = Paint::kPage, .width = 1.5});
  }

  void DrawPanel(const Panel& panel, double left, const Ticks& x_ticks) {
    svg_.Group("", {left, 0}, [&] {
      svg_.Text({kLeft, 54}, panel.title, {.size = 13, .bold = true});
      for (const Entry& entry : Legend(panel)) DrawLegend(entry);
      Range values;
      std::map<int, int64_t> gaps;  // by paint: a line and its mean have the same ones
      for (const Series& series : panel.series) {
        int64_t count = 0;
        for (const SvgPoint& p : series.points) {
          if (Drawable(p, panel.log)) values.Add(p.y);
          else ++count;
        }
        gaps[series.paint] = std::max(gaps[series.paint], count);
      }
      const double bottom = top_ + kPlotHeight, right = kPanelWidth - kRight;
      const PageAxis x{x_ticks, kLeft, right};
      const PageAxis y{values.empty() ? NoTicks()
                       : panel.log    ? LogTicks(values.low, values.high, 8)
                                      : RoundTicks(values.low, values.high, 6),
                       bottom, top_};
      DrawAxes(x, y, !values.empty());
      for (const Series& series : panel.series) DrawSeries(series, x, y);
      DrawLastValues(panel, y);
      const int64_t all_gaps = std::accumulate(gaps.begin(), gaps.end(), int64_t{0},
                                               [](int64_t sum, const auto& gap) { return sum + gap.second; });
      const std::string_view kind = panel.log ? "positive and finite" : "finite";
      if (values.empty()) {
        svg_.Text({(kLeft + right) / 2, (top_ + bottom) / 2},
                  all_gaps == 0 ? "no values" : fmt::format("no {} values", kind),
                  {.anchor = Anchor::kMiddle, .paint = Paint::kMuted});
      } else if (all_gaps > 0) {
        svg_.Text({right, bottom + 38},
                  fmt::format("{} value{} not {}, left out", all_gaps, all_gaps == 1 ? "" : "s", kind),
                  {.anchor = Anchor::kEnd, .size = kSmall, .paint = Paint::kMuted});
      }
    });
  }

  // Writes the last values beside the plot, at their heights, but apart from each other.
  void DrawLastValues(const Panel& panel, const PageAxis& y) {
    struct Label {
      double at;
      std::string text;
      Paint paint;
    };
    std::vector<Label> labels;
    for (const Series& series : panel.series) {
      if (series.style == LineStyle::kFaint) continue;
      const auto last = std::find_if(series.points.rbegin(), series.points.rend(),
                                     [&](const SvgPoint& p) { return Drawable(p, panel.log); });
      if (last == series.points.rend()) continue;
      labels.push_back({y.At(last->y), fmt::format("{:.3g}", last->y), SeriesPaint(series.paint)});
    }
    std::stable_sort(labels.begin(), labels.end(),
                     [](const Label& a, const Label& b) { return a.at < b.at; });
    constexpr double kApart = 14;
    // Moves labels down, from the highest on, and then up if they would leave the plot.
    for (size_t i = 1; i < labels.size(); ++i)
      labels[i].at = std::max(labels[i].at, labels[i - 1].at + kApart);
    double lowest = top_ + kPlotHeight;
    for (size_t i = labels.size(); i-- > 0; lowest = labels[i].at - kApart)
      labels[i].at = std::min(labels[i].at, lowest);
    for (const Label& label : labels)
      svg_.Text({kPanelWidth - kRight + 8, label.at + 4}, label.text, {.bold = true, .paint = label.paint});
  }

  void DrawLegend(const Entry& entry) {
    const double y = 72 + entry.line * kLegendLine;
    const SvgPoint ends[] = {{entry.x, y - 4}, {entry.x + kSwatch, y - 4}};
    svg_.Polyline(ends, StyleOf(*entry.series));
    if (entry.series->style == LineStyle::kMarked) DrawMark({entry.x + kSwatch / 2, y - 4}, *entry.series);
    svg_.Text({entry.x + kSwatch + 6, y}, entry.series->name);
  }

  void DrawAxes(const PageAxis& x, const PageAxis& y, bool has_values) {
    const SvgStyle grid{.stroke = Paint::kGrid}, axis{.stroke = Paint::kMuted};
    for (size_t i = 0; i < y.ticks.values.size(); ++i) {
      const double at = y.At(y.ticks.values[i]);
      if (i > 0) svg_.Line({x.from, at}, {x.to, at}, grid);
      if (has_values)
        svg_.Text({x.from - 8, at + 4}, y.ticks.labels[i],
                  {.anchor = Anchor::kEnd, .size = kSmall, .paint = Paint::kMuted});
    }
    svg_.Line({x.from, y.from}, {x.to, y.from}, axis);
    for (size_t i = 0; i < x.ticks.values.size(); ++i) {
      const double at = x.At(x.ticks.values[i]);
      svg_.Line({at, y.from}, {at, y.from + 4}, axis);
      svg_.Text({at, y.from + 18}, x.ticks.labels[i],
                {.anchor = Anchor::kMiddle, .size = kSmall, .paint = Paint::kMuted});
    }
    svg_.Text({x.from, y.from + 38}, chart_.x_label, {.size = kSmall, .paint = Paint::kMuted});
  }

  void DrawSeries(const Series& series, const PageAxis& x, const PageAxis& y) {
    for (const std::vector<SvgPoint>& run : Runs(series.points, x, y)) {
      svg_.Polyline(run, StyleOf(series));
      if (series.style != LineStyle::kMarked) continue;
      for (const SvgPoint& point : run) DrawMark(point, series);
    }
  }

  const LineChart& chart_;
  Svg svg_;
  const double top_;  // of the plots
};

}  // namespace

std::string LineChart::ToSvg() const { return ChartDrawer(*this).Draw(); }

std::vector<SvgPoint> MovingMean(std::span<const SvgPoint> points, int64_t window) {
  window = std::max<int64_t>(window, 1);
  const int64_t before = (window - 1) / 2, after = window / 2, size = std::ssize(points);
  std::vector<SvgPoint> means(points.begin(), points.end());
  for (int64_t i = 0; i < size; ++i) {
    if (!Drawable(points[static_cast<size_t>(i)])) continue;
    double mean = 0, count = 0;
    for (int64_t k = std::max<int64_t>(0, i - before); k <= std::min({size - 1, i + after, 2 * i}); ++k) {
      const SvgPoint& p = points[static_cast<size_t>(k)];
      if (Drawable(p)) mean += (p.y - mean) / ++count;
    }
    means[static_cast<size_t>(i)].y = mean;
  }
  return means;
}

namespace {

// Labels with as many decimals as the step has.
std::vector<std::string> LabelsOf(const std::vector<double>& values, double step) {
  const double size = std::max(std::abs(values.front()), std::abs(values.back()));
  const int exponent = static_cast<int>(std::floor(std::log10(step) + 1e-9));
  std::vector<std::string> labels;
  for (const double value : values)
    labels.push_back(size < 1e6 && exponent >= -6 ? fmt::format("{:.{}f}", value, std::max(0, -exponent))
                                                  : fmt::format("{:g}", value));
  return labels;
}

// Powers of ten are exact only above 1.
double TimesPower(double digit, int exponent) {
  return exponent >= 0 ? digit * std::pow(10, exponent) : digit / std::pow(10, -exponent);
}

constexpr double kRounding = 1e-9;  // 0.3 / 0.1 is a little below 3

}  // namespace

Ticks RoundTicks(double low, double high, int most, double finest) {
  MESHWORK_CHECK(low <= high && std::abs(low) <= 2e300 && std::abs(high) <= 2e300 && most >= 2,
                 "[{}, {}] in {}", low, high, most);
  const double size = std::max(std::abs(low), std::abs(high));
  if (low == high) {
    const double about = size == 0 ? 1 : size / 10;
    return RoundTicks(low - about, high + about, most, finest);
  }
  // A finer step could not tell numbers of this size apart, or would be 0.
  finest = std::max({finest, (high - low) / most, size * 1e-12, 1e-300});
  for (int exponent = static_cast<int>(std::floor(std::log10(finest)));; ++exponent) {
    for (const int digit : {1, 2, 5}) {
      const double step = TimesPower(digit, exponent);
      const double first = std::floor(low / step + kRounding);
      const double last = std::max(std::ceil(high / step - kRounding), first + 1);
      if (step < finest * (1 - kRounding) || last - first > most) continue;
      Ticks ticks;
      for (double tick = first; tick <= last; ++tick) ticks.values.push_back(tick * step);
      ticks.labels = LabelsOf(ticks.values, step);
      return ticks;
    }
  }
}

Ticks LogTicks(double low, double high, int most) {
  MESHWORK_CHECK(0 < low && low <= high && high <= 2e300 && most >= 3, "[{}, {}] in {}", low, high, most);
  low = std::max(low, 1e-300);
  high = std::max(high, low);
  if (high <= 3 * low) {
    Ticks ticks = RoundTicks(low, high, most);
    ticks.log = true;
    if (ticks.low() > 0) return ticks;
  }
  // Tick k stands at digits[k mod n] times ten to the (k div n) · decades.
  const auto try_ticks = [&](const std::vector<int>& digits, int decades) {
    const int n = static_cast<int>(digits.size());
    const auto tick = [&](int k) {
      const int power = k >= 0 ? k / n : -((n - 1 - k) / n);  // rounded down
      return TimesPower(digits[static_cast<size_t>(k - power * n)], power * decades);
    };
    int first = static_cast<int>(std::floor(std::log10(low) / decades)) * n;
    while (tick(first + 1) <= low * (1 + kRounding)) ++first;
    int last = first + 1;
    while (tick(last) < high * (1 - kRounding)) ++last;
    Ticks ticks{.log = true};
    for (int k = first; k <= last; ++k) {
      ticks.values.push_back(tick(k));
      ticks.labels.push_back(fmt::format("{:g}", tick(k)));
    }
    return ticks;
  };
  Ticks ticks = try_ticks({1, 2, 5}, 1);
  for (int decades = 1; std::ssize(ticks.values) - 1 > most; ++decades) ticks = try_ticks({1}, decades);
  return ticks;
}

}  // namespace meshwork
