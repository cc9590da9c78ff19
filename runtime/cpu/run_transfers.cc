#include "meshwork/runtime/cpu/run_transfers.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "meshwork/runtime/cpu/reduce.h"
#include "meshwork/runtime/tensor/stream_copy.h"

namespace meshwork {
namespace {

// The bytes of a part that is read once for several targets; it stays in a core's own cache meanwhile.
constexpr int64_t kPartBytes = int64_t{64} << 10;
// Shorter runs share too many lines with their neighbours to be written past the caches.
constexpr int64_t kShortestStream = 4096;

void CopyBytes(std::byte* to, const std::byte* from, int64_t bytes, bool stream) {
  if (stream && bytes >= kShortestStream) StreamCopy(to, from, bytes);
  else std::memcpy(to, from, static_cast<size_t>(bytes));
}

template <typename T>
void FillWith(std::byte* to, const std::array<std::byte, 8>& element, int64_t count) {
  T value;
  std::memcpy(&value, element.data(), sizeof(T));
  std::fill_n(reinterpret_cast<T*>(to), count, value);
}

void FillElements(std::byte* to, const std::array<std::byte, 8>& element, int64_t size, int64_t count) {
  switch (size) {
    case 1: return FillWith<uint8_t>(to, element, count);
    case 2: return FillWith<uint16_t>(to, element, count);
    case 4: return FillWith<uint32_t>(to, element, count);
    default: return FillWith<uint64_t>(to, element, count);
  }
}

// Elements [begin, end) of a transfer's region, at its target.
void Fill(const Transfer& transfer, int64_t begin, int64_t end, std::span<std::byte* const> addresses,
          bool stream) {
  const int64_t size = DTypeSize(transfer.dtype);
  std::byte* to = addresses[transfer.to];
  if (transfer.from.empty()) {
    transfer.box.ForRuns(begin, end, [&](int64_t, int64_t offset, int64_t count) {
      FillElements(to + offset * size, transfer.fill, size, count);
    });
    return;
  }
  if (transfer.from.size() == 1) {
    const std::byte* from = addresses[transfer.from[0]];
    transfer.box.ForRuns(begin, end, [&](int64_t from_offset, int64_t to_offset, int64_t count) {
      CopyBytes(to + to_offset * size, from + from_offset * size, count * size, stream);
    });
    return;
  }
  // Groups larger than this are reduced part by part, each part onto the result of the parts before.
  constexpr size_t kPart = 64;
  const std::byte* sources[kPart + 1];
  transfer.box.ForRuns(begin, end, [&](int64_t from_offset, int64_t to_offset, int64_t count) {
    for (size_t next = 0; next < transfer.from.size();) {
      size_t n = 0;
      if (next > 0) sources[n++] = to + (to_offset - from_offset) * size;
      for (size_t k = 0; k < kPart && next < transfer.from.size(); ++k)
        sources[n++] = addresses[transfer.from[next++]];
      Reduce(transfer.op, transfer.dtype, to + to_offset * size, {sources, n}, from_offset, count);
    }
  });
}

// Fills `other`, which reads the same as `done`, after Fill of `done`: a reduction is computed only once.
void FillLike(const Transfer& done, const Transfer& other, int64_t begin, int64_t end,
              std::span<std::byte* const> addresses, bool stream) {
  if (other.from.size() <= 1) return Fill(other, begin, end, addresses, stream);
  const int64_t size = DTypeSize(other.dtype);
  other.box.ForRuns(begin, end, [&](int64_t, int64_t offset, int64_t count) {
    CopyBytes(addresses[other.to] + offset * size, addresses[done.to] + offset * size, count * size, stream);
  });
}

bool ReadTheSame(std::span<const Transfer> transfers, const WorkSlice& a, const WorkSlice& b) {
  const Transfer &x = transfers[a.item], &y = transfers[b.item];
  return a.begin == b.begin && a.end == b.end && x.from == y.from && x.op == y.op && x.box == y.box;
}

}  // namespace

void RunTransfers(std::span<const Transfer> transfers, std::span<const WorkSlice> slices,
                  std::span<std::byte* const> addresses) {
  int64_t written = 0;
  for (const WorkSlice& slice : slices)
    written += (slice.end - slice.begin) * DTypeSize(transfers[slice.item].dtype);
  const bool stream = written >= StreamingThreshold();
  for (size_t s = 0; s < slices.size();) {
    size_t same = s + 1;
    while (same < slices.size() && ReadTheSame(transfers, slices[s], slices[same])) ++same;
    const auto [item, begin, end] = slices[s];
    const Transfer& first = transfers[item];
    const int64_t part = same == s + 1 ? end - begin : kPartBytes / DTypeSize(first.dtype);
    for (int64_t at = begin; at < end; at += part) {
      Fill(first, at, std::min(at + part, end), addresses, stream);
      for (size_t other = s + 1; other < same; ++other)
        FillLike(first, transfers[slices[other].item], at, std::min(at + part, end), addresses, stream);
    }
    s = same;
  }
}

void SortByWhatIsRead(std::span<const Transfer> transfers, std::vector<WorkSlice>& slices) {
  std::stable_sort(slices.begin(), slices.end(), [&](const WorkSlice& a, const WorkSlice& b) {
    return std::tie(transfers[a.item].from, a.begin, a.end) <
           std::tie(transfers[b.item].from, b.begin, b.end);
  });
}

}  // namespace meshwork
