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

// Kernel libraries take memory of their own when a thread first calls them, and do not say so where there is
// none: OpenBLAS then tries for ever, and oneDNN writes to address 0. These are called before, and throw
// std::bad_alloc instead. They cost a look at a flag but for a thread's first call. What another thread takes
// in between may still be missing then, and what oneDNN takes in later calls is not looked after.
void ReserveForOneDnn();
void ReserveForOpenBlas();

}  // namespace meshwork
