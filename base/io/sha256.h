// SHA-256 (FIPS 180-4): the hash that tells whether a file is what was written.
//
//   Sha256 hash;
//   hash.Update(std::as_bytes(std::span(text)));
//   hash.Hex()                       // "ba7816bf 8f01cfea …" without the spaces
//   Sha256OfFile("w.safetensors")    // of a file, which never lies in memory whole
//
// Thread safety: a Sha256 is used by one thread at a time; Sha256OfFile may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"

namespace meshwork {

class InputFile;  // base/io/file.h

class Sha256 {
 public:
  Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  ~Sha256();

  // Law: however the bytes are cut into updates, the hash is the same.
  void Update(std::span<const std::byte> bytes);
  // The hash of all bytes so far, 64 lower-case hexadecimal digits. More may follow.
  std::string Hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The hash of a regular file, read in blocks; calls `progress`, if there is one, with the bytes of each. Errors: those
// of InputFile (base/io/file.h).
absl::StatusOr<std::string> Sha256OfFile(const std::string& path,
                                         const std::function<void(int64_t bytes)>& progress = {});
absl::StatusOr<std::string> Sha256OfFile(const InputFile& file,
                                         const std::function<void(int64_t bytes)>& progress = {});

}  // namespace meshwork
