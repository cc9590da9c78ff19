// What the programs of the documentation include.
#pragma once

#include "meshwork.h"
