// Summary: the variables of a program as a table, part by part.
//
//   fmt::print("{}", Summary(g));
//
//   variable        type        layout     elements   bytes  per device
//   block
//     query/kernel  f32[64,64]  {_,model}     4,096  16,384       8,192
//     query/bias    f32[64]     {model}          64     256         128
//   4,160 elements in 2 variables that are trained: 16,640 bytes, 8,320 on a device
//   8,321 elements in 5 variables of optimizers: 33,288 bytes, 16,648 on a device
//
// A pure function; thread-safe.
#pragma once

#include <string>

#include "meshwork/ir/graph.h"

namespace meshwork {

// `graph`: as the user wrote it. The variables stand in the order of their declaration, below the first part of their
// names (NameScope). Variables that optimizers do not touch (VarOptions::trainable) are marked. Variables of
// optimizers, whose names are a weight's with a prefix, are only counted. A dim that is left to the compiler is "?",
// and counts as whole.
std::string Summary(const Graph& graph);

}  // namespace meshwork
