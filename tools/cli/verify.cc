// meshwork verify.
#include <map>
#include <string>

#include "fmt/ranges.h"
#include "meshwork/base/status.h"
#include "meshwork/verify/certificate.h"
#include "tools/cli/commands.h"
#include "tools/cli/program_file.h"

namespace meshwork::tools {
namespace {

// "5 argument, 7 rule, 2 collective".
std::string CountLemmas(const Certificate& certificate) {
  std::map<Lemma, int> counts;
  for (const WrittenClaim& claim : certificate.claims) ++counts[claim.lemma];
  std::vector<std::string> parts;
  for (const auto& [lemma, count] : counts) parts.push_back(fmt::format("{} {}", count, LemmaName(lemma)));
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

absl::Status Verify(Arguments args) {
  ProgramChoice program;
  std::string certificate_file;
  FlagTable flags(
      "meshwork verify",
      "Checks that the local program in a certificate computes the program FILE, and that every claim\n"
      "of the certificate is so. None of the compiler's passes takes part.");
  AddProgram(flags, program);
  flags.Positional("CERT", "what meshwork compile --emit=certificate FILE printed", &certificate_file);
  if (const auto done = Parse(flags, args)) return *done;
  if (program.file == "-" && certificate_file == "-")
    return InvalidArgument("only one of FILE and CERT can be standard input.");
  MESHWORK_ASSIGN_OR_RETURN(const Graph global, ReadProgram(program));
  MESHWORK_ASSIGN_OR_RETURN(const std::string text, ReadText(certificate_file));
  const std::string name = NameOf(certificate_file);
  MESHWORK_ASSIGN_OR_RETURN(const Certificate certificate, CertificateFromJson(text, name));
  if (absl::Status status = CheckCertificate(global, certificate); !status.ok())
    return Annotate(status, name + ": ");
  fmt::print("{}: the local program {} computes {} on mesh {}; {} claims hold: {}.\n", name,
             certificate.program, global.name, certificate.mesh, certificate.claims.size(),
             CountLemmas(certificate));
  return absl::OkStatus();
}

}  // namespace meshwork::tools
