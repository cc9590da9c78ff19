// Programs of convolutions and their gradients, for simulated and real GPUs.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "meshwork/ir/gradients.h"
#include "meshwork/ir/text.h"
#include "meshwork/ops/ops.h"
#include "support/program_trial.h"

namespace meshwork {

struct ConvolutionCase {
  std::string name;
  std::string mesh, x, w, attrs;  // "x=2"; "[4,6,6,8] {x,_,_,_}"; "[3,3,8,16]"; "strides=[2,2]"
};

// Windows of all kinds, on one device, and on two that shard the images, their rows or their channels.
inline std::vector<ConvolutionCase> ConvolutionCases() {
  return {
      {"Same", "x=1", "[2,6,7,8] {_,_,_,_}", "[3,3,8,16]", "low=[1,1] high=[1,1]"},
      {"Strides", "x=1", "[2,9,8,8] {_,_,_,_}", "[3,2,8,8]", "strides=[2,3] low=[1,0] high=[1,1]"},
      {"PaddedAtOneEnd", "x=1", "[2,8,8,4] {_,_,_,_}", "[3,3,4,8]", "strides=[2,2] high=[1,1]"},
      {"Dilation", "x=1", "[1,9,9,4] {_,_,_,_}", "[3,3,4,4]", "dilation=[2,3] low=[2,2] high=[2,2]"},
      {"Groups", "x=1", "[2,5,6,12] {_,_,_,_}", "[3,3,4,6]", "low=[1,1] high=[1,1] groups=3"},
      {"Depthwise", "x=1", "[2,5,6,8] {_,_,_,_}", "[3,3,1,8]", "low=[1,1] high=[1,1] groups=8"},
      {"ThreeChannels", "x=1", "[2,9,9,3] {_,_,_,_}", "[5,5,3,8]", "strides=[2,2] low=[2,2] high=[2,2]"},
      {"OnePosition", "x=1", "[2,5,4,8] {_,_,_,_}", "[1,1,8,6]", ""},
      {"OnePositionWithStrides", "x=1", "[2,5,4,8] {_,_,_,_}", "[1,1,8,16]", "strides=[2,2]"},
      {"OneDim", "x=1", "[3,9,8] {_,_,_}", "[3,8,4]", "low=[1] high=[1]"},
      {"ThreeDims", "x=1", "[1,4,5,6,4] {_,_,_,_,_}", "[2,3,3,4,8]", "low=[0,1,1] high=[1,1,1]"},
      {"NegativePadding", "x=1", "[2,8,8,4] {_,_,_,_}", "[3,3,4,4]", "low=[-1,1] high=[1,-1]"},
      {"ImagesOfTwoDevices", "x=2", "[4,6,6,8] {x,_,_,_}", "[3,3,8,8]", "low=[1,1] high=[1,1]"},
      {"RowsOfTwoDevices", "x=2", "[2,8,6,8] {_,x,_,_}", "[3,3,8,8]", "low=[1,1] high=[1,1]"},
      {"UnevenRowsOfTwoDevices", "x=2", "[2,7,6,8] {_,x,_,_}", "[3,3,8,8]",
       "strides=[2,1] low=[1,1] high=[1,1]"},
      {"ProductsOfTwoDevices", "x=2", "[4,4,4,8] {x,_,_,_}", "[1,1,8,8]", ""},
      {"ChannelsOfTwoDevices", "x=2", "[2,5,5,8] {_,_,_,x}", "[3,3,8,8]", "low=[1,1] high=[1,1]"},
  };
}

// y = conv(x, w), and the gradients of the sum of y's squares.
inline RandomProgram ProgramOf(const ConvolutionCase& c, DType dtype) {
  std::string w_layout = "_";
  for (const char letter : c.w)
    if (letter == ',') w_layout += ",_";
  Graph graph = ParseGraph(fmt::format("mesh [{0}]\nfunc f(%x: {1}{2}, %w: {1}{3} {{{4}}}) {{\n"
                                       "  %y = conv %x, %w {5}\n  return y=%y\n}}\n",
                                       c.mesh, DTypeName(dtype), c.x, c.w, w_layout, c.attrs))
                    .value();
  const auto argument = [&](const char* name) {
    return Value(&graph, graph.arguments()[static_cast<size_t>(graph.FindArgument(name))].value);
  };
  const Value y(&graph, graph.outputs()[0].value);
  std::vector<int64_t> all;
  for (int64_t d = 0; d < y.rank(); ++d) all.push_back(d);
  const std::vector<Value> gradients = Gradients(ReduceSum(Square(y), all), {argument("x"), argument("w")});
  graph.Output("dx", gradients[0]);
  graph.Output("dw", gradients[1]);
  return WithFeeds(std::move(graph));
}

}  // namespace meshwork
