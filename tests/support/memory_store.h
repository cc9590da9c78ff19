// A ParameterStore of this process's memory, for tests: SGD with a rate of 1, asynchronously.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "meshwork/base/status.h"
#include "meshwork/train/parameter_server/store.h"

namespace meshwork {

// The state that remains when a store ends, as in a checkpoint.
struct StoredPieces {
  std::map<std::string, Tensor> pieces;           // f32[n,d]
  std::map<std::string, SequenceSet> taken = {};  // by pusher
  int64_t version = 0, pushes = 0;                // pushes applied; pushes received
  bool fails_saves = false;
};

class MemoryStore : public ParameterStore {
 public:
  explicit MemoryStore(std::shared_ptr<StoredPieces> pieces) : stored_(std::move(pieces)) {}

  absl::StatusOr<Pulled> Pull(const PullRequest& request) override {
    const std::lock_guard lock(mutex_);
    Pulled pulled{.version = stored_->version};
    for (const PieceRows& at : request.pieces) {
      MESHWORK_ASSIGN_OR_RETURN(const Tensor piece, Find(at));
      std::vector<Tensor> rows;
      for (int64_t row : Rows(at, piece)) rows.push_back(piece.Rows(row, row + 1));
      pulled.values.push_back(Tensor::Concat(rows, 0));  // a copy
    }
    return pulled;
  }

  absl::StatusOr<Pushed> Push(const PushRequest& request) override {
    std::unique_lock lock(mutex_);
    ++stored_->pushes;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !holds_ || is_stopped_; });
    if (is_stopped_) return absl::AbortedError("store: Stop was called.");
    if (stored_->taken[request.pusher].Contains(request.sequence))
      return Pushed{.version = stored_->version, .applied = false};
    for (const PieceGradient& gradient : request.gradients) {
      MESHWORK_ASSIGN_OR_RETURN(Tensor piece, Find(gradient.at));
      const int64_t width = piece.num_elements() / piece.shape()[0];
      const auto from = gradient.gradient.values<float>();
      const auto to = piece.mutable_values<float>();
      size_t next = 0;
      for (int64_t row : Rows(gradient.at, piece))
        for (int64_t i = 0; i < width; ++i) to[static_cast<size_t>(row * width + i)] -= from[next++];
    }
    stored_->taken[request.pusher].Add(request.sequence);
    return Pushed{.version = ++stored_->version};
  }

  absl::StatusOr<SequenceSet> TakenFrom(const std::string& pusher) override {
    const std::lock_guard lock(mutex_);
    return stored_->taken[pusher];
  }

  absl::StatusOr<int64_t> Save() override {
    if (stored_->fails_saves) throw std::bad_alloc();
    return stored_->version;
  }

  void Stop() override {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
    changed_.notify_all();
  }

  // While it holds, pushes wait.
  void Hold(bool holds) {
    const std::lock_guard lock(mutex_);
    holds_ = holds;
    changed_.notify_all();
  }
  void AwaitPushes(int64_t pushes) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stored_->pushes >= pushes; });
  }

 private:
  absl::StatusOr<Tensor> Find(const PieceRows& at) const {
    const auto found = stored_->pieces.find(at.piece);
    if (found == stored_->pieces.end())
      return absl::NotFoundError(fmt::format("store: no piece \"{}\".", at.piece));
    return found->second;
  }
  static std::vector<int64_t> Rows(const PieceRows& at, const Tensor& piece) {
    std::vector<int64_t> rows;
    if (at.rows.valid()) rows.assign(at.rows.values<int64_t>().begin(), at.rows.values<int64_t>().end());
    else
      for (int64_t row = 0; row < piece.shape()[0]; ++row) rows.push_back(row);
    return rows;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool holds_ = false, is_stopped_ = false;
  const std::shared_ptr<StoredPieces> stored_;
};

}  // namespace meshwork
