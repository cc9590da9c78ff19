// PTX ISA 7.0 and later, "Matrix multiply-accumulate operation using mma instruction": lane l of a warp holds of A, 16 x 16,
// rows l / 4 and l / 4 + 8, columns 2 (l % 4) + {0, 1} and those + 8; of B, 16 x 8, the same places of its transpose, which
// has 8 rows; of C, 16 x 8, rows as A and columns 2 (l % 4) + {0, 1}. Where there is no such instruction, the lanes give each
// other what they hold, which is slow and computes the same.

// ---- Tiles of bf16: pairs in words, the first element in the low half; products by a warp.
struct alignas(16) Words4 {
  unsigned x, y, z, w;
};
__device__ inline unsigned PackedBf16(float low, float high) {
#if __CUDA_ARCH__ >= 800
  unsigned pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
#else
  return (unsigned)ToBf16(low) | (unsigned)ToBf16(high) << 16;
#endif
}
__device__ inline float LowBf16(unsigned pair) { return __uint_as_float(pair << 16); }
__device__ inline float HighBf16(unsigned pair) { return __uint_as_float(pair & 0xffff0000u); }
// By the unit for it: within 2 units in the last place, tiny results are 0.
__device__ inline float QuickExp2(float x) {
#if __CUDA_ARCH__ >= 800
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return exp2f(x);
#endif
}
// Two elements in memory. by_words: their address is a multiple of 4.
__device__ inline unsigned LoadedPair(const unsigned short* at, bool by_words) {
  return by_words ? *(const unsigned*)at : (unsigned)at[0] | (unsigned)at[1] << 16;
}
__device__ inline void StorePair(unsigned short* at, unsigned pair, bool by_words) {
  if (by_words) {
    *(unsigned*)at = pair;
  } else {
    at[0] = (unsigned short)pair;
    at[1] = (unsigned short)(pair >> 16);
  }
}

// A place in shared memory, counted in elements of 16 bits. Instructions take an address of 32 bits, to which they add
// constants.
struct SharedPlace {
#if __CUDA_ARCH__ >= 800
  unsigned bytes;
  __device__ SharedPlace operator+(int elements) const { return {bytes + 2 * (unsigned)elements}; }
#else
  unsigned short* at;
  __device__ SharedPlace operator+(int elements) const { return {at + elements}; }
#endif
};
__device__ inline SharedPlace PlaceOf(unsigned short* shared) {
#if __CUDA_ARCH__ >= 800
  unsigned bytes;
  asm("{\n.reg .u64 at;\ncvta.to.shared.u64 at, %1;\ncvt.u32.u64 %0, at;\n}" : "=r"(bytes) : "l"(shared));
  return {bytes};
#else
  return {shared};
#endif
}
__device__ inline void StoreShared(SharedPlace to, unsigned short element) {
#if __CUDA_ARCH__ >= 800
  asm volatile("st.shared.u16 [%0], %1;" ::"r"(to.bytes), "h"(element) : "memory");
#else
  *to.at = element;
#endif
}
// Starts a copy of 16 bytes to shared memory, of zeros if there is nothing to copy. Both addresses are multiples of 16.
// The bytes are there after WaitForCopies, for other threads after a barrier behind it.
__device__ inline void CopyAhead(SharedPlace to, const void* from, bool is_there) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to.bytes), "l"(from), "r"(is_there ? 16 : 0)
               : "memory");
#else
  Words4 words = {0, 0, 0, 0};
  if (is_there) words = *(const Words4*)from;
  *(Words4*)to.at = words;
#endif
}
__device__ inline void WaitForCopies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// Four matrices of 8 x 8 from shared memory: lane l gives the address of row l % 8 of matrix l / 8, and gets of each
// matrix the pair of row l / 4 and columns 2 (l % 4) + {0, 1}; of its transpose if `transposed`.
template <bool transposed> __device__ inline void LoadMatrices(unsigned (&to)[4], SharedPlace row) {
#if __CUDA_ARCH__ >= 800
  if (transposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(row.bytes)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(row.bytes)
                 : "memory");
  }
#else
  const int lane = (int)threadIdx.x % 32, first = lane / 4, second = lane % 4 * 2;
  const unsigned long long own = (unsigned long long)row.at;
  for (int i = 0; i < 4; ++i) {
    if (transposed) {
      const unsigned long long low = __shfl_sync(0xffffffffu, own, 8 * i + second);
      const unsigned long long high = __shfl_sync(0xffffffffu, own, 8 * i + second + 1);
      to[i] = (unsigned)((const unsigned short*)low)[first] | (unsigned)((const unsigned short*)high)[first] << 16;
    } else {
      const unsigned long long from = __shfl_sync(0xffffffffu, own, 8 * i + first);
      to[i] = *(const unsigned*)((const unsigned short*)from + second);
    }
  }
#endif
}

// c += a b, of 16 x 16 and 16 x 8 elements in the registers of a warp.
__device__ inline void MultiplyTiles(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
#if __CUDA_ARCH__ >= 800
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
  const int lane = (int)threadIdx.x % 32;
  const unsigned long long a_low = a[0] | (unsigned long long)a[1] << 32,
                           a_high = a[2] | (unsigned long long)a[3] << 32;
  const unsigned long long own_b = b0 | (unsigned long long)b1 << 32;
  for (int u = 0; u < 4; ++u) {
    const unsigned long long low = __shfl_sync(0xffffffffu, a_low, lane / 4 * 4 + u);
    const unsigned long long high = __shfl_sync(0xffffffffu, a_high, lane / 4 * 4 + u);
    for (int n = 0; n < 2; ++n) {
      const unsigned long long b = __shfl_sync(0xffffffffu, own_b, lane % 4 * 8 + 4 * n + u);
      for (int r = 0; r < 2; ++r) {
        const unsigned a0 = (unsigned)(low >> 32 * r), a1 = (unsigned)(high >> 32 * r);
        float& sum = c[2 * r + n];
        sum = MultiplyAdd(LowBf16(a0), LowBf16((unsigned)b), sum);
        sum = MultiplyAdd(HighBf16(a0), HighBf16((unsigned)b), sum);
        sum = MultiplyAdd(LowBf16(a1), LowBf16((unsigned)(b >> 32)), sum);
        sum = MultiplyAdd(HighBf16(a1), HighBf16((unsigned)(b >> 32)), sum);
      }
    }
  }
#endif
}

// A choice between numbers, not between places in memory.
__device__ inline float Chosen(bool first, float a, float b) { return first ? a : b; }
// All zeros. Written out, so that the numbers lie in registers.
template <int tiles, int columns> __device__ inline void Clear(float (&sums)[tiles][columns][4]) {
#pragma unroll
  for (int m = 0; m < tiles; ++m)
#pragma unroll
    for (int n = 0; n < columns; ++n)
#pragma unroll
      for (int c = 0; c < 4; ++c) sums[m][n][c] = 0;
}
// Whether none is infinite or NaN.
template <int tiles, int columns> __device__ inline bool AreFinite(const float (&sums)[tiles][columns][4]) {
  float zeros[4] = {0, 0, 0, 0};
#pragma unroll
  for (int m = 0; m < tiles; ++m)
#pragma unroll
    for (int n = 0; n < columns; ++n)
#pragma unroll
      for (int c = 0; c < 4; ++c) zeros[c] = MultiplyAdd(sums[m][n][c], 0, zeros[c]);
  return zeros[0] + zeros[1] + zeros[2] + zeros[3] == 0;
}

// Rows of a head, which lie `stride` elements apart. Those from `rows` on count as zeros.
template <typename S> struct HeadRows {
  const S* first;
  long long stride;
  int rows;
};
// The same rows of a head whose elements lie `step` further on.
template <typename S> __device__ inline HeadRows<S> OfMember(const HeadRows<S>& rows, int step) {
  return {rows.first + step, rows.stride, rows.rows};
}
// Rows [begin, begin + kRows) to shared memory, by all `kThreads` threads of the block; a row there takes kColumns + 8
// elements, so that LoadMatrices meets no bank twice. by_words: rows begin at multiples of 16 bytes.
template <int kThreads, int kRows, int kColumns>
__device__ inline void CopyRowsAhead(SharedPlace to, const HeadRows<unsigned short>& from, int begin, bool by_words) {
  const int kPieces = kColumns / 8, kCopies = kRows * kPieces, thread = (int)threadIdx.x;
  if (!by_words) {
#pragma unroll 1
    for (int i = thread; i < kRows * kColumns; i += kThreads) {
      const int row = i / kColumns, column = i % kColumns;
      StoreShared(to + (row * (kColumns + 8) + column),
                  begin + row < from.rows ? from.first[(begin + row) * from.stride + column] : (unsigned short)0);
    }
  } else if (kThreads % kPieces == 0 && kCopies % kThreads == 0 && begin + kRows <= from.rows) {
    // All are there; a thread's addresses differ by constants.
    const int row = thread / kPieces, column = thread % kPieces * 8;
    const SharedPlace first_to = to + (row * (kColumns + 8) + column);
    const unsigned short* const first = from.first + (begin + row) * from.stride + column;
#pragma unroll
    for (int i = 0; i < kCopies / kThreads; ++i)
      CopyAhead(first_to + i * (kThreads / kPieces) * (kColumns + 8), first + i * (kThreads / kPieces) * from.stride,
                true);
  } else {
#pragma unroll 2
    for (int i = thread; i < kCopies; i += kThreads) {
      const int row = i / kPieces, column = i % kPieces * 8;
      const bool is_there = begin + row < from.rows;
      CopyAhead(to + (row * (kColumns + 8) + column),
                from.first + (is_there ? (begin + row) * from.stride + column : 0), is_there);
    }
  }
}
// Rows [begin, begin + 16) as tiles of A.
template <int kColumns>
__device__ inline void LoadRows(unsigned (&to)[kColumns / 16][4], const HeadRows<unsigned short>& from, int begin,
                                bool by_words) {
  const int lane = (int)threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int row = begin + lane / 4 + 8 * i;
    const bool is_there = row < from.rows;
    const unsigned short* at = from.first + (is_there ? row * from.stride + lane % 4 * 2 : 0);
#pragma unroll
    for (int x = 0; x < kColumns / 16; ++x) {
      to[x][i] = is_there ? LoadedPair(at + 16 * x, by_words) : 0;
      to[x][i + 2] = is_there ? LoadedPair(at + 16 * x + 8, by_words) : 0;
    }
  }
}
// sums[m] += own[m] others^T: products with kRows rows in shared memory, as CopyRowsAhead leaves them.
template <int kTiles, int kColumns, int kRows>
__device__ inline void MultiplyByRows(float (&sums)[kTiles][kRows / 8][4],
                                      const unsigned (&own)[kTiles][kColumns / 16][4], SharedPlace others) {
  const int lane = (int)threadIdx.x % 32;
  const SharedPlace at = others + ((lane / 16 * 8 + lane % 8) * (kColumns + 8) + lane / 8 % 2 * 8);
#pragma unroll
  for (int x = 0; x < kColumns / 16; ++x)
#pragma unroll
    for (int n = 0; n < kRows / 16; ++n) {
      unsigned b[4];
      LoadMatrices<false>(b, at + (n * 16 * (kColumns + 8) + x * 16));
#pragma unroll
      for (int m = 0; m < kTiles; ++m) {
        MultiplyTiles(sums[m][2 * n], own[m][x], b[0], b[1]);
        MultiplyTiles(sums[m][2 * n + 1], own[m][x], b[2], b[3]);
      }
    }
}
// sums[m] += weights[m] others: sums of kRows rows in shared memory, whose weights are products as MultiplyByRows makes
// them, rounded to bf16.
template <int kTiles, int kColumns, int kRows>
__device__ inline void AddWeightedRows(float (&sums)[kTiles][kColumns / 8][4],
                                       const float (&weights)[kTiles][kRows / 8][4], SharedPlace others) {
  const int lane = (int)threadIdx.x % 32;
  const SharedPlace at = others + (lane % 16 * (kColumns + 8) + lane / 16 * 8);
#pragma unroll
  for (int k = 0; k < kRows / 16; ++k) {
    unsigned a[kTiles][4];
#pragma unroll
    for (int m = 0; m < kTiles; ++m)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        a[m][i] = PackedBf16(weights[m][2 * k + i / 2][i % 2 * 2], weights[m][2 * k + i / 2][i % 2 * 2 + 1]);
#pragma unroll
    for (int n = 0; n < kColumns / 16; ++n) {
      unsigned b[4];
      LoadMatrices<true>(b, at + (k * 16 * (kColumns + 8) + n * 16));
#pragma unroll
      for (int m = 0; m < kTiles; ++m) {
        MultiplyTiles(sums[m][2 * n], a[m], b[0], b[1]);
        MultiplyTiles(sums[m][2 * n + 1], a[m], b[2], b[3]);
      }
    }
  }
}
