// A certificate states what Verify proved about a compiled program. Anyone who has the global program can
// check it again, without the passes and without trust in its writer.
//
//   {"program": "9f2c5d0a61b7e843",          fingerprint of the local program
//    "global": "07be3a4c12d95f68",           fingerprint of the program that was compiled
//    "mesh": "[batch=2, model=4]",
//    "local": "mesh [batch=2, model=4]\nfunc …",
//    "claims": [{"value": "%0", "layout": "{batch,_ | sum:model}", "of": "%y", "lemma": "rule"}, …]}
//
// There is one claim per value of the local program, in its order: `value` is a block, as `layout` cuts it,
// of the value `of` of the global program, up to its shape. The claim follows by `lemma` (verify/verify.h).
// If sums of bf16 have terms of bf16 (VerifyOptions::narrow_sums), the certificate says so: "sums": "bf16".
// For a sum that is no value of the global program, `of` lists the terms: "%p + %q", "-%p - %q". Values are
// named as PrintGraph names them. The fingerprints say which programs are meant; they can be forged, so they
// prove nothing.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/ir/graph.h"
#include "meshwork/verify/verify.h"

namespace meshwork {

struct WrittenClaim {
  std::string value, layout, of;
  Lemma lemma = Lemma::kArgument;

  bool operator==(const WrittenClaim&) const = default;
};

struct Certificate {
  std::string program, global, mesh, local;
  std::vector<WrittenClaim> claims;
  VerifyOptions options = {};

  bool operator==(const Certificate&) const = default;
};

// REQUIRES: `proof` is Verify(global, local)'s.
Certificate MakeCertificate(const Graph& global, const Graph& local, const Proof& proof);

// Law: CertificateFromJson(CertificateToJson(c)) == c.
std::string CertificateToJson(const Certificate& certificate);
// Errors: text that is no JSON, "file:line:column: …" with the line and a caret; JSON of another form, with
// the place; an unknown lemma.
absl::StatusOr<Certificate> CertificateFromJson(std::string_view text,
                                                std::string_view file_name = "certificate");

// Reads the local program, proves again that it computes `global`, and compares the claims with the proof.
// Law: OK for MakeCertificate(global, local, proof). Errors: INVALID_ARGUMENT, `global` is a local program,
// or has recorded mistakes, or is not the program that the certificate is for; the local program cannot be
// read. FAILED_PRECONDITION, the certificate does not hold.
absl::Status CheckCertificate(const Graph& global, const Certificate& certificate);
// The same, and returns the local program.
absl::StatusOr<Graph> ReadCertified(const Graph& global, const Certificate& certificate);

}  // namespace meshwork
