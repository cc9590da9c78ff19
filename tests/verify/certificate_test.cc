#include "meshwork/verify/certificate.h"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/program.h"
#include "meshwork/ir/text.h"
#include "meshwork/spmd/compile.h"
#include "support/golden.h"

namespace meshwork::certificate_test {
namespace {

constexpr std::string_view kStep = R"(mesh [batch=2, model=4]
func step(%h: f32[128,700] {batch,model}, var %w: f32[700,500] {model,_}) {
  %y = matmul %h, %w : f32[128,500] {batch,_}
  %0 = reduce_sum %y dims=[0,1]
  update %w = %w
  return y=%y, loss=%0
}
)";

Graph Step() { return ParseGraph(kStep).value(); }

Certificate CertificateOf(const Graph& global) {
  const Graph local = Compile(global).value().body;
  return MakeCertificate(global, local, Verify(global, local).value());
}

void Replace(std::string* text, std::string_view from, std::string_view to) {
  const size_t at = text->find(from);
  ASSERT_NE(at, std::string::npos) << from;
  text->replace(at, from.size(), to);
}

TEST(CertificateTest, SaysWhatIsProven) {
  ExpectGolden("verify/certificate.json", CertificateToJson(CertificateOf(Step())));
}

TEST(CertificateTest, OfEveryGoldenProgramHoldsAndReadsBack) {
  int count = 0;
  for (std::string_view folder :
       {"spmd/cases", "spmd/regroup_sums", "spmd/compile", "spmd/propagate", "spmd/insert_relayouts"}) {
    for (const std::string& file : GoldenFiles(folder)) {
      SCOPED_TRACE(file);
      const std::string text = ReadGolden(file);
      const Graph global = ParseGraph(text.substr(0, text.find("----\n"))).value();
      const Certificate certificate = CertificateOf(global);
      EXPECT_EQ(CheckCertificate(global, certificate), absl::OkStatus());
      EXPECT_EQ(CertificateFromJson(CertificateToJson(certificate)).value(), certificate);
      ++count;
    }
  }
  EXPECT_GE(count, 40);
}

// A sum that is no value of the program, with a negative term.
constexpr std::string_view kSums = R"(mesh [x=2]
func step(%a: f32[4,8] {_,x}, %b: f32[8,4] {x,_}, %c: f32[4,8] {_,x}, %d: f32[8,4] {x,_}, %r: f32[4,4]) {
  %p = matmul %a, %b
  %q = matmul %c, %d
  %0 = sub %r, %p
  %1 = add %0, %q : f32[4,4] {_,_}
  return y=%1
}
)";

TEST(CertificateTest, NamesTheTermsOfASumThatIsNoValueOfTheProgram) {
  std::vector<std::string> sums;
  for (const WrittenClaim& claim : CertificateOf(ParseGraph(kSums).value()).claims)
    if (claim.lemma == Lemma::kSum) sums.push_back(claim.layout + " " + claim.of);
  EXPECT_EQ(sums, (std::vector<std::string>{"{_,_ | sum:x} %q - %p", "{_,_} %1"}));
}

void ExpectNoOtherClaimHolds(const Graph& global) {
  const Certificate certificate = CertificateOf(global);
  for (size_t i = 0; i < certificate.claims.size(); ++i) {
    auto expect_rejected = [&](const std::function<void(WrittenClaim&)>& change) {
      Certificate changed = certificate;
      change(changed.claims[i]);
      if (changed == certificate) return;
      EXPECT_EQ(CheckCertificate(global, changed).code(), absl::StatusCode::kFailedPrecondition);
    };
    for (Lemma lemma : kAllLemmas) expect_rejected([&](WrittenClaim& claim) { claim.lemma = lemma; });
    for (const WrittenClaim& other : certificate.claims) {
      expect_rejected([&](WrittenClaim& claim) { claim.value = other.value; });
      expect_rejected([&](WrittenClaim& claim) { claim.layout = other.layout; });
      expect_rejected([&](WrittenClaim& claim) { claim.of = other.of; });
    }
  }
}

TEST(CertificateTest, WithAnotherClaimDoesNotHold) {
  ExpectNoOtherClaimHolds(Step());
  ExpectNoOtherClaimHolds(ParseGraph(kSums).value());
}

TEST(CertificateTest, WithAnotherProgramDoesNotHoldOrIsBadInput) {
  const Certificate certificate = CertificateOf(Step());
  Certificate tampered = certificate;
  Replace(&tampered.local, "loss=%2", "loss=%1");
  EXPECT_EQ(CheckCertificate(Step(), tampered).code(), absl::StatusCode::kFailedPrecondition);
  tampered = certificate;
  Replace(&tampered.local, "func", "fun");
  EXPECT_EQ(CheckCertificate(Step(), tampered).code(), absl::StatusCode::kInvalidArgument);
  Graph other = Step();
  other.name = "other";
  EXPECT_EQ(CheckCertificate(other, certificate).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace meshwork::certificate_test
