#include "meshwork/train/data/digits.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "meshwork/base/random.h"
#include "meshwork/base/status.h"

namespace meshwork {
namespace {

constexpr int kSide = 28;
constexpr int kPixels = kSide * kSide;

struct Point {
  double x, y;
};
using Stroke = std::vector<Point>;

struct Glyph {
  int digit;
  std::vector<Stroke> strokes;  // in a box of 4 x 6: x to the right, y down
};

// Several ways to write each digit.
const std::vector<Glyph>& Glyphs() {
  static const auto* const glyphs = new std::vector<Glyph>{
      {0, {{{2, 0}, {0.3, 0.2}, {0, 3}, {0.3, 5.8}, {2, 6}, {3.7, 5.8}, {4, 3}, {3.7, 0.2}, {2, 0}}}},
      {0, {{{2.4, 0.2}, {0.6, 0.8}, {0.2, 4}, {1.4, 6}, {3.2, 5.4}, {3.8, 2.4}, {3, 0.2}, {1.6, 0.6}}}},
      {1, {{{2, 0}, {2, 6}}}},
      {1, {{{0.8, 1.6}, {2.2, 0}, {2.2, 6}}}},
      {1, {{{0.8, 1.4}, {2, 0}, {2, 6}}, {{0.6, 6}, {3.4, 6}}}},
      {2, {{{0.3, 1.6}, {0.8, 0}, {3.6, -0.2}, {4, 2.4}, {0.2, 6}}, {{0.2, 6}, {4, 6}}}},
      {2, {{{0.2, 0.8}, {2.4, -0.8}, {4.4, 1.6}, {2.4, 3.8}, {-0.4, 6.2}, {0.8, 4.4}, {2.4, 6}, {4, 5.6}}}},
      {3,
       {{{0.3, 0.8}, {2, -0.6}, {4.2, 0.8}, {3.4, 2.8}, {1.4, 2.9}},
        {{1.4, 2.9}, {3.8, 2.8}, {4.6, 5}, {2, 6.8}, {0, 5.2}}}},
      {3,
       {{{0.4, 0.2}, {3.8, 0.2}},
        {{3.8, 0.2}, {1.6, 2.6}},
        {{1.6, 2.6}, {4.2, 2.6}, {4.4, 5.6}, {1.8, 6.6}, {0, 5.2}}}},
      {4, {{{2.8, 6}, {2.8, 0}}, {{2.8, 0}, {0, 4.2}}, {{0, 4.2}, {4, 4.2}}}},
      {4, {{{0.6, 0.2}, {0.2, 3}}, {{0.2, 3}, {3.8, 3}}, {{3.4, 0.2}, {3.4, 6}}}},
      {5,
       {{{3.8, 0}, {0.6, 0}},
        {{0.6, 0}, {0.4, 2.6}},
        {{0.4, 2.6}, {3.6, 1.8}, {4.6, 4.6}, {2.4, 6.6}, {0, 5.4}}}},
      {5, {{{3.6, 0.2}, {1.2, -0.2}, {0.2, 2.4}, {2, 2.6}, {4.4, 3}, {3.8, 6.4}, {0.2, 5.8}}}},
      {6, {{{3.2, 0}, {0.8, 1}, {-0.2, 4.4}, {1, 6.4}, {3.6, 6.2}, {4.2, 3.4}, {2, 2.6}, {0.4, 4.4}}}},
      {6, {{{2.2, 0}, {0.2, 3}, {0, 5.8}, {2.2, 6.4}, {4, 5.8}, {3.8, 3.6}, {1.8, 3.2}, {0.2, 5}}}},
      {7, {{{0.2, 0.2}, {3.9, 0.2}}, {{3.9, 0.2}, {1.6, 6}}}},
      {7, {{{0.2, 0.2}, {3.9, 0.2}}, {{3.9, 0.2}, {2.4, 3}, {1.4, 6}}, {{1, 3}, {3.6, 3}}}},
      {8,
       {{{2, 2.9}, {0.2, 2.2}, {0.4, -0.2}, {3.6, -0.2}, {3.8, 2.2}, {2, 2.9}},
        {{2, 2.9}, {-0.2, 3.4}, {0, 6.4}, {4, 6.4}, {4.2, 3.4}, {2, 2.9}}}},
      {8,
       {{{3.6, 0.8}, {1.6, -0.8}, {-0.2, 1.6}, {4.6, 4}, {3.2, 6.6}, {0, 6}, {0, 4.2}, {4, 2}, {3.6, 0.8}}}},
      {9, {{{3.7, 2}, {3.2, -0.2}, {0.4, -0.4}, {0, 2.8}, {2.6, 3.6}, {3.7, 2}}, {{3.7, 2}, {3.4, 6}}}},
      {9, {{{3.8, 0.8}, {1.6, -0.4}, {-0.2, 1.8}, {1.8, 4}, {4.7, 1}, {4.2, 4.4}, {2.6, 6.4}, {0.6, 5.8}}}},
  };
  return *glyphs;
}

std::vector<const Glyph*> GlyphsOf(int digit) {
  std::vector<const Glyph*> glyphs;
  for (const Glyph& glyph : Glyphs())
    if (glyph.digit == digit) glyphs.push_back(&glyph);
  return glyphs;
}

Point Between(Point a, Point b, double t) { return {a.x + (b.x - a.x) * t, a.y + (b.y - a.y) * t}; }

// Rounds the corners by cutting them (Chaikin, "An algorithm for high speed curve generation", 1974).
Stroke Round(const Stroke& stroke) {
  if (stroke.size() < 3) return stroke;
  Stroke round = {stroke.front()};
  for (size_t i = 0; i + 1 < stroke.size(); ++i) {
    round.push_back(Between(stroke[i], stroke[i + 1], 0.25));
    round.push_back(Between(stroke[i], stroke[i + 1], 0.75));
  }
  round.push_back(stroke.back());
  return round;
}

// A random affine map from the glyph's box to pixels.
class InkPlace {
 public:
  explicit InkPlace(Random& random) {
    // The angle by its half's tangent: sines and cosines differ between math libraries.
    const double t = random.Uniform(-0.13, 0.13);
    const double cosine = (1 - t * t) / (1 + t * t);
    const double sine = 2 * t / (1 + t * t);
    const double slant = random.Uniform(-0.45, 0.2);
    const double width = random.Uniform(2.2, 3.9);
    const double height = random.Uniform(2.5, 3.6);
    xx_ = cosine * width;
    xy_ = (cosine * slant - sine) * height;
    yx_ = sine * width;
    yy_ = (sine * slant + cosine) * height;
    x_ = kSide / 2.0 + random.Uniform(-2.5, 2.5);
    y_ = kSide / 2.0 + random.Uniform(-2.5, 2.5);
  }

  Point operator()(Point p) const {
    const double x = p.x - 2, y = p.y - 3;
    return {x_ + xx_ * x + xy_ * y, y_ + yx_ * x + yy_ * y};
  }

 private:
  double xx_, xy_, yx_, yy_, x_, y_;
};

using Canvas = std::array<double, kPixels>;  // ink per pixel, 0 to 1

// Draws the line a-b with a round pen of this radius, its edge softened over one pixel.
void DrawLine(Point a, Point b, double radius, double ink, Canvas& canvas) {
  const auto clip = [](double v) { return static_cast<int>(std::clamp(v, 0.0, double{kSide})); };
  const double reach = radius + 1.5;
  const int left = clip(std::min(a.x, b.x) - reach), right = clip(std::max(a.x, b.x) + reach);
  const int top = clip(std::min(a.y, b.y) - reach), bottom = clip(std::max(a.y, b.y) + reach);
  const double dx = b.x - a.x, dy = b.y - a.y;
  const double length2 = dx * dx + dy * dy;
  for (int row = top; row < bottom; ++row) {
    for (int column = left; column < right; ++column) {
      const double px = column + 0.5 - a.x, py = row + 0.5 - a.y;
      const double t = length2 > 0 ? std::clamp((px * dx + py * dy) / length2, 0.0, 1.0) : 0;
      const double ex = px - t * dx, ey = py - t * dy;
      const double distance = std::sqrt(ex * ex + ey * ey);
      const double cover = std::clamp(radius + 0.5 - distance, 0.0, 1.0);
      double& pixel = canvas[row * kSide + column];
      pixel = std::max(pixel, ink * cover);
    }
  }
}

void DrawDigit(int digit, Random& random, Canvas& canvas) {
  const std::vector<const Glyph*> glyphs = GlyphsOf(digit);
  const Glyph& glyph = *glyphs[random.Below(glyphs.size())];
  const InkPlace place(random);
  const double radius = random.Uniform(0.5, 1.5);
  const double ink = random.Uniform(0.65, 1);
  for (const Stroke& points : glyph.strokes) {
    Stroke stroke;
    for (Point p : points)
      stroke.push_back({p.x + random.Uniform(-0.35, 0.35), p.y + random.Uniform(-0.35, 0.35)});
    stroke = Round(Round(stroke));
    for (size_t i = 0; i + 1 < stroke.size(); ++i) {
      DrawLine(place(stroke[i]), place(stroke[i + 1]), radius, ink, canvas);
    }
  }
}

void DrawStrayStroke(Random& random, Canvas& canvas) {
  const Point a = {random.Uniform(0, kSide), random.Uniform(0, kSide)};
  const Point b = {a.x + random.Uniform(-6, 6), a.y + random.Uniform(-6, 6)};
  const double radius = random.Uniform(0.4, 0.9);
  DrawLine(a, b, radius, random.Uniform(0.3, 0.9), canvas);
}

// The image as bytes, as a scanner would give them.
std::array<uint8_t, kPixels> Scan(const Canvas& canvas, Random& random) {
  std::array<uint8_t, kPixels> bytes;
  for (int i = 0; i < kPixels; ++i) {
    const double grain = random.Uniform(-0.12, 0.12);
    bytes[i] = static_cast<uint8_t>(std::lround(std::clamp(canvas[i] + grain, 0.0, 1.0) * 255));
  }
  return bytes;
}

template <typename T>
Dataset Draw(int64_t n, uint64_t seed, uint64_t part) {
  Tensor image(Type{DTypeOf<T>(), {n, kPixels}});
  Tensor label(Type{I32, {n}});
  auto pixels = image.mutable_values<T>().begin();
  for (int32_t& digit : label.mutable_values<int32_t>()) {
    const int64_t example = &digit - label.mutable_values<int32_t>().data();
    Random random(seed, 2 * static_cast<uint64_t>(example) + part);
    digit = static_cast<int32_t>(random.Below(10));
    Canvas canvas = {};
    DrawDigit(digit, random, canvas);
    if (random.Below(4) == 0) DrawStrayStroke(random, canvas);
    for (uint8_t byte : Scan(canvas, random)) *pixels++ = static_cast<T>(byte) / 255;
  }
  absl::StatusOr<Dataset> dataset =
      Dataset::Create({{"image", std::move(image)}, {"label", std::move(label)}});
  MESHWORK_CHECK(dataset.ok(), "{}", MessageOf(dataset.status()));
  return *std::move(dataset);
}

}  // namespace

absl::StatusOr<MnistData> SyntheticDigits(int64_t train, int64_t test, uint64_t seed, DType dtype) {
  if (train < 0 || test < 0 || (dtype != F32 && dtype != F64))
    return InvalidArgument(
        "SyntheticDigits: {} and {} images of {}; numbers are at least 0, images f32 or f64.", train, test,
        DTypeName(dtype));
  if (dtype == F64) return MnistData{Draw<double>(train, seed, 0), Draw<double>(test, seed, 1)};
  return MnistData{Draw<float>(train, seed, 0), Draw<float>(test, seed, 1)};
}

}  // namespace meshwork
