// Includes between rooms, read from the sources.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace meshwork {

// The rooms that each room includes headers of, itself left out, and for each pair the first file that does.
using Arrows = std::map<std::string, std::map<std::string, std::string>>;

// A file of a room: "ir/graph.cc", and what it says.
struct SourceFile {
  std::string path;
  std::string text;
};

// The headers and sources in the folder `room` of the repository, those of rooms within it left out.
std::vector<SourceFile> SourcesOf(const std::filesystem::path& root, std::string_view room);

// The rooms of the build, in the order of CMakeLists.txt: from the lowest to the topmost.
std::vector<std::string> RoomsOf(const std::filesystem::path& root);
// The headers and sources of all these.
std::vector<SourceFile> AllSources(const std::filesystem::path& root);

// The folder at the root that a room lies in, "ops" of "ops/kernels/blas"; the folders of rooms, in their order; arrows
// between rooms as arrows between their folders.
std::string FolderOf(std::string_view room);
std::vector<std::string> FoldersOf(const std::vector<std::string>& rooms);
Arrows FolderArrows(const Arrows& arrows);

// The includes of the files. `findings`: quoted includes of the house that are not written as
// "meshwork/<room>/<file>.h".
Arrows ArrowsOf(const std::vector<SourceFile>& files, std::vector<std::string>& findings);

// A line for each header of the house that a header in `files` includes and that is not in `files`. If
// `files` are the installed headers, none may be missing.
std::vector<std::string> MissingHeaders(const std::vector<SourceFile>& files);

// The house: a room, and the rooms that its files include. From the lowest to the topmost.
struct Room {
  std::string_view name;
  std::set<std::string> includes;
};

// Differences between the table and the arrows: arrows that are not in the table, arrows of the table that no
// file needs, rooms that include a room which is not below them.
std::vector<std::string> Differences(const std::vector<Room>& house, const Arrows& arrows);

}  // namespace meshwork
