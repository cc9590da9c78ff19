// The builder functions, by which C++ code writes nodes. One function per op row, and composites (Softmax,
// LayerNorm, losses) written in terms of them.
//
//   Value h = Relu(MatMul(x, w) + b);      // b: [n] broadcasts against [m,n], aligned at the right
//   Value loss = SparseSoftmaxCrossEntropy(h, labels);
//
// Every function keeps the caller's source line. Mistakes are recorded in the graph (see Graph); an
// invalid operand gives an invalid result.
//
// There is a header per family; this one includes them all.
#pragma once

#include "meshwork/ops/activations.h"
#include "meshwork/ops/arithmetic.h"
#include "meshwork/ops/attention.h"
#include "meshwork/ops/cast.h"
#include "meshwork/ops/compare.h"
#include "meshwork/ops/convolution.h"
#include "meshwork/ops/experts.h"
#include "meshwork/ops/gather.h"
#include "meshwork/ops/generate.h"
#include "meshwork/ops/linalg.h"
#include "meshwork/ops/losses.h"
#include "meshwork/ops/matmul.h"
#include "meshwork/ops/matmul_q.h"
#include "meshwork/ops/norms.h"
#include "meshwork/ops/operators.h"
#include "meshwork/ops/optimizer.h"
#include "meshwork/ops/order.h"
#include "meshwork/ops/pooling.h"
#include "meshwork/ops/random.h"
#include "meshwork/ops/rearrange.h"
#include "meshwork/ops/reduce.h"
#include "meshwork/ops/sampling.h"
#include "meshwork/ops/shape.h"
#include "meshwork/ops/slicing.h"
#include "meshwork/ops/special.h"
#include "meshwork/ops/statistics.h"
#include "meshwork/ops/unary.h"
