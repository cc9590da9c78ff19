// Pieces of the text of kernels. The text calls its operands a0, a1, … and its results r0, r1, ….
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "meshwork/ir/type.h"
#include "meshwork/layout/layout.h"
#include "meshwork/ops/kernels/cuda/cuda_kernel.h"

namespace meshwork::cuda {

// ---- Types.

std::string_view StoredName(
    DType dtype);  // of an element in memory: bf16 is unsigned short, bool unsigned char
std::string_view ComputeName(DType dtype);  // of the number that it is computed as: bf16 is float
// A number from an element, and an element from a number. Both are expressions.
std::string Loaded(DType dtype, std::string_view element);
std::string Rounded(DType dtype, std::string_view number);
// A number as if it had been stored and loaded again.
std::string RoundedNumber(DType dtype, std::string_view number);

// The number of contiguous elements that make a word: at most as many as 16 bytes hold, and a divisor of `count`.
int64_t ElementsOfWord(DType dtype, int64_t count);
// A type of `bytes` bytes: 1, 2, 4, 8 or 16.
std::string_view WordOf(int64_t bytes);

// ---- Numbers.

std::string Real(double x);    // a double, exactly: "0x1.8p+0", "Infinity()"
std::string Whole(int64_t x);  // a long long, or an int if it is one
// A number in the compute type of `dtype`, as static_cast gives it.
std::string Number(DType dtype, double x);

// The element that changes nothing in a reduction (ops/kernels/identity.h), as it is stored.
std::string Identity(DType dtype, ReduceOp op);

// ---- Places.

// The order in which the elements of a dense tensor are walked, and the place of the element in each of some tensors.
// Dims that all tensors walk alike are joined.
struct Walk {
  struct Dim {
    int64_t size;
    std::vector<int64_t> strides;  // of each tensor, in elements
  };
  std::vector<Dim> dims;  // major to minor, none of size 1

  // strides[t][d]: of tensor t along dim d of `shape`.
  static Walk Of(const Shape& shape, std::span<const Shape> strides);
  // The lines that make p0, p1, … the place of element `index` along the dims.
  std::string Places(std::string_view index) const;
  // The offset of tensor t's element.
  std::string Offset(size_t t, std::string_view index) const;
};
Shape RowMajorStrides(const Shape& shape);
// Strides along the dims of `to` of an operand that is broadcast right-aligned.
Shape BroadcastStrides(const Shape& operand, const Shape& to);
// The lines that make <prefix>0, <prefix>1, … the place of element `index` of `shape` along each dim.
std::string PlacesAlong(const Shape& shape, std::string_view index, std::string_view prefix);
// "a * 24 + b * 6 + c" without what is 0: the offset of a place.
std::string OffsetOf(std::span<const int64_t> strides, std::string_view prefix);

// ---- Kernels.

struct KernelText {
  std::string_view name;      // the row's
  std::vector<Type> in, out;  // the pointers' types
  std::string body;
  int64_t blocks = 0, threads = 256;
  int64_t blocks_at_once = 0;  // that a multiprocessor has registers for; 0: as the compiler likes
  int64_t shared_bytes = 0;    // dynamic shared memory of a block
  bool in_place = false;       // a result may be an operand
  bool is_long = false;        // CudaKernel::is_long
  int64_t alignment = 1;       // of the pointers, beyond that of their elements
  std::vector<CudaKernel::BlockArgument> block_arguments = {};
  std::vector<Shape> block_shapes = {};  // of these, for their ranks
  // Numbers that all threads read, as "1, 2, 3", and their type; the body calls them `table`.
  std::string_view table_type = {};
  std::string table = {};
  int64_t most_elements = 0;  // besides those of in and out, that an Index must count
};
// The whole kernel. In the body, Index is a type for the numbers of elements; the block argument of result 0 is r0_start0,
// r0_size0, r0_start1, …
CudaKernel Finish(const KernelText& text);

// A kernel with operands and results of the spec.
KernelText TextOf(const OpRow& row, const KernelSpec& spec);
// Adds the block of result (operand) `index` to the arguments.
void TakeBlock(KernelText& text, const KernelSpec& spec, bool is_result, int index);
// Runs `lines` for each `i` of [0, count), one thread each; before them each thread runs `text.body`.
CudaKernel ForEach(KernelText text, int64_t count, std::string_view lines);

// A hash of 64 bits (FNV-1a); different texts count as having different hashes.
uint64_t HashOf(std::string_view text);

// `lines` with two more spaces in front of each.
std::string Indented(std::string_view lines);

}  // namespace meshwork::cuda
