// Sums of many floats. A sum that is added up term by term in float loses a bit each time that the number of terms
// doubles: the sum of four million equal numbers is wrong by a thousandth. So a long sum is cut into parts. Each part
// is added up in float, as fast as before, and the parts are added in double.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace meshwork {

// The number of terms that are added to one float one after the other. The error of such a sum is at most 5e-6 of the
// sum of the terms' absolute values.
inline constexpr int64_t kTermsOfPart = 512;

// Memory of a thread for `count` doubles, for one LongSum at a time.
inline double* ThreadSums(int64_t count) {
  thread_local std::vector<double> sums;
  if (std::ssize(sums) < count) sums.resize(static_cast<size_t>(count));
  return sums.data();
}

// The sums of a block [rows, columns] of floats, added up part by part in the memory of the block. Sums that have only
// one part cost nothing extra.
//
//   LongSum sum(ThreadSums(n), 1, n, kTermsOfPart);
//   for (const float* row : rows) {
//     if (sum.Begins(1, tile, n)) std::fill_n(tile, n, 0.0f);
//     for (int64_t i = 0; i < n; ++i) tile[i] += row[i];
//   }
//   sum.Finish(tile, n);
class LongSum {
 public:
  // `sums`: [rows, columns], kept by the caller, first written when a second part begins. `terms`: of a part.
  LongSum(double* sums, int64_t rows, int64_t columns, int64_t terms)
      : sums_(sums), rows_(rows), columns_(columns), terms_(terms) {}

  // Whether the next `count` terms begin a new part. If so, adds the block's part to the sums, and the caller
  // overwrites the block with the new terms; otherwise the caller adds the terms to the block. Rows of the block lie
  // `stride` elements apart.
  bool Begins(int64_t count, const float* block, int64_t stride) {
    const bool begins = !has_part_ || held_ + count > terms_;
    if (begins && has_part_) Keep(block, stride);
    held_ = begins ? count : held_ + count;
    has_part_ = true;
    return begins;
  }
  // Turns the last part, which the block holds, into the sums of all parts.
  void Finish(float* block, int64_t stride) {
    if (!has_sums_) return;
    Keep(block, stride);
    for (int64_t i = 0; i < rows_; ++i)
      for (int64_t j = 0; j < columns_; ++j)
        block[i * stride + j] = static_cast<float>(sums_[i * columns_ + j]);
  }

 private:
  void Keep(const float* block, int64_t stride) {
    for (int64_t i = 0; i < rows_; ++i) {
      double* const sums = sums_ + i * columns_;
      const float* const part = block + i * stride;
      if (has_sums_)
        for (int64_t j = 0; j < columns_; ++j) sums[j] += part[j];
      else
        for (int64_t j = 0; j < columns_; ++j) sums[j] = part[j];
    }
    has_sums_ = true;
  }

  double* const sums_;
  const int64_t rows_, columns_, terms_;
  int64_t held_ = 0;  // terms of the part that the block holds
  bool has_part_ = false, has_sums_ = false;
};

}  // namespace meshwork
