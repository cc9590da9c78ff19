// The element types of GGUF files (storage/gguf_file.h), and the numbers that their bytes stand for.
//
// Quantised types store blocks of 32 elements of a row: a scale d, for Q4_1 also a minimum m, both in f16; and a small
// whole number q for each element. In the types of 4 bits, byte i of a block holds element i in its low half and element
// i + 16 in its high half.
//
//   type   bytes of a block   element
//   Q4_0                 18   d * (q - 8), q from 0 to 15
//   Q4_1                 20   d * q + m,   q from 0 to 15
//   Q8_0                 34   d * q,       q from -128 to 127
//
// Pure functions, thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "meshwork/base/float16.h"
#include "meshwork/storage/stored_type.h"

namespace meshwork {

// The numbers that files use. A file may hold other numbers: those of types that are not read here.
enum class GgmlType : uint32_t { kF32 = 0, kF16 = 1, kQ4_0 = 2, kQ4_1 = 3, kQ8_0 = 8, kBF16 = 30 };

std::string GgmlTypeName(GgmlType type);  // "Q4_1"; also of types that are not read: "Q6_K", "type 99"
std::string ReadGgmlTypeNames();          // those that are read, for messages: "F32, F16, … and BF16"

// How the elements of a type lie in a file.
struct GgmlForm {
  StoredType element;  // what elements are, for quantised types after Dequantize
  int64_t block;       // elements of a block; 1 for types that are not quantised
  int64_t bytes;       // of a block
};
// Nothing: the type is not read here.
std::optional<GgmlForm> FormOf(GgmlType type);

// Makes floats of `blocks` blocks at `from`, which need not be aligned. Each element is the formula above, rounded once.
// REQUIRES: `type` is quantised; `to` has room for 32 floats per block.
void Dequantize(GgmlType type, const std::byte* from, int64_t blocks, float* to);

// The bits of an element's q: 4 or 8 for quantised types, 0 for others.
int BitsOf(GgmlType type);
// Takes `blocks` blocks at `from` apart, without rounding: their q as they are in the file, 16 bytes (4 bits) or 32, d, and
// m; that of Q4_0 is -8 d. Returns false if -8 d is not finite although d is; then the rest is not written.
// REQUIRES: `type` is quantised; `zeros` is null for Q8_0, and not for the others.
bool SplitBlocks(GgmlType type, const std::byte* from, int64_t blocks, std::byte* q, Float16* scales,
                 Float16* zeros);

}  // namespace meshwork
