// What is refused when weights are saved. DIR stands for a directory of this run.
#include "meshwork/session/save_weights.h"

#include <string>
#include <vector>

#include "errors/errors.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "support/in_domains.h"
#include "support/temp_dir.h"

namespace meshwork::save_weights_errors {
namespace {

const SessionOptions kOne = {.workers = 1, .own_cores = false};

Graph TwoMatrices() {
  Graph g(Mesh::Parse("model=2").value());
  const Value x = g.Input("x", F32, {2, 3});
  const Value h = MatMul(x, g.Var("block0/kernel", Zeros({3, 4}), {UNSHARDED, "model"}));
  const Variable bias = g.Var("bias", Zeros({4}));
  g.Output("y", MatMul(h, g.Var("block1/kernel", Zeros({4, 4}), {"model", UNSHARDED})) + bias);
  return g;
}

class SaveWeightsErrors : public TempDirTest {};

TEST_F(SaveWeightsErrors, Saving) {
  Session session = Session::Create(TwoMatrices(), kOne).value();
  const std::string path = Path("a.safetensors");
  const auto save = [&](const SaveWeightsOptions& options) { return SaveWeights(session, path, options); };
  ASSERT_EQ(MessageOf(save({}).status()), "");
  const auto by = [&](const WeightRule& rule) { return save({.rules = {rule}}); };
  File("file", "");
  const auto without_outputs = [&] {
    Graph g(Mesh::Parse("model=2").value());
    const Variable w = g.Var("w", Zeros({4}));
    g.Update(w, w + 1.0);
    Session other = Session::Create(g, kOne).value();
    return SaveWeights(other, path);
  };
  // Domain 0 writes; the other one learns that it could not.
  const auto in_domain_1 = [&] {
    absl::Status status;
    InDomains(2, [&](Transport& end) {
      SessionOptions options = kOne;
      options.executor.transport = &end;
      Session other = Session::Create(TwoMatrices(), options).value();
      const absl::Status mine = SaveWeights(other, Path("file/below")).status();
      if (end.domain() == 1) status = mine;
    });
    return status;
  };
  const auto only = [&](const std::vector<std::string>& only) {
    return LoadWeights(session, path, {.only = only});
  };
  ExpectErrors("save_weights",
               {
                   MISTAKE(by({.variable = "block*/kernel", .tensor = "h.*.*.w"})),
                   MISTAKE(by({.variable = "bias", .tensor = "b", .transpose = true, .dims = {0}})),
                   MISTAKE(by({.variable = "bias", .tensor = "b", .transpose = true})),
                   MISTAKE(by({.variable = "block*/kernel", .tensor = "h.*.w", .dims = {1, 1}})),
                   MISTAKE(by({.variable = "block*/kernel", .tensor = "h"})),
                   MISTAKE(by({.variable = "block0/kernel", .tensor = "bias"})),
                   MISTAKE(by({.variable = "block0/kernel", .tensor = "h", .rows = Extent{0, 3}})),
                   MISTAKE(save({.only = {"blok*", "bais"}})),
                   MISTAKE(save({.only = {"bias", "bais"}})),
                   MISTAKE(save({.also = {"adam/*"}})),
                   MISTAKE(only({"blok*"})),
                   MISTAKE(save({.except = {"*"}})),
                   MISTAKE(save({.metadata = {{"format", "\xff"}}})),
                   MISTAKE(SaveWeights(session, Path("file/below"))),
                   {"a program without outputs", without_outputs},
                   {"domain 1 of a path that cannot be written", in_domain_1},
               },
               {{dir(), "DIR"}});
}

}  // namespace
}  // namespace meshwork::save_weights_errors
