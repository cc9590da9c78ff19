// StableVector: a sequence that grows at its end and whose elements never move.
//
//   StableVector<std::string> names;
//   names.push_back("x");
//   const std::string& x = names[0];
//   names.push_back("y");                 // x is still valid
//
// Does what std::deque does for push_back, but has 16 elements per allocation whatever their size; libstdc++'s deque
// has one if an element is larger than 256 bytes. References stay valid when elements are added and when the sequence
// is moved; iterators stay valid when elements are added.
//
// Thread safety: that of std::vector.
#pragma once

#include <compare>
#include <cstddef>
#include <iterator>
#include <type_traits>
#include <utility>
#include <vector>

namespace meshwork {

template <typename T>
class StableVector {
  template <bool kIsConst>
  class Iterator;

 public:
  using value_type = T;
  using iterator = Iterator<false>;
  using const_iterator = Iterator<true>;

  StableVector() = default;
  StableVector(StableVector&&) noexcept = default;
  StableVector& operator=(StableVector&&) noexcept = default;
  StableVector(const StableVector& other) {
    blocks_.reserve(other.blocks_.size());
    for (const std::vector<T>& block : other.blocks_) {
      AddBlock();
      blocks_.back().insert(blocks_.back().end(), block.begin(), block.end());
    }
  }
  StableVector& operator=(const StableVector& other) {
    if (this != &other) *this = StableVector(other);
    return *this;
  }

  size_t size() const { return blocks_.empty() ? 0 : (blocks_.size() - 1) * kBlock + blocks_.back().size(); }
  bool empty() const { return size() == 0; }
  // REQUIRES: i < size().
  T& operator[](size_t i) { return blocks_[i / kBlock][i % kBlock]; }
  const T& operator[](size_t i) const { return blocks_[i / kBlock][i % kBlock]; }
  void push_back(const T& value) { LastBlock().push_back(value); }
  void push_back(T&& value) { LastBlock().push_back(std::move(value)); }

  iterator begin() { return {this, 0}; }
  iterator end() { return {this, size()}; }
  const_iterator begin() const { return {this, 0}; }
  const_iterator end() const { return {this, size()}; }

 private:
  static constexpr size_t kBlock = 16;

  void AddBlock() { blocks_.emplace_back().reserve(kBlock); }
  // With room for one more element.
  std::vector<T>& LastBlock() {
    if (blocks_.empty() || blocks_.back().size() == kBlock) AddBlock();
    return blocks_.back();
  }

  // All are full but the last. Each has room for kBlock elements, so that none is ever reallocated.
  std::vector<std::vector<T>> blocks_;
};

// A random-access iterator of C++20.
template <typename T>
template <bool kIsConst>
class StableVector<T>::Iterator {
  using Owner = std::conditional_t<kIsConst, const StableVector, StableVector>;

 public:
  using iterator_category = std::random_access_iterator_tag;
  using value_type = T;
  using difference_type = std::ptrdiff_t;
  using reference = std::conditional_t<kIsConst, const T&, T&>;
  using pointer = std::conditional_t<kIsConst, const T*, T*>;

  Iterator() = default;
  Iterator(Owner* owner, size_t at) : owner_(owner), at_(at) {}
  operator Iterator<true>() const  // NOLINT: implicit, as of std's containers
      requires(!kIsConst) {
    return {owner_, at_};
  }

  reference operator*() const { return (*owner_)[at_]; }
  pointer operator->() const { return &(*owner_)[at_]; }
  reference operator[](difference_type n) const { return *(*this + n); }
  Iterator& operator+=(difference_type n) {
    at_ += static_cast<size_t>(n);
    return *this;
  }
  Iterator& operator-=(difference_type n) { return *this += -n; }
  Iterator& operator++() { return *this += 1; }
  Iterator& operator--() { return *this += -1; }
  Iterator operator++(int) { return std::exchange(*this, *this + 1); }
  Iterator operator--(int) { return std::exchange(*this, *this - 1); }
  friend Iterator operator+(Iterator i, difference_type n) { return i += n; }
  friend Iterator operator+(difference_type n, Iterator i) { return i += n; }
  friend Iterator operator-(Iterator i, difference_type n) { return i -= n; }
  friend difference_type operator-(const Iterator& a, const Iterator& b) {
    return static_cast<difference_type>(a.at_ - b.at_);
  }
  // REQUIRES: of the same sequence.
  friend bool operator==(const Iterator& a, const Iterator& b) { return a.at_ == b.at_; }
  friend std::strong_ordering operator<=>(const Iterator& a, const Iterator& b) { return a.at_ <=> b.at_; }

 private:
  Owner* owner_ = nullptr;
  size_t at_ = 0;
};

}  // namespace meshwork
