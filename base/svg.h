// Svg draws a picture as one SVG file that reads well on light and on dark pages.
//
//   Svg svg(220, 80, "A tensor in two blocks", "Rows 0 to 3 lie on device 0, rows 4 to 7 on device 1.");
//   svg.Rect({10, 10, 100, 60}, {.fill = SeriesPaint(0), .opacity = 0.3, .stroke = SeriesPaint(0)}, 4);
//   svg.Text({60, 40}, "device 0", {.anchor = Anchor::kMiddle, .bold = true});
//   svg.Group("device 1", {110, 0}, [&] {
//     svg.Rect({10, 10, 90, 60}, {.fill = SeriesPaint(1), .opacity = 0.3, .stroke = SeriesPaint(1)}, 4);
//     svg.Text({55, 40}, "device 1", {.anchor = Anchor::kMiddle});
//   });
//   svg.ToString()   // the file
//
// Colours are named by their part in the picture, not by their value. Each colour has one value for light
// pages and one for dark pages; the viewer chooses by prefers-color-scheme, also where the file is embedded
// with <img>. Viewers without such queries show the light values. The page is painted, so that nothing
// depends on what lies behind the picture.
//
// x grows to the right, y down; lengths are pixels at the picture's natural size. Coordinates are printed
// with at most two decimals. The same calls give the same bytes on every machine and in every locale. Later
// shapes cover earlier ones. Text may be any bytes: it is escaped, and bytes that XML cannot hold become
// U+FFFD.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <set>
#include <span>
#include <string>
#include <string_view>

namespace meshwork {

struct SvgPoint {
  double x, y;
};

struct SvgBox {
  double x, y, width, height;
};

// What a colour is for.
enum class Paint : uint8_t {
  kNone,    // nothing is painted
  kPage,    // the background of the picture
  kInk,     // text, outlines
  kMuted,   // text and lines of less weight: axes, units, notes
  kGrid,    // lines that only guide the eye
  kSeries,  // the first of kNumSeries colours that also the colour-blind can tell apart; see SeriesPaint
};

constexpr int kNumSeries = 8;
// The colour of series, device or axis i; colours repeat. REQUIRES: i >= 0.
Paint SeriesPaint(int i);
// The value of `paint` as "#rrggbb". REQUIRES: `paint` is not kNone.
std::string_view HexOf(Paint paint, bool dark);

struct SvgStyle {
  Paint fill = Paint::kNone;
  double opacity = 1;  // of the fill, from 0 to 1
  Paint stroke = Paint::kNone;
  double width = 1;  // of the stroke
  double stroke_opacity = 1;
  bool dashed = false;
};

enum class Anchor : uint8_t { kStart, kMiddle, kEnd };

struct SvgFont {
  Anchor anchor = Anchor::kStart;  // which place of the text lies at its point
  double size = 12;
  bool bold = false;
  bool mono = false;  // for code
  Paint paint = Paint::kInk;
  double turn = 0;  // degrees around the point, clockwise
};

class Svg {
 public:
  // The title and the description are for those who cannot see the picture; viewers show the title as a
  // tooltip. REQUIRES, here and below: coordinates and lengths are finite, sizes are not negative.
  Svg(double width, double height, std::string_view title, std::string_view description = "");

  double width() const { return width_; }
  double height() const { return height_; }

  void Rect(const SvgBox& box, const SvgStyle& style, double corner_radius = 0);
  void Circle(SvgPoint center, double radius, const SvgStyle& style);
  void Line(SvgPoint from, SvgPoint to, const SvgStyle& style);
  // A line with a head at `to`, painted like the line.
  void Arrow(SvgPoint from, SvgPoint to, const SvgStyle& style);
  // Through the points, in order; one point alone is a dot, none draw nothing.
  void Polyline(std::span<const SvgPoint> points, const SvgStyle& style);
  // The same with the last joined to the first.
  void Polygon(std::span<const SvgPoint> points, const SvgStyle& style);
  // `data` in the language of the attribute "d": "M0 0C10 0 10 20 20 20".
  void Path(std::string_view data, const SvgStyle& style);
  // The baseline runs through `at`. Spaces are kept.
  void Text(SvgPoint at, std::string_view text, const SvgFont& font = {});

  // The shapes that `draw` draws, moved by `offset`. `title`, unless it is empty, is their tooltip.
  void Group(std::string_view title, SvgPoint offset, const std::function<void()>& draw);

  // The whole file.
  std::string ToString() const;

  // About how wide a text will be: fonts differ from machine to machine.
  static double TextWidth(std::string_view text, const SvgFont& font = {});

 private:
  // `class="…"` of the paints, which become rules of the style sheet.
  std::string Classes(std::initializer_list<std::string> names);
  std::string Style(const SvgStyle& style);
  void Add(std::string_view element);

  double width_, height_;
  std::string title_, description_;
  std::string body_;
  int depth_ = 1;
  std::set<std::string> classes_;
};

// `text` as it stands in XML, between tags or in an attribute.
std::string EscapeXml(std::string_view text);

}  // namespace meshwork
