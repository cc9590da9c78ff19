#include "meshwork/parameter_server/store.h"
