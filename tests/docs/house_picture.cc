#include "docs/house_picture.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "house/includes.h"

namespace meshwork::docs {
namespace {

constexpr double kPictureWidth = 640, kBoxWidth = 290, kMargin = 20, kGap = 24, kLine = 15, kOthers = 34;

// A folder at the root, the box that stands for it, and what it says of its rooms.
struct Folder {
  std::string name;
  std::vector<std::string> lines;  // the rooms within it
  int64_t level = 0;               // one above the highest folder that it includes
  SvgBox box = {};

  SvgPoint top() const { return {box.x + box.width / 2, box.y}; }
  SvgPoint bottom() const { return {box.x + box.width / 2, box.y + box.height}; }
};

// The rooms of `folder` from the lowest on, as lines that fit into a box.
std::vector<std::string> LinesOf(std::string_view folder, const std::vector<std::string>& rooms) {
  std::vector<std::string> lines;
  for (const std::string& room : rooms) {
    if (!room.starts_with(fmt::format("{}/", folder))) continue;
    const std::string name = room.substr(folder.size() + 1);
    const bool fits = !lines.empty() && Svg::TextWidth(lines.back() + "   " + name) < kBoxWidth - 16;
    if (fits) lines.back() += "   " + name;
    else lines.push_back(name);
  }
  return lines;
}

// Arrows without those that follow from others.
Arrows Reduced(const Arrows& arrows) {
  Arrows reduced = arrows;
  for (const auto& [from, included] : arrows)
    for (const auto& [middle, file] : included)
      for (const auto& [to, other_file] : arrows.at(middle)) reduced[from].erase(to);
  return reduced;
}

struct House {
  std::map<std::string, Folder> folders;
  Arrows arrows;  // between folders, without those that follow from others
};

House ReadHouse() {
  const std::filesystem::path root = std::filesystem::path(MESHWORK_TEST_DIR).parent_path();
  const std::vector<std::string> rooms = RoomsOf(root);
  std::vector<std::string> findings;
  const Arrows arrows = FolderArrows(ArrowsOf(AllSources(root), findings));
  House house{.arrows = Reduced(arrows)};
  for (const std::string& name : FoldersOf(rooms)) {
    Folder folder{.name = name, .lines = LinesOf(name, rooms)};
    for (const auto& [included, file] : arrows.at(name))
      folder.level = std::max(folder.level, house.folders.at(included).level + 1);
    house.folders[name] = std::move(folder);
  }
  return house;
}

// The mean of where the folders that `folder` includes stand; 0 if it includes none.
double MeanPlaceBelow(const House& house, const Folder& folder) {
  const auto& included = house.arrows.at(folder.name);
  double sum = 0;
  for (const auto& [name, file] : included) sum += house.folders.at(name).top().x;
  return included.empty() ? 0 : sum / static_cast<double>(included.size());
}

// Places the folders level by level above `ground`, and returns where the highest level begins.
double Place(House& house, double ground) {
  std::map<int64_t, std::vector<Folder*>> levels;
  for (auto& [name, folder] : house.folders) levels[folder.level].push_back(&folder);
  double y = ground + kGap;
  for (auto& [number, level] : levels) {
    std::stable_sort(level.begin(), level.end(), [&](const Folder* a, const Folder* b) {
      return MeanPlaceBelow(house, *a) < MeanPlaceBelow(house, *b);
    });
    size_t lines = 0;
    for (const Folder* folder : level) lines = std::max(lines, folder->lines.size());
    const double height = 26 + kLine * static_cast<double>(lines);
    const auto count = static_cast<double>(level.size());
    double x = (kPictureWidth - count * kBoxWidth - (count - 1) * kMargin) / 2;
    y -= kGap + height;
    for (Folder* folder : level) {
      folder->box = {x, y, kBoxWidth, height};
      x += kBoxWidth + kMargin;
    }
  }
  return y;
}

// The folders that are no rooms, in a row at `y`.
void DrawOthers(Svg& svg, double y) {
  constexpr double kEach = (kPictureWidth - 5 * kMargin) / 4;
  double x = kMargin;
  for (const std::string_view other : {"examples", "tests", "benchmarks", "docs"}) {
    svg.Rect({x, y, kEach, kOthers}, {.stroke = Paint::kMuted, .dashed = true}, 6);
    svg.Text({x + kEach / 2, y + 22}, other, {.anchor = Anchor::kMiddle, .size = 14});
    x += kEach + kMargin;
  }
}

void DrawArrow(Svg& svg, const Folder& from, const Folder& to) {
  const SvgStyle line = {.stroke = Paint::kMuted, .width = 1.5};
  if (from.level == to.level + 1) {
    svg.Arrow(from.bottom(), to.top(), line);
    return;
  }
  // Around the folders between them.
  const double side = from.box.x / 2, out = from.box.y + from.box.height / 2,
               in = to.box.y + to.box.height / 2;
  const std::vector<SvgPoint> way = {{from.box.x, out}, {side, out}, {side, in}};
  svg.Polyline(way, line);
  svg.Arrow(way.back(), {to.box.x, in}, line);
}

void DrawFolder(Svg& svg, const Folder& folder) {
  svg.Rect(folder.box, {.fill = SeriesPaint(0), .opacity = 0.25, .stroke = Paint::kInk}, 6);
  svg.Text({folder.box.x + 10, folder.box.y + 19}, folder.name, {.size = 14, .bold = true});
  for (size_t i = 0; i < folder.lines.size(); ++i)
    svg.Text({folder.box.x + 10, folder.box.y + 19 + kLine * static_cast<double>(i + 1)}, folder.lines[i]);
}

}  // namespace

Svg DrawHouse() {
  House house = ReadHouse();
  // Placed twice: how high the picture is says where its ground is.
  constexpr double kAbove = kMargin + kOthers + kGap;
  const double ground = kAbove - Place(house, 0);
  Place(house, ground);
  Svg svg(kPictureWidth, ground + kMargin,
          "The house: folders, the rooms within them, and what includes what",
          "An arrow runs from a folder to the highest folders below it that it includes.");
  DrawOthers(svg, kMargin);
  for (const auto& [name, included] : house.arrows)
    for (const auto& [other, file] : included)
      DrawArrow(svg, house.folders.at(name), house.folders.at(other));
  for (const auto& [name, folder] : house.folders) DrawFolder(svg, folder);
  return svg;
}

}  // namespace meshwork::docs
