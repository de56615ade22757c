/* The rules that the timing engine needs all the time, compiled. The specification is in Python, in functions of the
 * same names: simulator/timing/sm.py, pipes.py, cores.py, shared_memory.py, slots.py, warp.py. Here are those for matrix and
 * integer instructions, accesses to shared memory, copies and ends of loops; what else works on after issue, waits for others or
 * ends a program is left to Python, which works on the same records (records.h is written from
 * simulator/timing/records.py). */

#include <stddef.h>
#include <string.h>

#include "records.h"

typedef struct SmRecord Sm;
typedef struct CoreRecord Core;
typedef struct WarpRecord Warp;
typedef struct ItemRecord Item;

enum { NOTHING_BEFORE = 0, FOR_PYTHON = 1, BOUNDARY = 2, PAUSE = 3, START = 4, SERVE = 5, OVER = 6 }; /* as in __init__.py */
enum { OLDEST = 0, GREEDY_OLDEST = 1, GREEDY_ROUND_ROBIN = 2, ROUND_ROBIN = 3, LEAST_ISSUED = 4 }; /* as in tables.POLICIES */

static inline int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
/* A word of bits moved down; by its width or more nothing is left, which C leaves undefined. */
static inline int64_t moved_down(int64_t word, int64_t places) { return places < 63 ? word >> places : word < 0 ? -1 : 0; }
static inline const Item *next_of(const Warp *warp) { return &warp->items_array[warp->pc]; }

/* pipes.py */

/* The numbers of the tensor pipe that takes the next matrix instruction; NULL if it is the one that took the last. */
static int64_t *other_pipe(const Sm *sm, const Core *core) {
    const int64_t mine[3] = {core->free_array[sm->tensor], core->result_until, core->dense}, *first = mine;
    int64_t *found = NULL;
    for (int64_t i = 0; i < sm->others; i++) {
        int64_t *other = core->others_array + 3 * i, at = 0;
        while (at < 2 && other[at] == first[at])
            at++;
        if (other[at] < first[at])
            first = found = other;
    }
    return found;
}

static int64_t pipe_free(const Sm *sm, const Core *core, const Item *item) {
    int64_t cycle = core->free_array[item->unit];
    if (item->unit == sm->tensor) {
        const int64_t *other = sm->others ? other_pipe(sm, core) : NULL;
        int64_t result_until = other ? other[1] : core->result_until;
        cycle = (other ? other[0] : cycle) + most(result_until - item->result_from, 0);
        cycle = most(cycle, core->ports_until);
        return item->sparse ? most(cycle, core->metadata_until) : cycle;
    }
    return item->halves ? least(cycle, core->half_free) : cycle;
}

static void turn_to_pipe(const Sm *sm, Core *core) {
    int64_t *other = sm->others ? other_pipe(sm, core) : NULL;
    if (other) {
        int64_t mine[3] = {core->free_array[sm->tensor], core->result_until, core->dense};
        core->free_array[sm->tensor] = other[0];
        core->result_until = other[1];
        core->dense = other[2];
        memcpy(other, mine, sizeof mine);
    }
}

/* Lets the warp's upkeep and what follows come later. */
static void put_off(Warp *warp, int64_t cycles, int64_t now) {
    for (int64_t i = warp->upkeep_seen; i < warp->upkeep_count; i++)
        warp->upkeep_array[i] += 2 * cycles;
    warp->issue_not_before += cycles;
    if (warp->redirected > now && warp->redirected < NEVER)
        warp->redirected += cycles;
    if (warp->comparison >= now)
        warp->comparison += cycles;
}

/* operands.py */

enum { STAGE = 11, READER = 6, READERS = 24, SLOTS = 3, READ_BITS = 3, BANKS = 2, WAITING = 2, LATEST = 16, RECENT = 64 };
enum { BOTH = 3, UNKNOWN = 4 }; /* banks */
enum { FIRST_TWO = 6, THIRD = 8 }; /* cycles in which a matrix instruction reads */
enum { PENDING, USED, WRITER, FROM, GIVEN = FROM + SLOTS, PROGRAM = GIVEN + SLOTS, MEMBER }; /* numbers of a stage */
enum { SINCE, EVEN, ODD, LATE, METADATA, CLOSED }; /* numbers of a matrix instruction that reads */
static const int64_t of_bank[BANKS] = {0x15, 0x2a};

static void warp_stands_still(Warp *warp, int64_t cycle, int64_t fetched) {
    int last = warp->upkeep_seen + 1 == warp->upkeep_count;
    int64_t begins = warp->issue_not_before;
    int hinted = last && begins == cycle + 3 && warp->upkeep_array[warp->upkeep_seen] == 2 * (cycle + 1) + 1;
    for (int64_t i = warp->upkeep_seen; i < warp->upkeep_count; i++)
        warp->upkeep_array[i] += 2 * (warp->upkeep_array[i] >> 1 >= cycle);
    if (cycle <= begins && !hinted && (cycle <= warp->gone || cycle > begins - fetched + 1)) {
        warp->issue_not_before++;
        warp->redirected += cycle <= warp->redirected && warp->redirected < NEVER;
        warp->gone += cycle <= warp->gone && warp->gone < NEVER;
    }
    warp->operands_not_before += !hinted && warp->operands_not_before >= cycle;
}

static void stand_still(const Sm *sm, Core *core, int64_t cycle) {
    int64_t units[] = {sm->tensor, sm->alu, sm->fma};
    for (int64_t i = 0; i < core->warps; i++)
        warp_stands_still(core->warps_array[i], cycle, sm->line_latency);
    for (int64_t i = 0; i < 3; i++)
        core->free_array[units[i]] += core->free_array[units[i]] + (i ? 0 : core->result_until) >= cycle;
    core->half_free += core->half_free >= cycle;
    core->turned += core->turned < cycle;
}

static int64_t reader_of(const Core *core, const Warp *warp);

static void readable_from(const Sm *sm, const Core *core, const Warp *warp, const Item *item, int64_t operand,
                          int64_t *from, int64_t *given) {
    int64_t source = operand < item->sources_count ? item->sources_array[operand] : -1;
    int64_t producer = source < 0 ? -1 : warp->producers_array[source];
    *from = *given = 0;
    if (source < 0 || (producer != sm->alu && producer != sm->fma))
        return;
    int64_t late = producer == sm->alu ? item->forwarding_penalty : 0;
    *given = warp->readable_array[source] + sm->extra_array[item->unit * sm->units + producer] + late;
    *from = most(warp->readable_array[source] + core->stored, *given);
}

static void enter(Core *core, const Warp *warp, int64_t operand, int64_t from, int64_t given, int64_t hinted) {
    int64_t *stages = core->stages_array, *kept = core->kept_array;
    int64_t slot = operand & 7, reg = warp->place << 16 | operand >> 5;
    stages[FROM + (slot >> 1)] = from;
    stages[GIVEN + (slot >> 1)] = given;
    stages[USED] |= INT64_C(1) << slot;
    if (!(operand & 16) && kept[slot] != reg)
        stages[PENDING] |= INT64_C(1) << slot;
    kept[slot] = operand & 8 ? reg : -1;
    if (hinted && slot < 2 * BANKS && kept[SLOTS * BANKS + (slot >> 1)] >> (16 + READ_BITS) != warp->place)
        kept[SLOTS * BANKS + (slot >> 1)] = -1;
}

static void let_go(Core *core, int64_t place) {
    for (int64_t slot = 0; slot < SLOTS * BANKS; slot++)
        if (core->kept_array[slot] >> 16 != place)
            core->kept_array[slot] = -1;
}

static int64_t held(Core *core, const Warp *warp, const Item *item) {
    int64_t there = 0, cycles[] = {item->a, item->b};
    for (int64_t i = 0; i < least(item->operands_count, 2); i++) {
        int64_t operand = item->operands_array[i], *kept = &core->kept_array[SLOTS * BANKS + i];
        int64_t reg = (warp->place << 16 | operand >> 5) << READ_BITS;
        if (*kept >> READ_BITS == reg >> READ_BITS || operand & 8) {
            int64_t even = item->even & cycles[i], odd = item->odd & cycles[i];
            reg |= __builtin_popcountll(even) + __builtin_popcountll(odd);
        }
        if (*kept == reg)
            there |= cycles[i];
        *kept = operand & 8 ? reg : -1;
    }
    return there;
}

static int64_t closed_by(const Core *core, const Item *item, int64_t there) {
    int64_t reads = (item->even | item->odd) & ~(there & item->b);
    return reads | FIRST_TWO | (moved_down(reads, core->port_step) & THIRD);
}

static void read_registers(const Sm *sm, Core *core, const Warp *warp, const Item *item) {
    if (item->unit != sm->tensor) {
        for (int64_t i = 0; i < item->operands_count; i++) {
            int64_t from, given;
            readable_from(sm, core, warp, item, i, &from, &given);
            enter(core, warp, item->operands_array[i], from, given, item->yields);
        }
        if (item->writer && !item->writes_count)
            core->stages_array[WRITER] |= UNKNOWN;
        for (int64_t i = 0; item->writer && i < item->writes_count; i++)
            core->stages_array[WRITER] |= INT64_C(1) << item->writes_array[i] % BANKS;
        core->stages_array[PROGRAM] = 1 + warp->pc;
        core->stages_array[MEMBER] = reader_of(core, warp);
    } else if (item->even || item->odd) {
        int64_t there = held(core, warp, item);
        core->reading = least(core->reading, READERS - 1);
        int64_t *reader = core->readers_array + READER * core->reading++;
        reader[SINCE] = -1;
        reader[EVEN] = item->even & ~there;
        reader[ODD] = item->odd & ~there;
        reader[LATE] = item->late;
        reader[METADATA] = item->metadata;
        reader[CLOSED] = closed_by(core, item, there);
    }
}

static void retire(Core *core) {
    int64_t kept = 0, *readers = core->readers_array;
    for (int64_t i = 0; i < core->reading; i++) {
        const int64_t *reader = readers + READER * i;
        if (reader[SINCE] >= 0 && (reader[EVEN] | reader[ODD] | reader[LATE]) >> least(reader[SINCE], 63) <= 1)
            continue;
        if (kept != i)
            memcpy(readers + READER * kept, reader, READER * sizeof *readers);
        kept++;
    }
    core->reading = kept;
}

/* Notes from when on the results of an instruction can be read that leaves the stages behind this cycle. */
static void leave(const Core *core, const int64_t *stage, int64_t cycle) {
    if (!stage[PROGRAM])
        return;
    Warp *warp = core->warps_array[stage[MEMBER]];
    const Item *item = &warp->items_array[stage[PROGRAM] - 1];
    for (int64_t i = 0; i < item->writes_count; i++)
        warp->readable_array[item->writes_array[i]] = cycle + item->latency;
}

/* `Reads.move` by one cycle. */
static void move_on(Core *core, int64_t cycle) {
    int64_t *stages = core->stages_array;
    leave(core, stages + STAGE * (core->depth - 1), cycle);
    memmove(stages + STAGE, stages, STAGE * (core->depth - 1) * sizeof *stages);
    memset(stages, 0, STAGE * sizeof *stages);
}

static int empty(const Core *core) {
    int64_t found = 0;
    for (int64_t i = 0; i < core->depth; i++) {
        const int64_t *stage = core->stages_array + STAGE * i;
        found |= stage[USED] | stage[WRITER] | stage[PROGRAM];
    }
    return !found;
}

static void move(Core *core, int64_t cycle, int64_t cycles) {
    if (empty(core))
        return;
    for (int64_t i = 0; i < least(cycles, core->depth); i++)
        move_on(core, cycle + i);
}

static void hold_writes(Sm *sm, Core *core, int64_t cycle, int64_t banks);

static void pass_time(Sm *sm, Core *core, int64_t cycles) {
    int64_t late = 0;
    for (int64_t i = 0; i < core->reading; i++) {
        const int64_t *reader = core->readers_array + READER * i;
        late |= reader[LATE] >> least(reader[SINCE] + 1, 63);
    }
    for (int64_t ahead = 0; ahead < least(cycles, LATEST) && (late >> ahead || ahead < core->depth); ahead++) {
        int64_t banks = ahead < core->depth ? core->stages_array[STAGE * (core->depth - 1 - ahead) + WRITER] : 0;
        if (late >> ahead & 1)
            banks = BOTH;
        if (banks)
            hold_writes(sm, core, core->read_cycle + ahead, banks);
    }
    move(core, core->read_cycle, cycles);
    for (int64_t i = 0; i < core->reading; i++)
        core->readers_array[READER * i + SINCE] += cycles;
    retire(core);
}

static int idle(const Core *core) {
    int64_t late = 0;
    for (int64_t i = 0; i < core->reading; i++) {
        if (core->readers_array[READER * i + METADATA])
            return 0;
        late |= core->readers_array[READER * i + LATE];
    }
    for (int64_t i = 0; i < core->depth; i++) {
        const int64_t *stage = core->stages_array + STAGE * i;
        if (stage[PENDING] || (late && stage[WRITER]))
            return 0;
    }
    return 1;
}

/* Those of the operands `able` of a stage that can be read by now; their cycles stand from `since` on. */
static int64_t there(const Core *core, const int64_t *stage, int64_t able, int64_t since) {
    for (int64_t slot = 0; able && slot < SLOTS; slot++)
        if (stage[since + slot] > core->read_cycle)
            able &= ~(INT64_C(3) << BANKS * slot);
    return able;
}

static void pass_by(const Core *core, int64_t *last, int64_t operand) {
    if (last[FROM + operand / BANKS] != core->read_cycle)
        return;
    for (int64_t slot = 0; slot < SLOTS; slot++)
        if (last[PENDING] >> (BANKS * slot + operand % BANKS) & 1)
            last[GIVEN + slot] = last[FROM + slot];
}

static int serve(Core *core, int64_t bank) {
    int64_t older = 0;
    for (int64_t i = core->depth - 1; i >= 0; i--) {
        int64_t *stage = core->stages_array + STAGE * i, asked = stage[PENDING] & ~older & of_bank[bank];
        int64_t able = there(core, stage, asked, FROM);
        if (!able && i == core->depth - 1)
            able = there(core, stage, asked, GIVEN);
        if (able) {
            stage[PENDING] &= ~(able & -able);
            if (i == core->depth - 1)
                pass_by(core, stage, __builtin_ctzll((uint64_t)able));
            return 1;
        }
        older |= stage[USED];
    }
    return 0;
}

static void miss(const Core *core, int64_t *last) {
    for (int64_t slot = 0; slot < SLOTS; slot++)
        if (last[FROM + slot] >= core->read_cycle) {
            last[FROM + slot] = most(last[FROM + slot], core->read_cycle + 1);
            last[GIVEN + slot] = most(last[GIVEN + slot], core->read_cycle + 1);
        }
}

static void put_off_returns(Sm *sm, Core *core, int64_t cycle);

static int64_t give(Sm *sm, Core *core, int64_t accessed) {
    int64_t taken = accessed, waits = 0, late = 0, *readers = core->readers_array;
    for (int64_t i = 0; i < core->reading; i++) {
        int64_t *reader = readers + READER * i;
        if (reader[SINCE] < 0)
            continue;
        if (reader[METADATA]) {
            waits = 1;
            if (!(taken & reader[METADATA])) {
                taken |= reader[METADATA];
                reader[METADATA] = 0;
            }
            continue;
        }
        if (accessed && !reader[SINCE]) {
            waits = 1;
            put_off_returns(sm, core, core->read_cycle);
            continue;
        }
        int64_t since = ++reader[SINCE];
        taken |= (moved_down(reader[EVEN], since) & 1) | (moved_down(reader[ODD], since) & 1) << 1;
        late |= moved_down(reader[LATE], since) & 1;
    }
    int64_t *last = core->stages_array + STAGE * (core->depth - 1);
    if (late) {
        hold_writes(sm, core, core->read_cycle, BOTH);
        if (last[WRITER])
            miss(core, last);
    }
    int64_t pending = 0;
    for (int64_t i = 0; i < core->depth; i++)
        pending |= core->stages_array[STAGE * i + PENDING];
    for (int64_t bank = 0; bank < BANKS; bank++)
        if (pending & of_bank[bank] && !(taken >> bank & 1))
            taken |= (int64_t)serve(core, bank) << bank;
    int stands = last[PENDING] || (late && last[WRITER]);
    for (int64_t i = 0; i < core->reading; i++) {
        int64_t *reader = readers + READER * i;
        if (reader[SINCE] < 0 && !stands && !(taken & reader[METADATA]))
            reader[METADATA] = 0;
    }
    retire(core);
    if (stands)
        return -1;
    if (last[WRITER])
        hold_writes(sm, core, core->read_cycle, last[WRITER]);
    return waits;
}

static uint64_t closed(const Core *core, int64_t begun) {
    uint64_t mask = 0;
    for (int64_t i = 0; i < core->reading; i++) {
        const int64_t *reader = core->readers_array + READER * i;
        if (reader[SINCE] < begun || reader[METADATA])
            continue;
        mask |= (uint64_t)reader[CLOSED] >> least(reader[SINCE] + 1, 63);
    }
    return mask;
}

static int metadata_waits(const Core *core) {
    for (int64_t i = 0; i < core->reading; i++)
        if (core->readers_array[READER * i + SINCE] >= 0 && core->readers_array[READER * i + METADATA])
            return 1;
    return 0;
}

static void go_ahead(Core *core, int64_t cycle) {
    int64_t behind = core->depth - WAITING, *stages = core->stages_array + STAGE * WAITING;
    if (behind <= 0)
        return;
    leave(core, stages + STAGE * (behind - 1), cycle);
    memmove(stages + STAGE, stages, STAGE * (behind - 1) * sizeof *stages);
    memset(stages, 0, STAGE * sizeof *stages);
}

static int64_t next_read(const Sm *sm, const Core *core);
static int64_t read_accesses(Sm *sm, Core *core, int64_t cycle);
static void hold(Sm *sm, Core *core, int64_t cycle);
static void returns_stand_still(Sm *sm, Core *core);

static void catch_up(Sm *sm, Core *core, int64_t now) {
    while (core->read_cycle < now) {
        int64_t cycle = core->read_cycle, until = !core->frozen && idle(core) ? least(now, next_read(sm, core)) : 0;
        if (until > cycle) {
            pass_time(sm, core, until - cycle);
            core->read_cycle = until;
            continue;
        }
        core->frozen = give(sm, core, read_accesses(sm, core, cycle));
        core->read_cycle++;
        if (core->frozen) {
            if (core->frozen < 0)
                hold(sm, core, cycle);
            else
                go_ahead(core, cycle);
            stand_still(sm, core, core->read_cycle);
            returns_stand_still(sm, core);
            continue;
        }
        move_on(core, cycle);
        for (int64_t i = 0; i < core->reading; i++)
            core->readers_array[READER * i + SINCE] += core->readers_array[READER * i + SINCE] < 0;
    }
}

/* pipes.py */

static int64_t lose(const Sm *sm, Core *core, Warp *warp, int64_t cycles) {
    warp->issue_not_before += cycles;
    core->free_array[sm->tensor] += cycles;
    return cycles;
}

static int64_t collide(const Sm *sm, Core *core, Warp *warp, int64_t cycle, int64_t now) {
    int64_t lost = most(core->reads_until - cycle, 0);
    Warp *reader = core->warps_array[core->reader];
    if (lost && reader != warp)
        put_off(reader, lost, now);
    return lose(sm, core, warp, lost);
}

static void share(const Sm *sm, Core *core, int64_t now) {
    if (core->reads_until > now || now >= core->free_array[sm->tensor])
        return;
    if (core->spare)
        core->spare -= 1;
    else
        core->free_array[sm->tensor] += sm->integer;
}

static int64_t reader_of(const Core *core, const Warp *warp) {
    int64_t place = 0;
    while (core->warps_array[place] != warp)
        place++;
    return place;
}

static void take(const Sm *sm, Core *core, Warp *warp, const Item *item, int64_t now) {
    int64_t unit = item->unit, begin = now, *free = core->free_array;
    if (unit == sm->tensor) {
        turn_to_pipe(sm, core);
        core->ports_until = now + item->reading;
        if (item->sparse)
            core->metadata_until = now + sm->metadata_cycles;
        if (core->dense && item->sparse && !core->depth)
            begin = most(now, free[unit] + sm->sparse_after_dense);
        put_off(warp, begin - now, now);
        core->result_until = item->result_until;
        core->dense = !item->sparse;
        if (!core->depth) {
            core->reads_until = now + item->ports;
            core->reader = reader_of(core, warp);
            core->spare = item->spare;
            core->accessed = 0;
        }
    }
    if (item->halves && core->half_free <= now)
        core->half_free = now + item->interval;
    else
        free[unit] = begin + item->interval;
    if (core->depth)
        read_registers(sm, core, warp, item);
    if (unit == sm->control && sm->fetch >= 0) {
        core->last_issue = now + sm->fetch;
    } else if ((unit == sm->alu || unit == sm->fma) && !core->depth) {
        share(sm, core, now);
        free[unit] += collide(sm, core, warp, now, now);
    }
    if (item->compare && !core->depth)
        warp->comparison = now + item->compare;
    if (unit == sm->tensor && core->reads_until > now && !core->depth)
        for (int64_t i = 0; i < core->warps; i++) {
            Warp *other = core->warps_array[i];
            if (other->comparison > now)
                collide(sm, core, other, other->comparison, now);
            else if (other->comparison == now - 1 && other != warp && item->ports >= item->interval - 1)
                put_off(warp, lose(sm, core, other, item->ports), now);
        }
}

static void come_late(const Sm *sm, Core *core, Warp *warp, int64_t cycles, int64_t now) {
    core->free_array[sm->tensor] += cycles;
    put_off(warp, cycles, now);
}

/* port.py */

typedef struct SendingRecord Sending;

static Sending *sending_at(const Sm *sm, const Core *core, int64_t number) {
    return &core->accesses_array[number % sm->ring];
}

static int64_t oldest_sending(const Sm *sm, const Core *core) { return most(core->accesses_made - sm->ring, 0); }

static int64_t late_for(const Sm *sm, const Sending *access, int64_t now) {
    int64_t since = now - access->begin;
    return access->values ? (sm->port_cycles - since % sm->port_cycles) % sm->port_cycles : 1;
}

static void prepare(const Sm *sm, Warp *warp);

static void wake(const Sm *sm, Core *core, int64_t cycle);

/* `BankedPort.held`. */
static int is_held(const Core *core, int64_t number) { return number > core->accesses_taken; }

/* `BankedPort.room`, `Port.room`. */
static void find_room(const Sm *sm, Core *core) {
    int64_t number = core->accesses_made - sm->queue, begin = NEVER;
    if (number < 0)
        return;
    const Sending *access = sending_at(sm, core, number);
    if (core->depth ? number < core->accesses_read || (number == core->accesses_read && access->left < access->sent)
                    : !is_held(core, number))
        begin = access->begin;
    else if (core->depth && number == core->accesses_read && !is_held(core, number))
        begin = access->next;
    if (begin < NEVER)
        begin += sm->queue_latency - core->depth;
    if (core->free_array[sm->shared] != begin) {
        core->free_array[sm->shared] = begin;
        wake(sm, core, begin);
    }
}

typedef struct RegisterRecord Register;
typedef struct WaitingRecord Waiting;

/* `SharedMemory.become_ready`. */
static void become_ready(Warp *warp, const Item *item, int64_t before, int64_t ready) {
    for (int64_t i = 0; i < item->writes_count; i++)
        if (warp->ready_array[item->writes_array[i]] == before)
            warp->ready_array[item->writes_array[i]] = ready;
    if (item->fills >= 0 && warp->boards_array[item->fills] == before)
        warp->boards_array[item->fills] = ready;
}

/* `SharedMemory.put_off`. */
static void put_off_access(Core *core, Sending *access, int64_t cycles) {
    Warp *warp = core->warps_array[access->warp];
    const Item *item = &warp->items_array[access->pc];
    for (int64_t i = 0; i < item->reads_count; i++)
        if (warp->pinned_array[item->reads_array[i]] == access->read)
            warp->pinned_array[item->reads_array[i]] += cycles;
    if (warp->sent == access->read)
        warp->sent += cycles;
    if (item->frees >= 0 && warp->boards_array[item->frees] == access->read)
        warp->boards_array[item->frees] += cycles;
    access->read += cycles;
}

/* banked_port.py */

static int64_t trailing_ones(uint64_t mask) { return ~mask ? __builtin_ctzll(~mask) : 64; }

static int64_t first_read(const Sm *sm, const Sending *access, int64_t last) {
    int64_t begin = most(access->arrives, last + sm->port_cycles);
    return begin + (access->values && access->arrives > last ? sm->store_latency : 0);
}

static int64_t last_before(const Sm *sm, const Core *core, int64_t number) {
    return number > core->accesses_read ? sending_at(sm, core, number - 1)->until - sm->port_cycles : core->last_read;
}

static void put_off_reads(Sm *sm, Core *core, int64_t number, int64_t cycles);

static void keep_order(Sm *sm, Core *core, int64_t number) {
    const Sending *access = sending_at(sm, core, number);
    int64_t cycles = first_read(sm, access, last_before(sm, core, number)) - access->next;
    if (cycles > 0)
        put_off_reads(sm, core, number, cycles);
}

/* `BankedPort.put_off`. */
static void put_off_reads(Sm *sm, Core *core, int64_t number, int64_t cycles) {
    Sending *access = sending_at(sm, core, number);
    access->next += cycles;
    access->soonest += cycles;
    access->until += cycles;
    put_off_access(core, access, cycles);
    Warp *warp = core->warps_array[access->warp];
    if (!warp->done)
        prepare(sm, warp);
    if (number + 1 < core->accesses_made)
        keep_order(sm, core, number + 1);
    else
        core->port_until = access->until;
    find_room(sm, core);
}

/* `BankedPort.release`. */
static void release_access(Sm *sm, Core *core, int64_t number, int64_t cycle) {
    if (number >= core->accesses_made)
        return;
    int64_t cycles = cycle - sending_at(sm, core, number)->next;
    if (cycles > 0)
        put_off_reads(sm, core, number, cycles);
    find_room(sm, core);
}

static int64_t next_unread(const Sm *sm, const Core *core) {
    if (core->accesses_read == core->accesses_made || is_held(core, core->accesses_read))
        return NEVER;
    return sending_at(sm, core, core->accesses_read)->next;
}

/* `Returns.reads_at`: cycles from a step of a return to its read, and the second read. */
static int64_t behind_step(const Sm *sm, const Warp *warp) { return sm->return_reads + warp->return_late; }

static int64_t reads_until(const Sm *sm, const Warp *warp) {
    return warp->return_sent + behind_step(sm, warp) + warp->return_put_off;
}

/* `BankedPort.returned`. */
static int64_t returned(const Sm *sm, const Core *core, int64_t cycle) {
    int64_t banks = 0;
    for (int64_t i = 0; cycle <= core->return_until && i < core->warps; i++) {
        const Warp *warp = core->warps_array[i];
        int64_t step = cycle - behind_step(sm, warp);
        banks |= (warp->return_taken == step) | (warp->return_sent + warp->return_put_off == step) << 1;
    }
    return banks;
}

static int64_t next_returned(const Sm *sm, const Core *core) {
    int64_t found = NEVER;
    for (int64_t i = 0; core->read_cycle <= core->return_until && i < core->warps; i++) {
        const Warp *warp = core->warps_array[i];
        int64_t first = warp->return_taken + behind_step(sm, warp), second = reads_until(sm, warp);
        if (first >= core->read_cycle)
            found = least(found, first);
        if (second >= core->read_cycle)
            found = least(found, second);
    }
    return found;
}

static int64_t next_read(const Sm *sm, const Core *core) {
    return core->deferred ? core->read_cycle : least(next_unread(sm, core), next_returned(sm, core));
}

static void settle(Sm *sm, Core *core, int64_t now);

static int asks(const Sm *sm, const Core *core, int64_t cycle) {
    if (next_unread(sm, core) != cycle)
        return 0;
    const Sending *access = sending_at(sm, core, core->accesses_read);
    return access->left == access->sent && !access->values && !(closed(core, 1) & 1);
}

/* `BankedPort.is_granted`. */
static int is_granted(Sm *sm, Core *core, int64_t cycle) {
    int64_t each = sm->cores / sm->sms, begin = core->number / each * each;
    Core *first = core;
    for (int64_t i = begin; i < begin + each; i++) {
        Core *other = sm->cores_array[i];
        if (other == core || next_unread(sm, other) > cycle)
            continue;
        settle(sm, other, cycle);
        if (asks(sm, other, cycle) && other->granted_at < first->granted_at)
            first = other;
    }
    first->granted_at = cycle;
    for (int64_t i = begin; i < begin + each; i++) {
        Core *other = sm->cores_array[i];
        if (other != first && (other == core || asks(sm, other, cycle)))
            put_off_reads(sm, other, other->accesses_read, 1);
    }
    return first == core;
}

/* `BankedPort.read`. */
static int64_t read_accesses(Sm *sm, Core *core, int64_t cycle) {
    int64_t taken = core->deferred | returned(sm, core, cycle);
    core->deferred = 0;
    if (core->accesses_read == core->accesses_made)
        return taken;
    Sending *access = sending_at(sm, core, core->accesses_read);
    if (access->next > cycle || is_held(core, core->accesses_read))
        return taken;
    uint64_t mask = closed(core, 1);
    if (mask & 1) {
        put_off_reads(sm, core, core->accesses_read, trailing_ones(mask));
        return taken;
    }
    if (access->left == access->sent) {
        if (!access->values && !is_granted(sm, core, cycle))
            return taken;
        access->begin = cycle;
    }
    int64_t bank = 1 << (access->banks & 1);
    access->banks >>= 1;
    access->next += sm->port_cycles;
    if (!--access->left) {
        core->accesses_read++;
        core->last_read = cycle;
    }
    find_room(sm, core);
    if (metadata_waits(core)) {
        core->deferred = bank;
        return taken;
    }
    return taken | bank;
}

/* `ReturnPath.hold`. */
static void hold_writes(Sm *sm, Core *core, int64_t cycle, int64_t banks) {
    if (!sm->on_way_count_array[core->number / (sm->cores / sm->sms)])
        return;
    int64_t *word = core->writes_held_array + cycle % HELD;
    *word = (*word >> BANKS == cycle ? *word : cycle << BANKS) | (banks & BOTH);
}

static void hold(Sm *sm, Core *core, int64_t cycle) {
    for (int64_t number = core->accesses_read; number < core->accesses_made; number++) {
        Sending *access = sending_at(sm, core, number);
        if (access->arrives > cycle) {
            access->arrives++;
            keep_order(sm, core, number);
        }
    }
}

/* Foresees when an access is read that issues now, in its entry: `BankedPort.send`. */
static Sending foresee(const Sm *sm, const Core *core, const Item *item, int64_t now) {
    Sending access = {
        .arrives = now + core->depth, .values = item->slow, .left = item->sent, .sent = item->sent, .banks = item->banks};
    int64_t first = first_read(sm, &access, last_before(sm, core, core->accesses_made));
    first += trailing_ones(closed(core, 0) >> least(most(first - core->read_cycle, 0), 63));
    access.begin = access.next = first;
    access.until = access.begin + item->sent * sm->port_cycles;
    access.soonest = access.until - sm->port_cycles - core->depth;
    access.read = access.soonest + sm->port_cycles + sm->operand_latency - (access.values ? sm->store_latency : 0);
    return access;
}

/* The same where banks are not known: `Port.send`. */
static Sending send(const Sm *sm, const Core *core, const Item *item, int64_t now) {
    int64_t values = item->sent - 1;
    if (core->depth)
        return foresee(sm, core, item, now);
    int64_t begin = most(most(now, core->port_until), values ? core->port_stores : core->port_loads);
    int64_t until = begin + item->sent * sm->port_cycles;
    int64_t soonest = begin + (values ? values * sm->port_cycles + sm->store_latency : 0);
    return (Sending){
        .begin = begin, .until = until, .values = values, .soonest = soonest, .read = until + sm->operand_latency};
}

/* port.py: `Port.give` with `Sm.share_port`, but for the gap. */
static void share_port(Sm *sm, Core *core, Warp *warp, const Item *item, int64_t issued) {
    int64_t now = issued - sm->port_delay, late = 0, slower = 0, until = 0, under_way = 1;
    if (!item->port || core->depth)
        return;
    for (int64_t number = oldest_sending(sm, core); number < core->accesses_made; number++) {
        Sending *access = sending_at(sm, core, number);
        if (access->until <= now)
            continue;
        int64_t moved = 0;
        if (under_way && access->begin < now + !access->values) {
            late = item->sparse ? late_for(sm, access, now) : 0;
            slower = !item->sparse;
            if (access->values && now <= access->until - sm->port_cycles) {
                moved = item->port;
                access->begin += moved;
                access->until += moved;
                put_off_access(core, access, moved);
            }
        } else {
            int64_t free = now + late + item->port + (access->values ? 0 : sm->turnaround);
            moved = most(most(until, free) - access->begin, 0);
            if (moved) {
                access->begin += moved;
                access->soonest += moved;
                access->until += moved;
                put_off_access(core, access, moved);
            }
        }
        Warp *owner = core->warps_array[access->warp];
        if (moved && owner != warp && !owner->done)
            prepare(sm, owner);
        under_way = 0;
        until = access->until;
    }
    core->port_stores = now + late + item->port;
    core->port_loads = core->port_stores + sm->turnaround;
    core->port_until = most(core->port_until, until);
    find_room(sm, core);
    come_late(sm, core, warp, late, issued);
    core->free_array[sm->tensor] += slower * sm->integer;
}

/* shared_memory.py */

/* `Warp.next`: wavefronts, or what a copy fetches. */
static int64_t next_cost(Warp *warp) {
    const struct CostRecord *cost = &warp->costs_array[warp->pc];
    if (cost->length == 1)
        return cost->entries_array[0];
    int64_t position = warp->turns_array[warp->pc];
    warp->turns_array[warp->pc] = position + 1 < cost->length ? position + 1 : cost->prefix;
    return cost->entries_array[position];
}

enum { TAKEN = 1, GAP };

/* Whether `count` wavefronts from `soonest` on find their cycles in the window as it is. */
static int has_room(const Sm *sm, int64_t cta, int64_t soonest, int64_t count) {
    int64_t slots = sm->wavefronts, spacing = most(sm->cycles, sm->wavefront_interval * slots);
    return most(soonest * slots, sm->taken_until_array[cta]) + count * spacing <= sm->first_array[cta] + sm->window;
}

static void place(Sm *sm, int64_t cta, int64_t soonest, int64_t count, int mark, int load, int64_t *first,
                  int64_t *last) {
    uint8_t *taken = sm->taken_array + cta * sm->window - sm->first_array[cta];
    int64_t slots = sm->wavefronts, cycle = soonest * slots, width = sm->cycles; /* in slots */
    *first = *last = cycle;
    for (int64_t number = 0; number < count; number++) {
        for (int64_t clear = 0; clear < width;) {
            if (taken[cycle + clear] == TAKEN || (taken[cycle + clear] && !load)) {
                cycle += clear + 1;
                clear = 0;
            } else {
                clear++;
            }
        }
        memset(taken + cycle, mark, width);
        if (number == 0)
            *first = cycle;
        *last = cycle;
        cycle += sm->wavefront_interval * slots;
    }
    if (count)
        sm->taken_until_array[cta] = most(sm->taken_until_array[cta], *last + width);
    *first /= slots;
    *last /= slots;
}

static void leave_gap(Sm *sm, Core *core, int64_t cta, const Item *item, int64_t now) {
    int64_t gap = core->port_until > now ? least(item->port / 2, core->stores) : 0, first, last;
    core->stores = 0;
    if (gap)
        place(sm, cta, now, gap, GAP, 0, &first, &last);
}

/* Plans to decide, not later than needed, what an SM serves in a cycle. */
static void plan(Sm *sm, int64_t cta, int64_t cycle) {
    sm->serve_tick_array[cta] = least(sm->serve_tick_array[cta], cycle + sm->lag);
}

/* `Sm.access` with `SharedMemory.send`. */
static void access_shared(Sm *sm, Core *core, Warp *warp, const Item *item, int64_t now) {
    if (core->reads_until >= now && !core->accessed && !core->depth) {
        core->reads_until += sm->access;
        core->accessed = 1;
    }
    int64_t values = item->sent - 1, ready = NEVER + core->accesses_made;
    Sending access = send(sm, core, item, now);
    core->port_until = access.until;
    if (sm->gap && values >= sm->gap)
        core->stores = least(core->stores + 1, sm->stores);
    access.count = next_cost(warp);
    access.behind = sm->behind_array[warp->place];
    sm->between_array[warp->place] = 1;
    access.warp = reader_of(core, warp);
    access.pc = warp->pc;
    access.ready = ready;
    *sending_at(sm, core, core->accesses_made++) = access;
    plan(sm, warp->cta, most(access.soonest, sm->served_array[warp->cta]));
    find_room(sm, core);
    sm->shared_busy_array[warp->cta] += access.count * sm->cycles;
    warp->access = now + item->interval;
    for (int64_t i = 0; i < item->reads_count; i++)
        warp->pinned_array[item->reads_array[i]] = access.read;
    warp->sent = access.read;
    if (item->frees >= 0)
        warp->boards_array[item->frees] = access.read;
    if (item->fills >= 0)
        warp->boards_array[item->fills] = ready;
    for (int64_t i = 0; i < item->writes_count; i++) {
        warp->ready_array[item->writes_array[i]] = ready;
        warp->producers_array[item->writes_array[i]] = sm->shared;
    }
}

/* sm.py */

static int64_t unread(const Warp *warp, const Item *end) {
    int64_t until = end->coded ? 0 : warp->sent;
    for (int64_t i = 0; i < end->unread_count; i++)
        until = most(until, warp->ready_array[end->unread_array[i]]);
    for (int64_t i = 0; i < end->awaits_count; i++)
        until = most(until, warp->boards_array[end->awaits_array[i]]);
    return until + end->branch;
}

static void prepare(const Sm *sm, Warp *warp) {
    const Item *item = next_of(warp);
    const int64_t *extra = sm->extra_array + item->unit * sm->units;
    int64_t latest = 0, source = sm->tensor;
    if (item->unit == sm->shared) {
        latest = warp->access;
        source = sm->shared;
    }
    for (int64_t i = 0; i < item->reads_count; i++) {
        int64_t reg = item->reads_array[i], producer = warp->producers_array[reg];
        int64_t cycle = warp->ready_array[reg] + extra[producer];
        if (producer == sm->alu)
            cycle += item->forwarding_penalty;
        if (cycle > latest) {
            latest = cycle;
            source = producer;
        }
    }
    for (int64_t i = 0; i < item->writes_count; i++) {
        int64_t reg = item->writes_array[i], producer = warp->producers_array[reg];
        int64_t cycle = warp->ready_array[reg];
        if (producer == sm->shared && item->unit == sm->shared) /* values arrive in order */
            cycle = 0;
        else if (producer != sm->shared && producer != sm->global_) /* no scoreboard */
            cycle -= item->latency - 1;
        if (cycle > latest) {
            latest = cycle;
            source = producer;
        }
        if (warp->pinned_array[reg] > latest) {
            latest = warp->pinned_array[reg];
            source = sm->shared;
        }
    }
    for (int64_t i = 0; i < item->awaits_count; i++)
        if (warp->boards_array[item->awaits_array[i]] > latest) {
            latest = warp->boards_array[item->awaits_array[i]];
            source = sm->shared;
        }
    if (warp->ended) {
        int64_t read = unread(warp, &warp->items_array[warp->ended - 1]);
        if (read > latest) {
            latest = read;
            source = sm->shared;
        }
    }
    warp->operands_ready = latest;
    warp->operands_reason = sm->produced_by_array[source];
}

static inline int64_t counted(int64_t *stalls, int64_t cycle, int64_t until, int64_t reason) {
    if (until <= cycle)
        return cycle;
    stalls[reason] += until - cycle;
    return until;
}

static void account(Sm *sm, const Core *core, const Warp *warp, const Item *item, int64_t now) {
    int64_t *stalls = sm->stalls_array + warp->base, cycle = warp->last + 1;
    cycle = counted(stalls, cycle, warp->operands_not_before, sm->dependency);
    cycle = counted(stalls, cycle, warp->issue_not_before, warp->issue_not_before_reason);
    cycle = counted(stalls, cycle, warp->operands_ready, warp->operands_reason);
    int64_t free = pipe_free(sm, core, item);
    if (item->queued)
        free = most(free, sm->room_since_array[warp->cta]);
    cycle = counted(stalls, cycle, free, sm->pipe_taken_array[item->unit]);
    counted(stalls, cycle, now, sm->reason_issue);
    stalls[item->part ? sm->sequence : sm->issued]++;
}

/* returns.py */

static int is_under_way(const Warp *warp, int64_t cta) { return warp->return_issued != NEVER && warp->cta == cta; }

/* `Returns.settle`. */
static void settle_returns(Sm *sm, int64_t cta, int64_t now) {
    for (int64_t i = 0; i < sm->warps; i++) {
        Warp *warp = sm->warps_array[i];
        if (!is_under_way(warp, cta))
            continue;
        Core *core = sm->cores_array[warp->core];
        if (warp->return_taken < now)
            core->return_taken = most(core->return_taken, warp->return_taken);
        if (warp->return_sent < now)
            warp->return_issued = NEVER;
    }
}

static void serve_return(Warp *warp, int64_t cycle) {
    int64_t late = cycle - warp->return_served;
    warp->return_served = cycle;
    warp->issue_not_before += late;
    if (warp->redirected != NEVER)
        warp->redirected += late;
}

/* Whether a return is taken before another one. */
static int asks_before(const int64_t *last, const Warp *warp, const Warp *other) {
    int64_t its = last[warp->core], others = last[other->core];
    return its < others || (its == others && warp->return_issued < other->return_issued);
}

/* `Returns.look_later`. */
static void look_later(Sm *sm, int64_t now) {
    for (int64_t i = 0; i < sm->warps; i++) {
        int64_t read = sm->warps_array[i]->return_taken + behind_step(sm, sm->warps_array[i]);
        if (now <= read && read < NEVER)
            sm->returns_look = least(sm->returns_look, read + 1);
    }
}

/* `Returns.line_up`. */
static void line_up(Sm *sm, int64_t cta, int64_t begin) {
    Warp *recent[sm->warps];
    int64_t count = 0, served = -NEVER;
    for (int64_t i = 0; i < sm->warps; i++) {
        Warp *warp = sm->warps_array[i];
        if (warp->cta != cta || warp->return_sent <= begin - RECENT || warp->return_sent >= NEVER)
            continue;
        int64_t at = count++;
        for (; at > 0 && recent[at - 1]->return_sent > warp->return_sent; at--)
            recent[at] = recent[at - 1];
        recent[at] = warp;
    }
    for (int64_t i = 0; i < count; i++) {
        Warp *warp = recent[i];
        if (warp->return_sent >= begin)
            serve_return(warp, most(warp->return_sent + warp->return_put_off,
                                    served + sm->return_interval - warp->return_late));
        served = most(served, warp->return_served + warp->return_late);
    }
}

/* `Returns.come_later`. */
static void return_later(Sm *sm, Core *core, Warp *warp) {
    core->return_until = most(core->return_until, reads_until(sm, warp));
    line_up(sm, warp->cta, warp->return_sent);
    look_later(sm, sm->now);
}

/* `Returns.foresee`. */
static void foresee_returns(Sm *sm, int64_t cta, int64_t now) {
    int64_t count = 0, taken = 0, last[sm->cores];
    Warp *waiting[sm->warps]; /* first those that have been taken, in order */
    for (int64_t i = 0; i < sm->cores; i++)
        last[i] = sm->cores_array[i]->return_taken;
    for (int64_t i = 0; i < sm->warps; i++) {
        Warp *warp = sm->warps_array[i];
        if (!is_under_way(warp, cta))
            continue;
        int64_t at = count++;
        if (warp->return_taken < now) {
            waiting[at] = waiting[taken];
            for (at = taken++; at > 0 && waiting[at - 1]->return_taken > warp->return_taken; at--)
                waiting[at] = waiting[at - 1];
        }
        waiting[at] = warp;
    }
    for (int64_t cycle = now, sent = 0; sent < count; cycle++) {
        int64_t found = -1, soonest = sent < taken ? waiting[sent]->return_taken + sm->return_request : NEVER;
        for (int64_t i = taken; i < count; i++)
            soonest = least(soonest, last[waiting[i]->core] + sm->return_again);
        cycle = most(cycle, soonest);
        for (int64_t i = taken; i < count; i++)
            if (last[waiting[i]->core] + sm->return_again <= cycle &&
                (found < 0 || asks_before(last, waiting[i], waiting[found])))
                found = i;
        if (found >= 0) {
            Warp *warp = waiting[found];
            waiting[found] = waiting[taken];
            waiting[taken++] = warp;
            warp->return_taken = last[warp->core] = cycle;
        } else {
            waiting[sent++]->return_sent = cycle;
        }
    }
    for (int64_t i = 0; i < count; i++) {
        Core *core = sm->cores_array[waiting[i]->core];
        if (sm->return_reads)
            core->return_until = most(core->return_until, reads_until(sm, waiting[i]));
    }
    line_up(sm, cta, now);
    look_later(sm, now);
}

/* `Returns.stand_still`. */
static void returns_stand_still(Sm *sm, Core *core) {
    for (int64_t i = 0; sm->return_reads && i < core->warps; i++) {
        Warp *warp = core->warps_array[i];
        if (warp->gone == warp->return_left + 1) {
            warp->return_left++;
            warp->return_late++;
            return_later(sm, core, warp);
        }
    }
}

/* `Returns.put_off`. */
static void put_off_returns(Sm *sm, Core *core, int64_t cycle) {
    for (int64_t i = 0; cycle <= core->return_until && i < core->warps; i++) {
        Warp *warp = core->warps_array[i];
        if (warp->return_taken + behind_step(sm, warp) == cycle) {
            warp->return_put_off = 1;
            return_later(sm, core, warp);
        }
    }
}

static void settle(Sm *sm, Core *core, int64_t now);

/* `Returns.look`. */
static void look_at_returns(Sm *sm, int64_t now) {
    for (int64_t i = 0; i < sm->cores; i++)
        settle(sm, sm->cores_array[i], now);
    sm->returns_look = NEVER;
    look_later(sm, now);
}

static void ask(Sm *sm, Warp *warp, int64_t now) {
    settle_returns(sm, warp->cta, now);
    warp->return_issued = now;
    warp->return_taken = warp->return_sent = NEVER;
    warp->return_served = now + sm->return_request;
    warp->return_left = warp->gone;
    warp->return_late = warp->return_put_off = 0;
    foresee_returns(sm, warp->cta, now);
}

/* sm.py */

/* l2_path.py, and of global_memory.py copies whose arrival is kept in their group */

/* `BankedPort.take` and `Port.take`, without taking it. */
static int64_t port_begin(const Sm *sm, const Core *core, int64_t now) {
    if (core->depth)
        return most(now, last_before(sm, core, core->accesses_made) + sm->port_cycles - core->depth);
    return most(now, most(core->port_until, core->port_loads));
}

static int64_t passes_from(const Sm *sm, const Warp *warp, int64_t sent) {
    int follows = !sm->between_array[warp->place]; /* an access to global memory */
    return most(sent, (follows ? sm->outside_turn_array : sm->turn_array)[warp->place]);
}

/* Whether a copy that issues now can be issued here. */
static int can_copy(const Sm *sm, const Core *core, const Warp *warp, const Item *item, int64_t now) {
    if (!sm->copies || !item->copies)
        return 0;
    return !sm->pipe_cycles || has_room(sm, warp->cta, passes_from(sm, warp, port_begin(sm, core, now)), sm->pipe_cycles);
}

/* `L2Path.send`. */
static int64_t ask_for(Sm *sm, Core *core, Warp *warp, const Item *item, int64_t cycles, int64_t now) {
    int64_t sent = port_begin(sm, core, now), first, last, cta = warp->cta, soonest = passes_from(sm, warp, sent);
    if (core->depth && core->accesses_read == core->accesses_made)
        core->last_read = most(core->last_read, sent + sm->copy_port + core->depth - sm->port_cycles);
    core->port_until = sent + sm->copy_port;
    warp->access = now + sm->warp_interval;
    warp->sent = core->port_until + sm->operand_latency;
    for (int64_t i = 0; i < item->reads_count; i++)
        warp->pinned_array[item->reads_array[i]] = warp->sent;
    last = soonest;
    if (sm->pipe_cycles)
        place(sm, cta, soonest, sm->pipe_cycles, TAKEN, 1, &first, &last);
    sm->outside_turn_array[warp->place] = last + sm->wavefront_interval;
    sm->shared_busy_array[cta] += sm->pipe_cycles * sm->cycles;
    int64_t out = most(last, sm->path_free_array[cta]) + cycles;
    sm->path_free_array[cta] = out;
    sm->path_busy_array[cta] += cycles;
    sm->behind_array[warp->place] = out;
    sm->between_array[warp->place] = 0;
    return out;
}

/* `L2Path.share`, of reads. */
static int64_t share_of_l2(Sm *sm, int64_t cta, int64_t soonest, int64_t size, int64_t lines) {
    if (!sm->l2_rate)
        return soonest;
    int64_t *free = sm->l2_free_array + cta, asked = (size + lines * sm->l2_request) * sm->l2_sms;
    *free = most(soonest * sm->l2_rate - sm->l2_burst, *free + asked);
    return *free > 0 ? most(soonest, (*free + sm->l2_rate - 1) / sm->l2_rate) : soonest;
}

/* `GlobalMemory.fetch`, of a copy. */
static int64_t copy(Sm *sm, Core *core, Warp *warp, const Item *item, int64_t now) {
    int64_t word = next_cost(warp), lines = word & ((1 << BYTES_AT) - 1); /* `fetched_word` */
    int64_t bytes = word >> BYTES_AT & ((1 << (CACHED_AT - BYTES_AT)) - 1), cycles = lines * sm->line_cycles;
    if (word >> CACHED_AT)
        cycles = most(cycles, sm->cached_cycles);
    int64_t soonest = ask_for(sm, core, warp, item, cycles, now) + sm->copy_latency;
    int64_t arrival = share_of_l2(sm, warp->cta, soonest, bytes, lines);
    warp->copied = most(warp->copied, arrival);
    sm->end = most(sm->end, arrival);
    return 1;
}

static int64_t start(Sm *sm, Core *core, Warp *warp, const Item *item, int64_t now) {
    int64_t latency = item->latency;
    warp->operands_not_before = now + item->operand_stall;
    warp->issue_not_before = now + item->stall;
    warp->issue_not_before_reason = item->stall_reason;
    warp->gone = item->unit == sm->control ? now + core->depth : NEVER;
    if (item->copies)
        return copy(sm, core, warp, item, now);
    if (item->unit == sm->shared) {
        access_shared(sm, core, warp, item, now);
        return 1;
    }
    if (item->returning)
        ask(sm, warp, now);
    take(sm, core, warp, item, now);
    if (item->unit == sm->tensor) {
        share_port(sm, core, warp, item, now);
        if (core->stores)
            leave_gap(sm, core, warp->cta, item, now);
        sm->tensor_busy_array[core->number] += item->interval;
    } else if (item->unit == sm->alu) {
        sm->alu_busy_array[core->number] += item->interval;
    }
    for (int64_t i = 0; i < item->writes_count; i++) {
        int64_t reg = item->writes_array[i];
        warp->ready_array[reg] = now + latency;
        warp->producers_array[reg] = item->unit;
    }
    return latency;
}

static void branch(const Sm *sm, Warp *warp, int64_t pc) {
    const Item *end = &warp->items_array[pc];
    int64_t cycle = warp->starts_array[end->loop] + sm->loop_minimum;
    if (cycle > warp->issue_not_before) {
        warp->issue_not_before = cycle;
        warp->issue_not_before_reason = sm->branch;
    }
    int64_t read = unread(warp, end);
    if (sm->cores_array[0]->depth || read >= NEVER) {
        warp->ended = pc + 1;
    } else if (read > warp->issue_not_before) {
        warp->issue_not_before = read;
        warp->issue_not_before_reason = sm->reason_shared;
    }
    warp->starts_array[end->loop] = warp->issue_not_before;
}

static int is_reference(const Sm *sm, const Warp *candidate, int64_t now) {
    for (int64_t i = 0; i < sm->warps; i++) {
        const Warp *warp = sm->warps_array[i];
        if (warp == candidate)
            return 1;
        if (!warp->done && warp->last > now - ASLEEP && next_of(warp)->looped)
            return 0;
    }
    return 1;
}

/* fetching.py */

enum { SEQUENTIAL, BEHIND, QUEUED, FRESH };
enum { AGAIN = 1, QUIET = 2, FLAGS = 4, FIRST = 2 }; /* of reading.py */

/* Quotient and remainder of a number that is not negative; quick for powers of two, as the config's mostly are. */
static inline int64_t quotient(int64_t number, int64_t by) {
    return by & (by - 1) ? number / by : number >> __builtin_ctzll((uint64_t)by);
}

static inline int64_t remainder_of(int64_t number, int64_t by) {
    return by & (by - 1) ? number % by : number & (by - 1);
}

/* `Reading.reads_from`. */
static int64_t reads_from(const Sm *sm, const Warp *warp) {
    if (warp->stands < 0 || warp->line < 0 || warp->done || warp->reads >= warp->stands + sm->line_room)
        return NEVER;
    int64_t line = quotient(warp->reads, sm->line_places), freed = warp->freed_array[remainder_of(warp->reads, sm->line_room)];
    return line >= warp->lines_end ? NEVER : most(freed / FLAGS + 1, warp->lines_array[line % LINES] - sm->line_read);
}

/* Notes from when on the warp can read, whenever that may have changed. */
static void look_ahead(const Sm *sm, Warp *warp) {
    Core *core = sm->cores_array[warp->core];
    warp->reads_at = reads_from(sm, warp);
    core->reading_from = least(core->reading_from, warp->reads_at);
}

static void leave_line(const Sm *sm, Warp *warp, int64_t line, int64_t now) {
    warp->line = line;
    if (warp->requests == NEVER && warp->redirected == NEVER && warp->lines_end < line + sm->lines) {
        warp->requests = now + sm->line_request;
        warp->asked = SEQUENTIAL;
        warp->returned = 0;
    }
}

static void come_to(const Sm *sm, Core *core, Warp *warp, const Item *item, int64_t now, int jumped) {
    int64_t line = next_of(warp)->cache_line, before = item->cache_line;
    if (!sm->lines || line < 0) {
        warp->line = warp->stands = -1;
        return;
    }
    core->addressed = 1;
    if (jumped || line != before || warp->line < 0)
        core->lines_from = 0;
    if (warp->line < 0) {
        warp->line = before >= 0 ? before : line;
        warp->lines_end = warp->line + sm->lines;
        warp->requests = warp->redirected = NEVER;
        for (int64_t i = 0; i < LINES; i++)
            warp->lines_array[i] = 0;
    }
    if (jumped || (line != before && line != before + 1)) {
        if (item->line_place == sm->line_places - 1)
            leave_line(sm, warp, before + 1, now);
        warp->redirected = most(warp->issue_not_before - sm->line_latency, now + 1);
        warp->target = line * sm->line_places + next_of(warp)->line_place;
        warp->returned = item->returning;
        return;
    }
    if (line != before)
        leave_line(sm, warp, line, now);
    if (next_of(warp)->line_place != remainder_of(item->line_place + 1 + item->upkeep_count, sm->line_places))
        warp->stands = -1; /* nobody knows what is between */
}

static int64_t next_fetch(const Core *core) {
    int64_t soonest = NEVER;
    for (int64_t i = 0; i < core->warps; i++) {
        const Warp *warp = core->warps_array[i];
        if (warp->line >= 0 && !warp->done)
            soonest = least(soonest, least(warp->redirected, most(warp->requests, core->fetch_free)));
    }
    return soonest;
}

static int64_t served(const Core *core, int64_t cycle) {
    int64_t best = -1, found = -1;
    for (int64_t i = 0; i < core->warps; i++) {
        const Warp *warp = core->warps_array[i];
        if (warp->line < 0 || warp->done || warp->requests > cycle)
            continue;
        const int64_t ranks[] = {i == core->fetcher, 2, 3, 1}; /* by what it asks for */
        int64_t rank = 2 * ranks[warp->asked] + (warp->redirected == NEVER && warp->returned);
        if (rank >= best) {
            best = rank;
            found = i;
        }
    }
    return found;
}

static void fetch_line(const Sm *sm, Core *core, int64_t place, int64_t cycle) {
    Warp *warp = core->warps_array[place];
    warp->lines_array[warp->lines_end++ % LINES] = cycle + sm->line_latency + (warp->asked != FRESH);
    core->fetcher = place;
    core->fetch_free = cycle + sm->line_interval;
    warp->asked = warp->asked >= QUEUED ? BEHIND : SEQUENTIAL;
    warp->requests = warp->lines_end < warp->line + sm->lines ? cycle + sm->line_request : NEVER;
    look_ahead(sm, warp);
}

static void come_to_target(Warp *warp) {
    warp->stands = warp->reads = warp->landed = warp->target;
    for (int64_t i = 0; i < ROOMS; i++)
        warp->freed_array[i] = 0;
}

static void fetch_in(const Sm *sm, Core *core, int64_t cycle) {
    int64_t place, coming = 0;
    for (int64_t i = 0; i < core->warps; i++)
        coming += core->warps_array[i]->redirected == cycle;
    int idle = core->fetch_free < cycle;
    for (int64_t i = 0; i < core->warps; i++) {
        Warp *warp = core->warps_array[i];
        if (warp->redirected == cycle) {
            warp->line = warp->lines_end = quotient(warp->target, sm->line_places);
            warp->redirected = NEVER;
            warp->requests = cycle;
            warp->asked = idle && coming > 1 ? QUEUED : FRESH;
            if (warp->stands >= 0)
                come_to_target(warp);
            look_ahead(sm, warp);
        }
    }
    if (core->fetch_free <= cycle && (place = served(core, cycle)) >= 0)
        fetch_line(sm, core, place, cycle);
    for (int64_t i = 0; i < core->warps; i++) {
        Warp *warp = core->warps_array[i];
        if (warp->requests == cycle && warp->asked == FRESH) {
            warp->requests = cycle + sm->line_request;
            if (!idle)
                warp->asked = QUEUED;
        }
    }
}

/* reading.py */

static void begin_reading(const Sm *sm, Warp *warp, int64_t address) {
    warp->stands = address;
    warp->reads = address + sm->line_room;
    warp->landed = address - sm->line_room;
    for (int64_t i = 0; i < ROOMS; i++)
        warp->there_array[i] = 0;
}

static void make_room(const Sm *sm, const Core *core, int64_t place, int64_t now, int hinted) {
    Warp *warp = core->warps_array[place];
    int again = core->favourite == place, quiet = hinted || (again && warp->gives_way);
    warp->freed_array[remainder_of(warp->stands, sm->line_room)] = FLAGS * now + QUIET * quiet + AGAIN * again;
    warp->stands++;
    warp->reads = most(warp->reads, warp->stands);
    look_ahead(sm, warp);
}

static void begin(const Sm *sm, const Core *core, int64_t place, int64_t now) {
    Warp *warp = core->warps_array[place];
    const Item *item = next_of(warp);
    if (!sm->lines || !sm->line_read || item->cache_line < 0)
        return;
    int64_t address = item->cache_line * sm->line_places + item->line_place;
    if (warp->stands != address)
        begin_reading(sm, warp, address);
    make_room(sm, core, place, now, item->yields);
}

static int64_t fetched(const Sm *sm, const Core *core, const Warp *warp) {
    int64_t line = next_of(warp)->cache_line;
    if (line < 0)
        return 0;
    if (warp->redirected != NEVER)
        return core->fetch_cycle + 1;
    if (warp->stands < 0)
        return line >= warp->lines_end ? core->fetch_cycle + 1 : warp->lines_array[line % LINES];
    int64_t address = line * sm->line_places + next_of(warp)->line_place;
    return address < warp->reads ? warp->there_array[remainder_of(address, sm->line_room)] : core->fetch_cycle + 1 + sm->line_read;
}

static int rank(const Sm *sm, const Warp *warp, int64_t cycle) {
    int64_t behind = warp->reads - warp->landed, freed = warp->freed_array[remainder_of(warp->reads, sm->line_room)];
    if (behind >= 0 && behind < sm->line_room)
        return behind < FIRST ? 3 : 1;
    if (freed & QUIET)
        return 0;
    return (freed & AGAIN) && freed / FLAGS + 1 == cycle ? 4 : 2;
}

static void read_ahead(const Sm *sm, Core *core, int64_t cycle) {
    int best[2] = {-1, -1};
    Warp *found[2] = {0, 0};
    core->reading_from = NEVER;
    for (int64_t i = 0; i < core->warps; i++) {
        Warp *warp = core->warps_array[i];
        if (warp->reads_at > cycle) {
            core->reading_from = least(core->reading_from, warp->reads_at);
            continue;
        }
        int64_t bank = warp->reads & 1;
        int its = rank(sm, warp, cycle);
        if (found[bank])
            core->reading_from = cycle + 1; /* one of both reads later */
        if (its >= best[bank]) {
            best[bank] = its;
            found[bank] = warp;
        }
    }
    for (int bank = 0; bank < 2; bank++) {
        if (!found[bank])
            continue;
        found[bank]->there_array[remainder_of(found[bank]->reads++, sm->line_room)] = cycle + sm->line_read;
        look_ahead(sm, found[bank]);
    }
    core->fetch_cycle = cycle;
}

static void fetch(const Sm *sm, Core *core, int64_t now) {
    while (core->addressed) {
        if (core->lines_from <= now)
            core->lines_from = next_fetch(core);
        int64_t line = core->lines_from, read = most(core->reading_from, core->fetch_cycle + 1);
        if (least(line, read) > now)
            break;
        if (line <= read)
            fetch_in(sm, core, line);
        else
            read_ahead(sm, core, read);
    }
    core->fetch_cycle = now;
}

/* yielding.py */

static void note_busy(Warp *warp, int64_t now) {
    warp->untried = warp->busy = 0;
    for (int64_t board = 0; board < 2 * BOARDS; board++)
        warp->busy |= (int64_t)(warp->boards_array[board] > now) << board;
}

static void come_to_wait(Warp *warp, const Item *before) {
    const Item *item = next_of(warp);
    int older = 0, own = 0;
    if (warp->upkeep_count)
        return;
    for (int64_t i = 0; i < item->awaits_count; i++) {
        int64_t board = item->awaits_array[i];
        older |= warp->busy >> board & 1;
        own |= board == before->frees || board == before->fills;
    }
    if (older)
        warp->gives_way = 1;
    else
        warp->untried = own;
}

static void try_waiting(const Sm *sm, const Core *core, int64_t now) {
    for (int64_t i = 0; i < core->warps; i++) {
        Warp *warp = core->warps_array[i];
        int64_t begins = warp->issue_not_before;
        if (!warp->untried || begins > now)
            continue;
        warp->untried = 0;
        int idle = 1;
        for (int64_t j = 0; j < core->warps; j++)
            idle &= j == i || core->warps_array[j]->acted != begins - 1;
        if (idle && warp->operands_ready > begins && begins > pipe_free(sm, core, next_of(warp)))
            warp->gives_way = 1;
    }
}

/* Returns BOUNDARY if a repetition may be found, OVER if the program is over, of the warp in boundary_warp; else 0. */
static int advance(Sm *sm, Warp *warp, int64_t now) {
    int64_t pc = warp->pc + 1, last = warp->pc, found = 0;
    const Item *item = next_of(warp);
    warp->ended = 0;
    if (!warp->blocked && warp->issue_not_before <= now)
        warp->issue_not_before = 0;
    for (const Item *end; pc < warp->items && (end = &warp->items_array[pc])->loop >= 0;) {
        branch(sm, warp, pc);
        if (++warp->counts_array[end->loop] < end->loop_count) {
            if (sm->skip && is_reference(sm, warp, now)) {
                sm->boundary_warp = warp->place;
                sm->boundary_item = pc;
                found = BOUNDARY;
            }
            pc = end->loop_start;
        } else {
            warp->counts_array[end->loop] = 0;
            pc++;
        }
    }
    warp->pc = pc;
    if (pc < warp->items) {
        prepare(sm, warp);
        if (sm->policy == LEAST_ISSUED)
            come_to_wait(warp, item);
        come_to(sm, sm->cores_array[warp->core], warp, item, now, item->unit == sm->control || pc <= last);
        look_ahead(sm, warp);
        return found;
    }
    warp->done = 1;
    warp->upkeep_count = 0;
    look_ahead(sm, warp);
    sm->boundary_warp = warp->place;
    return OVER;
}

/* The cycle in which an instruction of the warp's upkeep issues next; NEVER if none is to come. */
static int64_t due(const Warp *warp) {
    return warp->upkeep_seen < warp->upkeep_count ? warp->upkeep_array[warp->upkeep_seen] >> 1 : NEVER;
}

/* Issues, up to the point where the operation starts. */
static const Item *issue(Sm *sm, Core *core, Warp *warp, int64_t now) {
    const Item *item = next_of(warp);
    account(sm, core, warp, item, now);
    core->issues = core->last_issue == now ? core->issues + 1 : 1;
    core->last_issue = warp->last = now;
    warp->upkeep_seen = 0;
    warp->upkeep_count = item->upkeep_count;
    warp->counter = item->counter;
    warp->runs = item->runs;
    for (int64_t i = 0; i < item->upkeep_count; i++)
        warp->upkeep_array[i] = 2 * now + item->upkeep_array[i];
    core->due_from = least(core->due_from, due(warp));
    sm->issued_array[core->number]++;
    if (core->counting && warp->scheduled)
        note_busy(warp, now);
    return item;
}

/* cores.py */

static int64_t earliest(const Sm *sm, const Core *core, const Warp *warp) {
    int64_t cycle = most(most(pipe_free(sm, core, next_of(warp)), warp->operands_ready), warp->issue_not_before);
    if (warp->line < 0)
        return cycle;
    return most(cycle, fetched(sm, core, warp));
}

/* `SubCore.stalls`. */
static int stalls(const Sm *sm, const Warp *warp) {
    return sm->queue_full_array[warp->cta] && next_of(warp)->queued;
}

static int64_t next_issue(const Sm *sm, const Core *core, int64_t soonest) {
    int64_t first = NEVER;
    for (int64_t i = 0; i < core->warps; i++) {
        const Warp *warp = core->warps_array[i];
        if (warp->done || warp->blocked || most(warp->operands_ready, warp->issue_not_before) >= first || stalls(sm, warp))
            continue;
        int64_t cycle = earliest(sm, core, warp);
        if (cycle <= soonest)
            return soonest;
        first = least(first, cycle);
    }
    return first;
}

static int able(const Sm *sm, const Core *core, const Warp *warp, int64_t now) {
    if (warp->issue_not_before > now || warp->operands_ready > now || warp->done || warp->blocked)
        return 0;
    return pipe_free(sm, core, next_of(warp)) <= now && !stalls(sm, warp) && (warp->line < 0 || fetched(sm, core, warp) <= now);
}

/* Whether the policy takes account of yield hints. */
static int hinted(const Sm *sm) { return sm->policy == GREEDY_ROUND_ROBIN || sm->policy == LEAST_ISSUED; }

/* Notes whether what the warp issues has the yield hint. */
static void give_way(Core *core, Warp *warp, int64_t yields) {
    warp->gives_way = yields;
    if (yields && core->depth)
        let_go(core, warp->place);
}

/* Whether the last instruction of the warp at one place is older than that of another. */
static int older(const Core *core, int64_t one, int64_t other) {
    int64_t acted = core->warps_array[one]->acted, its = core->warps_array[other]->acted;
    return acted < its || (acted == its && one < other);
}

/* Counts what has issued up to `counted_behind` cycles before this one. */
static void see(Core *core, int64_t now) {
    for (; core->issues_seen < core->issues_made; core->issues_seen++) {
        const int64_t *at = core->recent_array + 2 * (core->issues_seen & (core->room - 1));
        if (at[0] > now - core->counted_behind)
            return;
        Warp *warp = core->warps_array[at[1]];
        if (warp->counted < core->most_counted)
            warp->counted++;
        else
            for (int64_t i = 0; i < core->warps; i++)
                core->warps_array[i]->counted >>= 1;
    }
}

/* Notes that the warp at this place issues in this cycle. */
static void act(Core *core, int64_t place, int64_t now) {
    core->favourite = place;
    core->turned = core->warps_array[place]->acted = now;
    if (!core->counting)
        return;
    int64_t *at = core->recent_array + 2 * (core->issues_made++ & (core->room - 1));
    at[0] = now;
    at[1] = place;
}

/* Whether the warp that issued last goes on before all others, if it can and had no yield hint. */
static int goes_on(const Sm *sm, const Core *core, const Warp *warp, int64_t now) {
    int64_t since = now - core->turned;
    if (due(warp) == now || since < core->greedy)
        return 1;
    if (warp->line >= 0 && fetched(sm, core, warp) >= now)
        return 0;
    const Item *item = next_of(warp);
    int is_short = item->unit == sm->alu || item->unit == sm->fma || item->unit == sm->control;
    return core->counting && ((is_short && since == core->greedy) || pipe_free(sm, core, item) < now);
}

/* Whether of two warps that can issue the policy prefers the first, as `SubCore.first` says: `turn`, how far it is
 * behind the one that issued last. */
static int before(const Core *core, int64_t one, int64_t turn, int64_t other, int64_t its) {
    const Warp *a = core->warps_array[one], *b = core->warps_array[other];
    if (a->gives_way != b->gives_way)
        return !a->gives_way;
    if (core->counting)
        return a->counted < b->counted || (a->counted == b->counted && one > other);
    return a->gives_way ? older(core, one, other) : turn < its;
}

/* The place of the warp that a policy with yield hints prefers in a cycle, of those with upkeep, and where
 * `operations`, of those that can issue; -1 for none, or if `operations` and none can issue. */
static int64_t first(const Sm *sm, const Core *core, int64_t now, int operations) {
    int64_t count = core->warps, best = -1, its = 0, some = !operations, goes = 0, upkeep = core->due_from <= now;
    for (int64_t turn = 0; turn < count && !(goes && some); turn++) {
        int64_t at = core->favourite + turn < count ? core->favourite + turn : core->favourite + turn - count;
        const Warp *warp = core->warps_array[at];
        int can = operations && able(sm, core, warp, now);
        some |= can;
        if (goes || !(can || (upkeep && due(warp) == now)))
            continue;
        int64_t behind = turn ? turn : count;
        goes = turn == 0 && !warp->gives_way && goes_on(sm, core, warp, now);
        if (best < 0 || before(core, at, behind, best, its)) {
            best = at;
            its = behind;
        }
    }
    return some ? best : -1;
}

/* Lets an instruction of the warp's upkeep issue in this cycle. */
static void keep_up(const Sm *sm, Core *core, int64_t place, int64_t now) {
    Warp *warp = core->warps_array[place];
    if (warp->stands >= 0)
        make_room(sm, core, place, now, warp->upkeep_array[warp->upkeep_seen] & 1);
    act(core, place, now);
    int64_t compares = moved_down(warp->counter, warp->upkeep_seen) & 1;
    give_way(core, warp, warp->upkeep_array[warp->upkeep_seen++] & 1);
    if (core->depth && compares)
        enter(core, warp, warp->runs, 0, 0, warp->gives_way);
    if (warp->line >= 0 && warp->upkeep_seen == warp->upkeep_count && warp->issue_not_before_reason == sm->branch)
        warp->gone = now + core->depth; /* the last is the branch */
}

/* Lets the upkeep that is due in this cycle come a cycle later. */
static void postpone(Core *core, int64_t now) {
    if (core->due_from > now)
        return;
    for (int64_t i = 0; i < core->warps; i++) {
        Warp *warp = core->warps_array[i];
        if (due(warp) == now)
            put_off(warp, 1, now);
    }
}

/* Instructions that have issued in this cycle. */
static int64_t issued_in(const Core *core, int64_t now) { return core->last_issue == now ? core->issues : 0; }

/* Lets upkeep issue that comes before this cycle. */
static void settle(Sm *sm, Core *core, int64_t now) {
    while (hinted(sm) && core->due_from < now) {
        int64_t cycle = NEVER, place = 0, alone = 1;
        for (int64_t i = 0; i < core->warps; i++) {
            int64_t its = due(core->warps_array[i]);
            if (its < cycle) {
                cycle = its;
                place = i;
                alone = 1;
            } else if (its == cycle) {
                alone = 0;
            }
        }
        core->due_from = cycle;
        if (cycle >= now)
            break;
        if (core->depth && core->read_cycle < cycle) {
            catch_up(sm, core, cycle); /* it may be put off */
            continue;
        }
        see(core, cycle);
        fetch(sm, core, cycle);
        int64_t slots = sm->width - issued_in(core, cycle);
        if (alone && slots > 0) {
            keep_up(sm, core, place, cycle);
            if (due(core->warps_array[place]) != cycle)
                continue;
            slots--;
        }
        for (; slots > 0; slots--)
            if ((place = first(sm, core, cycle, 0)) >= 0)
                keep_up(sm, core, place, cycle);
        postpone(core, cycle);
    }
    if (core->depth)
        catch_up(sm, core, now);
    see(core, now);
    fetch(sm, core, now);
}

/* The place of the warp to issue from under a policy with yield hints; -1 for none. */
static int64_t choose_hinted(const Sm *sm, Core *core, int64_t now) {
    for (int64_t slots = sm->width - issued_in(core, now); slots > 0; slots--) {
        int64_t place = first(sm, core, now, 1);
        if (place < 0 || due(core->warps_array[place]) != now)
            return place;
        keep_up(sm, core, place, now);
        core->issues = issued_in(core, now) + 1;
        core->last_issue = now;
    }
    postpone(core, now);
    return -1;
}

/* The place of the warp to issue from; -1 for none. */
static int64_t choose(Sm *sm, Core *core, int64_t now) {
    if (core->last_issue >= now && (core->last_issue > now || core->issues >= sm->width))
        return -1;
    settle(sm, core, now);
    if (core->frozen)
        return -1;
    if (core->counting)
        try_waiting(sm, core, now);
    if (hinted(sm))
        return choose_hinted(sm, core, now);
    int64_t count = core->warps, begin = sm->policy == OLDEST ? 0 : core->favourite;
    for (int64_t i = 0; i < count; i++) {
        int64_t at;
        if (sm->policy == GREEDY_OLDEST)
            at = i == 0 ? begin : i <= begin ? i - 1 : i;
        else
            at = begin + i < count ? begin + i : begin + i - count;
        if (able(sm, core, core->warps_array[at], now))
            return at;
    }
    return -1;
}

static int64_t open_from(const Sm *sm, const Core *core) {
    return core->last_issue + (core->issues >= sm->width || core->last_issue > sm->now);
}

static void wake(const Sm *sm, Core *core, int64_t cycle) {
    core->tick = least(core->tick, most(most(cycle, sm->now), open_from(sm, core)));
}

static int ends_program(const Warp *warp) {
    for (int64_t pc = warp->pc + 1; pc < warp->items; pc++) {
        const Item *item = &warp->items_array[pc];
        if (item->loop < 0 || warp->counts_array[item->loop] + 1 < item->loop_count)
            return 0;
    }
    return 1;
}

/* Whether Python must take the whole step: the last one of a program that works on after issue or waits, and for a gap
 * for which the window is too short. */
static int for_python(const Sm *sm, const Core *core, const Warp *warp, int64_t now) {
    const Item *item = next_of(warp);
    if (item->python)
        return ends_program(warp);
    return item->unit != sm->shared && core->stores && !has_room(sm, warp->cta, now, core->stores);
}

/* shared_memory.py: what the SM serves */

/* The access at a place of an SM's queue, and its warp. */
typedef struct {
    int64_t place;
    const Waiting *access;
    Core *core;
    Warp *warp;
} Head;

static Head waiting_at(const Sm *sm, int64_t cta, int64_t place) {
    const Waiting *access = &sm->waiting_array[cta * sm->room + place];
    Core *core = sm->cores_array[access->core];
    return (Head){place, access, core, core->warps_array[access->warp]};
}

/* Whether this is the first access of its warp in the queue. */
static int is_head(const Sm *sm, int64_t cta, const Head *head) {
    for (int64_t place = 0; place < head->place; place++)
        if (waiting_at(sm, cta, place).warp == head->warp)
            return 0;
    return 1;
}

static int64_t free_from(const Sm *sm, int64_t cta, int64_t cycle, int load) {
    const uint8_t *taken = sm->taken_array + cta * sm->window - sm->first_array[cta];
    int64_t slot = cycle * sm->wavefronts, until = sm->taken_until_array[cta];
    for (int64_t clear = 0; clear < sm->cycles && slot + clear < until;) {
        if (taken[slot + clear] == TAKEN || (taken[slot + clear] && !load)) {
            slot += clear + 1;
            clear = 0;
        } else {
            clear++;
        }
    }
    return slot / sm->wavefronts;
}

static int is_load(const Head *head) { return !head->warp->items_array[head->access->pc].slow; }

/* `SharedMemory.can_take`. */
static int can_take(const Sm *sm, int64_t cta, const Core *core) {
    return core->accesses_taken < core->accesses_made && sm->waits_array[cta] < sm->waiting;
}

/* `SharedMemory.stored`. */
static int64_t stored(const Sm *sm, const Core *core) {
    const Sending *sent = sending_at(sm, core, core->accesses_taken);
    const Item *item = &core->warps_array[sent->warp]->items_array[sent->pc];
    return item->writes_count ? 0 : item->sent - 1;
}

static int64_t *first_sender(const Sm *sm, int64_t cta) {
    int64_t *senders = sm->senders_array + cta * sm->senders, best = 0;
    for (int64_t i = 1; i < sm->senders; i++)
        best = senders[i] < senders[best] ? i : best;
    return senders + best;
}

/* `SharedMemory.comes`. */
static int64_t comes(const Sm *sm, int64_t cta, const Core *core) {
    int64_t soonest = sending_at(sm, core, core->accesses_taken)->soonest;
    return stored(sm, core) ? most(soonest, *first_sender(sm, cta)) : soonest;
}

/* return_path.py */

static Register *on_way_of(const Sm *sm, int64_t cta) { return sm->on_way_array + sm->on_way_most * cta; }

static int64_t fits_from(const Sm *sm, int64_t cta, const Item *item, int64_t cycle) {
    int64_t count = item->writes_count, places = item->together ? least(count, 1) : count;
    if (!places)
        return cycle;
    if (sm->on_way_count_array[cta] + count > sm->on_way_most)
        return cycle + 1;
    const Register *on_way = on_way_of(sm, cta);
    int64_t left = sm->loads - places;
    for (int64_t i = sm->on_way_count_array[cta] - 1; i >= 0; i--) {
        int64_t free = on_way[i].slot / sm->returns + sm->freed;
        if (free <= cycle)
            break;
        left -= on_way[i].place;
        if (left < 0)
            return free;
    }
    return cycle;
}

/* `ReturnPath.add`. */
static void add_registers(Sm *sm, int64_t cta, Register load, const Item *item, int64_t first, int64_t last) {
    int64_t count = item->writes_count, *end = sm->on_way_count_array + cta, at = 0, found = *end;
    int64_t step = item->together ? 0 : (last - first) / most(count - 1, 1);
    Register *on_way = on_way_of(sm, cta);
    for (int64_t i = 0; i < count; i++) {
        load.soonest = (last + 1 - (count - 1 - i) * step) * sm->returns;
        load.bank = INT64_C(1) << item->writes_array[i] % BANKS;
        load.final = i == count - 1;
        load.place = !item->together || load.final;
        while (at < *end && on_way[at].soonest <= load.soonest)
            at++;
        memmove(on_way + at + 1, on_way + at, (*end - at) * sizeof *on_way);
        on_way[at] = load;
        found = least(found, at);
        ++*end;
    }
    int64_t left = most(sm->left_array[cta], found ? on_way[found - 1].slot : 0);
    for (int64_t i = found; i < *end; i++)
        left = on_way[i].slot = most(on_way[i].soonest, left + 1);
}

/* `ReturnPath.held`. */
static int64_t banks_held(const Sm *sm, const Core *core, int64_t slot) {
    int64_t cycle = slot / sm->returns + sm->ahead - sm->written, word = core->writes_held_array[cycle % HELD];
    return word >> BANKS == cycle ? word & BOTH : 0;
}

/* `ReturnPath.due`. */
static int64_t returns_due(const Sm *sm, int64_t cta) {
    if (!sm->on_way_count_array[cta])
        return NEVER;
    return most(on_way_of(sm, cta)->slot, sm->decided_array[cta]) / sm->returns + sm->wait;
}

static int64_t next_written(const Sm *sm, int64_t cta, int64_t slot) {
    const Register *on_way = on_way_of(sm, cta);
    int64_t each = sm->cores / sm->sms, found = -1, turn = each;
    for (int64_t i = 0; i < sm->on_way_count_array[cta] && on_way[i].slot <= slot; i++) {
        int64_t its = (on_way[i].core - sm->last_written_array[cta] - 1 + each) % each, seen = 0;
        for (int64_t before = 0; before < i && !seen; before++)
            seen = on_way[before].core == on_way[i].core;
        if (!seen && its < turn && !(on_way[i].bank & banks_held(sm, sm->cores_array[on_way[i].core], slot))) {
            found = i;
            turn = its;
        }
    }
    return found;
}

/* The SM's sub-cores are `first` to before `end`. */
static int64_t next_decision(const Sm *sm, int64_t cta, int64_t first, int64_t end, int64_t cycle) {
    int64_t found = NEVER;
    for (int64_t i = first; i < end; i++) {
        const Core *core = sm->cores_array[i];
        if (can_take(sm, cta, core))
            found = least(found, most(comes(sm, cta, core), cycle));
    }
    for (int64_t place = 0; place < sm->waits_array[cta] && found > cycle; place++) {
        Head head = waiting_at(sm, cta, place);
        if (place >= sm->reach && is_load(&head))
            continue;
        int64_t soonest = most(most(sm->turn_array[head.warp->place], head.access->behind), cycle);
        if (soonest < found && is_head(sm, cta, &head)) {
            soonest = fits_from(sm, cta, &head.warp->items_array[head.access->pc], soonest);
            found = least(found, free_from(sm, cta, soonest, is_load(&head)));
        }
    }
    return found;
}

/* `SharedMemory.wait_for_senders`. */
static void wait_for_senders(Sm *sm, int64_t cta, int64_t first, int64_t end, int64_t cycle) {
    for (int64_t i = first; i < end; i++) {
        Core *core = sm->cores_array[i];
        if (core->accesses_taken == core->accesses_made)
            continue;
        Sending *sent = sending_at(sm, core, core->accesses_taken);
        int64_t late = comes(sm, cta, core) - sent->soonest;
        if (sent->soonest > cycle || late <= 0)
            continue;
        sent->soonest += late;
        put_off_access(core, sent, late);
        Warp *warp = core->warps_array[sent->warp];
        if (!warp->done)
            prepare(sm, warp);
    }
}

/* `SharedMemory.take`. */
static void take_access(Sm *sm, int64_t cta, int64_t first, int64_t end, int64_t cycle) {
    Core *found = NULL;
    for (int64_t i = first; i < end; i++) {
        Core *core = sm->cores_array[i];
        if (can_take(sm, cta, core) && comes(sm, cta, core) <= cycle &&
            (!found || core->taken_at < found->taken_at))
            found = core;
    }
    if (found) {
        int64_t values = stored(sm, found);
        if (values)
            *first_sender(sm, cta) = cycle + values * sm->port_cycles;
        const Sending *sent = sending_at(sm, found, found->accesses_taken++);
        sm->waiting_array[cta * sm->room + sm->waits_array[cta]++] =
            (Waiting){.core = found->number, .warp = sent->warp, .pc = sent->pc, .count = sent->count, .ready = sent->ready,
                      .behind = sent->behind};
        found->taken_at = cycle;
        if (!found->depth)
            find_room(sm, found);
        else
            release_access(sm, found, found->accesses_taken, cycle + sm->lag);
    }
}

/* `SharedMemory.done`. */
static void done(Sm *sm, Core *core, Warp *warp, const Item *item, int64_t before, int64_t ready) {
    become_ready(warp, item, before, ready);
    sm->end = most(sm->end, ready);
    if (warp->done)
        return;
    prepare(sm, warp);
    if (!warp->blocked)
        wake(sm, core, earliest(sm, core, warp));
}

static void begins(Sm *sm, const Head *head, int64_t cycle) {
    const Waiting *access = head->access;
    Warp *warp = head->warp;
    const Item *item = &warp->items_array[access->pc];
    int64_t first, last;
    place(sm, warp->cta, cycle, access->count, TAKEN, !item->slow, &first, &last);
    sm->turn_array[warp->place] = last + sm->wavefront_interval;
    if (item->writes_count) {
        Register load = {.core = access->core, .warp = access->warp, .pc = access->pc, .ready = access->ready};
        add_registers(sm, warp->cta, load, item, first, last);
    } else {
        done(sm, head->core, warp, item, access->ready, last + (sm->cycles + sm->wavefronts - 1) / sm->wavefronts);
    }
}

/* `SharedMemory.begin`. */
static void begin_access(Sm *sm, int64_t cta, int64_t cycle) {
    Waiting *waiting = sm->waiting_array + cta * sm->room, *refused = NULL;
    int64_t *waits = sm->waits_array + cta;
    int64_t reach = least(*waits, sm->reach - (sm->begun_array[cta] == cycle - 1));
    for (int64_t at = 0; at < *waits; at++) {
        Head head = waiting_at(sm, cta, at);
        if (at >= reach && is_load(&head))
            continue;
        if (most(sm->turn_array[head.warp->place], head.access->behind) > cycle || !is_head(sm, cta, &head) ||
            free_from(sm, cta, cycle, is_load(&head)) != cycle)
            continue;
        if (fits_from(sm, cta, &head.warp->items_array[head.access->pc], cycle) > cycle) {
            refused = refused ? refused : waiting + at;
            if (refused->passed < sm->passes)
                continue;
            return;
        }
        if (refused)
            refused->passed++;
        begins(sm, &head, cycle);
        sm->begun_array[cta] = cycle;
        --*waits;
        memmove(waiting + at, waiting + at + 1, (*waits - at) * sizeof *waiting);
        return;
    }
}

/* Notes when the values of a load are there: `SharedMemory.arrive`. */
static void arrive(Sm *sm, const Register *found, int64_t cycle) {
    Core *core = sm->cores_array[found->core];
    Warp *warp = core->warps_array[found->warp];
    const Item *item = &warp->items_array[found->pc];
    int64_t further = item->together ? (item->writes_count - 1) / sm->returns : 0;
    done(sm, core, warp, item, found->ready, cycle + item->latency - (sm->ahead + 1) - further);
}

/* `ReturnPath.take_out`. */
static void take_out(Sm *sm, int64_t cta, int64_t at, int64_t slot) {
    Register *on_way = on_way_of(sm, cta), found = on_way[at];
    int64_t *count = sm->on_way_count_array + cta;
    sm->last_written_array[cta] = found.core % (sm->cores / sm->sms);
    sm->left_array[cta] = most(sm->left_array[cta], found.slot);
    --*count;
    memmove(on_way + at, on_way + at + 1, (*count - at) * sizeof *on_way);
    if (found.final)
        arrive(sm, &found, slot / sm->returns + sm->ahead);
}

/* `ReturnPath.write`. */
static void write_registers(Sm *sm, int64_t cta, int64_t now) {
    int64_t until = least(now - sm->ahead + sm->written, now - sm->lag - sm->freed + 1) * sm->returns, slot = sm->decided_array[cta];
    while (slot < until && sm->on_way_count_array[cta]) {
        int64_t at = next_written(sm, cta, slot);
        if (at >= 0)
            take_out(sm, cta, at, slot);
        slot = most(slot + 1, sm->on_way_count_array[cta] ? on_way_of(sm, cta)->slot : 0);
    }
    sm->decided_array[cta] = most(sm->decided_array[cta], until);
}

/* Works out anew what only this engine remembers, as Python may have changed what it comes from. */
static void remember(Sm *sm) {
    for (int64_t i = 0; i < sm->cores; i++)
        sm->cores_array[i]->due_from = sm->cores_array[i]->lines_from = sm->cores_array[i]->reading_from = 0;
    for (int64_t i = 0; i < sm->warps; i++)
        look_ahead(sm, sm->warps_array[i]);
}

/* `SharedMemory.serve`. Returns whether the window was long enough; if not, Python goes on. */
static int serve_accesses(Sm *sm, int64_t cta, int64_t now) {
    int64_t each = sm->cores / sm->sms, first = cta * each, end = first + each;
    int64_t cycle = most(sm->served_array[cta], sm->serve_tick_array[cta] - sm->lag), until = now - sm->lag;
    int returns = returns_due(sm, cta) <= now;
    for (int64_t i = first; i < end; i++)
        if (returns || sm->cores_array[i]->accesses_read < sm->cores_array[i]->accesses_made)
            settle(sm, sm->cores_array[i], now);
    while ((cycle = next_decision(sm, cta, first, end, cycle)) <= until) {
        if (!has_room(sm, cta, cycle, sm->longest)) {
            sm->served_array[cta] = cycle;
            sm->serve_tick_array[cta] = now;
            return 0;
        }
        take_access(sm, cta, first, end, cycle);
        begin_access(sm, cta, cycle);
        wait_for_senders(sm, cta, first, end, cycle);
        cycle++;
    }
    sm->served_array[cta] = most(sm->served_array[cta], until + 1);
    if (returns)
        write_registers(sm, cta, now);
    sm->serve_tick_array[cta] = least(cycle < NEVER ? cycle + sm->lag : NEVER, returns_due(sm, cta));
    return 1;
}

/* Ends the step of a sub-core: its warp, if it has issued, goes on; then the sub-core plans its next step. */
static int end_step(Sm *sm, Core *core, Warp *warp) {
    int found = warp ? advance(sm, warp, sm->now) : 0;
    int64_t cycle = next_issue(sm, core, warp ? most(sm->now, open_from(sm, core)) : sm->now + 1);
    if (cycle != NEVER)
        wake(sm, core, cycle);
    return found;
}

/* Lets sub-cores step, the earliest and of these the first by number, until the next step is not before cycle `until`
 * (NOTHING_BEFORE), Python must take it (FOR_PYTHON) or start the operation that issues (START; both with the
 * sub-core's number in *number) or go on deciding what is served (SERVE), a repetition may be found (BOUNDARY), a program
 * is over (OVER), or `steps` steps are done (PAUSE). */
int64_t tcsim_engine_run(Sm *sm, int64_t until, int64_t steps, int64_t *number) {
    int64_t found;
    remember(sm);
    if (sm->started >= 0) {
        Core *core = sm->cores_array[sm->started];
        sm->started = -1;
        if ((found = end_step(sm, core, core->warps_array[sm->started_warp])))
            return found;
    }
    for (; steps > 0; steps--) {
        Core *core = sm->cores_array[0];
        for (int64_t i = 1; i < sm->cores; i++)
            if (sm->cores_array[i]->tick < core->tick)
                core = sm->cores_array[i];
        int64_t served = sm->serve_tick_array[0];
        for (int64_t i = 1; i < sm->sms; i++)
            served = least(served, sm->serve_tick_array[i]);
        if (least(core->tick, served) >= until)
            return NOTHING_BEFORE;
        if (served <= core->tick) {
            sm->now = served;
            for (int64_t i = 0; i < sm->sms; i++)
                if (sm->serve_tick_array[i] == served && !serve_accesses(sm, i, served))
                    return SERVE;
            continue;
        }
        if (core->tick >= sm->returns_look)
            look_at_returns(sm, core->tick);
        int64_t now = core->tick, chosen = choose(sm, core, now);
        Warp *warp = chosen < 0 ? NULL : core->warps_array[chosen];
        *number = core->number;
        if (warp && for_python(sm, core, warp, now))
            return FOR_PYTHON; /* which chooses anew: nothing may have been put off */
        if (warp && hinted(sm) && issued_in(core, now) + 1 == sm->width)
            postpone(core, now);
        sm->now = now;
        core->tick = NEVER;
        if (warp) {
            begin(sm, core, chosen, now);
            act(core, chosen, now);
            core->favourite = chosen + (sm->policy == ROUND_ROBIN);
            if (core->favourite == core->warps)
                core->favourite = 0;
            give_way(core, warp, next_of(warp)->yields);
            const Item *item = issue(sm, core, warp, now);
            if (item->python && !can_copy(sm, core, warp, item, now)) {
                sm->started = core->number;
                sm->started_warp = chosen;
                return START;
            }
            sm->end = most(sm->end, now + start(sm, core, warp, item, now));
        }
        if ((found = end_step(sm, core, warp)))
            return found;
    }
    return PAUSE;
}

/* The state of sub-cores, warps and shared memory relative to now, as `Skipper.state` has it. */

typedef struct {
    int64_t *words, length, capacity;
} Out;

static inline void put(Out *out, int64_t word) {
    if (out->length < out->capacity)
        out->words[out->length] = word;
    out->length++;
}

/* `records.left`. */
static inline void put_ahead(Out *out, int64_t cycle, int64_t now) { put(out, cycle < NEVER ? cycle - now : -NEVER); }

static inline void put_left(Out *out, int64_t cycle, int64_t now) { put(out, most(cycle - now, 0)); }

/* `records.relative`. */
static inline int64_t relative(int64_t cycle, int64_t now, int64_t accesses) {
    return cycle < NEVER ? cycle - now : cycle - NEVER - accesses - NEVER;
}

static void warp_state(const Sm *sm, const Warp *warp, int64_t accesses, Out *out) {
    int64_t now = sm->now;
    if (warp->done) {
        put(out, -1 - warp->blocked);
        put_left(out, warp->comparison + 2, now);
        return;
    }
    int64_t since = warp->blocked ? now : warp->last;
    put(out, warp->pc);
    put(out, warp->blocked);
    put(out, since - now);
    if (warp->blocked)
        put(out, most(warp->operands_not_before - warp->last - 1, 0));
    put(out, warp->issue_not_before > since);
    if (warp->issue_not_before > since) {
        put(out, warp->issue_not_before - now);
        put(out, warp->issue_not_before_reason);
        put(out, warp->operands_not_before - now);
        put(out, warp->gone < NEVER ? most(warp->gone - now + 1, 0) : -1);
    }
    put(out, warp->operands_ready > since);
    if (warp->operands_ready > since) {
        put_ahead(out, warp->operands_ready, now);
        put(out, warp->operands_reason);
    }
    put(out, warp->ended);
    put(out, warp->untried);
    put_left(out, warp->access, now);
    put_left(out, warp->sent, now);
    put_left(out, warp->comparison + 2, now);
    for (int64_t i = 0; i < warp->loops; i++)
        put_left(out, warp->starts_array[i] + sm->loop_minimum, now);
    for (int64_t i = 0; i < warp->registers; i++)
        if (warp->ready_array[i] + sm->margin > now) {
            put(out, i);
            put(out, relative(warp->ready_array[i], now, accesses));
            put(out, warp->producers_array[i]);
        }
    put(out, -1);
    for (int64_t i = 0; i < warp->registers; i++)
        if (warp->readable_array[i] + sm->margin > now) {
            put(out, i);
            put(out, warp->readable_array[i] - now);
        }
    put(out, -1);
    for (int64_t i = 0; i < warp->registers; i++)
        if (warp->pinned_array[i] > now) {
            put(out, i);
            put(out, warp->pinned_array[i] - now);
        }
    put(out, -1);
    for (int64_t i = 0; i < BOARDS; i++)
        put_left(out, warp->boards_array[i], now);
    for (int64_t i = BOARDS; i < 2 * BOARDS; i++)
        put(out, relative(most(warp->boards_array[i], now), now, accesses));
    for (int64_t i = 0; i < warp->items; i++)
        if (warp->turns_array[i]) {
            put(out, i);
            put(out, warp->turns_array[i]);
        }
    put(out, -1);
    for (int64_t i = warp->upkeep_seen; i < warp->upkeep_count; i++)
        put(out, warp->upkeep_array[i] - 2 * now);
    put(out, -1);
    put(out, warp->line);
    if (warp->line < 0)
        return;
    put(out, warp->lines_end);
    put_ahead(out, warp->requests, now);
    put_ahead(out, warp->redirected, now);
    put(out, warp->target);
    put(out, warp->asked);
    put(out, warp->returned);
    for (int64_t line = warp->line; line < warp->lines_end; line++)
        put_left(out, warp->lines_array[line % LINES], now);
}

/* What the policy remembers, as `SubCore.remembered` has it. */
static void remembered(const Sm *sm, const Core *core, Out *out) {
    put(out, sm->policy == OLDEST ? 0 : core->favourite);
    if (!hinted(sm))
        return;
    put(out, least(sm->now - core->turned, core->greedy));
    int64_t running = 0;
    for (int64_t i = 0; i < core->warps; i++)
        running += !core->warps_array[i]->done;
    for (int64_t i = 0; i < core->warps; i++) {
        const Warp *warp = core->warps_array[i];
        int64_t decides = core->counting ? warp->counted : 0;
        for (int64_t j = 0; j < core->warps && !core->counting; j++)
            decides += older(core, j, i); /* warps whose last instruction is older */
        put(out, running < 2 ? 0 : decides);
        put(out, warp->gives_way);
    }
    for (int64_t issue = running < 2 ? core->issues_made : core->issues_seen; issue < core->issues_made; issue++) {
        const int64_t *at = core->recent_array + 2 * (issue & (core->room - 1));
        put(out, sm->now - at[0]);
        put(out, at[1]);
    }
    put(out, -1);
}

static void reading_state(const Sm *sm, const Core *core, Out *out, int64_t now) {
    for (int64_t i = 0; core->addressed && i < core->warps; i++) {
        const Warp *warp = core->warps_array[i];
        if (warp->done || warp->line < 0)
            continue;
        if (warp->stands < 0) {
            put(out, -1);
            continue;
        }
        put(out, warp->stands & 1);
        put(out, warp->reads - warp->stands);
        put(out, least(warp->reads - warp->landed, sm->line_room));
        for (int64_t place = warp->stands; place < warp->reads; place++)
            put(out, most(warp->there_array[place % sm->line_room] - now, -1));
        for (int64_t place = warp->reads; place < warp->stands + sm->line_room; place++) {
            int64_t freed = warp->freed_array[place % sm->line_room];
            put(out, freed / FLAGS >= now ? freed % FLAGS + FLAGS : freed & QUIET);
        }
    }
}

static void core_state(const Sm *sm, const Core *core, Out *out) {
    int64_t now = sm->now, oldest = NEVER;
    for (int64_t i = 0; i < core->warps; i++) {
        const Warp *warp = core->warps_array[i];
        if (!warp->done && !warp->blocked)
            oldest = least(oldest, warp->last);
    }
    if (oldest == NEVER)
        oldest = now;
    put(out, core->tick == NEVER ? -1 : core->tick - now);
    put(out, most(core->last_issue - now, -1));
    put(out, core->last_issue >= now ? core->issues : 0);
    remembered(sm, core, out);
    int matters = core->free_array[sm->tensor] + sm->unlike_margin > oldest;
    put(out, matters ? core->result_until : -1);
    put(out, matters ? core->dense : -1);
    put_left(out, core->reads_until, now);
    put(out, core->reads_until >= now ? core->accessed : 0);
    put(out, core->reads_until >= now ? core->reader : -1);
    put(out, core->stores);
    put_left(out, core->ports_until, now);
    put_left(out, core->metadata_until, now);
    for (int64_t i = 0; i < sm->others; i++) {
        const int64_t *other = core->others_array + 3 * i;
        int counts = other[0] + sm->unlike_margin > oldest;
        put(out, counts ? other[0] - now : NEVER);
        put(out, counts ? other[1] : -1);
        put(out, counts ? other[2] : -1);
    }
    put(out, core->free_array[sm->tensor] > now ? core->spare : 0);
    for (int64_t unit = 0; unit < sm->units; unit++) {
        int64_t cycle = core->free_array[unit];
        if (cycle + sm->unlike_margin > oldest)
            put_ahead(out, cycle, now);
        else
            put(out, NEVER);
    }
    put_left(out, core->half_free, now);
    put_left(out, core->fetch_free, now);
    put(out, core->fetcher);
    reading_state(sm, core, out, now);
    if (!core->depth)
        return;
    put(out, core->frozen);
    for (int64_t i = 0; i < STAGE * core->depth; i++) {
        int64_t number = core->stages_array[i];
        if (i % STAGE >= FROM && i % STAGE < PROGRAM)
            put_left(out, number, now);
        else
            put(out, number);
    }
    for (int64_t i = 0; i < SLOTS * BANKS + 2; i++)
        put(out, core->kept_array[i]);
    for (int64_t i = 0; i < READER * core->reading; i++)
        put(out, core->readers_array[i]);
    put(out, NO_MORE);
}

/* `Ring.words`. */
static void put_sending(Out *out, const Sending *access, int64_t now) {
    put(out, access->until - now);
    put(out, access->values);
    put(out, access->warp);
    put(out, access->pc);
    put(out, access->soonest - now);
    put(out, access->read - now);
}

static void banked_state(const Sm *sm, const Core *core, Out *out) {
    int64_t now = sm->now;
    put_left(out, core->last_read + sm->port_cycles, now);
    put(out, core->deferred);
    for (int64_t number = core->accesses_read; number < core->accesses_made; number++) {
        const Sending *access = sending_at(sm, core, number);
        put(out, access->arrives - now);
        put(out, access->next - now);
        put(out, access->left);
        put(out, access->banks);
        put_sending(out, access, now);
    }
    put(out, NO_MORE);
}

static void queue_state(const Sm *sm, int64_t cta, Out *out) {
    int64_t each = sm->cores / sm->sms;
    put_left(out, sm->left_array[cta], (sm->now - sm->lag) * sm->returns);
    put(out, sm->last_written_array[cta]);
    put(out, sm->on_way_count_array[cta]);
    for (int64_t i = 0; i < sm->on_way_count_array[cta]; i++) {
        const Register *found = on_way_of(sm, cta) + i;
        put(out, found->core);
        put(out, found->warp);
        put(out, found->pc);
        put(out, found->bank);
        put(out, found->place);
        put(out, found->final);
        put(out, found->ready - NEVER - sm->cores_array[found->core]->accesses_made);
        put(out, found->soonest - sm->now * sm->returns);
        put(out, found->slot - sm->now * sm->returns);
    }
    put(out, sm->waits_array[cta]);
    int64_t since = sm->now - sm->lag - sm->begun_array[cta];
    put(out, since == 0 || since == 1);
    int64_t ordered[sm->senders];
    for (int64_t i = 0; i < sm->senders; i++) {
        int64_t until = sm->senders_array[cta * sm->senders + i], at = i;
        for (; at > 0 && ordered[at - 1] > until; at--)
            ordered[at] = ordered[at - 1];
        ordered[at] = until;
    }
    for (int64_t i = 0; i < sm->senders; i++)
        put_left(out, ordered[i], sm->now - sm->lag);
    for (int64_t i = cta * each; i < cta * each + each; i++) {
        int64_t taken = 0, granted = 0; /* sub-cores that were so before */
        for (int64_t j = cta * each; j < cta * each + each; j++) {
            taken += sm->cores_array[j]->taken_at < sm->cores_array[i]->taken_at;
            granted += sm->cores_array[j]->granted_at < sm->cores_array[i]->granted_at;
        }
        put(out, taken);
        put(out, granted);
    }
    for (int64_t place = 0; place < sm->waits_array[cta]; place++) {
        Head head = waiting_at(sm, cta, place);
        put(out, head.access->core);
        put(out, head.access->warp);
        put(out, head.access->pc);
        put(out, head.access->count);
        put(out, head.access->ready - NEVER - head.core->accesses_made);
        put(out, head.access->passed);
        put_left(out, head.access->behind, sm->now - sm->lag);
    }
}

static void shared_state(const Sm *sm, Out *out) {
    int64_t now = sm->now, then = now - sm->lag;
    for (int64_t cta = 0; cta < sm->sms; cta++) {
        const uint8_t *taken = sm->taken_array + cta * sm->window - sm->first_array[cta];
        put_left(out, sm->taken_until_array[cta], most(then, 0) * sm->wavefronts);
        for (int64_t slot = most(then, 0) * sm->wavefronts; slot < sm->taken_until_array[cta]; slot++)
            put(out, taken[slot]);
    }
    for (int64_t cta = 0; cta < sm->sms; cta++)
        queue_state(sm, cta, out);
    for (int64_t i = 0; i < sm->cores; i++) {
        const Core *core = sm->cores_array[i];
        int64_t waiting = least(core->accesses_made, sm->queue - 1);
        put(out, waiting);
        put(out, core->accesses_made - core->accesses_taken);
        for (int64_t made = core->accesses_made - waiting; made < core->accesses_made; made++)
            put_left(out, sending_at(sm, core, made)->begin + sm->queue_latency, now);
        for (int64_t made = core->accesses_taken; made < core->accesses_made; made++) {
            put(out, sending_at(sm, core, made)->soonest - now);
            put(out, sending_at(sm, core, made)->count);
            put_left(out, sending_at(sm, core, made)->behind, then);
        }
    }
    for (int64_t i = 0; i < sm->cores; i++) {
        const Core *core = sm->cores_array[i];
        if (core->depth) {
            banked_state(sm, core, out);
            continue;
        }
        put_left(out, core->port_until, now);
        put_left(out, core->port_stores, now);
        put_left(out, core->port_loads, now);
        for (int64_t number = oldest_sending(sm, core); number < core->accesses_made; number++) {
            const Sending *access = sending_at(sm, core, number);
            if (access->until <= now - sm->port_delay)
                continue;
            put(out, access->begin - now);
            put_sending(out, access, now);
        }
        put(out, NO_MORE);
    }
    for (int64_t i = 0; i < sm->warps; i++)
        put_left(out, sm->turn_array[i], then);
    for (int64_t i = 0; i < sm->warps; i++)
        put_left(out, sm->behind_array[i], then);
    for (int64_t i = 0; i < sm->warps; i++)
        put(out, sm->between_array[i]);
}

/* `Returns.state`. */
static void returns_state(Sm *sm, int64_t cta, Out *out) {
    int64_t each = sm->cores / sm->sms, waiting = 0;
    settle_returns(sm, cta, sm->now);
    for (int64_t i = 0; i < sm->warps; i++)
        waiting += is_under_way(sm->warps_array[i], cta);
    put(out, waiting);
    for (int64_t i = cta * each; i < cta * each + each; i++) {
        int64_t before_it = 0;
        for (int64_t j = cta * each; j < cta * each + each; j++)
            before_it += sm->cores_array[j]->return_taken < sm->cores_array[i]->return_taken;
        put(out, before_it);
    }
    for (int64_t i = cta * each; i < cta * each + each; i++)
        put_left(out, sm->cores_array[i]->return_taken + sm->return_again, sm->now);
    for (int64_t i = 0; i < sm->warps; i++) {
        const Warp *warp = sm->warps_array[i];
        if (!is_under_way(warp, cta))
            continue;
        put(out, warp->place);
        put(out, warp->return_issued - sm->now);
        put(out, least(warp->return_taken - sm->now, 0));
    }
    for (int64_t i = 0; i < sm->warps; i++)
        if (sm->warps_array[i]->cta == cta) {
            const Warp *warp = sm->warps_array[i];
            put_left(out, warp->return_taken + behind_step(sm, warp) + 1, sm->now);
            put_left(out, reads_until(sm, warp) + 1, sm->now);
            put_left(out, warp->return_served + warp->return_late + sm->return_interval, sm->now);
        }
}

/* Writes the state into `words`; returns its length, which may be more than there is room for; -1 if Python must first
 * go on deciding what is served. */
int64_t tcsim_engine_state(Sm *sm, int64_t *words, int64_t capacity) {
    Out out = {words, 0, capacity};
    remember(sm);
    for (int64_t i = 0; i < sm->cores; i++)
        settle(sm, sm->cores_array[i], sm->now);
    for (int64_t i = 0; i < sm->sms; i++) {
        if (!serve_accesses(sm, i, sm->now))
            return -1;
        write_registers(sm, i, sm->now);
    }
    shared_state(sm, &out);
    for (int64_t i = 0; i < sm->sms; i++)
        returns_state(sm, i, &out);
    for (int64_t i = 0; i < sm->cores; i++)
        core_state(sm, sm->cores_array[i], &out);
    for (int64_t i = 0; i < sm->warps; i++)
        warp_state(sm, sm->warps_array[i], sm->cores_array[sm->warps_array[i]->core]->accesses_made, &out);
    return out.length;
}

/* `SubCore.settle`, up to the present cycle. */
void tcsim_engine_settle(Sm *sm, int64_t core) {
    remember(sm);
    settle(sm, sm->cores_array[core], sm->now);
}

/* `Slots.last_of`. */
int64_t tcsim_engine_place(Sm *sm, int64_t cta, int64_t soonest, int64_t count) {
    int64_t first, last;
    place(sm, cta, soonest, count, TAKEN, 1, &first, &last);
    return last;
}

/* `SharedMemory.drain`; returns early where Python must go on. */
void tcsim_engine_drain(Sm *sm) {
    remember(sm);
    for (int64_t i = 0; i < sm->sms; i++)
        while (sm->serve_tick_array[i] < NEVER) {
            sm->now = most(sm->now, sm->serve_tick_array[i]);
            if (!serve_accesses(sm, i, sm->serve_tick_array[i]))
                return;
        }
}
