// An op that calls a function of the test while a step runs it.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/ir/builder.h"
#include "meshwork/ir/row.h"
#include "meshwork/ops/elementwise.h"

namespace meshwork {

// The function that the next step with this op calls, once; null: none. Set it while no step runs.
inline std::function<void()>& CalledByTheNextStep() {
  static auto* const called = new std::function<void()>();
  return *called;
}

// x: f32[], unchanged. REQUIRES: a mesh of one device.
inline Value Calling(const Operand& x) {
  static const absl::Status registered =
      RegisterOp({.name = "calls_the_test",
                  .doc = "x, and a call of the test",
                  .infer = [](const OpView& view) -> absl::StatusOr<std::vector<Type>> {
                    if (view.operands[0] == Type{F32, {}}) return std::vector<Type>{view.operands[0]};
                    return InvalidArgument("takes f32[], got {}.", view.operands[0].ToString());
                  },
                  .rule = [](const OpView& view) { return ElementwiseRule(view, Linear(Which::kAll)); },
                  .cpu =
                      [](const KernelSpec&) {
                        return Kernel{.run =
                                          [](const KernelArgs& args) {
                                            const auto call = std::exchange(CalledByTheNextStep(), nullptr);
                                            if (call) call();
                                            *args.Out<float>(0) = *args.In<float>(0);
                                          },
                                      .units = 1};
                      },
                  .samples = {"f32[]"}});
  MESHWORK_CHECK(registered.ok(), "{}", MessageOf(registered));
  return AddOp("calls_the_test", {x});
}

}  // namespace meshwork
