#include "meshwork/runtime/tensor/stream_copy.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace meshwork {

int64_t StreamingThreshold() {
  static const int64_t threshold = [] {
    int64_t cache = 0;
#ifdef _SC_LEVEL2_CACHE_SIZE
    cache = sysconf(_SC_LEVEL2_CACHE_SIZE);
#endif
    constexpr int64_t kLikely = int64_t{1} << 20;  // where the system does not know
    return 4 * (cache > 0 ? cache : kLikely);
  }();
  return threshold;
}

#if defined(__SSE2__)
namespace {

constexpr int64_t kLine = 64, kPage = 4096;
// Pages copied at once, a line of each in turn: memory has banks, and the CPU fetches ahead within a page.
constexpr int64_t kPages = 4;

// REQUIRES: `to` is at the beginning of a line.
void StreamLine(std::byte* to, const std::byte* from) {
  auto* const out = reinterpret_cast<__m128i*>(to);
  const auto* const in = reinterpret_cast<const __m128i*>(from);
  const __m128i a = _mm_loadu_si128(in), b = _mm_loadu_si128(in + 1), c = _mm_loadu_si128(in + 2),
                d = _mm_loadu_si128(in + 3);
  _mm_stream_si128(out, a);
  _mm_stream_si128(out + 1, b);
  _mm_stream_si128(out + 2, c);
  _mm_stream_si128(out + 3, d);
}

// Copies the bytes before the first line of `to`; returns their number.
int64_t CopyIntoLine(std::byte* to, const std::byte* from, int64_t bytes) {
  const auto into_line = static_cast<int64_t>(reinterpret_cast<uintptr_t>(to) % kLine);
  const int64_t first = std::min(bytes, (kLine - into_line) % kLine);
  std::memcpy(to, from, static_cast<size_t>(first));
  return first;
}

// Copies from byte `next` on, where a line of `to` begins.
void StreamRest(std::byte* to, const std::byte* from, int64_t bytes, int64_t next) {
  for (; next + kLine <= bytes; next += kLine) StreamLine(to + next, from + next);
  _mm_sfence();
  std::memcpy(to + next, from + next, static_cast<size_t>(bytes - next));
}

}  // namespace

void StreamCopy(std::byte* to, const std::byte* from, int64_t bytes) {
  int64_t next = CopyIntoLine(to, from, bytes);
  for (; next + kPages * kPage <= bytes; next += kPages * kPage)
    for (int64_t line = 0; line < kPage; line += kLine)
      for (int64_t page = 0; page < kPages * kPage; page += kPage)
        StreamLine(to + next + page + line, from + next + page + line);
  StreamRest(to, from, bytes, next);
}
void StreamLines(std::byte* to, const std::byte* from, int64_t bytes) {
  StreamRest(to, from, bytes, CopyIntoLine(to, from, bytes));
}
#else
void StreamCopy(std::byte* to, const std::byte* from, int64_t bytes) {
  std::memcpy(to, from, static_cast<size_t>(bytes));
}
void StreamLines(std::byte* to, const std::byte* from, int64_t bytes) { StreamCopy(to, from, bytes); }
#endif

}  // namespace meshwork
