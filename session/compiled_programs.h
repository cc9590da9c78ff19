// Programs that were compiled before, perhaps by another process (session/saved/saved_program.h). A session takes them
// and does not compile.
//
// Thread safety: const functions may be called concurrently.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "meshwork/ir/graph.h"
#include "meshwork/ir/program.h"

namespace meshwork {

class CompiledPrograms {
 public:
  // REQUIRES: `program` computes the global program of this fingerprint (verify/certificate.h).
  void Add(const std::string& fingerprint, Program program) {
    programs_.insert_or_assign(fingerprint, std::move(program));
  }
  // The program that `global` was compiled to for so many domains; null: there is none.
  const Program* Find(const Graph& global, int64_t num_domains) const {
    const auto found = programs_.find(Fingerprint(global));
    return found != programs_.end() && found->second.num_domains == num_domains ? &found->second : nullptr;
  }

 private:
  std::map<std::string, Program> programs_;  // by the fingerprint of the global program
};

}  // namespace meshwork
