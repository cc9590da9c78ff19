// Loops over the rows of a quantised matrix (ops/kernels/blocks_of_32.h): their numbers, and their products with few rows
// of floats, for which a product by a library would spend most of its time on making the numbers.
//
// Beside several rows of floats, blocks become floats. One row of floats becomes whole numbers in turn, which are multiplied
// by those of the blocks, and is not less exact by that. On CPUs with AVX2, FMA and F16C both happen in registers; on others in
// plain loops. These fuse multiplication and addition, too, and add in the same order, so that they give the same bits: a CPU
// without FMA does it slowly. Any number of threads at once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "meshwork/base/float16.h"

namespace meshwork {

// Rows of `blocks` blocks each, dense.
struct QuantizedRows {
  const std::byte* q;
  const Float16* scale;
  const Float16* zero;  // null: all zeros are 0
  int64_t blocks;
  int64_t bytes;  // of a block in q: 32, or 16 for numbers of 4 bits

  // The rows from `row` on.
  QuantizedRows From(int64_t row) const;
};

// to: [rows, 32 blocks] = the numbers of the first `rows` rows.
void DequantizeRows(const QuantizedRows& w, int64_t rows, float* to);

// The most rows of x that AddProducts takes.
inline constexpr int64_t kMostRowsOfX = 8;

// sums: [rows, columns] += x · wᵀ, x: [rows, 32 blocks], w: the first `columns` rows. Sums of up to kTermsOfPart products
// are added up in float in each of eight lanes, and the lanes of such parts in double. A sum depends on its row of x, its row
// of w and whether x has other rows, too. One alone is rounded to about 30 bits beside the largest number of each of its
// blocks; its products with a block's q are added up exactly, and z is multiplied by the sum of the block.
// REQUIRES: 0 < rows <= kMostRowsOfX.
void AddProducts(const QuantizedRows& w, int64_t columns, const float* x, int64_t rows, double* sums);

}  // namespace meshwork
