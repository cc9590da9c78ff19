#include "meshwork/ops/kernels/blas/blocked_qr.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <iterator>
#include <limits>
#include <type_traits>

#include "meshwork/base/cpu_dispatch.h"
#include "meshwork/ops/kernels/blas/crew.h"
#include "meshwork/ops/kernels/blas/gemm.h"
#include "meshwork/ops/kernels/elementwise.h"
#include "meshwork/ops/kernels/thread_scratch.h"

namespace meshwork {
namespace {

constexpr int64_t kSmallest = 64;                  // of both sizes
constexpr int64_t kPanel = 128;                    // columns that are reduced one by one
constexpr int64_t kRowBlock = 512;                 // rows of a panel that stay in the L2 cache of a core
constexpr int64_t kGramBlock = 1024;               // rows of a panel that one product takes
constexpr int64_t kQrSlices = 32;                  // of trailing columns: enough to share out
constexpr int64_t kNarrowest = 32, kWidest = 256;  // columns of a slice
static_assert(kPanel <= kRowBlock);

int64_t Blocks(int64_t count, int64_t size) { return (count + size - 1) / size; }

// The number of columns of a slice, if there are `columns` in all.
int64_t SliceOf(int64_t columns) {
  constexpr int64_t kMultiple = 16;
  return std::clamp(Blocks(Blocks(columns, kQrSlices), kMultiple) * kMultiple, kNarrowest, kWidest);
}

// y[0, n) -= factor · v, and the sum of y · u from `from` on, added up in 16 lanes.
template <typename T>
inline T SubtractAndDot(T factor, const T* v, const T* u, int64_t from, int64_t n, T* y) {
  constexpr int64_t kLanes = 16;
  T lanes[kLanes] = {};
  MESHWORK_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) y[i] -= factor * v[i];
  int64_t i = from;
  for (; i + kLanes <= n; i += kLanes)
    for (int64_t l = 0; l < kLanes; ++l) lanes[l] += y[i + l] * u[i + l];
  for (int64_t l = 0; i < n; ++i, ++l) lanes[l] += y[i] * u[i];
  for (int64_t half = kLanes / 2; half > 0; half /= 2)
    for (int64_t l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  return lanes[0];
}

// Rows of `from` become columns of `to`.
template <typename T>
inline void Transpose(int64_t rows, int64_t columns, const T* from, int64_t from_stride, T* to,
                      int64_t to_stride) {
  constexpr int64_t kTile = 16;
  for (int64_t i = 0; i < rows; i += kTile)
    for (int64_t c = 0; c < columns; ++c)
      for (int64_t t = i; t < std::min(i + kTile, rows); ++t)
        to[c * to_stride + t] = from[t * from_stride + c];
}

// The reflection I - tau v vᵀ that takes a column to (beta, 0, …): v is 1, then the column's elements times `inverse`.
// It takes factors[q] · v off column q.
template <typename T>
struct Reflection {
  T inverse = 0;
  std::array<T, kPanel> factors = {};
};

// The work of one member.
template <typename T>
class QrMember {
 public:
  // The data that the members share.
  struct Shared {
    CrewState crew;
    T* panel =
        nullptr;  // [kPanel, stride]: the panel's columns one after the other; first: maxima of blocks of rows
    T* factors = nullptr;    // -T of each panel, [width, width]
    T* scales = nullptr;     // of columns
    T* grams = nullptr;      // Vᵀ V of blocks of rows
    T* tops = nullptr;       // [2, kPanel]: the row of the panel that the next reflection starts with
    double* sums = nullptr;  // [2, blocks, kPanel]: of products of columns, in blocks of rows
  };

  QrMember(const T* x, int64_t m, int64_t n, T* q, T* r, Team* team)
      : x_(x), m_(m), n_(n), k_(std::min(m, n)), q_(q), r_(r), w_(m >= n ? q : r), team_(team) {}

  void Run() {
    Shared own;
    std::exception_ptr error;
    try {
      Allocate(own);
    } catch (...) {
      error = std::current_exception();
    }
    shared_ = team_ == nullptr ? &own : static_cast<Shared*>(team_->FromFirst(&own));
    Crew crew(team_, shared_->crew);
    crew_ = &crew;
    crew.Try([&] {
      if (error != nullptr) std::rethrow_exception(error);
    });
    crew.Meet();
    Scale();
    for (int64_t j = 0; j < k_; j += kPanel) {
      Reduce(j);
      MakeFactor();
      UpdateTrailing();
    }
    WriteR();
    for (int64_t j = (k_ - 1) / kPanel * kPanel; j >= 0; j -= kPanel) MakeQ(j);
    crew.Finish();
  }

 private:
  int64_t stride() const { return Blocks(m_, 16) * 16 + 16; }  // of columns of the panel; no power of two

  // Allocates this member's scratch, and for member 0, before it, the shared data.
  void Allocate(Shared& shared) {
    const int64_t blocks = Blocks(m_, kRowBlock);
    const bool is_first = team_ == nullptr || team_->member() == 0;
    const int64_t sizes[] = {std::max(kPanel * stride(), blocks * n_), Blocks(k_, kPanel) * kPanel * kPanel,
                             n_, Blocks(m_, kGramBlock) * kPanel * kPanel, 2 * kPanel};
    const int64_t sums = 2 * blocks * kPanel, own = kPanel * kWidest;
    int64_t bytes = 2 * ScratchPieces::Padded(own * static_cast<int64_t>(sizeof(T)));
    if (is_first) {
      for (int64_t size : sizes) bytes += ScratchPieces::Padded(size * static_cast<int64_t>(sizeof(T)));
      bytes += ScratchPieces::Padded(sums * static_cast<int64_t>(sizeof(double)));
    }
    ScratchPieces pieces(bytes);
    for (T*& piece : own_) piece = pieces.Take<T>(own);
    if (!is_first) return;
    T** const places[] = {&shared.panel, &shared.factors, &shared.scales, &shared.grams, &shared.tops};
    for (size_t i = 0; i < std::size(places); ++i) *places[i] = pieces.Take<T>(sizes[i]);
    shared.sums = pieces.Take<double>(sums);
  }

  // w = x, its columns scaled such that their largest elements are about 1. Columns that are all zeros or not finite
  // stay as they are.
  void Scale() {
    const int64_t blocks = Blocks(m_, kRowBlock);
    T* const maxima = shared_->panel;
    const auto rows_of = [&](int64_t b) { return std::min(kRowBlock, m_ - b * kRowBlock); };
    crew_->ForEach(blocks, [&](int64_t b) {
      RunOnThisCpu([&, x = x_ + b * kRowBlock * n_, most = maxima + b * n_, rows = rows_of(b), n = n_] {
        std::fill_n(most, n, T(0));
        for (int64_t i = 0; i < rows; ++i) {
          MESHWORK_INDEPENDENT
          for (int64_t c = 0; c < n; ++c) {
            const T size = std::fabs(x[i * n + c]);
            most[c] = most[c] < size ? size : most[c];
          }
        }
      });
    });
    crew_->First([&] {
      constexpr int kLimit = std::numeric_limits<T>::max_exponent - 2;
      for (int64_t c = 0; c < n_; ++c) {
        T most = 0;
        for (int64_t b = 0; b < blocks; ++b) most = std::max(most, maxima[b * n_ + c]);
        const bool scales = most > 0 && std::isfinite(most);
        shared_->scales[c] = scales ? std::ldexp(T(1), std::clamp(-std::ilogb(most), -kLimit, kLimit)) : T(1);
      }
    });
    crew_->ForEach(blocks, [&](int64_t b) {
      RunOnThisCpu([&, x = x_ + b * kRowBlock * n_, w = w_ + b * kRowBlock * n_, scales = shared_->scales,
                    rows = rows_of(b), n = n_] {
        for (int64_t i = 0; i < rows; ++i) {
          MESHWORK_INDEPENDENT
          for (int64_t c = 0; c < n; ++c) w[i * n + c] = x[i * n + c] * scales[c];
        }
      });
    });
  }

  // ---- The panel at column `j` of a matrix with `columns` columns.

  void Begin(int64_t j) {
    j_ = j;
    width_ = std::min(kPanel, k_ - j);
    rows_ = m_ - j;
    blocks_ = Blocks(rows_, kRowBlock);
  }
  T* Column(int64_t c) const { return shared_->panel + c * stride(); }
  T* Factor() const { return shared_->factors + j_ * kPanel; }
  int64_t RowsOf(int64_t b) const { return std::min(kRowBlock, rows_ - b * kRowBlock); }

  // Reduces the panel, with one barrier per column. Every member computes each reflection itself, from the sums of all
  // blocks.
  void Reduce(int64_t j) {
    Begin(j);
    for (int64_t c = 0; c <= width_; ++c) {
      crew_->ForEach(blocks_, [&](int64_t b) {
        if (c == 0) Load(b);
        RunOnThisCpu([&] { ReflectBlock(b, c); });
        if (c == width_) Store(b);
      });
      if (c < width_) crew_->Try([&] { Choose(c); });
    }
  }

  // The panel's rows of block b, from w.
  void Load(int64_t b) {
    const int64_t first = b * kRowBlock, rows = RowsOf(b);
    RunOnThisCpu([&, from = w_ + (j_ + first) * n_ + j_, to = Column(0) + first, n = n_, apart = stride()] {
      Transpose(rows, width_, from, n, to, apart);
    });
  }
  // Applies the reflection of column c - 1 to the columns behind it, and adds up the products of rows below row c,
  // which the reflection of column c needs.
  void ReflectBlock(int64_t b, int64_t c) {
    const int64_t first = b * kRowBlock, n = RowsOf(b);
    T* const v = c > 0 ? Column(c - 1) + first : nullptr;
    if (c > 0) {
      const int64_t from = std::max<int64_t>(0, c - first);
      MESHWORK_INDEPENDENT
      for (int64_t i = from; i < n; ++i) v[i] *= last_.inverse;
    }
    if (c == width_) return;
    // Only the rows of v from its 1 on.
    const int64_t top = std::max<int64_t>(0, c - 1 - first), below = std::max<int64_t>(0, c + 1 - first);
    if (c > 0 && top == c - 1 - first) v[top] = 1;
    T* const u = Column(c) + first;
    double* const sums = shared_->sums + ((c % 2) * blocks_ + b) * kPanel;
    for (int64_t q = c; q < width_; ++q) {
      T* const y = Column(q) + first;
      sums[q] = static_cast<double>(SubtractAndDot(c > 0 ? last_.factors[q] : T(0), (c > 0 ? v : u) + top,
                                                   u + top, below - top, n - top, y + top));
      if (b == 0) shared_->tops[(c % 2) * kPanel + q] = y[c];
    }
  }

  // The reflection of column c.
  void Choose(int64_t c) {
    std::array<double, kPanel> sums = {};
    for (int64_t b = 0; b < blocks_; ++b) {
      const double* const of_block = shared_->sums + ((c % 2) * blocks_ + b) * kPanel;
      for (int64_t q = c; q < width_; ++q) sums[q] += of_block[q];
    }
    const T* const tops = shared_->tops + (c % 2) * kPanel;
    const double alpha = tops[c], below = sums[c];
    last_ = {};
    tau_[c] = 0;
    beta_[c] = tops[c];
    // The column is (beta, 0, …) already, or nearly: its largest element was about 1, and the elements below the
    // diagonal are so small that their squares are not exact any more. Columns that are linear combinations of others
    // become like this.
    constexpr double kNothing = std::is_same_v<T, float> ? 0x1p-94 : 0x1p-766;
    if (below < kNothing) return;
    const double beta = -std::copysign(std::sqrt(alpha * alpha + below), alpha);
    const double tau = (beta - alpha) / beta, inverse = 1 / (alpha - beta);
    last_.inverse = static_cast<T>(inverse);
    tau_[c] = static_cast<T>(tau);
    beta_[c] = static_cast<T>(beta);
    for (int64_t q = c + 1; q < width_; ++q)
      last_.factors[q] = static_cast<T>(tau * (tops[q] + inverse * sums[q]));
  }

  // Writes the block's rows of the panel to w; the panel becomes V.
  void Store(int64_t b) {
    const int64_t first = b * kRowBlock;
    if (b == 0)
      for (int64_t c = 0; c < width_; ++c) Column(c)[c] = beta_[c];
    RunOnThisCpu([&, from = Column(0) + first, to = w_ + (j_ + first) * n_ + j_, n = n_, apart = stride()] {
      Transpose(width_, RowsOf(b), from, apart, to, n);
    });
    if (b == 0) MakeUnitLower();
  }
  void MakeUnitLower() {
    for (int64_t c = 0; c < width_; ++c) {
      std::fill_n(Column(c), c, T(0));
      Column(c)[c] = 1;
    }
  }

  // -T, of the panel's reflections: column i of T is -tau[i] T (Vᵀ v[i]), tau[i] on the diagonal (LAPACK's larft).
  void MakeFactor() {
    const int64_t grams = Blocks(rows_, kGramBlock), size = width_ * width_;
    crew_->ForEach(grams, [&](int64_t g) {
      const T* const v = Column(0) + g * kGramBlock;
      Multiply({.transpose_b = true,
                .m = width_,
                .n = width_,
                .k = std::min(kGramBlock, rows_ - g * kGramBlock),
                .lda = stride(),
                .ldb = stride(),
                .ldc = width_},
               v, v, shared_->grams + g * size);
    });
    crew_->First([&] {
      T* const sum = shared_->grams;
      for (int64_t g = 1; g < grams; ++g)
        for (int64_t i = 0; i < size; ++i) sum[i] += sum[g * size + i];
      T* const factor = Factor();
      std::fill_n(factor, size, T(0));
      for (int64_t i = 0; i < width_; ++i) {
        factor[i * width_ + i] = -tau_[i];
        for (int64_t row = 0; row < i; ++row) {
          T dot = 0;
          for (int64_t s = row; s < i; ++s) dot += factor[row * width_ + s] * sum[s * width_ + i];
          factor[row * width_ + i] = -tau_[i] * dot;
        }
      }
    });
  }

  static void Multiply(const GemmShape& shape, const T* a, const T* b, T* c) {
    const GemmTerm term;
    Gemm(shape, {&term, 1}, a, b, c);
  }

  // Applies the panel's reflections, in their order (`forward`) or in reverse, to some columns of a matrix [m,
  // columns]. From row j on, the first `zeros` rows of the matrix are zeros.
  void Apply(bool forward, int64_t zeros, T* matrix, int64_t columns, int64_t column, int64_t count) {
    T* const at = matrix + j_ * columns + column;
    Multiply({.m = width_, .n = count, .k = rows_ - zeros, .lda = stride(), .ldb = columns, .ldc = count},
             Column(0) + zeros, at + zeros * columns, own_[0]);
    Multiply({.transpose_a = forward,
              .m = width_,
              .n = count,
              .k = width_,
              .lda = width_,
              .ldb = count,
              .ldc = count},
             Factor(), own_[0], own_[1]);
    Multiply({.transpose_a = true,
              .m = rows_,
              .n = count,
              .k = width_,
              .lda = stride(),
              .ldb = count,
              .ldc = columns,
              .accumulate = true},
             Column(0), own_[1], at);
  }

  void UpdateTrailing() {
    const int64_t begin = j_ + width_, slice = SliceOf(n_ - begin);
    crew_->Share(Blocks(n_ - begin, slice), [&](int64_t s) {
      const int64_t column = begin + s * slice;
      Apply(/*forward=*/true, 0, w_, n_, column, std::min(slice, n_ - column));
    });
  }

  // ---- The results.

  // Writes r from w. The reflections lie below r in w; moves them to q if they are not there.
  void WriteR() {
    constexpr int64_t kRows = 64;
    crew_->ForEach(Blocks(k_, kRows), [&](int64_t b) {
      for (int64_t i = b * kRows; i < std::min((b + 1) * kRows, k_); ++i) {
        if (w_ != q_) std::copy_n(w_ + i * n_, i, q_ + i * k_);
        std::fill_n(r_ + i * n_, i, T(0));
        for (int64_t c = i; c < n_; ++c) r_[i * n_ + c] = w_[i * n_ + c] / shared_->scales[c];
      }
    });
  }

  // The panel's columns of q become the unit vectors, reflected; the columns behind the panel are reflected, too.
  void MakeQ(int64_t j) {
    Begin(j);
    const int64_t behind = j + width_;
    crew_->ForEach(blocks_, [&](int64_t b) {
      const int64_t first = b * kRowBlock;
      RunOnThisCpu([&, from = q_ + (j + first) * k_ + j, to = Column(0) + first, k = k_, apart = stride()] {
        Transpose(RowsOf(b), width_, from, k, to, apart);
      });
      if (b > 0) return;
      MakeUnitLower();
      for (int64_t i = j; i < behind; ++i) std::fill_n(q_ + i * k_ + behind, k_ - behind, T(0));
    });
    const int64_t slice = SliceOf(k_ - behind), slices = Blocks(k_ - behind, slice);
    crew_->Share(slices + Blocks(rows_, kGramBlock), [&](int64_t t) {
      if (t >= slices) return MakePanelOfQ((t - slices) * kGramBlock);
      const int64_t column = behind + t * slice;
      Apply(/*forward=*/false, width_, q_, k_, column, std::min(slice, k_ - column));
    });
  }

  // Rows from `first` on of the unit vectors - V T (the first rows of V)ᵀ.
  void MakePanelOfQ(int64_t first) {
    const int64_t rows = std::min(kGramBlock, rows_ - first);
    T* const at = q_ + (j_ + first) * k_ + j_;
    Multiply({.m = width_, .n = width_, .k = width_, .lda = width_, .ldb = stride(), .ldc = width_}, Factor(),
             Column(0), own_[0]);
    Multiply(
        {.transpose_a = true, .m = rows, .n = width_, .k = width_, .lda = stride(), .ldb = width_, .ldc = k_},
        Column(0) + first, own_[0], at);
    for (int64_t i = first; i < std::min(first + rows, width_); ++i) at[(i - first) * k_ + i] += 1;
  }

  const T* const x_;
  const int64_t m_, n_, k_;
  T *const q_, *const r_, *const w_;  // w is q or r, whichever is as large as x
  Team* const team_;
  Shared* shared_ = nullptr;
  Crew* crew_ = nullptr;
  T* own_[2] = {};  // this member's, [kPanel, kWidest] each
  // The panel: its first column, its columns, rows and blocks of rows.
  int64_t j_ = 0, width_ = 0, rows_ = 0, blocks_ = 0;
  Reflection<T> last_;
  std::array<T, kPanel> tau_ = {}, beta_ = {};  // of its columns; beta is what stands on r's diagonal
};

}  // namespace

bool IsBlockedQr(int64_t m, int64_t n) { return std::min(m, n) >= kSmallest; }

void BlockedQr(const float* x, int64_t m, int64_t n, float* q, float* r, Team* team) {
  QrMember<float>(x, m, n, q, r, team).Run();
}
void BlockedQr(const double* x, int64_t m, int64_t n, double* q, double* r, Team* team) {
  QrMember<double>(x, m, n, q, r, team).Run();
}

}  // namespace meshwork
