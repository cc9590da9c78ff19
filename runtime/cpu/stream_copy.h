// Copies of what is larger than the caches, past them: memory is written without being read first, and what
// the caches hold stays there.
//
// The C library's memcpy does so for single copies of about the size of the shared cache, which a virtual
// machine may overstate tenfold, and which the copies of a collective, one per pair of devices, seldom reach
// alone.
#pragma once

#include <cstddef>
#include <cstdint>

namespace meshwork {

// From so many bytes on that one thread writes in turn, StreamCopy costs less than memcpy, even if they are
// read right afterwards: some times the cache of a core.
int64_t StreamingThreshold();

// memcpy(to, from, bytes), past the caches where the CPU can. Other threads see it in the order of other
// stores.
void StreamCopy(std::byte* to, const std::byte* from, int64_t bytes);

}  // namespace meshwork
