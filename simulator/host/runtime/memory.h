// Allocation, copies and sets, for all functions that make, copy or set memory.
#pragma once
#include "server.h"

namespace tcsim {

constexpr size_t PITCH = 512;  // rows of pitched allocations begin at multiples

Error allocate(void **pointer, size_t bytes, Kind kind);
bool in_arena(const void *address);
uint64_t bytes_in_use();
Error copy(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t rows, int direction);
Error set(void *to, size_t pitch, int value, size_t width, size_t rows);

}  // namespace tcsim
