// The flags of gpu_step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "examples/support/gpt.h"
#include "meshwork.h"

namespace meshwork {

// The sizes of the models, as published.
struct ConvolutionSizes {
  int64_t resnet_batch = 64, image = 224;
  int64_t cnn_batch = 128;
  int64_t unet_batch = 16, unet_image = 256,
          unet_channels = 64;  // of the first level; the last has 16 times as many
};
struct RecurrentSizes {
  int64_t batch = 64, steps = 128, units = 512, vocabulary = 10'000;
};
struct DlrmSizes {
  int64_t batch = 8192, tables = 26, rows = 100'000, units = 64;
};
struct TransformerSizes {
  int64_t gpt_batch = 8, llama_batch = 8, vit_batch = 64, bert_batch = 32;
  int64_t bert_sequence = 512, bert_vocabulary = 30'522, llama_vocabulary = 32'000;
};

struct GpuOptions {
  std::vector<std::string> works, meshes;  // not empty
  std::vector<int64_t> batches;            // the same
  std::string devices = "cuda", json;
  std::string precision = "f32";  // of the products of models in f32: f32 or tf32
  std::string compute = "bf16";   // of models in bf16: bf16, f32 or tf32
  std::string prefetch = "on", profile = "off", padding = "mask", dlrm_optimizer = "sgd";
  int64_t size = 8192, elements = int64_t{1} << 26, repeats = 5;
  double seconds = 0.3;  // of a round
  bool takes_turns = false;
  ConvolutionSizes convolution;
  RecurrentSizes recurrent;
  DlrmSizes dlrm;
  TransformerSizes transformer;
  GptModel gpt{.layers = 12,
               .dim = 768,
               .heads = 12,
               .sequence = 1024,
               .vocabulary = 50304,
               .rotary = false,
               .compute = BF16};
  bool help = false;
  std::string help_text;
};

absl::StatusOr<GpuOptions> ParseGpuOptions(int argc, const char* const* argv);

}  // namespace meshwork
