// Random local programs and their results, computed op by op on global values, with whole numbers that are
// exact in any order of the sums.
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "runtime/plan/programs.h"

namespace meshwork {

struct DrawnProgram {
  std::string text;
  Tensors feeds, initial;
  Tensors outputs, variables;  // after a step
};

// Compares numbers by value, so that 0 equals -0: which of two zeros is the maximum is not
// specified.
inline void ExpectEqualValues(const Tensors& a, const Tensors& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, value] : a)
    EXPECT_THAT(value.values<float>(), testing::ElementsAreArray(b.at(name).values<float>())) << name;
}

// Draws ops on f32[4,6] whose rows are sharded over x, on columns f32[4,1], and on rows f32[1,6] that are
// replicated: elementwise ops with broadcasts; products; reductions along dims of the device and of the mesh,
// all_reduces of several values, updates.
class ProgramDraw {
 public:
  explicit ProgramDraw(std::mt19937& random) : random_(random) {}

  DrawnProgram Make() {
    std::string arguments;
    for (int kind : {kWide, kWide, kWide, kColumn, kRow, kRow}) {
      const size_t v = values_.size();
      Value value{kind, {}};
      for (int i = 0; i < kRows[kind] * kColumns[kind]; ++i)
        value.at.push_back(static_cast<float>(static_cast<int>(random_() % 9) - 4));
      const bool is_input = v == 0;
      (is_input ? made_.feeds : made_.initial)[Name(v)] = ToTensor(value);
      arguments +=
          fmt::format("{}{}%{}: {}", v == 0 ? "" : ", ", is_input ? "" : "var ", Name(v), kTypes[kind]);
      values_.push_back(std::move(value));
    }
    num_arguments_ = values_.size();
    for (size_t n = 2 + random_() % 12; n > 0; --n) AddOp();
    made_.variables = made_.initial;
    for (size_t v = 1; v < num_arguments_; ++v) {
      if (random_() % 4 == 0) continue;
      const size_t value = PickOf(values_[v].kind);
      body_ += fmt::format("  update %{} = %{}\n", Name(v), Name(value));
      made_.variables[Name(v)] = ToTensor(values_[value]);
    }
    const size_t output = Pick(), last = values_.size() - 1;
    body_ += fmt::format("  return y=%{}, z=%{}\n", Name(output), Name(last));
    made_.outputs = {{"y", ToTensor(values_[output])}, {"z", ToTensor(values_[last])}};
    made_.text = fmt::format("mesh [x=2, y=2]\nfunc step({}) {{\n{}}}\n", arguments, body_);
    return std::move(made_);
  }

 private:
  enum Kind { kWide, kColumn, kRow };
  static constexpr int kRows[] = {4, 4, 1}, kColumns[] = {6, 1, 6};
  static constexpr const char* kTypes[] = {"f32[2,6] of f32[4,6] {x,_}", "f32[2,1] of f32[4,1] {x,_}",
                                           "f32[1,6] {_,_}"};
  // A program has few ops whose results are much larger than their operands.
  static constexpr int kMostGrowing = 2;

  struct Value {
    int kind;
    std::vector<float> at;  // of the global value
  };

  static std::string Name(size_t value) { return fmt::format("v{}", value); }
  static Tensor ToTensor(const Value& value) {
    return Tensor::From<float>({kRows[value.kind], kColumns[value.kind]}, value.at);
  }

  size_t Pick() { return random_() % values_.size(); }
  size_t PickOf(int kind) {
    size_t v = Pick();
    while (values_[v].kind != kind) v = Pick();
    return v;
  }

  // Appends a value of `kind`, whose element (i, j) is f(i, j).
  template <typename F>
  void Add(int kind, F&& f) {
    Value value{kind, {}};
    for (int i = 0; i < kRows[kind]; ++i)
      for (int j = 0; j < kColumns[kind]; ++j) value.at.push_back(f(i, j));
    values_.push_back(std::move(value));
  }
  // Element (i, j) of a value that broadcasts.
  float At(size_t v, int i, int j) const {
    const Value& value = values_[v];
    return value
        .at[(kRows[value.kind] == 1 ? 0 : i) * kColumns[value.kind] + (kColumns[value.kind] == 1 ? 0 : j)];
  }

  void AddOp() {
    switch (random_() % 8) {
      case 0: return Negate();
      case 1: return Maximum();
      case 2: return RowMaxima();
      case 3: return grown_++ < kMostGrowing ? SumColumns() : Negate();
      case 4: return grown_++ < kMostGrowing ? OwedByHalves() : Negate();
      case 5: return grown_++ < kMostGrowing ? Product() : Negate();
      default: return Subtract();
    }
  }

  void Negate() {
    const size_t a = Pick();
    body_ += fmt::format("  %{} = neg %{} : {}\n", Name(values_.size()), Name(a), kTypes[values_[a].kind]);
    Add(values_[a].kind, [&](int i, int j) { return -At(a, i, j); });
  }

  void Subtract() {
    const size_t a = PickOf(random_() % 4 == 0 ? kRow : kWide);
    const size_t b = values_[a].kind == kRow ? PickOf(kRow) : Pick();
    body_ += fmt::format("  %{} = sub %{}, %{} : {}\n", Name(values_.size()), Name(a), Name(b),
                         kTypes[values_[a].kind]);
    Add(values_[a].kind, [&](int i, int j) { return At(a, i, j) - At(b, i, j); });
  }

  void Maximum() {
    const size_t a = PickOf(kWide), b = Pick();
    body_ +=
        fmt::format("  %{} = maximum %{}, %{} : {}\n", Name(values_.size()), Name(a), Name(b), kTypes[kWide]);
    Add(kWide, [&](int i, int j) { return std::max(At(a, i, j), At(b, i, j)); });
  }

  void RowMaxima() {
    const size_t a = PickOf(kWide);
    body_ += fmt::format("  %{} = reduce_max %{} dims=[1] keep_dims=true : {}\n", Name(values_.size()),
                         Name(a), kTypes[kColumn]);
    Add(kColumn, [&](int i, int) {
      float most = At(a, i, 0);
      for (int j = 1; j < kColumns[kWide]; ++j) most = std::max(most, At(a, i, j));
      return most;
    });
  }

  // The column sums of one or two values, by one all_reduce.
  void SumColumns() {
    const size_t count = 1 + random_() % 2, first = values_.size();
    std::vector<size_t> from;
    std::string owed, results, types;
    for (size_t k = 0; k < count; ++k) {
      from.push_back(PickOf(kWide));
      const std::string separator = k == 0 ? "" : ", ";
      body_ += fmt::format("  %p{} = reduce_sum %{} dims=[0] keep_dims=true : f32[1,6] {{_,_ | sum:x}}\n",
                           first + k, Name(from[k]));
      owed += fmt::format("{}%p{}", separator, first + k);
      results += fmt::format("{}%{}", separator, Name(first + k));
      types += separator + kTypes[kRow];
    }
    body_ += fmt::format("  {} = all_reduce {} axes=(x) op=sum : {}\n", results, owed, types);
    for (size_t a : from)
      Add(kRow, [&](int, int j) {
        float sum = 0;
        for (int i = 0; i < kRows[kWide]; ++i) sum += At(a, i, j);
        return sum;
      });
  }

  // Both devices along y hold the value as a term, so the sum is twice the value.
  void OwedByHalves() {
    const size_t a = PickOf(kWide), v = values_.size();
    body_ += fmt::format("  %p{} = neg %{} : f32[2,6] of f32[4,6] {{x,_ | sum:y}}\n", v, Name(a));
    body_ += fmt::format("  %{} = all_reduce %p{} axes=(y) op=sum : {}\n", Name(v), v, kTypes[kWide]);
    Add(kWide, [&](int i, int j) { return -2 * At(a, i, j); });
  }

  // The rows of a value times a transposed row.
  void Product() {
    const size_t a = PickOf(kWide), b = num_arguments_ - 1;
    body_ += fmt::format("  %{} = matmul %{}, %{} transpose_b=true : {}\n", Name(values_.size()), Name(a),
                         Name(b), kTypes[kColumn]);
    Add(kColumn, [&](int i, int) {
      float sum = 0;
      for (int j = 0; j < kColumns[kWide]; ++j) sum += At(a, i, j) * At(b, 0, j);
      return sum;
    });
  }

  std::mt19937& random_;
  DrawnProgram made_;
  std::string body_;
  std::vector<Value> values_;
  size_t num_arguments_ = 0;
  int grown_ = 0;
};

}  // namespace meshwork
