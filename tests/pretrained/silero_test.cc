// Silero VAD, which says how likely each 32 ms of a sound are speech: a spectrum, four convolutions and an LSTM.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "meshwork.h"
#include "pretrained/pretrained.h"

namespace meshwork::silero_test {
namespace {

// Samples of a chunk, and of those before it that it sees, too; of the spectrum's windows, of their steps and the padding.
constexpr int64_t kChunk = 512, kContext = 64, kWindow = 256, kStep = 128, kPad = 64;
constexpr int64_t kBins = kWindow / 2 + 1, kUnits = 128;

class SileroTest : public PretrainedTest {
 protected:
  SileroTest() : PretrainedTest("silero") {}
};

// audio: [b,context+n·chunk] -> [b·n,context+chunk+pad,1], the chunks, each mirrored at its end.
Value Chunks(const Value& audio) {
  const int64_t b = audio.shape()[0], n = (audio.shape()[1] - kContext) / kChunk;
  const auto cut = [&](int64_t begin) {
    return Reshape(SliceDim(audio, 1, begin, begin + n * kChunk), {b * n, kChunk});
  };
  const Value x = Concat({SliceDim(cut(0), 1, 0, kContext), cut(kContext)}, 1);
  const int64_t end = kContext + kChunk;
  return ExpandDims(Concat({x, Reverse(SliceDim(x, 1, end - 1 - kPad, end - 1), {1})}, 1), {2});
}

// -> "speech" [b,n], "state" and "cell" [b,units] after the last chunk.
Graph Model(const Mesh& mesh, const Shape& audio_shape) {
  Graph g(mesh);
  g.SetLayouts(
      {.layouts = {{"audio", {"batch", UNSHARDED}}, {"conv?/kernel", {UNSHARDED, UNSHARDED, "model"}}},
       .missing_axes = MissingAxes::kShardNothing});
  const Value chunks = Chunks(g.Input("audio", F32, audio_shape));
  const Conv1D stft(g, "stft", 1, 2 * kBins, {kWindow}, {.window = {.strides = {kStep}}, .bias = false});
  const std::vector<Value> parts = Split(stft(chunks), 2, 2);
  Value x = Sqrt(Square(parts[0]) + Square(parts[1]));
  int64_t layer = 0;
  for (const auto& [filters, stride] : {std::pair<int64_t, int64_t>(128, 1), {64, 2}, {64, 2}, {128, 1}}) {
    const WindowOptions window{.strides = {stride}, .padding = WindowPadding::Explicit({1}, {1})};
    x = Conv1D(g, fmt::format("conv{}", ++layer), filters, {3}, {.window = window, .activation = Relu})(x);
  }
  const LstmResult lstm =
      Lstm(g, "lstm", kUnits, kUnits, {.units = "model"})(Reshape(x, {audio_shape[0], -1, kUnits}));
  const Value logits = Conv1D(g, "final_conv", kUnits, 1, {1})(Relu(lstm.sequence));
  g.Output("speech", Sigmoid(Squeeze(logits, 2)));
  g.Output("state", lstm.state);
  g.Output("cell", lstm.cell);
  return g;
}

// PyTorch has the LSTM's kernels as [4·units,inputs], and two biases. Gates are in the same order.
absl::Status SetLstm(Session& session, const std::string& path) {
  MESHWORK_ASSIGN_OR_RETURN(const auto read, ReadSafetensors(path));
  const std::map<std::string, Tensor> tensors(read.begin(), read.end());
  const auto kernel = [&](const char* name) {
    return tensors.at(name).Reshaped({4, kUnits, kUnits}).Transposed({2, 0, 1});
  };
  MESHWORK_RETURN_IF_ERROR(session.Set("lstm/kernel", kernel("lstm_cell.weight_ih")));
  MESHWORK_RETURN_IF_ERROR(session.Set("lstm/recurrent", kernel("lstm_cell.weight_hh")));
  Tensor bias(Type{F32, {4, kUnits}});
  const auto one = tensors.at("lstm_cell.bias_ih").values<float>(),
             other = tensors.at("lstm_cell.bias_hh").values<float>();
  for (size_t i = 0; i < one.size(); ++i) bias.mutable_values<float>()[i] = one[i] + other[i];
  return session.Set("lstm/bias", bias);
}

// In f32, a product over k <= 512 has an error of about sqrt(k) 2^-24 = 1.4e-6 of its largest result, and a chunk goes through
// 7 of them: 1e-5 if all errors had one sign. Those of earlier chunks shrink with what gates forget; 1e-4 leaves room for them.
TEST_F(SileroTest, SpeechIsThatOfNumPyAndOnnxRuntimeOnEveryMesh) {
  for (const char* of : {"model", "onnx"}) {
    const std::string weights = fmt::format("{}/{}.safetensors", dir(), of);
    for (const char* mesh : kMeshes) {
      SCOPED_TRACE(fmt::format("{} on {}", of, mesh));
      absl::StatusOr<Session> session =
          Session::Create(Model(Mesh::VirtualCpus(mesh).value(), Expected("audio").shape()));
      ASSERT_TRUE(session.ok()) << session.status();
      const absl::StatusOr<LoadedWeights> loaded =
          LoadWeights(*session, weights,
                      {.rules = {{.variable = "stft/kernel", .tensor = "stft_conv.weight", .dims = {2, 1, 0}},
                                 {.variable = "*conv*/kernel", .tensor = "*conv*.weight", .dims = {2, 1, 0}},
                                 {.variable = "*conv*/bias", .tensor = "*conv*.bias"}},
                       .missing = {"lstm/*"},
                       .unused = {"lstm_cell.*"}});
      ASSERT_TRUE(loaded.ok()) << loaded.status();
      EXPECT_EQ(loaded->variables.size(), 11);
      const absl::Status set = SetLstm(*session, weights);
      ASSERT_TRUE(set.ok()) << set;
      const absl::StatusOr<StepResult> result = session->Predict({{"audio", Expected("audio")}});
      ASSERT_TRUE(result.ok()) << result.status();
      for (const char* name : {"speech", "state", "cell"})
        ExpectNear(mesh, fmt::format("{}/{}", of, name), result->Get(name).value(), 1e-4);
    }
  }
}

}  // namespace
}  // namespace meshwork::silero_test
