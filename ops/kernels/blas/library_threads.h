// Makes kernel libraries use one thread each: meshwork's own threads call them side by side.
#pragma once

namespace meshwork {

// While an object lives, oneDNN works on the calling thread alone and prepares its work for one thread.
// OpenBLAS does so from the first object on. OpenMP's thread count is a setting of each thread; the
// destructor restores the caller's.
class SingleThreadedLibraries {
 public:
  SingleThreadedLibraries();
  ~SingleThreadedLibraries();
  SingleThreadedLibraries(const SingleThreadedLibraries&) = delete;
  SingleThreadedLibraries& operator=(const SingleThreadedLibraries&) = delete;

 private:
  const int before_;
};

// Kernel libraries allocate memory of their own when a thread first calls them, and do not report failure:
// OpenBLAS then tries for ever, and oneDNN writes to address 0. These functions are called before the
// library, and throw std::bad_alloc instead. Except for a thread's first call, they only read a flag. They do
// not help if another thread takes the memory in between, nor for memory that oneDNN allocates in later
// calls.
void ReserveForOneDnn();
void ReserveForOpenBlas();

}  // namespace meshwork
