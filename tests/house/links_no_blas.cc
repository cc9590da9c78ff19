// A program that parses, prints, differentiates, compiles and verifies, and runs nothing: it links the room
// spmd. links_test.cc checks that it needs no library of kernels.
#include <cstdio>
#include <string>
#include <vector>

#include "meshwork/ir/gradients.h"
#include "meshwork/ir/graph.h"
#include "meshwork/ir/text.h"
#include "meshwork/spmd/compile.h"

namespace mw = meshwork;

int main() {
  absl::StatusOr<mw::Graph> parsed = mw::ParseGraph(R"(
    mesh [x=2,y=2]
    func f(%a: f32[8,4] {x,_}, var %w: f32[4,6] {_,y}, %image: f32[2,6,4,3] {x,_,_,_}, %filter: f32[3,3,3,4]) {
      %0 = matmul %a, %w
      %1 = conv %image, %filter low=[1,1] high=[1,1]
      %2 = reduce_sum %0 dims=[0,1]
      %3 = reduce_sum %1 dims=[0,1,2,3]
      %4 = add %2, %3
      return loss=%4
    })");
  if (!parsed.ok()) {
    std::fprintf(stderr, "%s\n", parsed.status().ToString().c_str());
    return 1;
  }
  mw::Graph& graph = *parsed;
  const mw::Value loss(&graph, graph.outputs()[0].value);
  const mw::Value w(&graph, graph.arguments()[1].value), filter(&graph, graph.arguments()[3].value);
  const std::vector<mw::Value> grads = mw::Gradients(loss, std::vector<mw::Value>{w, filter});
  graph.Output("of_w", grads[0]);
  graph.Output("of_filter", grads[1]);
  const absl::StatusOr<mw::Program> program = mw::Compile(graph);
  if (!program.ok()) {
    std::fprintf(stderr, "%s\n", program.status().ToString().c_str());
    return 1;
  }
  std::printf("%s----\n%s", mw::PrintGraph(graph).c_str(), mw::PrintGraph(program->body).c_str());
  return 0;
}
