#include "spmd/certificate.h"

#include <functional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "gtest/gtest.h"
#include "ops/program.h"
#include "ops/text.h"
#include "spmd/compile.h"
#include "support/golden.h"

namespace meshwork {
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
  ExpectGolden("spmd/certificate.json", CertificateToJson(CertificateOf(Step())));
}

TEST(CertificateTest, OfEveryGoldenProgramHoldsAndReadsBack) {
  int count = 0;
  for (std::string_view folder : {"spmd/cases", "spmd/compile", "spmd/propagate", "spmd/insert_relayouts"}) {
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

TEST(CertificateTest, WithAnotherClaimDoesNotHold) {
  const Graph global = Step();
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

TEST(CertificateTest, ThatWasTamperedWithDoesNotHold) {
  struct Case {
    std::function<void(Certificate&)> tamper;
    std::string message;
  };
  const std::string head = "the certificate does not hold: ";
  const Case cases[] = {
      {[](Certificate& c) { c.claims[2].layout = "{batch,_}"; },
       head +
           "claim 2 says that %y is a block of %y under {batch,_}, by rule; proven is that %y is a block of "
           "%y under {batch,_ | sum:model}, by rule."},
      {[](Certificate& c) { c.claims[3].lemma = Lemma::kSlice; },
       head + "claim 3 says that %0 is a block of %y under {batch,_}, by slice; proven is that %0 is a block "
              "of %y under {batch,_}, by collective."},
      {[](Certificate& c) { c.claims[0].of = "%w"; },
       head +
           "claim 0 says that %h is a block of %w under {batch,model}, by argument; proven is that %h is a "
           "block of %h under {batch,model}, by argument."},
      {[](Certificate& c) { c.claims.pop_back(); },
       head + "it makes 5 claims; its local program has 6 values."},
      {[](Certificate& c) { c.program = "0000000000000000"; },
       head + "its local program has the fingerprint " + CertificateOf(Step()).program +
           ", not 0000000000000000."},
      {[](Certificate& c) { c.mesh = "[batch=8]"; },
       head + "its local program is on mesh [batch=2, model=4], not [batch=8]."},
      {[](Certificate& c) { Replace(&c.local, "loss=%2", "loss=%1"); },
       head + "Verify: output \"loss\" is {| sum:batch}; what is owed must be reduced first."},
      {[](Certificate& c) { Replace(&c.local, "func step", "func stop"); },
       head + "its local program has the fingerprint " + Fingerprint([] {
         Graph local = Compile(Step()).value().body;
         local.name = "stop";
         return local;
       }()) +
           ", not " + CertificateOf(Step()).program + "."},
  };
  for (const Case& c : cases) {
    Certificate certificate = CertificateOf(Step());
    c.tamper(certificate);
    const absl::Status status = CheckCertificate(Step(), certificate);
    EXPECT_EQ(MessageOf(status), c.message);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  }
}

TEST(CertificateTest, OfAnotherProgramIsBadInput) {
  const Certificate certificate = CertificateOf(Step());
  auto expect_invalid = [&](const Graph& global, const Certificate& c, const std::string& message) {
    const absl::Status status = CheckCertificate(global, c);
    EXPECT_EQ(MessageOf(status), message);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  };
  Graph other = Step();
  other.name = "other";
  expect_invalid(other, certificate,
                 fmt::format("the certificate is for the program {}; this one is {}.", certificate.global,
                             Fingerprint(other)));
  expect_invalid(ParseGraph(certificate.local).value(), certificate,
                 "\"step\" is a local program; a certificate is checked against the global one.");
  Certificate broken = certificate;
  broken.local = "mesh [batch=2]\nfunc step( {\n}\n";
  expect_invalid(Step(), broken, "local:2:12: expected %, found '{'.\n  func step( {\n             ^");
}

TEST(CertificateTest, JsonOfAnotherFormIsRefused) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "c.json:1:1: this is no JSON.\n  \n  ^"},
      {"{\"program\": \"1\",\n \"claims\" []}",
       "c.json:2:11: this is no JSON.\n   \"claims\" []}\n            ^"},
      {"[]", "c.json: it is []; it must be an object."},
      {"{}", "c.json: it has no \"program\"."},
      {R"({"progam": "1"})",
       "c.json: it has the key \"progam\"; the keys are program, global, mesh, local, claims; did you mean "
       "\"program\"?"},
      {R"({"program": 1})", "c.json: program is 1; it must be a string."},
      {R"({"program": "1", "program": "2"})", "c.json: the key \"program\" is given twice; keys are unique."},
      {R"({"program": 1e999})", "c.json: it has a number that is too large; a certificate has none."},
      {std::string(100000, '['), "c.json:1:100001: this is no JSON.\n  ..." + std::string(140, '[') + "\n" +
                                     std::string(145, ' ') + "^"},
      {std::string(100000, '[') + std::string(100000, ']'), "c.json: brackets nest more than 16 deep."},
      {R"({"program": "", "global": "", "mesh": "", "local": "", "claims": {}})",
       "c.json: claims is {}; it must be a list."},
      {R"({"program": "", "global": "", "mesh": "", "local": "", "claims": [{"value": "%0", "layout": "{}"}]})",
       "c.json: claims[0] has no \"of\"."},
      {R"({"program": "", "global": "", "mesh": "", "local": "",
           "claims": [{"value": "%0", "layout": "{}", "of": "%0", "lemma": "rules"}]})",
       "c.json: claims[0].lemma is \"rules\"; it must be one of argument, rule, collective, slice, mask, "
       "reshape."},
      {R"({"program": "", "global": "", "mesh": "", "local": "", "claims": [{"by": "rule"}]})",
       "c.json: claims[0] has the key \"by\"; the keys are value, layout, of, lemma."},
  };
  for (const auto& [text, message] : cases) {
    const absl::Status status = CertificateFromJson(text, "c.json").status();
    EXPECT_EQ(MessageOf(status), message);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace meshwork
