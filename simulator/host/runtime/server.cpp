#include "server.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace tcsim {

namespace {

std::recursive_mutex turn;  // one request at a time

[[noreturn]] void stop(const char *why) {
    fprintf(stderr, "tcsim: %s; legal: tcsim exec -- ./program\n", why);
    _exit(2);
}

int descriptor(const char *variable) {
    const char *text = getenv(variable);
    if (!text) stop("this libcudart is the simulator's, and the program was not started by it");
    return atoi(text);
}

int connection() {
    static const int fd = descriptor("TCSIM_EXEC_SOCKET");
    return fd;
}

void write_all(const char *data, size_t bytes) {
    while (bytes) {
        ssize_t sent = send(connection(), data, bytes, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) stop("the simulator has gone");
        data += sent;
        bytes -= sent;
    }
}

void read_all(char *data, size_t bytes) {
    while (bytes) {
        ssize_t got = recv(connection(), data, bytes, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) stop("the simulator has gone");
        data += got;
        bytes -= got;
    }
}

}  // namespace

Error ask(Request request, const Bytes &question, Bytes *answer) {
    std::lock_guard<std::recursive_mutex> lock(turn);
    struct {
        uint32_t request;
        uint32_t flags;
        uint64_t bytes;
    } head{request, 0, question.data.size()};
    write_all(reinterpret_cast<const char *>(&head), sizeof head);
    write_all(question.data.data(), question.data.size());
    if (!answer) return SUCCESS;
    struct {
        int32_t error;
        uint32_t flags;
        uint64_t bytes;
    } reply;
    read_all(reinterpret_cast<char *>(&reply), sizeof reply);
    answer->data.resize(reply.bytes);
    answer->at = 0;
    read_all(&answer->data[0], reply.bytes);
    return static_cast<Error>(reply.error);
}

const Device &device() {
    static const Device known = [] {
        Bytes answer;
        ask(DEVICE, {}, &answer);
        return answer.take<Device>();
    }();
    return known;
}

void connect_memory() {
    static const bool mapped = [] {
        void *wanted = reinterpret_cast<void *>(ARENA);
        const int flags = MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
        void *got = mmap(wanted, ARENA_BYTES, PROT_READ | PROT_WRITE, flags, descriptor("TCSIM_EXEC_MEMORY"), 0);
        if (got != wanted) stop("the place of device memory in the program is taken");
        return true;
    }();
    (void)mapped;
}

}  // namespace tcsim
