#include "meshwork/train/data/epoch_order.h"

#include <algorithm>

#include "meshwork/base/random.h"

namespace meshwork::internal {
namespace {

// Lanes are shuffled differently. The first one, which is all examples if there is one lane, by the seed itself.
uint64_t SeedOf(uint64_t seed, int64_t lane) {
  return lane == 0 ? seed : Random(seed, ~static_cast<uint64_t>(lane)).Next();
}

}  // namespace

EpochOrder::EpochOrder(int64_t size, const BatchesOptions& options, uint64_t later)
    : size_(size),
      batch_size_(options.batch_size),
      lanes_(options.lanes),
      epoch_(static_cast<int64_t>(static_cast<uint64_t>(options.epoch) + later)),
      seed_(options.shuffle_seed) {}

int64_t EpochOrder::RowsOf(int64_t batch) const { return std::min(batch_size_, size_ - batch * batch_size_); }

int64_t EpochOrder::FirstOf(int64_t lane) const {
  return lane * (size_ / lanes_) + std::min(lane, size_ % lanes_);
}

EpochOrder::Place EpochOrder::PlaceOf(int64_t batch, int64_t row) const {
  const int64_t per_lane = batch_size_ / lanes_, full = size_ / batch_size_;
  if (batch < full) return {row / per_lane, batch * per_lane + row % per_lane};
  // Each lane has `rest` examples left, the first `longer` lanes one more.
  const int64_t taken = full * per_lane, rest = size_ / lanes_ - taken, longer = size_ % lanes_;
  const int64_t in_longer = longer * (rest + 1);
  if (row < in_longer) return {row / (rest + 1), taken + row % (rest + 1)};
  return {longer + (row - in_longer) / rest, taken + (row - in_longer) % rest};
}

const std::vector<int64_t>& EpochOrder::OrderOf(int64_t lane) {
  const auto [order, is_new] = orders_.try_emplace(lane);
  if (is_new) order->second = ShuffledOrder(LaneSize(lane), SeedOf(*seed_, lane), epoch_);
  return order->second;
}

std::vector<int64_t> EpochOrder::ExamplesOf(int64_t batch, RowRange rows) {
  std::vector<int64_t> examples;
  examples.reserve(static_cast<size_t>(rows.size()));
  const std::vector<int64_t>* order = nullptr;
  int64_t lane = -1, first = 0;
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const Place place = PlaceOf(batch, row);
    if (place.lane != lane) {
      lane = place.lane;
      first = FirstOf(lane);
      if (seed_.has_value()) order = &OrderOf(lane);
    }
    examples.push_back(first + (order == nullptr ? place.index : (*order)[static_cast<size_t>(place.index)]));
  }
  return examples;
}

}  // namespace meshwork::internal
