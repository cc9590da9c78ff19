// What is refused of low-rank adapters.
#include "meshwork/train/nn/low_rank.h"

#include <functional>
#include <string>

#include "errors/errors.h"
#include "gtest/gtest.h"
#include "meshwork.h"

namespace meshwork::low_rank_errors {
namespace {

// Two layers, a table that is looked up, and what a test adds.
absl::Status Adapting(const LowRankOptions& options,
                      const std::function<void(Graph& g, const Value& y, CallSite site)>& more = {},
                      CallSite site = CallSite::Current()) {
  Graph g(Mesh::Parse("batch=2,model=4").value());
  const LocationScope line(g, site);
  const Value tokens = g.Input("tokens", I32, {4}, {"batch"});
  const Embedding table(g, "table", 5, 6);
  const Dense up(g, "up", 6, 8, {}, site), down(g, "down", 8, 6, {}, site);
  const Value y = down(up(table(tokens, site), site), site);
  if (more != nullptr) more(g, y, site);
  AddLowRankAdapters(g, options, site);
  return g.status();
}

TEST(LowRankErrors, Adapters) {
  const auto by = [](const std::vector<std::string>& patterns, CallSite site = CallSite::Current()) {
    return Adapting({.patterns = patterns}, {}, site);
  };
  const auto already_updated = [](Graph&, const Value& y, CallSite) { Sgd({}).Minimize(ReduceMean(y)); };
  const auto name_taken = [](Graph& g, const Value&, CallSite) { g.Var("up/kernel.lora_b", Zeros({2, 8})); };
  const auto not_read = [](Graph& g, const Value&, CallSite) { g.Var("alone", Zeros({2, 8})); };
  const auto in_a_loop = [](Graph& g, const Value& y, CallSite site) {
    const Variable w = g.Var("looped", Zeros({6, 6}));
    Scan(
        g, {y}, {},
        [&](Graph&, const std::vector<Value>& carries, const std::vector<Value>&) {
          return ScanStep{.carries = {MatMul(carries[0], w)}};
        },
        {.length = 2}, site);
  };
  const auto merging_others = [] {
    Graph g(Mesh::Parse("model=2").value());
    const Dense dense(g, "dense", 6, 8);
    g.Output("y", dense(g.Input("x", F32, {2, 6})));
    Session session = Session::Create(g, {.workers = 1, .own_cores = false}).value();
    return MergeLowRankAdapters(session, {.scale = 2, .weights = {"dense/kernel"}});
  };
  ExpectErrors("low_rank", {
                               MISTAKE(Adapting({.patterns = {"up/*"}, .rank = 0})),
                               MISTAKE(Adapting({.patterns = {"up/*"}, .alpha = 0})),
                               MISTAKE(Adapting({.rank = 4})),
                               MISTAKE(by({"*/kernel", "*/bias"})),
                               MISTAKE(by({"table/*"})),
                               MISTAKE(Adapting({.patterns = {"up/*"}}, already_updated)),
                               MISTAKE(Adapting({.patterns = {"up/*"}}, name_taken)),
                               MISTAKE(Adapting({.patterns = {"alone"}}, not_read)),
                               MISTAKE(Adapting({.patterns = {"looped"}}, in_a_loop)),
                               {"merging adapters of another program", merging_others},
                           });
}

}  // namespace
}  // namespace meshwork::low_rank_errors
