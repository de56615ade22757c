// The kernels of the program.
#pragma once
#include "server.h"

namespace tcsim {

// What the server knows of a kernel, by the address of its host function; the error of one that cannot be linked.
Error function_of(const void *host, const Function **function);

// Bytes of dynamic shared memory that cudaFuncSetAttribute has allowed; -1: nothing was set.
int &dynamic_shared_limit(const void *host);

// Whether cudaFuncSetAttribute has allowed clusters of more than 8 CTAs.
bool &nonportable_cluster(const void *host);

}  // namespace tcsim
