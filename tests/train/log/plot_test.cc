#include "meshwork/train/log/plot.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/random.h"
#include "support/golden.h"

namespace meshwork::plot_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(TicksTest, AreRoundNumbers) {
  const auto labels = [](double low, double high, int most) { return RoundTicks(low, high, most).labels; };
  EXPECT_THAT(labels(0, 40, 8), ElementsAre("0", "5", "10", "15", "20", "25", "30", "35", "40"));
  EXPECT_THAT(labels(0, 1173, 8), ElementsAre("0", "200", "400", "600", "800", "1000", "1200"));
  EXPECT_THAT(labels(0.0312, 0.29, 6), ElementsAre("0.00", "0.05", "0.10", "0.15", "0.20", "0.25", "0.30"));
  EXPECT_THAT(labels(0.3, 0.7, 4), ElementsAre("0.3", "0.4", "0.5", "0.6", "0.7"));
  EXPECT_THAT(labels(-1.5, 2.2, 5), ElementsAre("-2", "-1", "0", "1", "2", "3"));
  EXPECT_THAT(labels(3, 3, 6), ElementsAre("2.7", "2.8", "2.9", "3.0", "3.1", "3.2", "3.3"));
  EXPECT_THAT(labels(0, 0, 2), ElementsAre("-1", "0", "1"));
  EXPECT_THAT(RoundTicks(0, 1, 8, /*finest=*/1).labels, ElementsAre("0", "1"));
  EXPECT_THAT(RoundTicks(7, 7, 8, /*finest=*/1).labels, ElementsAre("6", "7", "8"));
  EXPECT_THAT(labels(0, 3e7, 3), ElementsAre("0", "1e+07", "2e+07", "3e+07"));
  EXPECT_THAT(labels(0, 2e-9, 2), ElementsAre("0", "1e-09", "2e-09"));
}

TEST(TicksTest, OfALogarithmicAxisAreRoundNumbers) {
  const auto labels = [](double low, double high, int most) { return LogTicks(low, high, most).labels; };
  EXPECT_THAT(labels(0.06, 2.4, 8), ElementsAre("0.05", "0.1", "0.2", "0.5", "1", "2", "5"));
  EXPECT_THAT(labels(0.06, 2.4, 5), ElementsAre("0.01", "0.1", "1", "10"));
  EXPECT_THAT(labels(0.1, 1, 8), ElementsAre("0.1", "0.2", "0.5", "1"));
  EXPECT_THAT(labels(1e-6, 50, 5), ElementsAre("1e-06", "0.0001", "0.01", "1", "100"));
  EXPECT_THAT(labels(2.2, 2.32, 8), ElementsAre("2.20", "2.22", "2.24", "2.26", "2.28", "2.30", "2.32"));
  EXPECT_THAT(labels(3, 3, 8), ElementsAre("2.7", "2.8", "2.9", "3.0", "3.1", "3.2", "3.3"));
}

// Digits 1, 2 or 5 of a power of ten.
bool IsRound(double value) {
  const double digit = value / std::pow(10, std::floor(std::log10(value) + 1e-6));
  return std::abs(digit - 1) < 1e-3 || std::abs(digit - 2) < 1e-3 || std::abs(digit - 5) < 1e-3;
}

TEST(TicksTest, CoverEveryRangeInFewSteps) {
  Random random(/*seed=*/3, /*stream=*/0);
  std::vector<std::pair<double, double>> ranges = {{-1e300, 1e300}, {1e300, 1e300}, {0, 1e-300},
                                                   {1, 1 + 1e-15},  {1e6, 1e6 + 1}, {0, 5e-324},
                                                   {-1e-320, 0}};
  for (int i = 0; i < 5000; ++i) {
    const auto number = [&] {
      const double size = std::pow(10, static_cast<double>(random.Below(40)) - 20);
      return (static_cast<double>(random.Below(2'000'001)) / 1e6 - 1) * size;
    };
    const double a = number(), b = random.Below(4) == 0 ? a * (1 + 1e-3) : number();
    ranges.emplace_back(std::min(a, b), std::max(a, b));
  }
  for (const auto& [low, high] : ranges) {
    for (const int most : {3, 6, 10}) {
      const Ticks ticks = RoundTicks(low, high, most);
      const size_t steps = ticks.values.size() - 1;
      const double step =
          (ticks.high() / static_cast<double>(steps) - ticks.low() / static_cast<double>(steps));
      SCOPED_TRACE(testing::Message() << low << " to " << high << " in " << most << ": step " << step);
      const double rounding = 1e-3 * step;
      ASSERT_GE(steps, 1u);
      EXPECT_LE(steps, static_cast<size_t>(most));
      EXPECT_EQ(ticks.labels.size(), ticks.values.size());
      EXPECT_TRUE(IsRound(step));
      EXPECT_LE(ticks.low(), low + rounding);
      EXPECT_GE(ticks.high(), high - rounding);
      for (size_t i = 1; i <= steps; ++i) EXPECT_NEAR(ticks.values[i] - ticks.values[i - 1], step, rounding);
      if (low == high) continue;
      EXPECT_GT(ticks.values[1], low - rounding);
      EXPECT_LT(ticks.values[steps - 1], high + rounding);
    }
  }
}

TEST(TicksTest, OfALogarithmicAxisCoverEveryRangeInFewSteps) {
  Random random(/*seed=*/4, /*stream=*/0);
  std::vector<std::pair<double, double>> ranges = {{1e-300, 1e300}, {5e-324, 1}, {1, 1}, {1e300, 1e300}};
  for (int i = 0; i < 5000; ++i) {
    const auto number = [&] { return std::pow(10, static_cast<double>(random.Below(40'000)) / 1e3 - 20); };
    const double a = number(), b = random.Below(2) == 0 ? a * 3 : number();
    ranges.emplace_back(std::min(a, b), std::max(a, b));
  }
  for (const auto& [low, high] : ranges) {
    for (const int most : {3, 6, 10}) {
      SCOPED_TRACE(testing::Message() << low << " to " << high << " in " << most);
      const Ticks ticks = LogTicks(low, high, most);
      EXPECT_TRUE(ticks.log);
      ASSERT_GE(ticks.values.size(), 2u);
      EXPECT_LE(ticks.values.size() - 1, static_cast<size_t>(most));
      EXPECT_LE(ticks.low(), std::max(low, 1e-300) * (1 + 1e-6));
      EXPECT_GE(ticks.high(), high * (1 - 1e-6));
      const bool linear = high <= 3 * low;
      for (const double tick : ticks.values) EXPECT_TRUE(linear || IsRound(tick)) << tick;
      for (size_t i = 1; i < ticks.values.size(); ++i) EXPECT_GT(ticks.values[i], ticks.values[i - 1]);
    }
  }
}

std::vector<double> Ys(const std::vector<SvgPoint>& points) {
  std::vector<double> ys;
  for (const SvgPoint& p : points) ys.push_back(p.y);
  return ys;
}

TEST(MovingMeanTest, AveragesWhatIsAround) {
  const std::vector<SvgPoint> points = {{0, 1}, {1, 2}, {2, 6}, {3, 7}, {4, 9}};
  EXPECT_THAT(Ys(MovingMean(points, 1)), ElementsAre(1, 2, 6, 7, 9));
  EXPECT_THAT(Ys(MovingMean(points, 3)), ElementsAre(1, 3, 5, 22 / 3.0, 8));
  EXPECT_THAT(Ys(MovingMean(points, 2)), ElementsAre(1, 4, 6.5, 8, 9));
  EXPECT_THAT(Ys(MovingMean(points, 100)), ElementsAre(1, 3, 5, 5, 5));
  const std::vector<SvgPoint> gaps = {{0, 1}, {1, kInf}, {2, 5}, {3, 1e301}};
  EXPECT_THAT(Ys(MovingMean(gaps, 3)), ElementsAre(1, kInf, 5, 1e301));
  EXPECT_THAT(MovingMean({}, 3), ElementsAre());
}

// y is a parabola, with a gap after the first points.
LineChart ExampleChart() {
  LineChart chart{.title = "A <chart>", .note = "of two panels", .x_label = "step"};
  std::vector<SvgPoint> raw, tests;
  for (int i = 0; i <= 20; ++i) raw.push_back({i * 2.0, 1 + (20 - i) * (20 - i) / 100.0 + (i % 2) * 0.3});
  raw[4].y = kNan;
  for (int i = 0; i <= 2; ++i) tests.push_back({i * 20.0, 4.5 - i});
  chart.panels.push_back(
      {.title = "Loss",
       .series = {{.name = "train", .points = raw, .style = LineStyle::kFaint},
                  {.name = "train, mean of 5 steps", .points = MovingMean(raw, 5)},
                  {.name = "test", .points = tests, .style = LineStyle::kMarked, .paint = 1}}});
  chart.panels.push_back(
      {.title = "Accuracy, %", .series = {{.name = "train"}, {.name = "test", .paint = 1}}});
  return chart;
}

size_t Count(const std::string& text, std::string_view what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

TEST(LineChartTest, DrawsPanelsSideBySide) { ExpectGolden("train/chart.svg", ExampleChart().ToSvg()); }

TEST(LineChartTest, ValuesThatAreNoneAreGapsAndSaid) {
  const std::string svg = ExampleChart().ToSvg();
  EXPECT_THAT(svg, HasSubstr(">1 value not finite, left out<"));
  EXPECT_THAT(svg, HasSubstr(">no values<"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  // Five lines in the legend; two runs for each of the two broken lines, and one for the third.
  EXPECT_EQ(Count(svg, "<polyline"), 5u + 2 + 2 + 1);

  LineChart chart{
      .panels = {{.title = "Loss", .series = {{.name = "a", .points = {{0, kNan}, {1, -kInf}}}}}}};
  EXPECT_THAT(chart.ToSvg(), HasSubstr(">no finite values<"));
  EXPECT_THAT(chart.ToSvg(), Not(HasSubstr("left out")));
  chart.panels[0].log = true;
  chart.panels[0].series[0].points = {{0, 0}, {1, 0.1}, {2, -1}, {3, 1}};
  EXPECT_THAT(chart.ToSvg(), HasSubstr(">2 values not positive and finite, left out<"));
}

TEST(LineChartTest, ALogarithmicAxisSpacesPowersEvenly) {
  LineChart chart{.panels = {{.title = "Loss",
                              .series = {{.name = "a", .points = {{0, 100}, {1, 10}, {2, 1}, {3, 0.1}}}},
                              .log = true}}};
  // A third of the plot's height each.
  EXPECT_THAT(chart.ToSvg(), HasSubstr("points=\"56,82 152.67,158.67 249.33,235.33 346,312\""));
}

// The last values of both lines are nearly the same; the labels are one line of text apart.
TEST(LineChartTest, LastValuesStandApart) {
  LineChart chart{.panels = {{.title = "Loss",
                              .series = {{.name = "a", .points = {{0, 5}, {1, 0.123456}}},
                                         {.name = "b", .points = {{0, 5}, {1, 0}, {2, kNan}}, .paint = 1},
                                         {.name = "c", .points = {{0, 5}}, .style = LineStyle::kFaint}}}}};
  const std::string svg = chart.ToSvg();
  EXPECT_THAT(svg, HasSubstr("y=\"302\" class=\"fill-s0 bold\">0.123</text>"));
  EXPECT_THAT(svg, HasSubstr("y=\"316\" class=\"fill-s1 bold\">0</text>"));
  EXPECT_EQ(Count(svg, " bold\">"), 2u);
}

TEST(LineChartTest, OnePointIsADot) {
  LineChart chart{.panels = {{.title = "Loss", .series = {{.name = "train", .points = {{7, 2}}}}}}};
  const std::string svg = chart.ToSvg();
  EXPECT_EQ(Count(svg, "<polyline"), 1u);                                // in the legend
  EXPECT_THAT(svg, HasSubstr("<circle cx=\"201\" cy=\"197\" r=\"2\""));  // in the middle of its plot
  EXPECT_THAT(svg, HasSubstr("train (1 points, last 2)"));
}

TEST(LineChartTest, DrawsWithoutPanelsAndWithHugeValues) {
  EXPECT_THAT(LineChart().ToSvg(), HasSubstr("</svg>"));
  LineChart chart{
      .panels = {{.title = "Loss", .series = {{.name = "a", .points = {{0, -1e300}, {1, 0}, {2, 1e300}}}}}}};
  EXPECT_THAT(chart.ToSvg(), HasSubstr("points=\"56,312 201,197 346,82\""));
}

TEST(LineChartTest, ManyPointsMakeAFileNoLargerAndKeepTheirExtremes) {
  LineChart chart{.panels = {{.title = "Loss", .series = {{.name = "train"}}}}};
  std::vector<SvgPoint>& points = chart.panels[0].series[0].points;
  for (int i = 0; i < 200'000; ++i) points.push_back({static_cast<double>(i), i % 100 / 100.0});
  points[123'456].y = 2;
  points[150'001].y = -1;
  const std::string svg = chart.ToSvg();
  EXPECT_LT(svg.size(), 60'000u);
  EXPECT_THAT(svg, HasSubstr(",82 "));   // the highest
  EXPECT_THAT(svg, HasSubstr(",312 "));  // the lowest
}

}  // namespace
}  // namespace meshwork::plot_test
