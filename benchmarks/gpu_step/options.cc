#include "benchmarks/gpu_step/options.h"

#include <algorithm>

#include "benchmarks/gpu_step/training.h"
#include "benchmarks/gpu_step/works.h"
#include "benchmarks/lists.h"
#include "meshwork/base/flags.h"
#include "meshwork/base/status.h"

namespace meshwork {
namespace {

constexpr int64_t kMost = int64_t{1} << 40;

void AddModelFlags(FlagTable& flags, GpuOptions& o) {
  ConvolutionSizes& c = o.convolution;
  flags.Int("resnet-batch", "images per step", &c.resnet_batch, 1, kMost);
  flags.Int("image", "rows and columns of the images of resnet50 and vit; vit's are multiples of 16",
            &c.image, 16, kMost);
  flags.Int("cnn-batch", "images per step", &c.cnn_batch, 1, kMost);
  flags.Int("unet-batch", "images per step", &c.unet_batch, 1, kMost);
  flags.Int("unet-image", "rows and columns of the images, multiples of 16", &c.unet_image, 16, kMost);
  flags.Int("unet-channels", "of the first level", &c.unet_channels, 1, kMost);
  flags.Int("rnn-batch", "sequences per step of lstm, gru and bilstm", &o.recurrent.batch, 1, kMost);
  flags.Int("rnn-steps", "tokens of a sequence", &o.recurrent.steps, 1, kMost);
  flags.Int("rnn-units", "of each layer, and of a token", &o.recurrent.units, 1, kMost);
  flags.Int("rnn-vocabulary", "tokens that there are", &o.recurrent.vocabulary, 1, kMost);
  flags.Int("dlrm-batch", "examples per step", &o.dlrm.batch, 1, kMost);
  flags.Int("dlrm-tables", "features that are one of many", &o.dlrm.tables, 1, kMost);
  flags.Int("dlrm-rows", "of each table", &o.dlrm.rows, 1, kMost);
  flags.Int("dlrm-units", "of each row", &o.dlrm.units, 1, kMost);
  flags.Choice("dlrm-optimizer", "of the tables and of the perceptrons", &o.dlrm_optimizer,
               {"sgd", "adagrad"});
  TransformerSizes& t = o.transformer;
  flags.Int("gpt-batch", "sequences per step", &t.gpt_batch, 1, kMost);
  flags.Int("llama-batch", "sequences per step", &t.llama_batch, 1, kMost);
  flags.Int("llama-vocabulary", "tokens that there are", &t.llama_vocabulary, 1, kMost);
  flags.Int("vit-batch", "images per step", &t.vit_batch, 1, kMost);
  flags.Int("bert-batch", "sequences per step", &t.bert_batch, 1, kMost);
  flags.Int("bert-sequence", "tokens of a sequence, padding among them", &t.bert_sequence, 2, kMost);
  flags.Int("bert-vocabulary", "tokens that there are", &t.bert_vocabulary, 1, kMost);
  flags.Choice("padding", "what says bert's attention where the padding is: a mask of bools, or lengths",
               &o.padding, {"mask", "lengths"});
  flags.Int("layers", "of gpt, llama, vit and bert", &o.gpt.layers, 0, kMost);
  flags.Int("dim", "units of a token of these", &o.gpt.dim, 1, kMost);
  flags.Int("heads", "of attention; they divide the units", &o.gpt.heads, 1, kMost);
  flags.Int("sequence", "tokens of a sequence of gpt and llama", &o.gpt.sequence, 1, kMost);
  flags.Int("vocabulary", "tokens that there are, of gpt", &o.gpt.vocabulary, 1, kMost);
}

absl::Status CheckSizes(const GpuOptions& o) {
  const auto is_asked = [&](const char* work) { return std::ranges::count(o.works, work) > 0; };
  if (is_asked("vit") && o.convolution.image % 16 != 0)
    return InvalidArgument("--image {}: vit cuts images into patches of 16 x 16; write a multiple of 16.",
                           o.convolution.image);
  if (is_asked("unet") && o.convolution.unet_image % 16 != 0)
    return InvalidArgument("--unet-image {}: unet halves images 4 times; write a multiple of 16.",
                           o.convolution.unet_image);
  if (o.gpt.dim % o.gpt.heads != 0)
    return InvalidArgument("--heads {}: they do not divide --dim {}.", o.gpt.heads, o.gpt.dim);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<GpuOptions> ParseGpuOptions(int argc, const char* const* argv) {
  GpuOptions o;
  std::string works = "matmul chain mlp gpt", meshes = "batch=1 batch=8 batch=4,model=2",
              batches = "128 8192";
  FlagTable flags(
      "gpu_step",
      "Times on a GPU: a product of matrices in bf16 beside cuBLASLt's (matmul); a chain of elementwise ops beside the\n"
      "driver's copy (chain); and training steps. mlp is the MNIST MLP (784-700-500-10, Adam) on meshes of logical\n"
      "devices, and gpt a transformer of the size of GPT-2 (bf16, Adam). Others are resnet50 (bf16, SGD with momentum),\n"
      "cnn (the MNIST CNN, f32, Adam), unet (bf16, Adam), lstm, gru and bilstm (language models of two layers, f32,\n"
      "Adam), dlrm (f32, on the meshes), and vit, bert and llama (bf16, Adam). A training step is fed from the host's\n"
      "memory, and ends when its loss is there. All take turns, a round of steps each. A name that ends in /prefetch is\n"
      "that training in a loop whose next batch is copied while a step runs (train/fit/prefetch_to_device.h).");
  flags.Text("works", "a list with spaces: " + WorkNames(), &works);
  flags.Text("devices", "cuda, cuda:N, or cpu for a try of small sizes", &o.devices);
  flags.Text("meshes", "of mlp and dlrm, a list with spaces; the first is what the others are compared with",
             &meshes);
  flags.Text("batches", "of mlp, a list with spaces", &batches);
  flags.Choice("precision", "of the products of mlp, cnn, lstm, gru, bilstm and dlrm", &o.precision,
               {"f32", "tf32"});
  flags.Choice("compute", "what resnet50, unet, gpt, llama, vit and bert compute in; weights are f32",
               &o.compute, {"bf16", "f32", "tf32"});
  flags.Choice("prefetch", "times mlp with prefetched batches, too; all: every training", &o.prefetch,
               {"on", "off", "all"});
  flags.Int("size", "of the matrices", &o.size, 1, kMost);
  flags.Int("elements", "of the chain", &o.elements, 1024, kMost);
  AddModelFlags(flags, o);
  flags.Int("repeats", "rounds of each", &o.repeats, 1, kMost);
  flags.Real("seconds", "of a round", &o.seconds, 0);
  flags.Choice("profile", "prints where the time of the steps went, which are launched one by one then",
               &o.profile, {"on", "off"});
  flags.Text("json", "writes what was measured as JSON into this file", &o.json);
  flags.Switch("turns", "says what it can time, and times what standard input names, for benchmarks/peers",
               &o.takes_turns);
  MESHWORK_RETURN_IF_ERROR(flags.Parse(argc, argv));
  o.help = flags.help_asked();
  o.help_text = flags.Help();
  o.works = Split(works, ' ');
  if (o.works.empty()) return InvalidArgument("--works: the list is empty; write for example \"mlp gpt\".");
  o.meshes = Split(meshes, ' ');
  if (o.meshes.empty())
    return InvalidArgument("--meshes: the list is empty; write for example \"batch=1 batch=8\".");
  MESHWORK_ASSIGN_OR_RETURN(o.batches, ParseBatches("--batches", batches, ' '));
  o.gpt.compute = ComputeOf(o);
  MESHWORK_RETURN_IF_ERROR(CheckSizes(o));
  return o;
}

}  // namespace meshwork
