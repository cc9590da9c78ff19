#include "meshwork/base/svg.h"

#include <algorithm>
#include <cmath>

#include "meshwork/base/status.h"

namespace meshwork {
namespace {

struct Colour {
  std::string_view name, light, dark;
};

// In order of Paint. Lines of every series stand out from the page by 3:1, texts by 4.5:1; the series are the
// hues of Okabe and Ito, each as light or dark as that asks for.
constexpr Colour kColours[] = {
    {"none", "", ""},
    {"page", "#ffffff", "#15191f"},
    {"ink", "#1f2328", "#e6edf3"},
    {"muted", "#59636e", "#9aa4af"},
    {"grid", "#d8dee4", "#333b45"},
    {"s0", "#165dc2", "#3f8fe8"},  // blue
    {"s1", "#d0350f", "#f2663d"},  // vermilion
    {"s2", "#008e58", "#1fb88a"},  // green
    {"s3", "#c5489c", "#e58ccb"},  // purple
    {"s4", "#ba8a00", "#e8b53a"},  // orange
    {"s5", "#3f9bd6", "#9adcff"},  // sky
    {"s6", "#5c5a00", "#e9ec8a"},  // yellow; olive where the page is light
    {"s7", "#4a536f", "#7b8694"},  // grey
};
static_assert(std::size(kColours) == static_cast<size_t>(Paint::kSeries) + kNumSeries);

const Colour& ColourOf(Paint paint) { return kColours[static_cast<size_t>(paint)]; }

// "12", "12.5", "-0.25": at most two decimals, no zeros that say nothing.
std::string Number(double value) {
  MESHWORK_CHECK(std::isfinite(value), "{} in a picture", value);
  std::string text = fmt::format("{:.2f}", value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

std::string Attribute(std::string_view name, double value) {
  return fmt::format(" {}=\"{}\"", name, Number(value));
}

std::string Attribute(std::string_view name, double value, double unless) {
  return value == unless ? "" : Attribute(name, value);
}

std::string Points(std::span<const SvgPoint> points) {
  std::string text;
  for (const SvgPoint& p : points)
    text += fmt::format("{}{},{}", text.empty() ? "" : " ", Number(p.x), Number(p.y));
  return text;
}

// Bytes of the UTF-8 sequence that `text` starts with, if XML can hold its character; otherwise 0.
size_t CharacterBytes(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return first >= 0x20 || first == '\t' || first == '\n' ? 1 : 0;
  const size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < bytes) return 0;
  uint32_t character = first & (0x7fu >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    character = character << 6 | (byte(i) & 0x3fu);
  }
  const uint32_t least = bytes == 4 ? 0x10000 : bytes == 3 ? 0x800 : 0x80;
  const bool surrogate = character >= 0xd800 && character < 0xe000;
  if (character < least || character > 0x10ffff || surrogate) return 0;
  return character == 0xfffe || character == 0xffff ? 0 : bytes;
}

std::string Element(std::string_view name, std::string_view text) {
  return text.empty() ? "" : fmt::format("<{0}>{1}</{0}>", name, EscapeXml(text));
}

}  // namespace

std::string EscapeXml(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t bytes = CharacterBytes(text);
    switch (text[0]) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default:
        if (bytes == 0) out += "\uFFFD";
        else out += text.substr(0, bytes);
    }
    text.remove_prefix(std::max<size_t>(bytes, 1));
  }
  return out;
}

Paint SeriesPaint(int i) {
  MESHWORK_CHECK(i >= 0, "series {}", i);
  return static_cast<Paint>(static_cast<int>(Paint::kSeries) + i % kNumSeries);
}

std::string_view HexOf(Paint paint, bool dark) {
  MESHWORK_CHECK(paint != Paint::kNone);
  return dark ? ColourOf(paint).dark : ColourOf(paint).light;
}

Svg::Svg(double width, double height, std::string_view title, std::string_view description)
    : width_(width), height_(height), title_(title), description_(description) {
  Rect({0, 0, width, height}, {.fill = Paint::kPage}, 6);
}

void Svg::Add(std::string_view element) {
  body_.append(2 * static_cast<size_t>(depth_), ' ').append(element) += '\n';
}

std::string Svg::Classes(std::initializer_list<std::string> names) {
  std::string list;
  for (const std::string& name : names) {
    if (name.empty()) continue;
    classes_.insert(name);
    list += (list.empty() ? "" : " ") + name;
  }
  return list.empty() ? "" : fmt::format(" class=\"{}\"", list);
}

std::string Svg::Style(const SvgStyle& style) {
  const bool stroked = style.stroke != Paint::kNone;
  std::string text = Classes({fmt::format("fill-{}", ColourOf(style.fill).name),
                              stroked ? fmt::format("line-{}", ColourOf(style.stroke).name) : "",
                              stroked && style.dashed ? "dashed" : ""});
  if (style.fill != Paint::kNone) text += Attribute("fill-opacity", style.opacity, 1);
  if (!stroked) return text;
  return text + Attribute("stroke-width", style.width, 1) +
         Attribute("stroke-opacity", style.stroke_opacity, 1);
}

void Svg::Rect(const SvgBox& box, const SvgStyle& style, double corner_radius) {
  MESHWORK_CHECK(box.width >= 0 && box.height >= 0, "{} x {}", box.width, box.height);
  Add(fmt::format("<rect{}{}{}{}{}{}/>", Attribute("x", box.x), Attribute("y", box.y),
                  Attribute("width", box.width), Attribute("height", box.height),
                  Attribute("rx", corner_radius, 0), Style(style)));
}

void Svg::Circle(SvgPoint center, double radius, const SvgStyle& style) {
  MESHWORK_CHECK(radius >= 0, "radius {}", radius);
  Add(fmt::format("<circle{}{}{}{}/>", Attribute("cx", center.x), Attribute("cy", center.y),
                  Attribute("r", radius), Style(style)));
}

void Svg::Line(SvgPoint from, SvgPoint to, const SvgStyle& style) {
  Add(fmt::format("<line{}{}{}{}{}/>", Attribute("x1", from.x), Attribute("y1", from.y),
                  Attribute("x2", to.x), Attribute("y2", to.y), Style(style)));
}

void Svg::Arrow(SvgPoint from, SvgPoint to, const SvgStyle& style) {
  const double length = std::hypot(to.x - from.x, to.y - from.y);
  if (length == 0) return;
  // Along the arrow and across it.
  const SvgPoint along{(to.x - from.x) / length, (to.y - from.y) / length}, across{-along.y, along.x};
  const double head = std::min(length, 5 + 2 * style.width), half = head / 2;
  const SvgPoint neck{to.x - head * along.x, to.y - head * along.y};
  const SvgPoint corners[] = {to,
                              {neck.x + half * across.x, neck.y + half * across.y},
                              {neck.x - half * across.x, neck.y - half * across.y}};
  Line(from, neck, style);
  Polygon(corners, {.fill = style.stroke, .opacity = style.stroke_opacity});
}

void Svg::Polyline(std::span<const SvgPoint> points, const SvgStyle& style) {
  if (points.size() == 1) {
    Circle(points[0], style.width, {.fill = style.stroke, .opacity = style.stroke_opacity});
  } else if (!points.empty()) {
    Add(fmt::format("<polyline points=\"{}\"{}/>", Points(points), Style(style)));
  }
}

void Svg::Polygon(std::span<const SvgPoint> points, const SvgStyle& style) {
  if (!points.empty()) Add(fmt::format("<polygon points=\"{}\"{}/>", Points(points), Style(style)));
}

void Svg::Path(std::string_view data, const SvgStyle& style) {
  Add(fmt::format("<path d=\"{}\"{}/>", EscapeXml(data), Style(style)));
}

void Svg::Text(SvgPoint at, std::string_view text, const SvgFont& font) {
  const std::string turn = font.turn == 0 ? ""
                                          : fmt::format(" transform=\"rotate({} {} {})\"", Number(font.turn),
                                                        Number(at.x), Number(at.y));
  Add(fmt::format("<text{}{}{}{}{}>{}</text>", Attribute("x", at.x), Attribute("y", at.y),
                  Classes({fmt::format("fill-{}", ColourOf(font.paint).name),
                           font.anchor == Anchor::kMiddle ? "middle"
                           : font.anchor == Anchor::kEnd  ? "end"
                                                          : "",
                           font.bold ? "bold" : "", font.mono ? "mono" : ""}),
                  Attribute("font-size", font.size, 12), turn, EscapeXml(text)));
}

void Svg::Group(std::string_view title, SvgPoint offset, const std::function<void()>& draw) {
  const bool moved = offset.x != 0 || offset.y != 0;
  Add(moved ? fmt::format("<g transform=\"translate({} {})\">", Number(offset.x), Number(offset.y)) : "<g>");
  ++depth_;
  if (!title.empty()) Add(Element("title", title));
  draw();
  --depth_;
  Add("</g>");
}

std::string Svg::ToString() const {
  std::string light, dark;  // rules
  const auto rule = [](std::string_view name, std::string_view what, std::string_view value) {
    return fmt::format(".{}{{{}:{}}}", name, what, value);
  };
  for (const Colour& colour : kColours) {
    const std::string fill = fmt::format("fill-{}", colour.name), line = fmt::format("line-{}", colour.name);
    if (classes_.contains(fill)) {
      light += rule(fill, "fill", colour.light.empty() ? "none" : colour.light);
      if (!colour.dark.empty()) dark += rule(fill, "fill", colour.dark);
    }
    if (classes_.contains(line)) {
      light += rule(line, "stroke", colour.light);
      dark += rule(line, "stroke", colour.dark);
    }
  }
  constexpr std::string_view kOther[][3] = {
      {"dashed", "stroke-dasharray", "5 4"},
      {"middle", "text-anchor", "middle"},
      {"end", "text-anchor", "end"},
      {"bold", "font-weight", "600"},
      {"mono", "font-family", "ui-monospace,\"DejaVu Sans Mono\",monospace"}};
  for (const auto& [name, what, value] : kOther)
    if (classes_.contains(std::string(name))) light += rule(name, what, value);
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
      "font-size=\"12\" role=\"img\">\n  {2}\n{3}  <style>\n"
      "    text{{font-family:system-ui,\"DejaVu Sans\",sans-serif;white-space:pre}}\n"
      "    line,polyline,path{{stroke-linecap:round;stroke-linejoin:round}}\n"
      "    {4}\n    @media (prefers-color-scheme:dark){{{5}}}\n  </style>\n{6}</svg>\n",
      Number(width_), Number(height_), Element("title", title_),
      description_.empty() ? "" : fmt::format("  {}\n", Element("desc", description_)), light, dark, body_);
}

double Svg::TextWidth(std::string_view text, const SvgFont& font) {
  double ems = 0;
  for (const char c : text) {
    const bool continues = (static_cast<unsigned char>(c) & 0xc0) == 0x80;  // of one UTF-8 character
    const bool narrow = std::string_view(" .,:;'|!ijlftI()[]").find(c) != std::string_view::npos;
    const bool wide = std::string_view("mwMWGOQ%@").find(c) != std::string_view::npos;
    if (!continues) ems += font.mono ? 0.61 : narrow ? 0.37 : wide ? 0.9 : 0.61;
  }
  return ems * font.size * (font.bold ? 1.1 : 1);
}

}  // namespace meshwork
