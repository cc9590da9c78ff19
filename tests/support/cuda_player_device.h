// The features of CUDA C++ that C++ lacks, for text that cuda_player.h plays. Included by that text alone.
#pragma once

#include <math.h>

#include <cstddef>
#include <cstring>
#include <utility>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
// The linker knows where the section begins and ends, so that the player can fill it before each block.
#define __shared__ static __attribute__((section("played_shared")))

struct PlayedIndex {
  unsigned x, y, z;
};
extern "C" {
PlayedIndex threadIdx, blockIdx, blockDim, gridDim;
// Set by the player.
void (*played_barrier)(int line);
void (*played_warp_barrier)(unsigned mask, int line);
void* played_dynamic_shared;
extern char __start_played_shared[] __attribute__((weak, visibility("hidden")));
extern char __stop_played_shared[] __attribute__((weak, visibility("hidden")));
char* played_shared_begin() { return __start_played_shared; }
char* played_shared_end() { return __stop_played_shared; }
}
constexpr int warpSize = 32;

#define __syncthreads() played_barrier(__LINE__)
#define __syncwarp() played_warp_barrier(0xffffffffu, __LINE__)

// ---- Barriers that combine a predicate of the block's threads.

inline unsigned PlayedCount(int predicate, int line) {
  static bool is_true[1024];
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  is_true[thread] = predicate != 0;
  played_barrier(line);
  unsigned count = 0;
  for (unsigned t = 0; t < blockDim.x * blockDim.y * blockDim.z; ++t) count += is_true[t] ? 1 : 0;
  played_barrier(line);
  return count;
}
#define __syncthreads_count(predicate) static_cast<int>(PlayedCount(predicate, __LINE__))
#define __syncthreads_or(predicate) (PlayedCount(predicate, __LINE__) > 0)

// ---- Shuffles: every lane stores its value, then reads that of another lane.

inline unsigned PlayedThread() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }
inline char (*PlayedLanes())[16] {
  static char lanes[1024][16];
  return lanes;
}
template <typename T>
T PlayedShuffle(unsigned mask, T value, int from, int line) {
  static_assert(sizeof(T) <= 16);
  const unsigned thread = PlayedThread(), warp = thread / 32 * 32;
  std::memcpy(PlayedLanes()[thread], &value, sizeof(T));
  played_warp_barrier(mask, line);
  T taken = value;
  if (from >= 0 && from < 32)
    std::memcpy(&taken, PlayedLanes()[warp + static_cast<unsigned>(from)], sizeof(T));
  played_warp_barrier(mask, line);
  return taken;
}
inline int PlayedLane() { return static_cast<int>(PlayedThread() % 32); }
#define __shfl_sync(mask, value, lane) PlayedShuffle(mask, value, lane, __LINE__)
#define __shfl_xor_sync(mask, value, lanes) PlayedShuffle(mask, value, PlayedLane() ^ (lanes), __LINE__)
#define __shfl_down_sync(mask, value, by) PlayedShuffle(mask, value, PlayedLane() + (by), __LINE__)
#define __shfl_up_sync(mask, value, by) PlayedShuffle(mask, value, PlayedLane() - (by), __LINE__)

inline unsigned PlayedBallot(unsigned mask, int predicate, int line) {
  const unsigned thread = PlayedThread(), warp = thread / 32 * 32;
  PlayedLanes()[thread][0] = predicate != 0 ? 1 : 0;
  played_warp_barrier(mask, line);
  unsigned votes = 0;
  for (unsigned lane = 0; lane < 32; ++lane)
    if ((mask >> lane & 1) != 0 && PlayedLanes()[warp + lane][0] != 0) votes |= 1u << lane;
  played_warp_barrier(mask, line);
  return votes;
}
#define __ballot_sync(mask, predicate) PlayedBallot(mask, predicate, __LINE__)

// ---- Atomics: threads take turns, so plain operations are atomic.

template <typename T>
T atomicAdd(T* at, T value) {
  const T old = *at;
  *at = old + value;
  return old;
}
template <typename T>
T atomicMax(T* at, T value) {
  const T old = *at;
  *at = old > value ? old : value;
  return old;
}
template <typename T>
T atomicMin(T* at, T value) {
  const T old = *at;
  *at = old < value ? old : value;
  return old;
}
template <typename T>
T atomicCAS(T* at, T expected, T value) {
  const T old = *at;
  if (old == expected) *at = value;
  return old;
}

// ---- Bits of numbers.

template <typename To, typename From>
To PlayedBits(From x) {
  static_assert(sizeof(To) == sizeof(From));
  To bits;
  std::memcpy(&bits, &x, sizeof(To));
  return bits;
}
inline unsigned __float_as_uint(float x) { return PlayedBits<unsigned>(x); }
inline int __float_as_int(float x) { return PlayedBits<int>(x); }
inline float __uint_as_float(unsigned x) { return PlayedBits<float>(x); }
inline float __int_as_float(int x) { return PlayedBits<float>(x); }
inline long long __double_as_longlong(double x) { return PlayedBits<long long>(x); }
inline double __longlong_as_double(long long x) { return PlayedBits<double>(x); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }

// ---- Calling a kernel with the addresses of its arguments.

template <typename... A, std::size_t... i>
void PlayedCall(void (*kernel)(A...), void** args, std::index_sequence<i...>) {
  kernel(*static_cast<A*>(args[i])...);
}
template <typename... A>
void PlayedCall(void (*kernel)(A...), void** args) {
  PlayedCall(kernel, args, std::index_sequence_for<A...>());
}
