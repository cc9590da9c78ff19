// What manual regions refuse, built, read and verified.
#include "meshwork/ops/control/manual.h"

#include <string>
#include <vector>

#include "errors/errors.h"
#include "errors/in.h"
#include "gtest/gtest.h"
#include "meshwork/ir/gradients.h"
#include "meshwork/ir/text.h"
#include "meshwork/ops/control/control_flow.h"
#include "meshwork/ops/control/rebatch.h"
#include "meshwork/ops/ops.h"
#include "meshwork/spmd/compile.h"
#include "meshwork/verify/verify.h"

namespace meshwork::manual_test {
namespace {

using Values = std::vector<Value>;
using manual::Region;

Values Same(Graph&, const Values& b) { return b; }

const LayoutSpec kRows = {"model", UNSHARDED};

// A region on the rows of one tensor, which gives rows.
template <typename F>
void OnRows(Graph& g, F&& body, const Shape& shape = {8, 8}, DType dtype = F32) {
  Region(g, {In(g, shape, dtype)}, {kRows}, {kRows},
         [&](Graph& graph, const Values& b) -> Values { return {body(graph, b[0])}; });
}

TEST(ManualErrors, Regions) {
  ExpectErrors("manual_regions",
               {
                   GRAPH_MISTAKE(g.Add("manual", Values{In(g, {8, 8})}, {}, {"model.cc", 7})),
                   GRAPH_MISTAKE(Region(g, {In(g, {8, 8})}, {}, {kRows}, Same)),
                   GRAPH_MISTAKE(Region(g, {In(g, {8, 8})}, {{"modell", UNSHARDED}}, {kRows}, Same)),
                   GRAPH_MISTAKE(Region(g, {In(g, {8, 8})}, {{"model"}}, {kRows}, Same)),
                   GRAPH_MISTAKE(Region(g, {In(g, {8, 8})}, {{OPEN, UNSHARDED}}, {kRows}, Same)),
                   GRAPH_MISTAKE(Region(g, {In(g, {6, 8})}, {kRows}, {kRows}, Same)),
                   GRAPH_MISTAKE(Region(g, {In(g, {8, 8}), Value()}, {kRows, kRows}, {kRows, kRows}, Same)),
                   GRAPH_MISTAKE(Region(g, {In(g, {8, 8})}, {kRows}, {kRows, kRows}, Same)),
                   GRAPH_MISTAKE(Region(g, {In(g, {8, 8})}, {kRows}, {},
                                        [](Graph&, const Values&) { return Values{}; })),
                   GRAPH_MISTAKE(Region(g, {In(g, {8, 8})}, {kRows}, {{"model"}}, Same)),
                   GRAPH_MISTAKE(Region(g, {In(g, {8, 8})}, {kRows}, {{"batch", UNSHARDED}}, Same)),
                   GRAPH_MISTAKE(Region(g, {In(g, {8, 8})}, {kRows}, {kRows},
                                        [](Graph&, const Values&) { return Values(1); })),
                   GRAPH_MISTAKE(OnRows(g,
                                        [](Graph&, const Value& b) {
                                          return Relayout(b, {UNSHARDED, UNSHARDED});
                                        })),
                   GRAPH_MISTAKE(OnRows(g,
                                        [](Graph& body, const Value& b) {
                                          return Scan(body, {b}, {},
                                                      [](Graph&, const Values& c, const Values&) -> ScanStep {
                                                        return {c};
                                                      },
                                                      {.length = 2})
                                              .carries[0];
                                        })),
               });
}

TEST(ManualErrors, Collectives) {
  const Mistake rebatched("a batch of another size", [] {
    Graph g(Mesh::Parse("batch=2,model=4").value());
    const Value x = In(g, {8, 8});
    g.Output("y", Region(g, {x}, {{"batch", UNSHARDED}}, {{"batch", UNSHARDED}}, Same)[0]);
    return Rebatch(g, 8, 4);
  });
  ExpectErrors(
      "manual_collectives",
      {
          GRAPH_MISTAKE(OnRows(g, [](Graph&, const Value& b) { return manual::AllReduce(b, {"modle"}); })),
          GRAPH_MISTAKE(OnRows(g,
                               [](Graph&, const Value& b) {
                                 return manual::AllReduce(b, {"model", "model"});
                               })),
          GRAPH_MISTAKE(OnRows(g, [](Graph&, const Value& b) { return manual::AllReduce(b, {"batch"}); })),
          GRAPH_MISTAKE(OnRows(
              g, [](Graph&, const Value& b) { return manual::AllReduce(b, {"model"}, ReduceOp::kOr); })),
          GRAPH_MISTAKE(OnRows(
              g, [](Graph&, const Value& b) { return manual::AllReduce(b, {"model"}); }, {8, 8}, BOOL)),
          GRAPH_MISTAKE(OnRows(g, [](Graph&, const Value& b) { return manual::AllGather(b, 2, {"model"}); })),
          GRAPH_MISTAKE(
              OnRows(g, [](Graph&, const Value& b) { return manual::ReduceScatter(b, 0, {"model"}); })),
          GRAPH_MISTAKE(
              OnRows(g, [](Graph&, const Value& b) { return manual::ReduceScatter(b, 1, {"batch"}); })),
          GRAPH_MISTAKE(
              OnRows(g, [](Graph&, const Value& b) { return manual::AllToAll(b, 1, 1, {"model"}); })),
          GRAPH_MISTAKE(
              OnRows(g, [](Graph&, const Value& b) { return manual::AllToAll(b, 1, 0, {"model"}); })),
          GRAPH_MISTAKE(OnRows(
              g,
              [](Graph& body, const Value& b) { return b + Cast(manual::AxisIndex(body, {"Model"}), F32); })),
          GRAPH_MISTAKE(OnRows(g, [](Graph&, const Value& b) { return manual::Shift(b, 1, {"seq"}); })),
          GRAPH_MISTAKE(g.Output("y", manual::AllReduce(In(g, {8, 8}), {"model"}))),
          GRAPH_MISTAKE(manual::AxisIndex(g, {"model"})),
          GRAPH_MISTAKE({
            const Value w = In(g, {8});
            OnRows(g, [&](Graph&, const Value& b) { return b * manual::Vary(w, {"model"}); });
          }),
          GRAPH_MISTAKE({
            const Value x = In(g, {8});
            const Value y = Region(g, {x}, {{"model"}}, {{UNSHARDED}}, [](Graph&, const Values& b) -> Values {
              return {manual::AllReduce(b[0], {"model"}, ReduceOp::kProd)};
            })[0];
            Gradients(ReduceSum(y, {0}), {x});
          }),
          rebatched,
          {"a collective outside of a region",
           []() -> Refusal {
             const absl::StatusOr<Graph> g = ParseGraph(
                 "mesh [x=2]\nfunc f(%a: f32[4]) {\n  %r = device_all_reduce %a axes=(x) op=sum\n  return "
                 "%r\n}",
                 "p.mw");
             return g.ok() ? Refusal(Compile(*g)) : Refusal(g);
           }},
      });
}

TEST(ManualErrors, Texts) {
  const std::vector<std::string> nodes = {
      "%r = manual %a",
      "%r = manual %a, %a (%b: f32[2,8] {x,_}) {\n    %0 = device_block %b {x,_}\n    return %0\n  }",
      "%r = manual %a () {\n    return %a\n  }",
      "%r = manual %a (%b: f32[2,8]) {\n    %0 = device_block %b {x,_}\n    return %0\n  }",
      "%r = manual %a (%b: f32[2,8] {x,?}) {\n    %0 = device_block %b {x,_}\n    return %0\n  }",
      "%r = manual %a (%b: f32[4,8] {x,_}) {\n    %0 = device_block %b {x,_}\n    return %0\n  }",
      "%r = manual %a (%b: f32[2,8] {x,_}) {\n  }",
      "%r = manual %a (var %b: f32[2,8] {x,_}) {\n    update %b = %b\n    %0 = device_block %b {x,_}\n"
      "    return %0\n  }",
      "%r = manual %a (%b: f32[2,8] {x,_}) {\n    return %b\n  }",
      "%r, %s = manual %a (%b: f32[2,8] {x,_}) {\n    %0 = device_block %b {x,_}\n    return %0, %b\n  }",
      "%r = manual %a (%b: f32[2,8] {x,_}) {\n    %0 = device_block %b {x}\n    return %0\n  }",
      "%r = manual %a (%b: f32[2,8] {x,_}) {\n    %0 = device_block %b {_,_}\n    return %0\n  }",
      "%r = manual %a (%b: f32[2,8] {x,_}) {\n    %0 = device_all_gather %b axes=(x) dim=0 count=3\n"
      "    %1 = device_block %0 {_,_}\n    return %1\n  }",
      "%r = manual %a (%b: f32[2,8] {x,_}) {\n    %0 = device_shift %b axes=(x) by=1 count=0\n"
      "    %1 = device_block %0 {_,_}\n    return %1\n  }",
      "%r = manual %a (%b: f32[2,8] {x,_}) {\n    %0 = exp %b : f32[2,8] {x,_}\n    %1 = device_block %0 "
      "{x,_}\n"
      "    return %1\n  }",
      "%r = manual %a (%b: f32[2,8] {x,_}) {\n    %0 = device_block %b {x,_}\n    %1 = exp %0\n"
      "    %2 = device_block %1 {x,_}\n    return %2\n  }",
      "%r = manual %a (%b: f32[2,8] {x,_}) {\n    %0 = device_block %b {x}\n    %1 = device_block %b {x,_}\n"
      "    return %1\n  }",
      "%r = manual %a (%b: f32[8,8]) {\n    %0 = exp %b\n    return %0\n  }",
      "%r = manual %a (%b: f32[8,8] {_,_}) {\n    return %b\n  }",
  };
  std::vector<Mistake> mistakes;
  for (const std::string& node : nodes)
    mistakes.push_back({node, [=]() -> Refusal {
                          const absl::StatusOr<Graph> graph = ParseGraph(
                              "mesh [x=4]\nfunc f(%a: f32[8,8]) {\n  " + node + "\n  return %r\n}", "p.mw");
                          return graph.ok() ? Refusal(Compile(*graph)) : Refusal(graph);
                        }});
  ExpectErrors("manual_text", mistakes);
}

// The local program of a region, with one line another.
TEST(ManualErrors, Verify) {
  Graph global(Mesh::Parse("x=4").value());
  const Value x = In(global, {8, 8});
  global.Output("y", Region(global, {x}, {{"x", UNSHARDED}}, {{UNSHARDED, UNSHARDED}},
                            [](Graph&, const Values& b) -> Values {
                              const Value next = manual::Shift(b[0], 1, {"x"});
                              return {manual::AllReduce(Exp(b[0]) + next, {"x"})};
                            })[0]);
  const std::string local = PrintGraph(Compile(global).value().body);
  std::vector<Mistake> mistakes;
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"op=sum", "op=max"}, {"exp", "neg"}, {"offset=[-2,0,6,0]", "offset=[-4,0,4,0]"}}) {
    std::string changed = local;
    for (size_t at = changed.find(from); at != std::string::npos; at = changed.find(from, at + to.size()))
      changed.replace(at, from.size(), to);
    ASSERT_NE(changed, local) << from << "\n" << local;
    mistakes.push_back({from + " -> " + to, [=, &global]() -> Refusal {
                          const absl::StatusOr<Graph> read = ParseGraph(changed, "local.mw");
                          return read.ok() ? Refusal(Verify(global, *read)) : Refusal(read);
                        }});
  }
  ExpectErrors("manual_verify", mistakes);
}

}  // namespace
}  // namespace meshwork::manual_test
