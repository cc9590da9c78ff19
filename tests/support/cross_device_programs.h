// Local programs whose all_reduces cross-device ops make, for tests of all backends.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "meshwork/base/status.h"
#include "meshwork/runtime/executor.h"
#include "meshwork/runtime/tensor.h"
#include "runtime/programs.h"

namespace meshwork {

struct CrossDeviceRun {
  std::string error;
  Tensors outputs, variables;
};

inline CrossDeviceRun RunCrossDevice(const Program& program, const Tensors& feeds,
                                     const ExecutorOptions& options, Backend& backend, int steps = 2) {
  CrossDeviceRun ran;
  std::map<std::string, DTensor> state;
  const auto executor = Executor::Create(program, backend, options, &state);
  if (!executor.ok()) return {std::string(MessageOf(executor.status()))};
  for (int step = 0; step < steps && ran.error.empty(); ++step)
    ran.error = MessageOf((*executor)->Run(feeds, &ran.outputs));
  for (const auto& [name, variable] : state) ran.variables[name] = Unpack(variable).value();
  return ran;
}

// One of each kind: several axes, of which one does not take part; several values at once, of several dtypes; a sum of what
// is the same everywhere; a loop; other reductions.
inline constexpr std::string_view kCrossDevicePrograms[] = {
    R"(mesh [x=2, y=3]
func step(%a: f32[2,5] of f32[4,5] {x,_}, %b: i32[1,2] of i32[3,2] {y,_}, var %w: f32[5] {_}) {
  %p = reduce_sum %a dims=[0] : f32[5] {_ | sum:x}
  %s = all_reduce %p axes=(x) op=sum : f32[5] {_}
  %m = reduce_max %b dims=[0] : i32[2] {_ | max:y}
  %t = all_reduce %m axes=(y) op=max : i32[2] {_}
  %n = add %w, %s : f32[5] {_}
  update %w = %n
  return s=%s, t=%t
})",
    R"(mesh [x=3]
func step(%a: f32[2,5] of f32[5,5] {x,_}, %b: f32[2,2] of f32[5,2] {x,_}, %c: i64[2,3] of i64[5,3] {x,_},
          var %w: f32[5] {_}) {
  %am = mask_padding %a dims=[0] op=sum : f32[2,5] of f32[5,5] {x,_}
  %bm = mask_padding %b dims=[0] op=sum : f32[2,2] of f32[5,2] {x,_}
  %cm = mask_padding %c dims=[0] op=sum : i64[2,3] of i64[5,3] {x,_}
  %p = reduce_sum %am dims=[0] : f32[5] {_ | sum:x}
  %q = reduce_sum %bm dims=[0] : f32[2] {_ | sum:x}
  %r = reduce_sum %cm dims=[0] : i64[3] {_ | sum:x}
  %s, %t, %u = all_reduce %p, %q, %r axes=(x) op=sum : f32[5] {_}, f32[2] {_}, i64[3] {_}
  %n = add %w, %s : f32[5] {_}
  update %w = %n
  return s=%s, t=%t, u=%u
})",
    R"(mesh [x=2, y=2]
func step(%a: f32[2,3] of f32[4,6] {x,y}, var %w: f32[3] of f32[6] {y}) {
  %l = scan %w, %a length=3 (var %c: f32[3] of f32[6] {y}, %b: f32[2,3] of f32[4,6] {x,y}) {
    %p = reduce_sum %b dims=[0] : f32[3] of f32[6] {y | sum:x}
    %s = all_reduce %p axes=(x) op=sum : f32[3] of f32[6] {y}
    %d = add %c, %s : f32[3] of f32[6] {y}
    update %c = %d
  } : f32[3] of f32[6] {y}
  update %w = %l
  return l=%l
})"};

inline Tensors CrossDeviceFeeds(const Program& program) {
  Tensors feeds;
  const Graph& body = program.body;
  for (const Argument& argument : body.arguments())
    if (!argument.is_variable)
      feeds[body.value(argument.value).name] = Ramp(body.value(argument.value).global);
  return feeds;
}

}  // namespace meshwork
