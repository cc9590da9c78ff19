#include "meshwork/base/io/sha256.h"

#include <string>
#include <string_view>
#include <utility>

#include "support/temp_dir.h"

namespace meshwork::sha256_test {
namespace {

using Sha256Test = TempDirTest;

std::string Sha256InParts(std::string_view text, size_t part) {
  Sha256 hash;
  for (; !text.empty(); text.remove_prefix(std::min(part, text.size())))
    hash.Update(std::as_bytes(std::span(text.substr(0, part))));
  return hash.Hex();
}

struct Sha256Vector {
  std::string text, hash;
};

// FIPS 180-2, appendix B; the empty text is of NIST's CAVP, SHA256ShortMsg.
std::vector<Sha256Vector> NistVectors() {
  return {
      {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
      {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
       "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
      {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopq"
       "rstnopqrstu",
       "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
      {std::string(1'000'000, 'a'), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
  };
}

TEST_F(Sha256Test, IsTheStandardsHashHoweverTheTextIsCut) {
  for (const auto& [text, hash] : NistVectors())
    for (size_t part : {size_t{1}, size_t{7}, size_t{64}, size_t{65536}, text.size() + 1})
      EXPECT_EQ(Sha256InParts(text, part), hash) << text.substr(0, 20) << " in parts of " << part;
}

TEST_F(Sha256Test, HashesFiles) {
  for (const auto& [text, hash] : NistVectors()) EXPECT_EQ(Sha256OfFile(File("f", text)).value(), hash);
  // One block of the reader exactly, and several blocks and one byte.
  for (size_t size : {size_t{1} << 20, (size_t{3} << 20) + 1}) {
    std::string text;
    for (size_t i = 0; i < size; ++i) text += static_cast<char>(i * 7 + i / 256);
    EXPECT_EQ(Sha256OfFile(File("f", text)).value(), Sha256InParts(text, size));
  }
}

TEST_F(Sha256Test, GoesOnAfterItWasAskedOrMoved) {
  Sha256 hash;
  hash.Update(std::as_bytes(std::span("a", 1)));
  EXPECT_EQ(hash.Hex(), hash.Hex());
  Sha256 moved = std::move(hash);
  moved.Update(std::as_bytes(std::span("bc", 2)));
  EXPECT_EQ(moved.Hex(), NistVectors()[1].hash);
}

}  // namespace
}  // namespace meshwork::sha256_test
