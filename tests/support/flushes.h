// What is flushed to the disk: support/flushes.cc stands in front of fsync in the tests that are linked with it.
#pragma once

#include <functional>
#include <string>

namespace meshwork {

// As long as it lives, each fsync of this process first asks `before`, with the path of what is flushed: 0 lets
// it flush, an errno is what it fails with instead. One at a time.
class WatchedFlushes {
 public:
  explicit WatchedFlushes(std::function<int(const std::string& path)> before);
  WatchedFlushes(const WatchedFlushes&) = delete;
  WatchedFlushes& operator=(const WatchedFlushes&) = delete;
  ~WatchedFlushes();
};

}  // namespace meshwork
