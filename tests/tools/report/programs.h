// Programs that the tests of reports show.
#pragma once

#include <string>
#include <string_view>

#include "fmt/format.h"

namespace meshwork {

// examples/step.mw.
inline constexpr std::string_view kStepProgram = R"(// The example of docs/tools.md.
mesh [batch=2, model=4]
func step(%h: f32[128,700] {batch,model}, var %w: f32[700,500] {model,_}) {
  %y = matmul %h, %w : f32[128,500] {batch,_}
  %loss = reduce_sum %y dims=[0,1]
  %half = constant value=0.5 shape=[]
  %new = mul %w, %half
  update %w = %new
  return y=%y, loss=%loss
}
)";

// A loop whose iterations each sum a product over the devices; from docs/control-flow.md.
inline constexpr std::string_view kLoopProgram = R"(mesh [data=2, model=2]
func rnn(%h0: f32[8,6] {data,_}, %xs: f32[5,8,6], %w: f32[6,6] {model,_}) {
  %h, %all = scan %h0, %xs, %w length=5 slices=1 (var %h: f32[8,6], %x: f32[8,6], %w: f32[6,6]) {
    %p = matmul %h, %w
    %q = add %p, %x
    %n = tanh %q
    update %h = %n
    return %n
  }
  return last=%h, all=%all
}
)";

// `layers` blocks: a product with operands sharded over model, its activation, and a sum with the block's input.
inline std::string LongProgram(int layers) {
  std::string arguments = "%x0: f32[8,64] {batch,_}", body;
  for (int i = 0; i < layers; ++i) {
    arguments +=
        fmt::format(",\n     var %up{0}: f32[64,256] {{_,model}}, var %down{0}: f32[256,64] {{model,_}}", i);
    body += fmt::format("  %a{0}_0 = matmul %x{0}, %up{0}\n", i);
    constexpr int kSteps = 10;
    for (int k = 0; k < kSteps; ++k)
      body += fmt::format("  %a{0}_{2} = {3} %a{0}_{1}\n", i, k, k + 1, k % 2 == 0 ? "tanh" : "neg");
    body +=
        fmt::format("  %b{0} = matmul %a{0}_{2}, %down{0}\n  %x{1} = add %x{0}, %b{0}\n", i, i + 1, kSteps);
  }
  return fmt::format("mesh [batch=2, model=4]\nfunc long({}) {{\n{}  return y=%x{}\n}}\n", arguments, body,
                     layers);
}

}  // namespace meshwork
