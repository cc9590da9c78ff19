// Counts what is allocated, on every thread, while a scope is open, and by whom.
//
//   CountAllocations count;
//   …step…
//   EXPECT_EQ(count.ours(), 0) << count.FirstOfOurs();
//   fmt::print("the kernel libraries allocated {} times\n", count.libraries());
//
// How. This binary defines malloc and its relatives, and forwards to glibc's. Every operator new of libstdc++
// ends there, and so does what a shared library allocates. Whose allocation it is says the call stack: that
// of a kernel library (oneDNN, OpenBLAS, or an OpenMP runtime below them) if one of its frames is on it,
// otherwise ours. So nothing in meshwork knows that it is watched, what our own code does around a library
// call counts as ours, and a stack that cannot be read counts as ours too. Memory that a library maps itself
// (mmap) is not seen.
//
// One scope at a time. Not for sanitizers, which have a malloc of their own.
#pragma once

#include <cstdint>
#include <string>

namespace meshwork {

class CountAllocations {
 public:
  CountAllocations();
  ~CountAllocations();
  CountAllocations(const CountAllocations&) = delete;
  CountAllocations& operator=(const CountAllocations&) = delete;

  int64_t ours() const;
  int64_t libraries() const;
  // The call stack of the first that is ours, a frame per line; "" if there is none.
  std::string FirstOfOurs() const;
};

}  // namespace meshwork
