// Sessions on another backend compute the same as sessions on the CPU: what any backend is tried by.
//
//   TEST(CudaSessionTest, TrainsAndEvaluatesAsOnTheCpu) {
//     TryTraining([&](const Graph& graph, SessionOptions options) { return OnGpu(gpu, graph, std::move(options)); });
//   }
#pragma once

#include <functional>

#include "meshwork.h"

namespace meshwork {

// A session on the backend that is tried, whose memory is not that of the process.
using MakeSession = std::function<Session(const Graph& graph, SessionOptions options)>;

// Steps, the last one of fewer rows; metrics, evaluation, predictions of more rows, undoing.
void TryTraining(const MakeSession& make);
// The host computes initial values that need linear algebra, the backend the others. The bits are those of the CPU.
void TryInitialValues(const MakeSession& make);
// Values of variables, whole and in shards.
void TryReadingAndSetting(const MakeSession& make);
// Saved by one and restored by the other, on another mesh.
void TryCheckpoints(const MakeSession& make);
void TryRemesh(const MakeSession& make);
// Feeds are a host tensor that is written between steps, and a tensor in the backend's memory.
void TryBinding(const MakeSession& make);
// A callback keeps a copy of the variables and puts it back.
void TryFit(const MakeSession& make);

}  // namespace meshwork
