// What is refused of published weights. DIR stands for a directory of this run.
#include "meshwork/session/load_weights.h"

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "errors/errors.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "meshwork/base/io/file.h"
#include "meshwork/storage/weight_files.h"
#include "support/in_domains.h"
#include "support/temp_dir.h"

namespace meshwork::load_weights_errors {
namespace {

const SessionOptions kOne = {.workers = 1, .own_cores = false};

class LoadWeightsErrors : public TempDirTest {
 protected:
  void Expect(std::string_view area, const std::vector<Mistake>& mistakes) {
    ExpectErrors(area, mistakes, {{dir(), "DIR"}});
  }
  std::string Write(const std::string& name, const std::vector<std::pair<std::string, Type>>& tensors) {
    std::vector<std::pair<std::string, Tensor>> zeros;
    for (const auto& [tensor, type] : tensors) zeros.emplace_back(tensor, Tensor::Zeros(type));
    std::filesystem::create_directories(std::filesystem::path(Path(name)).parent_path());
    EXPECT_EQ(MessageOf(WriteSafetensors(Path(name), zeros)), "");
    return Path(name);
  }
};

TEST_F(LoadWeightsErrors, Files) {
  Write("a.safetensors", {{"a", {F32, {2}}}, {"both", {F32, {2}}}});
  Write("b.safetensors", {{"b", {F32, {2}}}, {"both", {F32, {2}}}});
  std::filesystem::create_directories(Path("empty"));
  File("pointer.safetensors",
       "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 269060552\n");
  const auto index = [&](const std::string& text) { return WeightFiles::Open(File("index.json", text)); };
  const auto map = [&](const std::string& map) { return index(R"({"weight_map": )" + map + "}"); };
  Expect("weight_files", {
                             MISTAKE(WeightFiles::Open(Path("none"))),
                             MISTAKE(WeightFiles::Open(Path("none.json"))),
                             MISTAKE(WeightFiles::Open(Path("empty"))),
                             MISTAKE(WeightFiles::Open(Path("pointer.safetensors"))),
                             MISTAKE(index("{")),
                             MISTAKE(index("[]")),
                             MISTAKE(index(R"({"metadata": {}})")),
                             MISTAKE(map("[]")),
                             MISTAKE(map("{}")),
                             MISTAKE(map(R"({"a": 1})")),
                             MISTAKE(map(R"({"a": "a.safetensors", "a": "b.safetensors"})")),
                             MISTAKE(map(R"({"a": ""})")),
                             MISTAKE(map(R"({"a": "."})")),
                             MISTAKE(map(R"({"a": "\u001b[31m"})")),
                             MISTAKE(map(R"({"a": "/etc/passwd"})")),
                             MISTAKE(map(R"({"a": "../a.safetensors"})")),
                             MISTAKE(map(R"({"a": "below/../../a.safetensors"})")),
                             MISTAKE(map(R"({"a": "c.safetensors"})")),
                             MISTAKE(map(R"({"a": "pointer.safetensors"})")),
                             MISTAKE(map(R"({"a": "a.safetensors", "c": "a.safetensors"})")),
                             MISTAKE(map(R"({"a": "a.safetensors", "b": "b.safetensors"})")),
                         });
}

// Outputs read two matrices of blocks, a bias and a scale; a slot is state.
Graph Model() {
  Graph g(Mesh::Parse("model=2").value());
  Value x = g.Input("x", F32, {2, 3});
  Value h = MatMul(x, g.Var("block0/kernel", Zeros({3, 4}), {UNSHARDED, "model"}));
  h = MatMul(h, g.Var("block1/kernel", Zeros({4, 4}), {"model", UNSHARDED}));
  const Variable bias = g.Var("bias", Zeros({4}));
  const Variable slot = g.Var("sgd/momentum/bias", Zeros({4}));
  g.Update(slot, slot * 0.5 + bias);
  g.Output("y", h + bias);
  return g;
}

TEST_F(LoadWeightsErrors, Loading) {
  Session session = Session::Create(Model(), kOne).value();
  const std::string kernel = "block0/kernel";
  const Type first{F32, {4, 3}}, second{F32, {4, 4}}, bias{F32, {4}};
  const std::string good = Write("good", {{"h.0.w", first}, {"h.1.w", second}, {"bias", bias}});
  const WeightRule rule{.variable = "block*/kernel", .tensor = "h.*.w", .transpose = true};
  ASSERT_EQ(MessageOf(LoadWeights(session, good, {.rules = {rule}}).status()), "");
  const auto load = [&](const LoadWeightsOptions& options) { return LoadWeights(session, good, options); };
  const auto by = [&](const WeightRule& other) { return load({.rules = {other, rule}}); };
  const auto load_types = [&](const std::vector<std::pair<std::string, Type>>& tensors) {
    return LoadWeights(session, Write("other", tensors), {.rules = {rule}});
  };
  const auto many = [&] {
    std::vector<std::pair<std::string, Type>> tensors = {{"h.0.w", first}, {"h.1.w", second}, {"bias", bias}};
    for (int i = 0; i < 12; ++i) tensors.emplace_back(fmt::format("h.{}.bias", i), bias);
    return load_types(tensors);
  };
  const auto without_outputs = [&] {
    Graph g(Mesh::Parse("model=2").value());
    const Variable w = g.Var("w", Zeros({4}));
    g.Update(w, w + 1.0);
    Session other = Session::Create(g, kOne).value();
    return LoadWeights(other, good);
  };
  // A BOOL that is 7: no header says so.
  const auto unreadable = [&] {
    Graph g(Mesh::Parse("model=2").value());
    g.Output("y", Cast(g.Var("m", Zeros({2}, BOOL)), F32));
    Session other = Session::Create(g, kOne).value();
    Write("bad", {{"m", {BOOL, {2}}}});
    std::string bytes = ReadFile(Path("bad")).value();
    bytes.back() = 7;
    return LoadWeights(other, File("bad", bytes));
  };
  const auto domains_differ = [&] {
    Write("other", {{"h.0.w", {BF16, {4, 3}}}, {"h.1.w", second}, {"bias", bias}});
    absl::Status status;
    InDomains(2, [&](Transport& end) {
      SessionOptions options = kOne;
      options.executor.transport = &end;
      Session other = Session::Create(Model(), options).value();
      const std::string path = end.domain() == 0 ? good : Path("other");
      const absl::Status mine = LoadWeights(other, path, {.rules = {rule}}).status();
      if (end.domain() == 0) status = mine;
    });
    return status;
  };
  Expect("load_weights",
         {
             MISTAKE(LoadWeights(session, Path("none"))),
             MISTAKE(load({})),
             MISTAKE(load({.unused = {"*"}})),
             MISTAKE(load({.missing = {"block*"}})),
             MISTAKE(load({.rules = {rule}, .also = {"sgd/*"}})),
             MISTAKE(by({.variable = "blok0/kernel", .tensor = "h.*.w"})),
             MISTAKE(by({.variable = kernel, .tensor = "h.0.w", .transpose = true, .dims = {1, 0}})),
             MISTAKE(by({.variable = kernel, .tensor = "h.0.kernel"})),
             MISTAKE(by({.variable = kernel, .tensor = "h.0.w"})),
             MISTAKE(by({.variable = kernel, .tensor = "h.0.w", .dims = {0, 0}})),
             MISTAKE(by({.variable = kernel, .tensor = "h.0.w", .dims = {0, 1, 2}})),
             MISTAKE(by({.variable = kernel, .tensor = "h.0.w", .transpose = true, .rows = Extent{2, 2}})),
             MISTAKE(by({.variable = kernel, .tensor = "h.0.w", .rows = Extent{2, 3}})),
             MISTAKE(by({.variable = kernel, .tensor = "h.0.w", .columns = Extent{-1, 3}})),
             MISTAKE(by({.variable = "bias", .tensor = "bias", .transpose = true})),
             MISTAKE(by({.variable = "bias", .tensor = "bias", .columns = Extent{0, 4}})),
             MISTAKE(load_types({{"h.0.w", {F32, {3, 4}}}, {"h.1.w", second}, {"bias", bias}})),
             MISTAKE(load_types({{"h.0.w", first}, {"h.1.w", {F32, {4, 4, 1}}}, {"bias", {I64, {4}}}})),
             MISTAKE(load_types({{"h.0.w", {F64, {4, 3}}}, {"h.1.w", second}, {"bias", {F32, {5}}}})),
             MISTAKE(load_types({{"model.h.0.w", first}, {"model.h.1.w", second}, {"model.bias", bias}})),
             {"12 tensors too many", many},
             {"a program without outputs", without_outputs},
             {"a BOOL that is 7", unreadable},
             {"domains with other files", domains_differ},
         });
}

}  // namespace
}  // namespace meshwork::load_weights_errors
