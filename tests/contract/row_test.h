// A test of one row and its samples.
#pragma once

#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "meshwork/ir/row.h"
#include "support/sample.h"

namespace meshwork {

class RowTest : public testing::TestWithParam<const OpRow*> {
 protected:
  const OpRow& row() const { return *GetParam(); }
  std::vector<Sample> Samples() const {
    std::vector<Sample> samples;
    for (std::string_view text : row().samples) samples.push_back(ParseSample(row(), text).value());
    return samples;
  }
};

}  // namespace meshwork
