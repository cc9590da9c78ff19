// A certificate: what Verify proved of a compiled program, to be checked again by whoever has the program
// that was compiled, without the passes and without trust in who wrote it.
//
//   {"program": "9f2c5d0a61b7e843",          fingerprint of the local program
//    "global": "07be3a4c12d95f68",           fingerprint of the program that was compiled
//    "mesh": "[batch=2, model=4]",
//    "local": "mesh [batch=2, model=4]\nfunc …",
//    "claims": [{"value": "%0", "layout": "{batch,_ | sum:model}", "of": "%y", "lemma": "rule"}, …]}
//
// There is a claim per value of the local program, in its order: `value` is a block, as `layout` cuts it, of
// the value `of` of the global program, up to its shape, and follows by `lemma` (verify/verify.h). Of a sum
// that stands in no global program, `of` says the terms: "%p + %q", "-%p - %q". Values are called as
// PrintGraph calls them. The fingerprints say which programs are meant; they do not keep anyone from forging
// them, so nothing is believed for their sake.
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

  bool operator==(const Certificate&) const = default;
};

// REQUIRES: `proof` is Verify(global, local)'s.
Certificate MakeCertificate(const Graph& global, const Graph& local, const Proof& proof);

// Law: CertificateFromJson(CertificateToJson(c)) == c.
std::string CertificateToJson(const Certificate& certificate);
// Errors: text that is no JSON, "file:line:column: …" with the line and a caret; JSON of another form, with
// the place; a lemma that there is not.
absl::StatusOr<Certificate> CertificateFromJson(std::string_view text,
                                                std::string_view file_name = "certificate");

// Reads the local program, proves anew that it computes `global`, and compares what is claimed with the
// proof. Law: OK for MakeCertificate(global, local, proof). Errors: INVALID_ARGUMENT, `global` is a local
// program, or has recorded mistakes, or is not the one that the certificate is for; the local program cannot
// be read. FAILED_PRECONDITION, the certificate does not hold.
absl::Status CheckCertificate(const Graph& global, const Certificate& certificate);

}  // namespace meshwork
