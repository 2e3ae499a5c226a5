/* The task of `adds`, and the plain pool of C that it is compared on. */
#ifndef TASKS_H
#define TASKS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Forgets what was counted. */
void adds_begin(void);

/* A hundred additions; counted. */
void *adds(void *arg);

/* How many tasks have run. */
size_t adds_done(void);

/* A queue for each thread, with a mutex and a condition; tasks are dealt out in turn. */
typedef struct queue_pool queue_pool;
queue_pool *queue_pool_create(int thread_count);
int queue_pool_submit(queue_pool *pool, void *(*function)(void *), void *arg);
/* Runs what was submitted, and ends the threads. */
void queue_pool_destroy(queue_pool *pool);

#ifdef __cplusplus
}
#endif

#endif
