#include "house/includes.h"

#include <algorithm>
#include <regex>

#include "fmt/format.h"
#include "support/contents.h"

namespace meshwork {

std::vector<SourceFile> SourcesOf(const std::filesystem::path& root, std::string_view room) {
  std::vector<SourceFile> files;
  for (const auto& entry : std::filesystem::directory_iterator(root / room)) {
    const std::string extension = entry.path().extension().string();
    if (extension != ".h" && extension != ".cc" && extension != ".cu") continue;
    files.push_back({fmt::format("{}/{}", room, entry.path().filename().string()), Contents(entry.path())});
  }
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  return files;
}

std::vector<std::string> RoomsOf(const std::filesystem::path& root) {
  const std::string text = Contents(root / "CMakeLists.txt");
  static const std::regex* const room = new std::regex("meshwork_room\\(([a-z/_]+)");
  std::vector<std::string> rooms;
  for (auto it = std::sregex_iterator(text.begin(), text.end(), *room); it != std::sregex_iterator(); ++it)
    rooms.push_back((*it)[1].str());
  return rooms;
}

std::vector<SourceFile> AllSources(const std::filesystem::path& root) {
  std::vector<SourceFile> files;
  for (const std::string& room : RoomsOf(root))
    for (SourceFile& file : SourcesOf(root, room)) files.push_back(std::move(file));
  return files;
}

std::string FolderOf(std::string_view room) { return std::string(room.substr(0, room.find('/'))); }

std::vector<std::string> FoldersOf(const std::vector<std::string>& rooms) {
  std::vector<std::string> folders;
  for (const std::string& room : rooms)
    if (const std::string folder = FolderOf(room);
        std::find(folders.begin(), folders.end(), folder) == folders.end())
      folders.push_back(folder);
  return folders;
}

Arrows FolderArrows(const Arrows& arrows) {
  Arrows folders;
  for (const auto& [room, included] : arrows) {
    Arrows::mapped_type& of = folders[FolderOf(room)];
    for (const auto& [other, file] : included)
      if (FolderOf(other) != FolderOf(room)) of.try_emplace(FolderOf(other), file);
  }
  return folders;
}

Arrows ArrowsOf(const std::vector<SourceFile>& files, std::vector<std::string>& findings) {
  static const std::regex* const quoted = new std::regex("#include \"([^\"]*)\"");
  // Libraries whose headers are quoted, too.
  static const std::regex* const other = new std::regex("(absl|fmt|nlohmann)/.*");
  static const std::regex* const house = new std::regex("meshwork/(.+)/[a-z0-9_]+\\.h");
  Arrows arrows;
  for (const SourceFile& file : files) {
    const std::string room = file.path.substr(0, file.path.rfind('/'));
    arrows[room];
    for (auto it = std::sregex_iterator(file.text.begin(), file.text.end(), *quoted);
         it != std::sregex_iterator(); ++it) {
      const std::string header = (*it)[1].str();
      std::smatch match;
      if (std::regex_match(header, *other)) continue;
      if (!std::regex_match(header, match, *house)) {
        findings.push_back(fmt::format(
            "{} includes \"{}\", which is not spelled \"meshwork/<room>/<file>.h\"", file.path, header));
      } else if (match[1].str() != room) {
        arrows[room].try_emplace(match[1].str(), file.path);
      }
    }
  }
  return arrows;
}

std::vector<std::string> MissingHeaders(const std::vector<SourceFile>& files) {
  static const std::regex* const included = new std::regex("#include \"meshwork/([^\"]*)\"");
  std::set<std::string> present;
  for (const SourceFile& file : files) present.insert(file.path);
  std::vector<std::string> missing;
  for (const SourceFile& file : files)
    for (auto it = std::sregex_iterator(file.text.begin(), file.text.end(), *included);
         it != std::sregex_iterator(); ++it)
      if (const std::string header = (*it)[1].str(); !present.contains(header))
        missing.push_back(fmt::format("{} includes {}, which is missing", file.path, header));
  return missing;
}

std::vector<std::string> Differences(const std::vector<Room>& house, const Arrows& arrows) {
  std::vector<std::string> differences;
  std::set<std::string> below;
  for (const Room& room : house) {
    for (const std::string& included : room.includes)
      if (!below.contains(included))
        differences.push_back(fmt::format("{} -> {}: is not below it", room.name, included));
    const auto found = arrows.find(std::string(room.name));
    if (found == arrows.end()) {
      differences.push_back(fmt::format("{}: there is no such room", room.name));
      continue;
    }
    for (const auto& [included, file] : found->second)
      if (!room.includes.contains(included))
        differences.push_back(fmt::format("{} -> {}: {} includes a header of it", room.name, included, file));
    for (const std::string& included : room.includes)
      if (!found->second.contains(included))
        differences.push_back(fmt::format("{} -> {}: no file needs it", room.name, included));
    below.emplace(room.name);
  }
  return differences;
}

}  // namespace meshwork
