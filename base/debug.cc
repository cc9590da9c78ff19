#include "meshwork/base/debug.h"

namespace meshwork {

#ifdef NDEBUG
const bool kDebugBuild = false;
#else
const bool kDebugBuild = true;
#endif

}  // namespace meshwork
