// Kernel libraries on one thread: meshwork's own threads run them side by side.
#pragma once

namespace meshwork {

// While one lives, oneDNN works on the calling thread alone, and what it prepares is for one thread; OpenBLAS
// does so from the first one on. OpenMP's thread count is a setting of each thread; the caller gets its own
// back.
class SingleThreadedLibraries {
 public:
  SingleThreadedLibraries();
  ~SingleThreadedLibraries();
  SingleThreadedLibraries(const SingleThreadedLibraries&) = delete;
  SingleThreadedLibraries& operator=(const SingleThreadedLibraries&) = delete;

 private:
  const int before_;
};

}  // namespace meshwork
