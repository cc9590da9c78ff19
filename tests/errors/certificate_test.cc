// What is refused of certificates.
#include "meshwork/verify/certificate.h"

#include <functional>
#include <string>
#include <vector>

#include "errors/errors.h"
#include "gtest/gtest.h"
#include "meshwork/ir/text.h"
#include "meshwork/spmd/compile.h"

namespace meshwork::certificate_test {
namespace {

Graph Step() {
  return ParseGraph(R"(mesh [batch=2, model=4]
func step(%h: f32[128,700] {batch,model}, var %w: f32[700,500] {model,_}) {
  %y = matmul %h, %w : f32[128,500] {batch,_}
  %0 = reduce_sum %y dims=[0,1]
  update %w = %w
  return y=%y, loss=%0
}
)")
      .value();
}

Certificate CertificateOf(const Graph& global) {
  const Graph local = Compile(global).value().body;
  return MakeCertificate(global, local, Verify(global, local).value());
}

absl::Status Tampered(const std::function<void(Certificate&)>& tamper) {
  Certificate certificate = CertificateOf(Step());
  tamper(certificate);
  return CheckCertificate(Step(), certificate);
}

// Checks the certificate with another text in the place of `text` in the local program.
absl::Status With(std::string_view text, std::string_view other) {
  return Tampered([&](Certificate& c) { c.local.replace(c.local.find(text), text.size(), other); });
}

TEST(CertificateErrors, WhatDoesNotHold) {
  Graph other = Step();
  other.name = "other";
  ExpectErrors("certificate",
               {
                   MISTAKE(Tampered([](Certificate& c) { c.claims[2].layout = "{batch,_}"; })),
                   MISTAKE(Tampered([](Certificate& c) { c.claims[3].lemma = Lemma::kSlice; })),
                   MISTAKE(Tampered([](Certificate& c) { c.claims[0].of = "%w"; })),
                   MISTAKE(Tampered([](Certificate& c) { c.claims.pop_back(); })),
                   MISTAKE(Tampered([](Certificate& c) { c.program = "0000000000000000"; })),
                   MISTAKE(Tampered([](Certificate& c) { c.mesh = "[batch=8]"; })),
                   MISTAKE(With("loss=%2", "loss=%1")),
                   MISTAKE(With("func step", "func stop")),
                   MISTAKE(With("axes=(model) op=sum", "axes=(model) op=max")),
                   MISTAKE(With("f32[64,175] of", "")),
                   MISTAKE(CheckCertificate(other, CertificateOf(Step()))),
                   MISTAKE(CheckCertificate(Compile(Step()).value().body, CertificateOf(Step()))),
               });
}

TEST(CertificateErrors, WhatIsNone) {
  const std::string head = R"({"program": "", "global": "", "mesh": "", "local": "", "claims": )";
  std::vector<Mistake> mistakes;
  for (const std::string& text : std::vector<std::string>{
           "", "{\"program\": \"1\",\n \"claims\" []}", "[]", "{}", R"({"progam": "1"})", R"({"program": 1})",
           R"({"program": "1", "program": "2"})", R"({"program": 1e999})", head + "{}}", head + "[7]}",
           head + R"([{"value": "%0", "layout": "{}"}]})",
           head + R"([{"value": "%0", "layout": "{}", "of": "%0", "lemma": "rules"}]})",
           R"({"program": "", "global": "", "mesh": "", "sums": "f16", "local": "", "claims": []})",
           head + R"([{"by": "rule"}]})"})
    mistakes.push_back({text, [=] { return CertificateFromJson(text, "step.json"); }});
  mistakes.push_back({"a deep list", [] {
                        return CertificateFromJson(std::string(100000, '[') + std::string(100000, ']'));
                      }});
  mistakes.push_back(
      {"a deep list without its end", [] { return CertificateFromJson(std::string(100000, '[')); }});
  ExpectErrors("certificate_json", mistakes);
}

}  // namespace
}  // namespace meshwork::certificate_test
