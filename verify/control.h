// The lemma of Verify for nodes with bodies: loops, branches, manual regions.
//
//   %h1 = scan %h0, %w length=8 (var %h, %v) { … }
//
// Its body computes what the body of a scan of the global program does, of the same values, and %h lies alike
// before and after each iteration. Bodies are proven by Verify itself, which the caller hands in. Thread-safe
// for different Claims.
#pragma once

#include <cstddef>
#include <functional>

#include "absl/status/status.h"
#include "meshwork/ir/graph.h"
#include "meshwork/layout/layout.h"
#include "meshwork/verify/claims.h"

namespace meshwork {

// For the body of a loop: whether output `output` may owe `owed` when the iteration is over. kAnyCarry:
// whether a carry may.
using BodyMayOwe = std::function<bool(size_t output, const PartialSet& owed)>;
inline constexpr size_t kAnyCarry = static_cast<size_t>(-1);

// Proves that body `local` computes what body `global` does.
using VerifyBody = std::function<absl::Status(const Graph& global, const Graph& local,
                                              const VerifyOptions& options, const BodyMayOwe& may_owe)>;

// Proves that the results of `node` are those of a loop, a branch or a manual region of the global program,
// on the same values, whose bodies compute the same: by induction over the iterations, for a carry lies alike
// before and after each. Sets their claims. Errors: the global program has no such node; the bodies differ;
// their arguments and results do not lie as the node's do. The caller puts the node in front.
absl::Status CheckControl(Claims& claims, const Node& node, const VerifyBody& verify_body);

}  // namespace meshwork
