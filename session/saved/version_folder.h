// The versions of a saved program in its folder. Internal to this room.
//
//   models/digits/1/…   models/digits/2/…   models/digits/partial-9f2c…/…   one that is being written
//
// Thread safety: functions may be called from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace meshwork {

// The number that a folder's name is; 0: it is none. "7" is one, "07" and "+7" are not.
int64_t VersionOf(const std::string& path);

// The names that are numbers, in increasing order. Error: the folder cannot be read.
absl::StatusOr<std::vector<int64_t>> NumbersIn(const std::string& dir);

// The path of a version: `path` itself if it has a manifest, else the newest in it that has one, or `version`. Error:
// there is none.
absl::StatusOr<std::string> FindVersion(const std::string& path, std::optional<int64_t> version);

// Removes what killed writers left. REQUIRES: no other job writes there (CheckpointLock).
void RemoveUnfinishedVersions(const std::string& dir);
// The folder of a version that a job writes.
std::string UnfinishedVersion(const std::string& dir, const std::string& job);

}  // namespace meshwork
