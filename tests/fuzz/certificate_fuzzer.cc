// A libFuzzer target: any text, read as a certificate, gives an error or a certificate that is read back
// unchanged; checking the certificate gives an answer. If the check accepts it, Verify proves the claim, too.
//
// --prepare writes the initial corpus: certificates of the programs below.
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>

#include "fuzz/fuzzer.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/program.h"
#include "meshwork/ir/text.h"
#include "meshwork/spmd/compile.h"
#include "meshwork/verify/certificate.h"

namespace meshwork {
namespace {

constexpr std::string_view kPrograms[] = {
    R"(mesh [batch=2, model=4]
func step(%h: f32[8,12] {batch,model}, var %w: f32[12,4] {model,_}) {
  %y = matmul %h, %w : f32[8,4] {batch,_}
  %loss = reduce_sum %y dims=[0,1]
  %new = add %w, %w
  update %w = %new
  return y=%y, loss=%loss
}
)",
    // Uneven dims: masks; layouts that need each collective.
    R"(mesh [x=2, y=3]
func uneven(%a: f32[7,9] {x,y}, %b: f32[9,5] {x,_}) {
  %0 = reduce_max %a dims=[1]
  %1 = matmul %a, %b : f32[7,5] {_,(x,y)}
  %2 = relayout %a {y,x}
  %3 = reduce_max %1 dims=[1]
  return %0, %1, %2, %3
}
)",
    // Strided dims: reshapes.
    R"(mesh [x=2]
func strided(%a: f32[16] {8@x*2}) {
  %0 = relayout %a {x}
  %1 = reshape %0 shape=[4,4]
  return %0, %1
}
)",
    // An axis that the compiler cuts.
    R"(mesh [x=4]
func cut(%a: f32[8] {x}) {
  %0 = reshape %a shape=[2,4]
  return %0
}
)",
    // A sum that is added up in another order.
    R"(mesh [x=2]
func regrouped(%a: f32[4,8] {_,x}, %b: f32[8,4] {x,_}, %c: f32[4,8] {_,x}, %d: f32[8,4] {x,_}, %r: f32[4,4]) {
  %p = matmul %a, %b
  %q = matmul %c, %d
  %0 = sub %r, %p
  %1 = sub %0, %q : f32[4,4] {_,_}
  return %1
}
)"};

absl::StatusOr<Proof> ProofOf(const Graph& global, const Graph& local) { return Verify(global, local); }

struct Sample {
  Graph global;
  Certificate certificate;
};

// Keyed by the fingerprint of the global program.
const std::map<std::string, Sample>& Samples() {
  static const auto* samples = [] {
    auto* all = new std::map<std::string, Sample>;
    for (std::string_view text : kPrograms) {
      Graph global = ParseGraph(text).value();
      const Graph local = Compile(global).value().body;
      Certificate certificate = MakeCertificate(global, local, ProofOf(global, local).value());
      const std::string fingerprint = certificate.global;
      all->emplace(fingerprint, Sample{std::move(global), std::move(certificate)});
    }
    return all;
  }();
  return *samples;
}

}  // namespace

void Try(std::string_view text) {
  const absl::StatusOr<Certificate> certificate = CertificateFromJson(text);
  if (!certificate.ok()) {
    if (!MessageOf(certificate.status()).starts_with("certificate:"))
      Finding("an error that does not say where", MessageOf(certificate.status()));
    return;
  }
  const std::string printed = CertificateToJson(*certificate);
  const absl::StatusOr<Certificate> again = CertificateFromJson(printed);
  if (!again.ok() || *again != *certificate) Finding("a certificate reads back as another", printed);

  const auto sample = Samples().find(certificate->global);
  const Graph& global = sample == Samples().end() ? Samples().begin()->second.global : sample->second.global;
  if (!CheckCertificate(global, *certificate).ok()) return;
  const Graph local = ParseGraph(certificate->local).value();
  const absl::StatusOr<Proof> proof = ProofOf(global, local);
  if (!proof.ok() || MakeCertificate(global, local, *proof).claims != certificate->claims)
    Finding("what does not hold is accepted", printed);
}

void Prepare(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder / "samples");
  for (const auto& [fingerprint, sample] : Samples())
    std::ofstream(folder / "samples" / (sample.global.name + ".json"))
        << CertificateToJson(sample.certificate);
}

}  // namespace meshwork
