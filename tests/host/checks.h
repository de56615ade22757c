// What the programs of the tests have in common: checks, and a main that runs those that are named.
#pragma once
#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>

#define CHECK(call)                                                                 \
    do {                                                                            \
        cudaError_t error_ = (call);                                                \
        if (error_ != cudaSuccess) {                                                \
            printf("line %d: %s\n", __LINE__, cudaGetErrorString(error_));          \
            return 1;                                                               \
        }                                                                           \
    } while (0)
#define EXPECT(condition)                                                           \
    do {                                                                            \
        if (!(condition)) {                                                         \
            printf("line %d: not %s\n", __LINE__, #condition);                      \
            return 1;                                                               \
        }                                                                           \
    } while (0)

struct Program {
    const char *name;
    int (*run)();
};

template <int N> int run_named(const Program (&programs)[N], int count, char **arguments) {
    int bad = 0;
    for (int i = 1; i < count; i++) {
        bool known = false;
        for (const Program &each : programs)
            if (!strcmp(each.name, arguments[i])) {
                known = true;
                int code = each.run();
                printf("%s %s\n", each.name, code ? "FAILED" : "passed");
                bad |= code;
            }
        bad |= !known;
    }
    fflush(stdout);
    return bad;
}
