// The local program in an order in which data crosses between domains while they compute.
//
// The compiler joins the sums of all gradients into one collective, behind the last gradient. Between domains, the data
// of the first gradients can cross while the others are computed:
//
//   %g2 = matmul …                                  %g2 = matmul …
//   %g1 = matmul …                                  %g1 = matmul …
//   %s2, %s1 = all_reduce %g2, %g1          ->      %s2 = all_reduce %g2       // starts behind %g2
//   %w2 = sub %old2, %s2                            %w2 = sub %old2, %s2
//   %w1 = sub %old1, %s1                            %s1 = all_reduce %g1       // starts behind %g1
//                                                   %w1 = sub %old1, %s1
//
// A collective stands where its result is first read, and is waited for there. It starts as soon as its operands are
// there (BuildStepPlan). Updates follow their sums (Arrange). PyTorch's DistributedDataParallel overlaps gradients in
// this way (Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel Training", VLDB 2020, section
// 3.2.3).
//
// Pure functions, thread-safe.
#pragma once

#include <cstdint>

#include "meshwork/ir/graph.h"

namespace meshwork {

// `local` with every collective of several values over the axes `across` cut into buckets of at least `bucket_bytes`
// bytes each; the first bucket has the values that are computed first. Every such collective is moved down to the first
// reader of its results or of those of a later bucket, or to the end if there is none. All other nodes stay in order;
// the values are the same.
// REQUIRES: CheckLocalProgram(local).
Graph Overlap(const Graph& local, AxisSet across, int64_t bucket_bytes);

// The most bytes of operands, or of results, of one collective across domains, in bodies, too.
int64_t MostBytesAcross(const Graph& local, AxisSet across);

}  // namespace meshwork
