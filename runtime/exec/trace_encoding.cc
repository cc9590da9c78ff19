// Trace::Encode and Trace::Decode: whole numbers in groups of seven bits, the low ones first, as in Protocol Buffers;
// texts and lists with their length before them.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/runtime/exec/trace.h"

namespace meshwork {
namespace {

constexpr size_t kNumKinds = static_cast<size_t>(TraceTrack::Kind::kLink) + 1;
constexpr int kBits = 7, kWordBits = 64;
constexpr uint64_t kMore = uint64_t{1} << kBits;  // another group follows

class Writer {
 public:
  void Word(uint64_t word) {
    for (; word >= kMore; word >>= kBits) bytes_ += static_cast<char>(word | kMore);
    bytes_ += static_cast<char>(word);
  }
  // Numbers near 0 are short, on either side.
  void Number(int64_t number) {
    Word(static_cast<uint64_t>(number) << 1 ^ static_cast<uint64_t>(number >> (kWordBits - 1)));
  }
  void Real(double real) { Word(std::bit_cast<uint64_t>(real)); }
  void Text(std::string_view text) {
    Word(text.size());
    bytes_ += text;
  }
  template <typename T, typename Write>
  void List(const std::vector<T>& items, const Write& write) {
    Word(items.size());
    for (const T& item : items) write(item);
  }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// After a mistake everything reads as 0 or empty, and nothing is read on.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  uint64_t Word() {
    last_ = at_;
    uint64_t word = 0;
    for (int shift = 0; shift < kWordBits && at_ < bytes_.size() && !is_bad_; shift += kBits) {
      const auto group = static_cast<unsigned char>(bytes_[at_++]);
      word |= (group & (kMore - 1)) << shift;
      if (group < kMore) return word;
    }
    Expect(false);
    return 0;
  }
  int64_t Number() {
    const uint64_t word = Word();
    return static_cast<int64_t>(word >> 1 ^ (~(word & 1) + 1));
  }
  // An index below `end`.
  int Index(size_t end) {
    const uint64_t index = Word();
    Expect(index < end && index <= static_cast<uint64_t>(std::numeric_limits<int>::max()));
    return is_bad_ ? 0 : static_cast<int>(index);
  }
  double Real() {
    const auto real = std::bit_cast<double>(Word());
    Expect(std::isfinite(real));
    return real;
  }
  std::string Text() {
    const size_t size = Size();
    const std::string_view text = bytes_.substr(at_, size);
    at_ += size;
    return std::string(text);
  }
  // The size of a text or a list; each item of a list takes at least a byte.
  size_t Size() {
    const uint64_t size = Word();
    Expect(size <= bytes_.size() - at_);
    return is_bad_ ? 0 : static_cast<size_t>(size);
  }
  template <typename T, typename Read>
  void List(std::vector<T>& items, const Read& read) {
    for (size_t left = Size(); left > 0 && !is_bad_; --left) items.push_back(read());
  }
  // Notes a mistake in the last word unless `is_right`.
  void Expect(bool is_right) {
    if (is_right || is_bad_) return;
    is_bad_ = true;
    at_ = last_;
  }

  absl::Status Finish() {
    if (!is_bad_ && at_ == bytes_.size()) return absl::OkStatus();
    return InvalidArgument("Trace: {} are no encoded trace: byte {} is wrong or missing.",
                           Count(std::ssize(bytes_), "byte"), at_);
  }

 private:
  const std::string_view bytes_;
  size_t at_ = 0, last_ = 0;  // where the next word begins, and where the last one did
  bool is_bad_ = false;
};

}  // namespace

std::string Trace::Encode() const {
  Writer out;
  out.Text(name);
  out.Number(origin_ns);
  out.List(processes, [&](const std::string& process) { out.Text(process); });
  out.List(tracks, [&](const TraceTrack& track) {
    out.Word(static_cast<uint64_t>(track.kind));
    out.Number(track.index);
    out.Text(track.name);
    out.Word(static_cast<uint64_t>(track.process));
  });
  out.List(labels, [&](const TraceLabel& label) {
    out.Text(label.name);
    out.Text(label.category);
    out.List(label.texts, [&](const auto& named) {
      out.Text(named.first);
      out.Text(named.second);
    });
    out.Real(label.flops);
    out.Number(label.bytes);
  });
  out.List(events, [&](const TraceEvent& event) {
    out.Word(static_cast<uint64_t>(event.track));
    out.Word(static_cast<uint64_t>(event.label));
    out.Number(event.step);
    out.Number(event.start_ns);
    out.Number(event.ns);
  });
  return out.Take();
}

absl::StatusOr<Trace> Trace::Decode(std::string_view bytes) {
  Reader in(bytes);
  Trace trace;
  trace.name = in.Text();
  trace.origin_ns = in.Number();
  in.List(trace.processes, [&] { return in.Text(); });
  // A trace without names of processes is that of one process.
  const size_t processes = std::max<size_t>(trace.processes.size(), 1);
  in.List(trace.tracks, [&] {
    TraceTrack track;
    track.kind = static_cast<TraceTrack::Kind>(in.Index(kNumKinds));
    track.index = in.Number();
    track.name = in.Text();
    track.process = in.Index(processes);
    return track;
  });
  in.List(trace.labels, [&] {
    TraceLabel label;
    label.name = in.Text();
    label.category = in.Text();
    in.List(label.texts, [&] {
      std::string name = in.Text();
      return std::pair(std::move(name), in.Text());
    });
    label.flops = in.Real();
    label.bytes = in.Number();
    return label;
  });
  in.List(trace.events, [&] {
    TraceEvent event;
    event.track = in.Index(trace.tracks.size());
    event.label = in.Index(trace.labels.size());
    event.step = in.Number();
    event.start_ns = in.Number();
    event.ns = in.Number();
    return event;
  });
  MESHWORK_RETURN_IF_ERROR(in.Finish());
  return trace;
}

}  // namespace meshwork
