// An LSTM that says of each word of a sentence whether it is an article, a noun or a verb: the task of PyTorch's
// tutorial "Sequence Models and Long-Short Term Memory Networks". All sentences are one batch, the short ones padded.
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "examples/models/print_losses.h"

namespace mw = meshwork;
using mw::UNSHARDED;

constexpr std::string_view kTags = "ANV";  // article, noun, verb
const std::vector<std::pair<std::string, std::string>> kSentences = {
    {"the cat sees a bird", "ANVAN"},     {"birds fly", "NV"},
    {"a bird watches the cat", "ANVAN"},  {"children read the book", "NVAN"},
    {"the children watch birds", "ANVN"}, {"the book falls", "ANV"}};
constexpr int64_t kLength = 5, kUnits = 16;

int main(int argc, char** argv) {
  const mw::ModelFlags flags(argc, argv, "lstm", "Tags the words of sentences by an LSTM.", 100);
  const auto rows = std::ssize(kSentences);
  std::map<std::string, int32_t> ids;
  std::vector<int32_t> words, tags;
  for (const auto& [sentence, letters] : kSentences) {
    std::istringstream text(sentence);
    for (size_t i = 0; i < kLength; ++i) {
      std::string word;  // stays empty behind the end: padding, whose tag -1 does not count
      text >> word;
      words.push_back(ids.emplace(word, ids.size()).first->second);
      tags.push_back(i < letters.size() ? static_cast<int32_t>(kTags.find(letters[i])) : -1);
    }
  }

  mw::Graph graph = flags.NewGraph({{"words", {"batch", UNSHARDED}},
                                    {"tags", {"batch", UNSHARDED}},
                                    {"embedding/table", {"model", UNSHARDED}},
                                    {"lstm/*", {UNSHARDED, UNSHARDED, "model"}},
                                    {"lstm/bias", {UNSHARDED, "model"}}});
  const mw::Value x = graph.Input("words", mw::I32, {rows, kLength});
  const mw::Value y = graph.Input("tags", mw::I32, {rows, kLength});
  const mw::Embedding embedding(graph, "embedding", std::ssize(ids), kUnits);
  const mw::Lstm lstm(graph, "lstm", kUnits);
  const mw::Dense dense(graph, "dense", std::ssize(kTags));
  const mw::Value logits = dense(lstm(embedding(x)).sequence);
  const mw::Value loss = mw::SparseSoftmaxCrossEntropy(logits, y, {.ignore_label = -1});
  mw::Adam({.learning_rate = 0.02}).Minimize(loss);
  graph.Output("loss", loss);
  graph.Output("found", mw::Argmax(logits, -1));
  fmt::print("{}", mw::Summary(graph));

  mw::Session session = mw::Session::Create(graph).value();
  const mw::Pipeline data = mw::BatchesOf({{"words", mw::Tensor::From<int32_t>({rows, kLength}, words)},
                                           {"tags", mw::Tensor::From<int32_t>({rows, kLength}, tags)}},
                                          {.batch_size = rows})
                                .value();
  mw::Fit(session, data, {.epochs = flags.steps, .callbacks = {mw::PrintLosses(flags)}}).value();
  const mw::Tensor found = mw::Predict(session, data, {.outputs = {"found"}})->Get("found").value();
  for (int64_t row = 0; row < rows; ++row) {
    fmt::print("{}:", kSentences[row].first);
    for (int64_t i = 0; i < std::ssize(kSentences[row].second); ++i)
      fmt::print(" {}", kTags[found[row].values<int32_t>()[i]]);
    fmt::print("\n");
  }
}
