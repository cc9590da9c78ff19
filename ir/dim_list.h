// DimList: how functions take dims: one, some, or all. Negative ones count from the end: -1 is the last dim.
//
//   ReduceSum(x, 1);
//   ReduceSum(x, {0, -1});
//   ReduceSum(x, ALL_DIMS, /*keep_dims=*/true);
//
// An empty list is no dims. Thread safety: a value.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

namespace meshwork {

struct AllDimsTag {};
inline constexpr AllDimsTag ALL_DIMS;  // however many there are

class DimList {
 public:
  DimList(int64_t dim) : dims_({dim}) {}                          // NOLINT: implicit
  DimList(std::initializer_list<int64_t> dims) : dims_(dims) {}   // NOLINT
  DimList(std::vector<int64_t> dims) : dims_(std::move(dims)) {}  // NOLINT
  DimList(AllDimsTag) : is_all_(true) {}                          // NOLINT

  bool is_all() const { return is_all_; }
  // The dims as they were given. REQUIRES: !is_all().
  const std::vector<int64_t>& dims() const { return dims_; }

 private:
  std::vector<int64_t> dims_;
  bool is_all_ = false;
};

}  // namespace meshwork
