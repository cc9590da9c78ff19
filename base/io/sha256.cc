#include "meshwork/base/io/sha256.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "meshwork/base/io/file.h"
#include "meshwork/base/status.h"

namespace meshwork {
namespace {

constexpr int64_t kHashedBlock = int64_t{1} << 20;

struct FreeDigest {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
using Digest = std::unique_ptr<EVP_MD_CTX, FreeDigest>;

Digest NewDigest() {
  Digest digest(EVP_MD_CTX_new());
  MESHWORK_CHECK(digest != nullptr, "OpenSSL has no memory");
  return digest;
}

}  // namespace

struct Sha256::State {
  Digest digest = NewDigest();
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  MESHWORK_CHECK(EVP_DigestInit_ex(state_->digest.get(), EVP_sha256(), nullptr) == 1,
                 "OpenSSL has no SHA-256");
}

Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;
Sha256::~Sha256() = default;

void Sha256::Update(std::span<const std::byte> bytes) {
  MESHWORK_CHECK(EVP_DigestUpdate(state_->digest.get(), bytes.data(), bytes.size()) == 1);
}

std::string Sha256::Hex() const {
  const Digest copy = NewDigest();
  MESHWORK_CHECK(EVP_MD_CTX_copy_ex(copy.get(), state_->digest.get()) == 1);
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash;
  unsigned int size = 0;
  MESHWORK_CHECK(EVP_DigestFinal_ex(copy.get(), hash.data(), &size) == 1);
  std::string hex;
  for (unsigned int i = 0; i < size; ++i) hex += fmt::format("{:02x}", hash[i]);
  return hex;
}

absl::StatusOr<std::string> Sha256OfFile(const std::string& path,
                                         const std::function<void(int64_t bytes)>& progress) {
  MESHWORK_ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path));
  return Sha256OfFile(file, progress);
}

absl::StatusOr<std::string> Sha256OfFile(const InputFile& file,
                                         const std::function<void(int64_t bytes)>& progress) {
  Sha256 hash;
  std::vector<std::byte> block(static_cast<size_t>(std::min(kHashedBlock, file.size())));
  for (int64_t begin = 0; begin < file.size(); begin += kHashedBlock) {
    const auto part =
        std::span(block).first(static_cast<size_t>(std::min(kHashedBlock, file.size() - begin)));
    MESHWORK_RETURN_IF_ERROR(file.ReadAt(begin, part));
    hash.Update(part);
    if (progress) progress(std::ssize(part));
  }
  return hash.Hex();
}

}  // namespace meshwork
