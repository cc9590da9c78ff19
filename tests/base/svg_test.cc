#include "meshwork/base/svg.h"

#include <cmath>
#include <limits>
#include <locale>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "support/golden.h"

namespace meshwork::svg_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The names of the elements in order, "+rect" where one opens and "-rect" where it closes. Fails where tags
// do not nest.
std::vector<std::string> Tags(const std::string& xml) {
  std::vector<std::string> tags, open;
  for (size_t at = xml.find('<'); at != std::string::npos; at = xml.find('<', at + 1)) {
    const size_t end = xml.find('>', at);
    EXPECT_NE(end, std::string::npos);
    const std::string tag = xml.substr(at + 1, end - at - 1);
    if (tag[0] == '/') {
      EXPECT_EQ(open.empty() ? "" : open.back(), tag.substr(1));
      if (!open.empty()) open.pop_back();
      tags.push_back("-" + tag.substr(1));
      continue;
    }
    tags.push_back("+" + tag.substr(0, tag.find_first_of(" /")));
    if (tag.back() != '/') open.push_back(tag.substr(0, tag.find(' ')));
  }
  EXPECT_TRUE(open.empty()) << testing::PrintToString(open);
  return tags;
}

// A drawing with every kind of element.
Svg Everything() {
  Svg svg(220, 120.5, "All <elements> & \"quotes\"", "A mesh of 2 devices.");
  svg.Rect({10, 10, 100, 60}, {.fill = SeriesPaint(0), .opacity = 0.3, .stroke = SeriesPaint(0)}, 4);
  svg.Circle({60, 90}, 5, {.fill = SeriesPaint(9), .stroke = Paint::kInk, .width = 2});
  svg.Line({0, 100}, {220, 100}, {.stroke = Paint::kGrid, .dashed = true});
  const SvgPoint points[] = {{0, 0}, {1.0 / 3, -0.001}, {1e3, 20.5}};
  svg.Polyline(points, {.stroke = Paint::kMuted, .stroke_opacity = 0.5});
  svg.Polygon(points, {.fill = Paint::kPage});
  svg.Path("M0 0C10 0 10 20 20 20", {.stroke = SeriesPaint(7)});
  svg.Text({60, 40}, "device 0", {.anchor = Anchor::kMiddle, .size = 14, .bold = true});
  svg.Group("device 1", {110, 0}, [&] {
    svg.Text({0, 40}, "f32[2,3]", {.anchor = Anchor::kEnd, .mono = true, .turn = -90});
    svg.Group("", {}, [&] { svg.Arrow({0, 60}, {40, 60}, {.stroke = Paint::kInk, .width = 1.5}); });
  });
  return svg;
}

TEST(SvgTest, DrawsEveryElement) {
  const std::string file = Everything().ToString();
  ExpectGolden("base/elements.svg", file);
  EXPECT_THAT(Tags(file),
              ::testing::ElementsAre("+svg", "+title", "-title", "+desc", "-desc", "+style", "-style",
                                     "+rect", "+rect", "+circle", "+line", "+polyline", "+polygon", "+path",
                                     "+text", "-text", "+g", "+title", "-title", "+text", "-text", "+g",
                                     "+line", "+polygon", "-g", "-g", "-svg"));
}

TEST(SvgTest, PaintsThePageAndNamesThePicture) {
  EXPECT_EQ(
      Svg(20, 10, "Nothing").ToString(),
      R"(<svg xmlns="http://www.w3.org/2000/svg" width="20" height="10" viewBox="0 0 20 10" font-size="12" role="img">
  <title>Nothing</title>
  <style>
    text{font-family:system-ui,"DejaVu Sans",sans-serif;white-space:pre}
    line,polyline,path{stroke-linecap:round;stroke-linejoin:round}
    .fill-page{fill:#ffffff}
    @media (prefers-color-scheme:dark){.fill-page{fill:#15191f}}
  </style>
  <rect x="0" y="0" width="20" height="10" rx="6" class="fill-page"/>
</svg>
)");
}

TEST(SvgTest, EscapesWhatXmlMustNotHold) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", ""},
      {"plain – ü 漢 😀", "plain – ü 漢 😀"},
      {"a<b>&\"c\"'d'", "a&lt;b&gt;&amp;&quot;c&quot;&#39;d&#39;"},
      {"&amp;", "&amp;amp;"},
      {"a\tb\nc", "a\tb\nc"},
      {std::string("a\0b\x1b[1m", 7), "a\uFFFDb\uFFFD[1m"},
      {"\xff\xc3", "\uFFFD\uFFFD"},                      // not UTF-8; truncated
      {"\xc0\xbc", "\uFFFD\uFFFD"},                      // "<", encoded with too many bytes
      {"\xed\xa0\x80", "\uFFFD\uFFFD\uFFFD"},            // half of a pair
      {"\xef\xbf\xbf", "\uFFFD\uFFFD\uFFFD"},            // not a character
      {"\xf4\x90\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD"},  // beyond the last code point
  };
  for (const auto& [text, expected] : cases) EXPECT_EQ(EscapeXml(text), expected);

  Svg svg(10, 10, "</title>", "a & b");
  svg.Text({0, 0}, "</text><script>");
  svg.Path("M0 0\"", {});
  svg.Group("<g>", {}, [] {});
  EXPECT_THAT(svg.ToString(), Not(HasSubstr("<script>")));
  EXPECT_EQ(Tags(svg.ToString()).size(), 16u);
}

// A locale that writes 1.000,5.
struct Commas : std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

TEST(SvgTest, PrintsCoordinatesShortAndInEveryLocaleAlike) {
  const std::string file = Everything().ToString();
  EXPECT_THAT(file, HasSubstr("points=\"0,0 0.33,0 1000,20.5\""));
  const std::locale before = std::locale::global(std::locale(std::locale(), new Commas));
  EXPECT_EQ(Everything().ToString(), file);
  std::locale::global(before);
}

TEST(SvgDeathTest, RefusesPlacesThatAreNone) {
  Svg svg(10, 10, "");
  EXPECT_DEATH(svg.Line({0, 0}, {std::nan(""), 0}, {}), "nan in a picture");
  EXPECT_DEATH(svg.Circle({0, 0}, std::numeric_limits<double>::infinity(), {}), "inf in a picture");
  EXPECT_DEATH(svg.Rect({0, 0, -1, 1}, {}), "-1 x 1");
  EXPECT_DEATH(SeriesPaint(-1), "series -1");
}

TEST(SvgTest, FewPointsMakeADotOrNothing) {
  Svg nothing(10, 10, "");
  nothing.Polyline({}, {.stroke = Paint::kInk});
  nothing.Polygon({}, {.fill = Paint::kInk});
  nothing.Arrow({1, 1}, {1, 1}, {.stroke = Paint::kInk});
  EXPECT_EQ(nothing.ToString(), Svg(10, 10, "").ToString());
  Svg dot(10, 10, "");
  const SvgPoint point[] = {{3, 4}};
  dot.Polyline(point, {.stroke = Paint::kInk, .width = 2});
  EXPECT_THAT(dot.ToString(), HasSubstr("<circle cx=\"3\" cy=\"4\" r=\"2\" class=\"fill-ink\"/>"));
}

// WCAG 2: the luminance of a colour, and the contrast of two.
double Luminance(std::string_view hex) {
  double sum = 0;
  const double weights[] = {0.2126, 0.7152, 0.0722};
  for (int c = 0; c < 3; ++c) {
    const double x = std::stoi(std::string(hex.substr(1 + 2 * c, 2)), nullptr, 16) / 255.0;
    sum += weights[c] * (x <= 0.04045 ? x / 12.92 : std::pow((x + 0.055) / 1.055, 2.4));
  }
  return sum;
}
double Contrast(std::string_view a, std::string_view b) {
  const double x = Luminance(a) + 0.05, y = Luminance(b) + 0.05;
  return std::max(x, y) / std::min(x, y);
}

TEST(SvgTest, ColoursStandOutFromThePage) {
  for (const bool dark : {false, true}) {
    const std::string_view page = HexOf(Paint::kPage, dark);
    EXPECT_GE(Contrast(HexOf(Paint::kInk, dark), page), 7);
    EXPECT_GE(Contrast(HexOf(Paint::kMuted, dark), page), 4.5);
    EXPECT_LE(Contrast(HexOf(Paint::kGrid, dark), page), 2);
    for (int i = 0; i < kNumSeries; ++i) EXPECT_GE(Contrast(HexOf(SeriesPaint(i), dark), page), 3) << i;
  }
  EXPECT_EQ(SeriesPaint(kNumSeries + 2), SeriesPaint(2));
}

TEST(SvgTest, TextsThatAreLongerAreWider) {
  const std::string text = "accuracy, test – 97 %";
  double before = 0;
  for (size_t n = 1; n <= text.size(); ++n) {
    if (n < text.size() && (static_cast<unsigned char>(text[n]) & 0xc0) == 0x80) continue;  // in a character
    EXPECT_GT(Svg::TextWidth(text.substr(0, n)), before);
    before = Svg::TextWidth(text.substr(0, n));
  }
  EXPECT_EQ(Svg::TextWidth(""), 0);
  EXPECT_DOUBLE_EQ(Svg::TextWidth(text, {.size = 24}), 2 * Svg::TextWidth(text));
  EXPECT_EQ(Svg::TextWidth("ü", {.mono = true}), Svg::TextWidth("u", {.mono = true}));
}

}  // namespace
}  // namespace meshwork::svg_test
