// A linear classifier to train in tests of sessions, its examples, and comparisons of what sessions compute.
#pragma once

#include <cstdint>
#include <string>

#include "gtest/gtest.h"
#include "meshwork.h"
#include "runtime/plan/programs.h"

namespace meshwork {

// Axes the mesh does not have shard nothing.
inline DimSpec AxisOrWhole(const Mesh& mesh, const char* name) {
  return mesh.FindAxes(name).ok() ? DimSpec(name) : DimSpec(UNSHARDED);
}

// A linear classifier: x: f64[b,3], y: i32[b] -> loss, accuracy, logits: f64[b,4]; trained by SGD.
inline Graph Classifier(const std::string& mesh_text, int64_t batch_size) {
  Graph g(Mesh::VirtualCpus(mesh_text).value());
  const DimSpec batch = AxisOrWhole(g.mesh(), "batch"), model = AxisOrWhole(g.mesh(), "model");
  Value x = g.Input("x", F64, {batch_size, 3}, {batch, UNSHARDED});
  Value y = g.Input("y", I32, {batch_size}, {batch});
  Variable w = g.Var("w", GlorotUniform({3, 4}, F64), {UNSHARDED, model});
  Variable b = g.Var("b", Zeros({4}, F64), {UNSHARDED});
  Value logits = MatMul(x, w) + b;
  Value loss = SparseSoftmaxCrossEntropy(logits, y);
  Sgd({.learning_rate = 0.5}).Minimize(loss);
  g.Output("loss", loss);
  g.Output("accuracy", Accuracy(logits, y, F64));
  g.Output("logits", logits);
  return g;
}

// The first `rows` of a fixed set of examples.
inline Feeds Examples(int64_t rows) {
  static const Tensor x = Rough(Type{F64, {12, 3}});
  static const Tensor y = Tensor::From<int32_t>({12}, {0, 3, 1, 2, 2, 0, 1, 3, 3, 0, 2, 1});
  return {{"x", x.Rows(0, rows)}, {"y", y.Rows(0, rows)}};
}

// The values of all variables of a session.
inline Tensors StateOf(const Session& session) {
  Tensors state;
  for (const std::string& name : session.variable_names()) state[name] = session.Get(name).value();
  return state;
}

inline void ExpectNear(const Tensor& a, const Tensor& b, double tolerance = 1e-12) {
  ASSERT_EQ(a.type(), b.type());
  for (int64_t i = 0; i < a.num_elements(); ++i)
    EXPECT_NEAR(a.values<double>()[i], b.values<double>()[i], tolerance);
}

inline void ExpectNear(const Tensors& a, const Tensors& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) {
    SCOPED_TRACE(name);
    ExpectNear(tensor, b.at(name));
  }
}

}  // namespace meshwork
