// The one header most users include.
#pragma once

#include "layout/layout.h"
#include "mesh/mesh.h"
#include "ops/gradients.h"
#include "ops/graph.h"
#include "ops/ops.h"
#include "ops/program.h"
#include "ops/text.h"
#include "runtime/tensor.h"
#include "spmd/compile.h"
