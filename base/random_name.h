// RandomName: a name that no other process draws, for a job or for one lifetime of a process.
//
//   RandomName()   // "9f2c01d46b7a3e58"
#pragma once

#include <string>

namespace meshwork {

// 16 hexadecimal digits, 64 bits of the system's random numbers. Thread-safe.
std::string RandomName();

}  // namespace meshwork
