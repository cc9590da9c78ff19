#include "meshwork/base/crc32c.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace meshwork::crc32c_test {
namespace {

std::span<const std::byte> BytesOf(std::string_view text) { return std::as_bytes(std::span(text)); }

// Bit by bit, as the standard defines it.
uint32_t ByBits(std::span<const std::byte> bytes) {
  uint32_t crc = 0xffffffff;
  for (std::byte b : bytes) {
    crc ^= static_cast<uint32_t>(b);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0);
  }
  return ~crc;
}

// RFC 3720, appendix B.4.
TEST(Crc32cTest, GivesTheVectorsOfTheStandard) {
  std::string up, down;
  for (int i = 0; i < 32; ++i) {
    up += static_cast<char>(i);
    down += static_cast<char>(31 - i);
  }
  std::string read(48, '\0');  // an iSCSI READ (10) command
  read[0] = 0x01, read[1] = static_cast<char>(0xc0), read[16] = 0x14, read[22] = 0x04, read[27] = 0x14;
  read[31] = 0x18, read[32] = 0x28, read[40] = 0x02;
  const std::pair<std::string, uint32_t> vectors[] = {{std::string(32, '\0'), 0x8a9136aa},
                                                      {std::string(32, '\xff'), 0x62a8ab43},
                                                      {up, 0x46dd794e},
                                                      {down, 0x113fdb5c},
                                                      {read, 0xd9963a56},
                                                      {"123456789", 0xe3069283},
                                                      {"", 0}};
  for (const auto& [text, crc] : vectors) {
    EXPECT_EQ(Crc32c(BytesOf(text)), crc);
    EXPECT_EQ(internal::Crc32cByTable(BytesOf(text)), crc);
  }
}

TEST(Crc32cTest, IsTheSameByTableAndByInstructionAtEveryAlignmentAndLength) {
  std::vector<std::byte> bytes(100);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 151 + 7);
  for (size_t begin = 0; begin < 9; ++begin) {
    for (size_t size = 0; begin + size <= bytes.size(); ++size) {
      const auto part = std::span<const std::byte>(bytes).subspan(begin, size);
      ASSERT_EQ(Crc32c(part), ByBits(part)) << begin << " " << size;
      ASSERT_EQ(internal::Crc32cByTable(part), ByBits(part)) << begin << " " << size;
    }
  }
}

// From TensorFlow's own test (core/lib/hash/crc32c_test.cc): unmasking once does not undo masking twice.
TEST(Crc32cTest, MaskingIsARotationAndAnAddition) {
  const uint32_t crc = Crc32c(BytesOf("foo"));
  const uint32_t masked = MaskedCrc32c(crc);
  EXPECT_NE(masked, crc);
  const uint32_t rotated = masked - 0xa282ead8u;
  EXPECT_EQ((rotated >> 17) | (rotated << 15), crc);
}

}  // namespace
}  // namespace meshwork::crc32c_test
