#include "docs/pictures.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "docs/house_picture.h"
#include "docs/search_picture.h"
#include "docs/served_picture.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "meshwork/base/svg.h"
#include "meshwork/ir/row.h"
#include "meshwork/ir/text.h"
#include "meshwork/layout/layout.h"
#include "meshwork/layout/relayout.h"
#include "meshwork/mesh/mesh.h"
#include "meshwork/spmd/compile.h"
#include "meshwork/train/nn/initializers.h"
#include "meshwork/train/strategy/strategies.h"

namespace meshwork::docs {
namespace {

// A device has one colour in all pictures.
Paint DevicePaint(int64_t device) { return SeriesPaint(static_cast<int>(device)); }
constexpr double kOpacity = 0.35;
SvgStyle Filled(int64_t device) { return {.fill = DevicePaint(device), .opacity = kOpacity}; }
const SvgStyle kOutline = {.stroke = Paint::kInk, .width = 1.5};
const SvgStyle kCellLine = {.stroke = Paint::kGrid, .width = 1};
const SvgStyle kArrow = {.stroke = Paint::kMuted, .width = 1.5};
const SvgFont kLabel = {.anchor = Anchor::kMiddle};
const SvgFont kCode = {.anchor = Anchor::kMiddle, .size = 13, .mono = true};
const SvgFont kSmallCode = {.anchor = Anchor::kMiddle, .mono = true};
const SvgFont kNote = {.anchor = Anchor::kMiddle, .paint = Paint::kMuted};

// The middle of a line of text at y is a little above its baseline.
SvgPoint Middle(double x, double y, double size = 12) { return {x, y + 0.36 * size}; }

// A tensor of two dims as a grid of square cells, whose left upper corner is at `at`.
struct Matrix {
  SvgPoint at;
  double cell;
  Shape shape;

  SvgBox Box() const { return BoxOf({{0, shape[0]}, {0, shape[1]}}); }
  SvgBox BoxOf(const Block& block) const {
    return {at.x + cell * static_cast<double>(block[1].start),
            at.y + cell * static_cast<double>(block[0].start), cell * static_cast<double>(block[1].size),
            cell * static_cast<double>(block[0].size)};
  }
  SvgPoint Center(const Block& block) const {
    const SvgBox box = BoxOf(block);
    return Middle(box.x + box.width / 2, box.y + box.height / 2);
  }
  void DrawCells(Svg& svg) const {
    const SvgBox box = Box();
    for (int64_t i = 1; i < shape[0]; ++i) {
      const double y = at.y + cell * static_cast<double>(i);
      svg.Line({at.x, y}, {at.x + box.width, y}, kCellLine);
    }
    for (int64_t j = 1; j < shape[1]; ++j) {
      const double x = at.x + cell * static_cast<double>(j);
      svg.Line({x, at.y}, {x, at.y + box.height}, kCellLine);
    }
  }
};

// The devices that hold each block, by block.
std::vector<std::pair<Block, std::vector<int64_t>>> Holders(const Layout& layout, const Shape& shape) {
  std::vector<std::pair<Block, std::vector<int64_t>>> holders;
  for (int64_t device = 0; device < layout.mesh().num_devices(); ++device) {
    const Block block = layout.BlockOf(shape, device);
    auto same = [&](const auto& entry) { return entry.first == block; };
    auto found = std::find_if(holders.begin(), holders.end(), same);
    if (found == holders.end()) found = holders.insert(found, {block, {}});
    found->second.push_back(device);
  }
  return holders;
}

void DrawBlocks(Svg& svg, const Matrix& matrix, const Layout& layout) {
  const auto holders = Holders(layout, matrix.shape);
  for (const auto& [block, devices] : holders) svg.Rect(matrix.BoxOf(block), Filled(devices[0]));
  matrix.DrawCells(svg);
  for (const auto& [block, devices] : holders) {
    svg.Rect(matrix.BoxOf(block), kOutline);
    svg.Text(matrix.Center(block), fmt::format("{}", fmt::join(devices, ", ")), kLabel);
  }
}

// A cell with a text in its middle: one that a device holds, or one of padding.
void DrawCell(Svg& svg, const SvgBox& box, std::string_view text, int64_t device) {
  SvgStyle style = Filled(device);
  style.stroke = Paint::kInk;
  svg.Rect(box, style);
  svg.Text(Middle(box.x + box.width / 2, box.y + box.height / 2), text, kLabel);
}
void DrawPadding(Svg& svg, const SvgBox& box) {
  svg.Rect(box, {.stroke = Paint::kMuted, .dashed = true});
  svg.Text(Middle(box.x + box.width / 2, box.y + box.height / 2), "?", kNote);
}

// ---- The pictures.

Svg DrawMesh() {
  const Mesh mesh = Mesh::Parse("batch=4,model=2").value();
  Svg svg(344, 250, "The mesh [batch=4, model=2]",
          "Eight devices in four rows, batch, and two columns, model. Devices 1, 3, 5 and 7 are a group of "
          "batch.");
  constexpr double kLeft = 110, kTop = 62, kStepX = 76, kStepY = 45;
  auto corner = [&](int64_t device) -> SvgPoint {
    const Coordinates at = mesh.Coordinate(device);
    return {kLeft + kStepX * static_cast<double>(at[1]), kTop + kStepY * static_cast<double>(at[0])};
  };
  for (int64_t device = 0; device < mesh.num_devices(); ++device) {
    const Coordinates at = mesh.Coordinate(device);
    const auto [x, y] = corner(device);
    svg.Rect({x, y, 56, 34}, {.fill = DevicePaint(device), .opacity = kOpacity, .stroke = Paint::kInk}, 6);
    svg.Text(Middle(x + 28, y + 17, 15), fmt::format("{}", device),
             {.anchor = Anchor::kMiddle, .size = 15, .bold = true});
    if (at[0] == 0) svg.Text({x + 28, kTop - 14}, fmt::format("{}", at[1]), kNote);
    if (at[1] == 0) svg.Text(Middle(kLeft - 18, y + 17), fmt::format("{}", at[0]), kNote);
  }
  svg.Text({kLeft + 66, 20}, "model", kCode);
  svg.Arrow({kLeft, 30}, {kLeft + 132, 30}, kArrow);
  svg.Text({40, kTop + 92}, "batch", kCode);
  svg.Arrow({kLeft - 40, kTop}, {kLeft - 40, kTop + 169}, kArrow);

  const AxisGroup group(mesh, {0});
  const SvgPoint first = corner(group.Member(5, 0)), last = corner(group.Member(5, group.size() - 1));
  svg.Rect({first.x - 7, first.y - 7, 70, last.y - first.y + 48},
           {.stroke = Paint::kMuted, .width = 1.5, .dashed = true}, 9);
  svg.Text({first.x + 75, kTop + 78}, "a group", {.paint = Paint::kMuted});
  svg.Text({first.x + 75, kTop + 94}, "of batch", {.paint = Paint::kMuted});
  return svg;
}

Svg DrawLayouts() {
  const Mesh mesh = Mesh::Parse("batch=4,model=2").value();
  Svg svg(560, 236, "A tensor of 8 rows and 6 columns under three layouts",
          "Each block carries the numbers of the devices that hold it.");
  double x = 25;
  for (std::string_view text : {"{batch,model}", "{batch,_}", "{(batch,model),_}"}) {
    const Layout layout = Layout::Parse(mesh, text).value();
    svg.Text({x + 66, 28}, layout.ToString(), kCode);
    DrawBlocks(svg, {{x, 42}, 22, {8, 6}}, layout);
    x += 189;
  }
  return svg;
}

Svg DrawUneven() {
  const Mesh mesh = Mesh::Parse("x=4").value();
  const Layout layout = Layout::Parse(mesh, "{x}").value();
  const Shape shape = {10}, local = layout.LocalShape(shape);
  Svg svg(500, 190, "Ten elements over four devices",
          "The buffers have three elements each; that of device 3 holds one, and two of padding.");
  constexpr double kCell = 30;
  svg.Text(Middle(24, 44), ShapeToString(shape), {.size = 13, .mono = true});
  double x = 90;
  for (int64_t i = 0; i < shape[0]; ++i, x += kCell)
    DrawCell(svg, {x, 29, kCell, kCell}, fmt::format("{}", i), layout.Locate(shape, {i}).device);
  x = 24;
  for (int64_t device = 0; device < mesh.num_devices(); ++device, x += kCell) {
    svg.Text({x + kCell * static_cast<double>(local[0]) / 2, 157}, fmt::format("device {}", device), kLabel);
    for (int64_t i = 0; i < local[0]; ++i, x += kCell) {
      const SvgBox box = {x, 105, kCell, kCell};
      if (!layout.IsHeld(shape, device, {i})) DrawPadding(svg, box);
      else DrawCell(svg, box, fmt::format("{}", layout.GlobalIndex(shape, device, {i})[0]), device);
    }
  }
  svg.Text({x - 2 * kCell, 176}, "padding", kNote);
  return svg;
}

Svg DrawNested() {
  const Mesh mesh = Mesh::Parse("x=2,y=2").value();
  const Shape shape = {10};
  Svg svg(480, 138, "Ten elements, cut along x, and each block again along y",
          "The blocks of {x} have five elements; those of {(x,y)} three, two, three and two.");
  constexpr double kCell = 34, kLeft = 110;
  for (int64_t i = 0; i < shape[0]; ++i)
    svg.Text({kLeft + kCell * (static_cast<double>(i) + 0.5), 26}, fmt::format("{}", i), kNote);
  double y = 38;
  for (std::string_view text : {"{x}", "{(x,y)}"}) {
    const Layout layout = Layout::Parse(mesh, text).value();
    svg.Text(Middle(20, y + 18, 13), text, {.size = 13, .mono = true});
    for (const auto& [block, devices] : Holders(layout, shape)) {
      const SvgBox box = {kLeft + kCell * static_cast<double>(block[0].start), y,
                          kCell * static_cast<double>(block[0].size), 36};
      const Coordinates at = mesh.Coordinate(devices[0]);
      const bool alone = devices.size() == 1;
      DrawCell(svg, box, alone ? fmt::format("x={}, y={}", at[0], at[1]) : fmt::format("x={}", at[0]),
               devices[0]);
    }
    y += 46;
  }
  return svg;
}

// c = a b, contracted along a dim that model cuts.
Svg DrawPartial() {
  const Graph graph = ParseGraph(R"(
      mesh [model=2]
      func f(%a: f32[4,6] {_,model}, %b: f32[6,5] {model,_}) { %c = matmul %a, %b return %c })")
                          .value();
  const Graph local = Compile(graph).value().body;
  const ValueInfo& a = local.value(local.arguments()[0].value);
  const ValueInfo& b = local.value(local.arguments()[1].value);
  const ValueInfo& term = local.value(local.nodes()[0].results[0]);
  const ValueInfo& sum = local.value(local.outputs()[0].value);
  Svg svg(660, 285, "A product whose contracted dim is cut",
          "Each device multiplies its columns of a with its rows of b and has a term of c; their sum is c.");
  constexpr double kCell = 15, kA = 145, kB = 275, kTerm = 428, kSum = 599.5;  // middles of the tensors
  auto matrix = [&](const ValueInfo& info, double x, double y) {
    const Shape& shape = info.global.shape;
    const double width = kCell * static_cast<double>(shape[1]),
                 height = kCell * static_cast<double>(shape[0]);
    return Matrix{{x - width / 2, y - height / 2}, kCell, shape};
  };
  auto draw = [&](const ValueInfo& info, double x, double y, int64_t device) {
    const Matrix whole = matrix(info, x, y);
    const SvgBox held = whole.BoxOf(info.layout->BlockOf(info.global.shape, device));
    svg.Rect(held, Filled(device));
    whole.DrawCells(svg);
    svg.Rect(whole.Box(), {.stroke = Paint::kMuted});
    svg.Rect(held, kOutline);
  };
  auto sign = [&](double x, double y, std::string_view text) {
    svg.Text(Middle(x, y, 20), text, {.anchor = Anchor::kMiddle, .size = 20});
  };
  svg.Text({kA, 26}, fmt::format("a {}", a.layout->ToString()), kCode);
  svg.Text({kB, 26}, fmt::format("b {}", b.layout->ToString()), kCode);
  svg.Text({kTerm, 26}, fmt::format("c {}", term.layout->ToString()), kCode);
  double y = 92;
  for (int64_t device = 0; device < local.mesh().num_devices(); ++device, y += 125) {
    svg.Text(Middle(20, y), fmt::format("device {}", device));
    draw(a, kA, y, device);
    sign(213, y, "·");
    draw(b, kB, y, device);
    sign(346, y, "=");
    draw(term, kTerm, y, device);
  }
  y = 154.5;
  sign(kTerm, y, "+");
  svg.Arrow({470, y}, {550, y}, kArrow);
  svg.Text({508, y - 10}, local.nodes()[1].row->name, kSmallCode);
  const Matrix whole = matrix(sum, kSum, y);
  svg.Rect(whole.Box(), {.fill = Paint::kMuted, .opacity = 0.25});
  whole.DrawCells(svg);
  svg.Rect(whole.Box(), kOutline);
  svg.Text({kSum, y + 50}, fmt::format("c {}", sum.layout->ToString()), kCode);
  return svg;
}

// Elements keep the colour of the device that they come from.
Svg DrawRelayout() {
  const Mesh mesh = Mesh::Parse("x=4").value();
  const Layout from = Layout::Parse(mesh, "{x,_}").value(), to = Layout::Parse(mesh, "{_,x}").value();
  const Shape shape = {8, 8};
  const RelayoutPlan plan = PlanRelayout(from, to, shape).value();
  Svg svg(
      560, 230, "From rows to columns",
      "Elements keep the colour of the device that they come from; outlines are the blocks of the devices.");
  const Matrix before{{70, 50}, 20, shape}, after{{370, 50}, 20, shape};
  for (const Matrix& matrix : {before, after}) {
    for (const auto& [block, devices] : Holders(from, shape))
      svg.Rect(matrix.BoxOf(block), Filled(devices[0]));
    matrix.DrawCells(svg);
  }
  for (const auto& [block, devices] : Holders(from, shape)) {
    svg.Rect(before.BoxOf(block), kOutline);
    svg.Text({52, before.Center(block).y}, fmt::format("{}", devices[0]), kLabel);
  }
  for (const auto& [block, devices] : Holders(to, shape)) {
    svg.Rect(after.BoxOf(block), kOutline);
    svg.Text({after.Center(block).x, 43}, fmt::format("{}", devices[0]), kLabel);
  }
  svg.Text({150, 22}, from.ToString(), kCode);
  svg.Text({30, 130}, "device", {.anchor = Anchor::kMiddle, .paint = Paint::kMuted, .turn = -90});
  svg.Text({450, 22}, to.ToString(), kCode);
  svg.Text({362, 43}, "device", {.anchor = Anchor::kEnd, .paint = Paint::kMuted});
  svg.Arrow({248, 130}, {352, 130}, kArrow);
  svg.Text({300, 118}, RelayoutKindName(plan.steps[0].kind), kSmallCode);
  svg.Text({300, 152}, fmt::format("each sends {}", plan.wire_elements), kNote);
  svg.Text({300, 168}, fmt::format("of its {} elements", NumElements(from.LocalShape(shape))), kNote);
  return svg;
}

// Where a strategy's graph has a batch and a weight.
Svg DrawStrategies() {
  const std::pair<const char*, Strategy> strategies[] = {
      {"Mirrored", MirroredStrategy({.num_devices = 4}).value()},
      {"FullySharded", FullyShardedStrategy({.num_devices = 4, .least_in_blocks = 1}).value()},
      {"FullySharded, groups of 2",
       FullyShardedStrategy({.num_devices = 4, .group = 2, .least_in_blocks = 1}).value()},
      {"Mesh batch=2,model=2",
       MeshStrategy("batch=2,model=2", {.layouts = {{"w", {UNSHARDED, "model"}}}}).value()}};
  Svg svg(800, 310, "A batch and a weight under four strategies of four devices",
          "Each block carries the numbers of the devices that hold it.");
  double x = 80;
  svg.Text(Middle(40, 110), "batch", kNote);
  svg.Text(Middle(40, 245), "weight", kNote);
  for (const auto& [title, strategy] : strategies) {
    Graph graph = strategy.NewGraph();
    const Value batch = graph.Input("x", F32, {8, 4}), weight = graph.Var("w", Zeros({4, 8}));
    svg.Text({x + 70, 22}, title, kLabel);
    const auto draw = [&](const Value& value, double y, double cell) {
      const Layout& layout = *graph.value(value.id()).layout;
      svg.Text({x + 70, y - 8}, layout.ToString(), kSmallCode);
      const double width = cell * static_cast<double>(value.shape()[1]);
      DrawBlocks(svg, {{x + 70 - width / 2, y}, cell, value.shape()}, layout);
    };
    draw(batch, 56, 14);
    draw(weight, 210, 17);
    x += 180;
  }
  return svg;
}

}  // namespace

std::map<std::string, std::string> DrawPictures() {
  return {{"mesh.svg", DrawMesh().ToString()},
          {"layout.svg", DrawLayouts().ToString()},
          {"uneven.svg", DrawUneven().ToString()},
          {"nested.svg", DrawNested().ToString()},
          {"partial.svg", DrawPartial().ToString()},
          {"relayout.svg", DrawRelayout().ToString()},
          {"strategies.svg", DrawStrategies().ToString()},
          {"parameter_servers.svg", DrawParameterServers().ToString()},
          {"search.svg", DrawSearch().ToString()},
          {"house.svg", DrawHouse().ToString()}};
}

}  // namespace meshwork::docs
