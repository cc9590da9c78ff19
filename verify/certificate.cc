#include "meshwork/verify/certificate.h"

#include <algorithm>

#include "fmt/ranges.h"
#include "meshwork/base/json.h"
#include "meshwork/base/status.h"
#include "meshwork/base/text_error.h"
#include "meshwork/ir/local.h"
#include "meshwork/ir/program.h"
#include "meshwork/ir/text.h"
#include "meshwork/verify/check_global.h"
#include "nlohmann/json.hpp"

namespace meshwork {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kNarrowSums = "bf16";  // the one thing that "sums" may say

absl::StatusOr<Lemma> ReadLemma(const JsonReader& json) {
  MESHWORK_ASSIGN_OR_RETURN(const std::string name, json.String());
  std::vector<std::string> names;
  for (Lemma lemma : kAllLemmas) {
    if (name == LemmaName(lemma)) return lemma;
    names.emplace_back(LemmaName(lemma));
  }
  return json.Expected(fmt::format("one of {}", fmt::join(names, ", ")));
}

absl::Status ReadString(const JsonReader& json, const std::string& key, std::string* target) {
  MESHWORK_ASSIGN_OR_RETURN(const JsonReader value, json.Get(key));
  MESHWORK_ASSIGN_OR_RETURN(*target, value.String());
  return absl::OkStatus();
}

absl::StatusOr<WrittenClaim> ReadClaim(const JsonReader& json) {
  WrittenClaim claim;
  MESHWORK_RETURN_IF_ERROR(json.ExpectKeys({"value", "layout", "of", "lemma"}));
  MESHWORK_RETURN_IF_ERROR(ReadString(json, "value", &claim.value));
  MESHWORK_RETURN_IF_ERROR(ReadString(json, "layout", &claim.layout));
  MESHWORK_RETURN_IF_ERROR(ReadString(json, "of", &claim.of));
  MESHWORK_ASSIGN_OR_RETURN(const JsonReader lemma, json.Get("lemma"));
  MESHWORK_ASSIGN_OR_RETURN(claim.lemma, ReadLemma(lemma));
  return claim;
}

// "%0 is a block of %y under {batch,_} by rule".
std::string Describe(const WrittenClaim& claim) {
  return fmt::format("{} is a block of {} under {}, by {}", claim.value, claim.of, claim.layout,
                     LemmaName(claim.lemma));
}

// "%y"; "%p + %q", "-%p + %q".
std::string SumToString(const SignedValueList& sum, const std::vector<std::string>& names) {
  std::string text;
  for (const SignedValue& term : sum) {
    if (!text.empty()) text += term.is_negative ? " - " : " + ";
    else if (term.is_negative) text += "-";
    text += names[static_cast<size_t>(term.value)];
  }
  return text;
}

template <typename... Args>
absl::Status DoesNotHold(fmt::format_string<Args...> format, Args&&... args) {
  return absl::FailedPreconditionError("the certificate does not hold: " +
                                       fmt::format(format, std::forward<Args>(args)...));
}

absl::Status Compare(const Certificate& claimed, const Certificate& proven) {
  if (claimed.program != proven.program)
    return DoesNotHold("its local program has the fingerprint {}, not {}.", proven.program, claimed.program);
  if (claimed.mesh != proven.mesh)
    return DoesNotHold("its local program is on mesh {}, not {}.", proven.mesh, claimed.mesh);
  if (claimed.claims.size() != proven.claims.size())
    return DoesNotHold("it makes {} claims; its local program has {} values.", claimed.claims.size(),
                       proven.claims.size());
  for (size_t i = 0; i < claimed.claims.size(); ++i)
    if (claimed.claims[i] != proven.claims[i])
      return DoesNotHold("claim {} says that {}; proven is that {}.", i, Describe(claimed.claims[i]),
                         Describe(proven.claims[i]));
  return absl::OkStatus();
}

}  // namespace

Certificate MakeCertificate(const Graph& global, const Graph& local, const Proof& proof) {
  const std::vector<std::string> names = ValueNames(local), global_names = ValueNames(global);
  Certificate certificate{Fingerprint(local), Fingerprint(global), local.mesh().ToString(),
                          PrintGraph(local)};
  certificate.options = proof.options;
  for (size_t v = 0; v < proof.claims.size(); ++v) {
    const Claim& claim = proof.claims[v];
    certificate.claims.push_back({names[v], local.value(static_cast<ValueId>(v)).layout->ToString(),
                                  SumToString(claim.of, global_names), claim.lemma});
  }
  return certificate;
}

std::string CertificateToJson(const Certificate& certificate) {
  std::vector<std::string> claims;  // a line each
  for (const WrittenClaim& claim : certificate.claims)
    claims.push_back(fmt::format(R"(    {{"value": {}, "layout": {}, "of": {}, "lemma": "{}"}})",
                                 Json(claim.value).dump(), Json(claim.layout).dump(), Json(claim.of).dump(),
                                 LemmaName(claim.lemma)));
  return fmt::format(
      "{{\n  \"program\": {},\n  \"global\": {},\n  \"mesh\": {},\n{}  \"local\": {},\n  \"claims\": [\n{}\n  "
      "]\n}}\n",
      Json(certificate.program).dump(), Json(certificate.global).dump(), Json(certificate.mesh).dump(),
      certificate.options.narrow_sums ? fmt::format("  \"sums\": \"{}\",\n", kNarrowSums) : "",
      Json(certificate.local).dump(), fmt::join(claims, ",\n"));
}

absl::StatusOr<Certificate> CertificateFromJson(std::string_view text, std::string_view file_name) {
  MESHWORK_ASSIGN_OR_RETURN(const Json document, ParseJson(text, file_name));
  const JsonReader json(document, std::string(file_name));
  Certificate certificate;
  MESHWORK_RETURN_IF_ERROR(json.ExpectKeys({"program", "global", "mesh", "sums", "local", "claims"}));
  MESHWORK_RETURN_IF_ERROR(ReadString(json, "program", &certificate.program));
  MESHWORK_RETURN_IF_ERROR(ReadString(json, "global", &certificate.global));
  MESHWORK_RETURN_IF_ERROR(ReadString(json, "mesh", &certificate.mesh));
  MESHWORK_RETURN_IF_ERROR(ReadString(json, "local", &certificate.local));
  if (json.Has("sums")) {
    MESHWORK_ASSIGN_OR_RETURN(const JsonReader sums, json.Get("sums"));
    MESHWORK_ASSIGN_OR_RETURN(const std::string dtype, sums.String());
    if (dtype != kNarrowSums) return sums.Expected(fmt::format("\"{}\", or left out", kNarrowSums));
    certificate.options.narrow_sums = true;
  }
  MESHWORK_ASSIGN_OR_RETURN(const JsonReader claims, json.Get("claims"));
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<JsonReader> items, claims.Items());
  for (const JsonReader& item : items) {
    MESHWORK_ASSIGN_OR_RETURN(certificate.claims.emplace_back(), ReadClaim(item));
  }
  return certificate;
}

absl::Status CheckCertificate(const Graph& global, const Certificate& certificate) {
  return ReadCertified(global, certificate).status();
}

absl::StatusOr<Graph> ReadCertified(const Graph& global, const Certificate& certificate) {
  MESHWORK_RETURN_IF_ERROR(global.status());
  if (IsLocal(global))
    return InvalidArgument("\"{}\" is a local program; a certificate is checked against the global one.",
                           global.name);
  MESHWORK_RETURN_IF_ERROR(CheckGlobal(global));
  if (const std::string fingerprint = Fingerprint(global); certificate.global != fingerprint)
    return InvalidArgument("the certificate is for the program {}; this one is {}.", certificate.global,
                           fingerprint);
  MESHWORK_ASSIGN_OR_RETURN(Graph local, ParseGraph(certificate.local, "local"));
  const absl::StatusOr<Proof> proof = Verify(global, local, certificate.options);
  if (!proof.ok()) return DoesNotHold("{}", MessageOf(proof.status()));
  MESHWORK_RETURN_IF_ERROR(Compare(certificate, MakeCertificate(global, local, *proof)));
  return local;
}

}  // namespace meshwork
