/* pool.h: a thread pool in three functions.
 *
 *     thread_pool_t *pool = thread_pool_create(8);
 *     thread_pool_submit(pool, work, &item);      (1: it will run; 0: it will not)
 *     thread_pool_destroy(pool);                  (returns when everything submitted has run)
 *
 * For waiting, results, cancelling, graphs and more see windlass.h; both headers may be used in one program.
 * Link with -lwindlass.
 *
 * Threads    Every function may be called by any thread at any time, also by tasks of the pool, and while another
 *            thread destroys the pool: then it answers 0, or the task is run before destroy returns.
 * Ownership  `arg` is the caller's, always: the pool neither frees nor copies nor looks at it. It must stay until the
 *            task has run. What a task returns is dropped: it is returned to nobody.
 * Errors     A pool pointer is a number that is looked up, not an address that is followed: NULL, a pool that was
 *            destroyed, and a value that never was a pool are answered by 0 or NULL, and crash nothing.
 *            windlass_last_error() of windlass.h says in words what was wrong.
 *            When the system has no memory left for the small structures of the pool, the process is ended.
 * Tasks      must return. One that calls longjmp out of itself, throws a C++ exception through, or calls
 *            pthread_exit ends the process with a message. exit() may be called: it waits for nothing.
 * fork       The child has no workers: there every call on a pool of the parent answers 0 at once.
 */
#ifndef WINDLASS_POOL_H
#define WINDLASS_POOL_H

#ifdef __cplusplus
extern "C" {
#endif

/* A pool. Only ever used as a pointer. */
typedef struct thread_pool thread_pool_t;

/* Starts a pool of `thread_count` threads, 1 to 1024.
 *
 * Answers NULL when thread_count is zero, negative or above 1024, and when the system gives not that many threads; then
 * none is left behind. Cost: a thread each, some 20 microseconds. */
thread_pool_t *thread_pool_create(int thread_count);

/* Has the pool run function(arg) once, on any of its threads, in any order.
 *
 * Answers 1 if it will be run; 0 if pool or function is NULL, or the pool is being destroyed or was. A task may submit
 * further tasks. Nothing is run here: it may be called with a lock held. Up to 2^28 tasks may be queued, of some 140
 * bytes each; the memory is used again, and freed with the pool. Allocates nothing once the pool has grown. */
int thread_pool_submit(thread_pool_t *pool, void *(*function)(void *), void *arg);

/* Stops accepting tasks, runs every task that was submitted, ends the threads, frees the pool.
 *
 * NULL and a pool that was destroyed are left alone. Called by a task of this very pool it returns at once, and the
 * pool goes when its last task has run. Blocks until everything has run. */
void thread_pool_destroy(thread_pool_t *pool);

#ifdef __cplusplus
}
#endif

#endif
