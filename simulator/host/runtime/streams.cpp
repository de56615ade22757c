// Streams and events. Everything is done in the order in which the program asks for it, before the call returns: one
// legal order of what streams allow.
#include <utility>

#include "server.h"

using namespace tcsim;

API Error cudaStreamCreateWithFlags(Stream *stream, unsigned flags) {
    UNLESS_STUCK
    *stream = new StreamRecord{flags};
    return SUCCESS;
}
API Error cudaStreamCreate(Stream *stream) { return cudaStreamCreateWithFlags(stream, 0); }
API Error cudaStreamCreateWithPriority(Stream *stream, unsigned flags, int) {
    return cudaStreamCreateWithFlags(stream, flags);
}
API Error cudaStreamDestroy(Stream stream) {
    if (reinterpret_cast<size_t>(stream) > 2) delete stream;  // 0 to 2: the default streams
    return stuck();
}
API Error cudaStreamSynchronize(Stream) { return stuck(); }
API Error cudaStreamQuery(Stream) { return stuck(); }
API Error cudaStreamWaitEvent(Stream, Event, unsigned) { return stuck(); }
API Error cudaStreamGetPriority(Stream, int *priority) {
    *priority = 0;
    return stuck();
}
API Error cudaStreamGetFlags(Stream stream, unsigned *flags) {
    *flags = reinterpret_cast<size_t>(stream) > 2 ? stream->flags : 0;
    return stuck();
}
API Error cudaStreamIsCapturing(Stream, int *status) {
    *status = 0;  // cudaStreamCaptureStatusNone
    return stuck();
}
API Error cudaStreamGetId(Stream stream, unsigned long long *number) {
    *number = reinterpret_cast<unsigned long long>(stream);
    return stuck();
}
API Error cudaStreamGetDevice(Stream, int *device) {
    *device = 0;
    return stuck();
}
API Error cudaStreamSetAttribute(Stream, int, const void *) { return stuck(); }  // hints
API Error cudaThreadExchangeStreamCaptureMode(int *mode) {
    static thread_local int now = 0;
    std::swap(now, *mode);
    return stuck();
}
API Error cudaStreamAttachMemAsync(Stream, void *, size_t, unsigned) { return stuck(); }
API Error cudaLaunchHostFunc(Stream, void (*function)(void *), void *data) {
    UNLESS_STUCK
    function(data);
    return SUCCESS;
}
API Error cudaStreamAddCallback(Stream stream, void (*function)(Stream, Error, void *), void *data, unsigned) {
    function(stream, stuck(), data);
    return stuck();
}

API Error cudaEventCreateWithFlags(Event *event, unsigned) {
    UNLESS_STUCK
    *event = new EventRecord{false, 0};
    return SUCCESS;
}
API Error cudaEventCreate(Event *event) { return cudaEventCreateWithFlags(event, 0); }
API Error cudaEventDestroy(Event event) {
    delete event;
    return stuck();
}
API Error cudaEventRecord(Event event, Stream) {
    UNLESS_STUCK
    if (!event) return failed(INVALID_HANDLE);
    Bytes answer;
    ask(CLOCK, {}, &answer);
    *event = {true, answer.take<double>()};
    return SUCCESS;
}
API Error cudaEventRecordWithFlags(Event event, Stream stream, unsigned) { return cudaEventRecord(event, stream); }
API Error cudaEventSynchronize(Event) { return stuck(); }
API Error cudaEventQuery(Event) { return stuck(); }
API Error cudaEventElapsedTime(float *milliseconds, Event start, Event end) {
    UNLESS_STUCK
    if (!start || !end || !start->recorded || !end->recorded) return failed(INVALID_HANDLE);
    *milliseconds = static_cast<float>(end->milliseconds - start->milliseconds);
    return SUCCESS;
}
