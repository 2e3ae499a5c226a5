/* windlass.h: the whole pool for C.
 *
 *     windlass_pool *pool;
 *     windlass_task *task;
 *     void *result;
 *     if (windlass_pool_create(NULL, &pool)) puts(windlass_last_error());
 *     windlass_spawn(pool, work, &item, NULL, &task);
 *     windlass_task_wait(task, &result);
 *     windlass_task_release(task);
 *     windlass_pool_destroy(pool);
 *
 * Link with -lwindlass. C11, or C++ from C++11 on; for C++20 windlass.hpp says the same in C++.
 *
 * Handles    windlass_pool *, windlass_task * and so on are numbers that are looked up, never addresses that are
 *            followed: do not follow them either. NULL is none. Each must be given back by the function that says so. A
 *            handle that was given back answers WINDLASS_STALE, a value that never was one WINDLASS_INVALID.
 * Threads    Every function may be called by any thread at any time, also by tasks and handlers, unless it says
 *            otherwise. A call that comes while another thread gives the handle back is served or answers STALE.
 * Ownership  Pointers that are handed to callbacks (`arg`, `user`, items) are the caller's: windlass never follows nor
 *            frees them. When a call answers an error, nothing was done, and no destructor callback is called.
 * Errors     Every function answers a windlass_status, zero for success, and on failure leaves a text for
 *            windlass_last_error. Structs begin with their size: set it to sizeof, and all else to zero for the default.
 *            When the system has no memory left for the library's own structures, the process is ended.
 * Callbacks  run on any thread of the pool, or on one that waits. They must return: one that calls longjmp out of
 *            itself, throws through, or calls pthread_exit ends the process with a message. They may call exit().
 * fork       The child has no workers. There every call on a handle of the parent answers WINDLASS_FORKED, and frees
 *            nothing; the parent notices nothing. A child whose parent was inside no call of this library while it was
 *            forked may make pools of its own.
 * dlopen     The shared library stays loaded once it was loaded; dlclose does nothing to it.
 * Signals    Workers block all signals but those that the thread itself causes (SIGSEGV and the like): handlers run on
 *            the program's own threads.
 */
#ifndef WINDLASS_H
#define WINDLASS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The header's own version, to be compared with windlass_abi_version(). */
#define WINDLASS_ABI_VERSION 1

/* Bytes of a closure that windlass_spawn_closure and windlass_spawn_bytes have room for. */
#define WINDLASS_INLINE_SIZE 64

typedef struct windlass_pool windlass_pool;
typedef struct windlass_task windlass_task;
typedef struct windlass_group windlass_group;
typedef struct windlass_graph windlass_graph;
typedef struct windlass_burst windlass_burst;
typedef struct windlass_token windlass_token;

/* ---- Status ------------------------------------------------------------------------------------------------------ */

typedef enum windlass_status {
    WINDLASS_OK = 0,
    WINDLASS_INVALID = 1,   /* an argument cannot be used: NULL, out of range, of another kind or another pool */
    WINDLASS_STALE = 2,     /* the handle was given back before */
    WINDLASS_CLOSED = 3,    /* the pool is being shut down, and takes tasks from its own tasks only */
    WINDLASS_TIMEOUT = 4,   /* it has not ended in that time */
    WINDLASS_CANCELLED = 5, /* the task was cancelled before it began */
    WINDLASS_BUSY = 6,      /* somebody else uses it just now */
    WINDLASS_DEADLOCK = 7,  /* the call would wait for its own end */
    WINDLASS_ENDED = 8,     /* too late: the task has begun, or has ended */
    WINDLASS_NO_THREAD = 9, /* the system gave no thread */
    WINDLASS_REFUSED = 10,  /* no worker of the burst could take the item */
    WINDLASS_GRAPH = 11,    /* the graph cannot be sealed, or is in the wrong state: the text says why */
    WINDLASS_FORKED = 12,   /* the handle belongs to the process that this one was forked from */
    WINDLASS_INTERNAL = 13  /* a limit of the pool, or a mistake in it: the text says which */
} windlass_status;

/* The name of a status, "WINDLASS_STALE"; "unknown" for any other number. Never NULL. */
const char *windlass_status_name(int status);

/* What was wrong in the last call of this thread that failed: what was tried, what was found. "" if none has. Valid
 * until the next failure on this thread. Never NULL. */
const char *windlass_last_error(void);

/* ---- Version ----------------------------------------------------------------------------------------------------- */

/* The version of the library, "0.1.0". */
const char *windlass_version(void);

/* WINDLASS_ABI_VERSION of the library. It is counted up when older programs would not work any more; new functions, and
 * new fields at the end of structs, leave it. */
unsigned windlass_abi_version(void);

/* What windlass_struct_size is asked for. */
typedef enum windlass_struct {
    WINDLASS_POOL_CONFIG = 0,
    WINDLASS_COUNTERS = 1,
    WINDLASS_SHUTDOWN_REPORT = 2,
    WINDLASS_TASK_OPTIONS = 3,
    WINDLASS_GRAPH_REPORT = 4,
    WINDLASS_BURST_CONFIG = 5,
    WINDLASS_INLINE = 6,
    WINDLASS_CLOSURE = 7
} windlass_struct;

/* How large the library takes a struct to be, in bytes; 0 for one it does not know. A program's struct may be smaller or
 * larger: fields the library does not know must be zero. */
size_t windlass_struct_size(int which);

/* ---- Pools ------------------------------------------------------------------------------------------------------- */

#define WINDLASS_NO_SPIN 0xFFFFFFFFu

/* How a pool is set up. Zero is the default of every field but the first. */
typedef struct windlass_pool_config {
    size_t size;           /* sizeof(windlass_pool_config) */
    unsigned threads;      /* 1 to 1024; default: as many as the process may run at a time, by quota and affinity */
    unsigned spin_ns;      /* how long a worker looks for work before it sleeps, at most 1,000,000; WINDLASS_NO_SPIN: not
                              at all; default: 5,000, or not at all with more workers than processors */
    size_t stack_size;     /* bytes of each worker's stack, 65,536 or more; default: 2 MiB */
    size_t task_count_max; /* tasks that may be queued, running, or ended and not released, 1 to 2^28; default: 65,536.
                              Beyond it spawning runs tasks on the caller's thread first */
    const char *name;      /* what the threads are called, UTF-8, copied; default: "windlass" */
    void (*on_thread_start)(void *user, unsigned worker); /* on each worker, before its first task */
    void (*on_thread_end)(void *user, unsigned worker);   /* on each worker, after its last task */
    void (*on_destroyed)(void *user); /* when the pool has gone, on the thread that has taken it down */
    void *user;                       /* for these three */
    uint64_t seed;                    /* with is_deterministic: which order */
    int is_deterministic; /* not 0: no threads; tasks run on the threads that wait, one at a time, in an order that
                             follows from the seed. For tests that must repeat */
    int reserved;
} windlass_pool_config;

/* Starts a pool. `config` may be NULL: all as usual.
 *
 * INVALID names the setting; NO_THREAD says how many threads the system gave; on both *pool is NULL and nothing is left
 * behind. Give it back by windlass_pool_destroy or windlass_pool_shutdown. Cost: some 20 microseconds a thread. */
windlass_status windlass_pool_create(const windlass_pool_config *config, windlass_pool **pool);

/* Stops accepting tasks from outside, runs all that were spawned, those that they spawn too, ends the threads, frees.
 *
 * Calls of other threads that are under way are waited for. Inside a task of the pool it returns at once, and the pool
 * goes when its last task has run. Prepared tasks that were not scheduled never run: release them. Blocks until then. */
windlass_status windlass_pool_destroy(windlass_pool *pool);

typedef enum windlass_shutdown_mode {
    WINDLASS_DRAIN = 0,         /* everything that was spawned runs */
    WINDLASS_CANCEL_QUEUED = 1, /* tasks that have not begun are cancelled; those that run are waited for */
    WINDLASS_ABANDON = 2        /* as before, but nobody waits */
} windlass_shutdown_mode;

typedef struct windlass_shutdown_report {
    size_t size;        /* sizeof(windlass_shutdown_report) */
    uint64_t cancelled; /* tasks that were cancelled so far */
    int is_finished;    /* not 0: every thread has ended */
    int reserved;
} windlass_shutdown_report;

/* Ends the pool in one of these ways, and waits for up to `timeout_ms`. The handle is spent, whatever is answered but
 * INVALID, STALE, DEADLOCK, FORKED, NO_THREAD: after TIMEOUT the pool ends by itself when its tasks have.
 *
 * `report` may be NULL. Tasks of thread_pool_submit (pool.h) are never cancelled. DEADLOCK inside a task of the pool. */
windlass_status windlass_pool_shutdown(windlass_pool *pool, int mode, uint64_t timeout_ms,
                                       windlass_shutdown_report *report);

/* How many workers it has. */
windlass_status windlass_pool_thread_count(windlass_pool *pool, unsigned *count);

/* The number of the calling worker in its pool, counted from 0; -1 on a thread that is no worker. Two tasks that run at
 * the same time on workers of one pool see different numbers. Cost: a nanosecond. */
int windlass_worker_index(void);

typedef struct windlass_counters {
    size_t size;      /* sizeof(windlass_counters) */
    uint64_t run;     /* tasks it ran */
    uint64_t stolen;  /* of these, those it took from another thread */
    uint64_t offered; /* tasks it queued */
    uint64_t parked;  /* times it went to sleep */
    uint64_t woken;   /* times it was woken for work */
} windlass_counters;

/* What one worker has done since the pool was made. INVALID if there is no such worker. */
windlass_status windlass_pool_counters(windlass_pool *pool, unsigned worker, windlass_counters *counters);

/* Waits until nothing is queued and nobody runs anything. Does not run tasks itself, but in a deterministic pool.
 * DEADLOCK inside a task of the pool. Blocks until then. */
windlass_status windlass_wait_idle(windlass_pool *pool);

/* Runs tasks, or sleeps, until predicate(user) is not 0. It is asked after every task this thread runs, and at least
 * every millisecond, on this thread; it should be cheap and must not wait. May be called inside tasks. */
windlass_status windlass_wait_until(windlass_pool *pool, int (*predicate)(void *user), void *user);

/* Calls function(arg) here. Waits inside it run nothing but what was spawned inside it: so a lock that is held across a
 * wait is not asked for again by a task that the wait happens to run. */
windlass_status windlass_isolate(windlass_pool *pool, void (*function)(void *arg), void *arg);

/* Calls function(arg) here, which may block: another thread takes this worker's place in its pool meanwhile. On a thread
 * that is no worker it is just called. Cost: some microseconds, and a thread's start if none is at hand. */
windlass_status windlass_blocking(void (*function)(void *arg), void *arg);

/* Is shown a text of `len` bytes, UTF-8 without a zero at its end, that is there until it returns. */
typedef void (*windlass_write)(void *user, const char *text, size_t len);

/* Begins to note which task runs when: at most 65,536 for each thread. */
windlass_status windlass_trace_start(windlass_pool *pool);

/* Ends the noting, and shows what was noted, in the JSON that Perfetto and Chromium's trace viewer open. */
windlass_status windlass_trace_take(windlass_pool *pool, windlass_write write, void *user);

/* ---- Tasks ------------------------------------------------------------------------------------------------------- */

typedef void *(*windlass_function)(void *arg);
typedef void (*windlass_destructor)(void *value);

typedef enum windlass_priority {
    WINDLASS_NORMAL = 0,
    WINDLASS_HIGH = 1, /* looked at before the others */
    WINDLASS_LOW = 2   /* when there is nothing else; every 61st look begins with these, so that none waits for ever */
} windlass_priority;

typedef struct windlass_task_options {
    size_t size;                        /* sizeof(windlass_task_options) */
    windlass_destructor destroy_arg;    /* is given arg exactly once: after the function, or when it will not run */
    windlass_destructor destroy_result; /* is given the result if no wait has taken it when the task is freed */
    int priority;                       /* a windlass_priority */
    int reserved;
    windlass_token *cancel;             /* a token that keeps the task from running, or NULL */
} windlass_task_options;

/* A token cancels any number of tasks at once, those that are made with it (windlass_task_options). Give it back by
 * windlass_token_destroy: tasks that were made with it keep what they need of it. */
windlass_status windlass_token_create(windlass_token **token);

/* Tasks with the token that have not begun will not run: their destroy_arg is called when they are reached, and a wait
 * answers CANCELLED. Those that run may ask. For good. */
windlass_status windlass_token_cancel(windlass_token *token);

/* 1 if it is cancelled, 0 if not, -1 on an error. Cost: some 20 ns. */
int windlass_token_is_cancelled(windlass_token *token);

/* Gives the handle back. */
windlass_status windlass_token_destroy(windlass_token *token);

/* Has the pool run function(arg) once. `options` may be NULL.
 *
 * `task` may be NULL: nobody will ask. Otherwise it is a handle to wait for the task, to be given back by
 * windlass_task_release. Cost: some 20 ns without options and handle, some 60 ns with; nothing is allocated once the
 * pool has grown. */
windlass_status windlass_spawn(windlass_pool *pool, windlass_function function, void *arg,
                               const windlass_task_options *options, windlass_task **task);

/* What the closures of one kind have in common: a constant of the program, which stays as long as the pool. */
typedef struct windlass_closure {
    size_t size;                          /* how many bytes one has, at most WINDLASS_INLINE_SIZE */
    void (*build)(void *place, void *from); /* builds one at `place`, aligned to 16, from what the caller has passed */
    void (*run)(void *closure);           /* runs it once, and destroys it */
    void (*destroy)(void *closure);       /* instead of `run`, when a shutdown cancels it; may be NULL */
} windlass_closure;

/* Has the pool run a closure once, which is built where it will lie: kind->build(place, from) is called here, before the
 * call returns, if it answers OK. It must return, and not throw. Nobody can ask for the closure again.
 *
 * Allocates nothing once the pool has grown. Cost: as windlass_spawn_bytes, and a call. */
windlass_status windlass_spawn_closure(windlass_pool *pool, const windlass_closure *kind, void *from);

/* Has the pool run `run` once on a copy of `len` bytes, at most WINDLASS_INLINE_SIZE. The copy is aligned to 16.
 *
 * For closures that may be moved by copying their bytes, and need no destructor: if the task is cancelled by a shutdown,
 * none is called. Allocates nothing once the pool has grown. Cost: some 20 ns. */
windlass_status windlass_spawn_bytes(windlass_pool *pool, const void *bytes, size_t len, void (*run)(void *bytes));

/* A task that does not run before it is scheduled; until then it can be tied to others. Otherwise as windlass_spawn.
 *
 * Releasing it unscheduled cancels it. INTERNAL when the pool has task_count_max tasks and can free none here. */
windlass_status windlass_prepare(windlass_pool *pool, windlass_function function, void *arg,
                                 const windlass_task_options *options, windlass_task **task);

/* Has `next`, prepared and not scheduled, run after `before` has ended, however it ended. Any number may follow one, and
 * one may follow any number. `before` may be prepared, running, or ended.
 *
 * INVALID for tasks of two pools, or a task with itself; BUSY while a thread waits for `before`; INTERNAL as
 * windlass_prepare, for a tie takes the room of a task until `before` has ended. */
windlass_status windlass_task_continue_with(windlass_task *before, windlass_task *next);

/* Has `parent` be done only when `child`, prepared and not scheduled, has ended too. Any number of children and parents.
 *
 * ENDED when the parent has ended already; otherwise as windlass_task_continue_with, but the first tie takes no room. */
windlass_status windlass_task_finish_with(windlass_task *child, windlass_task *parent);

/* Queues a prepared task: it runs as soon as what it follows has ended. INVALID if it is not prepared. */
windlass_status windlass_task_schedule(windlass_task *task);

/* Waits until the task has ended, and gives what its function returned; `result` may be NULL.
 *
 * The handle stays. With a place for it the result belongs to the caller from then on; every wait gives the same one.
 * A task that has not begun may be run right here; a worker runs others meanwhile. CANCELLED if it did not run;
 * DEADLOCK inside the task itself; INVALID if it was not scheduled. Several threads may wait: the first is woken at
 * once, the others look every millisecond at least. */
windlass_status windlass_task_wait(windlass_task *task, void **result);

/* As windlass_task_wait, for at most `timeout_ms`, running nothing meanwhile. TIMEOUT if it has not ended by then. */
windlass_status windlass_task_wait_timeout(windlass_task *task, uint64_t timeout_ms, void **result);

/* 1 if the task has ended or was cancelled, 0 if not, also while another thread waits for it, -1 on an error. */
int windlass_task_is_done(windlass_task *task);

/* Keeps the task from running; destroy_arg is called here. What waits for it or follows it goes on.
 * ENDED if it has begun, has ended, or was cancelled before. */
windlass_status windlass_task_cancel(windlass_task *task);

/* Gives the handle back. A task that was scheduled goes on without it; one that was not is cancelled. */
windlass_status windlass_task_release(windlass_task *task);

/* ---- Structured work --------------------------------------------------------------------------------------------- */

/* Runs a(a_arg) here and b(b_arg) at the same time if somebody is free, and returns when both have ended. May be nested
 * to any depth. Cost: some 30 ns. */
windlass_status windlass_join(windlass_pool *pool, void (*a)(void *), void *a_arg, void (*b)(void *), void *b_arg);

/* Calls body(user, first, last) with pieces first..last (last excluded) that together are begin..end, on all threads that
 * are free, and returns when all have ended. `grain` is how many items a piece has, the last one maybe fewer; 0 lets the
 * library choose 1 to 1,024. May be nested. Cost: that of a plain loop over pieces when nobody is free. */
windlass_status windlass_for(windlass_pool *pool, size_t begin, size_t end, size_t grain,
                             void (*body)(void *user, size_t first, size_t last), void *user);

/* A group: tasks that are waited for together. It may be used again after a wait. Give it back by
 * windlass_group_destroy. */
windlass_status windlass_group_create(windlass_pool *pool, windlass_group **group);

/* Has the pool run function(arg) once, as part of the group. Tasks of the group may spawn into it. */
windlass_status windlass_group_spawn(windlass_group *group, void (*function)(void *arg), void *arg);

/* Runs tasks, or sleeps, until every task of the group has ended. DEADLOCK inside a task of the group. */
windlass_status windlass_group_wait(windlass_group *group);

/* Keeps the group's tasks that have not begun from running, for good. */
windlass_status windlass_group_cancel(windlass_group *group);

/* Waits for the group's tasks, and gives the handle back. DEADLOCK inside a task of the group. */
windlass_status windlass_group_destroy(windlass_group *group);

/* ---- Graphs ------------------------------------------------------------------------------------------------------ */

/* A graph is built once, sealed, and then run any number of times. Nodes are numbered from 0. While it is built, one
 * thread at a time may use it well: others wait. */
windlass_status windlass_graph_create(windlass_graph **graph);

/* Adds a node that calls function(arg) in each run. A NULL function does nothing: for many to come before many. `node`
 * is told its number; it may be NULL. GRAPH when the graph is sealed. Cost: 40 bytes with one edge. */
windlass_status windlass_graph_add(windlass_graph *graph, void (*function)(void *arg), void *arg, uint32_t *node);

/* Adds a condition: what it returns is the number of the successor that runs next, in the order in which its edges were
 * added; beyond the last one, none does. It may lead back to nodes before it. */
windlass_status windlass_graph_add_condition(windlass_graph *graph, size_t (*function)(void *arg), void *arg,
                                             uint32_t *node);

/* Has one node run before another. */
windlass_status windlass_graph_precede(windlass_graph *graph, uint32_t before, uint32_t after);

/* Adds `count` nodes, which call function(args[0]), function(args[1]) and so on; `first` is told the number of the first,
 * and the others follow. Cost: a tenth of as many calls. */
windlass_status windlass_graph_add_all(windlass_graph *graph, void (*function)(void *arg), void *const *args,
                                       size_t count, uint32_t *first);

typedef struct windlass_edge {
    uint32_t before;
    uint32_t after;
} windlass_edge;

/* Adds `count` edges. When one of them cannot be, none is added. */
windlass_status windlass_graph_precede_all(windlass_graph *graph, const windlass_edge *edges, size_t count);

/* Calls a node by a name, UTF-8, copied: in errors. */
windlass_status windlass_graph_name(windlass_graph *graph, uint32_t node, const char *name);

/* Checks the graph and lays it out. GRAPH names the nodes that wait for each other, or what else is wrong; the graph is
 * of no use then but to be destroyed. Cost: some 20 ns a node. */
windlass_status windlass_graph_seal(windlass_graph *graph);

typedef struct windlass_graph_report {
    size_t size;      /* sizeof(windlass_graph_report) */
    uint64_t runs;    /* how often it was run */
    uint64_t skipped; /* nodes that did not run the last time: cancelled, or after one that was */
    int is_cancelled; /* not 0: the last run was cancelled as a whole */
    int reserved;
} windlass_graph_report;

/* Runs a sealed graph `count` times, one after the other, and waits; this thread takes part. `report` may be NULL.
 *
 * BUSY when it is being run, also by a node of it. A run that is cancelled is the last. Allocates nothing. Cost: some
 * 50 ns, and 2 to 30 ns a node. */
windlass_status windlass_graph_run(windlass_graph *graph, windlass_pool *pool, uint64_t count,
                                   windlass_graph_report *report);

/* Keeps a node, and all that comes after it, from running, in this run if it has not begun and in all later ones. */
windlass_status windlass_graph_cancel(windlass_graph *graph, uint32_t node);

/* Cancels the run that goes on, if there is one: nodes that have not begun do not run. */
windlass_status windlass_graph_cancel_run(windlass_graph *graph);

/* Shows a sealed graph in the DOT language, by the names of its nodes. */
windlass_status windlass_graph_dot(windlass_graph *graph, windlass_write write, void *user);

/* Has all nodes run again that were cancelled. BUSY when it is being run. */
windlass_status windlass_graph_reset(windlass_graph *graph);

/* Gives the handle back; a run that goes on ends first, and keeps the graph until then. */
windlass_status windlass_graph_destroy(windlass_graph *graph);

/* ---- Bursts ------------------------------------------------------------------------------------------------------ */

/* A burst has threads of its own, each with its own handler, that sleep until something is sent: for a thing to do at
 * once, several times a second. As few are woken as the work needs. Items are pointers of the caller's. */
typedef struct windlass_burst_config {
    size_t size;       /* sizeof(windlass_burst_config) */
    size_t stack_size; /* bytes of each worker's stack; default: 2 MiB */
    const char *name;  /* what the threads are called, UTF-8, copied; default: "burst" */
} windlass_burst_config;

typedef void (*windlass_handler)(void *user, void *item);

/* A burst without workers. `config` may be NULL. Give it back by windlass_burst_destroy. */
windlass_status windlass_burst_create(const windlass_burst_config *config, windlass_burst **burst);

/* Starts a worker that calls handler(user, item) for each item it takes. `destroy_user` may be NULL; it is given `user`
 * when the worker has ended, and also on NO_THREAD. `worker` is told the number, from 0; it may be NULL. */
windlass_status windlass_burst_add_worker(windlass_burst *burst, windlass_handler handler, void *user,
                                          windlass_destructor destroy_user, unsigned *worker);

/* Sends an item to whoever is free first. REFUSED when there are no workers. */
windlass_status windlass_burst_send(windlass_burst *burst, void *item);

/* Sends `count` items: all are there before the first sleeper is woken. REFUSED when there are no workers. */
windlass_status windlass_burst_send_all(windlass_burst *burst, void *const *items, size_t count);

/* Sends an item if somebody is idle now, else REFUSED. */
windlass_status windlass_burst_offer(windlass_burst *burst, void *item);

/* Sends an item to this worker and no other. REFUSED when there is no such worker. */
windlass_status windlass_burst_dispatch_to(windlass_burst *burst, unsigned worker, void *item);

/* Sends the item to every worker there is now. REFUSED when there are none. */
windlass_status windlass_burst_broadcast(windlass_burst *burst, void *item);

/* Calls function(arg) here, and keeps the workers awake until it returns: what is sent meanwhile wakes nobody, for nobody
 * sleeps. It costs the processors that they are on. May be nested. */
windlass_status windlass_burst_while_hot(windlass_burst *burst, void (*function)(void *arg), void *arg);

/* Waits until everything was handled that was sent. DEADLOCK inside a handler of the burst. */
windlass_status windlass_burst_wait_idle(windlass_burst *burst);

/* Has everything handled that was sent, ends the workers, gives the handle back. Inside a handler it returns at once. */
windlass_status windlass_burst_destroy(windlass_burst *burst);

#ifdef __cplusplus
}
#endif

#endif
