#include "docs/house_picture.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "house/includes.h"

namespace meshwork::docs {
namespace {

constexpr double kPictureWidth = 640, kBoxWidth = 290, kMargin = 20, kGap = 24, kLine = 15;

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

}  // namespace

Svg DrawHouse() {
  const std::filesystem::path root = std::filesystem::path(MESHWORK_TEST_DIR).parent_path();
  const std::vector<std::string> rooms = RoomsOf(root);
  std::vector<std::string> findings;
  std::vector<SourceFile> sources;
  for (const std::string& room : rooms)
    for (SourceFile& file : SourcesOf(root, room)) sources.push_back(std::move(file));
  const Arrows all = FolderArrows(ArrowsOf(sources, findings));
  const Arrows arrows = Reduced(all);

  std::map<std::string, Folder> folders;
  int64_t levels = 0;
  for (const std::string& name : FoldersOf(rooms)) {
    Folder folder{.name = name, .lines = LinesOf(name, rooms)};
    for (const auto& [included, file] : all.at(name))
      folder.level = std::max(folder.level, folders.at(included).level + 1);
    levels = std::max(levels, folder.level + 1);
    folders[name] = std::move(folder);
  }

  // From the ground up; a folder stands above those that it includes.
  std::vector<std::vector<Folder*>> by_level(static_cast<size_t>(levels));
  for (auto& [name, folder] : folders) by_level[static_cast<size_t>(folder.level)].push_back(&folder);
  double height = 0;
  std::vector<double> heights;
  for (const std::vector<Folder*>& level : by_level) {
    size_t lines = 0;
    for (const Folder* folder : level) lines = std::max(lines, folder->lines.size());
    heights.push_back(26 + kLine * static_cast<double>(lines));
    height += heights.back() + kGap;
  }
  constexpr double kOthers = 34;
  height += kMargin + kOthers + kGap;
  double y = height - kMargin;
  for (size_t l = 0; l < by_level.size(); ++l) {
    std::vector<Folder*>& level = by_level[l];
    const auto middle = [&](const Folder* folder) {
      const auto& included = arrows.at(folder->name);
      const double sum =
          std::accumulate(included.begin(), included.end(), 0.0,
                          [&](double s, const auto& entry) { return s + folders.at(entry.first).top().x; });
      return included.empty() ? 0 : sum / static_cast<double>(included.size());
    };
    std::stable_sort(level.begin(), level.end(),
                     [&](const Folder* a, const Folder* b) { return middle(a) < middle(b); });
    const auto count = static_cast<double>(level.size());
    double x = (kPictureWidth - count * kBoxWidth - (count - 1) * kMargin) / 2;
    y -= heights[l];
    for (Folder* folder : level) {
      folder->box = {x, y, kBoxWidth, heights[l]};
      x += kBoxWidth + kMargin;
    }
    y -= kGap;
  }

  Svg svg(kPictureWidth, height, "The house: folders, the rooms within them, and what includes what",
          "An arrow runs from a folder to the highest folders below it that it includes.");
  double x = kMargin;
  for (const std::string_view other : {"examples", "tests", "benchmarks", "docs"}) {
    const double width = (kPictureWidth - 5 * kMargin) / 4;
    svg.Rect({x, kMargin, width, kOthers}, {.stroke = Paint::kMuted, .dashed = true}, 6);
    svg.Text({x + width / 2, kMargin + 22}, other, {.anchor = Anchor::kMiddle, .size = 14});
    x += width + kMargin;
  }
  const SvgStyle line = {.stroke = Paint::kMuted, .width = 1.5};
  for (const auto& [name, included] : arrows)
    for (const auto& [other, file] : included) {
      const Folder &from = folders.at(name), &to = folders.at(other);
      if (from.level == to.level + 1) {
        svg.Arrow(from.bottom(), to.top(), line);
        continue;
      }
      // Around the folders between them.
      const double side = from.box.x / 2, out = from.box.y + from.box.height / 2,
                   in = to.box.y + to.box.height / 2;
      const std::vector<SvgPoint> way = {{from.box.x, out}, {side, out}, {side, in}};
      svg.Polyline(way, line);
      svg.Arrow(way.back(), {to.box.x, in}, line);
    }
  for (const auto& [name, folder] : folders) {
    svg.Rect(folder.box, {.fill = SeriesPaint(0), .opacity = 0.25, .stroke = Paint::kInk}, 6);
    svg.Text({folder.box.x + 10, folder.box.y + 19}, name, {.size = 14, .bold = true});
    for (size_t i = 0; i < folder.lines.size(); ++i)
      svg.Text({folder.box.x + 10, folder.box.y + 19 + kLine * static_cast<double>(i + 1)}, folder.lines[i]);
  }
  return svg;
}

}  // namespace meshwork::docs
