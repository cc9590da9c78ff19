// What a program needs that describes a computation and runs it: meshes, layouts, graphs and their gradients, ops,
// Compile, tensors and their files, Session.
//
//   #include "meshwork/core.h"
//
// train.h adds what trains a model; meshwork.h also has strategies, parameter servers and reports.
#pragma once

#include "meshwork/base/log.h"
#include "meshwork/base/random.h"
#include "meshwork/base/status.h"
#include "meshwork/base/version.h"
#include "meshwork/ir/gradients.h"
#include "meshwork/ir/graph.h"
#include "meshwork/ir/name_scope.h"
#include "meshwork/ir/plan/explain.h"
#include "meshwork/ir/program.h"
#include "meshwork/ir/text.h"
#include "meshwork/layout/layout.h"
#include "meshwork/mesh/mesh.h"
#include "meshwork/ops/control/control_flow.h"
#include "meshwork/ops/control/manual.h"
#include "meshwork/ops/ops.h"
#include "meshwork/runtime/tensor/dlpack.h"
#include "meshwork/runtime/tensor/quantized.h"
#include "meshwork/runtime/tensor/tensor.h"
#include "meshwork/runtime/tensor/tensor_compare.h"
#include "meshwork/runtime/tensor/tensor_text.h"
#include "meshwork/session/load_weights.h"
#include "meshwork/session/quantize_weights.h"
#include "meshwork/session/save_weights.h"
#include "meshwork/session/saved/saved_program.h"
#include "meshwork/session/session.h"
#include "meshwork/spmd/compile.h"
#include "meshwork/storage/npy.h"
#include "meshwork/storage/safetensors.h"
