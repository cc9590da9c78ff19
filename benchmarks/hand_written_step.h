// The reference: one training step of the MNIST example's network, written by hand for one machine, without
// meshwork and without sharding, with the same libraries and a given number of threads.
//
//   HandWrittenMlp mlp(/*batch=*/128, /*threads=*/2, {kernel1, bias1, kernel2, bias2, kernel3, bias3});
//   float loss = mlp.Step(images, labels);
//
// Dense layers with ReLU between them, sparse softmax cross-entropy averaged over the batch, Adam as in
// Algorithm 1 of Kingma and Ba (ICLR 2015) with learning rate 1e-3, beta 0.9 and 0.999, epsilon 1e-8; f32.
//
// Why it is fast: a thread takes a range of the examples through forward and backward without waiting for the
// other threads. After the step's only inner barrier, it takes a range of the rows of each kernel: it
// computes their gradient a strip at a time, and gives a strip to Adam while the strip lies in its cache.
// Matrix products go to oneDNN, those with the narrow last layer to OpenBLAS, single-threaded in each thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace meshwork {

class HandWrittenMlp {
 public:
  // `weights` holds kernel [in,out] (row-major) and bias [out] of each layer in turn; their sizes give the
  // sizes of the layers. REQUIRES: batch >= 1, threads >= 1, at least one layer, sizes that agree.
  // Sets the threads of OpenMP (of the calling thread) and of OpenBLAS (of the process) to 1.
  HandWrittenMlp(int batch, int threads, const std::vector<std::vector<float>>& weights);
  ~HandWrittenMlp();
  HandWrittenMlp(const HandWrittenMlp&) = delete;
  HandWrittenMlp& operator=(const HandWrittenMlp&) = delete;

  // Trains on one batch, images [batch,in] and labels [batch], and returns its loss before the update.
  // The calling thread works too; the other threads sleep between steps. REQUIRES: one caller at a time, on
  // the thread that called the constructor; 0 <= label < out of the last layer.
  float Step(const float* images, const int32_t* labels);

  // The weights as they are now, in the order of the constructor.
  std::vector<std::vector<float>> weights() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace meshwork
