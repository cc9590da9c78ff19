// Two layers that several domains train, on other examples in each step.
#pragma once

#include <cstdint>
#include <string_view>

#include "meshwork.h"
#include "runtime/plan/programs.h"

namespace meshwork {

inline constexpr int64_t kExamples = 12;

// x: f32[b,6], y: i32[b] -> loss, over a hidden dim of 7, by Adam; on a mesh of `batch`, `model` or both.
inline Graph SmallNetwork(std::string_view mesh) {
  Graph g(Mesh::VirtualCpus(mesh).value());
  const auto axis = [&](const char* name) {
    return g.mesh().FindAxes(name).ok() ? DimSpec(name) : DimSpec(UNSHARDED);
  };
  Value x = g.Input("x", F32, {kExamples, 6}, {axis("batch"), UNSHARDED});
  Value y = g.Input("y", I32, {kExamples}, {axis("batch")});
  Variable w = g.Var("w", GlorotUniform({6, 7}), {UNSHARDED, axis("model")});
  Variable v = g.Var("v", GlorotUniform({7, 4}), {axis("model"), UNSHARDED});
  Value loss = SparseSoftmaxCrossEntropy(MatMul(Relu(MatMul(x, w)), v), y);
  Adam({.learning_rate = 0.05}).Minimize(loss);
  g.Output("loss", loss);
  return g;
}

inline Feeds SmallFeeds(int64_t step) {
  Tensor x = Rough(Type{F32, {kExamples, 6}}), y({I32, {kExamples}});
  for (float& number : x.mutable_values<float>()) number += 0.1f * static_cast<float>(step);
  for (int64_t i = 0; i < kExamples; ++i)
    y.mutable_values<int32_t>()[i] = static_cast<int32_t>((i + step) % 4);
  return {{"x", x}, {"y", y}};
}

struct SmallOptions {
  bool zero = false;  // optimizer state in blocks (ZeRO stage 1)
  bool overlap = true, atomic = true;
  int workers = 1;
};

inline absl::StatusOr<Session> SmallSession(std::string_view mesh, Transport* transport,
                                            const SmallOptions& of = {}) {
  SessionOptions options{.workers = of.workers, .own_cores = false};
  options.compile.shard_weight_update = of.zero;
  options.executor.overlap = of.overlap;
  options.executor.poison_padding = options.executor.check_replicas = true;
  options.executor.atomic = of.atomic;
  options.executor.transport = transport;
  return Session::Create(SmallNetwork(mesh), options);
}

}  // namespace meshwork
