/* A loop of frames. Short jobs of each frame go to a burst, whose threads sleep in between. The physics, which wants an
 * enqueue and a finish function as Box2D and enkiTS users write them, gets the pool. */
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "windlass.h"

/* What an engine declares. */
typedef void range_task(int begin, int end, uint32_t worker, void *context);

typedef struct {
    windlass_pool *pool;
    unsigned threads;
    range_task *task;
    void *context;
    int count, grain;
} ranges;

static void run_piece(void *user, size_t first, size_t last) {
    ranges *self = user;
    int worker = windlass_worker_index();
    /* The thread that waits helps: it has the number after the workers'. */
    self->task((int)first, (int)last, worker < 0 ? self->threads : (uint32_t)worker, self->context);
}

static void *run_ranges(void *arg) {
    ranges *self = arg;
    windlass_for(self->pool, 0, (size_t)self->count, (size_t)self->grain, run_piece, self);
    return NULL;
}

static void *enqueue_task(range_task *task, int count, int grain, void *context, void *user) {
    windlass_pool *pool = user;
    windlass_task *handle = NULL;
    ranges *self = malloc(sizeof *self);
    if (self == NULL) return NULL;
    *self = (ranges){pool, 0, task, context, count, grain};
    windlass_pool_thread_count(pool, &self->threads);
    windlass_task_options options = {.size = sizeof options, .destroy_arg = free};
    if (windlass_spawn(pool, run_ranges, self, &options, &handle) != WINDLASS_OK) free(self);
    return handle;
}

static void finish_task(void *handle, void *user) {
    (void)user;
    windlass_task_wait(handle, NULL);
    windlass_task_release(handle);
}

/* The program. */
static atomic_long moved, heard;

static void move_bodies(int begin, int end, uint32_t worker, void *context) {
    (void)worker, (void)context;
    atomic_fetch_add(&moved, end - begin);
}

static void play_sound(void *user, void *item) {
    (void)user;
    atomic_fetch_add(&heard, (intptr_t)item);
}

int main(void) {
    windlass_pool *pool;
    windlass_burst *burst;
    if (windlass_pool_create(NULL, &pool) != WINDLASS_OK || windlass_burst_create(NULL, &burst) != WINDLASS_OK) return 1;
    for (int i = 0; i < 2; i++) windlass_burst_add_worker(burst, play_sound, NULL, NULL, NULL);
    for (int frame = 0; frame < 60; frame++) {
        void *sounds[3] = {(void *)1, (void *)1, (void *)1};
        windlass_burst_send_all(burst, sounds, 3);
        void *physics = enqueue_task(move_bodies, 1000, 64, NULL, pool);
        finish_task(physics, pool);
        windlass_burst_wait_idle(burst);
    }
    windlass_burst_destroy(burst);
    windlass_pool_destroy(pool);
    printf("%ld bodies moved, %ld sounds heard\n", atomic_load(&moved), atomic_load(&heard));
    return 0;
}
