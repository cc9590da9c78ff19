// Read once for all tests; see rooms.cmake. Files include what they use nonetheless.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "meshwork.h"
#include "precompiled.h"
