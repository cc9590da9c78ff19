// Random programs that compute a loss, its gradients and new values of variables, in f64.
//
//   RandomProgram p = DrawTraining(/*seed=*/7);  // the same in every run
//   Interpret(p.graph, p.feeds)
//
// 5 to 40 ops on tensors of odd sizes, dims smaller than their axes among them: elementwise ops with
// broadcasting, matmuls, reductions, moves of elements, lookups, random numbers, comparisons, and composites;
// inputs, variables and results in between are pinned anyhow, and relaid now and then. In most programs a
// loss follows from some of the values, and then its gradients, or an optimizer's updates, and ops that read
// a variable after its update. Outputs are "loss" and "gradient/x", the slope of the loss by argument %x.
//
// The program is computed while it is drawn. So every op gets numbers for which it is smooth – none near a
// corner, a tie or a pole –, and numbers stay small: rounding changes the result by about the precision of
// f64, on one device as on many, and a tolerance can be tight. RandomPrograms (random_program.h) has the
// other element types, and every row.
#pragma once

#include <cstdint>

#include "support/program_drawer.h"

namespace meshwork {

RandomProgram DrawTraining(uint64_t seed);
// With one to three loops or branches, and loops in those, and fewer other ops. Gradients go through scans
// and ifs. A while is left out where gradients are computed; in other programs gradients stop at it.
RandomProgram DrawLoopTraining(uint64_t seed);

}  // namespace meshwork
