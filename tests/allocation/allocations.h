// Counts what is allocated, on every thread, while a scope is open, and by whom.
//
//   CountAllocations count;
//   …step…
//   EXPECT_EQ(count.ours(), 0) << count.FirstOfOurs();
//   fmt::print("the kernel libraries allocated {} times\n", count.libraries());
//
// This binary defines malloc and its relatives, and forwards to glibc's. Every operator new of libstdc++ ends
// there, and so does every allocation of a shared library. The call stack tells whose an allocation is: it is
// the kernel libraries' (oneDNN, OpenBLAS, or an OpenMP runtime below them) if one of their frames is on it,
// otherwise ours. So meshwork's code needs no hooks, allocations of our own code around a library call count
// as ours, and an allocation whose stack cannot be read counts as ours too. Memory that a library maps itself
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
  // The call stack of the first allocation of ours, a frame per line; "" if there is none.
  std::string FirstOfOurs() const;
};

}  // namespace meshwork
