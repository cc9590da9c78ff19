#include "meshwork/train/data/unpacker.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "meshwork/base/status.h"

namespace meshwork::internal {
namespace {

constexpr size_t kMostAtOnce = size_t{1} << 20;
constexpr std::string_view kGzip = "\x1f\x8b";

}  // namespace

struct Unpacker::Inflater {
  Inflater() {
    // 15: the largest window; 16: a gzip header and trailer.
    MESHWORK_CHECK(inflateInit2(&stream, 15 + 16) == Z_OK, "zlib {}", zlibVersion());
  }
  ~Inflater() { inflateEnd(&stream); }
  z_stream stream = {};
};

Unpacker::Unpacker(std::string path, More more) : path_(std::move(path)), more_(std::move(more)) {}
Unpacker::Unpacker(Unpacker&&) noexcept = default;
Unpacker& Unpacker::operator=(Unpacker&&) noexcept = default;
Unpacker::~Unpacker() = default;

absl::Status Unpacker::Have(size_t bytes) {
  while (rest_.size() < bytes) {
    std::string before(rest_);
    MESHWORK_ASSIGN_OR_RETURN(const std::string_view more, more_());
    if (before.empty()) {
      rest_ = more;
    } else {
      joined_ = std::move(before);
      joined_ += more;
      rest_ = joined_;
    }
    if (more.empty()) break;
  }
  return absl::OkStatus();
}

absl::Status Unpacker::Begin() {
  begun_ = true;
  MESHWORK_RETURN_IF_ERROR(Have(kGzip.size()));
  if (rest_.starts_with(kGzip)) inflater_ = std::make_unique<Inflater>();
  return absl::OkStatus();
}

absl::StatusOr<size_t> Unpacker::Read(std::span<uint8_t> out) {
  if (!begun_) MESHWORK_RETURN_IF_ERROR(Begin());
  if (inflater_ != nullptr) return Inflate(out);
  size_t filled = 0;
  while (filled < out.size()) {
    MESHWORK_RETURN_IF_ERROR(Have(1));
    if (rest_.empty()) break;
    const size_t n = std::min(out.size() - filled, rest_.size());
    std::memcpy(out.data() + filled, rest_.data(), n);
    rest_.remove_prefix(n);
    filled += n;
  }
  return filled;
}

absl::StatusOr<size_t> Unpacker::Inflate(std::span<uint8_t> out) {
  z_stream& stream = inflater_->stream;
  size_t filled = 0;
  while (filled < out.size() && !ended_) {
    MESHWORK_RETURN_IF_ERROR(Have(1));
    const size_t offered = std::min(rest_.size(), kMostAtOnce);
    const size_t wanted = std::min(out.size() - filled, kMostAtOnce);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(rest_.data()));
    stream.avail_in = static_cast<uInt>(offered);
    stream.next_out = out.data() + filled;
    stream.avail_out = static_cast<uInt>(wanted);
    const int result = inflate(&stream, Z_NO_FLUSH);
    rest_.remove_prefix(offered - stream.avail_in);
    filled += wanted - stream.avail_out;
    unpacked_ += wanted - stream.avail_out;
    if (result == Z_STREAM_END) {
      MESHWORK_RETURN_IF_ERROR(EndMember());
    } else if (result == Z_BUF_ERROR) {
      return InvalidArgument(
          "{}: the gzip data is cut off after {} unpacked bytes; the file is incomplete, fetch it again.",
          path_, unpacked_);
    } else if (result != Z_OK) {
      return InvalidArgument(
          "{}: the gzip data is damaged after {} unpacked bytes ({}); fetch the file again.", path_,
          unpacked_, stream.msg != nullptr ? stream.msg : zError(result));
    }
  }
  return filled;
}

// A gzip file may consist of several members, one after the other.
absl::Status Unpacker::EndMember() {
  MESHWORK_RETURN_IF_ERROR(Have(kGzip.size()));
  ended_ = !rest_.starts_with(kGzip);
  if (!ended_) {
    MESHWORK_CHECK(inflateReset(&inflater_->stream) == Z_OK);
    return absl::OkStatus();
  }
  size_t left = 0;
  while (!rest_.empty()) {
    left += rest_.size();
    MESHWORK_ASSIGN_OR_RETURN(rest_, more_());
  }
  if (left == 0) return absl::OkStatus();
  return InvalidArgument(
      "{}: the gzip data ends {} before the file does; the file is damaged, fetch it again.", path_,
      Count(static_cast<int64_t>(left), "byte"));
}

}  // namespace meshwork::internal
