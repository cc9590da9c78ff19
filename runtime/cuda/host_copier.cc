#include "meshwork/runtime/cuda/host_copier.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "meshwork/base/cores.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/tensor/stream_copy.h"

namespace meshwork {
namespace {

constexpr int kMostHelpers = 7;  // with the caller they copy about as fast as PCIe 5 transfers

int DefaultHelpers() {
  const std::vector<int> cores = UsableCores();
  const auto count =
      cores.empty() ? static_cast<int>(std::thread::hardware_concurrency()) : static_cast<int>(cores.size());
  return std::clamp(count / 2, 0, kMostHelpers);
}

void CopyPiece(const HostCopy& copy, bool past_caches) {
  if (past_caches) StreamLines(copy.to, copy.from, copy.bytes);
  else std::memcpy(copy.to, copy.from, static_cast<size_t>(copy.bytes));
}

}  // namespace

// The pieces of one call, which the caller and the threads take in order. A piece takes many microseconds, so that a
// mutex for each of them costs nothing.
class HostCopier::Helpers {
 public:
  explicit Helpers(int most) : most_(static_cast<size_t>(most)) {}
  Helpers(const Helpers&) = delete;
  Helpers& operator=(const Helpers&) = delete;
  ~Helpers() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    work_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  size_t num_threads() const { return threads_.size(); }

  // While it lives, the threads copy the pieces. After its destructor no thread does.
  class Call {
   public:
    Call(Helpers& helpers, std::span<const Piece> pieces, bool past_caches) : helpers_(helpers) {
      helpers_.Begin(pieces, past_caches);
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    ~Call() { helpers_.End(); }

    // Waits for piece `first`, and copies pieces meanwhile. Returns a number > first: all pieces before it are there.
    size_t Await(size_t first) { return helpers_.Await(first); }

   private:
    Helpers& helpers_;
  };

 private:
  void Begin(std::span<const Piece> pieces, bool past_caches) {
    try {
      while (threads_.size() < std::min(most_, pieces.size() - 1)) threads_.emplace_back([this] { Main(); });
    } catch (const std::system_error&) {
      most_ = threads_.size();  // the system has no more
    }
    const std::lock_guard lock(mutex_);
    is_there_.assign(pieces.size(), false);
    past_caches_ = past_caches;
    next_ = 0;
    pieces_ = pieces;
  }

  void End() {
    std::unique_lock lock(mutex_);
    pieces_ = {};
    arrived_.wait(lock, [this] { return copying_ == 0; });
  }

  size_t Await(size_t first) {
    std::unique_lock lock(mutex_);
    // A thread that has the piece seldom needs long.
    constexpr int kYields = 100;
    for (int yields = 0; !is_there_[first] && yields < kYields;) {
      if (next_ < pieces_.size()) {
        CopyNext(lock);
        continue;
      }
      lock.unlock();
      std::this_thread::yield();
      lock.lock();
      ++yields;
    }
    arrived_.wait(lock, [&] { return is_there_[first]; });
    while (first < is_there_.size() && is_there_[first]) ++first;
    return first;
  }

  // REQUIRES: pieces are left.
  void CopyNext(std::unique_lock<std::mutex>& lock) {
    const size_t i = next_++;
    const HostCopy copy = pieces_[i].what;
    const bool are_left = next_ < pieces_.size(), past_caches = past_caches_;
    ++copying_;
    lock.unlock();
    // Each thread wakes one more, so that no thread has to wake all.
    if (are_left) work_.notify_one();
    CopyPiece(copy, past_caches);
    lock.lock();
    --copying_;
    is_there_[i] = true;
    arrived_.notify_one();
  }

  void Main() {
    std::unique_lock lock(mutex_);
    while (true) {
      work_.wait(lock, [this] { return ends_ || next_ < pieces_.size(); });
      if (ends_) return;
      CopyNext(lock);
    }
  }

  size_t most_;
  std::mutex mutex_;                 // of all below but the threads
  std::condition_variable work_;     // pieces are left, or it ends
  std::condition_variable arrived_;  // a piece is there
  std::span<const Piece> pieces_;    // empty between calls
  std::vector<bool> is_there_;       // of each piece
  size_t next_ = 0, copying_ = 0;    // the first piece that is not taken; how many are being copied
  bool past_caches_ = false, ends_ = false;
  std::vector<std::thread> threads_;
};

HostCopier::HostCopier(const HostCopierOptions& options)
    : options_{.helpers = options.helpers < 0 ? DefaultHelpers() : options.helpers,
               .piece_bytes = options.piece_bytes,
               .large_bytes = options.large_bytes} {
  MESHWORK_CHECK(options.piece_bytes >= 1);
}

HostCopier::~HostCopier() = default;

int HostCopier::num_helpers() const {
  return helpers_ == nullptr ? 0 : static_cast<int>(helpers_->num_threads());
}

absl::Status HostCopier::Stage(std::span<const HostCopy> copies, const Arrived& arrived) {
  return Run(copies, /*for_device=*/true, arrived);
}

void HostCopier::Copy(std::span<const HostCopy> copies) {
  const absl::Status status =
      Run(copies, /*for_device=*/false, [](size_t, int64_t, int64_t) { return absl::OkStatus(); });
  MESHWORK_CHECK(status.ok());
}

std::vector<HostCopier::Piece> HostCopier::PiecesOf(std::span<const HostCopy> copies) const {
  std::vector<Piece> pieces;
  for (size_t i = 0; i < copies.size(); ++i)
    for (int64_t first = 0; first < copies[i].bytes; first += options_.piece_bytes)
      pieces.push_back({{copies[i].to + first, copies[i].from + first,
                         std::min(options_.piece_bytes, copies[i].bytes - first)},
                        i,
                        first});
  return pieces;
}

absl::Status HostCopier::Run(std::span<const HostCopy> copies, bool for_device, const Arrived& arrived) {
  int64_t bytes = 0;
  for (const HostCopy& copy : copies) bytes += copy.bytes;
  const bool is_large = bytes >= options_.large_bytes, past_caches = is_large && for_device;
  const std::vector<Piece> pieces = PiecesOf(copies);
  if (!is_large || options_.helpers == 0 || pieces.size() < 2 || !made_.is_here()) {
    for (const Piece& piece : pieces) {
      CopyPiece(piece.what, past_caches);
      MESHWORK_RETURN_IF_ERROR(arrived(piece.copy, piece.first, piece.what.bytes));
    }
    return absl::OkStatus();
  }
  if (helpers_ == nullptr) helpers_.reset(new Helpers(options_.helpers));
  Helpers::Call call(*helpers_, pieces, past_caches);
  for (size_t next = 0; next < pieces.size();) {
    const size_t there = call.Await(next);
    while (next < there) {
      const Piece& piece = pieces[next];
      int64_t together = 0;
      for (; next < there && pieces[next].copy == piece.copy; ++next) together += pieces[next].what.bytes;
      MESHWORK_RETURN_IF_ERROR(arrived(piece.copy, piece.first, together));
    }
  }
  return absl::OkStatus();
}

}  // namespace meshwork
