#include "benchmarks/hand_written_step.h"

#include <cblas.h>
#include <dlfcn.h>
#include <dnnl.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <thread>

// Loops are compiled for several CPUs; the program chooses one version when it starts.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define MESHWORK_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define MESHWORK_CLONES
#endif

namespace meshwork {
namespace {

constexpr double kLearningRate = 1e-3, kBeta1 = 0.9, kBeta2 = 0.999, kEpsilon = 1e-8;
constexpr int kStripRows = 96;  // of a kernel's gradient: 96 x 700 floats fit in a core's cache
constexpr int kNarrow = 16;     // products with a side this small go to OpenBLAS
constexpr int kSpinsBeforeYield = 2000;

void Check(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "HandWrittenMlp: %s\n", what);
  std::abort();
}

// oneDNN comes with an OpenMP library, whose number of threads is set per thread.
void UseOneOpenMpThread() {
  if (auto* set = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"))) set(1);
}

// Zeroed floats at the start of a cache line.
class Buffer {
 public:
  explicit Buffer(size_t size = 0)
      : size_(size),
        data_(static_cast<float*>(std::aligned_alloc(64, (size * sizeof(float) + 63) / 64 * 64))) {
    std::fill_n(data_.get(), size, 0.0f);
  }
  size_t size() const { return size_; }
  float* get() { return data_.get(); }
  const float* get() const { return data_.get(); }

 private:
  struct Free {
    void operator()(float* p) const { std::free(p); }
  };
  size_t size_;
  std::unique_ptr<float, Free> data_;
};

// A barrier of all threads: a thread spins first, because the wait is short, and then yields.
class Barrier {
 public:
  explicit Barrier(int threads) : threads_(threads) {}

  void Wait() {
    const uint32_t generation = generation_.load(std::memory_order_acquire);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads_) {
      arrived_.store(0, std::memory_order_relaxed);
      generation_.store(generation + 1, std::memory_order_release);
      return;
    }
    for (int spins = 0; generation_.load(std::memory_order_acquire) == generation; ++spins)
      if (spins > kSpinsBeforeYield) std::this_thread::yield();
  }

 private:
  const int threads_;
  alignas(64) std::atomic<int> arrived_ = 0;
  alignas(64) std::atomic<uint32_t> generation_ = 0;
};

// c [m,n] = op(a) [m,k] op(b) [k,n], rows of a, b and c lda, ldb and ldc floats apart.
void Gemm(bool transpose_a, bool transpose_b, int m, int n, int k, const float* a, int lda, const float* b,
          int ldb, float* c, int ldc) {
  if (m == 0) return;
  if (n <= kNarrow) {
    cblas_sgemm(CblasRowMajor, transpose_a ? CblasTrans : CblasNoTrans,
                transpose_b ? CblasTrans : CblasNoTrans, m, n, k, 1, a, lda, b, ldb, 0, c, ldc);
    return;
  }
  const dnnl_status_t status =
      dnnl_sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', m, n, k, 1, a, lda, b, ldb, 0, c, ldc);
  Check(status == dnnl_success, "dnnl_sgemm failed");
}

MESHWORK_CLONES void AddBias(float* __restrict h, const float* __restrict bias, int rows, int columns) {
  for (int r = 0; r < rows; ++r, h += columns)
    for (int c = 0; c < columns; ++c) h[c] += bias[c];
}

MESHWORK_CLONES void AddBiasAndRelu(float* __restrict h, const float* __restrict bias, int rows,
                                    int columns) {
  for (int r = 0; r < rows; ++r, h += columns)
    for (int c = 0; c < columns; ++c) h[c] = std::max(h[c] + bias[c], 0.0f);
}

// The gradient passes only where h, the result of the ReLU, is positive.
MESHWORK_CLONES void ReluGradient(float* __restrict gradient, const float* __restrict h, int n) {
  for (int i = 0; i < n; ++i) gradient[i] = h[i] > 0 ? gradient[i] : 0.0f;
}

// sum[c] = sum over rows of x[r, c], for columns [begin, end).
MESHWORK_CLONES void SumRows(const float* __restrict x, int rows, int columns, int begin, int end,
                             float* __restrict sum) {
  std::fill(sum + begin, sum + end, 0.0f);
  for (int r = 0; r < rows; ++r, x += columns)
    for (int c = begin; c < end; ++c) sum[c] += x[c];
}

// Adam's w -= lr m' / (sqrt(v') + eps) with m' = m / (1 - beta1^t) and v' = v / (1 - beta2^t), as
// step = lr / (1 - beta1^t) and unbias = 1 / sqrt(1 - beta2^t).
MESHWORK_CLONES void AdamUpdate(float* __restrict w, float* __restrict m, float* __restrict v,
                                const float* __restrict gradient, int n, float step, float unbias) {
  constexpr float keep1 = kBeta1, take1 = 1 - kBeta1, keep2 = kBeta2, take2 = 1 - kBeta2, epsilon = kEpsilon;
  for (int i = 0; i < n; ++i) {
    m[i] = keep1 * m[i] + take1 * gradient[i];
    v[i] = keep2 * v[i] + take2 * gradient[i] * gradient[i];
    w[i] -= step * m[i] / (std::sqrt(v[i]) * unbias + epsilon);
  }
}

// Turns logits [rows,classes] into the gradient of the loss, (softmax - one_hot) scale, and returns the
// sum of the rows' losses.
double SoftmaxCrossEntropy(float* logits, const int32_t* labels, int rows, int classes, float scale) {
  double loss = 0;
  for (int r = 0; r < rows; ++r, logits += classes) {
    const float largest = *std::max_element(logits, logits + classes);
    const float correct = logits[labels[r]] - largest;
    float sum = 0;
    for (int c = 0; c < classes; ++c) sum += logits[c] = std::exp(logits[c] - largest);
    for (int c = 0; c < classes; ++c) logits[c] *= scale / sum;
    logits[labels[r]] -= scale;
    loss += std::log(sum) - correct;
  }
  return loss;
}

struct Parameter {
  Buffer value, m, v;

  explicit Parameter(const std::vector<float>& initial)
      : value(initial.size()), m(initial.size()), v(initial.size()) {
    std::copy(initial.begin(), initial.end(), value.get());
  }
};

struct Layer {
  int in, out;
  Parameter kernel, bias;
  Buffer activation;     // [batch,out]; of the last layer, the logits and then their gradient
  Buffer gradient;       // [batch,out], of the loss by what the layer computes before its ReLU
  Buffer bias_gradient;  // [out]
};

struct Range {
  int begin, end;
  int size() const { return end - begin; }
};

}  // namespace

struct HandWrittenMlp::Impl {
  const int batch, threads;
  std::vector<Layer> layers;
  std::vector<Buffer> strips;  // per thread, a strip of a kernel's gradient
  std::vector<double> losses;  // per thread, one cache line each
  int steps = 0;
  float step_size = 0, unbias = 0;
  const float* images = nullptr;
  const int32_t* labels = nullptr;

  Barrier barrier;
  std::atomic<int> started = 0;  // steps begun; -1: stop
  std::vector<std::thread> workers;

  Impl(int batch_size, int num_threads) : batch(batch_size), threads(num_threads), barrier(num_threads) {}

  // Thread t's share of n things.
  Range ShareOf(int n, int t) const {
    return {static_cast<int>(int64_t{n} * t / threads), static_cast<int>(int64_t{n} * (t + 1) / threads)};
  }

  const float* InputOf(size_t layer) const {
    return layer == 0 ? images : layers[layer - 1].activation.get();
  }
  float* GradientOf(size_t layer) {
    return layer + 1 == layers.size() ? layers[layer].activation.get() : layers[layer].gradient.get();
  }

  void Forward(const Range& examples) {
    for (size_t l = 0; l < layers.size(); ++l) {
      Layer& layer = layers[l];
      float* h = layer.activation.get() + size_t(examples.begin) * layer.out;
      Gemm(false, false, examples.size(), layer.out, layer.in, InputOf(l) + size_t(examples.begin) * layer.in,
           layer.in, layer.kernel.value.get(), layer.out, h, layer.out);
      if (l + 1 == layers.size()) AddBias(h, layer.bias.value.get(), examples.size(), layer.out);
      else AddBiasAndRelu(h, layer.bias.value.get(), examples.size(), layer.out);
    }
  }

  double Loss(const Range& examples) {
    Layer& last = layers.back();
    return SoftmaxCrossEntropy(last.activation.get() + size_t(examples.begin) * last.out,
                               labels + examples.begin, examples.size(), last.out, 1.0f / batch);
  }

  // The gradients of all activations of these examples.
  void Backward(const Range& examples) {
    for (size_t l = layers.size() - 1; l > 0; --l) {
      Layer& layer = layers[l];
      const size_t out = size_t(examples.begin) * layer.out, in = size_t(examples.begin) * layer.in;
      float* gradient = GradientOf(l - 1) + in;
      Gemm(false, true, examples.size(), layer.in, layer.out, GradientOf(l) + out, layer.out,
           layer.kernel.value.get(), layer.out, gradient, layer.in);
      ReluGradient(gradient, InputOf(l) + in, examples.size() * layer.in);
    }
  }

  // Gradients and new values of thread t's rows of each kernel and part of each bias.
  void Update(int t) {
    for (size_t l = 0; l < layers.size(); ++l) {
      Layer& layer = layers[l];
      const Range rows = ShareOf(layer.in, t), columns = ShareOf(layer.out, t);
      float* strip = strips[t].get();
      for (int row = rows.begin; row < rows.end; row += kStripRows) {
        const int n = std::min(kStripRows, rows.end - row);
        const size_t at = size_t(row) * layer.out;
        Gemm(true, false, n, layer.out, batch, InputOf(l) + row, layer.in, GradientOf(l), layer.out, strip,
             layer.out);
        AdamUpdate(layer.kernel.value.get() + at, layer.kernel.m.get() + at, layer.kernel.v.get() + at, strip,
                   n * layer.out, step_size, unbias);
      }
      const int c = columns.begin;
      SumRows(GradientOf(l), batch, layer.out, columns.begin, columns.end, layer.bias_gradient.get());
      AdamUpdate(layer.bias.value.get() + c, layer.bias.m.get() + c, layer.bias.v.get() + c,
                 layer.bias_gradient.get() + c, columns.size(), step_size, unbias);
    }
  }

  void RunThread(int t) {
    const Range examples = ShareOf(batch, t);
    Forward(examples);
    losses[size_t(t) * 8] = Loss(examples);
    Backward(examples);
    barrier.Wait();  // gradients need all examples, and the old weights are no longer read
    Update(t);
    barrier.Wait();
  }

  void Work(int t) {
    UseOneOpenMpThread();
    for (int done = 0;;) {
      started.wait(done);
      const int now = started.load(std::memory_order_acquire);
      if (now < 0) return;
      done = now;
      RunThread(t);
    }
  }
};

HandWrittenMlp::HandWrittenMlp(int batch, int threads, const std::vector<std::vector<float>>& weights) {
  Check(batch >= 1 && threads >= 1, "batch and threads must be at least 1");
  Check(!weights.empty() && weights.size() % 2 == 0, "weights must be a kernel and a bias per layer");
  impl_ = std::make_unique<Impl>(batch, threads);
  int widest = 0;
  for (size_t i = 0; i < weights.size(); i += 2) {
    const std::vector<float>&kernel = weights[i], &bias = weights[i + 1];
    Check(!bias.empty() && !kernel.empty() && kernel.size() % bias.size() == 0, "kernel and bias disagree");
    const int out = static_cast<int>(bias.size()), in = static_cast<int>(kernel.size() / bias.size());
    Check(i == 0 || in == impl_->layers.back().out, "a layer does not fit the one before");
    const size_t activations = size_t(batch) * out;
    impl_->layers.push_back({.in = in,
                             .out = out,
                             .kernel = Parameter(kernel),
                             .bias = Parameter(bias),
                             .activation = Buffer(activations),
                             .gradient = Buffer(activations),
                             .bias_gradient = Buffer(out)});
    widest = std::max(widest, out);
  }
  impl_->losses.resize(size_t(threads) * 8);
  for (int t = 0; t < threads; ++t) impl_->strips.emplace_back(size_t(kStripRows) * widest);

  UseOneOpenMpThread();
  openblas_set_num_threads(1);
  for (int t = 1; t < threads; ++t) impl_->workers.emplace_back([impl = impl_.get(), t] { impl->Work(t); });
}

HandWrittenMlp::~HandWrittenMlp() {
  impl_->started.store(-1, std::memory_order_release);
  impl_->started.notify_all();
  for (std::thread& worker : impl_->workers) worker.join();
}

float HandWrittenMlp::Step(const float* images, const int32_t* labels) {
  Impl& impl = *impl_;
  impl.images = images;
  impl.labels = labels;
  const double t = ++impl.steps;
  impl.step_size = static_cast<float>(kLearningRate / (1 - std::pow(kBeta1, t)));
  impl.unbias = static_cast<float>(1 / std::sqrt(1 - std::pow(kBeta2, t)));
  impl.started.store(impl.steps, std::memory_order_release);
  impl.started.notify_all();
  impl.RunThread(0);
  double loss = 0;
  for (int i = 0; i < impl.threads; ++i) loss += impl.losses[size_t(i) * 8];
  return static_cast<float>(loss / impl.batch);
}

std::vector<std::vector<float>> HandWrittenMlp::weights() const {
  std::vector<std::vector<float>> result;
  for (const Layer& layer : impl_->layers)
    for (const Buffer* value : {&layer.kernel.value, &layer.bias.value})
      result.emplace_back(value->get(), value->get() + value->size());
  return result;
}

}  // namespace meshwork
