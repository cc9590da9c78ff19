// The step that the tests of process simulation use.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/text.h"
#include "meshwork/spmd/compile.h"

namespace meshwork {

inline constexpr std::string_view kProcessStep = R"(mesh [x=2, y=2]
func step(%h: f32[64,96] {x,_}, var %w: f32[96,128] {_,y}, var %u: f32[128,32] {y,_}) {
  %a = matmul %h, %w
  %r = relu %a
  %b = matmul %r, %u
  %t = tanh %b
  %g = matmul %r, %t transpose_a=true
  %e = matmul %t, %u transpose_b=true
  %f = matmul %h, %e transpose_a=true
  %u1 = sub %u, %g
  %w1 = sub %w, %f
  %loss = reduce_sum %t dims=[0,1]
  update %w = %w1
  update %u = %u1
  return loss=%loss
})";

inline Program Compiled(std::string_view text, int64_t num_domains = 1) {
  absl::StatusOr<Program> program = Compile(ParseGraph(text).value(), {.num_domains = num_domains});
  if (!program.ok()) ADD_FAILURE() << MessageOf(program.status());
  return *std::move(program);
}

}  // namespace meshwork
