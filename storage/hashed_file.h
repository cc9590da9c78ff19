// HashedFile: a file as the list of a folder's files names it.
#pragma once

#include <cstdint>
#include <string>

namespace meshwork {

struct HashedFile {
  std::string file;  // its name in the folder
  int64_t bytes = 0;
  std::string sha256;  // of its bytes, as Sha256OfFile gives
  bool operator==(const HashedFile&) const = default;
};

}  // namespace meshwork
