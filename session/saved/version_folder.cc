#include "meshwork/session/saved/version_folder.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <regex>
#include <system_error>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "meshwork/base/status.h"
#include "meshwork/session/saved/program_manifest.h"
#include "meshwork/storage/checkpoint_folder.h"

namespace meshwork {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kUnfinished = "partial-";
constexpr int64_t kMostVersions = 1'000'000'000;

bool IsVersion(const std::string& path) {
  std::error_code ignored;
  return fs::exists(fmt::format("{}/{}", path, kManifestName), ignored);
}

}  // namespace

int64_t VersionOf(const std::string& path) {
  const fs::path plain = fs::path(path).lexically_normal();
  const std::string name = (plain.has_filename() ? plain : plain.parent_path()).filename().string();
  int64_t number = 0;
  const auto [last, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  const bool is_number = error == std::errc() && fmt::to_string(number) == name;
  return is_number && number > 0 && number <= kMostVersions ? number : 0;
}

absl::StatusOr<std::vector<int64_t>> NumbersIn(const std::string& dir) {
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesInFolder(dir));
  std::vector<int64_t> numbers;
  for (const std::string& name : names)
    if (const int64_t number = VersionOf(name); number > 0) numbers.push_back(number);
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

absl::StatusOr<std::string> FindVersion(const std::string& path, std::optional<int64_t> version) {
  if (IsVersion(path) && (!version.has_value() || *version == VersionOf(path))) return path;
  MESHWORK_ASSIGN_OR_RETURN(std::vector<int64_t> versions, NumbersIn(path));
  std::erase_if(versions, [&](int64_t number) { return !IsVersion(fmt::format("{}/{}", path, number)); });
  if (versions.empty())
    return absl::NotFoundError(fmt::format(
        "{}: there is no saved program; SaveProgram writes folders there that are called 1, 2, 3, ….", path));
  if (!version.has_value()) return fmt::format("{}/{}", path, versions.back());
  if (std::binary_search(versions.begin(), versions.end(), *version))
    return fmt::format("{}/{}", path, *version);
  return absl::NotFoundError(fmt::format("{}: there is no version {}; there {} {}.", path, *version,
                                         versions.size() == 1 ? "is" : "are", fmt::join(versions, ", ")));
}

void RemoveUnfinishedVersions(const std::string& dir) {
  static const std::regex unfinished(fmt::format("{}[0-9a-f]{{16}}", kUnfinished));
  const absl::StatusOr<std::vector<std::string>> names = NamesInFolder(dir);
  if (!names.ok()) return;
  std::error_code ignored;
  for (const std::string& name : *names)
    if (std::regex_match(name, unfinished)) fs::remove_all(fmt::format("{}/{}", dir, name), ignored);
}

std::string UnfinishedVersion(const std::string& dir, const std::string& job) {
  return fmt::format("{}/{}{}", dir, kUnfinished, job);
}

}  // namespace meshwork
