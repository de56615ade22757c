// Notes each cuLaunchKernelEx of a program: geometry, attributes and the bytes of all parameters.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { unsigned id; char pad[4]; union { unsigned n[16]; char b[64]; } v; } Attribute;
typedef struct { unsigned gx, gy, gz, bx, by, bz, shared; void *stream; Attribute *attrs; unsigned count; } Config;
static int (*real)(const Config *, void *, void **, void **);
static void *(*real_dlsym)(void *, const char *);

static int hook(const Config *c, void *f, void **params, void **extra) {
    const char *path = getenv("SHIM_LOG");
    if (path && params) {
        FILE *o = fopen(path, "a");
        void *cuda = dlopen("libcuda.so.1", RTLD_LAZY);
        int (*info)(void *, size_t, size_t *, size_t *) = real_dlsym(cuda, "cuFuncGetParamInfo");
        fprintf(o, "{\"grid\": [%u, %u, %u], \"block\": [%u, %u, %u], \"shared\": %u, \"attributes\": [", c->gx, c->gy, c->gz, c->bx, c->by, c->bz, c->shared);
        for (unsigned i = 0; i < c->count; i++)
            fprintf(o, "%s[%u, %u, %u, %u]", i ? ", " : "", c->attrs[i].id, c->attrs[i].v.n[0], c->attrs[i].v.n[1], c->attrs[i].v.n[2]);
        fprintf(o, "], \"params\": [");
        size_t at, size;
        for (size_t i = 0; info && info(f, i, &at, &size) == 0; i++) {
            fprintf(o, "%s\"", i ? ", " : "");
            for (size_t j = 0; j < size; j++) fprintf(o, "%02x", ((unsigned char *)params[i])[j]);
            fprintf(o, "\"");
        }
        fprintf(o, "]}\n");
        fclose(o);
    }
    return real(c, f, params, extra);
}

static void resolve(void) {
    if (!real_dlsym) real_dlsym = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
    if (!real_dlsym) real_dlsym = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
}

void *dlsym(void *handle, const char *name) {
    resolve();
    void *found = real_dlsym(handle, name);
    if (found && found != (void *)hook && !strcmp(name, "cuLaunchKernelEx")) {
        real = found;
        return hook;
    }
    return found;
}
