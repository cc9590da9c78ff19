// Copies of data larger than the caches, past the caches: memory is written without being read first, and the
// contents of the caches stay there.
//
// The C library's memcpy does this for single copies of about the size of the shared cache or more. But a
// virtual machine may overstate this size tenfold, and the copies of a collective, one per pair of devices,
// seldom reach it by themselves.
#pragma once

#include <cstddef>
#include <cstdint>

namespace meshwork {

// If one thread writes at least this many bytes in succession, StreamCopy costs less than memcpy, even if the
// bytes are read right afterwards: a few times the cache of a core.
int64_t StreamingThreshold();

// memcpy(to, from, bytes), past the caches if the CPU can. Other threads see these stores in order with other
// stores.
void StreamCopy(std::byte* to, const std::byte* from, int64_t bytes);
// The same, one line after the other; StreamCopy takes lines of several pages in turn. Faster if one thread copies a
// part of a few hundred KiB: 0.8 times as long (25.7 MB, one thread, an EPYC of family 25).
void StreamLines(std::byte* to, const std::byte* from, int64_t bytes);

}  // namespace meshwork
