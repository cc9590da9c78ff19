// Which libraries programs need.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tools/cli/process.h"

namespace meshwork::links_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The names of the libraries that a program needs are plain text in its file, and no other text of the file
// has such names.
TEST(LinksTest, WhatOnlyCompilesNeedsNoBlas) {
  const std::string program = Contents(LINKS_NO_BLAS), tool = Contents(MESHWORK);
  ASSERT_FALSE(program.empty());
  EXPECT_THAT(tool, HasSubstr("libdnnl.so"));  // which runs programs
  EXPECT_THAT(tool, HasSubstr("libopenblas.so"));
  for (const char* library : {"libdnnl.so", "libopenblas.so", "libblas.so", "libcblas.so"})
    EXPECT_EQ(program.find(library), std::string::npos) << library;
}

TEST(LinksTest, AndItCompiles) {
  const Finished finished = RunProcess(LINKS_NO_BLAS, {}, testing::TempDir() + "links_no_blas");
  EXPECT_EQ(finished.code, 0) << finished.err;
  for (const char* part : {"matmul", "conv_filter_grad", "----", "all_reduce"})
    EXPECT_THAT(finished.out, HasSubstr(part));
}

}  // namespace
}  // namespace meshwork::links_test
